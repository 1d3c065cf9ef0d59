/* SPDX-License-Identifier: MIT */
#include "lib/pool/recorded.h"

#include "lib/base/number.h"

#define SKIP_MOST 1024

static bool read_figures(const weir_pool *pool, uint64_t *used, uint64_t *reserved)
{
    return weir__pool_read(pool, GPU_POOL_USED, used) == GPU_SUCCESS && weir__pool_read(pool, GPU_POOL_RESERVED, reserved) == GPU_SUCCESS;
}

static uint64_t noted_of(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->noted.reserved, memory_order_relaxed);
}

/* Charges the caller with at most `most` bytes of the growth since the last look, and returns the bytes. Further growth is left for the
   requests of other threads that caused it. */
static uint64_t claim(weir_pool *pool, uint64_t reserved, uint64_t most)
{
    uint64_t before = noted_of(pool), grown;
    do
        grown = reserved > before ? weir__smaller(reserved - before, most) : 0;
    while (grown && !atomic_compare_exchange_weak_explicit(&pool->noted.reserved, &before, before + grown, memory_order_relaxed,
                                                           memory_order_relaxed));
    return grown;
}

/* Lowers the noted size to `reserved` after memory went back. noted: the size noted before CUDA was asked. If another thread has claimed
   growth since then, nothing changes. If the pool reserves more than `noted`, nothing changes either: the request that caused the growth
   claims it. */
static void note_less(weir_pool *pool, uint64_t noted, uint64_t reserved)
{
    if (reserved < noted)
        atomic_compare_exchange_strong_explicit(&pool->noted.reserved, &noted, reserved, memory_order_relaxed, memory_order_relaxed);
}

/* Records the figures of a pool. An arena also records an event each time that it maps or unmaps; ops->hold keeps it from mapping
   meanwhile, so that figures and events are in the right order. If the arena is mapping just now, this call records no figures of it. */
static void record_figures(weir_pool *pool)
{
    uint64_t used, reserved, noted = noted_of(pool);
    if (!pool->backing->ops->hold(pool->backing))
        return;
    if (read_figures(pool, &used, &reserved)) {
        note_less(pool, noted, reserved);
        weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
    }
    pool->backing->ops->release(pool->backing);
}

/* Returns whether this slow call is to ask CUDA what the pool reserves; otherwise one fewer call is left to skip. */
static bool may_look(weir_pool *pool)
{
    unsigned left = atomic_load_explicit(&pool->noted.left, memory_order_relaxed);
    if (left > 0)
        atomic_store_explicit(&pool->noted.left, left - 1, memory_order_relaxed);
    return left == 0;
}

/* Sets how many slow calls to skip before CUDA is asked again: more after each question in vain, none after one that showed a change. */
static void count_look(weir_pool *pool, bool was_vain)
{
    unsigned skip = atomic_load_explicit(&pool->noted.skip, memory_order_relaxed);
    skip = !was_vain ? 0 : skip < SKIP_MOST ? 2 * skip + 1 : SKIP_MOST;
    atomic_store_explicit(&pool->noted.skip, skip, memory_order_relaxed);
    atomic_store_explicit(&pool->noted.left, skip, memory_order_relaxed);
}

/* Returns the most bytes by which a request of that size makes a pool grow: whole growth steps. */
static uint64_t most_of(uint64_t size)
{
    uint64_t steps = size / WEIR__GROWTH_STEP + (size % WEIR__GROWTH_STEP != 0);
    return steps * WEIR__GROWTH_STEP;
}

/* Returns whether the pool may have shrunk at a synchronise and grown back since: then its reserved bytes show no change. */
static bool may_have_grown(const weir_pool *pool, uint64_t noted)
{
    return atomic_load_explicit(&pool->backing->threshold, memory_order_relaxed) < noted;
}

uint64_t weir__record_slow(weir_pool *pool)
{
    uint64_t noted = noted_of(pool), used, reserved = noted;
    if (!may_look(pool))
        return 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    bool is_read = read_figures(pool, &used, &reserved);
    weir__relaxed_end(pool->w->gpu, mode);
    count_look(pool, reserved == noted && !may_have_grown(pool, noted));
    if (is_read && reserved != noted)
        weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
    note_less(pool, noted, reserved);
    return is_read ? reserved : 0;
}

void weir__record_growth(weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t ticks)
{
    bool is_possible = may_have_grown(pool, noted_of(pool));
    uint64_t grown = reserved ? claim(pool, reserved, most_of(size)) : 0;
    if (grown || is_possible)
        weir__record_pool(WEIR__KIND_MAP, pool, grown, weir__record_nanoseconds(&pool->w->recorder, ticks));
}

void weir__record_trim(weir_pool *pool, uint64_t bytes, uint64_t left, uint64_t took)
{
    weir__record_pool(WEIR__KIND_TRIM, pool, bytes, took);
    note_less(pool, noted_of(pool), left);
}

void weir__record_begin(weir_pool *pool)
{
    uint64_t reserved;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    if (weir__pool_read(pool, GPU_POOL_RESERVED, &reserved) == GPU_SUCCESS)
        atomic_store_explicit(&pool->noted.reserved, reserved, memory_order_relaxed);
    weir__relaxed_end(pool->w->gpu, mode);
}

void weir__record_pools(weir *w)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            record_figures(pool);
    weir__relaxed_end(w->gpu, mode);
}
