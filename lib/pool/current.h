/* SPDX-License-Identifier: MIT */
/* current.h - pools that Weir makes the current one of their device, for code that calls cudaMallocAsync itself (`current: true`). */
#ifndef WEIR_LIB_CURRENT_H
#define WEIR_LIB_CURRENT_H

#include "lib/pool/pool.h"

weir_status weir__current_pool_set(weir_pool *pool, weir_error *error);

/* A new handle takes the place of the pool's: it is made current if that was, and what would restore the old one restores the new one.
   Returns the GPU's code; nothing has changed then. */
int weir__current_pool_replace(weir_pool *pool, gpu_pool made);

/* Makes the former pool current again, if this one still is. Does nothing for a pool that was never made current. */
void weir__current_pool_restore(weir_pool *pool);

#endif
