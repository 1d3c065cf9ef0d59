/* SPDX-License-Identifier: MIT */
/*
 * table.h - a hash table whose items embed their links.
 *
 * The lock of the table's owner ("the lock" below) guards the table. Only weir__table_may_have() and weir__table_look() need no lock. Such
 * a lookup may follow the link of an item that another thread removes, so the memory of an item must remain allocated, and must hold a link
 * of a table, until the table is destroyed.
 *
 * A table has at least four buckets for each item, so a lookup of an absent item mostly ends at an empty bucket. Adding cannot fail: if
 * host memory runs out, the number of buckets stays and their chains become longer.
 */
#ifndef WEIR_LIB_TABLE_H
#define WEIR_LIB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TABLE_FIRST 64 /* buckets that a table begins with, a power of two */

struct weir__link {
    struct weir__link *_Atomic next; /* the next link in the same bucket */
    _Atomic uint64_t key;            /* distinguishes items with the same `at` */
    uint64_t at;                     /* its hash chooses the bucket; several items may have the same `at` */
};

struct weir__buckets {
    struct weir__buckets *former; /* the buckets before the table grew: kept for readers without the lock */
    struct weir__link *_Atomic *heads;
    unsigned shift; /* number of a bucket = hash >> shift */
};

struct weir__table {
    struct weir__buckets *_Atomic buckets;
    size_t count;
    _Atomic uint64_t changes; /* odd during a change. A lookup without the lock during a change may miss an item */
    struct weir__buckets first;
    struct weir__link *_Atomic first_heads[WEIR__TABLE_FIRST];
};

void weir__table_init(struct weir__table *table);
void weir__table_destroy(struct weir__table *table);

/* Add an item, which must not be in a table yet, and remove an item. The caller holds the lock. */
void weir__table_add(struct weir__table *table, struct weir__link *link, uint64_t at, uint64_t key);
void weir__table_remove(struct weir__table *table, struct weir__link *link);

/* Return the first item with that `at`, and the next one with the same `at`; NULL if there is none. The caller holds the lock. */
struct weir__link *weir__table_first(const struct weir__table *table, uint64_t at);
struct weir__link *weir__table_next(const struct weir__link *link);

/* Walk over all items: _any() returns the first one, and _behind() the one after `link`; NULL at the end. The caller holds the lock for the
   whole walk. It may remove an item once it has got the item behind, but must not remove others or add any. */
struct weir__link *weir__table_any(const struct weir__table *table);
struct weir__link *weir__table_behind(const struct weir__table *table, const struct weir__link *link);

/* The item, of the given type, whose member is that link. */
#define WEIR__ITEM(link, type, member) ((type *)(uintptr_t)((const char *)(link)-offsetof(type, member)))

/* The FNV-1a hash of a name, for tables of names. */
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

/* Returns the first link of the bucket for that `at`, or NULL. Needs no lock. */
static inline struct weir__link *weir__table_head(const struct weir__table *table, uint64_t at)
{
    const struct weir__buckets *buckets = atomic_load_explicit(&table->buckets, memory_order_acquire);
    return atomic_load_explicit(&buckets->heads[weir__bucket_of(buckets, at)], memory_order_acquire);
}

/* Returns false if there is certainly no item with that `at`. Needs no lock. */
static inline bool weir__table_may_have(const struct weir__table *table, uint64_t at)
{
    return weir__table_head(table, at);
}

/*
 * Looks up an item without the lock: *found is the item with that `at` and key, or NULL. Returns false if nothing was found but the table
 * changed during the lookup, so that the item may have been missed: look again under the lock. An item that was found may be removed from
 * the table, or be used anew, at any moment; the caller must be able to detect that.
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
