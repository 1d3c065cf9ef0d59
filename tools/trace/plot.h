/* SPDX-License-Identifier: MIT */
/* plot.h - memory over time: what each pool of each file had, in slices of one time axis. The views of it own it. */
#ifndef WEIR_TRACE_PLOT_H
#define WEIR_TRACE_PLOT_H

#include "tools/trace/view.h"

enum {
    PLOT_POOLS_MAX = 64,    /* lines of a file; what further pools have is in its total alone */
    PLOT_MOMENTS_MAX = 400, /* marks and failures of a file that are drawn */
};

/* The most bytes in each slice. */
struct plot_line {
    const struct trace_pool *pool; /* NULL: all pools of the file together */
    uint64_t *live, *held;
};

struct plot_file {
    const struct view_file *file;
    struct plot_line *lines; /* the total first */
    size_t line_count;
    struct model_moment *marks, *ooms; /* their times on the axis */
    size_t mark_count, oom_count;      /* of those that are drawn */
};

struct plot {
    struct plot_file *files;
    size_t file_count, slices;
    uint64_t begin, end; /* of the axis, in ns since the first file was started */
    uint64_t most;       /* bytes: the greatest of all lines */
};

/* Plays all files. */
struct plot plot_make(const struct view *view, size_t slices);
void plot_free(struct plot *plot);

#endif
