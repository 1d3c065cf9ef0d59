/* SPDX-License-Identifier: MIT */
#include "lib/cache.h"

#include "lib/fast.h"

#define GRANT_STEP (UINT64_C(1) << 20)  /* bytes that a stream asks of its pool's cache.per_device at a time */

/* The bounds --------------------------------------------------------------------------------------------------------------------------- */

/* Asks the pool for room, of which all its streams together have cache.per_device, and this one at most `own`. */
static bool grant(weir_pool *pool, struct weir__cache *cache, uint64_t bytes, uint64_t own)
{
    uint64_t limit = atomic_load_explicit(&pool->cache.per_device, memory_order_relaxed);
    uint64_t granted = atomic_load_explicit(&pool->cache_granted, memory_order_relaxed);
    uint64_t need = cache->bytes + bytes - cache->granted, more;
    do {
        uint64_t room = granted < limit ? limit - granted : 0;
        if (need > room)
            return false;
        more = need > GRANT_STEP ? need : GRANT_STEP;
        more = more < room ? more : room;
        more = more < own - cache->granted ? more : own - cache->granted;
    } while (!atomic_compare_exchange_weak_explicit(&pool->cache_granted, &granted, granted + more, memory_order_relaxed,
                                                    memory_order_relaxed));
    cache->granted += more;
    return true;
}

/* Gives back what was granted and is not needed now. */
static void give_grant_back(weir_pool *pool, struct weir__cache *cache, uint64_t keep)
{
    if (cache->granted > keep) {
        atomic_fetch_sub_explicit(&pool->cache_granted, cache->granted - keep, memory_order_relaxed);
        cache->granted = keep;
    }
}

void weir__cache_missed(weir_stream *stream)
{
    give_grant_back(stream->pool, &stream->cache, stream->cache.bytes + 2 * GRANT_STEP);
}

bool weir__cache_make_room(weir_stream *stream, const struct weir__entry *entry, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t bytes = weir__class_bytes[entry->class];
    uint64_t limit = atomic_load_explicit(&stream->pool->cache.per_stream, memory_order_relaxed);
    if (bytes > limit)
        return false;
    while (cache->bytes + bytes > limit || (cache->bytes + bytes > cache->granted && !grant(stream->pool, cache, bytes, limit))) {
        struct weir__entry *oldest = cache->oldest;
        if (!oldest)
            return false;
        if (!*victims)
            atomic_fetch_add(&stream->pins, 1);
        weir__cache_take(cache, oldest);
        oldest->next = *victims;
        *victims = oldest;
    }
    return true;
}

/* Emptying ----------------------------------------------------------------------------------------------------------------------------- */

struct weir__entry *weir__cache_drain(weir_stream *stream, const uint32_t *until, bool ask)
{
    struct weir__cache *cache = &stream->cache;
    struct weir__entry *drained = NULL, **end = &drained;
    weir__spin_lock(&cache->lock);
    bool may = cache->oldest && !(ask && weir__cache_is_barred(stream));
    while (may && cache->oldest && (!until || (int32_t)(*until - cache->oldest->tick) >= 0)) {
        struct weir__entry *oldest = cache->oldest;
        weir__cache_take(cache, oldest);
        oldest->next = NULL;
        *end = oldest;
        end = &oldest->next;
    }
    give_grant_back(stream->pool, cache, cache->bytes);
    cache->is_watched = cache->oldest && cache->is_watched;
    weir__spin_unlock(&cache->lock);
    return drained;
}

void weir__cache_init(struct weir__cache *cache)
{
    *cache = (struct weir__cache){ .is_closed = true };
    weir__spin_init(&cache->lock);
}

void weir__cache_open(weir_stream *stream, uint64_t id, weir_pool *pool)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    stream->id = id;
    stream->pool = pool;
    cache->hits = cache->keeps = 0;
    cache->live = 0;
    cache->is_watched = !weir__keeper_is_on(stream->w);
    atomic_store(&cache->is_closed, false);
    weir__spin_unlock(&cache->lock);
}

void weir__cache_close(weir_stream *stream)
{
    weir__spin_lock(&stream->cache.lock);
    atomic_store(&stream->cache.is_closed, true);
    weir__spin_unlock(&stream->cache.lock);
}
