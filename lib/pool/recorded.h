/* SPDX-License-Identifier: MIT */
/* recorded.h - events about blocks and pools, as their weir's recorder (record/recorder.h) writes them. */
#ifndef WEIR_LIB_RECORDED_H
#define WEIR_LIB_RECORDED_H

#include "lib/pool/weir_internal.h"

/* Counts a block for its tag: a user got it (sign 1), or gave it back (-1). */
static inline void weir__count_tag(const struct weir__recorder *recorder, uint32_t origin, uint64_t size, int sign)
{
    if (weir__origin_tag(origin))
        weir__tag_count(&recorder->tags, weir__origin_tag(origin), sign * (int64_t)size);
}

/* Records an event of a block. order: from weir__record_order(). Call it with no lock held. */
static inline void weir__record_block(enum weir__kind kind, const struct weir__block *block, gpu_stream stream, uint64_t order)
{
    if (!order)
        return;
    struct weir__event event = {
        .address = (uintptr_t)block->ptr,
        .size = block->size,
        .stream = (uintptr_t)stream,
        .order = order,
        .what = weir__event_what(kind, block->class, block->pool->record, block->origin),
    };
    weir__record(&block->pool->w->recorder, &event);
}

/* Records an event of a pool, with figures a and b. */
static inline void weir__record_pool(enum weir__kind kind, const weir_pool *pool, uint64_t a, uint64_t b)
{
    weir__record_figures(&pool->w->recorder, kind, pool->record, NULL, a, b);
}

/* Called after a slow call of CUDA for a block of the pool, perhaps a refused one. Records the pool's figures if they changed. Under
   contention many calls are slow, so looks in vain make the next ones rarer. Returns the reserved bytes, or 0 if CUDA was not asked. */
uint64_t weir__record_slow(weir_pool *pool);

/* Called once the request behind weir__record_slow() has its block of `size` bytes. Records how much the request has grown the pool, if it
   has, and how long the call took. A call may be slow because its thread was preempted, or waited for another thread's growth. So no
   request is charged with more growth than its size takes, nor with growth that another was charged with. */
void weir__record_growth(weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t ticks);

/* Charges no request with what the pool of CUDA reserves now, from before the recording or from the opening of the pool. */
void weir__record_begin(weir_pool *pool);

/* Records a trim: the bytes that went back, those that the pool has left, and the nanoseconds that it took. */
void weir__record_trim(weir_pool *pool, uint64_t bytes, uint64_t left, uint64_t took);

/* What each pool has in use and reserved now. It asks CUDA. */
void weir__record_pools(weir *w);

#endif
