/* SPDX-License-Identifier: MIT */
#include "lib/alloc/grant.h"

#include "lib/alloc/flush.h"
#include "lib/base/call.h"
#include "lib/base/number.h"
#include "lib/gpu/clock.h"

#define CAP_SHARE 8              /* the caches of a pool have at most 1/CAP_SHARE of its max_size */
#define STEP (UINT64_C(1) << 20) /* a grant grows by at least STEP bytes, */
#define SHARES 4096              /* or by 1/SHARES of the bytes left if that is less, so that with many streams each gets some */
#define BATCH 64                 /* streams that are pinned at a time (stream.h) */
#define IDLE GPU_SECOND          /* a stream that has kept no block for so long is idle */
#define PAUSE (IDLE / 4)         /* the least time between two looks at all streams, if the first found no idle one */

/* Granting ----------------------------------------------------------------------------------------------------------------------------- */

/* Returns the bytes that all caches of the pool may have together: cache.per_device, but only a part of the pool's cap or of the device's
   memory. If caches filled those, every request of another size would need recovery. */
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

/* Returns whether the stream is idle, that is, its cache has kept no block for a second. After a yes the second begins anew. */
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

/* Pins the pool's streams in turn and empties the cache of the first idle one that has something to give. Returns whether there was one. */
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
        atomic_store(&pool->grants.due, now); /* other streams may be idle too: the next refusal looks at once */
    weir__relaxed_end(gpu, mode);
}
