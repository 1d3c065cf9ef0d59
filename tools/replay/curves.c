/* SPDX-License-Identifier: MIT */
#include "tools/replay/curves.h"

#include "tools/common/format.h"
#include "tools/trace/svg.h"

enum { LEFT = 90, RIGHT = 320, TOP = 40, PANEL = 320, WIDTH = 800, ROW = 18 };

static void write_name(FILE *out, size_t row, const char *style, const char *name, const char *more)
{
    double y = TOP + 12 + ROW * (double)row;
    fprintf(out, "<path d=\"M%d %.1fh18\" %s/><text x=\"%d\" y=\"%.1f\">", LEFT + WIDTH + 12, y - 4, style, LEFT + WIDTH + 36, y);
    svg_text(out, name);
    svg_text(out, more);
    fprintf(out, "</text>\n");
}

static void write_times(FILE *out, const struct script *script)
{
    for (uint64_t i = 0; i <= SVG_TICKS; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + (double)i * WIDTH / SVG_TICKS, TOP + PANEL + 16,
                TIME_TEXT((script->end - script->begin) / SVG_TICKS * i));
}

static void write_policy(const struct report *report, size_t number, const struct svg_panel *panel, FILE *out)
{
    const struct outcome *outcome = &report->outcomes[number];
    char style[80], more[96];
    snprintf(style, sizeof style, "fill=\"none\" stroke=\"%s\" stroke-width=\"2\"", svg_colour(number + 1));
    if (outcome->is_done)
        svg_steps(out, panel, outcome->reserved, OUTCOME_SLICES, style, false);
    snprintf(more, sizeof more, ": %s, stalls %s", SIZE_TEXT(outcome->peak_reserved), TIME_TEXT(outcome->stall));
    write_name(out, number + 1, style, report->names[number], outcome->is_done ? more : ": failed");
}

void curves_write(const struct report *report, FILE *out)
{
    const char *live = "fill=\"#222222\" fill-opacity=\"0.15\" stroke=\"#222222\"";
    struct svg_panel panel = {.left = LEFT, .width = WIDTH, .height = PANEL, .top = TOP, .most = report->outcomes[0].peak_live};
    int rows = TOP + 12 + ROW * (int)(report->count + 1);
    for (size_t i = 0; i < report->count; i++)
        if (panel.most < report->outcomes[i].peak_reserved)
            panel.most = report->outcomes[i].peak_reserved;
    svg_begin(out, LEFT + WIDTH + RIGHT, rows > TOP + PANEL + 40 ? rows : TOP + PANEL + 40, "GPU memory of replays over time");
    fprintf(out, "<text x=\"%d\" y=\"16\" fill=\"#777777\">weir replay, ", LEFT);
    svg_text(out, report->script->trace->path);
    fprintf(out, ": what the pools had of the device under each policy, in the time of the recording</text>\n");
    svg_scale(out, &panel);
    write_times(out, report->script);
    if (report->outcomes[0].is_done)
        svg_steps(out, &panel, report->outcomes[0].live, OUTCOME_SLICES, live, true);
    write_name(out, 0, live, "live: what the program has", "");
    for (size_t i = 0; i < report->count; i++)
        write_policy(report, i, &panel, out);
    svg_end(out);
}
