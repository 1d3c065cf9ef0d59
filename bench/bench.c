/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "lib/gpu/clock.h"

uint64_t bench_now(void)
{
    return gpu_clock_now();
}

void bench_die(const char *file, int line, const char *what, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, text);
    exit(2);
}

/* Samples ------------------------------------------------------------------------------------------------------------------------------ */

void bench_add(struct bench_series *series, double value)
{
    if (series->count == BENCH_SAMPLES_MAX)
        bench_die(__FILE__, __LINE__, series->name, "more samples than BENCH_SAMPLES_MAX");
    series->values[series->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double bench_median(const struct bench_series *series)
{
    double sorted[BENCH_SAMPLES_MAX];
    if (!series->count)
        return 0;
    memcpy(sorted, series->values, series->count * sizeof(sorted[0]));
    qsort(sorted, series->count, sizeof(sorted[0]), compare);
    size_t middle = series->count / 2;
    return series->count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double bench_quantile(double *values, size_t count, unsigned hundredths)
{
    qsort(values, count, sizeof(values[0]), compare);
    size_t index = count * hundredths / 100;
    return values[index < count ? index : count - 1];
}

double bench_min(const struct bench_series *series)
{
    double min = series->count ? series->values[0] : 0;
    for (size_t i = 1; i < series->count; i++)
        min = series->values[i] < min ? series->values[i] : min;
    return min;
}

double bench_max(const struct bench_series *series)
{
    double max = series->count ? series->values[0] : 0;
    for (size_t i = 1; i < series->count; i++)
        max = series->values[i] > max ? series->values[i] : max;
    return max;
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

struct bench_figure *bench_figure_new(struct bench_report *report, const char *section, const char *name)
{
    struct bench_figure *figure = calloc(1, sizeof(*figure));
    struct bench_figure **figures = realloc(report->figures, (report->count + 1) * sizeof(struct bench_figure *));
    if (!figure || !figures)
        bench_die(__FILE__, __LINE__, name, "out of memory");
    report->figures = figures;
    report->figures[report->count++] = figure;
    figure->section = section;
    figure->unit = "ns";
    figure->value_unit = "x";
    snprintf(figure->name, sizeof(figure->name), "%s", name);
    return figure;
}

struct bench_series *bench_series_new(struct bench_figure *figure, const char *name)
{
    if (figure->series_count == BENCH_SERIES_MAX)
        bench_die(__FILE__, __LINE__, name, "more series than BENCH_SERIES_MAX");
    struct bench_series *series = &figure->series[figure->series_count++];
    series->name = name;
    return series;
}

void bench_figure_in(struct bench_figure *figure, const char *group, double x)
{
    snprintf(figure->group, sizeof(figure->group), "%s", group);
    figure->x = x;
}

struct bench_figure *bench_figure_with(struct bench_report *report, const char *section, const char *name,
                                       const struct bench_series *const *series)
{
    struct bench_figure *figure = bench_figure_new(report, section, name);
    for (; *series; series++)
        *bench_series_new(figure, (*series)->name) = **series;
    return figure;
}

static void set_value(struct bench_figure *figure, double value, const char *unit, enum bench_bound bound, double limit)
{
    figure->value = value;
    figure->value_unit = unit;
    figure->bound = bound;
    figure->limit = limit;
}

void bench_figure_ratio(struct bench_figure *figure, const struct bench_series *numerator, const struct bench_series *denominator,
                        enum bench_bound bound, double limit)
{
    double below = bench_median(denominator);
    set_value(figure, below > 0 ? bench_median(numerator) / below : 0, "x", bound, limit);
}

void bench_show(struct bench_figure *figure, double value, const char *unit, enum bench_bound bound, double limit)
{
    set_value(figure, value, unit, bound, limit);
    bench_print(stdout, figure);
}

void bench_show_ratio(struct bench_figure *figure, const struct bench_series *numerator, const struct bench_series *denominator,
                      enum bench_bound bound, double limit)
{
    bench_figure_ratio(figure, numerator, denominator, bound, limit);
    bench_print(stdout, figure);
}

void bench_show_beside(struct bench_report *report, const char *section, const char *name, const struct bench_series *ours,
                       const struct bench_series *raw)
{
    bench_show_ratio(bench_figure_of(report, section, name, ours, raw), ours, raw, BENCH_SHOWN, 0);
}

bool bench_reached(const struct bench_figure *figure)
{
    switch (figure->bound) {
    case BENCH_AT_MOST:
        return figure->value <= figure->limit;
    case BENCH_AT_LEAST:
        return figure->value >= figure->limit;
    case BENCH_SHOWN:
        break;
    }
    return true;
}

size_t bench_missed(const struct bench_report *report)
{
    size_t missed = 0;
    for (size_t i = 0; i < report->count; i++)
        missed += !bench_reached(report->figures[i]);
    return missed;
}

size_t bench_asked(const struct bench_report *report)
{
    size_t asked = 0;
    for (size_t i = 0; i < report->count; i++)
        asked += report->figures[i]->bound != BENCH_SHOWN;
    return asked;
}

bool bench_policy_add(struct bench_report *report, const char *section, const char *text)
{
    for (size_t i = 0; i < report->policy_count; i++) {
        if (strcmp(report->policies[i].section, section) == 0 && strcmp(report->policies[i].text, text) == 0)
            return false;
    }
    struct bench_policy *policies = realloc(report->policies, (report->policy_count + 1) * sizeof(*policies));
    char *copy = strdup(text);
    if (!policies || !copy)
        bench_die(__FILE__, __LINE__, section, "out of memory");
    report->policies = policies;
    policies[report->policy_count++] = (struct bench_policy){section, copy};
    return true;
}

void bench_report_clear(struct bench_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        free(report->figures[i]);
    for (size_t i = 0; i < report->policy_count; i++)
        free(report->policies[i].text);
    free(report->figures);
    free(report->policies);
    memset(report, 0, sizeof(*report));
}
