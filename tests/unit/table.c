/* SPDX-License-Identifier: MIT */
/* The hash table: what is found, how long its chains are, what happens without memory, and what a look without the lock may miss. */
#include "lib/base/table.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"

#define MANY 10000
#define LONGEST 12 /* links that a search may pass; 4 times the mean in the fullest of 40,000 buckets */

struct item {
    uint64_t value;
    struct weir__link link;
};

static struct weir__table table;
static struct item items[MANY];

static void add_all(uint64_t step)
{
    weir__table_init(&table);
    for (uint64_t i = 0; i < MANY; i++) {
        items[i].value = i;
        weir__table_add(&table, &items[i].link, (i + 1) * step, i);
    }
}

static const struct item *look(uint64_t at, uint64_t key)
{
    struct weir__link *link;
    ck_assert(weir__table_look(&table, at, key, &link));
    return link ? WEIR__ITEM(link, struct item, link) : NULL;
}

START_TEST(each_of_many_items_is_found_by_both_ways)
{
    add_all(1);
    for (uint64_t i = 0; i < MANY; i++) {
        ck_assert_ptr_eq(weir__table_first(&table, i + 1), &items[i].link);
        ck_assert_ptr_eq(look(i + 1, i), &items[i]);
        ck_assert(weir__table_may_have(&table, i + 1));
    }
    weir__table_destroy(&table);
}
END_TEST

START_TEST(items_that_are_removed_are_not_found_and_the_others_are)
{
    add_all(1);
    for (size_t i = 0; i < MANY; i += 2)
        weir__table_remove(&table, &items[i].link);
    for (uint64_t i = 0; i < MANY; i++)
        ck_assert_ptr_eq(look(i + 1, i), i % 2 ? &items[i] : NULL);
    weir__table_destroy(&table);
}
END_TEST

START_TEST(items_with_one_place_are_told_apart_by_their_keys)
{
    struct item three[3];
    size_t count = 0;
    weir__table_init(&table);
    for (uint64_t i = 0; i < 3; i++)
        weir__table_add(&table, &three[i].link, 7, i);
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(look(7, i), &three[i]);
    for (const struct weir__link *link = weir__table_first(&table, 7); link; link = weir__table_next(link))
        count++;
    ck_assert_uint_eq(count, 3);
    weir__table_destroy(&table);
}
END_TEST

/* Addresses are multiples of powers of two, ids are consecutive. */
static const uint64_t steps[] = { 1, 16, 64, 512, 4096, 1 << 21, UINT64_C(1) << 36 };

static size_t longest_chain(uint64_t step)
{
    size_t longest = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        size_t length = 0;
        for (const struct weir__link *link = weir__table_head(&table, (i + 1) * step); link; link = link->next)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

START_TEST(chains_stay_short)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        add_all(steps[i]);
        size_t longest = longest_chain(steps[i]);
        ck_assert_msg(longest <= LONGEST, "a search among multiples of %llu passes %zu links", (unsigned long long)steps[i], longest);
        weir__table_destroy(&table);
    }
}
END_TEST

START_TEST(every_item_is_visited_once_and_may_be_removed_then)
{
    size_t count = 0;
    add_all(64);
    for (struct weir__link *link = weir__table_any(&table), *behind; link; link = behind, count++) {
        behind = weir__table_behind(&table, link);
        weir__table_remove(&table, link);
    }
    ck_assert_uint_eq(count, MANY);
    ck_assert_ptr_null(weir__table_any(&table));
    weir__table_destroy(&table);
}
END_TEST

START_TEST(adding_needs_no_memory)
{
    weir__table_init(&table);
    for (uint64_t i = 0; i < 1000; i++) {
        fail_malloc_at(1 + i % 2);
        weir__table_add(&table, &items[i].link, i, i);
        fail_malloc_at(0);
    }
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_ptr_eq(look(i, i), &items[i]);
    weir__table_destroy(&table);
}
END_TEST

static atomic_bool is_over;

/* Looks for the first item, which is always there, while the others come and go. Returns it, if it was never missed. */
static void *look_on(void *data)
{
    struct weir__link *first = &items[0].link, *link;
    bool is_missed = false;
    (void)data;
    while (!is_missed && !atomic_load(&is_over))
        is_missed = (weir__table_look(&table, 1, 0, &link) && link != first) || !weir__table_may_have(&table, 1);
    return is_missed ? NULL : first;
}

START_TEST(look_beside_changes_finds_what_is_there_or_says_that_it_cannot_know)
{
    pthread_t thread;
    void *found;
    weir__table_init(&table);
    weir__table_add(&table, &items[0].link, 1, 0);
    pthread_create(&thread, NULL, look_on, NULL);
    for (size_t round = 0; round < 20; round++) {
        for (uint64_t i = 1; i < MANY; i++)
            weir__table_add(&table, &items[i].link, i + 1 + round, i);
        for (size_t i = 1; i < MANY; i++)
            weir__table_remove(&table, &items[i].link);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, &found);
    ck_assert_ptr_eq(found, &items[0].link);
    weir__table_destroy(&table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table");
    TCase *tables = suite_case(suite, "tables", 0);
    suite_add(tables, each_of_many_items_is_found_by_both_ways, items_that_are_removed_are_not_found_and_the_others_are,
              items_with_one_place_are_told_apart_by_their_keys, chains_stay_short, every_item_is_visited_once_and_may_be_removed_then,
              adding_needs_no_memory, look_beside_changes_finds_what_is_there_or_says_that_it_cannot_know);
    return suite_run(suite);
}
