/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the ordinary case of a cached call: a request that the cache of an opened stream can serve, and a free that it has room for.
 *
 * Inline, and without a call of its own, since each instruction counts: a pair takes less than 150, three locked ones among them. Anything out
 * of the ordinary (a lock that is taken, a capture to ask for, a cache that is empty, full or closed) changes nothing and is left to the
 * functions of cache.h, which do the same with everything looked at.
 */
#ifndef WEIR_LIB_FAST_H
#define WEIR_LIB_FAST_H

#include "lib/stream.h"

/* How far a stream's `live` may be away from the pool's figure before it is added there. */
#define WEIR__LIVE_STEP (INT64_C(1) << 20)

/* Called with the cache's lock, as is weir__cache_take(). */
static inline void weir__cache_put(struct weir__cache *cache, struct weir__entry *entry, unsigned class)
{
    struct weir__class_list *list = &cache->classes[class];
    entry->next = list->first;
    entry->stamp = list->stamp = cache->keeps++;
    list->first = entry;
    cache->bytes += weir__class_bytes[class];
}

/* Takes the first block of the class. */
static inline void weir__cache_take(struct weir__cache *cache, struct weir__entry *entry, unsigned class)
{
    cache->classes[class].first = entry->next;
    cache->bytes -= weir__class_bytes[class];
}

/* Whether so many bytes in users' hands are too many to be known to the stream alone. */
static inline bool weir__cache_is_far(int64_t live)
{
    return (uint64_t)live + WEIR__LIVE_STEP > 2 * WEIR__LIVE_STEP;
}

static inline enum weir__cache_state weir__cache_state(const struct weir__cache *cache)
{
    return atomic_load_explicit(&cache->state, memory_order_relaxed);
}

/* Serves a request. false: nothing was done. */
static inline bool weir__fast_serve(weir_stream *stream, unsigned class, size_t size, void **ptr)
{
    struct weir__cache *cache = &stream->cache;
    if (class > atomic_load_explicit(&stream->pool->cache.plain_classes, memory_order_relaxed) || !weir__spin_try(&cache->lock))
        return false;
    struct weir__entry *entry = cache->classes[class].first;
    int64_t live = cache->live + (int64_t)size;
    bool is_plain = entry && weir__cache_state(cache) == WEIR__CACHE_OPEN && !weir__cache_is_far(live);
    if (is_plain) {
        weir__cache_take(cache, entry, class);
        cache->hits++;
        cache->live = live;
        entry->size = size;
        *ptr = entry->ptr;
        atomic_store_explicit(&entry->live, true, memory_order_release);
    }
    weir__spin_unlock(&cache->lock);
    return is_plain;
}

/* Puts a claimed block into the stream's cache. false: nothing was done. */
static inline bool weir__fast_keep(weir_stream *stream, struct weir__entry *entry)
{
    struct weir__cache *cache = &stream->cache;
    const weir_pool *pool = entry->pool;
    unsigned class = entry->class;
    int64_t size = (int64_t)entry->size;
    if (class > atomic_load_explicit(&pool->cache.plain_classes, memory_order_relaxed) || !weir__spin_try(&cache->lock))
        return false;
    int64_t live = cache->live - size;
    /* A reload may have come between the first look at the classes and the lock, and have emptied the cache for good. */
    bool is_plain = weir__cache_state(cache) == WEIR__CACHE_OPEN && pool == stream->pool &&
                    class <= atomic_load_explicit(&pool->cache.plain_classes, memory_order_relaxed) &&
                    cache->bytes + weir__class_bytes[class] <= cache->granted && !weir__cache_is_far(live);
    if (is_plain) {
        cache->live = live;
        weir__cache_put(cache, entry, class);
    }
    weir__spin_unlock(&cache->lock);
    return is_plain;
}

#endif
