/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - the table of blocks: which pointers Weir gave out or keeps in a cache, how large they are and whose they are.
 *
 * Owned by its weir. Sharded by address; each shard has a spin lock, under which its slots change, and after which only the locks of caches
 * come. Looking needs no lock: slots are atomic, and neither entries nor former slots are given back before the table goes, so the worst
 * that a look can find is nothing, or an entry that belongs to another block by now.
 *
 * An entry is one block, from its allocation until it goes back to CUDA; a cache holds entries. While `live` it is its user's. Whoever
 * takes it from the user does so under the lock that `guard` names, and alone has it then. Only who has it changes its other members.
 */
#ifndef WEIR_LIB_BLOCKS_H
#define WEIR_LIB_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"
#include "lib/base/spin.h"

/* Few, so that their heads stay in the processor's cache; who takes a shard's lock mostly calls CUDA, which costs more. */
#define WEIR__SHARDS 16

/* A block as callers see it: a copy. */
struct weir__block {
    void *ptr;
    uint64_t size; /* bytes asked for */
    weir_pool *pool;
    struct weir__extent *extent; /* of an arena's block (arena.h); else NULL */
    weir__spin *guard; /* of a block that a cache may keep: the lock of that cache; else NULL, for its shard's */
    uint32_t origin;   /* who asked for it (record/recorder.h) */
    uint8_t class;     /* WEIR__CLASS_NONE, or its size class: CUDA gave the bytes of that */
    bool graph;        /* allocated during a capture: the memory belongs to the graph, not to the pool */
};

struct weir__entry {
    void *_Atomic ptr;
    weir__spin *_Atomic guard;
    uint64_t size;
    weir_pool *pool;
    struct weir__entry *next; /* its owner's: in a cache, the list of its class; in the shard, that of unused entries */
    uint64_t stamp;           /* a cache's: later blocks have higher ones */
    struct weir__extent *extent;
    uint32_t origin;
    uint8_t class;
    bool graph;
    bool is_lent; /* its user cannot free it now. Guarded by the shard's lock, and never of a block with a guard */
    atomic_bool live;
} __attribute__((aligned(64))); /* a cache line: threads share none of each other's blocks */

_Static_assert(sizeof(struct weir__entry) == 64, "one cache line for an entry");

/* The slots of a shard: open addressing, linear probing, never full. */
struct weir__slots {
    struct weir__slots *former; /* what the shard had before it grew, for whoever still looks there */
    size_t mask;                /* their number less 1; it is a power of two. 0: none, but for an empty one where searches end */
    struct weir__slot {
        void *_Atomic ptr;
        struct weir__entry *_Atomic entry;
    } slots[];
};

struct weir__shard {
    struct weir__slots *_Atomic slots;
    weir__spin lock;
    size_t count; /* blocks in it; at most three quarters of the slots, which leaves room for those that are put back */
    struct weir__entry *unused;
    struct weir__slab *slabs; /* where the entries live */
} __attribute__((aligned(64)));

/*
 * A watcher of a table is told of each block that comes and goes, under its shard's lock, so that it hears of one address in order. It must
 * not call Weir. Of a block that went only the address is certain.
 */
enum weir__happening {
    WEIR__BLOCK_WAS, /* in the table before anybody watched; only then it may be not live */
    WEIR__BLOCK_CAME,
    WEIR__BLOCK_WENT,
    WEIR__BLOCK_BACK, /* it went, and could not be freed */
};
typedef void weir__watch(enum weir__happening what, const struct weir__block *block, bool is_live);

struct weir__blocks {
    struct weir__shard shards[WEIR__SHARDS];
    weir__watch *_Atomic watch;  /* looked at under the locks of shards; mostly NULL */
    struct weir__slots *nothing; /* what a shard has that never had a block */
};

/* Blocks are 512-byte aligned, so the low nine bits say nothing. Fibonacci hashing spreads the rest; the top bits choose the shard, the
   ones below them the slot. */
static inline uint64_t weir__blocks_hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline struct weir__shard *weir__blocks_shard(struct weir__blocks *blocks, uint64_t hashed)
{
    return &blocks->shards[hashed >> 60];
}

_Static_assert(WEIR__SHARDS == 16, "four bits of the hash choose the shard");

/* The slot of ptr, or the free slot where it would go. */
static inline struct weir__slot *weir__slots_find(struct weir__slots *slots, const void *ptr, uint64_t hashed)
{
    size_t at = (size_t)(hashed >> 26) & slots->mask;
    for (;;) {
        const void *found = atomic_load_explicit(&slots->slots[at].ptr, memory_order_relaxed);
        if (!found || found == ptr)
            return &slots->slots[at];
        at = (at + 1) & slots->mask;
    }
}

/* Without a lock: the entry that probably is the block at ptr, or NULL. Another thread's free may have hidden it, or given it away. */
static inline struct weir__entry *weir__blocks_look(struct weir__blocks *blocks, const void *ptr)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__slots *slots = atomic_load_explicit(&weir__blocks_shard(blocks, hashed)->slots, memory_order_acquire);
    return atomic_load_explicit(&weir__slots_find(slots, ptr, hashed)->entry, memory_order_acquire);
}

/* Whether the entry is the live block at ptr and `guard` guards it. Called with that lock; true: it can be taken from its user. What was
   read of `live` decides what `guard` and the rest mean, so it is read first. */
static inline bool weir__entry_is(const struct weir__entry *entry, const void *ptr, const weir__spin *guard)
{
    return atomic_load_explicit(&entry->live, memory_order_acquire) &&
           atomic_load_explicit(&entry->guard, memory_order_relaxed) == guard &&
           atomic_load_explicit(&entry->ptr, memory_order_relaxed) == ptr;
}

/* At any time: each block is found where it is searched for, and the shards have as many as they say, which leaves room. */
bool weir__blocks_are_valid(struct weir__blocks *blocks);

/* false: no host memory. Destroy it also then. */
bool weir__blocks_init(struct weir__blocks *blocks);
void weir__blocks_destroy(struct weir__blocks *blocks);

enum weir__add {
    WEIR__ADD_DONE,
    WEIR__ADD_STALE, /* the address is in the table already: its owner freed it behind Weir's back, or it was a graph's. Nothing was done */
    WEIR__ADD_NO_MEMORY,
};
/* Adds a live block. */
enum weir__add weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block);
/* The same where the address may be in the table: *former gets that block (ptr NULL: it had no user), and the new one takes its place.
   false: no host memory, nothing changed. */
bool weir__blocks_replace(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former);

enum weir__take {
    WEIR__TAKE_NONE, /* there is no such block */
    WEIR__TAKE_DONE,
    WEIR__TAKE_LENT, /* it is lent: nothing was done */
};
/*
 * Takes the live block that starts at ptr from its user. A block that a cache may keep is claimed: it stays in the table, no longer live,
 * and *claimed is its entry. Any other leaves the table; *claimed is NULL, and *block is a copy.
 */
enum weir__take weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block, struct weir__entry **claimed);

/* Takes a claimed entry that is in no cache, or no longer, out of the table. count: the free of its user is counted now. */
void weir__blocks_remove(struct weir__blocks *blocks, struct weir__entry *entry, bool count, struct weir__block *block);

/* The free of a block just taken or removed failed: it is in the table again, live as if it had not been taken, or claimed as before. NULL:
   no host memory and no slot left, which needs as many frees to fail at the same moment as a quarter of a shard has slots. */
struct weir__entry *weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block, bool live);

/*
 * Lends a live block that no cache may keep: it stays its user's, who cannot free it until it is returned. *block gets a copy.
 * WEIR_NOT_A_BLOCK, WEIR_INVALID (not of this pool, a graph's, or a cache's), WEIR_BUSY (lent already).
 */
weir_status weir__blocks_lend(struct weir__blocks *blocks, const weir_pool *pool, void *ptr, struct weir__block *block);
void weir__blocks_return(struct weir__blocks *blocks, const weir_pool *pool, void *ptr);

/* How many blocks of the pool were added and taken, those aside that caches served and kept; graph blocks are counted apart. */
struct weir__counts {
    uint64_t mallocs, frees, graph_mallocs, graph_frees;
};
struct weir__counts weir__blocks_count(struct weir__blocks *blocks, const weir_pool *pool);

/* Calls `use` with each live block, under its shard's lock. */
void weir__blocks_visit(struct weir__blocks *blocks, void (*use)(const struct weir__block *block, void *data), void *data);

/* From now on this function watches, and is told of all blocks that are there. NULL: nobody, and no thread is still in a call of the former
   watcher. */
void weir__blocks_watch(struct weir__blocks *blocks, weir__watch *watch);

/* Calls `use` for each live block of the device that is not a graph's own, in no order, under a leaf lock: it must not call Weir. */
void weir__blocks_each(weir *w, int device, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

#endif
