/* SPDX-License-Identifier: MIT */
/* top_model.c - what `weir top` makes of one look at the processes after another. */
#include "config.h"

#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/top_data.h"

static struct top_model model;

static void open_model(void)
{
    model = (struct top_model)TOP_MODEL_INIT;
    top_data_clear();
}

static void close_model(void)
{
    top_model_free(&model);
}

static void look(void)
{
    top_model_look(&model, top_data_look());
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
    ck_assert_int_eq(model.processes[0].pid, first);
    ck_assert_int_eq(model.processes[1].pid, second);
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

START_TEST(numbers_and_names_begin_with_the_smallest)
{
    look_at_two();
    top_model_sort(&model, TOP_BY_PID);
    expect_order(10, 20);
    top_model_sort(&model, TOP_BY_NAME);
    expect_order(20, 10);
}
END_TEST

START_TEST(the_same_order_again_is_turned_round)
{
    look_at_two();
    top_model_sort(&model, TOP_BY_RESERVED);
    expect_order(10, 20);
    top_model_sort(&model, TOP_BY_RESERVED);
    expect_order(20, 10);
}
END_TEST

START_TEST(pools_of_a_process_are_ordered_too)
{
    look_at_two();
    ck_assert_str_eq(model.processes[0].sorted[0]->now.name, "two");
    top_model_sort(&model, TOP_BY_LIVE);
    ck_assert_str_eq(model.processes[1].sorted[0]->now.name, "one");
}
END_TEST

START_TEST(pools_stand_as_told_where_the_order_is_not_by_size)
{
    look_at_two();
    top_model_sort(&model, TOP_BY_PID);
    ck_assert_str_eq(model.processes[1].sorted[0]->now.name, "one");
}
END_TEST

START_TEST(sums_are_over_all_that_answer)
{
    look_at_two();
    ck_assert_uint_eq(model.sums.reserved, 448 * MIB);
    ck_assert_uint_eq(model.sums.live, 72 * MIB);
    top_data_hang(&top_data_look()->items[1]);
    look();
    ck_assert_uint_eq(model.sums.reserved, 64 * MIB);
}
END_TEST

START_TEST(deeds_are_summed_over_rungs_and_processes)
{
    look_at_two();
    for (int i = 0; i < 2; i++) {
        process_device *device = top_data_look()->items[i].devices;
        device->rescues[0] = 1;
        device->rescues[WIRE_RUNGS - 1] = 2;
        device->asks_received = 5;
        device->bytes_given = 7;
    }
    look();
    ck_assert_uint_eq(model.processes[0].deeds[0].rescues, 3);
    ck_assert_uint_eq(model.deeds.rescues, 6);
    ck_assert_uint_eq(model.deeds.was_asked, 10);
    ck_assert_uint_eq(model.deeds.gave, 14);
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
    ck_assert_uint_eq(model.processes[0].sorted[0]->device, 0);
    ck_assert_uint_eq(model.processes[1].sorted[0]->device, 1);
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
    ck_assert_str_eq(model.processes[1].program, "large");
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
    ck_assert_str_eq(model.processes[1].reason, "it hangs");
    ck_assert_str_eq(model.processes[1].program, "large");
}
END_TEST

START_TEST(one_that_answers_again_has_its_history)
{
    look_at_two();
    top_data_hang(&top_data_look()->items[1]);
    look();
    look_at_two();
    ck_assert_uint_eq(model.processes[0].sorted[0]->looks, 2);
}
END_TEST

START_TEST(history_follows_a_pool_through_changes_of_order)
{
    for (uint64_t i = 1; i <= 3; i++) {
        top_data_clear();
        struct process *process = top_data_process(10, "one", "a");
        top_data_pool(process, "rising", i * MIB, i);
        top_data_pool(process, "falling", (4 - i) * MIB, 0);
        look();
    }
    const struct top_pool *rising = model.processes[0].sorted[0];
    ck_assert_str_eq(rising->now.name, "rising");
    ck_assert_uint_eq(rising->looks, 3);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_uint_eq(rising->reserved[i - 1], i * MIB);
        ck_assert_uint_eq(rising->live[i - 1], i);
    }
}
END_TEST

START_TEST(private_pools_of_one_name_keep_histories_of_their_own)
{
    for (uint64_t i = 1; i <= 2; i++) {
        top_data_clear();
        struct process *process = top_data_process(10, "one", "a");
        for (uint64_t j = 1; j <= 2; j++)
            top_data_pool(process, "same", j * 10 * MIB + i, 0)->flags = WIRE_POOL_PRIVATE;
        look();
    }
    const struct top_pool *pools = model.processes[0].pools;
    for (uint64_t j = 1; j <= 2; j++) {
        ck_assert_uint_eq(pools[j - 1].reserved[0], j * 10 * MIB + 1);
        ck_assert_uint_eq(pools[j - 1].reserved[1], j * 10 * MIB + 2);
    }
}
END_TEST

START_TEST(history_forgets_what_is_too_long_ago)
{
    top_data_pool(top_data_process(10, "one", "a"), "one", 0, 0);
    for (uint64_t i = 0; i <= TOP_HISTORY; i++) {
        top_data_look()->items[0].pools[0].reserved = i;
        look();
    }
    const struct top_pool *pool = &model.processes[0].pools[0];
    ck_assert_uint_eq(pool->looks, TOP_HISTORY + 1);
    ck_assert_uint_eq(pool->reserved[0], TOP_HISTORY);
    ck_assert_uint_eq(pool->reserved[1], 1);
}
END_TEST

START_TEST(names_from_outside_give_the_terminal_no_orders)
{
    top_data_process(10, "a\033[2Jb\xc3\xa4", "a");
    look();
    ck_assert_str_eq(model.processes[0].program, "a?[2Jb??");
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
    tcase_add_test(tcase, processes_are_ordered_by_what_they_reserve);
    tcase_add_test(tcase, another_order_is_taken_at_once_and_kept);
    tcase_add_test(tcase, numbers_and_names_begin_with_the_smallest);
    tcase_add_test(tcase, the_same_order_again_is_turned_round);
    tcase_add_test(tcase, pools_of_a_process_are_ordered_too);
    tcase_add_test(tcase, pools_stand_as_told_where_the_order_is_not_by_size);
    tcase_add_test(tcase, sums_are_over_all_that_answer);
    tcase_add_test(tcase, deeds_are_summed_over_rungs_and_processes);
    tcase_add_test(tcase, a_device_of_several_processes_is_one);
    tcase_add_test(tcase, devices_are_told_apart_by_uuid_though_each_is_the_process_s_first);
    tcase_add_test(tcase, a_process_that_vanished_is_gone_once);
    tcase_add_test(tcase, a_process_that_comes_back_is_gone_no_more);
    tcase_add_test(tcase, one_that_does_not_answer_says_why_and_stands_last);
    tcase_add_test(tcase, one_that_answers_again_has_its_history);
    tcase_add_test(tcase, history_follows_a_pool_through_changes_of_order);
    tcase_add_test(tcase, private_pools_of_one_name_keep_histories_of_their_own);
    tcase_add_test(tcase, history_forgets_what_is_too_long_ago);
    tcase_add_test(tcase, names_from_outside_give_the_terminal_no_orders);
    tcase_add_test(tcase, weirs_of_one_process_are_two);
    return suite_run(suite);
}
