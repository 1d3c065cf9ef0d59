/* SPDX-License-Identifier: MIT */
#include "tools/trace/svg.h"

#include "tools/common/format.h"
#include "tools/trace/view.h"

void svg_begin(FILE *out, int width, int height, const char *title)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height, title);
}

void svg_end(FILE *out)
{
    fprintf(out, "</svg>\n");
}

const char *svg_colour(size_t line)
{
    static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
    return line == 0 ? "#222222" : colours[(line - 1) % (sizeof colours / sizeof colours[0])];
}

double svg_height(const struct svg_panel *panel, uint64_t bytes)
{
    return panel->top + panel->height - (panel->most ? (double)bytes / (double)panel->most * panel->height : 0);
}

void svg_scale(FILE *out, const struct svg_panel *panel)
{
    for (uint64_t i = 0; i <= SVG_TICKS; i++) {
        uint64_t bytes = panel->most / SVG_TICKS * i;
        double y = svg_height(panel, bytes);
        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", panel->left,
                y, panel->left + panel->width, panel->left - 6, y + 4, SIZE_TEXT(bytes));
    }
}

void svg_steps(FILE *out, const struct svg_panel *panel, const uint64_t *bytes, size_t slices, const char *style, bool fill)
{
    double step = (double)panel->width / (double)slices, floor = panel->top + panel->height;
    fprintf(out, "<path d=\"M%d %.1f", panel->left, fill ? floor : svg_height(panel, bytes[0]));
    for (size_t i = 0; i < slices; i++)
        if (i == 0 || bytes[i] != bytes[i - 1])
            fprintf(out, "H%.1fV%.1f", panel->left + (double)i * step, svg_height(panel, bytes[i]));
    fprintf(out, "H%d", panel->left + panel->width);
    if (fill)
        fprintf(out, "V%.1fZ", floor);
    fprintf(out, "\" %s/>\n", style);
}

void svg_text(FILE *out, const char *text)
{
    for (const char *at = SHOWN(text); *at; at++) {
        if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            fprintf(out, "&#%d;", *at);
        else
            fputc(*at, out);
    }
}
