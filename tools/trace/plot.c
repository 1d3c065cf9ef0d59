/* SPDX-License-Identifier: MIT */
#include "tools/trace/plot.h"
#include "tools/common/command.h"

#include <stdlib.h>
#include <string.h>

/* One play of a file. */
struct plotter {
    const struct plot *plot;
    struct plot_file *to;
    struct model model;
    size_t slice; /* that is being filled; SIZE_MAX before the first event */
};

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The time on the axis. */
static uint64_t whole_time(const struct view_file *file, uint64_t time)
{
    return time > UINT64_MAX - file->shift ? UINT64_MAX : time + file->shift;
}

static size_t slice_of(const struct plot *plot, uint64_t time)
{
    uint64_t span = plot->end - plot->begin;
    time = time < plot->begin ? plot->begin : time > plot->end ? plot->end : time;
    return span ? (size_t)((double)(time - plot->begin) / (double)span * ((double)plot->slices - 0.001)) : 0;
}

static struct plot_line *line_of(struct plotter *plotter, size_t line)
{
    struct plot_file *to = plotter->to;
    for (; to->line_count <= line; to->line_count++) {
        struct plot_line *made = &to->lines[to->line_count];
        made->live = must(calloc(plotter->plot->slices, sizeof made->live[0]));
        made->held = must(calloc(plotter->plot->slices, sizeof made->held[0]));
    }
    return &to->lines[line];
}

/* What a pool has now, in the slice. model->pools[0] is no pool's, so that lines and pools have the same places. */
static void note_pool(struct plotter *plotter, size_t place)
{
    if (place == 0 || place >= plotter->model.pool_count || place > PLOT_POOLS_MAX)
        return;
    const struct model_pool *pool = &plotter->model.pools[place];
    struct plot_line *line = line_of(plotter, place);
    line->pool = pool->pool;
    line->live[plotter->slice] = most(line->live[plotter->slice], pool->live.size);
    line->held[plotter->slice] = most(line->held[plotter->slice], model_held(pool));
}

static void note_total(struct plotter *plotter)
{
    struct plot_line *line = line_of(plotter, 0);
    line->live[plotter->slice] = most(line->live[plotter->slice], plotter->model.total.size);
    line->held[plotter->slice] = most(line->held[plotter->slice], plotter->model.held);
}

/* Each slice begins with what there was. */
static void go_to(struct plotter *plotter, size_t slice)
{
    if (plotter->slice == SIZE_MAX)
        plotter->slice = slice;
    while (plotter->slice < slice) {
        plotter->slice++;
        note_total(plotter);
        for (size_t i = 1; i < plotter->model.pool_count; i++)
            note_pool(plotter, i);
    }
}

static bool look(void *context, const struct trace_event *event)
{
    struct plotter *plotter = context;
    uint64_t now = event->time > plotter->model.now ? event->time : plotter->model.now;
    go_to(plotter, slice_of(plotter->plot, whole_time(plotter->to->file, now)));
    model_apply(&plotter->model, event);
    note_total(plotter);
    note_pool(plotter, event->pool ? (size_t)event->pool->number + 1 : 0);
    return true;
}

/* The first of them, with their times on the axis. */
static struct model_moment *take_moments(const struct view_file *file, const struct model_moment *moments, size_t *count)
{
    *count = *count < PLOT_MOMENTS_MAX ? *count : PLOT_MOMENTS_MAX;
    struct model_moment *taken = must(calloc(*count + 1, sizeof taken[0]));
    for (size_t i = 0; i < *count; i++) {
        taken[i] = moments[i];
        taken[i].time = whole_time(file, moments[i].time);
    }
    return taken;
}

static void plot_file(struct plot *plot, struct view_file *file, struct plot_file *to)
{
    struct plotter plotter = {.plot = plot, .to = to, .slice = SIZE_MAX};
    to->file = file;
    to->lines = must(calloc(PLOT_POOLS_MAX + 1, sizeof to->lines[0]));
    view_hear(file, look, &plotter);
    to->mark_count = plotter.model.mark_count;
    to->oom_count = plotter.model.oom_count;
    to->marks = take_moments(file, plotter.model.marks, &to->mark_count);
    to->ooms = take_moments(file, plotter.model.ooms, &to->oom_count);
    plot->most = most(plot->most, most(plotter.model.peak_held, plotter.model.total.peak_size));
    model_free(&plotter.model);
}

struct plot plot_make(const struct view *view, size_t slices)
{
    struct plot plot = {.slices = slices, .file_count = view->count, .begin = UINT64_MAX};
    for (size_t i = 0; i < view->count; i++) {
        uint64_t first = whole_time(&view->files[i], view->files[i].trace.first);
        plot.begin = first < plot.begin ? first : plot.begin;
        plot.end = most(plot.end, whole_time(&view->files[i], view->files[i].trace.last));
    }
    plot.files = must(calloc(view->count + 1, sizeof plot.files[0]));
    for (size_t i = 0; i < view->count; i++)
        plot_file(&plot, &view->files[i], &plot.files[i]);
    return plot;
}

void plot_free(struct plot *plot)
{
    for (size_t i = 0; i < plot->file_count; i++) {
        struct plot_file *file = &plot->files[i];
        for (size_t j = 0; j < file->line_count; j++) {
            free(file->lines[j].live);
            free(file->lines[j].held);
        }
        free(file->lines);
        free(file->marks);
        free(file->ooms);
    }
    free(plot->files);
    *plot = (struct plot){0};
}
