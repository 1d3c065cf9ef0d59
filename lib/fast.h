/* SPDX-License-Identifier: MIT */
/*
 * fast.h - the calls that need no CUDA: a request served from the cache of an opened stream, and a free that enters it.
 *
 * Inline, since each instruction counts here: a pair takes less than 150, three locked ones among them. What is seldom needed stays in
 * cache.c.
 */
#ifndef WEIR_LIB_FAST_H
#define WEIR_LIB_FAST_H

#include "lib/stream.h"

/* Until a stream's bytes are so far away from the pool's figure, they are not added to it. */
#define WEIR__LIVE_STEP (INT64_C(1) << 20)

/* At the head of its class and of the order of coming. */
static inline void weir__cache_put(struct weir__cache *cache, struct weir__entry *entry)
{
    struct weir__class_list *class = &cache->classes[entry->class];
    entry->previous = NULL;
    entry->next = class->first;
    *(class->first ? &class->first->previous : &class->last) = entry;
    class->first = entry;
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
    cache->bytes += weir__class_bytes[entry->class];
}

static inline void weir__cache_take(struct weir__cache *cache, struct weir__entry *entry)
{
    struct weir__class_list *class = &cache->classes[entry->class];
    *(entry->previous ? &entry->previous->next : &class->first) = entry->next;
    *(entry->next ? &entry->next->previous : &class->last) = entry->previous;
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
    cache->bytes -= weir__class_bytes[entry->class];
}

/* `live` has changed. */
static inline void weir__cache_count_live(weir_stream *stream)
{
    struct weir__cache *cache = &stream->cache;
    if (__builtin_expect((uint64_t)cache->live + WEIR__LIVE_STEP > 2 * WEIR__LIVE_STEP, 0)) {
        weir__pool_count_live(stream->pool, cache->live);
        cache->live = 0;
    }
}

/* Whether a call on the stream has to go to CUDA because the stream captures, or may. Called with the cache's lock. */
static inline bool weir__cache_is_barred(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->pool->cache.capture_check, memory_order_relaxed) && weir__stream_captures(stream);
}

/*
 * Serves a request of that class from the stream's cache. id: the stream that was meant, NULL if the caller knows it to be this one.
 * pool: the one that must serve; NULL: whichever the stream has. WEIR__CACHE_MISS: CUDA has to do it.
 */
static inline enum weir__cache_answer weir__cache_serve(weir_stream *stream, const uint64_t *id, const weir_pool *pool, unsigned class,
                                                        size_t size, void **ptr)
{
    struct weir__cache *cache = &stream->cache;
    enum weir__cache_answer answer = WEIR__CACHE_MISS;
    weir__spin_lock(&cache->lock);
    struct weir__entry *entry = cache->classes[class].first;
    if (atomic_load_explicit(&cache->is_closed, memory_order_relaxed) || (id && *id != stream->id)) {
        answer = WEIR__CACHE_CLOSED;
    } else if (!entry) {
        weir__cache_missed(stream);
    } else if ((!pool || pool == stream->pool) && !weir__cache_is_barred(stream)) {
        weir__cache_take(cache, entry);
        cache->hits++;
        cache->live += (int64_t)size;
        weir__cache_count_live(stream);
        entry->size = size;
        *ptr = entry->ptr;
        atomic_store_explicit(&entry->live, true, memory_order_release);
        answer = WEIR__CACHE_DONE;
    }
    weir__spin_unlock(&cache->lock);
    return answer;
}

/*
 * Offers a claimed block to the stream's cache. Whatever the answer, *victims gets the blocks that had to make room, a list by `next`, or
 * NULL; with victims the stream is pinned, for weir__flush_victims().
 */
static inline enum weir__cache_answer weir__cache_keep(weir_stream *stream, const uint64_t *id, struct weir__entry *entry,
                                                       struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    enum weir__cache_answer answer = WEIR__CACHE_MISS;
    bool watch = false;
    *victims = NULL;
    weir__spin_lock(&cache->lock);
    if (atomic_load_explicit(&cache->is_closed, memory_order_relaxed) || (id && *id != stream->id)) {
        answer = WEIR__CACHE_CLOSED;
    } else if (entry->pool == stream->pool && weir__pool_caches(entry->pool, entry->class) && !weir__cache_is_barred(stream) &&
               (cache->bytes + weir__class_bytes[entry->class] <= cache->granted || weir__cache_make_room(stream, entry, victims))) {
        entry->tick = atomic_load_explicit(&stream->w->keeper.tick, memory_order_relaxed);
        cache->keeps++;
        cache->live -= (int64_t)entry->size;
        weir__cache_count_live(stream);
        weir__cache_put(cache, entry);
        watch = !cache->is_watched;
        cache->is_watched = true;
        answer = WEIR__CACHE_DONE;
    }
    weir__spin_unlock(&cache->lock);
    if (__builtin_expect(watch, 0))
        weir__keeper_wake(stream->w);
    return answer;
}

#endif
