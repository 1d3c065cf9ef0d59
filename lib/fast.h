/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the ordinary case of a cached call: a request that the cache of an opened stream can serve, and a free that it has room for.
 *
 * Inline, and without a call of its own, since each instruction counts: a pair takes 150, two locked ones among them. Anything out
 * of the ordinary (a lock that is taken, a capture, a cache that is empty, full or closed) changes nothing and is left to the
 * functions of cache.h, which do the same with everything looked at.
 */
#ifndef WEIR_LIB_FAST_H
#define WEIR_LIB_FAST_H

#include "lib/stream.h"

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

/* Whether a stream's bytes in users' hands are too far away from what the pool knows of. */
static inline bool weir__cache_is_far(const weir_pool *pool, int64_t live)
{
    uint64_t step = atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
    return (uint64_t)live + step > 2 * step;
}

static inline enum weir__cache_state weir__cache_state(const struct weir__cache *cache)
{
    return atomic_load_explicit(&cache->state, memory_order_relaxed);
}

/* Both functions come in two kinds, by a constant: for pools that ask whether a stream captures (check), and for those that need not. */

static inline unsigned weir__fast_classes(const weir_pool *pool, bool check)
{
    return atomic_load_explicit(check ? &pool->cache.classes : &pool->cache.plain_classes, memory_order_relaxed);
}

/* Serves a request. false: nothing was done. */
static inline __attribute__((always_inline)) bool weir__fast_serve(weir_stream *stream, unsigned class, size_t size, void **ptr, bool check)
{
    struct weir__cache *cache = &stream->cache;
    const weir_pool *pool = stream->pool;
    if (class > weir__fast_classes(pool, check) || !weir__spin_try(&cache->lock))
        return false;
    struct weir__entry *entry = cache->classes[class].first;
    int64_t live = cache->live + (int64_t)size;
    bool is_plain = entry && weir__cache_state(cache) == WEIR__CACHE_OPEN && !weir__cache_is_far(pool, live) &&
                    !(check && weir__stream_captures(stream));
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

/* Takes the block at ptr from its user and puts it into the stream's cache, if it was served on this stream. false: nothing was done. */
static inline __attribute__((always_inline)) bool weir__fast_keep(weir_stream *stream, const void *ptr, bool check)
{
    struct weir__cache *cache = &stream->cache;
    const weir_pool *pool = stream->pool;
    if (!weir__fast_classes(pool, check))
        return false;
    struct weir__entry *entry = weir__blocks_look(&stream->w->blocks, ptr);
    if (!entry || !atomic_load_explicit(&entry->guard, memory_order_relaxed) || !weir__spin_try(&cache->lock))
        return false;
    bool is_plain = weir__entry_is(entry, ptr, &cache->lock) && entry->pool == pool &&
                    weir__cache_state(cache) == WEIR__CACHE_OPEN;
    if (is_plain) {
        unsigned class = entry->class;
        int64_t live = cache->live - (int64_t)entry->size;
        /* A reload may have switched the cache off, and have emptied it for good, before the lock was taken. */
        is_plain = class <= weir__fast_classes(pool, check) && cache->bytes + weir__class_bytes[class] <= cache->granted &&
                   !weir__cache_is_far(pool, live) && !(check && weir__stream_captures(stream));
        if (is_plain) {
            atomic_store_explicit(&entry->live, false, memory_order_relaxed);
            cache->live = live;
            weir__cache_put(cache, entry, class);
        }
    }
    weir__spin_unlock(&cache->lock);
    return is_plain;
}

#endif
