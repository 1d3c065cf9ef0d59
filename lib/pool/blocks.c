/* SPDX-License-Identifier: MIT */
#include "lib/pool/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/valid.h"
#include "lib/pool/weir_internal.h"

#define FIRST_CAPACITY 16
#define SLAB_LEN 16

struct weir__slab {
    struct weir__slab *next;
    struct weir__entry entries[SLAB_LEN];
};

/* Slots ------------------------------------------------------------------------------------------------------------------------------- */

static struct weir__slots *slots_of(const struct weir__shard *shard)
{
    return atomic_load_explicit(&shard->slots, memory_order_relaxed);
}

static void *ptr_of(const struct weir__slot *slot)
{
    return atomic_load_explicit(&slot->ptr, memory_order_relaxed);
}

static struct weir__entry *entry_of(const struct weir__slot *slot)
{
    return atomic_load_explicit(&slot->entry, memory_order_relaxed);
}

/* Stores the entry before the pointer: a thread that finds ptr finds its entry too. */
static void write_slot(struct weir__slot *slot, void *ptr, struct weir__entry *entry)
{
    atomic_store_explicit(&slot->entry, entry, memory_order_release);
    atomic_store_explicit(&slot->ptr, ptr, memory_order_relaxed);
}

static size_t capacity_of(const struct weir__slots *slots)
{
    return slots->mask ? slots->mask + 1 : 0;
}

static bool grow(struct weir__shard *shard)
{
    struct weir__slots *former = slots_of(shard);
    size_t capacity = capacity_of(former) ? capacity_of(former) * 2 : FIRST_CAPACITY;
    struct weir__slots *larger = calloc(1, sizeof *larger + capacity * sizeof larger->slots[0]);
    if (!larger)
        return false;
    larger->mask = capacity - 1;
    for (size_t i = 0; i < capacity_of(former); i++) {
        void *ptr = ptr_of(&former->slots[i]);
        if (ptr)
            write_slot(weir__slots_find(larger, ptr, weir__blocks_hash(ptr)), ptr, entry_of(&former->slots[i]));
    }
    larger->former = capacity_of(former) ? former : NULL;
    atomic_store_explicit(&shard->slots, larger, memory_order_release);
    return true;
}

static inline bool has_slot(struct weir__shard *shard)
{
    return (shard->count + 1) * 4 <= capacity_of(slots_of(shard)) * 3 || grow(shard);
}

/* Empties a slot, and moves up those entries behind it that a search would no longer find. So linear probing needs no tombstones. */
static inline void remove_slot(struct weir__shard *shard, struct weir__slot *slot)
{
    struct weir__slots *slots = slots_of(shard);
    size_t hole = (size_t)(slot - slots->slots);
    shard->count--;
    for (size_t at = (hole + 1) & slots->mask; ptr_of(&slots->slots[at]); at = (at + 1) & slots->mask) {
        void *ptr = ptr_of(&slots->slots[at]);
        size_t home = (size_t)(weir__blocks_hash(ptr) >> 26) & slots->mask;
        if (((at - home) & slots->mask) >= ((at - hole) & slots->mask)) {
            write_slot(&slots->slots[hole], ptr, entry_of(&slots->slots[at]));
            hole = at;
        }
    }
    write_slot(&slots->slots[hole], NULL, NULL);
}

/* Entries ----------------------------------------------------------------------------------------------------------------------------- */

static void add_unused(struct weir__shard *shard, struct weir__entry *entry)
{
    entry->next = shard->unused;
    shard->unused = entry;
}

/* Makes sure that the shard has an unused entry. Returns false if host memory runs out. */
static inline bool has_unused(struct weir__shard *shard)
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

/* Fills an entry that no other thread can change. `live` is stored last. */
static void write_entry(struct weir__entry *entry, const struct weir__block *block, bool live)
{
    atomic_store_explicit(&entry->ptr, block->ptr, memory_order_relaxed);
    atomic_store_explicit(&entry->guard, block->guard, memory_order_relaxed);
    entry->size = block->size;
    entry->from = block->from;
    entry->origin = block->origin;
    entry->pool = block->pool;
    entry->class = block->class;
    entry->graph = block->graph;
    entry->is_lent = false;
    atomic_store_explicit(&entry->live, live, memory_order_release);
}

static struct weir__block read_entry(const struct weir__entry *entry)
{
    return (struct weir__block){
        .ptr = atomic_load_explicit(&entry->ptr, memory_order_relaxed),
        .guard = atomic_load_explicit(&entry->guard, memory_order_relaxed),
        .size = entry->size,
        .from = entry->from,
        .origin = entry->origin,
        .pool = entry->pool,
        .class = entry->class,
        .graph = entry->graph,
    };
}

/* Clears `live` if the entry is the live block at ptr; returns whether it was. Called with the shard's lock; takes the lock that `guard`
   names, which comes after it in the order of locks. */
static inline bool claim_in(struct weir__entry *entry, void *ptr)
{
    weir__spin *guard = atomic_load_explicit(&entry->guard, memory_order_acquire);
    if (guard)
        weir__spin_lock(guard);
    bool is = weir__entry_is(entry, ptr, guard);
    if (is)
        atomic_store_explicit(&entry->live, false, memory_order_relaxed);
    if (guard)
        weir__spin_unlock(guard);
    return is;
}

/* Counting ---------------------------------------------------------------------------------------------------------------------------- */

/* Returns the pool's counters for this shard. The shard's lock guards them, so counting needs no lock beyond the one that is held
   anyway. */
static struct weir__counts *counts_of(struct weir__blocks *blocks, const struct weir__shard *shard, const weir_pool *pool)
{
    return (struct weir__counts *)&pool->figures.counts[shard - blocks->shards];
}

static void count_malloc(struct weir__counts *counts, const struct weir__block *block)
{
    *(block->graph ? &counts->graph_mallocs : &counts->mallocs) += 1;
}

static void count_free(struct weir__counts *counts, const struct weir__block *block, uint64_t sign)
{
    *(block->graph ? &counts->graph_frees : &counts->frees) += sign;
}

/* Watching ---------------------------------------------------------------------------------------------------------------------------- */

static inline void tell(struct weir__blocks *blocks, enum weir__happening what, const struct weir__block *block)
{
    weir__watch *watch = atomic_load_explicit(&blocks->watch, memory_order_acquire);
    if (watch)
        watch(what, block, true);
}

/* The table --------------------------------------------------------------------------------------------------------------------------- */

bool weir__blocks_init(struct weir__blocks *blocks)
{
    blocks->nothing = calloc(1, sizeof *blocks->nothing + sizeof blocks->nothing->slots[0]);
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        struct weir__shard *shard = &blocks->shards[i];
        memset(shard, 0, sizeof *shard);
        weir__spin_init(&shard->lock);
        atomic_init(&shard->slots, blocks->nothing);
    }
    return blocks->nothing;
}

void weir__blocks_destroy(struct weir__blocks *blocks)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        struct weir__slots *slots = slots_of(&blocks->shards[i]);
        while (slots && slots != blocks->nothing) {
            struct weir__slots *former = slots->former;
            free(slots);
            slots = former;
        }
        while (blocks->shards[i].slabs) {
            struct weir__slab *slab = blocks->shards[i].slabs;
            blocks->shards[i].slabs = slab->next;
            free(slab);
        }
    }
    free(blocks->nothing);
}

/* Puts an unused entry for the block into the slot, which may hold an older entry, and returns it. The shard has a slot and an entry
   left. */
static inline struct weir__entry *fill(struct weir__shard *shard, struct weir__slot *slot, const struct weir__block *block, bool live)
{
    struct weir__entry *entry = shard->unused;
    shard->unused = entry->next;
    write_entry(entry, block, live);
    if (!ptr_of(slot))
        shard->count++;
    write_slot(slot, block->ptr, entry);
    return entry;
}

enum weir__add weir__blocks_add(struct weir__blocks *blocks, const struct weir__block *block)
{
    uint64_t hashed = weir__blocks_hash(block->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    enum weir__add added = WEIR__ADD_NO_MEMORY;
    weir__spin_lock(&shard->lock);
    if (has_slot(shard) && has_unused(shard)) {
        struct weir__slot *slot = weir__slots_find(slots_of(shard), block->ptr, hashed);
        added = ptr_of(slot) ? WEIR__ADD_STALE : WEIR__ADD_DONE;
        if (added == WEIR__ADD_DONE) {
            fill(shard, slot, block, true);
            count_malloc(counts_of(blocks, shard, block->pool), block);
            tell(blocks, WEIR__BLOCK_CAME, block);
        }
    }
    weir__spin_unlock(&shard->lock);
    return added;
}

bool weir__blocks_replace(struct weir__blocks *blocks, const struct weir__block *block, struct weir__block *former)
{
    uint64_t hashed = weir__blocks_hash(block->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    former->ptr = NULL;
    weir__spin_lock(&shard->lock);
    bool room = has_slot(shard) && has_unused(shard);
    if (room) {
        struct weir__slot *slot = weir__slots_find(slots_of(shard), block->ptr, hashed);
        struct weir__entry *entry = entry_of(slot);
        fill(shard, slot, block, true);
        if (entry)
            tell(blocks, WEIR__BLOCK_WENT, block); /* the removed block, of which the watcher learns only the address */
        tell(blocks, WEIR__BLOCK_CAME, block);
        /* If another thread has claimed the old entry, that thread frees the entry (weir__blocks_remove()); the slot no longer points to
           it. */
        if (entry && claim_in(entry, block->ptr)) {
            *former = read_entry(entry);
            count_free(counts_of(blocks, shard, former->pool), former, 1);
            add_unused(shard, entry);
        }
        count_malloc(counts_of(blocks, shard, block->pool), block);
    }
    weir__spin_unlock(&shard->lock);
    return room;
}

enum weir__take weir__blocks_take(struct weir__blocks *blocks, void *ptr, struct weir__block *block, struct weir__entry **claimed,
                                  enum weir__taker taker)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    struct weir__slot *slot = weir__slots_find(slots_of(shard), ptr, hashed);
    struct weir__entry *entry = entry_of(slot);
    bool is_lent = entry && entry->is_lent;
    bool found = entry && !is_lent && claim_in(entry, ptr);
    bool is_cached = found && taker == WEIR__TAKER_FREE && atomic_load_explicit(&entry->guard, memory_order_relaxed);
    *claimed = is_cached || (found && taker == WEIR__TAKER_ORPHAN) ? entry : NULL;
    if (found && !is_cached) {
        *block = read_entry(entry);
        count_free(counts_of(blocks, shard, block->pool), block, 1);
    }
    if (found && !*claimed) {
        remove_slot(shard, slot);
        add_unused(shard, entry);
        tell(blocks, WEIR__BLOCK_WENT, block);
    } else if (found && !is_cached) {
        atomic_store_explicit(&entry->guard, NULL, memory_order_relaxed);
    }
    weir__spin_unlock(&shard->lock);
    return found ? WEIR__TAKE_DONE : is_lent ? WEIR__TAKE_LENT : WEIR__TAKE_NONE;
}

/* The entry of the live block at ptr, or NULL. Called with the shard's lock. */
static struct weir__entry *find_live(struct weir__shard *shard, const void *ptr, uint64_t hashed)
{
    struct weir__entry *entry = entry_of(weir__slots_find(slots_of(shard), ptr, hashed));
    return entry && atomic_load_explicit(&entry->live, memory_order_acquire) ? entry : NULL;
}

weir_status weir__blocks_lend(struct weir__blocks *blocks, const weir_pool *pool, void *ptr, struct weir__block *block)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir_status status = WEIR_OK;
    weir__spin_lock(&shard->lock);
    struct weir__entry *entry = find_live(shard, ptr, hashed);
    if (!entry)
        status = WEIR_NOT_A_BLOCK;
    else if (atomic_load_explicit(&entry->guard, memory_order_relaxed) || entry->pool != pool || entry->graph)
        status = WEIR_INVALID;
    else if (entry->is_lent)
        status = WEIR_BUSY;
    else
        entry->is_lent = true;
    if (entry && status == WEIR_OK)
        *block = read_entry(entry);
    weir__spin_unlock(&shard->lock);
    return status;
}

void weir__blocks_return(struct weir__blocks *blocks, const weir_pool *pool, void *ptr)
{
    uint64_t hashed = weir__blocks_hash(ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    struct weir__entry *entry = find_live(shard, ptr, hashed);
    if (entry && !atomic_load_explicit(&entry->guard, memory_order_relaxed) && entry->pool == pool)
        entry->is_lent = false;
    weir__spin_unlock(&shard->lock);
}

void weir__blocks_remove(struct weir__blocks *blocks, struct weir__entry *entry, bool count, struct weir__block *block)
{
    *block = read_entry(entry);
    uint64_t hashed = weir__blocks_hash(block->ptr);
    struct weir__shard *shard = weir__blocks_shard(blocks, hashed);
    weir__spin_lock(&shard->lock);
    struct weir__slot *slot = weir__slots_find(slots_of(shard), block->ptr, hashed);
    if (entry_of(slot) == entry) {
        remove_slot(shard, slot);
        tell(blocks, WEIR__BLOCK_WENT, block);
    }
    add_unused(shard, entry);
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
    /* At least one slot must stay free, as searches end there. */
    if ((has_slot(shard) || shard->count + 1 < capacity_of(slots_of(shard))) && has_unused(shard)) {
        entry = fill(shard, weir__slots_find(slots_of(shard), block->ptr, hashed), block, live);
        tell(blocks, WEIR__BLOCK_BACK, block);
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

/* Calls `use` for each live entry of the table, under the lock of its shard; all: also for entries that are not live, whose owners may be
   changing their sizes. */
static void visit_entries(struct weir__blocks *blocks, bool all, void (*use)(const struct weir__block *block, bool is_live, void *data),
                          void *data)
{
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        struct weir__shard *shard = &blocks->shards[i];
        weir__spin_lock(&shard->lock);
        struct weir__slots *slots = slots_of(shard);
        for (size_t at = 0; at < capacity_of(slots); at++) {
            struct weir__entry *entry = entry_of(&slots->slots[at]);
            weir__spin *guard = entry ? atomic_load_explicit(&entry->guard, memory_order_acquire) : NULL;
            if (guard)
                weir__spin_lock(guard);
            bool is_live = entry && weir__entry_is(entry, ptr_of(&slots->slots[at]), guard);
            bool is_wanted = entry && (is_live || all);
            struct weir__block block = is_wanted ? read_entry(entry) : (struct weir__block){ .ptr = NULL };
            if (guard)
                weir__spin_unlock(guard);
            if (is_wanted)
                use(&block, is_live, data);
        }
        weir__spin_unlock(&shard->lock);
    }
}

struct live_visit {
    void (*use)(const struct weir__block *block, void *data);
    void *data;
};

static void visit_live(const struct weir__block *block, bool is_live, void *data)
{
    const struct live_visit *visit = data;
    if (is_live)
        visit->use(block, visit->data);
}

void weir__blocks_visit(struct weir__blocks *blocks, void (*use)(const struct weir__block *block, void *data), void *data)
{
    struct live_visit visit = { .use = use, .data = data };
    visit_entries(blocks, false, visit_live, &visit);
}

static void visit_watched(const struct weir__block *block, bool is_live, void *data)
{
    weir__watch *const *watch = data;
    (*watch)(WEIR__BLOCK_WAS, block, is_live);
}

void weir__blocks_watch(struct weir__blocks *blocks, weir__watch *watch)
{
    atomic_store_explicit(&blocks->watch, watch, memory_order_release);
    if (watch)
        visit_entries(blocks, true, visit_watched, &watch);
    for (size_t i = 0; !watch && i < WEIR__SHARDS; i++) {
        weir__spin_lock(&blocks->shards[i].lock);
        weir__spin_unlock(&blocks->shards[i].lock);
    }
}

struct visit {
    int device;
    void (*use)(const void *ptr, uint64_t size, void *data);
    void *data;
};

static void visit_block(const struct weir__block *block, void *data)
{
    const struct visit *visit = data;
    if (block->pool->device->index == visit->device && !block->graph)
        visit->use(block->ptr, block->size, visit->data);
}

void weir__blocks_each(weir *w, int device, void (*use)(const void *ptr, uint64_t size, void *data), void *data)
{
    struct visit visit = { .device = device, .use = use, .data = data };
    weir__blocks_visit(&w->blocks, visit_block, &visit);
}

#ifdef WEIR_DEBUG
/* Called with the shard's lock. */
static bool is_shard_valid(const struct weir__shard *shard)
{
    struct weir__slots *slots = slots_of(shard);
    size_t count = 0, capacity = slots ? capacity_of(slots) : 0; /* NULL: weir__blocks_init() found no host memory */
    for (size_t at = 0; at < capacity; at++) {
        struct weir__slot *slot = &slots->slots[at];
        const void *ptr = ptr_of(slot);
        if (!ptr != !entry_of(slot) || (ptr && weir__slots_find(slots, ptr, weir__blocks_hash(ptr)) != slot))
            return false;
        count += ptr != NULL;
    }
    return count == shard->count && count * 4 <= capacity * 3;
}

bool weir__blocks_are_valid(struct weir__blocks *blocks)
{
    bool are_valid = true;
    for (size_t i = 0; i < WEIR__SHARDS; i++) {
        weir__spin_lock(&blocks->shards[i].lock);
        are_valid = are_valid && is_shard_valid(&blocks->shards[i]);
        weir__spin_unlock(&blocks->shards[i].lock);
    }
    return are_valid;
}
#endif
