/* SPDX-License-Identifier: MIT */
/* evict.c - `weir evict`: takes the pools that it imports from a process. */
#include "tools/common/command.h"
#include "tools/common/processes.h"
#include "tools/common/utf8.h"
#include "tools/observe.h"

#include <limits.h>
#include <stdio.h>

enum { OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_TIMEOUT] = OBSERVE_TIMEOUT_OPTION,
    {0},
};

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

static int run(const struct command_call *call)
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
    observe_ask(&sockets, &question, observe_timeout(&call->options[OPT_TIMEOUT]));
    for (size_t i = 0; i < sockets.count; i++)
        tell(&sockets.items[i], pid, call->count > 1, &outcome);
    observe_complain_unlisted("evict", &sockets);
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
    .options = options,
    .run = run,
};
