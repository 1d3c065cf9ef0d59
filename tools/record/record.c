/* SPDX-License-Identifier: MIT */
/* record.c - `weir record`: has a command, or a live process, write traces. */
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/processes.h"
#include "tools/record/launch.h"
#include "tools/record/live.h"
#include "tools/record/name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_OUTPUT, OPT_ANY, OPT_LEVEL, OPT_STACKS, OPT_PID, OPT_SECONDS, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_OUTPUT] = {.name = "output",
                    .letter = 'o',
                    .kind = OPTION_TEXT,
                    .placeholder = "FILE",
                    .help = "where to write, with %p for the process and %r for its rank (default: " RECORD_NAME ")"},
    [OPT_ANY] = {.name = "any", .kind = OPTION_FLAG, .help = "record what the command asks CUDA's driver for, also if it does not know of Weir"},
    [OPT_LEVEL] = {.name = "level", .kind = OPTION_TEXT, .placeholder = "pool|all", .help = "what to record (default: all)"},
    [OPT_STACKS] = {.name = "stacks", .kind = OPTION_FLAG, .help = "record the call stack of each request as well"},
    [OPT_PID] = {.name = "pid",
                 .kind = OPTION_TEXT,
                 .placeholder = "PID",
                 .help = "the same as the operand PID"},
    [OPT_SECONDS] = {.name = "seconds",
                     .letter = 's',
                     .kind = OPTION_SECONDS,
                     .placeholder = "SECONDS",
                     .help = "for how long a live process is recorded (default: until Ctrl-C)",
                     .low = 0.01,
                     .high = 1e6},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

/* Whether files of that name can be made, as far as it is known before the processes are. false after a complaint. */
static bool can_be_made(const char *name)
{
    char *path = record_path(name, (int)getpid(), variable("RANK")), *slash = strrchr(path, '/');
    bool is_good = record_has_pid(name) || record_has_rank(name) || record_is_free(path);
    *slash = '\0';
    if (is_good && access(slash == path ? "/" : path, W_OK | X_OK)) {
        complain("record: no file can be made in %s: %s; name another one with --output", slash == path ? "/" : path, strerror(errno));
        is_good = false;
    }
    free(path);
    return is_good;
}

static int run_command(const struct command_call *call, const char *name)
{
    const struct record_launch launch = {
        .name = name,
        .level = call->options[OPT_LEVEL].text,
        .has_stacks = call->options[OPT_STACKS].given,
        .is_any = call->options[OPT_ANY].given,
        .command = call->operands,
    };
    return can_be_made(name) ? record_launch(&launch) : EXIT_TROUBLE;
}

static int run_live(const struct command_call *call, const char *name)
{
    const char *level = call->options[OPT_LEVEL].text;
    const struct record_live live = {
        .pid = call->options[OPT_PID].given ? call->options[OPT_PID].text : call->operands[0],
        .name = name,
        .is_pool_level = level && strcmp(level, "pool") == 0,
        .has_stacks = call->options[OPT_STACKS].given,
        .seconds = call->options[OPT_SECONDS].given ? call->options[OPT_SECONDS].seconds : 0,
        .timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]),
    };
    if (!record_has_rank(name))
        return record_live(&live);
    complain("record: the rank of a live process is not known here: write a name without %%r");
    return EXIT_TROUBLE;
}

static int run(const struct command_call *call)
{
    bool is_live = call->options[OPT_PID].given || call->is_apart;
    if (call->count + call->options[OPT_PID].given == 0 || (is_live && call->count + call->options[OPT_PID].given > 1)) {
        complain("record: what is to be recorded? Write either a command, or the PID of one process");
        return EXIT_TROUBLE;
    }
    if (!is_live && (call->options[OPT_SECONDS].given || call->options[OPT_TIMEOUT].given)) {
        complain("record: --%s goes with the PID of a live process alone", call->options[OPT_SECONDS].given ? "seconds" : "timeout");
        return EXIT_TROUBLE;
    }
    if (is_live && call->options[OPT_ANY].given) {
        complain("record: --any: a process that runs already has its CUDA functions, and cannot be given others: start it by "
                 "'weir record --any -- COMMAND'");
        return EXIT_TROUBLE;
    }
    if (call->options[OPT_ANY].given && call->options[OPT_LEVEL].given) {
        complain("record: --any: every call is recorded: leave --level away");
        return EXIT_TROUBLE;
    }
    char *name = record_name(call->options[OPT_OUTPUT].given ? call->options[OPT_OUTPUT].text : RECORD_NAME);
    if (!name)
        return EXIT_TROUBLE;
    int status = (is_live ? run_live : run_command)(call, name);
    free(name);
    return status;
}

const struct command command_record = {
    .name = "record",
    .summary = "write down what a program does with memory, for 'weir trace'",
    .operands = "PID|COMMAND [ARGUMENT]...",
    .operands_max = INT_MAX,
    .operands_end_options = true,
    .ends_no_options = process_is_operand,
    .details =
        "Runs COMMAND. Each of its processes that uses Weir writes a trace from the moment when it opens its policy until it closes it:\n"
        "every request and every free, growth, trims, waits and recovery, with marks and tags. Any policy will do: the keys record.file,\n"
        "record.level and record.stacks are set on top of it. Existing files are never overwritten.\n"
        "With PID, as 'weir ps' shows it, a live process whose policy says control: true writes a trace until Ctrl-C, --seconds, or its\n"
        "end. The trace begins with the memory that the process has. Put -- before a command whose name is a number.\n"
        "With --any, processes that do not use Weir write one too: every request to CUDA's driver for memory, every free, and those that held\n"
        "the program up. It needs no change, no GPU of Weir's, and no profiler: the loader of glibc puts libweir-audit.so into it (LD_AUDIT).\n"
        "Exit status: that of COMMAND; of PID: 0 recorded, 1 the process refuses, has gone, or its file is not whole; 2 wrong usage,\n"
        "or the file cannot be made, 126 COMMAND cannot be run, 127 there is none.",
    .example = "  weir record -o train.weir -- ./train\n"
               "  weir record --stacks -- weir run python3 train.py\n"
               "  weir record --any -o app.weir -- ./app\n"
               "  weir record 4711 --seconds=10 -o now.weir\n",
    .options = options,
    .run = run,
};
