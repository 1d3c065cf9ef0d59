/* SPDX-License-Identifier: MIT */
/* leases.c - `weir leases` and `weir evict`: who holds what of the pools that are shared here, for how long, and what went through their rings.; and whom they are taken from. */
#include "tools/common/command.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/observe.h"
#include "tools/common/processes.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum { OPT_ALL, OPT_JSON, OPT_TIMEOUT };

#define TIMEOUT_DEFAULT_MS 5000
#define TIMEOUT_OPTION                                                                                                                     \
    {"timeout", 0, OPTION_SECONDS, "SECONDS", "how long to wait for all exporters together (default: 5)", 0.01, 3600}

static unsigned timeout_of(const struct option_value *option)
{
    return option->given ? (unsigned)(option->seconds * 1000) : TIMEOUT_DEFAULT_MS;
}

/* What could not be looked into. */
static void complain_unlisted(const char *subcommand, const struct observed_sockets *sockets)
{
    if (sockets->unlisted)
        complain("%s: " SHARE_SYSTEM_DIRECTORY " cannot be listed (%s): name the sockets there, or ask as root", subcommand,
                 sockets->unlisted);
}

static const struct command_option options[] = {
    [OPT_ALL] = {.name = "all", .kind = OPTION_FLAG, .help = "a line for each mapped slot of a ring, not one for all of them"},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_TIMEOUT] = TIMEOUT_OPTION,
    {0},
};

#define MS_MAX UINT64_C(100000000000) /* three years: what is longer is told as that */

static const char *const states[] = {
    [WIRE_STATE_CONNECTED] = "connected",
    [WIRE_STATE_HUNG] = "hung",
    [WIRE_STATE_EVICTED] = "evicted",
};
static const char *const hold_names[] = {
    [WIRE_HOLD_LEASED] = "leased",
    [WIRE_HOLD_RELEASING] = "releasing",
    [WIRE_HOLD_MAPPED] = "mapped",
};
static const char *const overflow_names[] = {
    [WEIR_OVERFLOW_BLOCK] = "block",
    [WEIR_OVERFLOW_DROP_OLDEST] = "drop_oldest",
    [WEIR_OVERFLOW_FAIL] = "fail",
};

/* In words ----------------------------------------------------------------------------------------------------------------------------- */

static const char *duration_text(char text[WEIR__TIME_LEN], uint64_t ms)
{
    return ms ? weir__time(text, (ms < MS_MAX ? ms : MS_MAX) * 1000000) : "< 1 ms";
}

static void add_importer(struct table *table, const struct observed_importer *importer)
{
    struct text user;
    char idle[WEIR__TIME_LEN];
    table_cell(table, "%d", importer->told.pid);
    table_row(table, process_user(importer->told.uid, &user), importer->told.name[0] ? importer->told.name : "-",
              states[importer->told.state], duration_text(idle, importer->told.idle_ms));
}

/* How many blocks stand in the line of this hold, and their bytes: those of a name, as the slots of a ring, that are only mapped share one. 0: it
   stands in the line of an earlier one. */
static size_t blocks_of(const struct observed_importer *importer, size_t which, uint64_t *bytes)
{
    const observed_hold *hold = &importer->holds[which];
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < importer->hold_count; i++) {
        const observed_hold *other = &importer->holds[i];
        bool are_mapped = hold->hold == WIRE_HOLD_MAPPED && other->hold == WIRE_HOLD_MAPPED;
        if (i != which && !(are_mapped && strcmp(hold->name, other->name) == 0))
            continue;
        if (i < which)
            return 0;
        *bytes += other->size;
        count++;
    }
    return count;
}

static void add_hold(struct table *table, const observed_hold *hold, size_t blocks, uint64_t bytes)
{
    char held[WEIR__TIME_LEN];
    if (!hold) {
        table_row(table, "-", "-", "-", "-");
        return;
    }
    if (blocks > 1)
        table_cell(table, "%s, %s blocks", hold->name, COUNT_TEXT(blocks));
    else if (hold->sequence)
        table_cell(table, "%s #%llu", hold->name, (unsigned long long)hold->sequence);
    else
        table_cell(table, "%s", hold->name);
    table_row(table, SIZE_TEXT(bytes), hold_names[hold->hold], hold->hold == WIRE_HOLD_MAPPED ? "-" : duration_text(held, hold->held_ms));
}

static void print_counts(const observed_counts *counts)
{
    printf("  since it was opened: %s frames pushed, %s dropped, %s takes refused, %s times hung, %s leases given, %s importers evicted\n",
           COUNT_TEXT(counts->pushed), COUNT_TEXT(counts->dropped), COUNT_TEXT(counts->refused), COUNT_TEXT(counts->hangs),
           COUNT_TEXT(counts->leases_given), COUNT_TEXT(counts->evictions));
}

static void print_rings(const struct observed_export *seen)
{
    struct table table = TABLE_INIT("llrrrrrrrrrrrr");
    table_row(&table, "RING", "OVERFLOW", "SLOTS", "SIZE", "QUEUED", "READERS", "HUNG", "PUSHED", "DROPPED", "REFUSED", "HANGS", "LEASES",
              "LAG", "HIGHEST");
    for (size_t i = 0; i < seen->ring_count; i++) {
        const observed_ring *ring = &seen->rings[i];
        table_row(&table, ring->name, overflow_names[ring->overflow], COUNT_TEXT(ring->depth), SIZE_TEXT(ring->slot_size),
                  COUNT_TEXT(ring->queued), COUNT_TEXT(ring->readers), COUNT_TEXT(ring->hung), COUNT_TEXT(ring->pushed),
                  COUNT_TEXT(ring->dropped), COUNT_TEXT(ring->refused), COUNT_TEXT(ring->hangs), COUNT_TEXT(ring->leases_given),
                  COUNT_TEXT(ring->lag), COUNT_TEXT(ring->lag_high));
    }
    table_print(&table, stdout);
}

static void print_importers(const struct observed_export *seen, bool has_all)
{
    struct table table = TABLE_INIT("rlllrlrlr");
    if (seen->count == 0) {
        puts("  nobody imports it");
        return;
    }
    table_row(&table, "PID", "USER", "PROGRAM", "STATE", "SILENT", "BLOCK", "SIZE", "HOLD", "HELD");
    for (size_t i = 0; i < seen->count; i++) {
        const struct observed_importer *importer = &seen->importers[i];
        for (size_t j = 0; j < importer->hold_count || j == 0; j++) {
            const observed_hold *hold = j < importer->hold_count ? &importer->holds[j] : NULL;
            uint64_t bytes = hold ? hold->size : 0;
            size_t blocks = hold && !has_all ? blocks_of(importer, j, &bytes) : 1;
            if (!blocks)
                continue;
            add_importer(&table, importer);
            add_hold(&table, hold, blocks, bytes);
        }
    }
    table_print(&table, stdout);
}

static void print_export(const char *socket, const struct observed_export *seen, bool has_all)
{
    style_text(stdout, STYLE_STRONG, socket);
    printf(": pool '%s' of process %d, epoch %llu, %s\n", seen->told.pool, seen->told.pid, (unsigned long long)seen->told.epoch,
           seen->told.uuid);
    if (seen->is_counted)
        print_counts(&seen->counts);
    print_importers(seen, has_all);
    if (seen->ring_count > 0)
        print_rings(seen);
}

static void print_answers(const struct observed_sockets *sockets, bool has_all)
{
    bool is_first = true;
    for (size_t i = 0; i < sockets->count; i++) {
        const struct observed_socket *answer = &sockets->items[i];
        if (answer->status != WEIR_OK) {
            complain("leases: %s", answer->text);
            continue;
        }
        if (!is_first)
            putchar('\n');
        is_first = false;
        print_export(answer->path, &answer->seen, has_all);
    }
    complain_unlisted("leases", sockets);
    if (sockets->count == 0)
        puts("No pool is shared here: there is no socket in $XDG_RUNTIME_DIR/weir/share, nor in " SHARE_SYSTEM_DIRECTORY ".");
}

/* As JSON ------------------------------------------------------------------------------------------------------------------------------ */

static void json_hold(struct json *json, const observed_hold *hold)
{
    json_object(json, NULL);
    json_string(json, "name", hold->name);
    if (hold->sequence)
        json_uint(json, "sequence", hold->sequence);
    else
        json_null(json, "sequence");
    json_bool(json, "is_slot", hold->ring || hold->sequence);
    json_uint(json, "block", hold->block);
    json_uint(json, "size", hold->size);
    json_string(json, "hold", hold_names[hold->hold]);
    if (hold->hold == WIRE_HOLD_MAPPED)
        json_null(json, "held_ms");
    else
        json_uint(json, "held_ms", hold->held_ms);
    json_end(json);
}

static void json_importer(struct json *json, const struct observed_importer *importer)
{
    const struct passwd *user = getpwuid(importer->told.uid);
    json_object(json, NULL);
    json_uint(json, "pid", (uint64_t)importer->told.pid);
    json_uint(json, "uid", importer->told.uid);
    json_string(json, "user", user ? user->pw_name : NULL);
    json_string(json, "program", importer->told.name);
    json_string(json, "state", states[importer->told.state]);
    json_uint(json, "silent_ms", importer->told.idle_ms);
    json_uint(json, "leases", importer->told.leases);
    json_uint(json, "mappings", importer->told.mappings);
    json_array(json, "holds");
    for (size_t i = 0; i < importer->hold_count; i++)
        json_hold(json, &importer->holds[i]);
    json_end(json);
    json_end(json);
}

static void json_counts(struct json *json, const struct observed_export *seen)
{
#define MEMBER(name) JSON_MEMBER(observed_counts, name),
    static const struct json_member members[] = {WIRE_FLOW_FIGURES(MEMBER) MEMBER(evictions)};
#undef MEMBER
    if (!seen->is_counted) {
        json_null(json, "counts");
        return;
    }
    json_object(json, "counts");
    json_members(json, &seen->counts, members, sizeof members / sizeof members[0]);
    json_end(json);
}

static void json_rings(struct json *json, const struct observed_export *seen)
{
#define MEMBER(name) JSON_MEMBER(observed_ring, name),
    static const struct json_member members[] = {WIRE_RING_FIGURES(MEMBER)};
#undef MEMBER
    json_array(json, "rings");
    for (size_t i = 0; i < seen->ring_count; i++) {
        json_object(json, NULL);
        json_string(json, "name", seen->rings[i].name);
        json_string(json, "overflow", overflow_names[seen->rings[i].overflow]);
        json_members(json, &seen->rings[i], members, sizeof members / sizeof members[0]);
        json_end(json);
    }
    json_end(json);
}

static void json_answer(struct json *json, const struct observed_socket *answer)
{
    const struct observed_export *seen = &answer->seen;
    json_object(json, NULL);
    json_string(json, "socket", answer->path);
    json_string(json, "status", weir_status_name(answer->status));
    if (answer->status != WEIR_OK) {
        json_string(json, "reason", answer->text);
        json_end(json);
        return;
    }
    json_string(json, "pool", seen->told.pool);
    json_uint(json, "pid", (uint64_t)seen->told.pid);
    json_uint(json, "epoch", seen->told.epoch);
    json_string(json, "uuid", seen->told.uuid);
    json_counts(json, seen);
    json_rings(json, seen);
    json_array(json, "importers");
    for (size_t i = 0; i < seen->count; i++)
        json_importer(json, &seen->importers[i]);
    json_end(json);
    json_end(json);
}

static void print_json(const struct observed_sockets *sockets, int worst)
{
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_array(&json, "exports");
    for (size_t i = 0; i < sockets->count; i++)
        json_answer(&json, &sockets->items[i]);
    json_end(&json);
    json_array(&json, "unlisted");
    if (sockets->unlisted) {
        json_object(&json, NULL);
        json_string(&json, "directory", SHARE_SYSTEM_DIRECTORY);
        json_string(&json, "reason", sockets->unlisted);
        json_end(&json);
    }
    json_end(&json);
    json_uint(&json, "status", (uint64_t)worst);
    json_end(&json);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static int run(const struct command_call *call)
{
    static const struct wire_message list = {.type = WIRE_LIST};
    struct observed_sockets sockets;
    if (!observe_sockets("leases", call->count, call->operands, &sockets))
        return EXIT_TROUBLE;
    observe_ask(&sockets, &list, timeout_of(&call->options[OPT_TIMEOUT]));
    int worst = EXIT_GOOD;
    for (size_t i = 0; i < sockets.count; i++) {
        weir_status status = sockets.items[i].status;
        bool is_nobody = status == WEIR_GONE || status == WEIR_NOT_FOUND;
        worst = worse_exit(worst, status == WEIR_OK ? EXIT_GOOD : is_nobody ? EXIT_FAILED : EXIT_TROUBLE);
    }
    if (call->options[OPT_JSON].given)
        print_json(&sockets, worst);
    else
        print_answers(&sockets, call->options[OPT_ALL].given);
    observe_sockets_free(&sockets);
    return worst;
}

const struct command command_leases = {
    .name = "leases",
    .summary = "show who holds what of the pools that are shared",
    .operands = "[SOCKET]...",
    .operands_max = INT_MAX,
    .details =
        "Asks the exporters that listen at each SOCKET (a name or a path, as the policy's share.socket), or without operands at all sockets\n"
        "in $XDG_RUNTIME_DIR/weir/share (root: /run/user/*/weir/share too) and " SHARE_SYSTEM_DIRECTORY
        ", which processes import their pools.\n"
        "STATE is connected, hung (a producer waited too long for it) or evicted (its connection has ended; its blocks stay out of use\n"
        "until it is dead). HOLD is leased, releasing (released, but its stream has not reached the release) or mapped (not leased);\n"
        "NAME #7 is frame 7 of a ring. Slots of a ring that are only mapped share a line, unless --all is given. Each open ring has a line\n"
        "of totals: LEASES is how many frames readers have got; the slowest reader is LAG frames behind, and was HIGHEST behind at most.\n"
        "Only root and the exporter's own user may ask.\n"
        "Exit status: 0 all answered, 1 nobody listens at a socket, 2 an exporter refuses or does not answer (this wins over 1).",
    .example = "  weir leases\n"
               "  weir leases --json frames\n",
    .options = options,
    .run = run,
};

/* weir evict ----------------------------------------------------------------------------------------------------------------------------- */

static const struct command_option evict_options[] = {TIMEOUT_OPTION, {0}};

/* What became of all sockets together. */
struct outcome {
    unsigned evicted;
    bool is_unknown; /* some exporter did not answer, or refused to */
};

static void tell(const struct observed_socket *answer, int pid, bool is_named, struct outcome *outcome)
{
    if (answer->status == WEIR_OK) {
        printf("%s: process %d is evicted from pool '%s' of process %d; what it maps stays out of use until it is dead\n", SHOWN(answer->path),
               pid, answer->seen.told.pool, answer->seen.told.pid);
        outcome->evicted++;
        return;
    }
    /* Where every socket is asked, those of dead exporters and those that do not know the process are no news. */
    bool is_no_news = answer->status == WEIR_NOT_FOUND || answer->status == WEIR_GONE;
    if (is_named || !is_no_news)
        complain("evict: %s", answer->text);
    outcome->is_unknown = outcome->is_unknown || !is_no_news;
}

static int run_evict(const struct command_call *call)
{
    struct observed_sockets sockets;
    struct outcome outcome = {0};
    int pid;
    if (!process_read_pid(call->operands[0], &pid)) {
        complain("evict: '%s' is no process: write its number, as 'weir leases' shows it", call->operands[0]);
        return EXIT_TROUBLE;
    }
    if (!observe_sockets("evict", call->count - 1, call->operands + 1, &sockets))
        return EXIT_TROUBLE;
    struct wire_message question = {.type = WIRE_EVICT, .u.evict.pid = pid};
    observe_ask(&sockets, &question, timeout_of(&call->options[0]));
    for (size_t i = 0; i < sockets.count; i++)
        tell(&sockets.items[i], pid, call->count > 1, &outcome);
    complain_unlisted("evict", &sockets);
    observe_sockets_free(&sockets);
    if (outcome.evicted == 0)
        complain("evict: nobody evicted process %d: it imports nothing, or is evicted already; 'weir leases' shows who imports what", pid);
    return outcome.is_unknown ? EXIT_TROUBLE : outcome.evicted ? EXIT_GOOD : EXIT_FAILED;
}

const struct command command_evict = {
    .name = "evict",
    .summary = "evict a process from the pools that it imports",
    .operands = "PID [SOCKET]...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Disconnects process PID from the exporters that listen at each SOCKET, or from all exporters that 'weir leases' would show. The\n"
        "process gets no more blocks and cannot connect again; it is not killed. Its mapped blocks stay out of use until it is dead, since\n"
        "its GPU work may still be running, so end the process too. Only root and the exporter's own user may evict.\n"
        "Exit status: 0 evicted, 1 it imports nothing there, 2 wrong usage, or an exporter refuses or does not answer.",
    .example = "  weir evict 4711\n"
               "  weir evict 4711 frames\n",
    .options = evict_options,
    .run = run_evict,
};
