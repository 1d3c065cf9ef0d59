/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the ordinary case of a cached call: a request that the cache of an opened stream can serve, and a free that it has room for.
 *
 * Inline, and without a call of its own, since each instruction counts: a pair takes 150, none of them locked if the cache's lock is biased
 * to the thread. Anything out of the ordinary (a lock that is taken, a capture, a cache that is empty, full or closed) changes nothing and
 * is left to the functions of cache.h, which do the same with everything looked at.
 */
#ifndef WEIR_LIB_FAST_H
#define WEIR_LIB_FAST_H

#include "lib/alloc/noted.h"

#define WEIR__INLINE static inline __attribute__((always_inline)) /* by itself a compiler would share code between the kinds of call */

/* Gives the stamp of a block that enters the cache. This and the next two functions are called with the cache's lock. */
WEIR__INLINE uint64_t weir__cache_stamp(struct weir__cache *cache)
{
    uint64_t stamp = atomic_load_explicit(&cache->keeps, memory_order_relaxed);
    atomic_store_explicit(&cache->keeps, stamp + 1, memory_order_relaxed);
    return stamp;
}

WEIR__INLINE void weir__cache_put(struct weir__cache *cache, struct weir__entry *entry, size_t class)
{
    struct weir__class_list *list = &cache->classes[class];
    entry->next = list->first;
    entry->stamp = list->stamp = weir__cache_stamp(cache);
    list->first = entry;
    cache->bytes += weir__class_bytes[class];
}

/* Takes the first block of the class. */
WEIR__INLINE void weir__cache_take(struct weir__cache *cache, struct weir__entry *entry, size_t class)
{
    cache->classes[class].first = entry->next;
    cache->bytes -= weir__class_bytes[class];
}

/* Whether the bytes that the pool does not know of yet (`live` of the cache) are so many that the slow path has to tell the pool. */
static inline bool weir__cache_is_far(const weir_pool *pool, int64_t live)
{
    uint64_t step = atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
    return (uint64_t)live + step > 2 * step;
}

static inline enum weir__cache_state weir__cache_state(const struct weir__cache *cache)
{
    return atomic_load_explicit(&cache->state, memory_order_relaxed);
}

/* Called with the cache's lock. The lock is biased only while the cache is open, so a thread that enters by the bias need not look at the
   state, and only a visitor changes the state from open. */
static inline void weir__cache_set_state(struct weir__cache *cache, enum weir__cache_state state)
{
    atomic_store(&cache->state, state);
    weir__bias_bar(&cache->lock, state != WEIR__CACHE_OPEN);
}

/* weir__fast_serve() and weir__fast_keep() are compiled once for each kind of call, by constant arguments: `check` for pools that ask
   whether a stream captures, `way` for how the lock is taken, and `noted` or NULL. */

static inline unsigned weir__fast_classes(const weir_pool *pool, bool check)
{
    return atomic_load_explicit(check ? &pool->cache.checked_classes : &pool->cache.plain_classes, memory_order_relaxed);
}

/* The same for noted calls (noted.h), which find out by themselves whether to ask. */
static inline unsigned weir__noted_classes(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->cache.noted_classes, memory_order_relaxed);
}

/* Serves a request from the stream's cache. noted: where a noted call writes what it did, NULL for other calls. Returns false, with nothing
   changed, if this is not the ordinary case. */
WEIR__INLINE bool weir__fast_serve(weir_stream *stream, size_t class, size_t size, void **ptr, bool check, enum weir__bias_way way,
                                   struct weir__noted *noted)
{
    struct weir__cache *cache = &stream->cache;
    const weir_pool *pool = stream->pool;
    if (class > (noted ? weir__noted_classes(pool) : weir__fast_classes(pool, check)) || !weir__bias_take(&cache->lock, way))
        return false;
    struct weir__entry *entry = cache->classes[class].first;
    int64_t live = cache->live + (int64_t)size;
    bool is_plain = entry && (way == WEIR__BIAS_HOME || weir__cache_state(cache) == WEIR__CACHE_OPEN) && !weir__cache_is_far(pool, live) &&
                    !(check && weir__stream_captures(stream));
    if (is_plain) {
        weir__cache_take(cache, entry, class);
        cache->hits++;
        cache->live = live;
        entry->size = size;
        *ptr = entry->ptr;
        if (noted)
            weir__noted_take(noted, stream, entry);
        atomic_store_explicit(&entry->live, true, memory_order_release);
    }
    weir__bias_drop(&cache->lock, way);
    return is_plain;
}

/* Called with the cache's lock. Puts the entry into the cache if it is the block at ptr and this is the ordinary case. Returns
   whether it did. */
WEIR__INLINE bool weir__fast_enter(weir_stream *stream, struct weir__entry *entry, const void *ptr, bool check, enum weir__bias_way way,
                                   struct weir__noted *noted)
{
    struct weir__cache *cache = &stream->cache;
    const weir_pool *pool = stream->pool;
    if (!weir__entry_is(entry, ptr, &cache->lock) || entry->pool != pool ||
        (way != WEIR__BIAS_HOME && weir__cache_state(cache) != WEIR__CACHE_OPEN))
        return false;
    size_t class = entry->class;
    int64_t live = cache->live - (int64_t)entry->size;
    /* A block without a class belongs to the recent ones. A reload may have switched the cache off, and emptied it for good, before this
       thread took the lock. */
    unsigned classes = noted ? weir__noted_classes(pool) : weir__fast_classes(pool, check);
    if (class - 1 >= classes || cache->bytes + weir__class_bytes[class] > cache->granted ||
        weir__cache_is_far(pool, live) || (check && weir__stream_captures(stream)))
        return false;
    atomic_store_explicit(&entry->live, false, memory_order_relaxed);
    cache->live = live;
    weir__cache_put(cache, entry, class);
    if (noted)
        weir__noted_take(noted, stream, entry);
    return true;
}

/* Takes the block at ptr from its user and puts it into the stream's cache, if it was served on this stream. Returns false, with
   nothing changed, if this is not the ordinary case. */
WEIR__INLINE bool weir__fast_keep(weir_stream *stream, const void *ptr, bool check, enum weir__bias_way way,
                                  struct weir__noted *noted)
{
    weir__bias *lock = &stream->cache.lock;
    if (!(noted ? weir__noted_classes(stream->pool) : weir__fast_classes(stream->pool, check)))
        return false;
    /* Taking the lock by its bias costs less than to look first whether the free needs it. */
    if (way == WEIR__BIAS_HOME && !weir__bias_take(lock, way))
        return false;
    struct weir__entry *entry = weir__blocks_look(&stream->w->blocks, ptr);
    if (way != WEIR__BIAS_HOME &&
        (!entry || !atomic_load_explicit(&entry->guard, memory_order_relaxed) || !weir__bias_take(lock, way)))
        return false;
    bool is_kept = entry && weir__fast_enter(stream, entry, ptr, check, way, noted);
    weir__bias_drop(lock, way);
    return is_kept;
}

#endif
