/* SPDX-License-Identifier: MIT */
/*
 * former.h - what Weir changes of the pools that are a device's own, and what they were before: settings of its default pool, and which pool
 * is its current one. All of that is again as it was once the last weir that changed it is closed.
 *
 * Weirs on the same default pool may close in any order: each knows what was there before all of them, and one that closes while others are
 * open leaves what the latest of these wrote. The lists of such pools are the process's; their lock is a leaf, and is held over
 * the CUDA calls that read, change and put back.
 */
#ifndef WEIR_LIB_FORMER_H
#define WEIR_LIB_FORMER_H

#include "lib/pool/pool.h"

/* Remembers the attributes of a default pool. weir__former_restore() follows, if this succeeds. */
int weir__former_save(weir_pool *pool);

/* Puts back the attributes that are still as this weir set them, and gives back what the pool then has idle above its threshold. */
void weir__former_restore(weir_pool *pool);

/* Makes it the current pool of its device, for code that calls cudaMallocAsync itself (`current: true`). */
weir_status weir__current_pool_set(weir_pool *pool, weir_error *error);

/* A new handle takes the place of the pool's: it is made current if that was, and what would restore the old one restores the new one.
   Returns the GPU's code; nothing has changed then. */
int weir__current_pool_replace(weir_pool *pool, gpu_pool made);

/* Makes the former pool current again, if this one still is. Does nothing for a pool that was never made current. */
void weir__current_pool_restore(weir_pool *pool);

#endif
