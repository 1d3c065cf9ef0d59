/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - the table of blocks: which pointers Weir gave out or keeps in a cache, how large they are and whose they are.
 *
 * Owned by its weir. Sharded by address; each shard has a spin lock of its own, a leaf: nothing is called while it is held except, when a
 * shard grows, the host's allocator. Spinning is right here because a holder only touches a few cache lines. There are many shards, so that
 * threads which free at the same time seldom meet in one.
 */
#ifndef WEIR_LIB_BLOCKS_H
#define WEIR_LIB_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/spin.h"
#include "lib/weir.h"

#define WEIR__SHARDS 256

/* A block as callers see it: a copy. */
struct weir__block {
    void *ptr;
    uint64_t size; /* bytes asked for */
    weir_pool *pool;
    uint8_t class; /* WEIR__CLASS_NONE, or its size class: CUDA gave the bytes of that */
    bool graph;    /* allocated during a capture: the memory belongs to the graph, not to the pool */
};

/*
 * A block in the table. It stays where it is until the block goes back to CUDA, so that a cache can hold it. While it is live its user owns
 * it; when it is not, whoever took it from the user does: a cache, under that cache's lock. One cache line.
 */
struct weir__entry {
    void *ptr;
    uint64_t size;
    weir_pool *pool;
    struct weir__entry *next; /* its owner's: in a cache, the list of its class; in the shard, that of unused entries */
    uint64_t stamp;           /* a cache's: later blocks have higher ones */
    uint8_t class;
    bool graph;
    atomic_bool live;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct weir__entry) == 64, "threads share no line of each other's blocks");

struct weir__shard {
    weir__spin lock;
    size_t capacity; /* a power of two; 1: the slot is not the shard's own, and always empty */
    size_t count;    /* blocks in it; at most three quarters of capacity, which leaves room for those that are put back */
    struct weir__slot {
        void *ptr;
        struct weir__entry *entry;
    } *slots;
    struct weir__entry *unused;
    struct weir__slab *slabs; /* where the entries live, all of them until the table is destroyed */
} __attribute__((aligned(128))); /* two cache lines, since the hardware fetches them in pairs */

struct weir__blocks {
    struct weir__shard shards[WEIR__SHARDS];
};

/* Blocks are 512-byte aligned, so the low nine bits say nothing. Fibonacci hashing spreads the rest; the top bits choose the shard, the
   ones below them the slot. */
static inline uint64_t weir__blocks_hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline struct weir__shard *weir__blocks_shard(struct weir__blocks *blocks, uint64_t hashed)
{
    return &blocks->shards[hashed >> 56];
}

_Static_assert(WEIR__SHARDS == 256, "eight bits of the hash choose the shard");

/* The slot of ptr, or the free slot where it would go: empty slots are all zero. The shard has at least one. */
static inline struct weir__slot *weir__blocks_find(const struct weir__shard *shard, const void *ptr, uint64_t hashed)
{
    size_t at = (size_t)(hashed >> 24) & (shard->capacity - 1);
    while (shard->slots[at].ptr && shard->slots[at].ptr != ptr)
        at = (at + 1) & (shard->capacity - 1);
    return &shard->slots[at];
}

void weir__blocks_init(struct weir__blocks *blocks);
void weir__blocks_destroy(struct weir__blocks *blocks);

/*
 * Adds a live block. false: no host memory, nothing changed. If the address is in the table already, its owner freed it behind Weir's back
 * (or it was a graph's); *former gets that block (ptr NULL otherwise), and the new one takes its place.
 */
bool weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former);

/* Takes the live block that starts at ptr out of the table; false if there is none. */
bool weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block);

/* As weir__blocks_claim(), with the shard's lock. */
static inline struct weir__entry *weir__blocks_claim_in(const struct weir__shard *shard, const void *ptr, uint64_t hashed)
{
    struct weir__entry *entry = weir__blocks_find(shard, ptr, hashed)->entry;
    if (!entry || !entry->class || !atomic_load_explicit(&entry->live, memory_order_acquire))
        return NULL;
    atomic_store_explicit(&entry->live, false, memory_order_relaxed);
    return entry;
}

/*
 * Takes the live block that starts at ptr from its user, but leaves it in the table, for a cache: its entry, no longer live. NULL if it has
 * no size class, or if there is no such block: then nothing has changed.
 */
struct weir__entry *weir__blocks_claim(struct weir__blocks *blocks, void *ptr);

/* The same, inline for fast.h; NULL also if the shard is locked. */
static inline struct weir__entry *weir__blocks_try_claim(struct weir__blocks *blocks, void *ptr)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    if (!weir__spin_try(&shard->lock))
        return NULL;
    struct weir__entry *entry = weir__blocks_claim_in(shard, ptr, hashed);
    weir__spin_unlock(&shard->lock);
    return entry;
}

/* Takes a claimed entry that is in no cache, or no longer, out of the table. count: the free of its user is counted now. */
void weir__blocks_remove(struct weir__blocks *blocks, struct weir__entry *entry, bool count, struct weir__block *block);

/* The free of a block just taken failed: it is in the table again, live as if it had not been taken, or kept as before. NULL: no host
   memory and no slot left, which needs as many frees to fail at the same moment as a quarter of a shard has slots. */
struct weir__entry *weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block, bool live);

/* How many blocks of the pool were added and taken, those aside that caches served and kept; graph blocks are counted apart. */
struct weir__counts {
    uint64_t mallocs, frees, graph_mallocs, graph_frees;
};
struct weir__counts weir__blocks_count(struct weir__blocks *blocks, const weir_pool *pool);

#endif
