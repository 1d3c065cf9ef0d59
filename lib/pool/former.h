/* SPDX-License-Identifier: MIT */
/*
 * former.h - what a device's default pool was before Weir configured that pool, and is again once the last weir on it is closed.
 *
 * Weirs on the same default pool may close in any order: each knows what was there before all of them, and one that closes while others are
 * open leaves what the latest of these wrote. The list of such pools is the process's; its lock is a leaf, and is held over the
 * CUDA calls that put attributes back.
 */
#ifndef WEIR_LIB_FORMER_H
#define WEIR_LIB_FORMER_H

#include "lib/pool/pool.h"

/* Remembers the attributes of a default pool. weir__former_restore() follows, if this succeeds. */
int weir__former_save(weir_pool *pool);

/* Puts back the attributes that are still as this weir set them, and gives back what the pool then has idle above its threshold. */
void weir__former_restore(weir_pool *pool);

/* Weir has written the attribute of the pool's main handle; of any pool. Called with pool->lock, or by the thread that alone knows the
   pool. The second returns what was written last. */
void weir__former_note_written(weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t value);
uint64_t weir__former_written(const weir_pool *pool, enum gpu_pool_attribute attribute);

#endif
