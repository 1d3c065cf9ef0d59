/* SPDX-License-Identifier: MIT */
#include "lib/alloc/grant.h"

#include "lib/alloc/fast.h"
#include "lib/alloc/flush.h"
#include "lib/base/call.h"
#include "lib/base/number.h"

#define CAP_SHARE 8              /* the caches of a pool have at most this part of its max_size */
#define STEP (UINT64_C(1) << 20) /* bytes that are granted, or taken back, at a time */
#define SHARES 4096              /* of what is left, a step is at most one: with many streams each gets something */
#define BATCH 64                 /* streams that are looked at in one go */
#define BLOCKS 64                /* and blocks that are taken from one */
#define INTERVAL 32              /* refusals from one look to the next */
#define PATIENCE_MIN 512         /* refusals of others after which a stream is idle, twice as many with each mistake */
#define MISTAKES_MAX 5

/* Granting ----------------------------------------------------------------------------------------------------------------------------- */

/* What all caches of the pool may hold together. Caches that fill a pool up to its cap, or the device, make every request of another size a
   matter of recovery. */
static uint64_t limit_of(const weir_pool *pool)
{
    uint64_t limit = atomic_load_explicit(&pool->cache.per_device, memory_order_relaxed);
    uint64_t max_size = atomic_load_explicit(&pool->settings.max_size, memory_order_relaxed);
    if (!max_size && !pool->kind.is_host)
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

/* Whether a stream has freed nothing into its cache while others were refused `patience` times. Takes no lock, since a busy stream would
   lose its bias by that. */
static bool is_idle(weir_stream *stream, uint64_t now, uint64_t patience)
{
    uint64_t keeps = atomic_load_explicit(&stream->cache.keeps, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&stream->looked_at, memory_order_relaxed);
    if (atomic_exchange_explicit(&stream->looked_keeps, keeps, memory_order_relaxed) != keeps) {
        atomic_store_explicit(&stream->looked_at, now, memory_order_relaxed);
        return false;
    }
    return since != WEIR__GRANT_SPENT && now - since >= patience;
}

/* Takes a step from a pinned stream that is idle. false: it has nothing, or may not be touched now. */
static bool take_back(weir_stream *stream)
{
    uint64_t released;
    struct weir__entry *entries;
    weir__flush_begin(stream->device);
    enum weir__cache_answer answer = weir__cache_give_way(stream, STEP, BLOCKS, &entries, &released);
    if (entries)
        weir__flush_taken(stream, entries);
    weir__flush_end(stream->device, entries);
    if (answer != WEIR__CACHE_DONE)
        return false;
    if (released == 0) {
        atomic_store_explicit(&stream->looked_at, WEIR__GRANT_SPENT, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&stream->was_robbed, true, memory_order_relaxed);
    return true;
}

/* Looks at the next streams of the device, up to the first that is idle. */
static void look(weir_pool *pool, const weir_stream *needy, uint64_t now)
{
    weir_stream *last = atomic_load_explicit(&pool->grants.looked_last, memory_order_relaxed);
    weir_stream *streams[BATCH] = { [BATCH - 1] = last };
    uint64_t below = atomic_load_explicit(&pool->grants.looked_below, memory_order_relaxed);
    uint64_t patience = (uint64_t)PATIENCE_MIN << atomic_load_explicit(&pool->grants.mistakes, memory_order_relaxed);
    size_t count = weir__streams_pin_next(pool->device, &below, streams, BATCH);
    bool took = false;
    for (size_t i = 0; i < count; i++) {
        if (!took && streams[i]->pool == pool && streams[i] != needy && is_idle(streams[i], now, patience) && take_back(streams[i])) {
            took = true;
            below = streams[i]->number + 1; /* it comes first next time */
        }
        last = took ? last : streams[i];
        weir__stream_unpin(streams[i]);
    }
    atomic_store_explicit(&pool->grants.looked_last, last, memory_order_relaxed);
    atomic_store_explicit(&pool->grants.looked_below, count < BATCH && !took ? UINT64_MAX : below, memory_order_relaxed);
}

void weir__grant_refused(weir_pool *pool, weir_stream *stream)
{
    uint64_t now = atomic_fetch_add_explicit(&pool->grants.refusals, 1, memory_order_relaxed) + 1;
    unsigned mistakes = atomic_load_explicit(&pool->grants.mistakes, memory_order_relaxed);
    if (atomic_exchange_explicit(&stream->was_robbed, false, memory_order_relaxed) && mistakes < MISTAKES_MAX)
        atomic_compare_exchange_strong(&pool->grants.mistakes, &mistakes, mistakes + 1);
    if (now % INTERVAL)
        return;
    WEIR__CALL;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    look(pool, stream, now);
    weir__relaxed_end(pool->w->gpu, mode);
}
