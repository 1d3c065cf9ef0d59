/* SPDX-License-Identifier: MIT */
/*
 * keeper_clock.c - the keeper by hand: on the simulator's clock, in the thread of the program, the same to the nanosecond in every run.
 *
 * All moments are of the virtual clock, which only this thread moves.
 */
#include <dirent.h>
#include <stdio.h>

#include "lib/base/service.h"
#include "tests/api/scene.h"

#define SECOND (1000 * MILLISECOND)
#define TRIM_NS 930000 /* for each GiB, unless the settings say otherwise */

static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    int count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* What one run sees. */
struct moments {
    uint64_t opened, freed, due, trimmed;
    uint64_t before, after; /* bytes reserved a nanosecond before it was due, and when it had run */
};

static void open_pool(const char *keeper)
{
    char text[256];
    snprintf(text, sizeof text, "weir: 1\nkeeper: %s\npools: { main: { release_threshold: 64MiB, cache: off } }\n", keeper);
    scene_open(text);
}

static void free_a_gib(void)
{
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, GIB));
}

/* Frees a GiB that nobody synchronises, and lets time pass. */
static struct moments trim_once(void)
{
    struct moments at = { 0 };
    scene_begin();
    open_pool("true");
    scene_pass(10 * MILLISECOND); /* the first look, at an empty pool */
    at.opened = scene.gpu->now();
    free_a_gib();
    at.freed = scene.gpu->now();
    at.due = weir__service_next();
    weir__service_pass(at.due - 1);
    at.before = scene_pool_stats("main").reserved;
    weir__service_pass(at.due);
    at.after = scene_pool_stats("main").reserved;
    at.trimmed = scene.gpu->now();
    scene_end();
    return at;
}

START_TEST(pool_is_trimmed_at_the_moment_that_the_keeper_is_due)
{
    struct moments at = trim_once();
    ck_assert_uint_eq(at.due, at.freed + SECOND);
    ck_assert_uint_eq(at.before, GIB);
    ck_assert_uint_eq(at.after, 64 * MIB);
}
END_TEST

START_TEST(second_run_is_the_same_to_the_nanosecond)
{
    struct moments first = trim_once(), second = trim_once();
    ck_assert_mem_eq(&first, &second, sizeof first);
    ck_assert_uint_ge(first.trimmed, first.due + TRIM_NS / 16 * 15);
    ck_assert_uint_lt(first.trimmed, first.due + TRIM_NS);
}
END_TEST

START_TEST(cached_blocks_go_back_within_a_quarter_after_their_idle_time)
{
    scene_open("weir: 1\nkeeper: true\npools: { main: { small_below: 0, release_threshold: all, cache: { idle: 100ms } } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 65536));
    uint64_t freed = scene.gpu->now();
    weir__service_pass(freed + 99 * MILLISECOND);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 65536);
    weir__service_pass(freed + 126 * MILLISECOND);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
}
END_TEST

START_TEST(quiet_keeper_is_never_due)
{
    open_pool("true");
    free_a_gib();
    scene_pass(10 * SECOND);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    ck_assert_uint_eq(weir__service_run_due(), 0);
}
END_TEST

START_TEST(nothing_runs_while_no_time_passes_for_jobs)
{
    open_pool("true");
    free_a_gib();
    sim_advance(10 * SECOND);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, GIB);
    ck_assert_uint_eq(weir__service_run_due(), 1);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
}
END_TEST

START_TEST(no_thread_is_started)
{
    int before = count_threads();
    open_pool("true");
    free_a_gib();
    scene_pass(2 * SECOND);
    ck_assert_int_eq(count_threads(), before);
    scene_close();
    ck_assert_int_eq(count_threads(), before);
}
END_TEST

START_TEST(keeper_that_a_reload_switches_off_is_gone_and_can_come_back)
{
    static const char policy[] = "weir: 1\nkeeper: %s\npools: { main: { release_threshold: 64MiB, cache: off } }\n";
    char text[256];
    open_pool("true");
    free_a_gib();
    snprintf(text, sizeof text, policy, "false");
    scene_reload(text);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    snprintf(text, sizeof text, policy, "true");
    scene_reload(text);
    ck_assert_uint_eq(weir__service_next(), 0);
    weir__service_run_due();
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
    scene_close();
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why || !scene_is_sim())
        return suite_skip(why ? why : "a GPU has its own clock; WEIR_TEST_GPU=sim runs on the simulator");
    Suite *suite = suite_create("keeper by hand");
    TCase *hand = suite_case(suite, "by hand", 0);
    tcase_add_checked_fixture(hand, scene_begin_by_hand, scene_end_by_hand);
    suite_add(hand, pool_is_trimmed_at_the_moment_that_the_keeper_is_due, second_run_is_the_same_to_the_nanosecond,
              cached_blocks_go_back_within_a_quarter_after_their_idle_time, quiet_keeper_is_never_due,
              nothing_runs_while_no_time_passes_for_jobs, no_thread_is_started,
              keeper_that_a_reload_switches_off_is_gone_and_can_come_back);
    return suite_run(suite);
}
