/* SPDX-License-Identifier: MIT */
/*
 * held.h - which of a pool's blocks are in users' hands and which in caches: sums over the caches of its streams.
 */
#ifndef WEIR_LIB_HELD_H
#define WEIR_LIB_HELD_H

#include "lib/pool/weir_internal.h"

/* Bytes in users' hands and in caches, as of one moment of each cache. */
struct weir__held {
    uint64_t live, cached, hits, keeps;
};
struct weir__held weir__pool_held(weir_pool *pool);

uint64_t weir__pool_live_blocks(weir_pool *pool);
/* Blocks that were ever freed, into caches as well. */
uint64_t weir__pool_frees(weir_pool *pool);

/* Whether nothing of the pool is live, but some of its frees have not been seen complete. Gives back what is idle. */
bool weir__pool_has_pending_frees(weir_pool *pool);

/* The highest figures start anew. */
int weir__pool_reset_peaks(weir_pool *pool);

/* While nobody calls, and without opened streams: what the pool has counted is what the table of blocks has, and nothing is granted or
   asked for any more. */
bool weir__held_is_valid(weir_pool *pool);

#endif
