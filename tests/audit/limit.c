/* SPDX-License-Identifier: MIT */
#include <check.h>

#include "audit/limit.h"
#include "tests/support/suite.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define US UINT64_C(1000)

static struct limit limit;

static void fresh(void)
{
    limit_init(&limit);
}

START_TEST(nothing_is_said_where_nothing_is_known)
{
    ck_assert(!limit_is_exceeded(&limit, MIB, UINT64_MAX));
}
END_TEST

START_TEST(first_call_behind_a_learned_one_is_judged)
{
    limit_learn(&limit, 2 * MIB, 50 * US);
    ck_assert(limit_is_exceeded(&limit, 2 * MIB, 20000 * US));
    ck_assert(!limit_is_exceeded(&limit, 2 * MIB, 200 * US));
}
END_TEST

START_TEST(smaller_blocks_have_the_same_limit)
{
    limit_learn(&limit, 2 * MIB, 50 * US);
    ck_assert(!limit_is_exceeded(&limit, 1, 200 * US));
    ck_assert(limit_is_exceeded(&limit, 1, 201 * US + 4));
}
END_TEST

START_TEST(larger_blocks_may_take_longer_by_as_much_as_they_are_larger)
{
    limit_learn(&limit, 2 * MIB, 50 * US);
    ck_assert(!limit_is_exceeded(&limit, 1024 * MIB, 4 * 512 * 50 * US));
    ck_assert(limit_is_exceeded(&limit, 1024 * MIB, 4 * 512 * 50 * US + 4));
}
END_TEST

START_TEST(calls_that_waited_do_not_loosen_it)
{
    limit_learn(&limit, MIB, 50 * US);
    limit_learn(&limit, MIB, 50000 * US);
    ck_assert(limit_is_exceeded(&limit, MIB, 1000 * US));
}
END_TEST

START_TEST(large_block_bounds_smaller_ones)
{
    limit_learn(&limit, 1024 * MIB, 300 * US);
    limit_learn(&limit, 1, 1000 * US);
    ck_assert(limit_is_exceeded(&limit, 1, 1201 * US));
}
END_TEST

START_TEST(sizes_and_times_at_their_ends_do_not_overflow)
{
    limit_learn(&limit, 1, UINT64_MAX);
    limit_learn(&limit, 0, UINT64_C(1) << 62);
    ck_assert(!limit_is_exceeded(&limit, UINT64_MAX, UINT64_MAX));
    limit_learn(&limit, UINT64_MAX, 1);
    ck_assert(limit_is_exceeded(&limit, 0, 8));
}
END_TEST

START_TEST(pages_of_the_process_are_a_first_limit)
{
    limit_learn_pages(&limit);
    ck_assert(limit_is_exceeded(&limit, 1, UINT64_MAX));
    ck_assert(!limit_is_exceeded(&limit, 256 * KIB, 0));
}
END_TEST

START_TEST(first_piece_of_fetched_memory_is_known_by_its_address)
{
    ck_assert(limit_is_fetched(UINT64_C(0x7f0000200000)));
    ck_assert(!limit_is_fetched(UINT64_C(0x7f0000200200)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit");
    TCase *limits = suite_case(suite, "limits", 0);
    tcase_add_checked_fixture(limits, fresh, NULL);
    suite_add(limits, nothing_is_said_where_nothing_is_known, first_call_behind_a_learned_one_is_judged, smaller_blocks_have_the_same_limit,
              larger_blocks_may_take_longer_by_as_much_as_they_are_larger, calls_that_waited_do_not_loosen_it, large_block_bounds_smaller_ones,
              sizes_and_times_at_their_ends_do_not_overflow, pages_of_the_process_are_a_first_limit,
              first_piece_of_fetched_memory_is_known_by_its_address);
    return suite_run(suite);
}
