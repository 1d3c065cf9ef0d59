/* SPDX-License-Identifier: MIT */
/*
 * cache.h - freed blocks of one opened stream, kept to be served again on that stream without calling CUDA.
 *
 * Owned by its stream. A block that was freed on the stream may be used again by work behind that point of the stream, so no event and no
 * wait is needed. It holds blocks of the stream's own pool only. Within a class the last block to come is the first to go; over all classes
 * the oldest gives way where there is no room.
 *
 * `lock` guards everything here and is a leaf. It is not held over CUDA calls, with one exception: whether the stream captures is asked
 * under it, so that the stream can be neither closed nor destroyed between the question and what follows from it.
 */
#ifndef WEIR_LIB_CACHE_H
#define WEIR_LIB_CACHE_H

#include "lib/blocks.h"
#include "lib/class.h"

struct weir__cache {
    weir__spin lock;
    atomic_bool is_closed; /* the stream is closed. Changed under lock */
    bool is_watched;       /* the keeper knows that there is something here, or there is no keeper */
    uint64_t bytes;
    uint64_t granted;      /* the stream's part of the pool's cache.per_device; at least `bytes` */
    int64_t live;          /* bytes handed out less bytes taken back that are not in pool->live yet */
    uint64_t hits;         /* requests served */
    uint64_t keeps;        /* frees that entered */
    struct weir__entry *newest, *oldest;
    struct weir__class_list {
        struct weir__entry *first, *last;
    } classes[WEIR__CLASS_COUNT];
};

enum weir__cache_answer {
    WEIR__CACHE_DONE,
    WEIR__CACHE_MISS,   /* nothing of that class, no room, another pool, a capture: CUDA has to do it */
    WEIR__CACHE_CLOSED, /* the stream is closed, or is another one by now */
};

/* Nothing of the class that was asked for is here: gives back what was granted and is not needed. Called with the lock. */
void weir__cache_missed(weir_stream *stream);

/* Makes the oldest blocks give way until the entry fits; *victims gets them, a list by `next`, and the stream is pinned if there are any.
   false: there can be no room. Called with the lock. */
bool weir__cache_make_room(weir_stream *stream, const struct weir__entry *entry, struct weir__entry **victims);

/*
 * Empties the cache, oldest first, as far as blocks came at `until` or earlier by the keeper's clock (NULL: all). Returns them as a list by
 * `next`. ask: takes nothing out while the stream captures, since it could not take the frees.
 */
struct weir__entry *weir__cache_drain(weir_stream *stream, const uint32_t *until, bool ask);

/* A new cache is closed. */
void weir__cache_init(struct weir__cache *cache);
/* Gives a closed stream its id and its pool, and opens its cache, all at one moment, since late calls for its former self may come. */
void weir__cache_open(weir_stream *stream, uint64_t id, weir_pool *pool);
/* Nothing is served and nothing enters from now on. */
void weir__cache_close(weir_stream *stream);

#endif
