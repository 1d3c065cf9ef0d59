/* SPDX-License-Identifier: MIT */
/*
 * recent.h - the last large blocks that one opened stream freed. A large block is one above the size classes that the pool caches. Each
 * serves the next request of exactly its size: without a search in an arena, without a call of CUDA, and without a lock that other threads
 * share.
 *
 * Part of the stream's cache, and guarded by the cache's lock. The cache's own bounds do not count these blocks; instead, before the pool
 * grows for a large request, it takes them back. Until then they may fit none of the requests that come, so the two bounds below keep their
 * sum small. A pool of CUDA's serves other sizes from the memory of a block that is not kept, so there a block is kept only if its size was
 * requested before, among the last few sizes: sizes that never repeat pass through. Two blocks are enough for buffers that take turns. With
 * 4, programs recorded on a GPU had up to 2 % more mapped by arenas: training on pictures of many sizes 3,262 MiB, not 3,228; LoRA 3,200,
 * not 3,110.
 */
#ifndef WEIR_LIB_RECENT_H
#define WEIR_LIB_RECENT_H

#include "lib/pool/blocks.h"

/* The most blocks; together they have at most 1/WEIR__RECENT_SHARE of the pool's bytes, unless there is only one block. */
#define WEIR__RECENT_MAX 2
#define WEIR__RECENT_SHARE 32

/* How many sizes are remembered: those of the last requests that no block here could serve. */
#define WEIR__RECENT_MISSES 4

/* The oldest block comes first. To be initialized to zero. */
struct weir__recent {
    uint64_t sizes[WEIR__RECENT_MAX]; /* bytes that each block was requested with */
    struct weir__entry *entries[WEIR__RECENT_MAX];
    _Atomic unsigned count; /* the number of blocks; may be read without the lock, as a hint */
    uint64_t bytes;
    /* The remembered sizes, and how many came in all. Several threads may read and write these two members without the lock. */
    _Atomic uint64_t missed[WEIR__RECENT_MISSES];
    _Atomic unsigned misses;
    unsigned used; /* `misses` when a block was added last */
};

/* Remembers the size of a request that no block here could serve. Returns whether requests for that size come again as far as the stream
   knows: the size is among those remembered before, or there was no room for others yet. Two threads that call this at the same time may
   each miss what the other remembers. */
bool weir__recent_missed(struct weir__recent *recent, uint64_t size);

static inline unsigned weir__recent_count(const struct weir__recent *recent)
{
    return atomic_load_explicit(&recent->count, memory_order_relaxed);
}

/* Returns the latest block of exactly `size` bytes, or NULL. */
struct weir__entry *weir__recent_find(const struct weir__recent *recent, uint64_t size);
/* Removes an entry. Returns false if the entry is not in `recent`. */
bool weir__recent_remove(struct weir__recent *recent, const struct weir__entry *entry);
/* Returns whether the oldest block has to make room before a block of `size` bytes can enter. taken: bytes of all blocks of the pool. */
static inline bool weir__recent_is_full(const struct weir__recent *recent, uint64_t size, uint64_t taken)
{
    unsigned count = weir__recent_count(recent);
    return count == WEIR__RECENT_MAX || (count && recent->bytes + size > taken / WEIR__RECENT_SHARE);
}

/* Returns whether no block was added, and so none was served, while as many requests missed as are remembered: the blocks should go. */
static inline bool weir__recent_is_stale(const struct weir__recent *recent)
{
    return weir__recent_count(recent) &&
           atomic_load_explicit(&recent->misses, memory_order_relaxed) - recent->used >= WEIR__RECENT_MISSES;
}

/* Adds a block. The caller has made sure that weir__recent_is_full() returns false. */
void weir__recent_add(struct weir__recent *recent, struct weir__entry *entry);

/* Takes out the blocks whose stamp is below `before`. Returns them as a list by `next`. */
struct weir__entry *weir__recent_drain(struct weir__recent *recent, uint64_t before);

/* Returns whether the sizes, the order and the sum of bytes are right. */
bool weir__recent_is_valid(const struct weir__recent *recent);

#endif
