/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what a measurement is made of: samples, figures that compare them with what is asked, and their output.
 *
 * For programs with one thread: no locks. A failure ends the program, after saying which call failed and where.
 */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_SAMPLES_MAX 64
#define BENCH_SERIES_MAX 5
#define BENCH_FIGURES_MAX 64

/* One thing measured several times. */
struct bench_series {
    const char *name; /* static storage */
    size_t count;
    double values[BENCH_SAMPLES_MAX];
};

/* Several series, one value made of them, and the bound that it is asked to keep. */
struct bench_figure {
    const char *section; /* static storage, as the other strings but name */
    char name[80];
    const char *unit; /* of the series: "ns", or "bytes" */
    size_t series_count;
    struct bench_series series[BENCH_SERIES_MAX];
    double value;
    const char *value_unit; /* "x", "ms", "%" */
    bool at_least;          /* else: at most */
    double limit;
};

/* Every figure so far, in order. Owns them. */
struct bench_report {
    size_t count;
    struct bench_figure figures[BENCH_FIGURES_MAX];
};

uint64_t bench_now(void); /* nanoseconds */

void bench_add(struct bench_series *series, double value);
double bench_median(const struct bench_series *series);
double bench_min(const struct bench_series *series);
double bench_max(const struct bench_series *series);

/* A new figure at the end of the report; the caller fills in the rest. */
struct bench_figure *bench_figure_new(struct bench_report *report, const char *section, const char *name);
/* A new, empty series at the end of the figure. */
struct bench_series *bench_series_new(struct bench_figure *figure, const char *name);

bool bench_reached(const struct bench_figure *figure);
/* Prints a figure, and flushes, so that an interrupted run leaves what it has measured. */
void bench_print(const struct bench_figure *figure);
/* Everything, with each sample. machine: pairs of key and value, ended by NULL. */
void bench_write_json(FILE *file, const char *const *machine, const struct bench_report *report);

_Noreturn void bench_die(const char *file, int line, const char *what, const char *text) __attribute__((cold));

/* For calls that return a cudaError_t and must not fail. */
#define BENCH_CUDA(call) \
    do { \
        cudaError_t bench_code_ = (call); \
        if (bench_code_ != cudaSuccess) \
            bench_die(__FILE__, __LINE__, #call, cudaGetErrorString(bench_code_)); \
    } while (0)

#endif
