/* SPDX-License-Identifier: MIT */
/* commands.c - the table of subcommands, which the command line, the help and the shell's completion follow, and that of those that are gone. */
#include "tools/common/command.h"

const struct command *const commands[] = {
    &command_check, &command_show, &command_try, &command_doctor,
    &command_run_program, &command_record,
    &command_ps, &command_top, &command_metrics, &command_leases,
    &command_set, &command_reload, &command_trim, &command_sleep, &command_wake, &command_evict,
    &command_trace, &command_replay, &command_tune, &command_calibrate,
    &command_help, NULL,
};

const struct command_group command_groups[] = {
    {"Check a policy and this machine", &command_check},
    {"Run programs", &command_run_program},
    {"Watch processes", &command_ps},
    {"Change processes", &command_set},
    {"Understand what a program did", &command_trace},
    {"Help", &command_help},
    {NULL, NULL},
};

const struct command_gone commands_gone[] = {
    {"devices", NULL, "weir doctor"},
    {"replay", "--plot", "weir trace page TRACE --policy=FILE -o page.html"},
    {"trace", "--memory-viz", "python3 -m weir.trace export --memory-viz=FILE TRACE..."},
    {"trace", "--perfetto", "python3 -m weir.trace export --perfetto=FILE TRACE..."},
    {"trace", "--rmm", "python3 -m weir.trace export --rmm=FILE TRACE"},
    {"trace", "export", "python3 -m weir.trace export --perfetto=FILE TRACE..."},
    {"trace", "--svg", "weir trace page TRACE -o page.html"},
    {"try", "-v", "WEIR_LOG=info weir try"},
    {"try", "--verbose", "WEIR_LOG=info weir try"},
    {"tune", "--plot", "weir tune --json TRACE >found.json && weir trace page TRACE --tune=found.json -o page.html"},
    {NULL, NULL, NULL},
};

/* weir help ------------------------------------------------------------------------------------------------------------------------------ */

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
