/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/observe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "share/wire/directory.h"

#define TIMEOUT_DEFAULT_MS 5000

/* Where the sockets are ------------------------------------------------------------------------------------------------------------------ */

static void add_socket(struct observed_sockets *sockets, const char *path)
{
    if (sockets->count == sockets->room) {
        sockets->room = sockets->room ? 2 * sockets->room : 16;
        sockets->items = must(realloc(sockets->items, sockets->room * sizeof sockets->items[0]));
    }
    struct observed_socket *socket = &sockets->items[sockets->count++];
    *socket = (struct observed_socket){.status = WEIR_OK};
    snprintf(socket->path, sizeof socket->path, "%s", path);
}

static void add_sockets(struct observed_sockets *sockets, char (*paths)[SHARE_PATH_SIZE], size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_socket(sockets, paths[i]);
    free(paths);
}

/* Every socket of an export that may be asked: users' own, then those that others connect to. */
static void add_all(struct observed_sockets *sockets)
{
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    share_export_sockets(&paths, &count);
    add_sockets(sockets, paths, count);
    int code = share_sockets_in(SHARE_SYSTEM_DIRECTORY, &paths, &count);
    add_sockets(sockets, paths, count);
    if (code != 0 && code != ENOENT && code != ENOTDIR) {
        struct observed_denial *denial = &sockets->denials[sockets->denial_count++];
        snprintf(denial->path, sizeof denial->path, "%s", SHARE_SYSTEM_DIRECTORY);
        denial->why = strerror(code);
    }
}

weir_status observe_sockets(int count, char *const *operands, weir_error *error, struct observed_sockets *sockets)
{
    struct observed_sockets found = {0};
    char path[SHARE_PATH_SIZE];
    for (int i = 0; i < count; i++) {
        weir_status status = share_path(operands[i], false, false, error, path);
        if (status != WEIR_OK) {
            observe_sockets_free(&found);
            return status;
        }
        add_socket(&found, path);
    }
    if (count == 0)
        add_all(&found);
    *sockets = found;
    return WEIR_OK;
}

static void forget(struct observed_export *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->importers[i].holds);
    free(seen->importers);
    *seen = (struct observed_export){0};
}

void observe_sockets_free(struct observed_sockets *sockets)
{
    for (size_t i = 0; i < sockets->count; i++)
        forget(&sockets->items[i].seen);
    free(sockets->items);
    *sockets = (struct observed_sockets){0};
}

/* Who holds what ------------------------------------------------------------------------------------------------------------------------- */

static void add_importer(struct observed_export *seen, const struct wire_message *message)
{
    if (seen->count == seen->room) {
        seen->room = seen->room ? 2 * seen->room : 8;
        seen->importers = must(realloc(seen->importers, seen->room * sizeof seen->importers[0]));
    }
    struct observed_importer *importer = &seen->importers[seen->count++];
    *importer = (struct observed_importer){
        .pid = message->u.importer.pid,
        .uid = message->u.importer.uid,
        .state = (enum wire_state)message->u.importer.state,
        .leases = message->u.importer.leases,
        .mappings = message->u.importer.mappings,
        .idle_ms = message->u.importer.idle_ms,
    };
    memcpy(importer->name, message->u.importer.name, sizeof importer->name);
}

static void add_hold(struct observed_importer *importer, const struct wire_message *message)
{
    if (importer->hold_count == importer->hold_room) {
        importer->hold_room = importer->hold_room ? 2 * importer->hold_room : 8;
        importer->holds = must(realloc(importer->holds, importer->hold_room * sizeof importer->holds[0]));
    }
    struct observed_hold *hold = &importer->holds[importer->hold_count++];
    *hold = (struct observed_hold){
        .hold = (enum wire_hold)message->u.holds.hold,
        .ring = message->u.holds.ring,
        .sequence = message->u.holds.sequence,
        .block = message->u.holds.block,
        .size = message->u.holds.size,
        .held_ms = message->u.holds.held_ms,
    };
    memcpy(hold->name, message->u.holds.name, sizeof hold->name);
}

static void begin(struct observed_export *seen, const struct wire_message *welcome)
{
    forget(seen);
    seen->pid = welcome->u.welcome.pid;
    seen->epoch = welcome->u.welcome.epoch;
    memcpy(seen->pool, welcome->u.welcome.pool, sizeof seen->pool);
    memcpy(seen->uuid, welcome->u.welcome.uuid, sizeof seen->uuid);
}

static bool take(struct share_query *query, const struct wire_message *message)
{
    struct observed_export *seen = query->data;
    struct observed_importer *latest = seen->count ? &seen->importers[seen->count - 1] : NULL;
    if (message->type == WIRE_WELCOME) {
        begin(seen, message);
    } else if (message->type == WIRE_IMPORTER) {
        add_importer(seen, message);
    } else if (message->type == WIRE_HOLDS) {
        if (!latest || message->u.holds.pid != latest->pid)
            return false;
        add_hold(latest, message);
    }
    return true;
}

/* Asking --------------------------------------------------------------------------------------------------------------------------------- */

void observe_ask(struct observed_sockets *sockets, const struct wire_message *question, unsigned timeout_ms)
{
    struct share_query *queries = must(calloc(sockets->count + 1, sizeof *queries));
    for (size_t i = 0; i < sockets->count; i++)
        queries[i] = (struct share_query){
            .path = sockets->items[i].path, .question = *question, .role = WIRE_ROLE_OBSERVER, .take = take, .data = &sockets->items[i].seen};
    share_queries_run(queries, sockets->count, weir__service_now() + timeout_ms * UINT64_C(1000000), NULL);
    for (size_t i = 0; i < sockets->count; i++) {
        sockets->items[i].status = queries[i].status;
        memcpy(sockets->items[i].text, queries[i].text, sizeof sockets->items[i].text);
    }
    free(queries);
}

/* What both subcommands do --------------------------------------------------------------------------------------------------------------- */

int observe_exit(weir_status status)
{
    if (status == WEIR_OK)
        return EXIT_GOOD;
    return status == WEIR_GONE || status == WEIR_NOT_FOUND ? EXIT_FAILED : EXIT_TROUBLE;
}

unsigned observe_timeout(const struct option_value *option)
{
    return option->given ? (unsigned)(option->seconds * 1000) : TIMEOUT_DEFAULT_MS;
}

void observe_complain_denials(const char *subcommand, const struct observed_sockets *sockets)
{
    for (size_t i = 0; i < sockets->denial_count; i++)
        complain("%s: %s cannot be listed (%s): name the sockets there, or ask as root", subcommand, sockets->denials[i].path,
                 sockets->denials[i].why);
}
