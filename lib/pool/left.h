/* SPDX-License-Identifier: MIT */
/*
 * left.h - telling the keeper (keeper.h) that a pool has something to look at: a flag of the pool is set, and the keeper's job woken.
 *
 * Without a keeper these functions do nothing.
 */
#ifndef WEIR_LIB_LEFT_H
#define WEIR_LIB_LEFT_H

#include "lib/pool/weir_internal.h"

static inline bool weir__keeper_is_on(const weir *w)
{
    return atomic_load_explicit(&w->keeper.is_on, memory_order_relaxed);
}

/* Nanoseconds between two looks of the keeper. The shortest cache.idle of all pools has four looks. */
uint64_t weir__keeper_interval(weir *w);

/* Has the keeper look at all pools anew, as their thresholds may have fallen. Called without device->lock and pool->lock. */
void weir__keeper_look(weir *w);

/* Wakes the keeper after its usual interval. */
void weir__keeper_wake(weir *w);

/* Something was freed into the pool, or its threshold fell: the keeper is to look whether idle memory can go back to the device. */
static inline void weir__pool_left(weir_pool *pool)
{
    if (weir__keeper_is_on(pool->w) && !atomic_load_explicit(&pool->keeper.is_left, memory_order_relaxed) &&
        !atomic_exchange(&pool->keeper.is_left, true))
        weir__keeper_wake(pool->w);
}

#endif
