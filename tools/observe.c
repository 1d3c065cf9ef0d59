/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/observe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "share/wire/directory.h"

#define TIMEOUT_DEFAULT_MS 5000

/* Where the sockets are ------------------------------------------------------------------------------------------------------------------ */

static void add_socket(struct observed_sockets *sockets, const char *path)
{
    sockets->items = must_grow(sockets->items, sockets->count, &sockets->room, sizeof sockets->items[0]);
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
    if (code != 0 && code != ENOENT && code != ENOTDIR)
        sockets->unlisted = strerror(code);
}

bool observe_sockets(const char *subcommand, int count, char *const *operands, struct observed_sockets *sockets)
{
    char path[SHARE_PATH_SIZE];
    *sockets = (struct observed_sockets){0};
    for (int i = 0; i < count; i++) {
        weir_error error = WEIR_ERROR_INIT;
        if (share_path(operands[i], false, false, &error, path) != WEIR_OK) {
            complain("%s: %s", subcommand, error.text);
            observe_sockets_free(sockets);
            return false;
        }
        add_socket(sockets, path);
    }
    if (count == 0)
        add_all(sockets);
    return true;
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
    seen->importers = must_grow(seen->importers, seen->count, &seen->room, sizeof seen->importers[0]);
    seen->importers[seen->count++] = (struct observed_importer){.told = message->u.importer};
}

static void add_hold(struct observed_importer *importer, const struct wire_message *message)
{
    importer->holds = must_grow(importer->holds, importer->hold_count, &importer->hold_room, sizeof importer->holds[0]);
    importer->holds[importer->hold_count++] = message->u.holds;
}

static bool take(struct share_query *query, const struct wire_message *message)
{
    struct observed_export *seen = query->data;
    struct observed_importer *latest = seen->count ? &seen->importers[seen->count - 1] : NULL;
    if (message->type == WIRE_WELCOME) {
        forget(seen);
        seen->told = message->u.welcome;
    } else if (message->type == WIRE_IMPORTER) {
        add_importer(seen, message);
    } else if (message->type == WIRE_HOLDS) {
        if (!latest || message->u.holds.pid != latest->told.pid)
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
    share_queries_run(queries, sockets->count, weir__service_now() + timeout_ms * GPU_MILLISECOND);
    for (size_t i = 0; i < sockets->count; i++) {
        sockets->items[i].status = queries[i].status;
        memcpy(sockets->items[i].text, queries[i].text, sizeof sockets->items[i].text);
    }
    free(queries);
}

/* What both subcommands do --------------------------------------------------------------------------------------------------------------- */

unsigned observe_timeout(const struct option_value *option)
{
    return option->given ? (unsigned)(option->seconds * 1000) : TIMEOUT_DEFAULT_MS;
}

void observe_complain_unlisted(const char *subcommand, const struct observed_sockets *sockets)
{
    if (sockets->unlisted)
        complain("%s: " SHARE_SYSTEM_DIRECTORY " cannot be listed (%s): name the sockets there, or ask as root", subcommand,
                 sockets->unlisted);
}
