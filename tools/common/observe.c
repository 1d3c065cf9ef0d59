/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/observe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "share/wire/directory.h"

/* Where the sockets are ---------------------------------------------------------------------------------------------------------------- */

static void add_socket(struct observed_sockets *sockets, const char *path)
{
    struct observed_socket *socket = MUST_ADD(sockets->items, sockets->count, sockets->room);
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
    uint64_t deadline = weir__service_now() + SHARE_LIST_TIME;
    share_export_sockets(deadline, &paths, &count);
    add_sockets(sockets, paths, count);
    int code = share_sockets_in(SHARE_SYSTEM_DIRECTORY, deadline, &paths, &count);
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

static void forget_counts(struct observed_export *seen)
{
    free(seen->rings);
    seen->rings = NULL;
    seen->ring_count = seen->ring_room = 0;
    seen->is_counted = false;
}

static void forget(struct observed_export *seen)
{
    forget_counts(seen);
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

/* What they say ------------------------------------------------------------------------------------------------------------------------ */

static void add_importer(struct observed_export *seen, const struct wire_message *message)
{
    *MUST_ADD(seen->importers, seen->count, seen->room) = (struct observed_importer){.told = message->u.importer};
}

static void add_hold(struct observed_importer *importer, const struct wire_message *message)
{
    *MUST_ADD(importer->holds, importer->hold_count, importer->hold_room) = message->u.holds;
}

static bool add_counts(struct observed_export *seen, const struct wire_message *message)
{
    if (seen->is_counted)
        return false;
    seen->is_counted = true;
    seen->counts = message->u.export;
    return true;
}

static bool add_ring(struct observed_export *seen, const struct wire_message *message)
{
    for (size_t i = 0; i < seen->ring_count; i++)
        if (strcmp(seen->rings[i].name, message->u.ring.name) == 0)
            return false;
    *MUST_ADD(seen->rings, seen->ring_count, seen->ring_room) = message->u.ring;
    return seen->is_counted;
}

static void begin(struct observed_export *seen, const struct wire_message *welcome, bool is_count)
{
    if (is_count)
        forget_counts(seen);
    else
        forget(seen);
    seen->told = welcome->u.welcome;
}

static bool take(struct share_query *query, const struct wire_message *message)
{
    struct observed_export *seen = &((struct observed_socket *)query->data)->seen;
    struct observed_importer *latest = seen->count ? &seen->importers[seen->count - 1] : NULL;
    if (message->type == WIRE_WELCOME) {
        begin(seen, message, query->question.type == WIRE_COUNT);
    } else if (message->type == WIRE_IMPORTER) {
        add_importer(seen, message);
    } else if (message->type == WIRE_HOLDS) {
        if (!latest || message->u.holds.pid != latest->told.pid)
            return false;
        add_hold(latest, message);
    } else if (message->type == WIRE_EXPORT) {
        return add_counts(seen, message);
    } else if (message->type == WIRE_RING) {
        return add_ring(seen, message);
    }
    return true;
}

/* Asking ------------------------------------------------------------------------------------------------------------------------------- */

static bool is_asked(const struct observed_socket *socket, bool is_more)
{
    return !is_more || socket->status == WEIR_OK;
}

static void end(const struct share_query *query, bool is_more)
{
    struct observed_socket *socket = query->data;
    if (query->status != WEIR_OK)
        forget_counts(&socket->seen);
    if (is_more)
        return;
    socket->status = query->status;
    socket->pid = query->pid;
    socket->uid = query->uid;
    memcpy(socket->text, query->text, sizeof socket->text);
}

/* is_more: those that have answered; what becomes of this question does not change their status. */
static void ask(struct observed_sockets *sockets, const struct wire_message *question, uint64_t deadline, bool is_more)
{
    struct share_query *queries = must(calloc(sockets->count + 1, sizeof *queries));
    size_t count = 0;
    for (size_t i = 0; i < sockets->count; i++)
        if (is_asked(&sockets->items[i], is_more))
            queries[count++] = (struct share_query){.path = sockets->items[i].path,
                                                    .question = *question,
                                                    .role = WIRE_ROLE_OBSERVER,
                                                    .take = take,
                                                    .data = &sockets->items[i]};
    share_queries_run(queries, count, deadline);
    for (size_t i = 0; i < count; i++)
        end(&queries[i], is_more);
    free(queries);
}

void observe_ask(struct observed_sockets *sockets, const struct wire_message *question, unsigned timeout_ms)
{
    static const struct wire_message count = {.type = WIRE_COUNT};
    uint64_t deadline = weir__service_now() + timeout_ms * GPU_MILLISECOND;
    ask(sockets, question, deadline, false);
    if (question->type == WIRE_LIST)
        ask(sockets, &count, deadline, true);
}
