/* SPDX-License-Identifier: MIT */
#include "lib/alloc/cache.h"

#include <limits.h>
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/grant.h"
#include "lib/alloc/noted.h"
#include "lib/base/number.h"
#include "lib/base/valid.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"

#define SURPLUS (UINT64_C(2) << 20) /* bytes of unused grant that a cache may keep */
#define WINDOW 4096                 /* A class that got no block during this many frees into its cache is stale. */
#define STALE 2                     /* stale blocks that a miss gives to CUDA, at most */
/* bytes of the largest block that a stream keeps if its pool does not ask caches before it grows */
#define LONE (UINT64_C(64) << 20)

/* The bounds --------------------------------------------------------------------------------------------------------------------------- */

/* Returns the class, among those from 1 to `classes`, that has blocks and has gone longest without a new one. Returns NULL if none has
   blocks. */
static struct weir__class_list *find_oldest(struct weir__cache *cache, unsigned classes)
{
    struct weir__class_list *oldest = NULL;
    for (unsigned i = 1; i <= classes && cache->bytes; i++) {
        struct weir__class_list *class = &cache->classes[i];
        if (class->first && (!oldest || class->stamp < oldest->stamp))
            oldest = class;
    }
    return oldest;
}

/* Takes the first block of the class that find_oldest() returns. Returns NULL if there is no such class. */
static struct weir__entry *take_oldest(struct weir__cache *cache, unsigned classes)
{
    struct weir__class_list *oldest = find_oldest(cache, classes);
    struct weir__entry *entry = oldest ? oldest->first : NULL;
    if (entry)
        weir__cache_take(cache, entry, entry->class);
    return entry;
}

/* Adds a block to the list (by `next`) of blocks that go to CUDA. The first one begins a flush, which weir__flush_victims() ends. */
static void push_victim(weir_stream *stream, struct weir__entry *entry, struct weir__entry **victims)
{
    if (!*victims)
        weir__flush_begin(stream->device);
    entry->next = *victims;
    *victims = entry;
}

/* Gives up cached blocks, which are added to *victims, until the entry fits. Returns false if the entry cannot fit. *refused is set if the
   room that the entry lacks is granted to other streams. */
static bool make_room(weir_stream *stream, const struct weir__entry *entry, struct weir__entry **victims, bool *refused)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t bytes = weir__class_bytes[entry->class];
    uint64_t limit = atomic_load_explicit(&stream->pool->cache.per_stream, memory_order_relaxed);
    unsigned classes = atomic_load_explicit(&stream->pool->cache.classes, memory_order_relaxed);
    if (bytes > limit)
        return false;
    while (cache->bytes + bytes > limit ||
           (cache->bytes + bytes > cache->granted && !weir__grant_ask(stream->pool, cache, bytes, limit, refused))) {
        struct weir__entry *oldest = take_oldest(cache, classes);
        if (!oldest)
            return false;
        push_victim(stream, oldest, victims);
    }
    return true;
}

/* Serving and keeping ------------------------------------------------------------------------------------------------------------------ */

/* Returns whether the cache is open and belongs to the stream with this id (NULL: any) and this pool (NULL: any). */
static bool is_meant(const weir_stream *stream, const uint64_t *id, const weir_pool *pool)
{
    return stream->cache.state != WEIR__CACHE_SHUT && (!id || *id == stream->id) && (!pool || pool == stream->pool);
}

void weir__cache_count_live(weir_stream *stream, int64_t bytes)
{
    struct weir__cache *cache = &stream->cache;
    cache->live += bytes;
    if (weir__cache_is_far(stream->pool, cache->live)) {
        weir__pool_count_live(stream->pool, cache->live);
        cache->live = 0;
    }
}

/* Returns the block that would serve the request, or NULL if the cache has none. A pool that caches nothing now may be asleep, with blocks
   left in the caches of streams that captured. */
static struct weir__entry *find(const weir_stream *stream, unsigned class, size_t size)
{
    const struct weir__cache *cache = &stream->cache;
    if (weir__pool_caches(stream->pool, class))
        return cache->classes[class].first;
    return weir__pool_caches(stream->pool, 1) ? weir__recent_find(&cache->recent, size) : NULL;
}

/*
 * Gives up to STALE stale blocks to CUDA, those of the oldest class first. Called when the cache has no block for a request, so that CUDA
 * is about to be called anyway. Sizes that grow from step to step, as in a KV cache, leave stale classes behind, which otherwise would stay
 * until the cache is full. *victims gets the blocks.
 */
static void drop_stale(weir_stream *stream, bool ask, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t keeps = cache->keeps;
    unsigned classes = atomic_load_explicit(&stream->pool->cache.classes, memory_order_relaxed);
    for (unsigned i = 0; i < STALE && keeps >= cache->stale_at; i++) {
        const struct weir__class_list *oldest = find_oldest(cache, classes);
        cache->stale_at = (oldest ? oldest->stamp : keeps) + WINDOW;
        if (keeps < cache->stale_at || (ask && weir__stream_is_barred(stream)))
            return;
        push_victim(stream, take_oldest(cache, classes), victims);
    }
}

/* Adds the oldest of the large blocks to the victims. */
static void push_oldest(weir_stream *stream, struct weir__entry **victims)
{
    struct weir__recent *recent = &stream->cache.recent;
    struct weir__entry *oldest = recent->entries[0];
    weir__recent_remove(recent, oldest);
    push_victim(stream, oldest, victims);
}

/* Gives the large blocks to CUDA if they are stale. */
static void drop_large(weir_stream *stream, bool ask, struct weir__entry **victims)
{
    struct weir__recent *recent = &stream->cache.recent;
    if (!weir__recent_is_stale(recent) || (ask && weir__stream_is_barred(stream)))
        return;
    while (weir__recent_count(recent))
        push_oldest(stream, victims);
}

/* weir__cache_serve() under the cache's lock. ask: the function asks whether the stream captures. */
static enum weir__cache_answer serve(weir_stream *stream, bool ask, unsigned class, size_t size, void **ptr,
                                     struct weir__entry **victims, struct weir__noted *noted)
{
    struct weir__cache *cache = &stream->cache;
    if (weir__pool_rounds(stream->pool)) {
        size = weir__pool_round(stream->pool, size);
        class = weir__class_of(size);
    }
    struct weir__entry *entry = find(stream, class, size);
    if (!entry) {
        drop_stale(stream, ask, victims);
        drop_large(stream, ask, victims);
        weir__grant_return(stream->pool, cache, cache->bytes + SURPLUS);
        return WEIR__CACHE_MISS;
    }
    if (ask && weir__stream_is_barred(stream))
        return WEIR__CACHE_MISS;
    if (entry->class == WEIR__CLASS_NONE)
        weir__recent_remove(&cache->recent, entry);
    else
        weir__cache_take(cache, entry, class);
    cache->hits++;
    weir__cache_count_live(stream, (int64_t)size);
    entry->size = size;
    *ptr = entry->ptr;
    if (noted)
        weir__noted_take(noted, stream, entry);
    atomic_store_explicit(&entry->live, true, memory_order_release);
    return WEIR__CACHE_DONE;
}

enum weir__cache_answer weir__cache_serve(weir_stream *stream, const uint64_t *id, const weir_pool *pool, unsigned class, size_t size,
                                          void **ptr, bool enters)
{
    struct weir__entry *victims = NULL;
    struct weir__noted noted = {.ring = NULL};
    bool is_noted = weir__records_cached(&stream->w->recorder);
    if (is_noted)
        weir__noted_begin(&noted, stream, true);
    weir__spin_lock(&stream->cache.lock);
    enum weir__cache_answer answer = WEIR__CACHE_CLOSED;
    if (is_meant(stream, id, pool))
        answer = serve(stream, !id, class, size, ptr, &victims, is_noted ? &noted : NULL);
    stream->cache.calls += (victims != NULL) + (enters && answer == WEIR__CACHE_MISS);
    weir__spin_unlock(&stream->cache.lock);
    if (is_noted)
        weir__noted_end(&noted, stream);
    if (victims)
        weir__flush_victims(stream, victims);
    return answer;
}

void weir__cache_put_large(weir_stream *stream, struct weir__entry *entry)
{
    weir__cache_count_live(stream, -(int64_t)entry->size);
    entry->stamp = weir__cache_stamp(&stream->cache);
    weir__recent_add(&stream->cache.recent, entry);
}

/* Puts in a large block; the oldest large blocks make room and are added to *victims. */
static void put_large(weir_stream *stream, struct weir__entry *entry, struct weir__entry **victims)
{
    struct weir__cache *cache = &stream->cache;
    uint64_t taken = atomic_load_explicit(&stream->pool->figures.taken, memory_order_relaxed);
    while (weir__recent_is_full(&cache->recent, entry->size, taken))
        push_oldest(stream, victims);
    weir__cache_put_large(stream, entry);
}

/*
 * Returns whether the pool lets its streams keep a large block of that size. An arena asks the caches for large blocks before it grows, so
 * it may keep all of them. CUDA's pools do not ask, and could have served another stream with the block. So there a block is at most LONE
 * bytes, or a WEIR__RECENT_SHARE-th of the pool's bytes if that is more; and none is kept while the pool has more bytes than its threshold.
 */
static bool keeps_large(const weir_pool *pool, uint64_t size)
{
    if (!weir__pool_keeps(pool, UINT_MAX) || pool->backing->ops->asks_caches)
        return weir__pool_keeps(pool, UINT_MAX);
    uint64_t taken = atomic_load_explicit(&pool->figures.taken, memory_order_relaxed);
    return size <= weir__larger(LONE, taken / WEIR__RECENT_SHARE) && taken <= weir__pool_threshold(pool);
}

bool weir__cache_has_room(const weir_stream *stream, uint64_t size)
{
    uint64_t taken = atomic_load_explicit(&stream->pool->figures.taken, memory_order_relaxed);
    return keeps_large(stream->pool, size) && !weir__recent_is_full(&stream->cache.recent, size, taken);
}

bool weir__cache_may_keep(const struct weir__entry *entry)
{
    return entry->class == WEIR__CLASS_NONE ? keeps_large(entry->pool, entry->size) : weir__pool_caches(entry->pool, entry->class);
}

/* weir__cache_keep() under the cache's lock. *wake: the keeper must be woken. *refused: as for make_room(). */
static enum weir__cache_answer keep(weir_stream *stream, bool ask, struct weir__entry *entry, struct weir__entry **victims, bool *wake,
                                    bool *refused, struct weir__noted *noted)
{
    struct weir__cache *cache = &stream->cache;
    bool is_large = entry->class == WEIR__CLASS_NONE;
    if (entry->pool != stream->pool || !weir__cache_may_keep(entry) || (ask && weir__stream_is_barred(stream)) ||
        (!is_large && !make_room(stream, entry, victims, refused)))
        return WEIR__CACHE_MISS;
    atomic_store_explicit(&entry->guard, &cache->lock, memory_order_relaxed);
    if (is_large) {
        put_large(stream, entry, victims);
    } else {
        weir__cache_count_live(stream, -(int64_t)entry->size);
        weir__cache_put(cache, entry, entry->class);
    }
    if (noted)
        weir__noted_take(noted, stream, entry);
    *wake = cache->state == WEIR__CACHE_UNSEEN;
    if (*wake)
        cache->state = WEIR__CACHE_OPEN;
    return WEIR__CACHE_DONE;
}

enum weir__cache_answer weir__cache_keep(weir_stream *stream, const uint64_t *id, struct weir__entry *entry)
{
    struct weir__entry *victims = NULL;
    bool wake = false, refused = false;
    struct weir__noted noted = {.ring = NULL};
    bool is_noted = weir__records_cached(&stream->w->recorder);
    if (is_noted)
        weir__noted_begin(&noted, stream, false);
    weir__spin_lock(&stream->cache.lock);
    weir_pool *pool = stream->pool;
    enum weir__cache_answer answer = WEIR__CACHE_CLOSED;
    if (is_meant(stream, id, NULL))
        answer = keep(stream, !id, entry, &victims, &wake, &refused, is_noted ? &noted : NULL);
    stream->cache.calls += victims != NULL;
    weir__spin_unlock(&stream->cache.lock);
    if (is_noted)
        weir__noted_end(&noted, stream);
    if (wake)
        weir__keeper_wake(stream->w);
    if (victims)
        weir__flush_victims(stream, victims);
    if (refused)
        weir__grant_refused(pool, stream);
    return answer;
}

#ifdef WEIR_DEBUG
bool weir__cache_is_valid(const weir_stream *stream)
{
    const struct weir__cache *cache = &stream->cache;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < WEIR__CLASS_COUNT; i++) {
        uint64_t stamp = cache->keeps;
        for (const struct weir__entry *entry = cache->classes[i].first; entry; entry = entry->next) {
            if (i == 0 || entry->class != i || entry->pool != stream->pool || atomic_load(&entry->live) ||
                atomic_load(&entry->guard) != &cache->lock || entry->stamp >= stamp)
                return false;
            stamp = entry->stamp;
            bytes += weir__class_bytes[i];
        }
    }
    return bytes == cache->bytes && cache->granted >= bytes && weir__recent_is_valid(&cache->recent);
}
#endif

/* Emptying, opening, closing ----------------------------------------------------------------------------------------------------------- */

/* Cuts a list at the first stamp below `before`; stamps fall towards the list's end. Returns the blocks that were cut off, and adds their
   bytes to *bytes. */
static struct weir__entry *cut(struct weir__entry **first, uint64_t before, uint64_t *bytes)
{
    while (*first && (*first)->stamp >= before)
        first = &(*first)->next;
    struct weir__entry *rest = *first;
    *first = NULL;
    for (const struct weir__entry *entry = rest; entry; entry = entry->next)
        *bytes += weir__class_bytes[entry->class];
    return rest;
}

/* Takes the blocks whose stamp is below `before` out of the classes from <= class < to and out of `recent`. Returns a list by `next`. */
static struct weir__entry *take_out(struct weir__cache *cache, unsigned from, unsigned to, uint64_t before)
{
    struct weir__entry *drained = NULL, **end = &drained;
    for (unsigned i = from; i < to; i++) {
        uint64_t bytes = 0;
        *end = cut(&cache->classes[i].first, before, &bytes);
        cache->bytes -= bytes;
        while (*end)
            end = &(*end)->next;
    }
    *end = weir__recent_drain(&cache->recent, before);
    return drained;
}

struct weir__entry *weir__cache_drain(weir_stream *stream, uint64_t before, bool ask)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    bool may = (cache->bytes || weir__recent_count(&cache->recent)) && !(ask && weir__stream_is_barred(stream));
    struct weir__entry *drained = may ? take_out(cache, 1, WEIR__CLASS_COUNT, before) : NULL;
    weir__grant_return(stream->pool, cache, cache->bytes);
    WEIR__MUST(weir__cache_is_valid(stream));
    weir__spin_unlock(&cache->lock);
    return drained;
}

uint64_t weir__cache_barred(weir_stream *stream)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    uint64_t bytes = cache->bytes + cache->recent.bytes;
    bool barred = bytes && weir__stream_is_barred(stream);
    weir__spin_unlock(&cache->lock);
    return barred ? bytes : 0;
}

struct weir__entry *weir__cache_drain_part(weir_stream *stream, unsigned from, unsigned to)
{
    struct weir__cache *cache = &stream->cache;
    struct weir__entry *drained = NULL;
    weir__spin_lock(&cache->lock);
    if (((cache->bytes && from < to) || weir__recent_count(&cache->recent)) && !weir__stream_is_barred(stream))
        drained = take_out(cache, from, to, UINT64_MAX);
    weir__grant_return(stream->pool, cache, cache->bytes + SURPLUS);
    WEIR__MUST(weir__cache_is_valid(stream));
    weir__spin_unlock(&cache->lock);
    return drained;
}

bool weir__cache_forget(struct weir__entry *entry, const void *ptr)
{
    weir__spin *guard = atomic_load_explicit(&entry->guard, memory_order_acquire);
    if (!guard)
        return false;
    struct weir__cache *cache = (struct weir__cache *)((char *)guard - offsetof(struct weir__cache, lock));
    weir__spin_lock(guard);
    bool is_dead = atomic_load_explicit(&entry->guard, memory_order_relaxed) == guard &&
                   atomic_load_explicit(&entry->ptr, memory_order_relaxed) == ptr && !atomic_load(&entry->live);
    struct weir__entry **link = is_dead ? &cache->classes[entry->class].first : NULL;
    while (link && *link && *link != entry)
        link = &(*link)->next;
    bool found = link && *link;
    if (found) {
        *link = entry->next;
        cache->bytes -= weir__class_bytes[entry->class];
    } else if (is_dead) {
        found = weir__recent_remove(&cache->recent, entry);
    }
    weir__spin_unlock(guard);
    return found;
}

bool weir__cache_holds(weir_stream *stream)
{
    weir__spin_lock(&stream->cache.lock);
    bool holds = stream->cache.bytes || stream->cache.granted || weir__recent_count(&stream->cache.recent);
    weir__spin_unlock(&stream->cache.lock);
    return holds;
}

void weir__cache_init(struct weir__cache *cache)
{
    *cache = (struct weir__cache){ .state = WEIR__CACHE_SHUT };
    weir__spin_init(&cache->lock);
}

void weir__cache_open(weir_stream *stream, uint64_t id, weir_pool *pool)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    WEIR__MUST(cache->bytes == 0 && cache->granted == 0 && cache->calls == 0);
    stream->id = id;
    stream->pool = pool;
    cache->hits = cache->keeps = 0;
    memset(cache->marks, 0, sizeof cache->marks);
    cache->marked = cache->stale_at = cache->looked_keeps = cache->looked_at = 0;
    cache->live = 0;
    atomic_store_explicit(&cache->recent.misses, 0, memory_order_relaxed);
    cache->state = weir__keeper_is_on(stream->w) ? WEIR__CACHE_UNSEEN : WEIR__CACHE_OPEN;
    weir__spin_unlock(&cache->lock);
}

bool weir__cache_close(weir_stream *stream, bool if_unused)
{
    weir__spin_lock(&stream->cache.lock);
    bool closes = !(if_unused && stream->cache.calls);
    if (closes)
        stream->cache.state = WEIR__CACHE_SHUT;
    WEIR__MUST(weir__cache_is_valid(stream));
    weir__spin_unlock(&stream->cache.lock);
    return closes;
}
