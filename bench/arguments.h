/* SPDX-License-Identifier: MIT */
/*
 * arguments.h - the command line of weir-bench. Pure: prints and measures nothing.
 */
#ifndef WEIR_BENCH_ARGUMENTS_H
#define WEIR_BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#define ARGUMENTS_SECTIONS_MAX 32
#define ARGUMENTS_REPETITIONS_MIN 5
#define ARGUMENTS_REPETITIONS 9
#define ARGUMENTS_REPETITIONS_QUICK 5
#define ARGUMENTS_ROW_SECONDS_MAX 86400
#define ARGUMENTS_ROUNDS 100
#define ARGUMENTS_TRACES_MAX 16
#define ARGUMENTS_ROUNDS_QUICK 5
#define ARGUMENTS_ROUNDS_MAX 100000

struct arguments {
    bool help, list, quick;
    size_t repetitions;
    size_t row_seconds; /* rows of `random` that would take longer are left out; 0: none is */
    size_t rounds;      /* of the two workers of `neighbours` */
    const char *traces[ARGUMENTS_TRACES_MAX]; /* files for `arena`; borrowed from argv */
    size_t trace_count;
    const char *only;   /* of the rows of rmm-random and rmm-pairs those alone whose names begin so; NULL: all; borrowed from argv */
    const char *rmm;    /* a shared library; NULL: not asked for; borrowed from argv */
    const char *json;   /* NULL: not asked for; borrowed from argv */
    bool wanted[ARGUMENTS_SECTIONS_MAX];
};

/*
 * Reads the command line. sections: the names of all sections, in the order of `wanted`; without any on the command line all are wanted.
 * Returns true and sets *arguments; else writes into why what is wrong and what to write instead.
 */
bool arguments_read(int argc, char **argv, const char *const *sections, size_t section_count, struct arguments *arguments, char *why,
                    size_t len);

#endif
