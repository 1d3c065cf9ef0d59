/* SPDX-License-Identifier: MIT */
#include "lib/pool/recorded.h"

#include "lib/pool/mapped.h"

#define SKIP_MOST 1024

static bool read_figures(const weir_pool *pool, uint64_t *used, uint64_t *reserved)
{
    return weir__pool_read(pool, GPU_POOL_USED, used) == GPU_SUCCESS && weir__pool_read(pool, GPU_POOL_RESERVED, reserved) == GPU_SUCCESS;
}

/* An arena maps and unmaps nothing meanwhile, since each of these is an event of its own, which has to stand on the right side of the
   figures. Where one does just now, this is left to the next time. */
static void record_arena(weir_pool *pool)
{
    uint64_t used, reserved;
    if (pthread_mutex_trylock(&pool->native.mapped->growing) != 0)
        return;
    if (read_figures(pool, &used, &reserved))
        weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
    pthread_mutex_unlock(&pool->native.mapped->growing);
}

static void record_figures(weir_pool *pool)
{
    uint64_t used, reserved;
    if (pool->native.mapped) {
        record_arena(pool);
        return;
    }
    if (!read_figures(pool, &used, &reserved))
        return;
    /* What is more is for the call that did it to find. */
    if (reserved < atomic_load_explicit(&pool->noted.reserved, memory_order_relaxed))
        atomic_store_explicit(&pool->noted.reserved, reserved, memory_order_relaxed);
    weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
}

/* Whether it is time to ask CUDA what the pool reserves. */
static bool may_look(weir_pool *pool)
{
    unsigned left = atomic_load_explicit(&pool->noted.left, memory_order_relaxed);
    if (left > 0)
        atomic_store_explicit(&pool->noted.left, left - 1, memory_order_relaxed);
    return left == 0;
}

static void count_look(weir_pool *pool, bool was_vain)
{
    unsigned skip = atomic_load_explicit(&pool->noted.skip, memory_order_relaxed);
    skip = !was_vain ? 0 : skip < SKIP_MOST ? 2 * skip + 1 : SKIP_MOST;
    atomic_store_explicit(&pool->noted.skip, skip, memory_order_relaxed);
    atomic_store_explicit(&pool->noted.left, skip, memory_order_relaxed);
}

void weir__record_growth(weir_pool *pool, uint64_t ticks)
{
    uint64_t took = weir__record_nanoseconds(&pool->w->recorder, ticks);
    uint64_t before = atomic_load_explicit(&pool->noted.reserved, memory_order_relaxed), used, reserved = before;
    /* What a synchronise took from the pool and the request brought back shows in no figure. */
    bool is_read = false, may_have_grown = atomic_load_explicit(&pool->settings.release_threshold, memory_order_relaxed) < before;
    if (may_look(pool)) {
        enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
        is_read = read_figures(pool, &used, &reserved);
        weir__relaxed_end(pool->w->gpu, mode);
        count_look(pool, reserved == before && !may_have_grown);
        atomic_store_explicit(&pool->noted.reserved, reserved, memory_order_relaxed);
    }
    if (reserved > before || may_have_grown)
        weir__record_pool(WEIR__KIND_MAP, pool, reserved > before ? reserved - before : 0, took);
    if (is_read && reserved != before)
        weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
}

void weir__record_extension(weir_pool *pool, uint64_t bytes, uint64_t took)
{
    uint64_t used, reserved;
    if (!weir__records(&pool->w->recorder, WEIR__LEVEL_POOL) || !read_figures(pool, &used, &reserved))
        return;
    /* No request is to find it, and be taken for who did it. */
    atomic_store_explicit(&pool->noted.reserved, reserved, memory_order_relaxed);
    weir__record_pool(WEIR__KIND_MAP, pool, bytes, took);
    weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
}

void weir__record_pools(weir *w)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            record_figures(pool);
    weir__relaxed_end(w->gpu, mode);
}
