/* SPDX-License-Identifier: MIT */
/* view_plot.c - `weir trace plot`: memory over time, in the terminal, or as numbers. */
#include "config.h"

#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/terminal.h"
#include "tools/trace/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ROWS = 12, COLUMNS_MAX = 400, LABELS = 12, JSON_SLICES = 200 };

/* Memory of one file over time: the most bytes in each slice. */
struct plot_file {
    struct view_file *file;
    struct model model; /* at its end */
    uint64_t *live, *held;
};

struct plot {
    struct plot_file *files;
    size_t file_count, slices;
    uint64_t begin, end; /* of the axis, in ns since the first file was started */
    uint64_t most;       /* bytes: the greatest of all files */
};

/* Playing ------------------------------------------------------------------------------------------------------------------------------ */

struct plotter {
    const struct plot *plot;
    struct plot_file *to;
    size_t slice; /* that is being filled; SIZE_MAX before the first event */
};

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The slice of a time of the axis. */
static size_t slice_of(const struct plot *plot, uint64_t time)
{
    uint64_t span = plot->end - plot->begin;
    time = time < plot->begin ? plot->begin : time > plot->end ? plot->end : time;
    return span ? (size_t)((double)(time - plot->begin) / (double)span * ((double)plot->slices - 0.001)) : 0;
}

static void note(struct plotter *plotter)
{
    struct plot_file *to = plotter->to;
    to->live[plotter->slice] = most(to->live[plotter->slice], to->model.total.size);
    to->held[plotter->slice] = most(to->held[plotter->slice], to->model.held);
}

static bool look(void *context, const struct trace_event *event)
{
    struct plotter *plotter = context;
    struct model *model = &plotter->to->model;
    size_t slice = slice_of(plotter->plot, view_shifted(plotter->to->file, most(event->time, model->now)));
    if (plotter->slice == SIZE_MAX)
        plotter->slice = slice;
    /* Each slice begins with what there was. */
    while (plotter->slice < slice) {
        plotter->slice++;
        note(plotter);
    }
    model_apply(model, event);
    note(plotter);
    return true;
}

static struct plot plot_make(const struct view *view, size_t slices)
{
    struct plot plot = {.slices = slices, .file_count = view->count, .begin = UINT64_MAX};
    for (size_t i = 0; i < view->count; i++) {
        uint64_t first = view_shifted(&view->files[i], view->files[i].trace.first);
        plot.begin = first < plot.begin ? first : plot.begin;
        plot.end = most(plot.end, view_shifted(&view->files[i], view->files[i].trace.last));
    }
    plot.files = must(calloc(view->count + 1, sizeof plot.files[0]));
    for (size_t i = 0; i < view->count; i++) {
        struct plot_file *to = &plot.files[i];
        struct plotter plotter = {.plot = &plot, .to = to, .slice = SIZE_MAX};
        to->file = &view->files[i];
        to->live = must(calloc(slices, sizeof to->live[0]));
        to->held = must(calloc(slices, sizeof to->held[0]));
        view_hear(to->file, look, &plotter);
        plot.most = most(plot.most, most(to->model.peak_held, to->model.total.peak_size));
    }
    return plot;
}

static void plot_free(struct plot *plot)
{
    for (size_t i = 0; i < plot->file_count; i++) {
        free(plot->files[i].live);
        free(plot->files[i].held);
        model_free(&plot->files[i].model);
    }
    free(plot->files);
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

static size_t columns_of_plot(void)
{
    size_t columns = terminal_columns(COLUMNS_MAX);
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

/* Marks or failures of the file, each at its column. */
static void put_moments(const struct plot *plot, const struct view_file *file, const struct model_moment *moments, size_t count, char *line,
                        char sign)
{
    for (size_t i = 0; i < count; i++)
        line[slice_of(plot, view_shifted(file, moments[i].time))] = sign;
}

static void print_moments(const struct plot *plot, const struct plot_file *file)
{
    char *line = must(malloc(plot->slices + 1));
    memset(line, ' ', plot->slices);
    put_moments(plot, file->file, file->model.marks, file->model.mark_count, line, '|');
    put_moments(plot, file->file, file->model.ooms, file->model.oom_count, line, '!');
    size_t len = plot->slices;
    while (len > 0 && line[len - 1] == ' ')
        len--;
    if (len)
        printf("%*s%.*s\n", LABELS, "", (int)len, line);
    free(line);
}

static void print_file(const struct plot *plot, const struct plot_file *file)
{
    bool blocks = has_blocks();
    for (size_t row = ROWS; row-- > 0 && file->file->trace.events;) {
        const char *label = row == ROWS - 1 || row == ROWS / 2 - 1 ? SIZE_TEXT(plot->most / ROWS * (row + 1)) : "";
        printf("%*s %s", LABELS - 2, row == ROWS - 1 ? SIZE_TEXT(plot->most) : label, blocks ? "\u2502" : "|");
        for (size_t i = 0; i < plot->slices; i++)
            fputs(cell_of(file->live[i], file->held[i], plot->most, row, blocks), stdout);
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
        has_marks = has_marks || plot->files[i].model.mark_count;
        has_ooms = has_ooms || plot->files[i].model.oom_count;
    }
    char begin[WEIR__TIME_LEN], end[WEIR__TIME_LEN];
    struct view_moments ends = {0};
    view_moment_below(begin, &ends, plot->begin);
    view_moment_below(end, &ends, plot->end);
    printf("%*s%s%*s%s\n", LABELS, "", begin, (int)plot->slices - view_columns(begin) - view_columns(end), "", end);
    printf("%*s%s live, %s held%s%s\n", LABELS, "", has_blocks() ? "\u2588" : "#", has_blocks() ? "\u00b7" : ":",
           has_marks ? ", | mark" : "", has_ooms ? ", ! out of memory" : "");
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void json_file(const struct view *view, const struct plot *plot, const struct plot_file *file)
{
    struct json *json = view->json;
    const struct model *model = &file->model;
    view_file_begin(view, file->file);
    view_say_losses(view, file->file);
    json_uints(json, "live", file->live, plot->slices);
    json_uints(json, "held", file->held, plot->slices);
    view_json_moments(json, "marks", file->file->shift, model->marks, model->mark_count);
    view_json_moments(json, "out_of_memory", file->file->shift, model->ooms, model->oom_count);
    view_file_end(view);
}

int view_plot(const struct view *view)
{
    struct plot plot = plot_make(view, view->json ? JSON_SLICES : columns_of_plot());
    for (size_t i = 0; i < view->count && !view->json; i++)
        view_say_losses(view, &view->files[i]);
    for (size_t i = 0; i < plot.file_count && view->json; i++)
        json_file(view, &plot, &plot.files[i]);
    if (!view->json)
        print_words(view, &plot);
    plot_free(&plot);
    return EXIT_GOOD;
}
