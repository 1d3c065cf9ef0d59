/* SPDX-License-Identifier: MIT */
#include "lib/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "lib/pool.h"

#define FIRST_CAPACITY 16
#define SLAB_LEN 16

struct weir__slab {
    struct weir__slab *next;
    struct weir__entry entries[SLAB_LEN];
};

static size_t home_of(const struct weir__shard *shard, const void *ptr)
{
    return (size_t)(weir__blocks_hash(ptr) >> 24) & (shard->capacity - 1);
}

/* What a shard has that never had a block: a search ends here at once. */
static struct weir__slot no_slot;

static void free_slots(struct weir__shard *shard)
{
    if (shard->slots != &no_slot)
        free(shard->slots);
}

static bool grow(struct weir__shard *shard)
{
    struct weir__shard larger = { .capacity = shard->capacity > 1 ? shard->capacity * 2 : FIRST_CAPACITY };
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < shard->capacity; i++)
        if (shard->slots[i].ptr)
            *weir__blocks_find(&larger, shard->slots[i].ptr, weir__blocks_hash(shard->slots[i].ptr)) = shard->slots[i];
    free_slots(shard);
    shard->slots = larger.slots;
    shard->capacity = larger.capacity;
    return true;
}

void weir__blocks_init(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        blocks->shards[i] = (struct weir__shard){ .capacity = 1, .slots = &no_slot };
        weir__spin_init(&blocks->shards[i].lock);
    }
}

void weir__blocks_destroy(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        free_slots(&blocks->shards[i]);
        while (blocks->shards[i].slabs) {
            struct weir__slab *slab = blocks->shards[i].slabs;
            blocks->shards[i].slabs = slab->next;
            free(slab);
        }
    }
}

/* The pool's counters of this shard, guarded by its lock: counting costs a fast path no access to memory that it does not own already. */
static struct weir__counts *counts_of(struct weir__blocks *blocks, const struct weir__shard *shard, const weir_pool *pool)
{
    return (struct weir__counts *)&pool->counts[shard - blocks->shards];
}

static void add_unused(struct weir__shard *shard, struct weir__entry *entry)
{
    entry->next = shard->unused;
    shard->unused = entry;
}

/* Whether one more entry can be had. */
static bool has_unused(struct weir__shard *shard)
{
    if (shard->unused)
        return true;
    struct weir__slab *slab = aligned_alloc(_Alignof(struct weir__slab), sizeof *slab);
    if (!slab)
        return false;
    memset(slab, 0, sizeof *slab);
    slab->next = shard->slabs;
    shard->slabs = slab;
    for (size_t i = 0; i < SLAB_LEN; i++)
        add_unused(shard, &slab->entries[i]);
    return true;
}

static bool has_slot(struct weir__shard *shard)
{
    return (shard->count + 1) * 4 <= shard->capacity * 3 || grow(shard);
}

static void count_malloc(struct weir__counts *counts, const struct weir__block *block)
{
    *(block->graph ? &counts->graph_mallocs : &counts->mallocs) += 1;
}

static void count_free(struct weir__counts *counts, const struct weir__block *block, uint64_t sign)
{
    *(block->graph ? &counts->graph_frees : &counts->frees) += sign;
}

/* Only the members of the block: a cache's are left alone. */
static void write_entry(struct weir__entry *entry, const struct weir__block *block, bool live)
{
    entry->ptr = block->ptr;
    entry->size = block->size;
    entry->pool = block->pool;
    entry->class = block->class;
    entry->graph = block->graph;
    atomic_store_explicit(&entry->live, live, memory_order_release);
}

static struct weir__block read_entry(const struct weir__entry *entry)
{
    return (struct weir__block){
        .ptr = entry->ptr, .size = entry->size, .pool = entry->pool, .class = entry->class, .graph = entry->graph
    };
}

/* Fills a free slot. Called with room for it. */
static struct weir__entry *fill(struct weir__shard *shard, struct weir__slot *slot, const struct weir__block *block, bool live)
{
    struct weir__entry *entry = shard->unused;
    shard->unused = entry->next;
    write_entry(entry, block, live);
    *slot = (struct weir__slot){ .ptr = block->ptr, .entry = entry };
    shard->count++;
    return entry;
}

bool weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former)
{
    uint64_t hashed = weir__blocks_hash(block->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    former->ptr = NULL;
    weir__spin_lock(&shard->lock);
    bool room = has_slot(shard) && has_unused(shard);
    if (room) {
        struct weir__slot *slot = weir__blocks_find(shard, block->ptr, hashed);
        if (slot->ptr) {
            *former = read_entry(slot->entry);
            count_free(counts_of(blocks, shard, former->pool), former, 1);
            write_entry(slot->entry, block, true);
        } else {
            fill(shard, slot, block, true);
        }
        count_malloc(counts_of(blocks, shard, block->pool), block);
    }
    weir__spin_unlock(&shard->lock);
    return room;
}

/* Empties a slot and moves up the entries behind it that would no longer be found: linear probing needs no tombstones this way. */
static void remove_slot(struct weir__shard *shard, struct weir__slot *slot)
{
    size_t mask = shard->capacity - 1;
    add_unused(shard, slot->entry);
    shard->count--;
    size_t hole = (size_t)(slot - shard->slots);
    for (size_t at = (hole + 1) & mask; shard->slots[at].ptr; at = (at + 1) & mask) {
        size_t home = home_of(shard, shard->slots[at].ptr);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            shard->slots[hole] = shard->slots[at];
            hole = at;
        }
    }
    shard->slots[hole] = (struct weir__slot){ .ptr = NULL };
}

struct weir__entry *weir__blocks_claim(struct weir__blocks *blocks, void *ptr)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    struct weir__entry *entry = weir__blocks_claim_in(shard, ptr, hashed);
    weir__spin_unlock(&shard->lock);
    return entry;
}

bool weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    struct weir__slot *slot = weir__blocks_find(shard, ptr, hashed);
    bool found = slot->ptr && atomic_load_explicit(&slot->entry->live, memory_order_acquire);
    if (found) {
        *block = read_entry(slot->entry);
        remove_slot(shard, slot);
        count_free(counts_of(blocks, shard, block->pool), block, 1);
    }
    weir__spin_unlock(&shard->lock);
    return found;
}

void weir__blocks_remove(struct weir__blocks *blocks, struct weir__entry *entry, bool count, struct weir__block *block)
{
    uint64_t hashed = weir__blocks_hash(entry->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    *block = read_entry(entry);
    remove_slot(shard, weir__blocks_find(shard, block->ptr, hashed));
    if (count)
        count_free(counts_of(blocks, shard, block->pool), block, 1);
    weir__spin_unlock(&shard->lock);
}

struct weir__entry *weir__blocks_put_back(struct weir__blocks *blocks, const struct weir__block *block, bool live)
{
    uint64_t hashed = weir__blocks_hash(block->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    struct weir__entry *entry = NULL;
    weir__spin_lock(&shard->lock);
    /* A search must always end at a free slot, so the last one stays free. */
    if ((has_slot(shard) || shard->count + 1 < shard->capacity) && has_unused(shard)) {
        entry = fill(shard, weir__blocks_find(shard, block->ptr, hashed), block, live);
        if (live)
            count_free(counts_of(blocks, shard, block->pool), block, (uint64_t)-1);
    }
    weir__spin_unlock(&shard->lock);
    return entry;
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
