/* SPDX-License-Identifier: MIT */
/*
 * cache.h - freed blocks of one opened stream, kept to be served again on that stream without calling CUDA.
 *
 * Owned by its stream. A block that was freed on a stream may be used again by later work on the same stream without an event or a wait.
 * The cache holds blocks of the stream's own pool only. Each size class has a list: the block that entered last is served first. When the
 * cache is full, the class that has gone longest without a new block gives one up. When a request finds no block, classes that got no new
 * block for a long time (stale ones) give some up too. Blocks too large for the classes that the pool caches are in `recent`.
 *
 * `lock` guards all members and is a leaf: no other lock is taken under it. It shares a cache line with the members that each call changes,
 * so a thread that is the only one to use a stream has that line to itself. The lock is not held over CUDA calls, with one exception: the
 * question whether the stream captures is asked under it, so that no other thread can close or destroy the stream between the answer and
 * the action that depends on it.
 */
#ifndef WEIR_LIB_CACHE_H
#define WEIR_LIB_CACHE_H

#include "lib/alloc/recent.h"
#include "lib/base/class.h"
#include "lib/pool/weir_internal.h"

enum weir__cache_state {
    WEIR__CACHE_OPEN,
    WEIR__CACHE_UNSEEN, /* open; the first block that enters must wake the keeper (keeper.h), which gives back blocks that stay unused */
    WEIR__CACHE_SHUT,   /* the stream is closed */
};

struct weir__cache {
    weir__spin lock;
    unsigned char state; /* enum weir__cache_state */
    unsigned calls;      /* calls in progress that use the stream's handle without the lock; see weir__stream_enter() */
    uint64_t bytes;
    uint64_t granted;      /* the bytes of the pool's cache.per_device that the stream may fill (grant.h); at least `bytes` */
    /* bytes that users got less bytes that users freed, since the pool was last told (weir__cache_is_far()) */
    int64_t live;
    uint64_t hits;         /* requests served */
    uint64_t keeps;        /* blocks that entered; also the stamp of the next block to enter */
    /* written by the keeper: `keeps` when the keeper last looked at this cache, and before that; the latest first */
    uint64_t marks[WEIR__KEEPER_LOOKS];
    uint64_t marked;                   /* written by the keeper: when the keeper last looked at this cache */
    uint64_t stale_at;                 /* until `keeps` reaches this number no class is stale: see drop_stale() */
    /* written by grant.c: `keeps` at grant.c's last look, and the time since which `keeps` has not changed (now_coarse()) */
    uint64_t looked_keeps, looked_at;
    struct weir__class_list {
        struct weir__entry *first;
        uint64_t stamp; /* the stamp of the block that entered this class last */
    } classes[WEIR__CLASS_COUNT];
    struct weir__recent recent; /* large blocks, which `bytes` and `granted` do not count */
} __attribute__((aligned(64)));

/* Returns the stamp for a block that enters the cache. Called with the cache's lock, as are weir__cache_put() and weir__cache_take(). */
static inline uint64_t weir__cache_stamp(struct weir__cache *cache)
{
    return cache->keeps++;
}

static inline void weir__cache_put(struct weir__cache *cache, struct weir__entry *entry, size_t class)
{
    struct weir__class_list *list = &cache->classes[class];
    entry->next = list->first;
    entry->stamp = list->stamp = weir__cache_stamp(cache);
    list->first = entry;
    cache->bytes += weir__class_bytes[class];
}

/* Takes `entry`, which is the first block of its class, out of the cache. */
static inline void weir__cache_take(struct weir__cache *cache, struct weir__entry *entry, size_t class)
{
    cache->classes[class].first = entry->next;
    cache->bytes -= weir__class_bytes[class];
}

/* Returns whether a large block of that size may enter without another block having to leave. Called with the lock, as are the next two
   functions. */
bool weir__cache_has_room(const weir_stream *stream, uint64_t size);
/* Puts in a large block for which there is room. */
void weir__cache_put_large(weir_stream *stream, struct weir__entry *entry);
/* Counts that users got `bytes` more bytes, or, if it is negative, freed as many. The pool is told in steps. */
void weir__cache_count_live(weir_stream *stream, int64_t bytes);

/* Returns whether `live` (cache.live) is so far from 0, in either direction, that the pool must be told. */
static inline bool weir__cache_is_far(const weir_pool *pool, int64_t live)
{
    uint64_t step = atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
    return (uint64_t)live + step > 2 * step;
}

enum weir__cache_answer {
    WEIR__CACHE_DONE,
    /* The cache has no such block, or no room; the block is of another pool; or the stream captures. CUDA has to be called. */
    WEIR__CACHE_MISS,
    WEIR__CACHE_CLOSED, /* the stream is closed, or its id or pool is not the one that the caller named */
};

/*
 * Serves a request of that class and size from the stream's cache. If the cache has no block for it, stale blocks of other classes may be
 * given to CUDA.
 *
 * id: the id of the stream that the caller found by its raw handle with weir__stream_find(), which also asked whether the stream captures.
 * That stream may be closed by now, and its memory may be another stream; then the answer is WEIR__CACHE_CLOSED. NULL: the caller named
 * this weir_stream, and this function asks whether it captures.
 * pool: the pool that must serve; NULL: the stream's own pool, whichever that is.
 * enters: with the answer WEIR__CACHE_MISS, the caller has entered the stream (stream.h), without taking the lock once more for it.
 */
enum weir__cache_answer weir__cache_serve(weir_stream *stream, const uint64_t *id, const weir_pool *pool, unsigned class, size_t size,
                                          void **ptr, bool enters);

/* Returns whether a claimed block may enter a cache now: a reload may have changed the settings since the block was allocated. */
bool weir__cache_may_keep(const struct weir__entry *entry);

/* Puts a claimed block (blocks.h) into the stream's cache; id: as for weir__cache_serve(). Blocks that have to make room for it are given
   to CUDA before the call returns. */
enum weir__cache_answer weir__cache_keep(weir_stream *stream, const uint64_t *id, struct weir__entry *entry);

/*
 * Takes all blocks whose stamp is below `before` (UINT64_MAX: all) out of the cache, and returns them as a list by `next`. ask: takes
 * nothing while the stream captures, since the stream could not take the frees.
 */
struct weir__entry *weir__cache_drain(weir_stream *stream, uint64_t before, bool ask);

/* Takes the large blocks, and the blocks of the classes from <= class < to, out of the cache, and returns them as a list by `next`. Takes
   nothing while the stream captures. The stream keeps a little of its unused grant (SURPLUS). */
struct weir__entry *weir__cache_drain_part(weir_stream *stream, unsigned from, unsigned to);

/* Takes an entry out of its cache, after CUDA gave the address of the cached block a second time: the program must have freed the block
   once more, with cudaFreeAsync(). Returns false if the entry is in no cache. */
bool weir__cache_forget(struct weir__entry *entry, const void *ptr);

/* Returns whether `bytes` is the sum of the lists, all blocks are of the stream's pool and in nobody's use, later blocks stand before
   earlier ones, and `granted` is at least `bytes`. Holds whenever the cache's lock is free; called with the lock. */
bool weir__cache_is_valid(const weir_stream *stream);

/* Returns the bytes in the cache if its stream captures, so that nobody can take blocks out; else 0. */
uint64_t weir__cache_barred(weir_stream *stream);

/* Returns whether the cache has any block or grant. */
bool weir__cache_holds(weir_stream *stream);

/* Initializes a cache, which is closed at first. */
void weir__cache_init(struct weir__cache *cache);
/* Gives a closed stream its id and its pool, and opens its cache, all under the lock: a late call may still mean the stream that had this
   memory before. */
void weir__cache_open(weir_stream *stream, uint64_t id, weir_pool *pool);
/* Closes the cache: from now on no request is served and no block enters. Returns false, and does nothing, if if_unused is set and a call
   on the stream is in progress. */
bool weir__cache_close(weir_stream *stream, bool if_unused);

#endif
