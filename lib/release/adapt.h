/* SPDX-License-Identifier: MIT */
/*
 * adapt.h - `release_threshold: auto`: the keeper (keeper.h) decides how much idle memory a pool keeps while the program runs.
 *
 * CUDA's pool, or the arena, itself keeps everything when a stream synchronises, so no call of the program pays for a threshold that is out
 * of date. While the program frees memory, the keeper looks once in each epoch of half a second. It reads figures that the pool counts
 * anyway, computes how much the program is expected to need again (demand.h), and gives back what is above that, in small pieces with
 * pauses between them, because growing and trimming a pool block all other threads. When nothing more can go back without another free, the
 * keeper sleeps until the next free.
 *
 * All of it belongs to the keeper's job. Only the counts of its effects, for the figures of the pool, are atomic.
 */
#ifndef WEIR_LIB_ADAPT_H
#define WEIR_LIB_ADAPT_H

#include "lib/pool/weir_internal.h"

/* Looks at the device's pools with an automatic threshold. Returns when to look again, or WEIR__SERVICE_NEVER. Call it in relaxed capture
   mode, in the keeper's job. */
uint64_t weir__adapt_look(struct weir__device *device, uint64_t now);

#endif
