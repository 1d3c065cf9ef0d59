/* SPDX-License-Identifier: MIT */
#include "bench/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static bool read_number(const char *option, const char *text, long least, long most, size_t *number, char *why, size_t len)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        snprintf(why, len, "%s %s: write a number from %ld to %ld", option, text, least, most);
        return false;
    }
    *number = (size_t)value;
    return true;
}

static bool read_sections(char *const *names, const char *const *sections, size_t section_count, bool *wanted, char *why, size_t len)
{
    if (!*names) {
        for (size_t i = 0; i < section_count; i++)
            wanted[i] = true;
    }
    for (; *names; names++) {
        size_t i = 0;
        while (i < section_count && strcmp(sections[i], *names) != 0)
            i++;
        if (i == section_count) {
            snprintf(why, len, "there is no section '%s'; weir-bench --list names them", *names);
            return false;
        }
        wanted[i] = true;
    }
    return true;
}

bool arguments_read(int argc, char **argv, const char *const *sections, size_t section_count, struct arguments *arguments, char *why,
                    size_t len)
{
    static const struct option options[] = {
        {"repetitions", required_argument, NULL, 'r'},
        {"row-seconds", required_argument, NULL, 's'},
        {"rounds", required_argument, NULL, 'n'},
        {"json", required_argument, NULL, 'j'},
        {"rmm", required_argument, NULL, 'm'},
        {"only", required_argument, NULL, 'o'},
        {"trace", required_argument, NULL, 't'},
        {"quick", no_argument, NULL, 'q'},
        {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct arguments result;
    memset(&result, 0, sizeof(result));
    /* 0 makes glibc start anew, so that a process can read more than one command line. */
    optind = 0;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":r:s:n:j:t:m:o:qlh", options, NULL)) != -1;) {
        switch (option) {
        case 'r':
            if (!read_number("--repetitions", optarg, ARGUMENTS_REPETITIONS_MIN, BENCH_SAMPLES_MAX, &result.repetitions, why, len))
                return false;
            break;
        case 's':
            if (!read_number("--row-seconds", optarg, 1, ARGUMENTS_ROW_SECONDS_MAX, &result.row_seconds, why, len))
                return false;
            break;
        case 'n':
            if (!read_number("--rounds", optarg, 1, ARGUMENTS_ROUNDS_MAX, &result.rounds, why, len))
                return false;
            break;
        case 'j':
            result.json = optarg;
            break;
        case 't':
            if (result.trace_count == ARGUMENTS_TRACES_MAX) {
                snprintf(why, len, "--trace %s: %d files at most", optarg, ARGUMENTS_TRACES_MAX);
                return false;
            }
            result.traces[result.trace_count++] = optarg;
            break;
        case 'm':
            result.rmm = optarg;
            break;
        case 'o':
            result.only = optarg;
            break;
        case 'q':
            result.quick = true;
            break;
        case 'l':
            result.list = true;
            break;
        case 'h':
            result.help = true;
            break;
        case ':':
            snprintf(why, len, "%s needs a value; weir-bench --help shows an example", argv[optind - 1]);
            return false;
        default:
            snprintf(why, len, "'%s' is not known; weir-bench --help lists what is", argv[optind - 1]);
            return false;
        }
    }
    if (!result.repetitions)
        result.repetitions = result.quick ? ARGUMENTS_REPETITIONS_QUICK : ARGUMENTS_REPETITIONS;
    if (!result.rounds)
        result.rounds = result.quick ? ARGUMENTS_ROUNDS_QUICK : ARGUMENTS_ROUNDS;
    if (!read_sections(argv + optind, sections, section_count, result.wanted, why, len))
        return false;
    *arguments = result;
    return true;
}
