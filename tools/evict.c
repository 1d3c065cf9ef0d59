/* SPDX-License-Identifier: MIT */
/* evict.c - `weir evict`: takes the pools that it imports from a process. */
#include "tools/common/command.h"
#include "tools/observe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_TIMEOUT] = OBSERVE_TIMEOUT_OPTION,
    {0},
};

static bool read_pid(const char *text, int *pid)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > INT_MAX) {
        complain("evict: '%s' is no process: write its number, as 'weir leases' shows it", text);
        return false;
    }
    *pid = (int)value;
    return true;
}

/* What became of all sockets together. */
struct outcome {
    unsigned evicted;
    bool is_unknown; /* some exporter did not answer, or refused to */
};

static void tell(const struct observed_socket *answer, int pid, bool is_named, struct outcome *outcome)
{
    if (answer->status == WEIR_OK) {
        printf("%s: process %d is evicted from pool '%s' of process %d; what it maps stays out of use until it is dead\n", answer->path,
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
    weir_error error = WEIR_ERROR_INIT;
    int pid;
    if (!read_pid(call->operands[0], &pid))
        return EXIT_TROUBLE;
    if (observe_sockets(call->count - 1, call->operands + 1, &error, &sockets) != WEIR_OK) {
        complain("evict: %s", error.text);
        return EXIT_TROUBLE;
    }
    struct wire_message question = {.type = WIRE_EVICT, .u.evict.pid = pid};
    observe_ask(&sockets, &question, observe_timeout(&call->options[OPT_TIMEOUT]));
    for (size_t i = 0; i < sockets.count; i++)
        tell(&sockets.items[i], pid, call->count > 1, &outcome);
    observe_complain_denials("evict", &sockets);
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
        "Has the exporters that listen at each SOCKET, or without any all that 'weir leases' would show, evict process PID. It gets\n"
        "no more blocks and cannot come back; it is not killed. What it had mapped stays out of use until it is dead, since its GPU\n"
        "work may still be running, so end it too. Only root and the exporter's own user may evict.\n"
        "Exit status: 0 evicted, 1 it imports nothing there, 2 wrong usage, or an exporter refuses or does not answer.",
    .example = "  weir evict 4711\n"
               "  weir evict 4711 frames\n",
    .options = options,
    .run = run,
};
