/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - the table of blocks: the pointers that Weir gave out or keeps in a cache, with the size and the pool of each block.
 *
 * Owned by its weir. The table is divided into shards by address. A shard has a spin lock, under which its slots change; a thread that
 * holds that lock may take no other lock of Weir but those of caches. A lookup takes no lock. Slots are atomic, and neither entries nor
 * former arrays of slots are freed before the table is destroyed, so in the worst case a lookup finds nothing, or an entry that describes
 * another block by now.
 *
 * An entry describes one block from its allocation until the block goes back to CUDA. While `live` is set the block is the user's. `guard`
 * names the lock under which a thread takes the block from the user, that is, clears `live`: the lock of a cache, or, if `guard` is NULL,
 * the lock of the entry's shard. The entry of a block that a cache may keep stays in the table after that, and is then called claimed. The
 * thread that claimed an entry owns it exclusively and passes it on to a cache; only the owner changes the other members.
 *
 * An exporter lends a block to other processes (weir__blocks_lend()). A lent block is still its user's, but cannot be freed.
 */
#ifndef WEIR_LIB_BLOCKS_H
#define WEIR_LIB_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"
#include "lib/base/spin.h"

/* Few shards, so that their heads stay in the processor's cache. A thread that takes a shard's lock mostly calls CUDA too, which costs
   more. */
#define WEIR__SHARDS 16

/* A copy of an entry, for callers. `origin` says who asked for the block (record/recorder.h). */
struct weir__block {
    void *ptr;
    uint64_t size; /* bytes asked for */
    weir_pool *pool;
    /* the extent of an arena's block (arena.h). For a block of CUDA's the pointer to free, or NULL if that is ptr */
    void *from;
    weir__spin *guard; /* the lock of the cache that may keep the block; NULL: the shard's lock guards it */
    uint32_t origin;
    uint8_t class;     /* the block's size class, whose bytes CUDA gave; WEIR__CLASS_NONE: exactly `size` bytes */
    bool graph;        /* allocated during a capture: the memory belongs to the graph, not to the pool */
};

struct weir__entry {
    void *_Atomic ptr;
    weir__spin *_Atomic guard;
    uint64_t size;
    weir_pool *pool;
    struct weir__entry *next; /* the next entry of the same class in a cache, or the next unused entry of the shard */
    uint64_t stamp;           /* set by a cache: blocks that entered later have higher stamps */
    void *from;
    uint32_t origin;
    uint8_t class;
    bool graph;
    bool is_lent; /* lent, so that the user cannot free it. Guarded by the shard's lock; never set if there is a guard */
    atomic_bool live;
} __attribute__((aligned(64))); /* A cache line for each entry, so that threads that work on different blocks share no line. */

_Static_assert(sizeof(struct weir__entry) == 64, "one cache line for an entry");

/* The slots of a shard: open addressing with linear probing. At least one slot is always free, where searches end. */
struct weir__slots {
    struct weir__slots *former; /* the array that this one replaced: a thread may still be looking into it */
    size_t mask;                /* the number of slots (a power of two) less 1. 0: no room for blocks, only the one free slot */
    struct weir__slot {
        void *_Atomic ptr;
        struct weir__entry *_Atomic entry;
    } slots[];
};

struct weir__shard {
    struct weir__slots *_Atomic slots;
    weir__spin lock;
    size_t count; /* blocks in the slots: at most three quarters; only weir__blocks_put_back() goes beyond, if host memory runs out */
    struct weir__entry *unused;
    struct weir__slab *slabs; /* the memory of the entries */
} __attribute__((aligned(64)));

/*
 * A watcher is a function that is told of each block that enters or leaves the table. The calls run under the lock of the block's shard, so
 * those for one address come in order. A watcher must not call Weir, but may take a lock of its own. When a block leaves the table, only
 * its address is certain.
 */
enum weir__happening {
    WEIR__BLOCK_WAS, /* was in the table when the watcher was set. Only in this call may is_live be false */
    WEIR__BLOCK_CAME,
    WEIR__BLOCK_WENT,
    /* in the table again, because its free failed after WEIR__BLOCK_WENT */
    WEIR__BLOCK_BACK,
};
typedef void weir__watch(enum weir__happening what, const struct weir__block *block, bool is_live);

struct weir__blocks {
    struct weir__shard shards[WEIR__SHARDS];
    weir__watch *_Atomic watch;  /* read under the locks of shards; mostly NULL */
    struct weir__slots *nothing; /* the slots of each shard that has never had a block */
};

/* Blocks are 512-byte aligned, so the low nine bits of an address are always 0. Fibonacci hashing spreads the other bits; the top bits of
   the hash choose the shard, the bits below those choose the slot. */
static inline uint64_t weir__blocks_hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline struct weir__shard *weir__blocks_shard(struct weir__blocks *blocks, uint64_t hashed)
{
    return &blocks->shards[hashed >> 60];
}

_Static_assert(WEIR__SHARDS == 16, "four bits of the hash choose the shard");

/* Returns the slot of the block at ptr, or the free slot where that block would be put. */
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

/* Returns, without a lock, the entry that probably is the block at ptr, or NULL. The answer is a hint: another thread may be freeing the
   block, or the entry may serve another block by now. weir__entry_is() verifies an entry under its lock. */
static inline struct weir__entry *weir__blocks_look(struct weir__blocks *blocks, const void *ptr)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__slots *slots = atomic_load_explicit(&weir__blocks_shard(blocks, hashed)->slots, memory_order_acquire);
    return atomic_load_explicit(&weir__slots_find(slots, ptr, hashed)->entry, memory_order_acquire);
}

/* Returns whether the entry is the live block at ptr and `guard` guards it; if so the caller may take the block from its user. The caller
   holds the lock `guard`, or the shard's lock if `guard` is NULL. `live` is read first: with acquire order it makes the other members
   valid. */
static inline bool weir__entry_is(const struct weir__entry *entry, const void *ptr, const weir__spin *guard)
{
    return atomic_load_explicit(&entry->live, memory_order_acquire) &&
           atomic_load_explicit(&entry->guard, memory_order_relaxed) == guard &&
           atomic_load_explicit(&entry->ptr, memory_order_relaxed) == ptr;
}

/* Returns whether each block is found where a search looks for it, and each shard counts its blocks correctly and is at most three quarters
   full. Holds at any time. */
bool weir__blocks_are_valid(struct weir__blocks *blocks);

/* Initializes the table. Returns false if host memory runs out; the table must be destroyed in that case too. */
bool weir__blocks_init(struct weir__blocks *blocks);
void weir__blocks_destroy(struct weir__blocks *blocks);

enum weir__add {
    WEIR__ADD_DONE,
    /* The address is in the table already, so the program freed the former block with a call of CUDA's that Weir did not see, or the block
       belonged to a graph. Nothing was done. */
    WEIR__ADD_STALE,
    WEIR__ADD_NO_MEMORY,
};
/* Adds a live block to the table. WEIR__ADD_NO_MEMORY: host memory runs out, and nothing was done. */
enum weir__add weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block);
/* Adds a live block, and removes the block that has the same address, if there is one. *former gets a copy of the removed block; its ptr is
   NULL if no user had a block there. Returns false if host memory runs out; then nothing was changed. */
bool weir__blocks_replace(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former);

enum weir__take {
    WEIR__TAKE_NONE, /* no live block starts at the address */
    WEIR__TAKE_DONE,
    WEIR__TAKE_LENT, /* the block is lent to other processes; nothing was done */
};
enum weir__taker {
    WEIR__TAKER_FREE,
    WEIR__TAKER_ORPHAN, /* the block waits, in no cache, until it can be freed */
};
/*
 * Takes the live block that starts at ptr from its user. The entry of a block that a cache may keep, or that becomes an orphan, is claimed: it
 * stays in the table, is no longer live, and *claimed points to it. The entry of any other block leaves the table, and *claimed is NULL.
 * *block is a copy of each but those that a cache may keep, and their free is counted.
 */
enum weir__take weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block, struct weir__entry **claimed,
                                  enum weir__taker taker);

/* Takes a claimed entry that is in no cache, or no longer, out of the table. count: the free of its user is counted now. */
void weir__blocks_remove(struct weir__blocks *blocks, struct weir__entry *entry, bool count, struct weir__block *block);

/* Puts a block into the table again after CUDA refused its free. live: the block is its user's, as before the free; otherwise its entry is
   claimed, as before weir__blocks_remove(). Returns NULL if host memory and slots run out. For that, as many frees as a quarter of the
   shard's slots must fail at the same moment. */
struct weir__entry *weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block, bool live);

/*
 * Lends a live block that no cache may keep, so that its user cannot free it until weir__blocks_return(). *block gets a copy. Returns
 * WEIR_NOT_A_BLOCK (no live block is there), WEIR_INVALID (the block is another pool's, a graph's, or one that a cache may keep), or
 * WEIR_BUSY (already lent).
 */
weir_status weir__blocks_lend(struct weir__blocks *blocks, const weir_pool *pool, void *ptr, struct weir__block *block);
void weir__blocks_return(struct weir__blocks *blocks, const weir_pool *pool, void *ptr);

/* How many blocks of the pool were added and taken. Requests that caches served and frees that caches kept are not in these counts. Blocks
   of graphs are counted apart. */
struct weir__counts {
    uint64_t mallocs, frees, graph_mallocs, graph_frees;
};
struct weir__counts weir__blocks_count(struct weir__blocks *blocks, const weir_pool *pool);

/* Calls `use` for each live block, under the lock of the block's shard, so `use` must not call Weir. */
void weir__blocks_visit(struct weir__blocks *blocks, void (*use)(const struct weir__block *block, void *data), void *data);

/* Sets the watcher, and tells it of all blocks that are in the table. NULL removes the watcher: when the call returns, no thread is in the
   former watcher any more. */
void weir__blocks_watch(struct weir__blocks *blocks, weir__watch *watch);

/* Calls `use` for each live block of the device that does not belong to a graph, in no order. The calls run under a spin lock, so `use`
   must not call Weir. */
void weir__blocks_each(weir *w, int device, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

#endif
