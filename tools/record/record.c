/* SPDX-License-Identifier: MIT */
/* record.c - `weir record`: has a command write traces. */
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/record/launch.h"
#include "tools/record/name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_OUTPUT, OPT_LEVEL, OPT_STACKS };

static const struct command_option options[] = {
    [OPT_OUTPUT] = {.name = "output",
                    .letter = 'o',
                    .kind = OPTION_TEXT,
                    .placeholder = "FILE",
                    .help = "where to write, with %p for the process and %r for its rank (default: " RECORD_NAME ")"},
    [OPT_LEVEL] = {.name = "level", .kind = OPTION_TEXT, .placeholder = "pool|all", .help = "what to record (default: all)"},
    [OPT_STACKS] = {.name = "stacks", .kind = OPTION_FLAG, .help = "record who asks for memory as well"},
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

static int run(const struct command_call *call)
{
    char *name = record_name(call->options[OPT_OUTPUT].given ? call->options[OPT_OUTPUT].text : RECORD_NAME);
    if (!name)
        return EXIT_TROUBLE;
    const struct record_launch launch = {
        .name = name,
        .level = call->options[OPT_LEVEL].text,
        .has_stacks = call->options[OPT_STACKS].given,
        .command = call->operands,
    };
    int status = can_be_made(name) ? record_launch(&launch) : EXIT_TROUBLE;
    free(name);
    return status;
}

const struct command command_record = {
    .name = "record",
    .summary = "write down what a command does with memory, for 'weir trace'",
    .operands = "COMMAND [ARGUMENT]...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .operands_end_options = true,
    .details =
        "Runs COMMAND such that each of its processes that uses Weir writes a trace, from when it opens its policy to when it closes it:\n"
        "every request and every free, growth, trims, waits and recovery, with marks and tags. Its policy may be any: what is to be\n"
        "recorded is put on top of it (keys record.file, record.level and record.stacks). A trace takes the place of no file.\n"
        "Exit status: that of COMMAND; 2 wrong usage, or the file cannot be made, 126 COMMAND cannot be run, 127 there is none.",
    .example = "  weir record -o train.weir -- ./train\n"
               "  weir record --stacks -- weir run python3 train.py\n",
    .options = options,
    .run = run,
};
