/* SPDX-License-Identifier: MIT */
#include "lib/blocks.h"

#include <stdlib.h>

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

static size_t home_of(const struct weir__shard *shard, const void *ptr)
{
    return (size_t)(hash(ptr) >> 26) & (shard->capacity - 1);
}

/* The slot of ptr, or the free slot where it would go. The shard has at least one free slot. */
static struct weir__block *find(struct weir__shard *shard, const void *ptr)
{
    size_t at = home_of(shard, ptr);
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
            *find(&larger, shard->slots[i].ptr) = shard->slots[i];
    free(shard->slots);
    shard->slots = larger.slots;
    shard->capacity = larger.capacity;
    return true;
}

void weir__blocks_init(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        pthread_spin_init(&blocks->shards[i].lock, PTHREAD_PROCESS_PRIVATE);
        blocks->shards[i].capacity = 0;
        atomic_init(&blocks->shards[i].claimed, 0);
        blocks->shards[i].slots = NULL;
    }
}

void weir__blocks_destroy(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        pthread_spin_destroy(&blocks->shards[i].lock);
        free(blocks->shards[i].slots);
    }
}

bool weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former)
{
    struct weir__shard *shard = shard_of(blocks, hash(block->ptr));
    *former = (struct weir__block){ 0 };
    pthread_spin_lock(&shard->lock);
    size_t claimed = atomic_load_explicit(&shard->claimed, memory_order_relaxed);
    bool room = (claimed + 1) * 4 <= shard->capacity * 3 || grow(shard);
    if (room) {
        struct weir__block *slot = find(shard, block->ptr);
        if (slot->ptr)
            *former = *slot;
        else
            atomic_fetch_add_explicit(&shard->claimed, 1, memory_order_relaxed);
        *slot = *block;
    }
    pthread_spin_unlock(&shard->lock);
    return room;
}

/* Empties a slot and moves up the entries behind it that would no longer be found: linear probing needs no tombstones this way. */
static void remove_slot(struct weir__shard *shard, struct weir__block *slot)
{
    size_t mask = shard->capacity - 1;
    size_t hole = (size_t)(slot - shard->slots);
    for (size_t at = (hole + 1) & mask; shard->slots[at].ptr; at = (at + 1) & mask) {
        size_t home = home_of(shard, shard->slots[at].ptr);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            shard->slots[hole] = shard->slots[at];
            hole = at;
        }
    }
    shard->slots[hole].ptr = NULL;
}

bool weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block)
{
    struct weir__shard *shard = shard_of(blocks, hash(ptr));
    bool found = false;
    pthread_spin_lock(&shard->lock);
    if (shard->capacity) {
        struct weir__block *slot = find(shard, ptr);
        found = slot->ptr == ptr;
        if (found) {
            *block = *slot;
            remove_slot(shard, slot);
        }
    }
    pthread_spin_unlock(&shard->lock);
    return found;
}

void weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block)
{
    struct weir__shard *shard = shard_of(blocks, hash(block->ptr));
    pthread_spin_lock(&shard->lock);
    *find(shard, block->ptr) = *block;
    pthread_spin_unlock(&shard->lock);
}

void weir__blocks_settle(struct weir__blocks *blocks, const struct weir__block *block)
{
    atomic_fetch_sub_explicit(&shard_of(blocks, hash(block->ptr))->claimed, 1, memory_order_relaxed);
}
