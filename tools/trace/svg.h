/* SPDX-License-Identifier: MIT */
/* svg.h - what all pictures share: an SVG that needs no other file. Pure, but for what it writes. */
#ifndef WEIR_TRACE_SVG_H
#define WEIR_TRACE_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Where curves over time are drawn: bytes from 0 to `most` upwards, slices of time from left to right. */
struct svg_panel {
    int left, width, height;
    double top;
    uint64_t most;
};

#define SVG_TICKS 5 /* parts of an axis */

void svg_begin(FILE *out, int width, int height, const char *title);
void svg_end(FILE *out);

/* Of the line with that number, in colours that people with any sight can tell apart; 0 is black. */
const char *svg_colour(size_t line);

double svg_height(const struct svg_panel *panel, uint64_t bytes);
/* Lines across the panel, each with its bytes. */
void svg_scale(FILE *out, const struct svg_panel *panel);
/* Steps: each slice at its height. fill: down to the axis. */
void svg_steps(FILE *out, const struct svg_panel *panel, const uint64_t *bytes, size_t slices, const char *style, bool fill);

/* Text between tags. It may be a stranger's. */
void svg_text(FILE *out, const char *text);

#endif
