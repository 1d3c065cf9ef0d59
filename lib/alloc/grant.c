/* SPDX-License-Identifier: MIT */
#include "lib/alloc/grant.h"

#include "lib/alloc/flush.h"
#include "lib/base/call.h"
#include "lib/base/number.h"
#include "lib/gpu/clock.h"

#define CAP_SHARE 8              /* the caches of a pool have at most this part of its max_size */
#define STEP (UINT64_C(1) << 20) /* bytes that are granted at a time */
#define SHARES 4096              /* of what is left, a step is at most one: with many streams each gets something */
#define BATCH 64                 /* streams that are pinned at a time */
#define IDLE GPU_SECOND          /* in which an idle stream has kept nothing */
#define PAUSE (IDLE / 4)         /* between two looks at all streams that found nothing */

/* Granting ----------------------------------------------------------------------------------------------------------------------------- */

/* What all caches of the pool may hold together. Caches that fill a pool up to its cap, or the device, make every request of another size a
   matter of recovery. */
static uint64_t limit_of(const weir_pool *pool)
{
    uint64_t limit = atomic_load_explicit(&pool->cache.per_device, memory_order_relaxed);
    uint64_t max_size = atomic_load_explicit(&pool->settings.max_size, memory_order_relaxed);
    if (!max_size && !pool->native.is_host)
        max_size = pool->device->info.memory;
    return max_size && limit > max_size / CAP_SHARE ? max_size / CAP_SHARE : limit;
}

bool weir__grant_ask(weir_pool *pool, struct weir__cache *cache, uint64_t bytes, uint64_t own, bool *refused)
{
    uint64_t limit = limit_of(pool);
    uint64_t granted = atomic_load_explicit(&pool->grants.granted, memory_order_relaxed);
    uint64_t need = cache->bytes + bytes - cache->granted, more;
    do {
        uint64_t room = granted < limit ? limit - granted : 0;
        if (need > room) {
            *refused = cache->bytes + bytes <= limit;
            return false;
        }
        more = weir__larger(need, weir__smaller(STEP, room / SHARES));
        more = more < room ? more : room;
        more = more < own - cache->granted ? more : own - cache->granted;
    } while (!atomic_compare_exchange_weak_explicit(&pool->grants.granted, &granted, granted + more, memory_order_relaxed,
                                                    memory_order_relaxed));
    cache->granted += more;
    return true;
}

void weir__grant_return(weir_pool *pool, struct weir__cache *cache, uint64_t keep)
{
    if (cache->granted > keep) {
        atomic_fetch_sub_explicit(&pool->grants.granted, cache->granted - keep, memory_order_relaxed);
        cache->granted = keep;
    }
}

/* Taking back -------------------------------------------------------------------------------------------------------------------------- */

/* Whether the stream's cache has kept nothing for a second, and has not been emptied for that reason within it. */
static bool is_idle(weir_stream *stream, uint64_t now)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    if (cache->looked_keeps != cache->keeps)
        cache->looked_at = now;
    cache->looked_keeps = cache->keeps;
    bool is = now - cache->looked_at >= IDLE;
    if (is)
        cache->looked_at = now;
    weir__spin_unlock(&cache->lock);
    return is;
}

/* Looks at the pool's streams, up to the first idle one that has something to give. Returns whether there was one. */
static bool look(const weir_pool *pool, const weir_stream *needy, uint64_t now)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    bool took = false;
    while (!took && (count = weir__streams_pin_next(pool->device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            if (!took && streams[i]->pool == pool && streams[i] != needy && is_idle(streams[i], now))
                took = weir__flush_stream(streams[i], UINT64_MAX);
            weir__stream_unpin(streams[i]);
        }
    return took;
}

void weir__grant_refused(weir_pool *pool, const weir_stream *stream)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t now = gpu->now_coarse(), due = atomic_load_explicit(&pool->grants.due, memory_order_relaxed);
    if (now < due || !atomic_compare_exchange_strong(&pool->grants.due, &due, now + PAUSE))
        return;
    WEIR__CALL;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    if (look(pool, stream, now))
        atomic_store(&pool->grants.due, now); /* there may be more: the next refusal looks on */
    weir__relaxed_end(gpu, mode);
}
