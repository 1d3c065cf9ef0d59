/* SPDX-License-Identifier: MIT */
/*
 * table.h - a hash table of items that embed their links: a look costs the same among ten items as among ten thousand.
 *
 * The owner's lock guards a table. weir__table_may_have() and weir__table_look() need no lock: for their sake an item that was ever in a
 * table must stay mapped, as a link of some table, until the table is destroyed.
 *
 * A table has at least four buckets for each item, so that a look for an absent item mostly ends at an empty bucket. Adding cannot fail:
 * without host memory for more buckets, their chains become longer.
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
    struct weir__buckets *former; /* the buckets before the table grew, for threads that still look there */
    struct weir__link *_Atomic *heads;
    unsigned shift; /* by which the hash is shifted right, to the number of the bucket */
};

struct weir__table {
    struct weir__buckets *_Atomic buckets;
    size_t count;
    _Atomic uint64_t changes; /* odd during a change; a look without the lock during one may miss an item */
    struct weir__buckets first;
    struct weir__link *_Atomic first_heads[WEIR__TABLE_FIRST];
};

void weir__table_init(struct weir__table *table);
void weir__table_destroy(struct weir__table *table);

/* With the lock. The link of an item that is added is in no table. */
void weir__table_add(struct weir__table *table, struct weir__link *link, uint64_t at, uint64_t key);
void weir__table_remove(struct weir__table *table, struct weir__link *link);

/* With the lock: the first item with that `at`, and the next one with the same; NULL: there is none. */
struct weir__link *weir__table_first(const struct weir__table *table, uint64_t at);
struct weir__link *weir__table_next(const struct weir__link *link);

/* With the lock, to walk over all items. The walk may remove an item once it knows the one behind; it removes no other, and adds none. */
struct weir__link *weir__table_any(const struct weir__table *table);
struct weir__link *weir__table_behind(const struct weir__table *table, const struct weir__link *link);

/* The item that a link is a member of. */
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
 * Without the lock: *found is the item with that `at` and key, or NULL. Returns false if the table changed meanwhile, so that the look may
 * have missed an item: look again under the lock. An item that was found may leave the table, or be used for something else, at any moment:
 * the caller must be able to tell.
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
