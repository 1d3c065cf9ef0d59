/* SPDX-License-Identifier: MIT */
/* plot_svg.c - a plot as a file that needs nothing else: one panel for each file, below each other, on one axis of time. */
#include "tools/trace/plot.h"
#include "tools/trace/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 90, RIGHT = 230, TOP = 40, PANEL = 220, GAP = 60, WIDTH = 800, TICKS = 5 };

/* Colours that people with any sight can tell apart; the total is black. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};

static const char *colour_of(size_t line)
{
    return line == 0 ? "#222222" : colours[(line - 1) % (sizeof colours / sizeof colours[0])];
}

static double x_of(const struct plot *plot, uint64_t time)
{
    uint64_t span = plot->end - plot->begin;
    return LEFT + (span ? (double)(time - plot->begin) / (double)span * WIDTH : 0);
}

static double y_of(const struct plot *plot, double top, uint64_t bytes)
{
    return top + PANEL - (plot->most ? (double)bytes / (double)plot->most * PANEL : 0);
}

/* Steps: each slice at its height. fill: down to the axis. */
static void write_line(FILE *out, const struct plot *plot, double top, const uint64_t *bytes, const char *style, bool fill)
{
    double step = (double)WIDTH / (double)plot->slices;
    fprintf(out, "<path d=\"M%d %.1f", LEFT, fill ? top + PANEL : y_of(plot, top, bytes[0]));
    for (size_t i = 0; i < plot->slices; i++)
        if (i == 0 || bytes[i] != bytes[i - 1])
            fprintf(out, "%s%.1fV%.1f", "H", LEFT + (double)i * step, y_of(plot, top, bytes[i]));
    fprintf(out, "H%d", LEFT + WIDTH);
    if (fill)
        fprintf(out, "V%.1fZ", top + PANEL);
    fprintf(out, "\" %s/>\n", style);
}

static void write_axes(FILE *out, const struct plot *plot, double top)
{
    for (uint64_t i = 0; i <= TICKS; i++) {
        uint64_t bytes = plot->most / TICKS * i;
        double y = y_of(plot, top, bytes);
        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT, y,
                LEFT + WIDTH, LEFT - 6, y + 4, SIZE_TEXT(bytes));
        uint64_t time = plot->begin + (plot->end - plot->begin) / TICKS * i;
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3f s</text>\n", x_of(plot, time), top + PANEL + 16,
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
    write_axes(out, plot, top);
    for (size_t i = 0, row = 0; i < file->line_count; i++) {
        const struct plot_line *line = &file->lines[i];
        char style[160];
        /* With one pool, the total is its line. */
        if ((i > 0 && !line->pool) || (i == 0 && file->line_count == 2))
            continue;
        snprintf(style, sizeof style, "fill=\"%s\" fill-opacity=\"0.15\" stroke=\"%s\"", colour_of(i), colour_of(i));
        write_line(out, plot, top, line->live, style, true);
        snprintf(style, sizeof style, "fill=\"none\" stroke=\"%s\" stroke-dasharray=\"5 3\"", colour_of(i));
        write_line(out, plot, top, line->held, style, false);
        if (row * 18 + 18 > PANEL)
            continue;
        double y = top + 12 + 18 * (double)row++;
        fprintf(out, "<path d=\"M%d %.1fh18\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%.1f\">", LEFT + WIDTH + 12, y - 4,
                colour_of(i), LEFT + WIDTH + 36, y);
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
