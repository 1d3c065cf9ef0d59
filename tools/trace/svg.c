/* SPDX-License-Identifier: MIT */
#include "tools/trace/svg.h"

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

void svg_text(FILE *out, const char *text)
{
    for (const char *at = SHOWN(text); *at; at++) {
        if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            fprintf(out, "&#%d;", *at);
        else
            fputc(*at, out);
    }
}
