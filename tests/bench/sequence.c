/* SPDX-License-Identifier: MIT */
/* The recorded sequence of RANDOM_ALLOCATIONS: its rules hold for every row that weir-bench measures. */
#include "bench/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static const struct {
    size_t n;
    uint64_t max;
} rows[] = { { 1, 1 },         { 1000, MIB },       { 1000, 64 * MIB },   { 1000, 4096 * MIB }, { 10000, 256 * MIB },
             { 100000, MIB },  { 100000, 4 * MIB }, { 100000, 4096 * MIB } };
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static struct sequence recorded;

static void record(size_t row)
{
    ck_assert(sequence_record(&recorded, rows[row].n, rows[row].max, 1));
}

static void clear(void)
{
    sequence_clear(&recorded);
}

START_TEST(there_are_two_steps_for_each_allocation)
{
    record((size_t)_i);
    ck_assert_uint_eq(recorded.step_count, 2 * rows[_i].n);
}
END_TEST

START_TEST(a_step_allocates_into_an_empty_slot_or_frees_a_live_block)
{
    record((size_t)_i);
    uint64_t *sizes = calloc(recorded.slot_count, sizeof(*sizes));
    for (size_t i = 0; i < recorded.step_count; i++) {
        const struct sequence_step *step = &recorded.steps[i];
        ck_assert_uint_lt(step->slot, recorded.slot_count);
        ck_assert_msg((sizes[step->slot] == 0) == (step->size > 0), "step %zu", i);
        ck_assert_uint_le(step->size, rows[_i].max);
        sizes[step->slot] = step->size;
    }
    free(sizes);
}
END_TEST

START_TEST(live_memory_and_blocks_stay_under_their_bounds)
{
    record((size_t)_i);
    uint64_t *sizes = calloc(recorded.slot_count, sizeof(*sizes)), live = 0, high = 0;
    size_t blocks = 0, blocks_high = 0;
    for (size_t i = 0; i < recorded.step_count; i++) {
        const struct sequence_step *step = &recorded.steps[i];
        live += step->size - sizes[step->slot];
        blocks += step->size ? 1 : -1;
        sizes[step->slot] = step->size;
        ck_assert_uint_le(live, SEQUENCE_LIVE_MAX);
        ck_assert_uint_le(blocks, rows[_i].n);
        high = live > high ? live : high;
        blocks_high = blocks > blocks_high ? blocks : blocks_high;
    }
    free(sizes);
    ck_assert_uint_eq(high, recorded.live_high);
    ck_assert_uint_eq(blocks_high, recorded.live_blocks_high);
}
END_TEST

START_TEST(the_same_seed_records_the_same_sequence)
{
    record((size_t)_i);
    struct sequence again;
    ck_assert(sequence_record(&again, rows[_i].n, rows[_i].max, 1));
    ck_assert_uint_eq(again.step_count, recorded.step_count);
    for (size_t i = 0; i < again.step_count; i++) {
        ck_assert_uint_eq(again.steps[i].size, recorded.steps[i].size);
        ck_assert_uint_eq(again.steps[i].slot, recorded.steps[i].slot);
    }
    sequence_clear(&again);
}
END_TEST

START_TEST(another_seed_records_another_sequence)
{
    record(1);
    struct sequence other;
    ck_assert(sequence_record(&other, rows[1].n, rows[1].max, 2));
    size_t differences = 0;
    for (size_t i = 0; i < other.step_count; i++)
        differences += other.steps[i].size != recorded.steps[i].size;
    ck_assert_uint_gt(differences, other.step_count / 4);
    sequence_clear(&other);
}
END_TEST

/* Small blocks are held back by nothing but the chance of 73 %, so that is what their allocations come to. */
START_TEST(allocations_are_73_per_cent_where_nothing_is_full)
{
    ck_assert(sequence_record(&recorded, 100000, 4096, 1));
    size_t allocations = 0;
    const size_t steps = 100000; /* the first half: after it N blocks may be live */
    for (size_t i = 0; i < steps; i++)
        allocations += recorded.steps[i].size > 0;
    ck_assert_uint_gt(allocations, steps * 72 / 100);
    ck_assert_uint_lt(allocations, steps * 74 / 100);
}
END_TEST

START_TEST(large_blocks_come_close_to_the_bound)
{
    record(3);
    ck_assert_uint_gt(recorded.live_high, SEQUENCE_LIVE_MAX / 10 * 9);
}
END_TEST

START_TEST(a_failed_allocation_frees_the_next_live_block_ahead_of_its_time)
{
    struct sequence_step steps[] = { { 10, 0 }, { 10, 1 }, { 10, 2 }, { 0, 2 }, { 0, 1 }, { 0, 0 } };
    struct sequence sequence = { .step_count = 6, .steps = steps, .slot_count = 3 };
    void *blocks[3] = { steps, steps, NULL };
    ck_assert_uint_eq(sequence_next_free(&sequence, 2, blocks), 4);
    blocks[1] = NULL;
    ck_assert_uint_eq(sequence_next_free(&sequence, 2, blocks), 5);
    blocks[0] = NULL;
    ck_assert_uint_eq(sequence_next_free(&sequence, 2, blocks), 6);
}
END_TEST

/* The library's rule is the generator's published first values, so that a change of it cannot pass as the same sequence. */
START_TEST(the_generator_is_splitmix64)
{
    uint64_t state = 1234567;
    ck_assert_uint_eq(sequence_random(&state), UINT64_C(6457827717110365317));
    ck_assert_uint_eq(sequence_random(&state), UINT64_C(3203168211198807973));
    ck_assert_uint_eq(sequence_random(&state), UINT64_C(9817491932198370423));
}
END_TEST

/* bench/torch/micro.py makes the same sequences for torch's allocators: tests/bench/compare_test.py has the same sums. */
START_TEST(requests_are_those_that_torch_gets)
{
    static const struct {
        size_t n;
        uint64_t max, sum;
    } known[] = { { 1000, MIB, UINT64_C(104951809874400851) },
                  { 1000, 1024 * MIB, UINT64_C(13428540911333931793) },
                  { 10000, 64 * MIB, UINT64_C(962555434324528332) } };
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        uint64_t sum = 0;
        ck_assert(sequence_record(&recorded, known[k].n, known[k].max, 73));
        for (size_t i = 0; i < recorded.step_count; i++)
            sum = sum * 31 + recorded.steps[i].size * 7 + recorded.steps[i].slot;
        ck_assert_uint_eq(sum, known[k].sum);
        clear();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench/sequence");
    TCase *all = suite_case(suite, "sequence", 0);
    tcase_add_checked_fixture(all, NULL, clear);
    tcase_add_loop_test(all, there_are_two_steps_for_each_allocation, 0, ROW_COUNT);
    tcase_add_loop_test(all, a_step_allocates_into_an_empty_slot_or_frees_a_live_block, 0, ROW_COUNT);
    tcase_add_loop_test(all, live_memory_and_blocks_stay_under_their_bounds, 0, ROW_COUNT);
    tcase_add_loop_test(all, the_same_seed_records_the_same_sequence, 0, ROW_COUNT);
    suite_add(all, another_seed_records_another_sequence, allocations_are_73_per_cent_where_nothing_is_full,
              large_blocks_come_close_to_the_bound, a_failed_allocation_frees_the_next_live_block_ahead_of_its_time,
              the_generator_is_splitmix64, requests_are_those_that_torch_gets);
    return suite_run(suite);
}
