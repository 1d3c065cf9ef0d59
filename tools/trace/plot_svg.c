/* SPDX-License-Identifier: MIT */
/* plot_svg.c - a plot as a file that needs nothing else: one panel for each file, below each other, on one axis of time. */
#include "tools/trace/plot.h"
#include "tools/trace/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 90, RIGHT = 230, TOP = 40, PANEL = 220, GAP = 60, WIDTH = 800 };

static double x_of(const struct plot *plot, uint64_t time)
{
    uint64_t span = plot->end - plot->begin;
    return LEFT + (span ? (double)(time - plot->begin) / (double)span * WIDTH : 0);
}

static void write_axes(FILE *out, const struct plot *plot, const struct svg_panel *panel)
{
    svg_scale(out, panel);
    for (uint64_t i = 0; i <= SVG_TICKS; i++) {
        uint64_t time = plot->begin + (plot->end - plot->begin) / SVG_TICKS * i;
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3f s</text>\n", x_of(plot, time), panel->top + PANEL + 16,
                (double)time / 1e9);
    }
}

static void write_moments(FILE *out, const struct plot *plot, double top, const struct plot_file *file)
{
    for (size_t i = 0; i < file->mark_count; i++) {
        double x = x_of(plot, file->marks[i].time);
        const char *name = file->marks[i].name ? file->marks[i].name->text : "mark";
        fprintf(out, "<path d=\"M%.1f %.1fv%d\" stroke=\"#999999\" stroke-dasharray=\"2 3\"><title>", x, top, PANEL);
        svg_text(out, name);
        fprintf(out, "</title></path>\n");
        /* Names of many marks would lie on each other. */
        if (file->mark_count <= 24) {
            fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(90 %.1f %.1f)\" fill=\"#777777\">", x + 3, top + 4, x + 3,
                    top + 4);
            svg_text(out, name);
            fprintf(out, "</text>\n");
        }
    }
    for (size_t i = 0; i < file->oom_count; i++)
        fprintf(out, "<path d=\"M%.1f %.1fv%d\" stroke=\"#cc0000\" stroke-width=\"2\"><title>out of memory</title></path>\n",
                x_of(plot, file->ooms[i].time), top, PANEL);
}

static void write_panel(FILE *out, const struct plot *plot, double top, const struct plot_file *file)
{
    const struct trace *trace = &file->file->trace;
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">", LEFT, top - 12);
    svg_text(out, trace->path);
    if (trace->header.program) {
        fprintf(out, ": ");
        svg_text(out, trace->header.program);
        fprintf(out, ", pid %" PRIu64, trace->header.pid);
    }
    if (trace->header.rank) {
        fprintf(out, ", rank ");
        svg_text(out, trace->header.rank);
    }
    fprintf(out, "</text>\n");
    const struct svg_panel panel = {.left = LEFT, .width = WIDTH, .height = PANEL, .top = top, .most = plot->most};
    write_axes(out, plot, &panel);
    for (size_t i = 0, row = 0; i < file->line_count; i++) {
        const struct plot_line *line = &file->lines[i];
        char style[160];
        /* With one pool, the total is its line. */
        if ((i > 0 && !line->pool) || (i == 0 && file->line_count == 2))
            continue;
        snprintf(style, sizeof style, "fill=\"%s\" fill-opacity=\"0.15\" stroke=\"%s\"", svg_colour(i), svg_colour(i));
        svg_steps(out, &panel, line->live, plot->slices, style, true);
        snprintf(style, sizeof style, "fill=\"none\" stroke=\"%s\" stroke-dasharray=\"5 3\"", svg_colour(i));
        svg_steps(out, &panel, line->held, plot->slices, style, false);
        if (row * 18 + 18 > PANEL)
            continue;
        double y = top + 12 + 18 * (double)row++;
        fprintf(out, "<path d=\"M%d %.1fh18\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%.1f\">", LEFT + WIDTH + 12, y - 4,
                svg_colour(i), LEFT + WIDTH + 36, y);
        svg_text(out, line->pool ? POOL_TEXT(line->pool) : "all pools");
        fprintf(out, "</text>\n");
    }
    write_moments(out, plot, top, file);
}

void plot_write_svg(const struct plot *plot, FILE *out)
{
    int height = TOP + (int)plot->file_count * (PANEL + GAP);
    svg_begin(out, LEFT + WIDTH + RIGHT, height, "GPU memory over time");
    fprintf(out,
            "<text x=\"%d\" y=\"14\" fill=\"#777777\">filled: live, what the program has; dashed: held, what the pools have of the device; "
            "red: out of memory</text>\n",
            LEFT);
    for (size_t i = 0; i < plot->file_count; i++)
        write_panel(out, plot, TOP + (double)i * (PANEL + GAP), &plot->files[i]);
    svg_end(out);
}
