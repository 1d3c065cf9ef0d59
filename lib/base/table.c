/* SPDX-License-Identifier: MIT */
#include "lib/base/table.h"

#include <stdlib.h>

#define SPARSE 4 /* buckets for each item, at least */

static size_t count_of(const struct weir__buckets *buckets)
{
    return (size_t)1 << (64 - buckets->shift);
}

static struct weir__buckets *buckets_of(const struct weir__table *table)
{
    return atomic_load_explicit(&table->buckets, memory_order_relaxed);
}

static struct weir__link *next_of(const struct weir__link *link)
{
    return atomic_load_explicit(&link->next, memory_order_relaxed);
}

void weir__table_init(struct weir__table *table)
{
    *table = (struct weir__table){ .first = { .shift = 64 - (unsigned)__builtin_ctz(WEIR__TABLE_FIRST) } };
    table->first.heads = table->first_heads;
    atomic_store(&table->buckets, &table->first);
}

void weir__table_destroy(struct weir__table *table)
{
    for (struct weir__buckets *buckets = buckets_of(table), *former; buckets && buckets != &table->first; buckets = former) {
        former = buckets->former;
        free(buckets->heads);
        free(buckets);
    }
}

/* begin_change() and end_change() enclose each change of a table. All stores between the two have release order, and the loads of
   weir__table_look() acquire order: so a reader that sees any of those stores also sees that `changes` has risen. */
static void begin_change(struct weir__table *table)
{
    atomic_store_explicit(&table->changes, atomic_load_explicit(&table->changes, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void end_change(struct weir__table *table)
{
    atomic_store_explicit(&table->changes, atomic_load_explicit(&table->changes, memory_order_relaxed) + 1, memory_order_release);
}

static void push(struct weir__buckets *buckets, struct weir__link *link)
{
    struct weir__link *_Atomic *head = &buckets->heads[weir__bucket_of(buckets, link->at)];
    atomic_store_explicit(&link->next, atomic_load_explicit(head, memory_order_relaxed), memory_order_release);
    atomic_store_explicit(head, link, memory_order_release);
}

/* Doubles the number of buckets. If host memory runs out, the table keeps the buckets that it has. The former buckets remain allocated
   until the table is destroyed, since a reader without the lock may still use them. */
static void grow(struct weir__table *table)
{
    struct weir__buckets *before = buckets_of(table), *after = malloc(sizeof *after);
    struct weir__link *_Atomic *heads = after ? calloc(2 * count_of(before), sizeof *heads) : NULL;
    if (!heads) {
        free(after);
        return;
    }
    *after = (struct weir__buckets){ .former = before, .heads = heads, .shift = before->shift - 1 };
    for (size_t i = 0; i < count_of(before); i++)
        for (struct weir__link *link = atomic_load_explicit(&before->heads[i], memory_order_relaxed), *next; link; link = next) {
            next = next_of(link);
            push(after, link);
        }
    atomic_store_explicit(&table->buckets, after, memory_order_release);
}

void weir__table_add(struct weir__table *table, struct weir__link *link, uint64_t at, uint64_t key)
{
    begin_change(table);
    if (++table->count * SPARSE > count_of(buckets_of(table)))
        grow(table);
    link->at = at;
    atomic_store_explicit(&link->key, key, memory_order_release);
    push(buckets_of(table), link);
    end_change(table);
}

void weir__table_remove(struct weir__table *table, struct weir__link *link)
{
    struct weir__buckets *buckets = buckets_of(table);
    struct weir__link *_Atomic *place = &buckets->heads[weir__bucket_of(buckets, link->at)];
    begin_change(table);
    for (struct weir__link *other; (other = atomic_load_explicit(place, memory_order_relaxed)) != link;)
        place = &other->next;
    atomic_store_explicit(place, next_of(link), memory_order_release);
    table->count--;
    end_change(table);
}

/* Returns the first link of the chain, beginning with `link` itself, whose `at` is the given one, or NULL. */
static struct weir__link *with(struct weir__link *link, uint64_t at)
{
    while (link && link->at != at)
        link = next_of(link);
    return link;
}

struct weir__link *weir__table_first(const struct weir__table *table, uint64_t at)
{
    return with(weir__table_head(table, at), at);
}

struct weir__link *weir__table_next(const struct weir__link *link)
{
    return with(next_of(link), link->at);
}

/* Returns the first link in bucket number `bucket` or in a later one, or NULL. */
static struct weir__link *from(const struct weir__buckets *buckets, size_t bucket)
{
    struct weir__link *link = NULL;
    for (; !link && bucket < count_of(buckets); bucket++)
        link = atomic_load_explicit(&buckets->heads[bucket], memory_order_relaxed);
    return link;
}

struct weir__link *weir__table_any(const struct weir__table *table)
{
    return from(buckets_of(table), 0);
}

struct weir__link *weir__table_behind(const struct weir__table *table, const struct weir__link *link)
{
    const struct weir__buckets *buckets = buckets_of(table);
    struct weir__link *behind = next_of(link);
    return behind ? behind : from(buckets, weir__bucket_of(buckets, link->at) + 1);
}
