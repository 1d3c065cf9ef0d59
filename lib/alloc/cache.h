/* SPDX-License-Identifier: MIT */
/*
 * cache.h - freed blocks of one opened stream, kept to be served again on that stream without calling CUDA.
 *
 * Owned by its stream. A block that was freed on the stream may be used again by work behind that point of the stream, so no event and no
 * wait is needed. It holds blocks of the stream's own pool only, a list for each size class: the last block to come is the first to go.
 * Where there is no room, the class that has gone longest without a new block gives one up; so it does at a miss, if that is long ago.
 * What is too large for the classes of an arena's pool is in `recent`.
 *
 * `lock` guards everything here and is a leaf. It stands in one cache line with what each call changes, so a thread that alone uses a
 * stream has that line to itself. The lock is not held over CUDA calls, with one exception: whether the stream captures is asked under it,
 * so that the stream can be neither closed nor destroyed between the question and what follows from it.
 */
#ifndef WEIR_LIB_CACHE_H
#define WEIR_LIB_CACHE_H

#include "lib/alloc/recent.h"
#include "lib/base/class.h"
#include "lib/pool/weir_internal.h"

enum weir__cache_state {
    WEIR__CACHE_OPEN,
    WEIR__CACHE_UNSEEN, /* open, but the first block to come is to wake the keeper */
    WEIR__CACHE_SHUT,   /* the stream is closed */
};

struct weir__cache {
    weir__spin lock;
    unsigned char state; /* enum weir__cache_state */
    unsigned calls;      /* in progress, that use the stream's handle beyond the lock; see weir__stream_enter() */
    uint64_t bytes;
    uint64_t granted;      /* the stream's part of the pool's cache.per_device; at least `bytes` */
    int64_t live;          /* bytes handed out less bytes taken back that the pool does not know of yet */
    uint64_t hits;         /* requests served */
    uint64_t keeps;        /* frees that entered; the stamp of the next */
    uint64_t marks[WEIR__KEEPER_LOOKS]; /* the keeper's: `keeps` at its last looks, the latest first */
    uint64_t marked;                   /* when it last looked */
    uint64_t stale_at;                 /* below so many `keeps` no class is stale: see drop_stale() */
    uint64_t looked_keeps, looked_at;  /* grant.c's: `keeps` at its last look, and since when it is so (now_coarse()) */
    struct weir__class_list {
        struct weir__entry *first;
        uint64_t stamp; /* of the last that came */
    } classes[WEIR__CLASS_COUNT];
    struct weir__recent recent; /* beyond `bytes` and `granted` */
} __attribute__((aligned(64)));

/* The stamp of a block that enters the cache. Called with its lock, as are the next two. */
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

/* Takes the first block of the class. */
static inline void weir__cache_take(struct weir__cache *cache, struct weir__entry *entry, size_t class)
{
    cache->classes[class].first = entry->next;
    cache->bytes -= weir__class_bytes[class];
}

/* Whether there is room for a large block of that size, and none has to go for it. Called with the lock, as are the next two. */
bool weir__cache_has_room(const weir_stream *stream, uint64_t size);
/* Puts a large block in, for which there is room. */
void weir__cache_put_large(weir_stream *stream, struct weir__entry *entry);
/* Users have so many bytes more, or less. */
void weir__cache_count_live(weir_stream *stream, int64_t bytes);

/* Whether a stream's bytes in users' hands are too far away from what the pool knows of. */
static inline bool weir__cache_is_far(const weir_pool *pool, int64_t live)
{
    uint64_t step = atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
    return (uint64_t)live + step > 2 * step;
}

enum weir__cache_answer {
    WEIR__CACHE_DONE,
    WEIR__CACHE_MISS,   /* nothing of that class, no room, a block of another pool, a capture: CUDA has to do it */
    WEIR__CACHE_CLOSED, /* not the stream that was meant: closed, another one by now, or with another pool */
};

/*
 * Serves a request of that class from the stream's cache; where it has none, blocks that nobody asks for any more may go to CUDA.
 * id: the stream that was meant, since one that weir__stream_find() found may be closed, and another one in its place, at any moment; that
 * it does not capture was asked there. NULL: it is this stream, which is asked.
 * pool: the one that must serve; NULL: whichever the stream has.
 */
enum weir__cache_answer weir__cache_serve(weir_stream *stream, const uint64_t *id, const weir_pool *pool, unsigned class, size_t size,
                                          void **ptr);

/* Whether the pool lets its streams keep a claimed block now: a reload may have changed that since it was allocated. */
bool weir__cache_may_keep(const struct weir__entry *entry);

/* Puts a claimed block into the stream's cache. Blocks that have to make room for it are given to CUDA before it returns. */
enum weir__cache_answer weir__cache_keep(weir_stream *stream, const uint64_t *id, struct weir__entry *entry);

/*
 * Takes out all blocks whose stamp is below `before` (UINT64_MAX: all): a list by `next`. ask: takes nothing while the stream captures,
 * since it could not take the frees.
 */
struct weir__entry *weir__cache_drain(weir_stream *stream, uint64_t before, bool ask);

/* Takes out the recent blocks and those of the classes from one to before another, unless the stream captures: a list by `next`. What was
   granted stays. */
struct weir__entry *weir__cache_drain_part(weir_stream *stream, unsigned from, unsigned to);

/* CUDA has given the address again, although the entry, of a block that was freed, is in a cache: the program has freed it with
   cudaFreeAsync() a second time. Takes it out; false: it is in no cache. */
bool weir__cache_forget(struct weir__entry *entry, const void *ptr);

/* Called with the cache's lock, at any time: its lists have as many bytes as it says, of blocks of its own pool that no user has, the later
   ones first; and it was granted as much. */
bool weir__cache_is_valid(const weir_stream *stream);

/* Bytes in it, if its stream captures, so that nobody can take them out; else 0. */
uint64_t weir__cache_barred(weir_stream *stream);

/* Whether there is anything in it, or granted to it. */
bool weir__cache_holds(weir_stream *stream);

/* A new cache is closed. */
void weir__cache_init(struct weir__cache *cache);
/* Gives a closed stream its id and its pool, and opens its cache, all at one moment, since late calls for its former self may come. */
void weir__cache_open(weir_stream *stream, uint64_t id, weir_pool *pool);
/* Nothing is served and nothing enters from now on. false: with if_unused, a call on the stream is in progress, and nothing was done. */
bool weir__cache_close(weir_stream *stream, bool if_unused);

#endif
