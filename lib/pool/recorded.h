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

/* A call of CUDA for a block of the pool took long, and was perhaps refused: the pool's figures, if others than the last ones. Under
   contention many calls take long, so the more looks are in vain, the fewer there are. Returns what is reserved; 0: it was not asked. */
uint64_t weir__record_slow(weir_pool *pool);

/* The request for which that was has its block, of so many bytes: if the pool has grown by it, how much, and how long the call took, in
   ticks. A call takes long for other reasons too, as that its thread was preempted, or waited for another's growth. So it is never said to
   have grown the pool by more than its size takes, nor by what another call was said to have. */
void weir__record_growth(weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t ticks);

/* What the pool of CUDA's reserves now no request has to answer for: it came before the recording, or when the pool was opened. */
void weir__record_begin(weir_pool *pool);

/* So many bytes of the pool went back, which left it so many and took so many nanoseconds. */
void weir__record_trim(weir_pool *pool, uint64_t bytes, uint64_t left, uint64_t took);

/* What each pool has in use and reserved now. It asks CUDA. */
void weir__record_pools(weir *w);

#endif
