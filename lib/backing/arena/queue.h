/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue of a stream: the pending extents that the stream freed (extent.h), in the order of their sequences.
 *
 * An extent with a `stream` is in the queue of that stream, and stays in the queue while the extent is held.
 */
#ifndef WEIR_LIB_QUEUE_H
#define WEIR_LIB_QUEUE_H

#include "lib/backing/arena/extent.h"

/* Adds an extent at the place of its sequence, nearly always at the end, since frees are mostly reported in their order. */
void weir__queue_add(struct weir__extent *extent);
void weir__queue_remove(struct weir__extent *extent);

/* Adds `part`, which was split off from `extent`, to the queue of the stream of `extent`, with the same sequence. If `extent` has no
   stream, `part` gets none either. */
void weir__queue_split(struct weir__extent *part, struct weir__extent *extent);
/* Removes `goes`, which was merged into `stays`, from the queue. Both have the same stream, or none. `stays` gets the later of the two
   sequences. */
void weir__queue_merge(struct weir__extent *stays, struct weir__extent *goes);

#endif
