/* SPDX-License-Identifier: MIT */
/*
 * left.h - what is left for the keeper to look at (keeper.h): word is left with the pool, and the keeper's job is woken.
 *
 * Without a keeper these do nothing.
 */
#ifndef WEIR_LIB_LEFT_H
#define WEIR_LIB_LEFT_H

#include "lib/pool/weir_internal.h"

static inline bool weir__keeper_is_on(const weir *w)
{
    return atomic_load_explicit(&w->keeper.is_on, memory_order_relaxed);
}

/* Nanoseconds between two looks of the keeper: so many that each cache is looked at four times in its cache.idle. */
uint64_t weir__keeper_interval(weir *w);

/* Everything is to be looked at anew: thresholds may have fallen. Called without device->lock and pool->lock. */
void weir__keeper_look(weir *w);

/* There is something new to look at. */
void weir__keeper_wake(weir *w);

/* Something was freed into the pool, or its threshold fell: the keeper is to look whether idle memory can go back to the device. */
static inline void weir__pool_left(weir_pool *pool)
{
    if (weir__keeper_is_on(pool->w) && !atomic_load_explicit(&pool->keeper.is_left, memory_order_relaxed) &&
        !atomic_exchange(&pool->keeper.is_left, true))
        weir__keeper_wake(pool->w);
}

#endif
