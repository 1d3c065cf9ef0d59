/* SPDX-License-Identifier: MIT */
/*
 * left.h - telling the keeper (keeper.h) that a pool has something to look at. The flag keeper.is_left of the pool is set, and the keeper's
 * job is woken.
 *
 * Any thread may call these functions. Without a keeper they do nothing.
 */
#ifndef WEIR_LIB_LEFT_H
#define WEIR_LIB_LEFT_H

#include "lib/pool/weir_internal.h"

static inline bool weir__keeper_is_on(const weir *w)
{
    return atomic_load_explicit(&w->keeper.is_on, memory_order_relaxed);
}

/* Returns the nanoseconds between two looks of the keeper, from 1 ms to 1 s: short enough for four looks (WEIR__KEEPER_LOOKS) while the
   shortest cache.idle of all pools passes, and for one in each epoch of `release_threshold: auto`. */
uint64_t weir__keeper_interval(weir *w);

/* Sets the flag of every pool and wakes the keeper at once, since thresholds may have fallen. The caller holds neither device->lock nor
   pool->lock. */
void weir__keeper_look(weir *w);

/* Has the keeper look at its pools once its usual interval has passed. */
void weir__keeper_wake(weir *w);

/* Tells the keeper that something was freed into the pool, or that the pool's threshold fell, so idle memory may go back to the device. */
static inline void weir__pool_left(weir_pool *pool)
{
    if (weir__keeper_is_on(pool->w) && !atomic_load_explicit(&pool->keeper.is_left, memory_order_relaxed) &&
        !atomic_exchange(&pool->keeper.is_left, true))
        weir__keeper_wake(pool->w);
}

#endif
