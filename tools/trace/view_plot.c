/* SPDX-License-Identifier: MIT */
/* view_plot.c - `weir trace plot`: memory over time, in the terminal, or as numbers. */
#include "config.h"

#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/trace/plot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ROWS = 12, COLUMNS_DEFAULT = 80, COLUMNS_MAX = 400, LABELS = 12, JSON_SLICES = 200 };

static size_t columns_of_terminal(void)
{
    const char *text = variable("COLUMNS");
    char *end;
    unsigned long columns = text && text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (!columns || *end || columns > COLUMNS_MAX)
        columns = COLUMNS_DEFAULT;
    return columns < LABELS + 20 ? 20 : columns - LABELS;
}

/* Whether the terminal has more characters than those of ASCII. */
static bool has_blocks(void)
{
    const char *locale = variable("LC_ALL");
    locale = locale ? locale : variable("LC_CTYPE");
    locale = locale ? locale : variable("LANG");
    return locale && (strcasestr(locale, "UTF-8") || strcasestr(locale, "UTF8"));
}

/* The cell of a column whose lower edge is at `row` eighths: live in blocks, held above it as dots. */
static const char *cell_of(uint64_t live, uint64_t held, uint64_t most, size_t row, bool blocks)
{
    static const char *const eighths[] = {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
    double live_eighths = most ? (double)live / (double)most * ROWS * 8 : 0,
           held_eighths = most ? (double)held / (double)most * ROWS * 8 : 0;
    double over = live_eighths - (double)row * 8;
    /* What is there at all is seen. */
    if (over > 0 && over < 1)
        over = row == 0 ? 1 : 0;
    if (over >= 1)
        return blocks ? eighths[over >= 8 ? 8 : (size_t)over] : over >= 4 || row == 0 ? "#" : ".";
    return held_eighths - (double)row * 8 >= 4 ? (blocks ? "\u00b7" : ":") : " ";
}

/* Marks and failures of the file, each at its column. */
static void print_moments(const struct plot *plot, const struct plot_file *file)
{
    char *line = must(malloc(plot->slices + 1));
    uint64_t span = plot->end - plot->begin;
    memset(line, ' ', plot->slices);
    line[plot->slices] = '\0';
    for (size_t i = 0; i < file->mark_count + file->oom_count; i++) {
        bool is_mark = i < file->mark_count;
        uint64_t time = is_mark ? file->marks[i].time : file->ooms[i - file->mark_count].time;
        size_t column = span ? (size_t)((double)(time - plot->begin) / (double)span * ((double)plot->slices - 0.001)) : 0;
        line[column < plot->slices ? column : plot->slices - 1] = is_mark ? '|' : '!';
    }
    for (size_t len = plot->slices; len > 0 && line[len - 1] == ' '; len--)
        line[len - 1] = '\0';
    if (line[0])
        printf("%*s%s\n", LABELS, "", line);
    free(line);
}

static void print_file(const struct plot *plot, const struct plot_file *file)
{
    bool blocks = has_blocks();
    for (size_t row = ROWS; row-- > 0 && file->line_count;) {
        const struct plot_line *total = &file->lines[0];
        const char *label = row == ROWS - 1 || row == ROWS / 2 - 1 ? SIZE_TEXT(plot->most / ROWS * (row + 1)) : "";
        printf("%*s %s", LABELS - 2, row == ROWS - 1 ? SIZE_TEXT(plot->most) : label, blocks ? "\u2502" : "|");
        for (size_t i = 0; i < plot->slices; i++)
            fputs(cell_of(total->live[i], total->held[i], plot->most, row, blocks), stdout);
        putchar('\n');
    }
    print_moments(plot, file);
}

static void print_words(const struct view *view, const struct plot *plot)
{
    bool has_marks = false, has_ooms = false;
    for (size_t i = 0; i < plot->file_count; i++) {
        view_file_begin(view, &view->files[i]);
        print_file(plot, &plot->files[i]);
        has_marks = has_marks || plot->files[i].mark_count;
        has_ooms = has_ooms || plot->files[i].oom_count;
    }
    char begin[WEIR__TIME_LEN], end[WEIR__TIME_LEN];
    struct view_moments ends = {0};
    view_moment_below(begin, &ends, plot->begin);
    view_moment_below(end, &ends, plot->end);
    printf("%*s%s%*s%s\n", LABELS, "", begin, (int)plot->slices - view_columns(begin) - view_columns(end), "", end);
    printf("%*s%s live, %s held%s%s\n", LABELS, "", has_blocks() ? "\u2588" : "#", has_blocks() ? "\u00b7" : ":",
           has_marks ? ", | mark" : "", has_ooms ? ", ! out of memory" : "");
}

static void json_values(struct json *json, const char *key, const uint64_t *values, size_t count)
{
    json_in_line(json);
    json_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_uint(json, NULL, values[i]);
    json_end(json);
}

static void json_file(const struct view *view, const struct plot *plot, const struct plot_file *file)
{
    struct json *json = view->json;
    view_file_begin(view, file->file);
    view_say_losses(view, file->file);
    json_array(json, "lines");
    for (size_t i = 0; i < file->line_count; i++) {
        if (i > 0 && !file->lines[i].pool)
            continue;
        json_object(json, NULL);
        view_json_pool(json, file->lines[i].pool);
        json_values(json, "live", file->lines[i].live, plot->slices);
        json_values(json, "held", file->lines[i].held, plot->slices);
        json_end(json);
    }
    json_end(json);
    for (int kind = 0; kind < 2; kind++) {
        json_array(json, kind ? "out_of_memory" : "marks");
        for (size_t i = 0; i < (kind ? file->oom_count : file->mark_count); i++) {
            const struct model_moment *moment = kind ? &file->ooms[i] : &file->marks[i];
            json_in_line(json);
            json_object(json, NULL);
            json_uint(json, "time", moment->time);
            json_string(json, "name", moment->name ? moment->name->text : NULL);
            json_end(json);
        }
        json_end(json);
    }
    view_file_end(view);
}

int view_plot(const struct view *view)
{
    struct plot plot = plot_make(view, view->json ? JSON_SLICES : columns_of_terminal());
    for (size_t i = 0; i < view->count && !view->json; i++)
        view_say_losses(view, &view->files[i]);
    for (size_t i = 0; i < plot.file_count && view->json; i++)
        json_file(view, &plot, &plot.files[i]);
    if (!view->json)
        print_words(view, &plot);
    plot_free(&plot);
    return EXIT_GOOD;
}
