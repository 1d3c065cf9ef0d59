/* SPDX-License-Identifier: MIT */
/* svg.h - what all pictures share: an SVG that needs no other file. Pure, but for what it writes. */
#ifndef WEIR_TRACE_SVG_H
#define WEIR_TRACE_SVG_H

#include <stdio.h>

void svg_begin(FILE *out, int width, int height, const char *title);
void svg_end(FILE *out);

/* Text between tags. It may be a stranger's. */
void svg_text(FILE *out, const char *text);

#endif
