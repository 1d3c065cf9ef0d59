/* SPDX-License-Identifier: MIT */
/* current.h - pools that Weir makes the current one of their device, for code that calls cudaMallocAsync itself (`current: true`). */
#ifndef WEIR_LIB_CURRENT_H
#define WEIR_LIB_CURRENT_H

#include "lib/pool.h"

weir_status weir__current_pool_set(weir_pool *pool, weir_error *error);

/* Makes the former pool current again, if this one still is. Does nothing for a pool that was never made current. */
void weir__current_pool_restore(weir_pool *pool);

#endif
