/* SPDX-License-Identifier: MIT */
/* recorded.h - writes events about blocks and pools to the recorder (record/recorder.h) of their weir. */
#ifndef WEIR_LIB_RECORDED_H
#define WEIR_LIB_RECORDED_H

#include "lib/pool/weir_internal.h"

/* Adds a block's bytes to the figures of the block's tag, when a user gets the block (sign 1), or subtracts them when the user gives it
   back (-1). */
static inline void weir__count_tag(const struct weir__recorder *recorder, uint32_t origin, uint64_t size, int sign)
{
    if (weir__origin_tag(origin))
        weir__tag_count(&recorder->tags, weir__origin_tag(origin), sign * (int64_t)size);
}

/* Records an event of a block. order: the number that weir__record_order() returned; 0: nothing is recorded. Call it with no lock held. */
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

/* Asks CUDA what the pool reserves, and records the pool's figures if they changed. Called after a slow call of CUDA for a block of the
   pool, also if CUDA refused the block. When many threads contend, many calls are slow for no reason; therefore each look that finds no
   change makes the next looks rarer. Returns the reserved bytes, or 0 if CUDA was not asked. */
uint64_t weir__record_slow(weir_pool *pool);

/* Records by how much a request for `size` bytes has grown the pool, if it has, and how long its call of CUDA took. Called once the request
   for which weir__record_slow() returned `reserved` has its block. A call may also be slow because its thread was preempted, or waited
   while another thread's request grew the pool. So a request is charged with no more growth than its size needs, and never with growth that
   another request was charged with. */
void weir__record_growth(weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t ticks);

/* Notes what the pool reserves now, so that no request is charged with growth before this call: called when recording begins or the pool is
   opened. */
void weir__record_begin(weir_pool *pool);

/* Records a trim: the bytes that went back, the bytes that the pool still reserves, and the nanoseconds that the trim took. */
void weir__record_trim(weir_pool *pool, uint64_t bytes, uint64_t left, uint64_t took);

/* Records what each pool of the weir has in use and reserved now, for which CUDA is asked. */
void weir__record_pools(weir *w);

#endif
