/* SPDX-License-Identifier: MIT */
/*
 * held.h - computes which bytes of a pool users have and which are in caches, as sums over the caches of the pool's streams. The functions
 * take device->lock for reading and the locks of the caches, one after the other.
 */
#ifndef WEIR_LIB_HELD_H
#define WEIR_LIB_HELD_H

#include "lib/pool/weir_internal.h"

/* live: bytes of the blocks that users have. cached: bytes in caches, and of orphans (orphans.h). hits, keeps: how often caches served a
   request and kept a block. Each cache is read at one moment, but not all caches at the same one. */
struct weir__held {
    uint64_t live, cached, hits, keeps;
};
struct weir__held weir__pool_held(weir_pool *pool);

/* Returns how many blocks of the pool users have. */
uint64_t weir__pool_live_blocks(weir_pool *pool);
/* Returns how many blocks of the pool were ever freed, frees into caches included. */
uint64_t weir__pool_frees(weir_pool *pool);

/* Returns whether no block of the pool is live but some of its frees have not been seen complete. In a pool of CUDA's the question gives
   idle memory back to the device. Always false for the device's default pool. */
bool weir__pool_has_pending_frees(weir_pool *pool);

/* Lowers the pool's peaks to its present figures. Returns the GPU's code. */
int weir__pool_reset_peaks(weir_pool *pool);

/* Returns whether the pool's figures agree with the table of blocks, and no bytes are granted to a stream or claimed for a request. Called
   while the pool has no opened stream and no call is in progress. */
bool weir__held_is_valid(weir_pool *pool);

#endif
