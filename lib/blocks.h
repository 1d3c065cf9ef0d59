/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - the table of live blocks: which pointers Weir gave out, how large they are and whose they are.
 *
 * Owned by its weir. Sharded by address; each shard has a spin lock of its own, a leaf: nothing is called while it is held except, when a
 * shard grows, the host's allocator. Spinning is right here because a holder only touches a few cache lines.
 */
#ifndef WEIR_LIB_BLOCKS_H
#define WEIR_LIB_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/spin.h"
#include "lib/weir.h"

#define WEIR__SHARDS 64

struct weir__block {
    void *ptr;
    uint64_t size; /* bytes asked for */
    weir_pool *pool;
    bool graph; /* allocated during a capture: the memory belongs to the graph, not to the pool */
};

struct weir__shard {
    weir__spin lock;
    size_t capacity; /* a power of two, or 0 */
    size_t count;    /* blocks in it; at most three quarters of capacity, which leaves room for those that are put back */
    struct weir__block *slots;
} __attribute__((aligned(128))); /* two cache lines, since the hardware fetches them in pairs */

struct weir__blocks {
    struct weir__shard shards[WEIR__SHARDS];
};

void weir__blocks_init(struct weir__blocks *blocks);
void weir__blocks_destroy(struct weir__blocks *blocks);

/*
 * Adds a block. false: no host memory, nothing changed. If the address is in the table already, its owner freed it behind Weir's back (or
 * it was a graph's); *former gets that entry (ptr NULL otherwise), and the new one takes its place.
 */
bool weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former);

/* Takes the block that starts at ptr out of the table; false if there is none. */
bool weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block);

/* The free of a block just taken failed: it is live again, as if it had not been taken. false: no host memory and no slot left, which needs
   as many frees to fail at the same moment as a quarter of a shard has slots (16 at least). */
bool weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block);

/* How many blocks of the pool were ever added and taken; graph blocks are counted apart. */
struct weir__counts {
    uint64_t mallocs, frees, graph_mallocs, graph_frees;
};
struct weir__counts weir__blocks_count(struct weir__blocks *blocks, const weir_pool *pool);

#endif
