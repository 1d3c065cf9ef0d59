/* SPDX-License-Identifier: MIT */
/*
 * calls.c - weir_stream_malloc() and weir_stream_free().
 *
 * In the ordinary case the stream's cache can serve the request, or has room for the freed block. The code for this case exists in two
 * kinds, with and without recording. For blocks with a size class each kind is one inlined function; its only call asks CUDA whether the
 * stream captures. In every other case (another thread has the lock, the stream captures, the cache is empty, full or closed) that code
 * changes nothing, and the functions of cache.h do the same work with all checks.
 */
#include "lib/alloc/free.h"
#include "lib/alloc/noted.h"
#include "lib/alloc/request.h"
#include "lib/base/call.h"

#define INLINE static inline __attribute__((always_inline)) /* without always_inline the compiler would share code between the two kinds */
#define SLOW static __attribute__((noinline))

/* The ordinary case -------------------------------------------------------------------------------------------------------------------- */

/* Serves a request from the stream's cache: by its class, or, if is_large, from the large blocks. noted: NULL unless the call is recorded.
   Returns false if nothing was done. */
INLINE bool serve(weir_stream *s, unsigned class, bool is_large, size_t size, void **ptr, struct weir__noted *noted)
{
    struct weir__cache *cache = &s->cache;
    if (!weir__spin_try(&cache->lock))
        return false;
    struct weir__entry *entry = is_large ? weir__recent_find(&cache->recent, size) : cache->classes[class].first;
    int64_t live = cache->live + (int64_t)size;
    bool is_served = entry && cache->state == WEIR__CACHE_OPEN && (is_large || !weir__cache_is_far(s->pool, live)) &&
                     !weir__stream_is_barred(s);
    if (is_served) {
        if (is_large) {
            weir__recent_remove(&cache->recent, entry);
            weir__cache_count_live(s, (int64_t)size);
        } else {
            weir__cache_take(cache, entry, class);
            cache->live = live;
        }
        cache->hits++;
        entry->size = size;
        *ptr = entry->ptr;
        if (noted)
            weir__noted_take(noted, s, entry);
        atomic_store_explicit(&entry->live, true, memory_order_release);
    }
    weir__spin_unlock(&cache->lock);
    return is_served;
}

/* Returns whether the cache has room for the block, which is a large one if it has no class. classes: the number of classes that the pool
   caches now; a reload may have lowered it since the caller read it first. Called with the cache's lock, as is may_enter(). */
INLINE bool has_room(const weir_stream *s, const struct weir__entry *entry, unsigned classes)
{
    const struct weir__cache *cache = &s->cache;
    if (entry->class - 1U < classes)
        return cache->bytes + weir__class_bytes[entry->class] <= cache->granted &&
               !weir__cache_is_far(s->pool, cache->live - (int64_t)entry->size);
    return classes && entry->class == WEIR__CLASS_NONE && weir__cache_has_room(s, entry->size);
}

/* Returns whether the entry is the live block at ptr, and may enter the cache. */
INLINE bool may_enter(const weir_stream *s, const struct weir__entry *entry, const void *ptr, unsigned classes)
{
    const struct weir__cache *cache = &s->cache;
    return weir__entry_is(entry, ptr, &cache->lock) && entry->pool == s->pool && cache->state == WEIR__CACHE_OPEN &&
           has_room(s, entry, classes) && !weir__stream_is_barred(s);
}

/* Takes the block at ptr from its user and puts it into the stream's cache, if this cache served the block or kept it last. classes: the
   number of the pool's classes that this kind of call keeps. noted: NULL unless the call is recorded. Returns false if nothing was done. */
INLINE bool keep(weir_stream *s, const void *ptr, const _Atomic unsigned *classes, struct weir__noted *noted)
{
    struct weir__cache *cache = &s->cache;
    if (!atomic_load_explicit(classes, memory_order_relaxed))
        return false;
    struct weir__entry *entry = weir__blocks_look(&s->w->blocks, ptr);
    if (!entry || atomic_load_explicit(&entry->guard, memory_order_relaxed) != &cache->lock || !weir__spin_try(&cache->lock))
        return false;
    bool is_kept = may_enter(s, entry, ptr, atomic_load_explicit(classes, memory_order_relaxed));
    if (is_kept) {
        atomic_store_explicit(&entry->live, false, memory_order_relaxed);
        if (entry->class == WEIR__CLASS_NONE) {
            weir__cache_put_large(s, entry);
        } else {
            cache->live -= (int64_t)entry->size;
            weir__cache_put(cache, entry, entry->class);
        }
        if (noted)
            weir__noted_take(noted, s, entry);
    }
    weir__spin_unlock(&cache->lock);
    return is_kept;
}

/* All other cases ---------------------------------------------------------------------------------------------------------------------- */

static void leave(weir_stream **entered)
{
    weir__stream_leave(*entered);
}

/* Serves a request that serve() has not served: checks the arguments, asks the cache with all checks, then CUDA. */
SLOW weir_status malloc_slowly(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!s || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_malloc: s and ptr must not be NULL");
    WEIR__CALL; /* before the stream is entered: what blocks that go to CUDA log is given out after the stream was left */
    enum weir__cache_answer answer = WEIR__CACHE_CLOSED;
    if (weir__pool_keeps(s->pool, class))
        answer = weir__cache_serve(s, NULL, NULL, class, size, ptr, true);
    else if (weir__stream_enter(s))
        answer = WEIR__CACHE_MISS;
    if (answer == WEIR__CACHE_DONE)
        return WEIR_OK;
    if (answer == WEIR__CACHE_CLOSED)
        return weir__stream_closed(weir__last_error_reset(), "weir_stream_malloc");
    weir_stream *entered __attribute__((cleanup(leave), unused)) = s;
    return weir__serve(s->pool, ptr, size, &(struct weir__raw){ .handle = s->handle, .is_open = true }, s);
}

/* Frees a block that keep() has not taken: checks the arguments, and passes the block to weir__free(). */
SLOW weir_status free_slowly(weir_stream *s, void *ptr)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!ptr)
        return WEIR_OK;
    if (!s)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_free: s must not be NULL");
    return weir__free(s->w, ptr, s->handle, s);
}

SLOW weir_status malloc_noted(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    struct weir__noted noted;
    weir__noted_begin(&noted, s, true);
    if (!serve(s, class, false, size, ptr, &noted))
        return malloc_slowly(s, ptr, size, class);
    weir__noted_end(&noted, s);
    return WEIR_OK;
}

/* Serves a request above the pool's classes from the large blocks, with or without recording. */
SLOW weir_status malloc_large(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    struct weir__noted noted;
    bool is_noted = weir__records_cached(&s->w->recorder);
    if (is_noted)
        weir__noted_begin(&noted, s, true);
    if (!serve(s, class, true, size, ptr, is_noted ? &noted : NULL))
        return malloc_slowly(s, ptr, size, class);
    if (is_noted)
        weir__noted_end(&noted, s);
    return WEIR_OK;
}

SLOW weir_status malloc_otherwise(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked() || !s || !ptr || weir__pool_rounds(s->pool))
        return malloc_slowly(s, ptr, size, class);
    if (!weir__pool_caches(s->pool, class))
        return weir__recent_count(&s->cache.recent) && weir__pool_caches(s->pool, 1) ? malloc_large(s, ptr, size, class)
                                                                                     : malloc_slowly(s, ptr, size, class);
    return weir__records_cached(&s->w->recorder) ? malloc_noted(s, ptr, size, class) : malloc_slowly(s, ptr, size, class);
}

SLOW weir_status free_otherwise(weir_stream *s, void *ptr)
{
    struct weir__noted noted;
    if (weir__is_forked() || !s || !weir__records_cached(&s->w->recorder))
        return free_slowly(s, ptr);
    weir__noted_begin(&noted, s, false);
    if (!keep(s, ptr, &s->pool->cache.classes, &noted))
        return free_slowly(s, ptr);
    weir__noted_end(&noted, s);
    return WEIR_OK;
}

/* The calls ---------------------------------------------------------------------------------------------------------------------------- */

weir_status weir_stream_malloc(weir_stream *s, void **ptr, size_t size)
{
    unsigned class = weir__class_of(size);
    if (!weir__is_forked() && s && ptr && class <= atomic_load_explicit(&s->pool->cache.plain_classes, memory_order_relaxed) &&
        serve(s, class, false, size, ptr, NULL))
        return WEIR_OK;
    return malloc_otherwise(s, ptr, size, class);
}

weir_status weir_stream_free(weir_stream *s, void *ptr)
{
    /* A NULL ptr is no block, so keep() returns false. */
    if (!weir__is_forked() && s && keep(s, ptr, &s->pool->cache.plain_classes, NULL))
        return WEIR_OK;
    return free_otherwise(s, ptr);
}
