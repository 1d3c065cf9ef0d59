/* SPDX-License-Identifier: MIT */
/*
 * How figures are written: lines for people, JSON with every sample for programs.
 */
#include "bench/bench.h"

#include <string.h>

const char *bench_size_name(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    size_t unit = 0;
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%llu %s", (unsigned long long)bytes, units[unit]);
    return text;
}

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
    snprintf(text, 32, size < 100 ? "%.1f %s" : "%.0f %s", value, unit);
    return text;
}

void bench_print_policy(FILE *file, const char *section, const char *text)
{
    fprintf(file, "%-8s policy: ", section);
    for (; *text; text++) {
        if (*text != '\n')
            fputc(*text, file);
        else if (text[1])
            fputs(" | ", file);
    }
    fputc('\n', file);
}

static const char *sign_of(const struct bench_figure *figure)
{
    return figure->bound == BENCH_AT_LEAST ? ">=" : "<=";
}

/* Bytes as people read them, all else with its unit as it is. */
static const char *value_text(double value, const char *unit, char text[32])
{
    if (strcmp(unit, "bytes") == 0)
        return scaled(value, unit, text);
    snprintf(text, 32, "%.3f %s", value, unit);
    return text;
}

void bench_print(FILE *file, const struct bench_figure *figure)
{
    char value[32], limit[32], median[32], min[32], max[32];
    fprintf(file, "%-8s %-62s %14s ", figure->section, figure->name, value_text(figure->value, figure->value_unit, value));
    if (figure->bound == BENCH_SHOWN)
        fputs("shown\n", file);
    else
        fprintf(file, "asked %s %s: %s\n", sign_of(figure), value_text(figure->limit, figure->value_unit, limit),
                bench_reached(figure) ? "reached" : "MISSED");
    for (size_t i = 0; i < figure->series_count; i++) {
        const struct bench_series *series = &figure->series[i];
        fprintf(file, "%s%s %s (%s .. %s of %zu)", i ? "; " : "         ", series->name,
                scaled(bench_median(series), figure->unit, median), scaled(bench_min(series), figure->unit, min),
                scaled(bench_max(series), figure->unit, max), series->count);
    }
    fputc('\n', file);
    fflush(file);
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void write_member(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\": ", key);
    write_string(file, text);
    fputs(", ", file);
}

static void write_series(FILE *file, const struct bench_series *series)
{
    fputc('{', file);
    write_member(file, "name", series->name);
    fprintf(file, "\"median\": %.3f, \"min\": %.3f, \"max\": %.3f, \"values\": [", bench_median(series), bench_min(series),
            bench_max(series));
    for (size_t i = 0; i < series->count; i++)
        fprintf(file, "%s%.3f", i ? ", " : "", series->values[i]);
    fputs("]}", file);
}

static void write_figure(FILE *file, const struct bench_figure *figure)
{
    fputs("    {", file);
    write_member(file, "section", figure->section);
    write_member(file, "name", figure->name);
    if (figure->group[0]) {
        write_member(file, "group", figure->group);
        fprintf(file, "\"x\": %.0f, ", figure->x);
    }
    fprintf(file, "\"value\": %.6f, ", figure->value);
    write_member(file, "value_unit", figure->value_unit);
    if (figure->bound == BENCH_SHOWN)
        fputs("\"asked\": null, \"limit\": null, \"reached\": null, ", file);
    else
        fprintf(file, "\"asked\": \"%s\", \"limit\": %.12g, \"reached\": %s, ", sign_of(figure), figure->limit,
                bench_reached(figure) ? "true" : "false");
    write_member(file, "unit", figure->unit);
    fputs("\"series\": [", file);
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
    fputs("},\n  \"policies\": [", file);
    for (size_t i = 0; i < report->policy_count; i++) {
        fputs(i ? ",\n    {" : "\n    {", file);
        write_member(file, "section", report->policies[i].section);
        fputs("\"text\": ", file);
        write_string(file, report->policies[i].text);
        fputc('}', file);
    }
    fputs("],\n  \"figures\": [\n", file);
    for (size_t i = 0; i < report->count; i++) {
        write_figure(file, report->figures[i]);
        fputs(i + 1 < report->count ? ",\n" : "\n", file);
    }
    fputs("  ]\n}\n", file);
}
