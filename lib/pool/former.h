/* SPDX-License-Identifier: MIT */
/*
 * former.h - restores what Weir changes of a device: the settings of the device's default pool, and which pool is the device's current
 * pool. Once the last weir that changed these is closed, they are as they were before the first one was opened.
 *
 * Weirs that use the same default pool may close in any order. Each weir knows the settings from before all of them. A weir that closes
 * while others are open leaves the settings that the latest of the others wrote. The lists of such pools belong to the process. Their lock
 * is a leaf, and is held over the CUDA calls that read, change and restore the settings.
 */
#ifndef WEIR_LIB_FORMER_H
#define WEIR_LIB_FORMER_H

#include "lib/pool/pool.h"

/* Saves the attributes of a default pool. Returns the GPU's code; after a success weir__former_restore() must follow. */
int weir__former_save(weir_pool *pool);

/* Restores those attributes that still have the values that this weir set. Then gives back the pool's idle memory above the threshold. */
void weir__former_restore(weir_pool *pool);

/* Makes the pool the current pool of its device, for code that calls cudaMallocAsync itself (`current: true`). */
weir_status weir__current_pool_set(weir_pool *pool, weir_error *error);

/* The pool gets the new handle `made`: makes `made` current if the old handle was, and has every pool that would restore the old handle
   restore `made`. Returns the GPU's code. After an error the device's current pool is unchanged. */
int weir__current_pool_replace(weir_pool *pool, gpu_pool made);

/* Makes the pool that was current before this one current again, if this one still is. Does nothing if this one was never made current. */
void weir__current_pool_restore(weir_pool *pool);

#endif
