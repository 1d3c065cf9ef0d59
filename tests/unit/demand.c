/* SPDX-License-Identifier: MIT */
/* demand.c - what is wanted again, reckoned from epochs alone. */
#include "lib/pool/demand.h"
#include "tests/support/suite.h"

#define GIB (UINT64_C(1) << 30)

/* Keeping a GiB for eight epochs breaks even. */
static const struct weir__demand_costs usual = {.grow = 830000, .trim = 930000, .rent = 220000};
static struct weir__demand demand;

static void begin(void)
{
    weir__demand_begin(&demand);
}

static void add(uint64_t low, uint64_t high, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        weir__demand_add(&demand, low, high, &usual);
}

/* Epochs that pass with `low` in use, until no more than that is wanted. */
static unsigned until_forgotten(uint64_t low, const struct weir__demand_costs *costs)
{
    unsigned epochs = 0;
    while (weir__demand_wanted(&demand) > low) {
        weir__demand_add(&demand, low, low, costs);
        ck_assert_uint_le(++epochs, WEIR__DEMAND_EPOCHS);
    }
    return epochs;
}

START_TEST(nothing_is_wanted_of_a_pool_that_was_never_used)
{
    ck_assert_uint_eq(weir__demand_wanted(&demand), 0);
    add(0, 0, 100);
    ck_assert_uint_eq(weir__demand_wanted(&demand), 0);
}
END_TEST

START_TEST(peak_of_the_present_epoch_is_wanted_again)
{
    add(GIB, 3 * GIB, 1);
    ck_assert_uint_eq(weir__demand_wanted(&demand), 3 * GIB);
}
END_TEST

START_TEST(swing_stands_on_the_highest_floor)
{
    add(0, 4 * GIB, 1);
    add(2 * GIB, 2 * GIB, 1);
    add(0, GIB, 1);
    add(0, 0, 4);
    ck_assert_uint_eq(weir__demand_wanted(&demand), 3 * GIB);
}
END_TEST

START_TEST(peak_is_forgotten_before_a_floor_is)
{
    add(0, GIB, 1);
    ck_assert_uint_eq(until_forgotten(0, &usual), 6);
    weir__demand_begin(&demand);
    add(GIB, GIB, 1);
    ck_assert_uint_gt(until_forgotten(0, &usual), 6);
}
END_TEST

START_TEST(dearer_memory_is_forgotten_sooner)
{
    static const struct weir__demand_costs dear = {.grow = 830000, .trim = 930000, .rent = 1760000};
    weir__demand_add(&demand, GIB, GIB, &dear);
    ck_assert_uint_le(until_forgotten(0, &dear), 2);
}
END_TEST

START_TEST(gap_a_little_longer_than_the_patience_is_learnt)
{
    for (unsigned i = 0; i < 10; i++) {
        add(0, GIB, 1);
        add(0, 0, 7);
    }
    ck_assert_uint_eq(weir__demand_wanted(&demand), GIB);
    add(0, GIB, 1);
    ck_assert_uint_gt(until_forgotten(0, &usual), 8);
}
END_TEST

START_TEST(memory_that_is_never_used_again_soon_is_forgotten_sooner)
{
    for (unsigned i = 0; i < 10; i++) {
        add(0, GIB, 1);
        add(0, 0, 31);
    }
    add(0, GIB, 1);
    ck_assert_uint_le(until_forgotten(0, &usual), 3);
}
END_TEST

START_TEST(what_was_learnt_fades)
{
    for (unsigned i = 0; i < 10; i++) {
        add(0, GIB, 1);
        add(0, 0, 31);
    }
    for (unsigned i = 0; i < 40; i++) {
        add(0, GIB, 1);
        add(0, 0, 5);
    }
    add(0, GIB, 1);
    ck_assert_uint_ge(until_forgotten(0, &usual), 6);
}
END_TEST

START_TEST(largest_figures_do_not_overflow)
{
    add(0, INT64_MAX, 100);
    add(0, 0, 3);
    ck_assert_uint_eq(weir__demand_wanted(&demand), INT64_MAX);
    ck_assert_uint_eq(weir__demand_cost(UINT64_C(1) << 40, 830000), 1024 * UINT64_C(830000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("demand");
    TCase *all = suite_case(suite, "demand", 0);
    tcase_add_checked_fixture(all, begin, NULL);
    suite_add(all, nothing_is_wanted_of_a_pool_that_was_never_used, peak_of_the_present_epoch_is_wanted_again,
              swing_stands_on_the_highest_floor, peak_is_forgotten_before_a_floor_is, dearer_memory_is_forgotten_sooner,
              gap_a_little_longer_than_the_patience_is_learnt, memory_that_is_never_used_again_soon_is_forgotten_sooner,
              what_was_learnt_fades, largest_figures_do_not_overflow);
    return suite_run(suite);
}
