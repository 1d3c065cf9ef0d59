/* SPDX-License-Identifier: MIT */
/*
 * turn.h - what one event did to the block that it names, in the terms that other tools have for blocks: the program's allocation began or
 * ended, and the block was taken from the device or given back.
 *
 * It belongs to its caller; blocks in it are copies. What the model does not believe - a free of what was never seen, a free that comes
 * late - is no turn, so whoever writes turns writes allocations that end at most once and frees that all had one.
 */
#ifndef WEIR_TRACE_TURN_H
#define WEIR_TRACE_TURN_H

#include "tools/trace/model.h"

struct turn {
    struct model_block before, after;
    /* In the order in which they happened: */
    bool is_ended; /* `before` was the program's, and is it no more */
    bool is_given; /* the memory of `before` went back */
    bool is_taken; /* the memory of `after` was got */
    bool is_begun; /* `after` is the program's from now on */
};

/* Applies the event to the model. Whether it was a turn of a block of a device: host memory is none. */
bool turn_apply(struct model *model, const struct trace_event *event, struct turn *turn);

#endif
