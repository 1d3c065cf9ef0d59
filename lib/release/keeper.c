/* SPDX-License-Identifier: MIT */
#include "lib/release/keeper.h"

#include "lib/alloc/flush.h"
#include "lib/gpu/clock.h"
#include "lib/pool/left.h"
#include "lib/release/adapt.h"

#define BATCH 64                 /* streams that are pinned (protected from closing) at a time */
#define PATIENCE GPU_MILLISECOND /* how long a look waits for pending frees, by the GPU's clock */

static weir *weir_of(struct weir__job *job)
{
    return (weir *)((char *)job - offsetof(weir, keeper.job));
}

/* Notes, four times in cache.idle, how many blocks have entered the cache. Returns the stamp below which blocks have not been used for all
   of cache.idle, or 0 if it is not yet time for the next note. */
static uint64_t mark(weir_stream *stream, uint64_t now)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t before = 0;
    weir__spin_lock(&cache->lock);
    if (now - cache->marked >= atomic_load(&stream->pool->cache.idle) / WEIR__KEEPER_LOOKS) {
        before = cache->marks[WEIR__KEEPER_LOOKS - 1];
        for (size_t i = WEIR__KEEPER_LOOKS - 1; i > 0; i--)
            cache->marks[i] = cache->marks[i - 1];
        cache->marks[0] = cache->keeps;
        cache->marked = now;
    }
    weir__spin_unlock(&cache->lock);
    return before;
}

/* Returns whether the cache still has blocks to look at later. If it is empty, the next block that enters it wakes the keeper. */
static bool is_left(weir_stream *stream)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    bool left = cache->bytes || weir__recent_count(&cache->recent);
    if (!left && cache->state == WEIR__CACHE_OPEN)
        cache->state = WEIR__CACHE_UNSEEN;
    weir__spin_unlock(&cache->lock);
    return left;
}

/* Flushes the blocks that were not used for cache.idle. Returns whether to look again. */
static bool look_at_caches(struct weir__device *device, uint64_t now)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    bool again = false;
    while ((count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            uint64_t before = mark(streams[i], now);
            if (before)
                weir__flush_stream(streams[i], before);
            again = is_left(streams[i]) || again;
            weir__stream_unpin(streams[i]);
        }
    return again;
}

/* Returns whether the pool has a growth step or more of idle memory above its threshold. */
static bool is_above(const weir_pool *pool)
{
    uint64_t threshold = atomic_load(&pool->backing->threshold);
    uint64_t reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    return reserved > threshold && reserved - threshold >= WEIR__GROWTH_STEP && weir__pool_figure(pool, GPU_POOL_USED) < reserved;
}

/* Trims the pools above their thresholds. Returns whether to look again: some stream still had work, so more may go back later. */
static bool look_at_pools(struct weir__device *device)
{
    bool any = false;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        if (!weir__pool_is_auto(pool) && atomic_exchange(&pool->keeper.is_left, false) &&
            (pool->keeper.is_due = is_above(pool)))
            any = true;
    if (!any)
        return false;
    bool done = weir__wait_for_frees(device, device->w->gpu->now() + PATIENCE, false);
    bool again = false;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        uint64_t released;
        if (!pool->keeper.is_due)
            continue;
        pool->keeper.is_due = false;
        weir__pool_trim(pool, atomic_load(&pool->backing->threshold), &released);
        if (!done && is_above(pool)) {
            atomic_store(&pool->keeper.is_left, true);
            again = true;
        }
    }
    return again;
}

static uint64_t run(struct weir__job *job)
{
    weir *w = weir_of(job);
    uint64_t now = weir__service_now(), due = WEIR__SERVICE_NEVER;
    bool again = false;
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++) {
        again = look_at_caches(&w->devices[d], now) || again;
        again = look_at_pools(&w->devices[d]) || again;
        due = weir__service_earlier(due, weir__adapt_look(&w->devices[d], now));
    }
    weir__relaxed_end(w->gpu, mode);
    return again ? weir__service_earlier(due, now + weir__keeper_interval(w)) : due;
}

weir_status weir__keeper_set(weir *w, bool on, weir_error *error)
{
    if (on == weir__keeper_is_on(w))
        return WEIR_OK;
    if (!on) {
        atomic_store(&w->keeper.is_on, false);
        weir__service_remove(&w->keeper.job);
        return WEIR_OK;
    }
    w->keeper.job.run = run;
    weir_status status = weir__service_add(&w->keeper.job, error);
    if (status != WEIR_OK)
        return status;
    atomic_store(&w->keeper.is_on, true);
    weir__keeper_look(w);
    return WEIR_OK;
}
