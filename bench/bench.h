/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what a measurement is made of: samples, figures that compare them with what is asked, and their output.
 *
 * Knows neither CUDA nor Weir. For one thread: no locks. A failure ends the program, after saying which call failed and where.
 */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_SAMPLES_MAX 64
#define BENCH_SERIES_MAX 8

/* One thing measured several times. */
struct bench_series {
    const char *name; /* static storage */
    size_t count;
    double values[BENCH_SAMPLES_MAX];
};

/* What a figure is asked to be. BENCH_SHOWN: nothing, it is shown for its own sake. */
enum bench_bound { BENCH_SHOWN, BENCH_AT_MOST, BENCH_AT_LEAST };

/* Several series, one value made of them, and the bound that it is asked to keep. */
struct bench_figure {
    const char *section; /* static storage, as the other strings but name and group */
    char name[96];
    char group[64];   /* of figures that differ in x alone, "" if there are none: a line in a plot */
    double x;         /* with a group: bytes, threads */
    const char *unit; /* of the series: "ns", or "bytes" */
    size_t series_count;
    struct bench_series series[BENCH_SERIES_MAX];
    double value;
    const char *value_unit; /* "x" (times), "ns", "ms", "%", "bytes" */
    enum bench_bound bound;
    double limit; /* with a bound */
};

/* A policy that figures of a section were measured under. */
struct bench_policy {
    const char *section;
    char *text;
};

/* Every figure so far, in order. Owns them. Zero-initialise before use. */
struct bench_report {
    size_t count;
    struct bench_figure **figures;
    size_t policy_count;
    struct bench_policy *policies;
};

uint64_t bench_now(void); /* nanoseconds */

void bench_add(struct bench_series *series, double value);
double bench_median(const struct bench_series *series);
/* The value below which so many hundredths of them are. Sorts them. */
double bench_quantile(double *values, size_t count, unsigned hundredths);
double bench_min(const struct bench_series *series);
double bench_max(const struct bench_series *series);

/* A new figure at the end of the report, in ns and without a bound; the caller fills in the rest. It stays where it is. */
struct bench_figure *bench_figure_new(struct bench_report *report, const char *section, const char *name);
/* A new, empty series at the end of the figure. */
struct bench_series *bench_series_new(struct bench_figure *figure, const char *name);
/* A new figure of series that were measured already: bench_figure_of(report, "small", name, &ours, &raw). */
#define bench_figure_of(report, section, name, ...)                                                                                        \
    bench_figure_with((report), (section), (name), (const struct bench_series *const[]){__VA_ARGS__, NULL})
struct bench_figure *bench_figure_with(struct bench_report *report, const char *section, const char *name,
                                       const struct bench_series *const *series);
/* Makes the figure one of a group. */
void bench_figure_in(struct bench_figure *figure, const char *group, double x);
/* How many times the median of `denominator` that of `numerator` is, and what is asked of it. */
void bench_figure_ratio(struct bench_figure *figure, const struct bench_series *numerator, const struct bench_series *denominator,
                        enum bench_bound bound, double limit);

/* Gives the figure its value, and what is asked of that, and prints it on standard output. */
void bench_show(struct bench_figure *figure, double value, const char *unit, enum bench_bound bound, double limit);
void bench_show_ratio(struct bench_figure *figure, const struct bench_series *numerator, const struct bench_series *denominator,
                      enum bench_bound bound, double limit);
/* A new figure: how many times the second the first one is, of which nothing is asked. */
void bench_show_beside(struct bench_report *report, const char *section, const char *name, const struct bench_series *ours,
                       const struct bench_series *raw);

/* True without a bound. */
bool bench_reached(const struct bench_figure *figure);
size_t bench_missed(const struct bench_report *report);
size_t bench_asked(const struct bench_report *report); /* figures with a bound */

/* Keeps the text with the report. False if the section has it already. */
bool bench_policy_add(struct bench_report *report, const char *section, const char *text);
void bench_report_clear(struct bench_report *report);

/* In one line, whatever the text has. */
void bench_print_policy(FILE *file, const char *section, const char *text);
/* Prints a figure, and flushes, so that an interrupted run leaves what it has measured. */
void bench_print(FILE *file, const struct bench_figure *figure);
/* Everything, with each sample. machine: pairs of key and value, ended by NULL. */
void bench_write_json(FILE *file, const char *const *machine, const struct bench_report *report);

/* 65536 as "64 KiB" into text, which is returned. */
const char *bench_size_name(uint64_t bytes, char text[32]);

_Noreturn void bench_die(const char *file, int line, const char *what, const char *text) __attribute__((cold));

#endif
