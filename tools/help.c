/* SPDX-License-Identifier: MIT */
/* help.c - `weir help`: the help of one subcommand, or of all. */
#include "tools/common/command.h"

static int run(const struct command_call *call)
{
    if (call->count == 0) {
        command_help_all();
        return EXIT_GOOD;
    }
    const struct command *command = command_find(call->operands[0]);
    if (!command)
        return EXIT_TROUBLE;
    command_help_one(command);
    return EXIT_GOOD;
}

static const struct command_option options[] = {{0}};

const struct command command_help = {
    .name = "help",
    .summary = "explain a subcommand",
    .operands = "[SUBCOMMAND]",
    .operands_max = 1,
    .details = "Prints what 'weir SUBCOMMAND --help' prints; without a subcommand, the list of all.",
    .example = "  weir help try\n",
    .options = options,
    .run = run,
};
