/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue of a stream: what it freed and was not yet seen to have completed, in the order of the sequences.
 *
 * An extent is in the queue of its `stream`. It stays there while it is held.
 */
#ifndef WEIR_LIB_QUEUE_H
#define WEIR_LIB_QUEUE_H

#include "lib/backing/arena/extent.h"

/* Adds an extent by its sequence: nearly always at the end, as frees are reported in their order. */
void weir__queue_add(struct weir__extent *extent);
void weir__queue_remove(struct weir__extent *extent);

/* A part of an extent became a node of its own: it is its stream's, if it has one, and of the same sequence. */
void weir__queue_split(struct weir__extent *part, struct weir__extent *extent);
/* Of two extents of one stream, or without any, one goes; the later of their sequences counts. */
void weir__queue_merge(struct weir__extent *stays, struct weir__extent *goes);

#endif
