/* SPDX-License-Identifier: MIT */
#include "lib/blocks.h"

#include <stdlib.h>

#include "lib/pool.h"

#define FIRST_CAPACITY 64

/* Blocks are 512-byte aligned, so the low nine bits say nothing. Fibonacci hashing spreads the rest; the top bits choose the shard, the
   ones below them the slot. */
static uint64_t hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

static struct weir__shard *shard_of(struct weir__blocks *blocks, uint64_t hashed)
{
    return &blocks->shards[hashed >> 58];
}

static size_t home_of(const struct weir__shard *shard, uint64_t hashed)
{
    return (size_t)(hashed >> 26) & (shard->capacity - 1);
}

/* The slot of ptr, or the free slot where it would go. The shard has at least one free slot. */
static struct weir__block *find(struct weir__shard *shard, const void *ptr, uint64_t hashed)
{
    size_t at = home_of(shard, hashed);
    while (shard->slots[at].ptr && shard->slots[at].ptr != ptr)
        at = (at + 1) & (shard->capacity - 1);
    return &shard->slots[at];
}

static bool grow(struct weir__shard *shard)
{
    struct weir__shard larger = { .capacity = shard->capacity ? shard->capacity * 2 : FIRST_CAPACITY };
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < shard->capacity; i++)
        if (shard->slots[i].ptr)
            *find(&larger, shard->slots[i].ptr, hash(shard->slots[i].ptr)) = shard->slots[i];
    free(shard->slots);
    shard->slots = larger.slots;
    shard->capacity = larger.capacity;
    return true;
}

void weir__blocks_init(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        weir__spin_init(&blocks->shards[i].lock);
        blocks->shards[i].capacity = 0;
        blocks->shards[i].count = 0;
        blocks->shards[i].slots = NULL;
    }
}

void weir__blocks_destroy(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++)
        free(blocks->shards[i].slots);
}

/* The pool's counters of this shard, guarded by its lock: counting costs a fast path no access to memory that it does not own already. */
static struct weir__counts *counts_of(struct weir__blocks *blocks, const struct weir__shard *shard, const weir_pool *pool)
{
    return (struct weir__counts *)&pool->counts[shard - blocks->shards];
}

static bool has_room(struct weir__shard *shard)
{
    return (shard->count + 1) * 4 <= shard->capacity * 3 || grow(shard);
}

static void count_malloc(struct weir__counts *counts, const struct weir__block *block, uint64_t sign)
{
    *(block->graph ? &counts->graph_mallocs : &counts->mallocs) += sign;
}

static void count_free(struct weir__counts *counts, const struct weir__block *block, uint64_t sign)
{
    *(block->graph ? &counts->graph_frees : &counts->frees) += sign;
}

bool weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former)
{
    uint64_t hashed = hash(block->ptr);
    struct weir__shard *shard = shard_of(blocks, hashed);
    former->ptr = NULL;
    weir__spin_lock(&shard->lock);
    bool room = has_room(shard);
    if (room) {
        struct weir__block *slot = find(shard, block->ptr, hashed);
        if (slot->ptr) {
            *former = *slot;
            count_free(counts_of(blocks, shard, former->pool), former, 1);
        } else {
            shard->count++;
        }
        *slot = *block;
        count_malloc(counts_of(blocks, shard, block->pool), block, 1);
    }
    weir__spin_unlock(&shard->lock);
    return room;
}

/* Empties a slot and moves up the entries behind it that would no longer be found: linear probing needs no tombstones this way. */
static void remove_slot(struct weir__shard *shard, struct weir__block *slot)
{
    size_t mask = shard->capacity - 1;
    size_t hole = (size_t)(slot - shard->slots);
    for (size_t at = (hole + 1) & mask; shard->slots[at].ptr; at = (at + 1) & mask) {
        size_t home = home_of(shard, hash(shard->slots[at].ptr));
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            shard->slots[hole] = shard->slots[at];
            hole = at;
        }
    }
    shard->slots[hole].ptr = NULL;
}

bool weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block)
{
    uint64_t hashed = hash(ptr);
    struct weir__shard *shard = shard_of(blocks, hashed);
    bool found = false;
    weir__spin_lock(&shard->lock);
    if (shard->capacity) {
        struct weir__block *slot = find(shard, ptr, hashed);
        found = slot->ptr == ptr;
        if (found) {
            *block = *slot;
            remove_slot(shard, slot);
            shard->count--;
            count_free(counts_of(blocks, shard, block->pool), block, 1);
        }
    }
    weir__spin_unlock(&shard->lock);
    return found;
}

bool weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block)
{
    uint64_t hashed = hash(block->ptr);
    struct weir__shard *shard = shard_of(blocks, hashed);
    weir__spin_lock(&shard->lock);
    /* A search must always end at a free slot, so the last one stays free. */
    bool room = has_room(shard) || shard->count + 1 < shard->capacity;
    if (room) {
        *find(shard, block->ptr, hashed) = *block;
        shard->count++;
        count_free(counts_of(blocks, shard, block->pool), block, (uint64_t)-1);
    }
    weir__spin_unlock(&shard->lock);
    return room;
}

struct weir__counts weir__blocks_count(struct weir__blocks *blocks, const weir_pool *pool)
{
    struct weir__counts sum = { 0 };
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        struct weir__shard *shard = &blocks->shards[i];
        weir__spin_lock(&shard->lock);
        const struct weir__counts *counts = counts_of(blocks, shard, pool);
        sum.mallocs += counts->mallocs;
        sum.frees += counts->frees;
        sum.graph_mallocs += counts->graph_mallocs;
        sum.graph_frees += counts->graph_frees;
        weir__spin_unlock(&shard->lock);
    }
    return sum;
}
