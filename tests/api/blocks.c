/* SPDX-License-Identifier: MIT */
/* The table of blocks: what was put in is found, once, whatever else came and went, and whoever keeps it meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/class.h"
#include "lib/pool/blocks.h"
#include "lib/pool/pool.h"
#include "tests/support/suite.h"

static struct weir__blocks blocks;
static struct weir_pool pool; /* for its counters; nothing else of it is touched */

static void set_up(void)
{
    ck_assert(weir__blocks_init(&blocks));
    memset(pool.figures.counts, 0, sizeof pool.figures.counts);
}

static void tear_down(void)
{
    weir__blocks_destroy(&blocks);
}

/* Addresses are made up: the table never follows them. */
static void *address(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

static bool add(void *ptr, uint64_t size)
{
    enum weir__add added = weir__blocks_add(&blocks, &(struct weir__block){ .ptr = ptr, .size = size, .pool = &pool });
    ck_assert_int_ne(added, WEIR__ADD_STALE);
    return added == WEIR__ADD_DONE;
}

/* Whose lock it is does not matter here. */
static weir__spin guard;

/* Takes a block that no cache may keep; one that a cache may keep is left as it was. */
static bool take(void *ptr, struct weir__block *block)
{
    struct weir__entry *claimed;
    bool found = weir__blocks_take(&blocks, ptr, block, &claimed, WEIR__TAKER_FREE);
    if (claimed)
        atomic_store(&claimed->live, true);
    return found && !claimed;
}

/* Claims a block that a cache may keep; any other is left as it was. */
static struct weir__entry *claim(struct weir__blocks *table, void *ptr)
{
    struct weir__block block;
    struct weir__entry *claimed;
    if (weir__blocks_take(table, ptr, &block, &claimed, WEIR__TAKER_FREE) && !claimed)
        ck_assert_ptr_nonnull(weir__blocks_put_back(table, &block, true));
    return claimed;
}

/* The same with a size class and a guard, as blocks have that a cache may keep. */
static void add_classed(void *ptr, uint64_t size)
{
    struct weir__block block = { .ptr = ptr, .size = size, .pool = &pool, .guard = &guard, .class = (uint8_t)weir__class_of(size) };
    ck_assert_int_eq(weir__blocks_add(&blocks, &block), WEIR__ADD_DONE);
}

static struct weir__counts counts(void)
{
    return weir__blocks_count(&blocks, &pool);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t total_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < WEIR__SHARDS; i++)
        count += blocks.shards[i].count;
    return count;
}

/* Finds `count` addresses that all fall into shard 0, where they must crowd each other. */
static void find_neighbours(void **ptrs, size_t count)
{
    uint64_t state = 7;
    for (size_t found = 0; found < count;) {
        struct weir__block block;
        void *ptr = address((next_random(&state) & UINT64_C(0x7fffffffffff)) / 512 * 512);
        ck_assert(add(ptr, 0));
        if (blocks.shards[0].count)
            ptrs[found++] = ptr;
        ck_assert(take(ptr, &block));
    }
}

START_TEST(block_is_taken_as_it_was_added)
{
    struct weir__block in = { .ptr = address(0x7f0000000200), .size = 77, .pool = &pool, .graph = true }, out;
    ck_assert_int_eq(weir__blocks_add(&blocks, &in), WEIR__ADD_DONE);
    ck_assert(take(in.ptr, &out));
    ck_assert_ptr_eq(out.ptr, in.ptr);
    ck_assert_uint_eq(out.size, 77);
    ck_assert_ptr_eq(out.pool, &pool);
    ck_assert(out.graph);
}
END_TEST

START_TEST(block_is_taken_once)
{
    struct weir__block block;
    ck_assert(add(address(0x7f0000000200), 1));
    ck_assert(take(address(0x7f0000000200), &block));
    ck_assert(!take(address(0x7f0000000200), &block));
}
END_TEST

START_TEST(pointer_into_a_block_is_no_block)
{
    struct weir__block block;
    ck_assert(add(address(0x7f0000000200), 4096));
    for (uint64_t offset = 1; offset < 4096; offset++)
        ck_assert(!take(address(0x7f0000000200 + offset), &block));
}
END_TEST

START_TEST(empty_table_has_no_block)
{
    struct weir__block block;
    ck_assert(!take(address(0x7f0000000200), &block));
}
END_TEST

START_TEST(address_that_is_there_already_gives_its_former_entry)
{
    struct weir__block block, former;
    struct weir__block second = { .ptr = address(0x7f0000000200), .size = 2, .pool = &pool };
    ck_assert(add(second.ptr, 1));
    ck_assert_int_eq(weir__blocks_add(&blocks, &second), WEIR__ADD_STALE);
    ck_assert_uint_eq(total_count(), 1);
    ck_assert(weir__blocks_replace(&blocks, &second, &former));
    ck_assert_ptr_eq(former.ptr, address(0x7f0000000200));
    ck_assert_uint_eq(former.size, 1);
    ck_assert_uint_eq(total_count(), 1);
    ck_assert(take(address(0x7f0000000200), &block));
    ck_assert_uint_eq(block.size, 2);
    ck_assert(!take(address(0x7f0000000200), &block));
}
END_TEST

/* Model of the random tests: of each address whether it is in, out, or taken and may be put back. */
#define ADDRESSES 20000
enum place { OUT, IN, TAKEN };

static struct model {
    void *ptr;
    uint64_t size;
    enum place place;
} model[ADDRESSES];

static void step(struct model *entry, uint64_t random)
{
    struct weir__block block = { .ptr = entry->ptr, .size = random | 1, .pool = &pool }, former;
    switch (entry->place) {
    case OUT:
        ck_assert(!take(entry->ptr, &former));
        ck_assert_int_eq(weir__blocks_add(&blocks, &block), WEIR__ADD_DONE);
        entry->size = block.size;
        entry->place = IN;
        return;
    case IN:
        ck_assert(take(entry->ptr, &block));
        ck_assert_uint_eq(block.size, entry->size);
        entry->place = TAKEN;
        return;
    case TAKEN:
        ck_assert(!take(entry->ptr, &former));
        block.size = entry->size;
        if (random & 4)
            ck_assert(weir__blocks_put_back(&blocks, &block, true));
        entry->place = random & 4 ? IN : OUT;
    }
}

static void walk(size_t addresses, unsigned steps, uint64_t seed)
{
    for (unsigned i = 0; i < steps; i++) {
        uint64_t random = next_random(&seed);
        step(&model[(random >> 20) % addresses], random);
    }
    size_t live = 0;
    for (size_t i = 0; i < addresses; i++)
        live += model[i].place == IN;
    ck_assert_uint_eq(counts().mallocs - counts().frees, live);
    ck_assert_uint_eq(total_count(), live);
    for (size_t i = 0; i < addresses; i++) {
        struct weir__block block;
        bool found = take(model[i].ptr, &block);
        ck_assert_int_eq(found, model[i].place == IN);
        if (found)
            ck_assert_uint_eq(block.size, model[i].size);
    }
    ck_assert_uint_eq(total_count(), 0);
}

START_TEST(table_agrees_with_a_model_for_adjacent_blocks)
{
    for (size_t i = 0; i < ADDRESSES; i++)
        model[i] = (struct model){ .ptr = address(UINT64_C(0x7f4400000000) + i * 512) };
    walk(ADDRESSES, 300000, 1);
}
END_TEST

START_TEST(table_agrees_with_a_model_for_scattered_blocks)
{
    uint64_t seed = 99;
    for (size_t i = 0; i < ADDRESSES; i++) /* the number in the low bits of the page keeps them apart */
        model[i] = (struct model){ .ptr = address((next_random(&seed) & UINT64_C(0x7fff00000000)) + i * 512) };
    walk(ADDRESSES, 300000, 2);
}
END_TEST

START_TEST(table_agrees_with_a_model_in_one_crowded_shard)
{
    void *ptrs[200];
    find_neighbours(ptrs, 200);
    for (size_t i = 0; i < 200; i++)
        model[i] = (struct model){ .ptr = ptrs[i] };
    walk(200, 200000, 3);
}
END_TEST

START_TEST(blocks_put_back_into_a_table_that_filled_up_meanwhile_are_found)
{
    void *ptrs[400];
    struct weir__block taken[200];
    find_neighbours(ptrs, 400);
    for (size_t i = 0; i < 200; i++)
        ck_assert(add(ptrs[i], i + 1));
    for (size_t i = 0; i < 200; i++)
        ck_assert(take(ptrs[i], &taken[i]));
    for (size_t i = 200; i < 400; i++)
        ck_assert(add(ptrs[i], i + 1));
    for (size_t i = 0; i < 200; i++)
        ck_assert(weir__blocks_put_back(&blocks, &taken[i], true));
    for (size_t i = 0; i < 400; i++) {
        ck_assert(take(ptrs[i], &taken[0]));
        ck_assert_uint_eq(taken[0].size, i + 1);
    }
}
END_TEST

START_TEST(blocks_that_come_and_go_do_not_grow_the_table)
{
    void *ptrs[10];
    struct weir__block block;
    find_neighbours(ptrs, 10);
    for (unsigned round = 0; round < 10000; round++) {
        ck_assert(add(ptrs[round % 10], 1));
        ck_assert(take(ptrs[round % 10], &block));
    }
    ck_assert_uint_eq(atomic_load(&blocks.shards[0].slots)->mask, 15);
    ck_assert_uint_eq(total_count(), 0);
}
END_TEST

START_TEST(graph_blocks_are_counted_apart)
{
    struct weir__block block = { .ptr = address(0x7f0000000200), .size = 1, .pool = &pool, .graph = true };
    ck_assert_int_eq(weir__blocks_add(&blocks, &block), WEIR__ADD_DONE);
    ck_assert_uint_eq(weir__blocks_count(&blocks, &pool).graph_mallocs, 1);
    ck_assert_uint_eq(weir__blocks_count(&blocks, &pool).mallocs, 0);
    ck_assert(take(block.ptr, &block));
    ck_assert_uint_eq(weir__blocks_count(&blocks, &pool).graph_frees, 1);
    ck_assert(weir__blocks_put_back(&blocks, &block, true));
    ck_assert_uint_eq(weir__blocks_count(&blocks, &pool).graph_frees, 0);
}
END_TEST

/* Claiming: what caches do ------------------------------------------------------------------------------------------------------------- */

#define PLACE address(0x7f0000000200)

typedef struct weir__entry *claimer(struct weir__blocks *, void *);

/* As a free does that does not lock the shard. */
static struct weir__entry *look_and_claim(struct weir__blocks *table, void *ptr)
{
    struct weir__entry *entry = weir__blocks_look(table, ptr);
    if (!entry || !atomic_load(&entry->guard))
        return NULL;
    weir__spin_lock(&guard);
    bool is = weir__entry_is(entry, ptr, &guard);
    if (is)
        atomic_store(&entry->live, false);
    weir__spin_unlock(&guard);
    return is ? entry : NULL;
}

static claimer *const claimers[] = { claim, look_and_claim };

START_TEST(claimed_block_stays_in_the_table_without_being_live)
{
    struct weir__block block;
    add_classed(PLACE, 777);
    struct weir__entry *entry = claimers[_i](&blocks, PLACE);
    ck_assert_ptr_nonnull(entry);
    ck_assert_ptr_eq(entry->ptr, PLACE);
    ck_assert_uint_eq(entry->size, 777);
    ck_assert_ptr_eq(entry->pool, &pool);
    ck_assert_uint_eq(entry->class, 2);
    ck_assert(!atomic_load(&entry->live));
    ck_assert_uint_eq(total_count(), 1);
    ck_assert(!take(PLACE, &block));
}
END_TEST

START_TEST(block_is_claimed_once)
{
    add_classed(PLACE, 777);
    ck_assert_ptr_nonnull(claimers[_i](&blocks, PLACE));
    ck_assert_ptr_null(claimers[_i](&blocks, PLACE));
}
END_TEST

START_TEST(block_that_is_live_again_can_be_claimed_again)
{
    struct weir__block block;
    add_classed(PLACE, 777);
    struct weir__entry *entry = claimers[_i](&blocks, PLACE);
    entry->size = 600;
    atomic_store(&entry->live, true);
    ck_assert_ptr_eq(claimers[_i](&blocks, PLACE), entry);
    weir__blocks_remove(&blocks, entry, true, &block);
    ck_assert_uint_eq(block.size, 600);
}
END_TEST

START_TEST(claim_counts_neither_malloc_nor_free)
{
    add_classed(PLACE, 777);
    claimers[_i](&blocks, PLACE);
    ck_assert_uint_eq(counts().mallocs, 1);
    ck_assert_uint_eq(counts().frees, 0);
}
END_TEST

START_TEST(block_without_a_class_cannot_be_claimed_and_stays_live)
{
    struct weir__block block;
    ck_assert(add(PLACE, 777));
    ck_assert_ptr_null(claimers[_i](&blocks, PLACE));
    ck_assert(take(PLACE, &block));
}
END_TEST

START_TEST(only_the_start_of_a_block_can_be_claimed)
{
    add_classed(PLACE, 2048);
    ck_assert_ptr_null(claimers[_i](&blocks, (char *)PLACE + 1));
    ck_assert_ptr_null(claimers[_i](&blocks, (char *)PLACE + 512));
    ck_assert_ptr_nonnull(claimers[_i](&blocks, PLACE));
}
END_TEST

START_TEST(empty_table_has_nothing_to_claim)
{
    ck_assert_ptr_null(claimers[_i](&blocks, PLACE));
}
END_TEST

START_TEST(look_needs_no_lock)
{
    add_classed(PLACE, 777);
    struct weir__shard *shard = weir__blocks_shard(&blocks, weir__blocks_hash(PLACE));
    weir__spin_lock(&shard->lock);
    struct weir__entry *entry = weir__blocks_look(&blocks, PLACE);
    weir__spin_unlock(&shard->lock);
    ck_assert_ptr_nonnull(entry);
    ck_assert(weir__entry_is(entry, PLACE, &guard));
}
END_TEST

START_TEST(entry_is_not_the_block_for_another_guard_or_pointer)
{
    weir__spin other;
    add_classed(PLACE, 777);
    const struct weir__entry *entry = weir__blocks_look(&blocks, PLACE);
    ck_assert(!weir__entry_is(entry, PLACE, &other));
    ck_assert(!weir__entry_is(entry, (char *)PLACE + 512, &guard));
}
END_TEST

START_TEST(entry_of_a_claimed_block_stays_its_owner_s_when_the_address_comes_again)
{
    struct weir__block block, former;
    add_classed(PLACE, 777);
    struct weir__entry *claimed = claim(&blocks, PLACE);
    ck_assert(weir__blocks_replace(&blocks, &(struct weir__block){ .ptr = PLACE, .size = 1, .pool = &pool }, &former));
    ck_assert_ptr_null(former.ptr);
    weir__blocks_remove(&blocks, claimed, true, &block);
    ck_assert_uint_eq(block.size, 777);
    ck_assert(take(PLACE, &block));
    ck_assert_uint_eq(block.size, 1);
    ck_assert_uint_eq(total_count(), 0);
}
END_TEST

static const bool either[] = { false, true };

START_TEST(removed_block_is_out_of_the_table_and_counts_as_freed_only_if_asked)
{
    struct weir__block block;
    add_classed(PLACE, 777);
    weir__blocks_remove(&blocks, claim(&blocks, PLACE), either[_i], &block);
    ck_assert_ptr_eq(block.ptr, PLACE);
    ck_assert_uint_eq(block.size, 777);
    ck_assert_ptr_eq(block.pool, &pool);
    ck_assert_uint_eq(block.class, 2);
    ck_assert_uint_eq(total_count(), 0);
    ck_assert_ptr_null(claim(&blocks, PLACE));
    ck_assert_uint_eq(counts().frees, either[_i]);
    add_classed(PLACE, 1); /* CUDA gives the address again */
}
END_TEST

START_TEST(block_put_back_is_live_only_if_asked)
{
    struct weir__block block;
    add_classed(PLACE, 777);
    weir__blocks_remove(&blocks, claim(&blocks, PLACE), either[_i], &block);
    struct weir__entry *entry = weir__blocks_put_back(&blocks, &block, either[_i]);
    ck_assert_ptr_nonnull(entry);
    ck_assert_ptr_eq(entry->ptr, PLACE);
    ck_assert_uint_eq(entry->class, 2);
    ck_assert_uint_eq(total_count(), 1);
    ck_assert_int_eq(atomic_load(&entry->live), either[_i]);
    ck_assert_int_eq(claim(&blocks, PLACE) != NULL, either[_i]);
    ck_assert_uint_eq(counts().frees, 0);
}
END_TEST

START_TEST(block_put_back_as_kept_can_be_removed_again)
{
    struct weir__block block;
    add_classed(PLACE, 777);
    weir__blocks_remove(&blocks, claim(&blocks, PLACE), false, &block);
    weir__blocks_remove(&blocks, weir__blocks_put_back(&blocks, &block, false), false, &block);
    ck_assert_uint_eq(block.size, 777);
    ck_assert_uint_eq(total_count(), 0);
}
END_TEST

START_TEST(claimed_entries_stay_where_they_are_while_the_table_grows)
{
    static struct weir__entry *entries[1000];
    struct weir__block block;
    for (uint64_t i = 0; i < 1000; i++) {
        add_classed(address(UINT64_C(0x7f0000000000) + i * 512), i + 1);
        entries[i] = claim(&blocks, address(UINT64_C(0x7f0000000000) + i * 512));
    }
    for (uint64_t i = 1000; i < ADDRESSES; i++)
        ck_assert(add(address(UINT64_C(0x7f0000000000) + i * 512), 1));
    for (uint64_t i = 0; i < 1000; i++) {
        ck_assert_uint_eq(entries[i]->size, i + 1);
        weir__blocks_remove(&blocks, entries[i], true, &block);
        ck_assert_ptr_eq(block.ptr, address(UINT64_C(0x7f0000000000) + i * 512));
    }
    ck_assert_uint_eq(total_count(), ADDRESSES - 1000);
}
END_TEST

/* Each thread tries to take every block; together they must get each one exactly once. */
#define RACE_BLOCKS 20000
#define RACE_THREADS 4

static void *take_all(void *got)
{
    for (uint64_t i = 0; i < RACE_BLOCKS; i++) {
        struct weir__block block;
        if (!take(address(UINT64_C(0x7f0000000000) + i * 512), &block))
            continue;
        ++*(size_t *)got;
    }
    return NULL;
}

static void *claim_or_take_all(void *got)
{
    for (uint64_t i = 0; i < RACE_BLOCKS; i++) {
        struct weir__block block;
        void *ptr = address(UINT64_C(0x7f0000000000) + i * 512);
        ++*(size_t *)got;
        if (!look_and_claim(&blocks, ptr) && !claim(&blocks, ptr) && !take(ptr, &block))
            --*(size_t *)got;
    }
    return NULL;
}

START_TEST(block_freed_by_many_threads_is_claimed_or_taken_by_one)
{
    pthread_t threads[RACE_THREADS];
    size_t got[RACE_THREADS] = { 0 }, total = 0;
    for (uint64_t i = 0; i < RACE_BLOCKS; i++)
        if (i % 4)
            add_classed(address(UINT64_C(0x7f0000000000) + i * 512), 1);
        else
            ck_assert(add(address(UINT64_C(0x7f0000000000) + i * 512), 1));
    for (size_t i = 0; i < RACE_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, claim_or_take_all, &got[i]), 0);
    for (size_t i = 0; i < RACE_THREADS; i++) {
        pthread_join(threads[i], NULL);
        total += got[i];
    }
    ck_assert_uint_eq(total, RACE_BLOCKS);
    ck_assert_uint_eq(total_count(), RACE_BLOCKS / 4 * 3); /* those that were claimed */
}
END_TEST

START_TEST(block_freed_by_many_threads_is_taken_by_one)
{
    pthread_t threads[RACE_THREADS];
    size_t got[RACE_THREADS] = { 0 }, total = 0;
    for (uint64_t i = 0; i < RACE_BLOCKS; i++)
        ck_assert(add(address(UINT64_C(0x7f0000000000) + i * 512), 1));
    for (size_t i = 0; i < RACE_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_all, &got[i]), 0);
    for (size_t i = 0; i < RACE_THREADS; i++) {
        pthread_join(threads[i], NULL);
        total += got[i];
    }
    ck_assert_uint_eq(total, RACE_BLOCKS);
    ck_assert_uint_eq(total_count(), 0);
}
END_TEST

static void add_claims(TCase *tcase)
{
    tcase_add_loop_test(tcase, claimed_block_stays_in_the_table_without_being_live, 0, 2);
    tcase_add_loop_test(tcase, block_is_claimed_once, 0, 2);
    tcase_add_loop_test(tcase, block_that_is_live_again_can_be_claimed_again, 0, 2);
    tcase_add_loop_test(tcase, claim_counts_neither_malloc_nor_free, 0, 2);
    tcase_add_loop_test(tcase, block_without_a_class_cannot_be_claimed_and_stays_live, 0, 2);
    tcase_add_loop_test(tcase, only_the_start_of_a_block_can_be_claimed, 0, 2);
    tcase_add_loop_test(tcase, empty_table_has_nothing_to_claim, 0, 2);
    suite_add(tcase, look_needs_no_lock, entry_is_not_the_block_for_another_guard_or_pointer,
              entry_of_a_claimed_block_stays_its_owner_s_when_the_address_comes_again);
    tcase_add_loop_test(tcase, removed_block_is_out_of_the_table_and_counts_as_freed_only_if_asked, 0, 2);
    tcase_add_loop_test(tcase, block_put_back_is_live_only_if_asked, 0, 2);
    suite_add(tcase, block_put_back_as_kept_can_be_removed_again, claimed_entries_stay_where_they_are_while_the_table_grows,
              block_freed_by_many_threads_is_claimed_or_taken_by_one);
}

int main(void)
{
    Suite *suite = suite_create("blocks");
    TCase *tcase = suite_case(suite, "table", 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, block_is_taken_as_it_was_added, block_is_taken_once, pointer_into_a_block_is_no_block, empty_table_has_no_block,
              address_that_is_there_already_gives_its_former_entry, table_agrees_with_a_model_for_adjacent_blocks,
              table_agrees_with_a_model_for_scattered_blocks, table_agrees_with_a_model_in_one_crowded_shard,
              blocks_put_back_into_a_table_that_filled_up_meanwhile_are_found, blocks_that_come_and_go_do_not_grow_the_table,
              graph_blocks_are_counted_apart, block_freed_by_many_threads_is_taken_by_one);
    add_claims(tcase);
    return suite_run(suite);
}
