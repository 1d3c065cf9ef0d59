/* SPDX-License-Identifier: MIT */
/* service_hand.c - jobs that run by hand: in the calling thread, by a clock that only this test moves, in the order of their times. */
#include <stdio.h>

#include "lib/base/service.h"
#include "lib/gpu/gpu.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"

static uint64_t clock_now;

static uint64_t now(void)
{
    return clock_now;
}

static void let_pass(uint64_t nanoseconds)
{
    clock_now += nanoseconds;
}

static const struct gpu clock_alone = { .name = "clock", .now = now, .pause = let_pass };

/* A job that writes down when it ran. */
struct hand {
    struct weir__job job;
    char name;
    uint64_t takes, again_after; /* nanoseconds; 0: not again */
    struct weir__job *removes, *wakes;
};

static char seen[256]; /* "a5 b7 " */
static size_t seen_len;

static uint64_t run(struct weir__job *job)
{
    struct hand *hand = (struct hand *)job;
    ck_assert_uint_lt(seen_len, sizeof seen - 32);
    seen_len += (size_t)snprintf(seen + seen_len, sizeof seen - seen_len, "%c%llu ", hand->name, (unsigned long long)weir__service_now());
    let_pass(hand->takes);
    if (hand->removes)
        weir__service_remove(hand->removes);
    hand->removes = NULL;
    if (hand->wakes)
        weir__service_wake(hand->wakes, 0);
    hand->wakes = NULL;
    return hand->again_after ? weir__service_now() + hand->again_after : WEIR__SERVICE_NEVER;
}

static void add(struct hand *hand, char name, uint64_t when)
{
    weir_error error = WEIR_ERROR_INIT;
    hand->job.run = run;
    hand->name = name;
    ck_assert_msg(weir__service_add(&hand->job, &error) == WEIR_OK, "%s", error.text);
    weir__service_wake(&hand->job, when);
}

static void begin(void)
{
    clock_now = 0;
    seen_len = 0;
    *seen = '\0';
    weir__service_by_hand(&clock_alone);
}

static void end(void)
{
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    weir__service_by_hand(NULL);
}

START_TEST(jobs_run_at_their_moments_in_the_order_of_time)
{
    struct hand a = { .again_after = 10 }, b = { .takes = 0 };
    add(&a, 'a', 5);
    add(&b, 'b', 12);
    weir__service_pass(30);
    ck_assert_str_eq(seen, "a5 b12 a15 a25 ");
    ck_assert_uint_eq(clock_now, 30);
    ck_assert_uint_eq(weir__service_next(), 35);
    weir__service_remove(&a.job);
    weir__service_remove(&b.job);
}
END_TEST

START_TEST(nothing_runs_before_its_moment)
{
    struct hand a = { .takes = 0 };
    add(&a, 'a', 5);
    clock_now = 4;
    ck_assert_uint_eq(weir__service_run_due(), 0);
    clock_now = 5;
    ck_assert_uint_eq(weir__service_run_due(), 1);
    ck_assert_uint_eq(weir__service_run_due(), 0);
    weir__service_remove(&a.job);
}
END_TEST

START_TEST(job_that_takes_longer_makes_the_next_late)
{
    struct hand a = { .takes = 100 }, b = { .takes = 0 };
    add(&a, 'a', 5);
    add(&b, 'b', 12);
    weir__service_pass(30);
    ck_assert_str_eq(seen, "a5 b105 ");
    ck_assert_uint_eq(clock_now, 105);
    weir__service_remove(&a.job);
    weir__service_remove(&b.job);
}
END_TEST

START_TEST(time_that_has_passed_is_no_time_to_wait_for)
{
    clock_now = 50;
    weir__service_pass(20);
    ck_assert_uint_eq(clock_now, 50);
}
END_TEST

START_TEST(job_that_always_wants_to_run_ends_a_look)
{
    struct hand a = { .takes = 0 }, b = { .takes = 0 };
    a.wakes = &a.job;
    add(&a, 'a', 0);
    add(&b, 'b', 0);
    ck_assert_uint_eq(weir__service_run_due(), 2);
    ck_assert_uint_eq(weir__service_next(), 0);
    ck_assert_uint_eq(weir__service_run_due(), 1);
    weir__service_remove(&a.job);
    weir__service_remove(&b.job);
}
END_TEST

START_TEST(removed_job_does_not_run_and_a_job_may_remove_another)
{
    struct hand a = { .takes = 0 }, b = { .takes = 0 }, c = { .takes = 0 };
    add(&c, 'c', 3);
    add(&b, 'b', 2);
    add(&a, 'a', 1);
    weir__service_remove(&b.job);
    a.removes = &c.job;
    weir__service_pass(10);
    ck_assert_str_eq(seen, "a1 ");
    weir__service_remove(&a.job);
}
END_TEST

START_TEST(adding_by_hand_takes_no_memory)
{
    struct hand a = { .job = { .run = run } };
    long before = fail_malloc_live();
    weir_status status = weir__service_add(&a.job, NULL);
    long after = fail_malloc_live();
    ck_assert_int_eq(status, WEIR_OK);
    ck_assert_int_eq(after, before);
    weir__service_remove(&a.job);
}
END_TEST

START_TEST(clock_is_the_real_one_again_afterwards)
{
    weir__service_by_hand(NULL);
    ck_assert_uint_gt(weir__service_now(), 0);
    weir__service_by_hand(&clock_alone);
    ck_assert_uint_eq(weir__service_now(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service by hand");
    TCase *hand = suite_case(suite, "by hand", 0);
    tcase_add_checked_fixture(hand, begin, end);
    suite_add(hand, jobs_run_at_their_moments_in_the_order_of_time, nothing_runs_before_its_moment, job_that_takes_longer_makes_the_next_late,
              time_that_has_passed_is_no_time_to_wait_for, job_that_always_wants_to_run_ends_a_look,
              removed_job_does_not_run_and_a_job_may_remove_another, adding_by_hand_takes_no_memory, clock_is_the_real_one_again_afterwards);
    return suite_run(suite);
}
