/* SPDX-License-Identifier: MIT */
/* recorded.h - events about blocks and pools, as their weir's recorder (record/recorder.h) writes them. */
#ifndef WEIR_LIB_RECORDED_H
#define WEIR_LIB_RECORDED_H

#include "lib/pool/weir_internal.h"

/* A user got a block (sign 1), or gave it back (-1): its tag's figures. */
static inline void weir__count_tag(const struct weir__recorder *recorder, uint32_t origin, uint64_t size, int sign)
{
    if (weir__origin_tag(origin))
        weir__tag_count(&recorder->tags, weir__origin_tag(origin), sign * (int64_t)size);
}

/* What happened to a block. order: from weir__record_order(). Call it with no lock held. */
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

/* What happened to a pool. */
static inline void weir__record_pool(enum weir__kind kind, const weir_pool *pool, uint64_t a, uint64_t b)
{
    weir__record_figures(&pool->w->recorder, kind, pool->record, NULL, a, b);
}

/* A call of CUDA for a block of the pool took long, in ticks: if the pool has grown by it, how much and how long. Under contention many calls
   take long, so the more looks are in vain, the fewer there are. */
void weir__record_growth(weir_pool *pool, uint64_t ticks);

/* The keeper made the pool of CUDA's grow by so many bytes, which took so many nanoseconds. An arena's growth writes itself down. */
void weir__record_extension(weir_pool *pool, uint64_t bytes, uint64_t took);

/* What each pool has in use and reserved now. It asks CUDA. */
void weir__record_pools(weir *w);

#endif
