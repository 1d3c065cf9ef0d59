/* SPDX-License-Identifier: MIT */
/*
 * held.h - which of a pool's blocks are in users' hands and which in caches: sums over the caches of its streams.
 */
#ifndef WEIR_LIB_HELD_H
#define WEIR_LIB_HELD_H

#include "lib/pool/weir_internal.h"

/* Bytes in users' hands (live) and in caches, and how often caches served a request and kept a block. Each cache is read at one moment. */
struct weir__held {
    uint64_t live, cached, hits, keeps;
};
struct weir__held weir__pool_held(weir_pool *pool);

uint64_t weir__pool_live_blocks(weir_pool *pool);
/* Blocks that were ever freed, into caches as well. */
uint64_t weir__pool_frees(weir_pool *pool);

/* Whether nothing of the pool is live, but some of its frees have not been seen complete. Gives back what is idle. */
bool weir__pool_has_pending_frees(weir_pool *pool);

/* Lowers the highest figures of the pool to what they are now. Returns a code of the GPU. */
int weir__pool_reset_peaks(weir_pool *pool);

/* Whether the pool's counts agree with the table of blocks, and nothing is granted to a stream or claimed for a request. Called while the
   pool has no opened stream and no call is in progress. */
bool weir__held_is_valid(weir_pool *pool);

#endif
