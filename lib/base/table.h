/* SPDX-License-Identifier: MIT */
/*
 * table.h - a hash table of items that have their links in themselves: what costs the same with ten items and with ten thousand.
 *
 * Guarded by a lock of its owner. Two questions need no lock: weir__table_may_have() and weir__table_look(). For their sake an item that
 * was ever in a table must stay mapped, as a link of some table, until the table is destroyed.
 *
 * The buckets are four times as many as the items, or more, so that an empty one mostly answers for what is not there. Adding needs no
 * memory: where there is none for more buckets, the chains become longer.
 */
#ifndef WEIR_LIB_TABLE_H
#define WEIR_LIB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TABLE_FIRST 64 /* buckets that a table begins with, a power of two */

struct weir__link {
    struct weir__link *_Atomic next; /* in its bucket */
    _Atomic uint64_t key;            /* tells the item from others with the same `at` */
    uint64_t at;                     /* chooses the bucket */
};

struct weir__buckets {
    struct weir__buckets *former; /* what the table had before it grew, for threads that still look there */
    struct weir__link *_Atomic *heads;
    unsigned shift; /* of the hash, whose upper bits are the number of the bucket */
};

struct weir__table {
    struct weir__buckets *_Atomic buckets;
    size_t count;
    _Atomic uint64_t changes; /* odd while one is made: a look without the lock may have missed an item */
    struct weir__buckets first;
    struct weir__link *_Atomic first_heads[WEIR__TABLE_FIRST];
};

void weir__table_init(struct weir__table *table);
void weir__table_destroy(struct weir__table *table);

/* With the lock. An item that is added is in no table by this link. */
void weir__table_add(struct weir__table *table, struct weir__link *link, uint64_t at, uint64_t key);
void weir__table_remove(struct weir__table *table, struct weir__link *link);

/* With the lock: the first item with that `at`, and the next one with the same; NULL: there is none. */
struct weir__link *weir__table_first(const struct weir__table *table, uint64_t at);
struct weir__link *weir__table_next(const struct weir__link *link);

/* With the lock: each item, one after the other. Only the one behind may be known while one is removed, and none may be added meanwhile. */
struct weir__link *weir__table_any(const struct weir__table *table);
struct weir__link *weir__table_behind(const struct weir__table *table, const struct weir__link *link);

/* The item that a link is a member of. */
#define WEIR__ITEM(link, type, member) ((type *)(uintptr_t)((const char *)(link)-offsetof(type, member)))

/* What names are found by: FNV-1a. */
static inline uint64_t weir__hash_name(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash;
}

static inline size_t weir__bucket_of(const struct weir__buckets *buckets, uint64_t at)
{
    return (size_t)(at * UINT64_C(0x9E3779B97F4A7C15) >> buckets->shift);
}

/* Without the lock: the first item of the bucket. */
static inline struct weir__link *weir__table_head(const struct weir__table *table, uint64_t at)
{
    const struct weir__buckets *buckets = atomic_load_explicit(&table->buckets, memory_order_acquire);
    return atomic_load_explicit(&buckets->heads[weir__bucket_of(buckets, at)], memory_order_acquire);
}

/* Without the lock. false: there is no item with that `at`. */
static inline bool weir__table_may_have(const struct weir__table *table, uint64_t at)
{
    return weir__table_head(table, at);
}

/*
 * Without the lock: *found is the item with that `at` and key, or NULL. false: the table changed meanwhile, and an item may have been
 * missed: look under the lock. The item may leave the table at any moment, and be another one by now: the caller must be able to tell.
 */
static inline bool weir__table_look(const struct weir__table *table, uint64_t at, uint64_t key, struct weir__link **found)
{
    uint64_t changes = atomic_load_explicit(&table->changes, memory_order_acquire);
    struct weir__link *link = weir__table_head(table, at);
    while (link && atomic_load_explicit(&link->key, memory_order_relaxed) != key)
        link = atomic_load_explicit(&link->next, memory_order_acquire);
    *found = link;
    return link || (changes % 2 == 0 && atomic_load_explicit(&table->changes, memory_order_relaxed) == changes);
}

#endif
