/* SPDX-License-Identifier: MIT */
/*
 * How figures are written: lines for people, JSON with every sample for programs.
 */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#include "tools/common/json.h"

const char *bench_size_name(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
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
        {"ns", 1e9, "s"},
        {"ns", 1e6, "ms"},
        {"ns", 1e3, "us"},
        {"bytes", 1024.0 * 1024 * 1024, "GiB"},
        {"bytes", 1024.0 * 1024, "MiB"},
        {"bytes", 1024.0, "KiB"},
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
        fprintf(file, "%s%s %s (%s .. %s of %zu)", i ? "; " : "         ", series->name, scaled(bench_median(series), figure->unit, median),
                scaled(bench_min(series), figure->unit, min), scaled(bench_max(series), figure->unit, max), series->count);
    }
    fputc('\n', file);
    fflush(file);
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void write_series(struct json *json, const struct bench_series *series)
{
    json_object(json, NULL);
    json_string(json, "name", series->name);
    json_number(json, "median", bench_median(series), 3);
    json_number(json, "min", bench_min(series), 3);
    json_number(json, "max", bench_max(series), 3);
    json_array(json, "values");
    for (size_t i = 0; i < series->count; i++)
        json_number(json, NULL, series->values[i], 3);
    json_end(json);
    json_end(json);
}

/* On one line, so that grep finds a figure. */
static void write_figure(struct json *json, const struct bench_figure *figure)
{
    bool is_asked = figure->bound != BENCH_SHOWN;
    json_in_line(json);
    json_object(json, NULL);
    json_string(json, "section", figure->section);
    json_string(json, "name", figure->name);
    if (figure->group[0]) {
        json_string(json, "group", figure->group);
        json_number(json, "x", figure->x, 0);
    }
    json_number(json, "value", figure->value, 6);
    json_string(json, "value_unit", figure->value_unit);
    json_string(json, "asked", is_asked ? sign_of(figure) : NULL);
    json_number(json, "limit", is_asked ? figure->limit : NAN, 3);
    if (is_asked)
        json_bool(json, "reached", bench_reached(figure));
    else
        json_null(json, "reached");
    json_string(json, "unit", figure->unit);
    json_array(json, "series");
    for (size_t i = 0; i < figure->series_count; i++)
        write_series(json, &figure->series[i]);
    json_end(json);
    json_end(json);
}

void bench_write_json(FILE *file, const char *const *machine, const struct bench_report *report)
{
    struct json json = JSON_INIT(file);
    json_object(&json, NULL);
    json_object(&json, "machine");
    for (size_t i = 0; machine[i]; i += 2)
        json_string(&json, machine[i], machine[i + 1]);
    json_end(&json);
    json_array(&json, "policies");
    for (size_t i = 0; i < report->policy_count; i++) {
        json_object(&json, NULL);
        json_string(&json, "section", report->policies[i].section);
        json_string(&json, "text", report->policies[i].text);
        json_end(&json);
    }
    json_end(&json);
    json_array(&json, "figures");
    for (size_t i = 0; i < report->count; i++)
        write_figure(&json, report->figures[i]);
    json_end(&json);
    json_end(&json);
}
