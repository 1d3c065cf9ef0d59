/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t bench_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
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
    if (report->count == BENCH_FIGURES_MAX)
        bench_die(__FILE__, __LINE__, name, "more figures than BENCH_FIGURES_MAX");
    struct bench_figure *figure = &report->figures[report->count++];
    memset(figure, 0, sizeof(*figure));
    figure->section = section;
    figure->unit = "ns";
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

bool bench_reached(const struct bench_figure *figure)
{
    return figure->at_least ? figure->value >= figure->limit : figure->value <= figure->limit;
}

/* Output ------------------------------------------------------------------------------------------------------------------------------- */

/* 1234567 ns as "1.235 ms", 2 GiB of bytes as "2.000 GiB". */
static const char *scaled(double value, const char *unit, char text[32])
{
    static const struct {
        const char *unit;
        double from;
        const char *name;
    } scales[] = {
        { "ns", 1e9, "s" },
        { "ns", 1e6, "ms" },
        { "ns", 1e3, "us" },
        { "bytes", 1024.0 * 1024 * 1024, "GiB" },
        { "bytes", 1024.0 * 1024, "MiB" },
        { "bytes", 1024.0, "KiB" },
    };
    double size = value < 0 ? -value : value;
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        if (strcmp(scales[i].unit, unit) == 0 && size >= scales[i].from) {
            snprintf(text, 32, "%.3f %s", value / scales[i].from, scales[i].name);
            return text;
        }
    }
    snprintf(text, 32, "%.0f %s", value, unit);
    return text;
}

void bench_print(const struct bench_figure *figure)
{
    char median[32], min[32], max[32];
    printf("%-8s %-46s %10.3f %-2s asked %s %g %s: %s\n", figure->section, figure->name, figure->value, figure->value_unit,
           figure->at_least ? ">=" : "<=", figure->limit, figure->value_unit, bench_reached(figure) ? "reached" : "MISSED");
    for (size_t i = 0; i < figure->series_count; i++) {
        const struct bench_series *series = &figure->series[i];
        printf("%s%s %s (%s .. %s)", i ? "; " : "         ", series->name, scaled(bench_median(series), figure->unit, median),
               scaled(bench_min(series), figure->unit, min), scaled(bench_max(series), figure->unit, max));
    }
    putchar('\n');
    fflush(stdout);
}

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputc('"', file);
}

static void write_series(FILE *file, const struct bench_series *series)
{
    fputs("{\"name\": ", file);
    write_string(file, series->name);
    fprintf(file, ", \"median\": %.3f, \"min\": %.3f, \"max\": %.3f, \"values\": [", bench_median(series), bench_min(series),
            bench_max(series));
    for (size_t i = 0; i < series->count; i++)
        fprintf(file, "%s%.3f", i ? ", " : "", series->values[i]);
    fputs("]}", file);
}

static void write_figure(FILE *file, const struct bench_figure *figure)
{
    fputs("    {\"section\": ", file);
    write_string(file, figure->section);
    fputs(", \"name\": ", file);
    write_string(file, figure->name);
    fputs(", \"value\": ", file);
    fprintf(file, "%.6f, \"value_unit\": ", figure->value);
    write_string(file, figure->value_unit);
    fprintf(file, ", \"asked\": \"%s\", \"limit\": %g, \"reached\": %s, \"unit\": ", figure->at_least ? ">=" : "<=", figure->limit,
            bench_reached(figure) ? "true" : "false");
    write_string(file, figure->unit);
    fputs(", \"series\": [", file);
    for (size_t i = 0; i < figure->series_count; i++) {
        fputs(i ? ",\n        " : "\n        ", file);
        write_series(file, &figure->series[i]);
    }
    fputs("]}", file);
}

void bench_write_json(FILE *file, const char *const *machine, const struct bench_report *report)
{
    fputs("{\n  \"machine\": {", file);
    for (size_t i = 0; machine[i]; i += 2) {
        fputs(i ? ", " : "", file);
        write_string(file, machine[i]);
        fputs(": ", file);
        write_string(file, machine[i + 1]);
    }
    fputs("},\n  \"figures\": [\n", file);
    for (size_t i = 0; i < report->count; i++) {
        write_figure(file, &report->figures[i]);
        fputs(i + 1 < report->count ? ",\n" : "\n", file);
    }
    fputs("  ]\n}\n", file);
}
