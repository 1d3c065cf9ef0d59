/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - what the keeper gives back, what it leaves, and that it does nothing where there is nothing to do. Runs on the simulator and
 * on a GPU. Nothing here depends on how fast anything is: what must happen is waited for until the suite's time limit.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/pool/weir_internal.h"
#include "tests/api/scene.h"

#define KIB (UINT64_C(1) << 10)

/* No block of the tests of pool memory is small enough for it; but the keeper looks every few milliseconds. */
#define QUICK "{ idle: 10ms }"

static const char policy_format[] = "weir: 1\nkeeper: %s\npools: { main: { small_below: 0, release_threshold: %s, cache: %s } }\n";

static void open_policy(const char *keeper, const char *threshold, const char *cache)
{
    char text[512];
    snprintf(text, sizeof text, policy_format, keeper, threshold, cache);
    scene_open(text);
}

static void reload_policy(const char *keeper, const char *cache)
{
    char text[512];
    snprintf(text, sizeof text, policy_format, keeper, "all", cache);
    scene_reload(text);
}

static void fill(weir_stream *s, uint64_t size, unsigned count)
{
    void *ptrs[64];
    for (unsigned i = 0; i < count; i++)
        ptrs[i] = scene_malloc(s, size);
    for (unsigned i = 0; i < count; i++)
        scene_free(s, ptrs[i]);
}

static void pass_time(void)
{
    usleep(1000);
}

static void await_cached(uint64_t bytes)
{
    while (scene_pool_stats("main").cached != bytes)
        pass_time();
}

/* Blocks leave the cache before CUDA gets them. */
static void await_used(uint64_t bytes)
{
    while (scene_pool_stats("main").used != bytes)
        pass_time();
}

static void await_reserved(uint64_t most)
{
    while (scene_pool_stats("main").reserved > most)
        pass_time();
}

/* Until the keeper has looked at everything once more: it has when the thread, which does one thing after another, woke up twice. */
static void await_look(void)
{
    uint64_t before = weir__service_wakeups();
    while (weir__service_wakeups() < before + 2) {
        weir__service_wake(&scene.w->keeper.job, 0);
        pass_time();
    }
}

/* Until the service thread sleeps for good. A thread that wakes up every few milliseconds never does. */
static void await_rest(void)
{
    uint64_t before;
    do {
        before = weir__service_wakeups();
        usleep(100000);
    } while (weir__service_wakeups() != before);
}

/* Threads of this process that have the service thread's name. */
static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    int count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        count += fgets(name, sizeof name, file) && strcmp(name, "weir\n") == 0;
        fclose(file);
    }
    closedir(dir);
    return count;
}

/* Cached blocks ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(cached_blocks_go_back_once_they_were_not_used_for_idle)
{
    open_policy("true", "all", "{ idle: 10ms }");
    fill(scene_create(NULL), 64 * KIB, 32);
    await_cached(0);
    await_used(0);
}
END_TEST

START_TEST(blocks_cached_later_go_back_too)
{
    open_policy("true", "all", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    for (unsigned i = 1; i <= 3; i++) {
        fill(s, 64 * KIB, i);
        await_cached(0);
        await_rest();
    }
}
END_TEST

START_TEST(caches_of_many_streams_go_back)
{
    open_policy("true", "all", "{ idle: 10ms }");
    for (size_t i = 0; i < 70; i++)
        fill(scene_create(NULL), 64 * KIB, 1);
    await_cached(0);
}
END_TEST

START_TEST(blocks_that_nobody_needs_go_back_while_their_stream_is_busy_with_one)
{
    open_policy("true", "all", "{ idle: 20ms }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 32);
    while (scene_pool_stats("main").cached > 64 * KIB)
        fill(s, 64 * KIB, 1);
}
END_TEST

START_TEST(live_blocks_stay)
{
    open_policy("true", "none", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    fill(s, 64 * KIB, 8);
    await_cached(0);
    await_look();
    ck_assert_uint_eq(scene_pool_stats("main").live, 64 * KIB);
    scene_free(s, ptr);
}
END_TEST

START_TEST(blocks_stay_until_idle_has_passed)
{
    open_policy("true", "all", "{ idle: 60m }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 8);
    for (int i = 0; i < 8; i++)
        await_look();
    ck_assert_uint_eq(scene_pool_stats("main").cached, 8 * 64 * KIB);
}
END_TEST

START_TEST(cache_that_was_emptied_by_hand_is_looked_at_again_when_it_fills)
{
    open_policy("true", "all", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 1);
    void *ptr = scene_malloc(s, 64 * KIB);
    await_rest();
    scene_free(s, ptr);
    await_cached(0);
}
END_TEST

START_TEST(stream_that_is_closed_meanwhile_does_no_harm)
{
    open_policy("true", "all", "{ idle: 10ms }");
    for (size_t i = 0; i < 200; i++) {
        weir_stream *s = scene_create(NULL);
        fill(s, 64 * KIB, 4);
        if (i % 4 == 0)
            pass_time();
        weir_stream_close(s);
    }
    ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    ck_assert_uint_eq(atomic_load(&scene.log_lines), 0);
}
END_TEST

/* Pool memory ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(idle_memory_goes_back_although_nothing_synchronises)
{
    open_policy("true", "none", "off");
    fill(scene_create(NULL), 64 * MIB, 4);
    await_reserved(0);
}
END_TEST

START_TEST(idle_memory_above_the_threshold_goes_back)
{
    open_policy("true", "64MiB", QUICK);
    fill(scene_create(NULL), 64 * MIB, 4);
    await_reserved(64 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
}
END_TEST

START_TEST(idle_memory_below_the_threshold_stays)
{
    open_policy("true", "256MiB", QUICK);
    fill(scene_create(NULL), 64 * MIB, 4);
    await_look();
    await_rest();
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 256 * MIB);
}
END_TEST

START_TEST(with_the_threshold_all_everything_stays)
{
    open_policy("true", "all", QUICK);
    fill(scene_create(NULL), 64 * MIB, 4);
    await_look();
    await_rest();
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 256 * MIB);
}
END_TEST

START_TEST(memory_of_cached_blocks_goes_back_after_them)
{
    open_policy("true", "none", "{ largest: 16MiB, idle: 10ms }");
    fill(scene_create(NULL), 16 * MIB, 4);
    await_reserved(0);
}
END_TEST

START_TEST(memory_freed_on_a_stream_that_was_never_opened_goes_back)
{
    open_policy("true", "none", QUICK);
    gpu_stream raw = scene_stream(0);
    scene_free_on(raw, scene_malloc_on(raw, 256 * MIB));
    await_reserved(0);
}
END_TEST

START_TEST(memory_freed_behind_a_kernel_goes_back_after_it)
{
    open_policy("true", "none", QUICK);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 256 * MIB);
    scene_delay(weir_stream_handle(s), 20);
    scene_free(s, ptr);
    await_reserved(0);
}
END_TEST

START_TEST(live_memory_above_the_threshold_stays)
{
    open_policy("true", "none", QUICK);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * MIB);
    fill(s, 64 * MIB, 2);
    await_reserved(64 * MIB);
    await_look();
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
    scene_free(s, ptr);
}
END_TEST

/* Rest -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(process_that_does_nothing_has_no_wake_ups)
{
    open_policy("true", "none", "{ idle: 10ms }");
    scene_create(NULL);
    await_rest();
}
END_TEST

START_TEST(wake_ups_end_once_everything_went_back)
{
    open_policy("true", "none", "{ largest: 16MiB, idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    fill(s, 16 * MIB, 4);
    fill(s, 64 * MIB, 1);
    await_reserved(0);
    await_rest();
}
END_TEST

START_TEST(wake_ups_end_although_memory_below_the_threshold_stays)
{
    open_policy("true", "128MiB", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 16 * MIB);
    fill(s, 64 * MIB, 4);
    await_reserved(128 * MIB);
    await_rest();
    scene_free(s, ptr);
}
END_TEST

/* A block that shares its step with idle memory pins it: there is nothing to give back, now or later. */
START_TEST(wake_ups_end_although_a_live_block_pins_memory)
{
    open_policy("true", "none", QUICK);
    weir_stream *s = scene_create(NULL);
    void *large = scene_malloc(s, 31 * MIB), *pin = scene_malloc(s, 512 * KIB), *more = scene_malloc(s, 64 * MIB);
    scene_free(s, large);
    scene_free(s, more);
    await_reserved(32 * MIB);
    await_rest();
    scene_free(s, pin);
}
END_TEST

START_TEST(wake_ups_end_although_a_private_pool_is_parked)
{
    scene_open("weir: 1\nkeeper: true\npools: { main: { small_below: 0, cache: " QUICK " } }\n"
               "streams: { own: { pool: main, private: true } }\n");
    weir_stream *s = NULL;
    scene_ok(weir_stream_create(scene.w, 0, "own", NULL, &s), "weir_stream_create");
    fill(s, 64 * MIB, 1);
    weir_stream_close(s);
    await_rest();
}
END_TEST

START_TEST(pairs_that_the_cache_serves_wake_nobody_but_for_what_is_due)
{
    open_policy("true", "all", "{ idle: 60m }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 1);
    uint64_t before = weir__service_wakeups();
    for (unsigned i = 0; i < 1000; i++)
        fill(s, 64 * KIB, 1);
    ck_assert_uint_le(weir__service_wakeups() - before, 900);
}
END_TEST

/* Captures ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(capturing_stream_keeps_its_cache_and_its_capture)
{
    size_t nodes;
    open_policy("true", "all", "{ largest: 16MiB, idle: 60m }");
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    fill(captured, 64 * KIB, 1);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(captured), GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    reload_policy("true", "{ largest: 16MiB, idle: 10ms }");
    /* CUDA allows the thread of a global capture no request of its own. */
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    fill(s, 16 * MIB, 4);
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    while (scene_pool_stats("main").cached > 64 * KIB)
        pass_time();
    for (int i = 0; i < 8; i++)
        await_look();
    uint64_t left = scene_pool_stats("main").cached;
    int code = scene.gpu->capture_end(weir_stream_handle(captured), &nodes);
    ck_assert_msg(code == GPU_SUCCESS, "the capture ended with %s", scene.gpu->code_name(code));
    ck_assert_uint_eq(left, 64 * KIB);
    await_cached(0);
}
END_TEST

START_TEST(pool_memory_goes_back_beside_a_global_capture)
{
    size_t nodes;
    open_policy("true", "none", QUICK);
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    fill(s, 64 * MIB, 4);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(captured), GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    await_reserved(0);
    int code = scene.gpu->capture_end(weir_stream_handle(captured), &nodes);
    ck_assert_msg(code == GPU_SUCCESS, "the capture ended with %s", scene.gpu->code_name(code));
}
END_TEST

/* On and off -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(without_keeper_there_is_no_thread)
{
    open_policy("false", "none", "{ idle: 10ms }");
    fill(scene_create(NULL), 64 * KIB, 4);
    ck_assert_int_eq(count_threads(), 0);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 4 * 64 * KIB);
}
END_TEST

START_TEST(keeper_switched_on_by_reload_looks_at_streams_already_open)
{
    open_policy("false", "all", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    reload_policy("true", "{ idle: 10ms }");
    fill(s, 64 * KIB, 4);
    await_cached(0);
}
END_TEST

START_TEST(threshold_that_is_lowered_gives_back_what_is_idle_already)
{
    open_policy("true", "all", QUICK);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 256 * MIB));
    await_look();
    ck_assert_uint_gt(scene_pool_stats("main").reserved, 0);
    ck_assert_int_eq(weir_pool_set_release_threshold(scene.pool, 0, NULL), WEIR_OK);
    await_reserved(0);
}
END_TEST

START_TEST(keeper_switched_off_by_reload_looks_at_nothing_more)
{
    open_policy("true", "all", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 4);
    reload_policy("false", "{ idle: 10ms }");
    while (count_threads() > 0)
        pass_time();
    fill(s, 64 * KIB, 4);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 4 * 64 * KIB);
}
END_TEST

START_TEST(keeper_switched_off_and_on_again_works)
{
    open_policy("true", "all", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < 3; i++) {
        reload_policy("false", "{ idle: 10ms }");
        reload_policy("true", "{ idle: 10ms }");
        fill(s, 64 * KIB, 4);
        await_cached(0);
    }
}
END_TEST

START_TEST(idle_shortened_by_reload_holds_for_what_comes_then)
{
    open_policy("true", "all", "{ idle: 60m }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 4);
    reload_policy("true", "{ idle: 10ms }");
    fill(s, 64 * KIB, 4);
    await_cached(0);
}
END_TEST

START_TEST(close_stops_the_keeper)
{
    open_policy("true", "none", "{ idle: 10ms }");
    fill(scene_create(NULL), 64 * KIB, 32);
    scene_close();
    while (count_threads() > 0)
        pass_time();
}
END_TEST

START_TEST(keeper_of_one_weir_outlives_another)
{
    open_policy("true", "all", "{ idle: 10ms }");
    weir *first = scene.w;
    open_policy("true", "all", "{ idle: 10ms }");
    weir *second = scene.w;
    weir_close(first);
    scene.w = second;
    fill(scene_create(NULL), 64 * KIB, 4);
    await_cached(0);
}
END_TEST

/* Processes that end or fork; CUDA works in no child of one that has used it ----------------------------------------------------------- */

/* Runs the function in a child, which has a minute, and returns its exit status, or -1 if a signal ended it. */
static int in_child(void (*fn)(void))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm(60);
        fn();
        _exit(100);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Called after the service's handler, which is registered later: the thread is gone by then. Ends the child before libcheck's handlers. */
static void judge(void)
{
    while (count_threads() > 0)
        pass_time();
    _exit(7);
}

static void exit_without_close(void)
{
    scene_begin();
    atexit(judge);
    open_policy("true", "none", "{ idle: 10ms }");
    fill(scene_create(NULL), 64 * KIB, 32);
    exit(0);
}

START_TEST(exit_without_close_stops_the_keeper)
{
    ck_assert_int_eq(in_child(exit_without_close), 7);
}
END_TEST

static void use_in_child(void)
{
    void *ptr;
    weir_stats *stats;
    weir_stream *s = scene.w->devices[0].streams;
    bool right = weir_stream_malloc(s, &ptr, 64 * KIB) == WEIR_FORKED && weir_stats_take(scene.w, NULL, &stats) == WEIR_FORKED &&
                 weir_reload(scene.w, NULL, NULL) == WEIR_FORKED && count_threads() == 0;
    weir_stream_close(s);
    weir_close(scene.w);
    _exit(right ? 7 : 1);
}

START_TEST(forked_child_has_no_keeper_and_touches_nothing)
{
    open_policy("true", "none", "{ idle: 10ms }");
    weir_stream *s = scene_create(NULL);
    fill(s, 64 * KIB, 32);
    ck_assert_int_eq(in_child(use_in_child), 7);
    fill(s, 64 * KIB, 32);
    await_cached(0);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------------------------------------- */

static TCase *keeper_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    return tcase;
}

static void add_memory_cases(Suite *suite)
{
    TCase *blocks = keeper_case(suite, "cached blocks"), *pools = keeper_case(suite, "pool memory");
    suite_add(blocks, cached_blocks_go_back_once_they_were_not_used_for_idle, blocks_cached_later_go_back_too,
              caches_of_many_streams_go_back, blocks_that_nobody_needs_go_back_while_their_stream_is_busy_with_one, live_blocks_stay,
              blocks_stay_until_idle_has_passed, cache_that_was_emptied_by_hand_is_looked_at_again_when_it_fills,
              stream_that_is_closed_meanwhile_does_no_harm);
    suite_add(pools, idle_memory_goes_back_although_nothing_synchronises, idle_memory_above_the_threshold_goes_back,
              idle_memory_below_the_threshold_stays, with_the_threshold_all_everything_stays, memory_of_cached_blocks_goes_back_after_them,
              memory_freed_on_a_stream_that_was_never_opened_goes_back, memory_freed_behind_a_kernel_goes_back_after_it,
              live_memory_above_the_threshold_stays);
}

static void add_process_cases(Suite *suite)
{
    TCase *rest = keeper_case(suite, "rest"), *capture = keeper_case(suite, "capture"), *toggle = keeper_case(suite, "on and off");
    suite_add(rest, process_that_does_nothing_has_no_wake_ups, wake_ups_end_once_everything_went_back,
              wake_ups_end_although_memory_below_the_threshold_stays, wake_ups_end_although_a_live_block_pins_memory,
              wake_ups_end_although_a_private_pool_is_parked, pairs_that_the_cache_serves_wake_nobody_but_for_what_is_due);
    suite_add(capture, capturing_stream_keeps_its_cache_and_its_capture, pool_memory_goes_back_beside_a_global_capture);
    suite_add(toggle, without_keeper_there_is_no_thread, keeper_switched_on_by_reload_looks_at_streams_already_open,
              threshold_that_is_lowered_gives_back_what_is_idle_already, keeper_switched_off_by_reload_looks_at_nothing_more,
              keeper_switched_off_and_on_again_works, idle_shortened_by_reload_holds_for_what_comes_then, close_stops_the_keeper,
              keeper_of_one_weir_outlives_another);
    if (!scene_is_sim())
        return;
    TCase *processes = keeper_case(suite, "simulated processes"), *end = suite_case(suite, "simulated exit", 60);
    suite_add(end, exit_without_close_stops_the_keeper);
    suite_add(processes, forked_child_has_no_keeper_and_touches_nothing);
}

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("keeper");
    add_memory_cases(suite);
    add_process_cases(suite);
    return suite_run(suite);
}
