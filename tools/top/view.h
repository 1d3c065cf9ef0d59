/* SPDX-License-Identifier: MIT */
/*
 * view.h - what of the model of `weir top` is on the screen, and what keys do to that. Draws through a function of the caller's, and so
 * knows no terminal. All that it draws is ASCII.
 */
#ifndef WEIR_TOP_VIEW_H
#define WEIR_TOP_VIEW_H

#include "tools/common/terminal.h"
#include "tools/top/model.h"

struct top_view {
    int width, height; /* of the screen; set again whenever it changes */
    bool is_helping;
    size_t first;    /* the row at the top of the list */
    double interval; /* seconds from look to look */
};

/* Draws the text, which fits the screen, from that place on. The screen was empty before the first call. */
typedef void top_put(void *data, int row, int column, enum style style, const char *text);

/* Draws everything. Moves view->first where the list has become shorter than that. */
void top_view_draw(struct top_view *view, const struct top_model *model, top_put *put, void *data);

/* Keys are characters, or one of these. */
enum top_key { TOP_KEY_UP = 0x110000, TOP_KEY_DOWN, TOP_KEY_PAGE_UP, TOP_KEY_PAGE_DOWN, TOP_KEY_HOME, TOP_KEY_END, TOP_KEY_ENTER };

enum top_action {
    TOP_NOTHING, /* the key means nothing */
    TOP_DRAW,
    TOP_LOOK, /* now */
    TOP_QUIT,
};
enum top_action top_view_key(struct top_view *view, struct top_model *model, int key);

#endif
