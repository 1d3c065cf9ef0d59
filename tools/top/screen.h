/* SPDX-License-Identifier: MIT */
/*
 * screen.h - the terminal that `weir top` takes over: drawing, keys and the signals that matter meanwhile. Only this file pair knows
 * ncurses. Main thread only; one at a time.
 */
#ifndef WEIR_TOP_SCREEN_H
#define WEIR_TOP_SCREEN_H

#include "tools/top/view.h"

/* Takes the terminal over, and sets width and height. However the command ends, the terminal is given back. false after an error
   on stderr. To be called before there are other threads, which must not take its signals. */
bool top_screen_open(struct top_view *view);
void top_screen_close(void);

void top_screen_draw(struct top_view *view, const struct top_model *model);

enum top_event {
    TOP_EVENT_NONE, /* the time is up */
    TOP_EVENT_KEY,
    TOP_EVENT_READY,  /* fd can be read */
    TOP_EVENT_RESIZE, /* width and height are set again */
    TOP_EVENT_END,    /* a signal that ends, or the terminal is gone */
};
/* Waits for whatever comes first, at most timeout_ms (-1: for ever). */
enum top_event top_screen_wait(struct top_view *view, int fd, int timeout_ms, int *key);

#endif
