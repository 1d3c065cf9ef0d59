/* SPDX-License-Identifier: MIT */
#include "lib/cache.h"

#include "lib/keeper.h"
#include "lib/stream.h"

#define GRANT_STEP (UINT64_C(1) << 20)  /* bytes that a stream asks of its pool's cache.per_device at a time */
#define LIVE_STEP (INT64_C(1) << 20)    /* how far a stream's bytes may be away from the pool's figure */

/* The lists ---------------------------------------------------------------------------------------------------------------------------- */

static void put(struct weir__cache *cache, struct weir__entry *entry)
{
    struct weir__class_list *class = &cache->classes[entry->class];
    entry->previous = NULL;
    entry->next = class->first;
    if (class->first)
        class->first->previous = entry;
    else
        class->last = entry;
    class->first = entry;
    entry->newer = NULL;
    entry->older = cache->newest;
    if (cache->newest)
        cache->newest->newer = entry;
    else
        cache->oldest = entry;
    cache->newest = entry;
    cache->bytes += weir__class_bytes(entry->class);
}

static void take(struct weir__cache *cache, struct weir__entry *entry)
{
    struct weir__class_list *class = &cache->classes[entry->class];
    *(entry->previous ? &entry->previous->next : &class->first) = entry->next;
    *(entry->next ? &entry->next->previous : &class->last) = entry->previous;
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
    cache->bytes -= weir__class_bytes(entry->class);
}

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

/* Makes the oldest blocks give way until there is room for so many bytes; false: there can be none. */
static bool make_room(weir_stream *stream, uint64_t bytes, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t limit = atomic_load_explicit(&stream->pool->cache.per_stream, memory_order_relaxed);
    if (bytes > limit)
        return false;
    while (cache->bytes + bytes > limit || (cache->bytes + bytes > cache->granted && !grant(stream->pool, cache, bytes, limit))) {
        struct weir__entry *oldest = cache->oldest;
        if (!oldest)
            return false;
        take(cache, oldest);
        oldest->next = *victims;
        *victims = oldest;
    }
    return true;
}

/* Serving and keeping ------------------------------------------------------------------------------------------------------------------ */

static bool captures(const weir_stream *stream)
{
    const struct gpu *gpu = stream->w->gpu;
    enum gpu_capture_status capture;
    if (!atomic_load_explicit(&stream->pool->cache.capture_check, memory_order_relaxed))
        return false;
    int former = weir__current_begin(gpu, stream->device->index, stream->handle);
    int code = gpu->stream_capture_status(stream->handle, &capture);
    weir__current_end(gpu, former);
    if (code == GPU_SUCCESS)
        return capture != GPU_CAPTURE_STATUS_NONE;
    gpu->forget_error(code);
    return true;
}

static void count_live(weir_pool *pool, struct weir__cache *cache, int64_t bytes)
{
    cache->live += bytes;
    if (cache->live > LIVE_STEP || cache->live < -LIVE_STEP) {
        weir__pool_count_live(pool, cache->live);
        cache->live = 0;
    }
}

static bool is_meant(const weir_stream *stream, uint64_t id)
{
    return stream->id == id && !atomic_load_explicit(&stream->cache.is_closed, memory_order_relaxed);
}

static enum weir__cache_answer serve(weir_stream *stream, const weir_pool *pool, size_t size, void **ptr)
{
    struct weir__cache *cache = &stream->cache;
    struct weir__entry *entry = cache->classes[weir__class_of(size)].first;
    if (!entry) {
        give_grant_back(stream->pool, cache, cache->bytes + 2 * GRANT_STEP);
        return WEIR__CACHE_MISS;
    }
    if ((pool && pool != stream->pool) || captures(stream))
        return WEIR__CACHE_MISS;
    take(cache, entry);
    cache->hits++;
    count_live(stream->pool, cache, (int64_t)size);
    entry->size = size;
    atomic_store_explicit(&entry->live, true, memory_order_release);
    *ptr = entry->ptr;
    return WEIR__CACHE_DONE;
}

enum weir__cache_answer weir__cache_serve(weir_stream *stream, uint64_t id, const weir_pool *pool, size_t size, void **ptr)
{
    weir__spin_lock(&stream->cache.lock);
    enum weir__cache_answer answer = is_meant(stream, id) ? serve(stream, pool, size, ptr) : WEIR__CACHE_CLOSED;
    weir__spin_unlock(&stream->cache.lock);
    return answer;
}

static enum weir__cache_answer keep(weir_stream *stream, struct weir__entry *entry, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t bytes = weir__class_bytes(entry->class);
    if (entry->pool != stream->pool || captures(stream))
        return WEIR__CACHE_MISS;
    if (cache->bytes + bytes > cache->granted && !make_room(stream, bytes, victims))
        return WEIR__CACHE_MISS;
    entry->tick = atomic_load_explicit(&stream->w->keeper.tick, memory_order_relaxed);
    put(cache, entry);
    cache->keeps++;
    count_live(stream->pool, cache, -(int64_t)entry->size);
    return WEIR__CACHE_DONE;
}

enum weir__cache_answer weir__cache_keep(weir_stream *stream, uint64_t id, struct weir__entry *entry, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    bool watch = false;
    *victims = NULL;
    weir__spin_lock(&cache->lock);
    enum weir__cache_answer answer = is_meant(stream, id) ? keep(stream, entry, victims) : WEIR__CACHE_CLOSED;
    if (answer == WEIR__CACHE_DONE && !cache->is_watched && weir__keeper_is_on(stream->w))
        cache->is_watched = watch = true;
    if (*victims)
        atomic_fetch_add(&stream->pins, 1);
    weir__spin_unlock(&cache->lock);
    if (watch)
        weir__keeper_wake(stream->w);
    return answer;
}

/* Emptying ----------------------------------------------------------------------------------------------------------------------------- */

struct weir__entry *weir__cache_drain(weir_stream *stream, const uint32_t *until, bool ask)
{
    struct weir__cache *cache = &stream->cache;
    struct weir__entry *drained = NULL, **end = &drained;
    weir__spin_lock(&cache->lock);
    bool may = cache->oldest && !(ask && captures(stream));
    while (may && cache->oldest && (!until || (int32_t)(*until - cache->oldest->tick) >= 0)) {
        struct weir__entry *oldest = cache->oldest;
        take(cache, oldest);
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
    atomic_store(&cache->is_closed, false);
    weir__spin_unlock(&cache->lock);
}

void weir__cache_close(weir_stream *stream)
{
    weir__spin_lock(&stream->cache.lock);
    atomic_store(&stream->cache.is_closed, true);
    weir__spin_unlock(&stream->cache.lock);
}
