/* SPDX-License-Identifier: MIT */
#include "lib/pool/figures.h"

#include "lib/base/class.h"

static inline void raise_to(_Atomic uint64_t *high, uint64_t value)
{
    uint64_t before = atomic_load_explicit(high, memory_order_relaxed);
    while (value > before && !atomic_compare_exchange_weak_explicit(high, &before, value, memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* Counts with exact_peaks that the program has `bytes` bytes more (less, if negative). Uses live_now and not `taken` minus `spare`, since
   the request of another thread may already be in `taken`, but its rounding not yet in `spare`. */
static inline void count_exactly(weir_pool *pool, int64_t bytes)
{
    raise_to(&pool->figures.live_high,
             atomic_fetch_add_explicit(&pool->figures.live_now, (uint64_t)bytes, memory_order_relaxed) + (uint64_t)bytes);
}

/* Raises the highest values after `taken` or `spare` has changed. taken: the present value of `taken`. bytes: how many bytes more the
   program has (less, if negative). */
static inline void raise_high(weir_pool *pool, uint64_t taken, int64_t bytes)
{
    /* Read `spare` first: if a flush lowers both counters between the two reads, `live` is too low, but never too high. */
    int64_t spare = atomic_load_explicit(&pool->figures.spare, memory_order_acquire);
    int64_t live = (int64_t)atomic_load_explicit(&pool->figures.taken, memory_order_relaxed) - spare;
    raise_to(&pool->figures.taken_high, taken);
    if (weir__pool_is_exact(pool))
        count_exactly(pool, bytes);
    else if (live > 0)
        raise_to(&pool->figures.live_high, (uint64_t)live);
}

void weir__pool_count_live(weir_pool *pool, int64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.spare, bytes, memory_order_relaxed);
    raise_high(pool, atomic_load_explicit(&pool->figures.taken, memory_order_relaxed), bytes);
}

/* Saves the highest value in taken_before before taken_high is reset. So a thread that reads taken_high first and then taken_before finds
   the highest value in one of them at any time. */
uint64_t weir__pool_take_high(weir_pool *pool)
{
    raise_to(&pool->figures.taken_before, atomic_load(&pool->figures.taken_high));
    uint64_t high = atomic_exchange(&pool->figures.taken_high, 0);
    raise_to(&pool->figures.taken_before, high);
    /* A request that raises `taken` after this read raises taken_high itself. */
    raise_to(&pool->figures.taken_high, atomic_load(&pool->figures.taken));
    return high;
}

void weir__pool_count_malloc(weir_pool *pool, uint64_t bytes, uint64_t asked)
{
    uint64_t taken = atomic_fetch_add_explicit(&pool->figures.taken, bytes, memory_order_relaxed) + bytes;
    if (bytes != asked)
        atomic_fetch_add_explicit(&pool->figures.spare, (int64_t)(bytes - asked), memory_order_relaxed);
    raise_high(pool, taken, (int64_t)asked);
}

void weir__pool_count_free(const struct weir__block *block)
{
    weir_pool *pool = block->pool;
    uint64_t bytes = weir__class_given(block->class, block->size);
    if (block->graph)
        return;
    /* Release order: a thread that reads 0 also sees the marks behind all frees. */
    atomic_fetch_sub_explicit(&pool->figures.taken, bytes, memory_order_release);
    if (bytes != block->size)
        atomic_fetch_sub_explicit(&pool->figures.spare, (int64_t)(bytes - block->size), memory_order_relaxed);
    if (weir__pool_is_exact(pool))
        count_exactly(pool, -(int64_t)block->size);
}

enum weir__claim weir__claim_begin(weir_pool *pool, uint64_t bytes, uint64_t max_size)
{
    const _Atomic uint64_t *taken = &pool->figures.taken;
    if (bytes > max_size || atomic_load_explicit(taken, memory_order_relaxed) > max_size - bytes)
        return WEIR__CLAIM_FULL;
    /* A claim ends only after its bytes are in `taken`. So each byte that other requests claimed before this one is in `others` or in
       `taken`, or in both. */
    uint64_t others = atomic_fetch_add_explicit(&pool->figures.claimed, bytes, memory_order_acq_rel);
    if (atomic_load_explicit(taken, memory_order_relaxed) + others <= max_size - bytes)
        return WEIR__CLAIM_GO;
    weir__claim_end(pool, bytes);
    return WEIR__CLAIM_CROWDED;
}
