/* SPDX-License-Identifier: MIT */
/* top_model.c - what `weir top` makes of one look at the processes after another. */
#include "config.h"

#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/top_data.h"

static struct top_model model;
static uint64_t now; /* one second further on with each look */

static void open_model(void)
{
    model = (struct top_model){0};
    top_data_clear();
}

static void close_model(void)
{
    top_model_free(&model);
}

static void look(void)
{
    now += UINT64_C(1000000000);
    top_model_look(&model, top_data_seen(), now);
}

/* Two processes, of which the second has more. */
static void look_at_two(void)
{
    top_data_clear();
    struct process *small = top_data_process(10, "small", "a"), *large = top_data_process(20, "large", "a");
    top_data_pool(small, "one", 64 * MIB, 60 * MIB);
    top_data_pool(large, "one", 128 * MIB, 8 * MIB);
    top_data_pool(large, "two", 256 * MIB, 4 * MIB);
    look();
}

static void expect_order(int first, int second)
{
    ck_assert_uint_eq(model.process_count, 2);
    ck_assert_int_eq(model.processes[0].now.pid, first);
    ck_assert_int_eq(model.processes[1].now.pid, second);
}

START_TEST(processes_are_ordered_by_what_they_reserve)
{
    look_at_two();
    expect_order(20, 10);
}
END_TEST

START_TEST(another_order_is_taken_at_once_and_kept)
{
    look_at_two();
    top_model_sort(&model, TOP_BY_LIVE);
    expect_order(10, 20);
    look_at_two();
    expect_order(10, 20);
}
END_TEST

START_TEST(process_numbers_begin_with_the_smallest)
{
    look_at_two();
    top_model_sort(&model, TOP_BY_PID);
    expect_order(10, 20);
}
END_TEST

START_TEST(pools_stand_as_told_in_any_order)
{
    look_at_two();
    for (enum top_sort sort = TOP_BY_RESERVED; sort < TOP_BY_PID; sort++) {
        top_model_sort(&model, sort);
        const struct top_process *large = &model.processes[model.processes[0].now.pid == 20 ? 0 : 1];
        ck_assert_str_eq(large->now.pools[0].name, "one");
        ck_assert_str_eq(large->now.pools[1].name, "two");
    }
}
END_TEST

START_TEST(sums_are_over_all_that_answer)
{
    look_at_two();
    ck_assert_uint_eq(model.devices[0].sums.reserved, 448 * MIB);
    ck_assert_uint_eq(model.devices[0].sums.live, 72 * MIB);
    ck_assert_uint_eq(model.devices[0].sums.idle, 376 * MIB);
    top_data_hang(&top_data_look()->items[1]);
    look();
    ck_assert_uint_eq(model.devices[0].sums.reserved, 64 * MIB);
}
END_TEST

/* One process with two private pools of one name, which served so many requests until now. */
static void look_at_private(uint64_t first, uint64_t second)
{
    top_data_clear();
    struct process *process = top_data_process(10, "one", "a");
    const uint64_t served[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        process_pool *pool = top_data_pool(process, "same", MIB, 0);
        pool->flags = WIRE_POOL_PRIVATE;
        pool->mallocs = served[i];
    }
    look();
}

START_TEST(a_rate_is_what_was_served_since_the_look_before)
{
    look_at_private(100, 2000);
    ck_assert(model.processes[0].rates[0] < 0 && model.processes[0].sums.rate == 0);
    now += UINT64_C(1000000000); /* the next look comes two seconds later */
    look_at_private(150, 2600);
    ck_assert(model.processes[0].rates[0] == 25 && model.processes[0].rates[1] == 300);
    ck_assert(model.processes[0].sums.rate == 325 && model.devices[0].sums.rate == 325);
}
END_TEST

START_TEST(a_rate_is_not_known_after_a_silence_or_a_new_beginning)
{
    look_at_private(100, 2000);
    look_at_private(50, 2001);
    ck_assert(model.processes[0].rates[0] < 0 && model.processes[0].rates[1] == 1);
    top_data_hang(&top_data_look()->items[0]);
    look();
    look_at_private(100, 2002);
    ck_assert(model.processes[0].rates[0] < 0 && model.processes[0].rates[1] < 0);
}
END_TEST

START_TEST(processes_are_ordered_by_what_they_serve)
{
    for (uint64_t served = 0; served < 2; served++) {
        look_at_two();
        top_data_look()->items[0].pools[0].mallocs = served;
        look();
    }
    top_model_sort(&model, TOP_BY_RATE);
    expect_order(10, 20);
}
END_TEST

START_TEST(a_device_of_several_processes_is_one)
{
    look_at_two();
    ck_assert_uint_eq(model.device_count, 1);
    ck_assert_uint_eq(model.devices[0].sums.reserved, 448 * MIB);
    ck_assert_uint_eq(model.devices[0].memory_free, 512 * MIB);
}
END_TEST

START_TEST(devices_are_told_apart_by_uuid_though_each_is_the_process_s_first)
{
    top_data_pool(top_data_process(10, "b", "b"), "one", 3 * MIB, 0);
    top_data_pool(top_data_process(20, "a", "a"), "one", 5 * MIB, 0);
    look();
    ck_assert_uint_eq(model.device_count, 2);
    ck_assert_str_eq(model.devices[0].uuid, "GPU-a");
    ck_assert_uint_eq(model.devices[0].sums.reserved, 5 * MIB);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(top_model_device(&model, &model.processes[i], &model.processes[i].now.pools[0]), i);
}
END_TEST

START_TEST(a_process_that_vanished_is_gone_once)
{
    look_at_two();
    top_data_clear();
    top_data_pool(top_data_process(10, "small", "a"), "one", 64 * MIB, 0);
    look();
    expect_order(10, 20);
    ck_assert(model.processes[1].is_gone);
    ck_assert_str_eq(model.processes[1].now.program, "large");
    look();
    ck_assert_uint_eq(model.process_count, 1);
}
END_TEST

START_TEST(a_process_that_comes_back_is_gone_no_more)
{
    look_at_two();
    top_data_clear();
    look();
    ck_assert(model.processes[0].is_gone && model.processes[1].is_gone);
    look_at_two();
    expect_order(20, 10);
    ck_assert(!model.processes[0].is_gone && model.processes[0].has_answered);
}
END_TEST

START_TEST(one_that_does_not_answer_says_why_and_stands_last)
{
    look_at_two();
    top_data_hang(&top_data_look()->items[1]);
    look();
    expect_order(10, 20);
    ck_assert(!model.processes[1].has_answered);
    ck_assert_str_eq(model.processes[1].now.reason, "it hangs");
    ck_assert_str_eq(model.processes[1].now.program, "large");
}
END_TEST

START_TEST(names_from_outside_give_the_terminal_no_orders)
{
    top_data_process(10, "a\033[2Jb\xc3\xa4", "a");
    look();
    ck_assert_str_eq(model.processes[0].now.program, "a?[2Jb??");
}
END_TEST

START_TEST(weirs_of_one_process_are_two)
{
    struct process *first = top_data_process(10, "one", "a"), *second = top_data_process(10, "one", "a");
    first->has_siblings = second->has_siblings = true;
    second->number = 2;
    strcpy(second->socket, "/run/10.2");
    top_data_pool(first, "one", MIB, 0);
    look();
    expect_order(10, 10);
    ck_assert_str_eq(model.processes[0].name, "10.1");
    ck_assert_str_eq(model.processes[1].name, "10.2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("top_model");
    TCase *tcase = suite_case(suite, "model", 0);
    tcase_add_checked_fixture(tcase, open_model, close_model);
    suite_add(tcase, processes_are_ordered_by_what_they_reserve, another_order_is_taken_at_once_and_kept,
              process_numbers_begin_with_the_smallest, pools_stand_as_told_in_any_order, sums_are_over_all_that_answer,
              a_rate_is_what_was_served_since_the_look_before, a_rate_is_not_known_after_a_silence_or_a_new_beginning,
              processes_are_ordered_by_what_they_serve, a_device_of_several_processes_is_one,
              devices_are_told_apart_by_uuid_though_each_is_the_process_s_first, a_process_that_vanished_is_gone_once,
              a_process_that_comes_back_is_gone_no_more, one_that_does_not_answer_says_why_and_stands_last,
              names_from_outside_give_the_terminal_no_orders, weirs_of_one_process_are_two);
    return suite_run(suite);
}
