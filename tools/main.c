/* SPDX-License-Identifier: MIT */
/* main.c - the `weir` command: what holds for all subcommands. */
#include "include/weir.h"
#include "tools/common/command.h"
#include "tools/common/terminal.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>

static int run_main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"color", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    opterr = 0;
    for (int code, at = optind; (code = getopt_long(argc, argv, "+:hV", longs, NULL)) != -1; at = optind) {
        switch (code) {
        case 'h':
            command_help_all();
            return EXIT_GOOD;
        case 'V':
            printf("weir %s\n", weir_version());
            return EXIT_GOOD;
        case 'c':
            if (!terminal_set_colour(optarg))
                return EXIT_TROUBLE;
            break;
        default:
            complain("unknown option '%s'; before the subcommand only --help, --version and --color=WHEN may stand",
                     command_option_word(argv, at));
            return EXIT_TROUBLE;
        }
    }
    if (optind == argc) {
        complain("which subcommand? 'weir try' tries a policy out, 'weir --help' lists them all");
        return EXIT_TROUBLE;
    }
    const struct command *command = command_find(argv[optind]);
    return command ? command_run(command, argc - optind, argv + optind) : EXIT_TROUBLE;
}

int main(int argc, char **argv)
{
    /* A reader that went away must not be the death of a process in the middle of GPU work. */
    signal(SIGPIPE, SIG_IGN);
    /* A file above the limit of ulimit -f is an error as any other (EFBIG), so that no part of one is left. */
    signal(SIGXFSZ, SIG_IGN);
    int status = run_main(argc, argv);
    return terminal_close_stdout() ? status : EXIT_TROUBLE;
}
