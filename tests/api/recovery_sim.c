/* SPDX-License-Identifier: MIT */
/* recovery_sim.c - what only the simulator can show: exact times, failures on demand, and which calls were made. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/api/hook.h"
#include "tests/api/recovery.h"
#include "tests/api/scene.h"

/* Who waits for another's recovery does so by the real clock. */
static const char patient[] = "weir: 1\ndefaults: { pool: main }\npools:\n  main: { " ALONE ", small_below: 0, on_oom: { deadline: 100s } }\n";
static const char plain[] = "weir: 1\ndefaults: { pool: main }\npools:\n  main: { " ALONE ", small_below: 0, on_oom: { deadline: 1s } }\n";

static uint64_t count_call(void *data, int device, uint64_t needed)
{
    (void)device;
    (void)needed;
    atomic_fetch_add((atomic_uint *)data, 1);
    return 0;
}

static unsigned add(weir_oom_fn fn, void *data)
{
    weir_error error = WEIR_ERROR_INIT;
    unsigned id = 0;
    ck_assert_msg(weir_oom_add(scene.w, fn, data, &error, &id) == WEIR_OK, "%s", error.text);
    return id;
}

/* Time --------------------------------------------------------------------------------------------------------------------------------- */

/* Frees `size` bytes behind a kernel. */
static weir_stream *pend(uint64_t size, uint64_t milliseconds, void *ptr, weir_stream *s)
{
    (void)size;
    scene_delay(weir_stream_handle(s), milliseconds);
    scene_free(s, ptr);
    return s;
}

START_TEST(largest_pending_free_is_waited_for_first)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *streams[3];
    static const uint64_t sizes[] = { GIB, 5 * GIB, 2 * GIB }, delays[] = { 900, 100, 800 };
    void *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        streams[i] = scene_create(NULL);
        blocks[i] = scene_malloc(streams[i], sizes[i] - 64 * MIB);
    }
    for (size_t i = 0; i < 3; i++)
        pend(sizes[i], delays[i], blocks[i], streams[i]);
    uint64_t begin = scene.gpu->now();
    void *ptr = scene_malloc(s, 4 * GIB);
    uint64_t took = scene.gpu->now() - begin;
    ck_assert_msg(took >= 100 * MILLISECOND && took < 110 * MILLISECOND, "%llu ns", (unsigned long long)took);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(largest_pending_free_on_unopened_streams_is_waited_for_first)
{
    scene_open(plain);
    gpu_stream s = scene_stream(0), a = scene_stream(0), b = scene_stream(0);
    void *small = scene_malloc_on(a, 2 * GIB), *large = scene_malloc_on(b, 5 * GIB);
    scene_delay(a, 900);
    scene_free_on(a, small);
    scene_delay(b, 100);
    scene_free_on(b, large);
    uint64_t begin = scene.gpu->now();
    void *ptr = scene_malloc_on(s, 4 * GIB);
    ck_assert_uint_lt(scene.gpu->now() - begin, 110 * MILLISECOND);
    scene_free_on(s, ptr);
}
END_TEST

/* As somebody does who is asked for memory by a neighbour at that moment. */
START_TEST(pending_free_that_another_thread_looks_at_is_waited_for_too)
{
    struct weir__wait wait;
    uint64_t bytes;
    scene_open(plain);
    const struct weir__scope scope = {.fences = scene.w->devices[0].fences};
    gpu_stream s = scene_stream(0), a = scene_stream(0);
    void *freed = scene_malloc_on(a, 6 * GIB);
    scene_delay(a, 100);
    scene_free_on(a, freed);
    weir__wait_begin(&wait, &scope, false);
    ck_assert(!weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(wait.left, 1);
    void *ptr = scene_malloc_on(s, 4 * GIB);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, 6 * GIB);
    scene_free_on(s, ptr);
}
END_TEST

/* The first free keeps its event, for whoever waits for it. */
START_TEST(free_behind_one_that_another_thread_waits_for_is_waited_for_too)
{
    struct weir__wait wait;
    uint64_t bytes;
    scene_open(plain);
    const struct weir__scope scope = {.fences = scene.w->devices[0].fences};
    gpu_stream s = scene_stream(0), a = scene_stream(0);
    void *first = scene_malloc_on(a, 2 * GIB), *second = scene_malloc_on(a, 5 * GIB);
    scene_delay(a, 10);
    scene_free_on(a, first);
    weir__wait_begin(&wait, &scope, false);
    scene_delay(a, 100);
    scene_free_on(a, second);
    ck_assert_uint_eq(weir__scope_marked(&scope), 7 * GIB);
    void *ptr = scene_malloc_on(s, 6 * GIB);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(wait.left, 0);
    scene_free_on(s, ptr);
}
END_TEST

START_TEST(stream_that_freed_nothing_is_not_waited_for_before_a_try)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL), *busy = scene_create(NULL);
    void *rest = scene_malloc(s, 3 * GIB), *old = scene_malloc(a, 4 * GIB);
    scene_delay(weir_stream_handle(busy), 900);
    pend(4 * GIB, 100, old, a);
    uint64_t begin = scene.gpu->now();
    /* 1 GiB is free: the pending 4 GiB are less than what is asked for, but enough. */
    void *ptr = scene_malloc(s, 4 * GIB + 512 * MIB);
    ck_assert_uint_lt(scene.gpu->now() - begin, 110 * MILLISECOND);
    scene_free(s, ptr);
    scene_free(s, rest);
}
END_TEST

START_TEST(pending_free_that_was_not_needed_keeps_its_rank)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL), *b = scene_create(NULL), *c = scene_create(NULL);
    void *first = scene_malloc(a, 3 * GIB + 512 * MIB), *second = scene_malloc(b, 3 * GIB), *third = scene_malloc(c, GIB);
    pend(0, 50, first, a);
    pend(0, 100, second, b);
    pend(0, 900, third, c);
    uint64_t begin = scene.gpu->now();
    void *one = scene_malloc(s, 3 * GIB + 512 * MIB);
    ck_assert_uint_lt(scene.gpu->now() - begin, 60 * MILLISECOND);
    void *two = scene_malloc(s, 3 * GIB);
    ck_assert_uint_lt(scene.gpu->now() - begin, 110 * MILLISECOND);
    scene_rescues(WEIR_RUNG_WAIT, 2, 2);
    scene_free(s, one);
    scene_free(s, two);
}
END_TEST

START_TEST(no_rung_starts_after_the_deadline)
{
    void *ptr;
    atomic_uint calls = 0;
    weir_error error;
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, on_oom: { deadline: 100ms } } }\n");
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    add(count_call, &calls);
    void *old = scene_malloc(a, 7 * GIB);
    pend(7 * GIB, 500, old, a);
    uint64_t begin = scene.gpu->now();
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 7 * GIB), WEIR_OUT_OF_MEMORY);
    uint64_t took = scene.gpu->now() - begin;
    ck_assert_msg(took >= 100 * MILLISECOND && took < 110 * MILLISECOND, "%llu ns", (unsigned long long)took);
    ck_assert_uint_eq(calls, 0);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "the deadline passed") && !strstr(error.text, "trim: "), "%s", error.text);
}
END_TEST

static uint64_t take_long(void *data, int device, uint64_t needed)
{
    count_call(data, device, needed);
    scene.gpu->pause(2000 * MILLISECOND);
    return 0;
}

START_TEST(no_callback_starts_after_the_deadline)
{
    void *ptr;
    atomic_uint calls = 0;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 7 * GIB);
    add(take_long, &calls);
    add(take_long, &calls);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 7 * GIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(calls, 1);
    scene_free(s, held);
}
END_TEST

/* Trim --------------------------------------------------------------------------------------------------------------------------------- */

/* The measured driver gives idle memory back by itself before it refuses; one that does not is played by a failure on demand. */
START_TEST(idle_memory_that_the_driver_kept_is_rescued_by_trim)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, GIB));
    scene_sync(weir_stream_handle(s));
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    scene_free(s, scene_malloc(s, 2 * GIB));
    scene_rescues(WEIR_RUNG_TRIM, 1, 1);
}
END_TEST

START_TEST(trim_that_gave_nothing_is_followed_by_no_retry)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    void *kept = scene_malloc(s, scene_share(95));
    uint64_t mallocs = sim_calls("malloc_async");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(10)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 1);
    scene_free(s, kept);
}
END_TEST

/* As the driver gives the memory of graphs up with a refusal, and others may have freed theirs. */
START_TEST(device_that_has_room_by_now_is_asked_again)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    uint64_t mallocs = sim_calls("malloc_async");
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, GIB), WEIR_OK);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 2);
    scene_free(s, ptr);
}
END_TEST

START_TEST(callback_that_freed_nothing_is_followed_by_no_retry)
{
    void *ptr;
    atomic_uint calls = 0;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [callbacks] } } }\n");
    weir_stream *s = scene_create(NULL);
    add(count_call, &calls);
    uint64_t mallocs = sim_calls("malloc_async");
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, GIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 1);
}
END_TEST

START_TEST(exportable_pools_are_trimmed_by_recovery)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { ipc: posix_fd, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    uint64_t trims = sim_calls("pool_trim");
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, GIB), WEIR_OK); /* there is room on the device */
    ck_assert_uint_eq(sim_calls("pool_trim"), trims + 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(trim_that_cannot_be_enough_is_left_out)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 4 * GIB);
    scene_free(s, scene_malloc(s, 2 * GIB));
    scene_sync(weir_stream_handle(s));
    uint64_t trims = sim_calls("pool_trim"), mallocs = sim_calls("malloc_async");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 6 * GIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(sim_calls("pool_trim"), trims);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 1);
    scene_free(s, held);
}
END_TEST

/* CUDA leaves with a pool what the device had left when a request fails, up to its threshold (measured). */
START_TEST(request_that_fails_leaves_no_pool_above_its_cap)
{
    void *ptr;
    scene_simulate("memory=2GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\n"
               "pools:\n"
               "  main: { " ALONE ", max_size: 1GiB, small_below: 1MiB, release_threshold: all, cache: off, on_oom: { deadline: 20ms } }\n"
               "  other: { small_below: 0 }\n");
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    weir_pool *other;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    void *held = scene_pool_malloc(other, 768 * MIB, weir_stream_handle(s));
    pend(0, 1000, scene_malloc(a, 512 * MIB), a);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 900 * MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_le(scene_pool_stats("main").reserved, GIB);
    scene_free(s, held);
}
END_TEST

START_TEST(at_the_cap_only_the_pool_itself_is_trimmed)
{
    void *ptr;
    scene_open("weir: 1\ndefaults: { pool: main }\n"
               "pools: { main: { max_size: 1GiB, small_below: 0 }, other: { small_below: 0 }, third: { small_below: 0 } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 768 * MIB);
    uint64_t trims = sim_calls("pool_trim");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 768 * MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(sim_calls("pool_trim"), trims + 1);
    scene_free(s, held);
}
END_TEST

/* Vain requests ------------------------------------------------------------------------------------------------------------------------ */

static uint64_t free_held(void *data, int device, uint64_t needed)
{
    void **held = data;
    (void)device;
    (void)needed;
    if (!*held)
        return 0;
    scene_ok(weir_free(scene.w, *held, NULL), "weir_free");
    *held = NULL;
    return 7 * GIB;
}

/* Has a callback rescue a request. Returns how often CUDA was asked for it. */
static uint64_t asked_until_rescued(void)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc_on(NULL, 7 * GIB);
    add(free_held, &held);
    uint64_t mallocs = sim_calls("malloc_async");
    void *ptr = scene_malloc(s, 2 * GIB);
    mallocs = sim_calls("malloc_async") - mallocs;
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
    scene_free(s, ptr);
    return mallocs;
}

START_TEST(cuda_is_asked_only_once_there_is_room)
{
    ck_assert_uint_eq(asked_until_rescued(), 1);
}
END_TEST

START_TEST(request_that_stays_vain_is_tried_once_before_it_is_refused)
{
    void *ptr;
    atomic_uint calls = 0;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 7 * GIB);
    add(count_call, &calls);
    uint64_t mallocs = sim_calls("malloc_async");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 2 * GIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 1);
    scene_free(s, held);
}
END_TEST

/* What other pools of the process have idle CUDA takes by itself, as fast as it can. Weir does not know of them. Blocks of a pool
   that sleeps are not in the way. */
START_TEST(idle_memory_of_a_pool_that_is_not_weirs_serves_at_once)
{
    struct gpu_pool_spec spec = { .device = 0 };
    gpu_pool foreign;
    weir_pool *sleeper = NULL;
    void *block, *asleep = NULL;
    atomic_uint calls = 0;
    scene_open(_i ? "weir: 1\ndefaults: { pool: main }\npools: { main: { small_below: 0 }, sleeper: { backing: arena } }\n" : plain);
    add(count_call, &calls);
    if (_i) {
        scene_ok(weir_pool_get(scene.w, "sleeper", 0, NULL, &sleeper), "weir_pool_get");
        asleep = scene_pool_malloc(sleeper, 5 * GIB, NULL);
        scene_ok(weir_pool_sleep(sleeper, WEIR_SLEEP_DISCARD, 0, NULL, NULL), "a sleep");
    }
    weir_stream *busy = scene_create(NULL);
    gpu_stream s = scene_stream(0);
    ck_assert_int_eq(scene.gpu->pool_create(&spec, &foreign), 0);
    ck_assert_int_eq(scene.gpu->pool_set(foreign, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), 0);
    ck_assert_int_eq(scene.gpu->malloc_async(&block, 6 * GIB, foreign, s), 0);
    ck_assert_int_eq(scene.gpu->free_async(block, s), 0);
    scene_sync(s);
    scene_delay(weir_stream_handle(busy), 900);
    uint64_t begin = scene.gpu->now();
    void *ptr = scene_malloc_on(s, 4 * GIB);
    ck_assert_uint_le(scene.gpu->now() - begin, 10 * MILLISECOND);
    ck_assert_uint_eq(calls, 0);
    scene_rescues(WEIR_RUNG_TRIM, 1, 1);
    scene_free_on(s, ptr);
    scene_sync(s);
    ck_assert_int_eq(scene.gpu->pool_destroy(foreign), 0);
    if (asleep)
        scene_free_on(NULL, asleep);
}
END_TEST

START_TEST(small_part_of_the_device_is_asked_for_without_a_look)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: off } }\n");
    weir_stream *s = scene_create(NULL);
    uint64_t looks = sim_calls("device_memory");
    scene_free(s, scene_malloc(s, 64 * MIB));
    ck_assert_uint_eq(sim_calls("device_memory"), looks);
}
END_TEST

START_TEST(what_the_pool_has_idle_is_asked_for_without_a_look_at_the_device)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: off, release_threshold: all } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, GIB));
    scene_sync(weir_stream_handle(s));
    uint64_t looks = sim_calls("device_memory");
    scene_free(s, scene_malloc(s, GIB));
    ck_assert_uint_eq(sim_calls("device_memory"), looks);
}
END_TEST

START_TEST(where_the_os_manages_the_memory_cuda_is_asked_at_once)
{
    scene_simulate("os_managed=yes");
    ck_assert_uint_gt(asked_until_rescued(), 1);
}
END_TEST

/* As trim_that_cannot_be_enough_is_left_out, where nobody knows that it cannot. */
START_TEST(where_the_os_manages_the_memory_trim_is_tried)
{
    void *ptr;
    scene_simulate("os_managed=yes");
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 4 * GIB);
    uint64_t trims = sim_calls("pool_trim");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 6 * GIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_gt(sim_calls("pool_trim"), trims);
    scene_free(s, held);
}
END_TEST

START_TEST(where_the_device_does_not_say_what_it_has_cuda_is_asked)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    sim_fail("device_memory", 1, GPU_NOT_SUPPORTED);
    scene_free(s, scene_malloc(s, 4 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
}
END_TEST

/* CUDA's errors ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(other_errors_are_passed_on_without_recovery)
{
    void *ptr;
    weir_error error;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    uint64_t records = sim_calls("event_record"), trims = sim_calls("pool_trim"), mallocs = sim_calls("malloc_async");
    sim_fail("malloc_async", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, GIB), WEIR_CUDA_ERROR);
    weir_last_error(&error);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    ck_assert_uint_eq(sim_calls("event_record"), records);
    ck_assert_uint_eq(sim_calls("pool_trim"), trims);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs + 1);
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
}
END_TEST

START_TEST(other_error_during_recovery_is_the_one_reported)
{
    void *ptr;
    weir_error error;
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    pend(0, 100, scene_malloc(a, 7 * GIB), a);
    sim_fail("malloc_async", 2, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 7 * GIB), WEIR_CUDA_ERROR);
    weir_last_error(&error);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    ck_assert_msg(strstr(error.text, "during recovery") != NULL, "%s", error.text);
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
}
END_TEST

/* Whatever single call of the ladder fails, the request fails or is rescued, and nothing is lost. */
START_TEST(ladder_survives_the_failure_of_any_call)
{
    static const char *const operations[] = { "event_create", "event_record", "event_query", "event_synchronize", "stream_capture_status",
                                              "pool_trim",    "pool_get",     "device_memory", "exchange_capture_mode" };
    void *ptr = NULL;
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    pend(0, 10, scene_malloc(a, 7 * GIB), a);
    /* The first question after the capture status is the request's own, before any ladder. */
    unsigned before = strcmp(operations[_i % 9], "stream_capture_status") == 0;
    sim_fail(operations[_i % 9], before + (unsigned)_i / 9 + 1, GPU_UNKNOWN);
    weir_status status = weir_stream_malloc(s, &ptr, 7 * GIB);
    sim_fail(operations[_i % 9], 0, 0);
    ck_assert_msg(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY, "%s: %s", operations[_i % 9], weir_status_name(status));
    ck_assert_uint_eq(scene_pool_stats("main").live, status == WEIR_OK ? 7 * GIB : 0);
    if (status == WEIR_OK)
        scene_free(s, ptr);
    scene_sync(weir_stream_handle(a));
    scene_free(s, scene_malloc(s, 7 * GIB));
}
END_TEST

/* A refusal tells what it can find out. */
START_TEST(report_survives_the_failure_of_any_call)
{
    static const char *const operations[] = { "device_memory", "pool_get", "exchange_capture_mode" };
    void *ptr;
    weir_error error;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [] } } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 7 * GIB);
    sim_fail(operations[_i], 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 7 * GIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "pool 'main'") != NULL, "%s", error.text);
    scene_free(s, held);
}
END_TEST

/* Reports ------------------------------------------------------------------------------------------------------------------------------ */

/* What decides comes first, then the request's own pool, then the largest. */
START_TEST(report_of_fifty_pools_has_the_rungs_and_the_largest_pools)
{
    char policy[8192] = "weir: 1\ndefaults: { pool: main }\npools:\n  main: { small_below: 0 }\n", line[160];
    void *ptr, *held[50];
    weir_error error;
    for (unsigned i = 0; i < 50; i++) {
        snprintf(line, sizeof line, "  a-pool-with-a-name-that-takes-its-room-in-the-report-%02u: { small_below: 0 }\n", i);
        strcat(policy, line);
    }
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    for (unsigned i = 0; i < 50; i++) {
        weir_pool *pool;
        snprintf(line, sizeof line, "a-pool-with-a-name-that-takes-its-room-in-the-report-%02u", i);
        scene_ok(weir_pool_get(scene.w, line, 0, NULL, &pool), "weir_pool_get");
        held[i] = scene_pool_malloc(pool, (i == 37 ? 160 : 128) * MIB, weir_stream_handle(s));
    }
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 7 * GIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    const char *rungs = strstr(error.text, "gave nothing: flush, wait"), *device = strstr(error.text, "\n  device 0: "), *own = strstr(error.text, "pool 'main':");
    const char *largest = strstr(error.text, "report-37"), *rest = strstr(error.text, "\n  and 35 more pools: reserved 4.38 GiB");
    ck_assert_msg(rungs && device && own && largest && rest, "%s", error.text);
    ck_assert_msg(rungs < device && device < own && own < largest && largest < rest, "%s", error.text);
    ck_assert_ptr_null(strstr(error.text, "report-15"));
    for (unsigned i = 0; i < 50; i++)
        scene_free(s, held[i]);
}
END_TEST

START_TEST(what_came_free_long_before_is_no_gain_of_the_wait_rung)
{
    void *ptr;
    weir_error error;
    scene_simulate("memory=2GiB");
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off } }\n");
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    for (unsigned i = 0; i < 8; i++)
        scene_free(a, scene_malloc(a, GIB));
    scene_sync(weir_stream_handle(a));
    void *held = scene_malloc(s, GIB), *freed = scene_malloc(a, 256 * MIB);
    if (_i)
        pend(0, 100, freed, a);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 1536 * MIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, _i ? "wait: gave 256 MiB" : "gave nothing: flush, wait") != NULL, "%s", error.text);
    scene_free(s, held);
    if (!_i)
        scene_free(a, freed);
}
END_TEST

/* Joining ------------------------------------------------------------------------------------------------------------------------------ */

/* A gate within the first recovery: it stays there until so many requests were refused raw. */
struct gate {
    atomic_bool entered;
    atomic_uint calls;
    atomic_ullong mallocs; /* sim_calls("malloc_async") at which the gate opens; 0: not known yet */
};

static uint64_t stand_in_the_gate(void *data, int device, uint64_t needed)
{
    struct gate *gate = data;
    (void)device;
    (void)needed;
    if (atomic_fetch_add(&gate->calls, 1) > 0)
        return 0;
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->mallocs) || sim_calls("malloc_async") < atomic_load(&gate->mallocs))
        sched_yield();
    return 0;
}

struct requester {
    weir_stream *s;
    uint64_t size;
    pthread_t thread;
    weir_status status;
    void *ptr;
};

static void *request(void *data)
{
    struct requester *requester = data;
    requester->status = weir_stream_malloc(requester->s, &requester->ptr, requester->size);
    return NULL;
}

static void start(struct requester *requester, weir_stream *s, uint64_t size)
{
    *requester = (struct requester){ .s = s, .size = size };
    ck_assert_int_eq(pthread_create(&requester->thread, NULL, request, requester), 0);
}

/* Made while the callbacks ran, when the wait rung was over. */
START_TEST(free_made_after_a_recovery_began_rescues_that_request_too)
{
    struct gate gate = { false, 0, 0 };
    struct requester first;
    scene_open(patient);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    void *held = scene_malloc(a, 4 * GIB), *old = scene_malloc(a, 3 * GIB);
    add(stand_in_the_gate, &gate);
    start(&first, s, 3 * GIB);
    while (!atomic_load(&gate.entered))
        sched_yield();
    pend(0, 50, old, a);
    atomic_store(&gate.mallocs, sim_calls("malloc_async"));
    pthread_join(first.thread, NULL);
    ck_assert_int_eq(first.status, WEIR_OK);
    scene_free(s, first.ptr);
    scene_free(a, held);
}
END_TEST

/* A recovery looks for pending frees when it begins; one who joins it later has freed since, and must not be refused with it. */
START_TEST(free_made_after_a_recovery_began_rescues_the_request_that_joined_it)
{
    struct gate gate = { false, 0, 0 };
    struct requester first, second;
    scene_open(patient);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL), *b = scene_create(NULL);
    void *held = scene_malloc(a, 4 * GIB), *old = scene_malloc(a, 3 * GIB);
    add(stand_in_the_gate, &gate);
    start(&first, s, 6 * GIB);
    while (!atomic_load(&gate.entered))
        sched_yield();
    pend(0, 50, old, a);
    unsigned long long mallocs = sim_calls("malloc_async");
    start(&second, b, 3 * GIB);
    atomic_store(&gate.mallocs, mallocs + 1);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    ck_assert_int_eq(first.status, WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(second.status, WEIR_OK);
    scene_free(b, second.ptr);
    scene_free(a, held);
}
END_TEST

START_TEST(requests_that_wait_for_a_vain_recovery_are_refused_with_the_next)
{
    struct gate gate = { false, 0, 0 };
    struct requester first, others[7];
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *streams[7];
    void *held = scene_malloc(s, 7 * GIB);
    for (size_t i = 0; i < 7; i++)
        streams[i] = scene_create(NULL);
    add(stand_in_the_gate, &gate);
    start(&first, s, 3 * GIB);
    while (!atomic_load(&gate.entered))
        sched_yield();
    unsigned long long mallocs = sim_calls("malloc_async");
    for (size_t i = 0; i < 7; i++)
        start(&others[i], streams[i], 3 * GIB);
    atomic_store(&gate.mallocs, mallocs + 7);
    pthread_join(first.thread, NULL);
    for (size_t i = 0; i < 7; i++) {
        pthread_join(others[i].thread, NULL);
        ck_assert_int_eq(others[i].status, WEIR_OUT_OF_MEMORY);
    }
    ck_assert_uint_eq(scene_pool_stats("main").failures, 8);
    ck_assert_uint_eq(scene_device_stats(0).recoveries, gate.calls);
    scene_free(s, held);
}
END_TEST

/* Two devices -------------------------------------------------------------------------------------------------------------------------- */

struct other_device {
    atomic_bool entered, done;
};

static uint64_t wait_for_the_other_device(void *data, int device, uint64_t needed)
{
    struct other_device *other = data;
    (void)needed;
    if (device != 0)
        return 0;
    atomic_store(&other->entered, true);
    while (!atomic_load(&other->done))
        sched_yield();
    return 0;
}

START_TEST(devices_recover_independently)
{
    struct other_device other = { false, false };
    struct requester first;
    void *ptr = NULL;
    weir_stream *b;
    scene_simulate("devices=2,memory=8GiB");
    scene_open(plain);
    weir_stream *a = scene_create(NULL);
    scene_ok(weir_stream_create(scene.w, 1, NULL, NULL, &b), "weir_stream_create");
    add(wait_for_the_other_device, &other);
    void *held = scene_malloc(a, 7 * GIB), *old = scene_malloc(b, 7 * GIB);
    start(&first, a, 7 * GIB);
    while (!atomic_load(&other.entered))
        sched_yield();
    pend(0, 10, old, b);
    gpu_stream unopened = scene_stream(1);
    scene_ok(weir_malloc(scene.w, &ptr, 7 * GIB, 1, unopened), "weir_malloc on device 1");
    atomic_store(&other.done, true);
    pthread_join(first.thread, NULL);
    ck_assert_int_eq(first.status, WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(scene_device_stats(0).rescues[WEIR_RUNG_WAIT], 0);
    ck_assert_uint_eq(scene_device_stats(1).rescues[WEIR_RUNG_WAIT], 1);
    scene_free_on(unopened, ptr);
    scene_free(a, held);
}
END_TEST

static uint64_t free_and_leave_another_device(void *data, int device, uint64_t needed)
{
    (void)needed;
    void **block = data;
    if (!*block)
        return 0;
    scene_ok(weir_free(scene.w, *block, NULL), "weir_free");
    *block = NULL;
    ck_assert_int_eq(scene.gpu->set_current_device(1 - device), GPU_SUCCESS);
    return 7 * GIB;
}

/* The legacy stream is that of the device that is current. */
START_TEST(callback_that_leaves_another_device_current_disturbs_no_request_on_a_legacy_stream)
{
    void *held, *ptr;
    int current;
    scene_simulate("devices=2,memory=8GiB");
    scene_open(plain);
    scene_ok(weir_malloc(scene.w, &held, 7 * GIB, 0, NULL), "weir_malloc");
    add(free_and_leave_another_device, &held);
    scene_ok(weir_malloc(scene.w, &ptr, 7 * GIB, 0, NULL), "weir_malloc beside the callback");
    ck_assert_int_eq(scene.gpu->get_current_device(&current), GPU_SUCCESS);
    ck_assert_int_eq(current, 0);
    scene_ok(weir_free(scene.w, ptr, NULL), "weir_free");
}
END_TEST

START_TEST(free_on_a_stream_of_another_device_is_rescued_by_wait)
{
    scene_simulate("devices=2,memory=8GiB");
    scene_open(plain);
    gpu_stream far = scene_stream(1);
    weir_stream *s = scene_create(NULL), *opened;
    scene_ok(weir_stream_open(scene.w, 1, far, NULL, NULL, &opened), "weir_stream_open");
    void *old = scene_malloc(s, 7 * GIB);
    scene_delay(far, 10);
    scene_free(opened, old);
    scene_fails_raw(scene.pool, 7 * GIB, weir_stream_handle(s));
    scene_free(s, scene_malloc(s, 7 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

/* Another thread begins to capture the stream just before the event is recorded. */
static int record_in_a_capture(gpu_event event, gpu_stream stream)
{
    ck_assert_int_eq(hook_base()->capture_begin(stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    return hook_base()->event_record(event, stream);
}

START_TEST(event_that_a_capture_has_caught_is_dropped_and_the_one_before_kept)
{
    struct gpu hooked = *hook_base();
    struct weir__wait wait;
    uint64_t bytes;
    size_t nodes;
    scene_open(plain);
    const struct weir__scope scope = {.fences = scene.w->devices[0].fences};
    gpu_stream raw = scene_stream(0);
    void *first = scene_malloc_on(raw, GIB), *second = scene_malloc_on(raw, GIB);
    scene_free_on(raw, first);
    weir__wait_begin(&wait, &scope, false);
    hooked.event_record = record_in_a_capture;
    hook_set(&hooked);
    scene_free_on(raw, second);
    hook_set(NULL);
    ck_assert_uint_eq(weir__scope_pending(&scope), 2 * GIB);
    ck_assert_uint_eq(weir__scope_marked(&scope), GIB);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, GIB);
    ck_assert_int_eq(scene.gpu->capture_end(raw, &nodes), GPU_SUCCESS);
}
END_TEST

/* Of such a stream nobody says which device it is of. */
START_TEST(free_on_an_unopened_stream_of_another_device_is_rescued_by_wait)
{
    scene_simulate("devices=2,memory=8GiB");
    scene_open(plain);
    gpu_stream far = scene_stream(1);
    weir_stream *s = scene_create(NULL);
    void *old = scene_malloc(s, 7 * GIB);
    scene_delay(far, 10);
    scene_free_on(far, old);
    scene_free(s, scene_malloc(s, 7 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(handle_recycled_on_another_device_is_noted_anew)
{
    scene_simulate("devices=2,memory=8GiB");
    scene_open(plain);
    gpu_stream near = scene_stream(0);
    weir_stream *s = scene_create(NULL), *opened;
    scene_free_on(near, scene_malloc_on(near, GIB));
    scene_drop_stream(near);
    gpu_stream far = scene_stream(1);
    ck_assert_ptr_eq(far, near);
    scene_ok(weir_stream_open(scene.w, 1, far, NULL, NULL, &opened), "weir_stream_open");
    void *old = scene_malloc(s, 7 * GIB);
    scene_delay(far, 10);
    scene_free(opened, old);
    scene_free(s, scene_malloc(s, 7 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(largest_pending_free_is_found_among_three_hundred_streams)
{
    weir_stream *streams[300];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < 300; i++) {
        streams[i] = scene_create(NULL);
        scene_free(streams[i], scene_malloc(streams[i], 2 * MIB));
    }
    scene_sync(weir_stream_handle(streams[299]));
    void *old = scene_malloc(streams[_i], 7 * GIB);
    pend(0, 10, old, streams[_i]);
    scene_free(s, scene_malloc(s, 7 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(without_stream_ids_an_opened_stream_still_recovers)
{
    scene_simulate("memory=8GiB,driver=11.4");
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *a = scene_create(NULL);
    pend(0, 10, scene_malloc(a, 7 * GIB), a);
    scene_free(s, scene_malloc(s, 7 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(pending_frees_on_two_dozen_unopened_streams_are_all_waited_for)
{
    void *blocks[24];
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { small_below: 0 }, other: { small_below: 0 } }\n");
    weir_stream *s = scene_create(NULL);
    weir_pool *other;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    for (size_t i = 0; i < 24; i++)
        blocks[i] = scene_malloc(s, 320 * MIB);
    for (size_t i = 0; i < 24; i++) {
        gpu_stream stream = scene_stream(0);
        scene_delay(stream, 10);
        scene_free_on(stream, blocks[i]);
    }
    /* Another pool gets only what was seen complete, and needs it all. */
    scene_free(s, scene_pool_malloc(other, 24 * 320 * MIB, weir_stream_handle(s)));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(frees_on_an_unopened_stream_get_an_event_once_they_come_to_a_growth_step)
{
    gpu_stream streams[2];
    void *blocks[2][2];
    scene_open(plain);
    for (size_t i = 0; i < 2; i++) {
        streams[i] = scene_stream(0);
        for (size_t j = 0; j < 2; j++)
            blocks[i][j] = scene_malloc_on(streams[i], 16 * MIB);
    }
    uint64_t before = sim_calls("event_record");
    scene_free_on(streams[0], blocks[0][0]);
    scene_free_on(streams[1], blocks[1][0]);
    ck_assert_uint_eq(sim_calls("event_record"), before);
    scene_free_on(streams[0], blocks[0][1]);
    ck_assert_uint_eq(sim_calls("event_record"), before + 1);
    scene_free_on(streams[1], blocks[1][1]);
    ck_assert_uint_eq(sim_calls("event_record"), before + 2);
}
END_TEST

START_TEST(more_streams_with_pending_frees_than_the_table_holds_are_harmless)
{
    void *blocks[52];
    gpu_stream streams[26];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < 52; i++)
        blocks[i] = scene_malloc(s, 144 * MIB);
    /* Each handle is recycled once, so entries are fought for, and taken over by a new stream with an old handle. */
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 26; i++) {
            streams[i] = scene_stream(0);
            scene_delay(streams[i], 20);
            scene_free_on(streams[i], blocks[round * 26 + i]);
        }
        for (size_t i = 0; i < 26; i++)
            scene_drop_stream(streams[i]);
    }
    scene_free(s, scene_malloc(s, 3 * GIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

void add_simulator_cases(Suite *suite)
{
    TCase *time = suite_case(suite, "simulated time", 60), *calls = suite_case(suite, "simulated calls", 60);
    TCase *join = suite_case(suite, "simulated threads and devices", 60);
    tcase_add_checked_fixture(time, scene_begin, scene_end);
    tcase_add_checked_fixture(calls, scene_begin, scene_end);
    tcase_add_checked_fixture(join, scene_begin, scene_end);

    suite_add(time, largest_pending_free_is_waited_for_first, largest_pending_free_on_unopened_streams_is_waited_for_first,
              pending_free_that_another_thread_looks_at_is_waited_for_too, free_behind_one_that_another_thread_waits_for_is_waited_for_too,
              stream_that_freed_nothing_is_not_waited_for_before_a_try, pending_free_that_was_not_needed_keeps_its_rank,
              no_rung_starts_after_the_deadline, no_callback_starts_after_the_deadline);

    suite_add(calls, idle_memory_that_the_driver_kept_is_rescued_by_trim, trim_that_gave_nothing_is_followed_by_no_retry, device_that_has_room_by_now_is_asked_again,
              callback_that_freed_nothing_is_followed_by_no_retry, exportable_pools_are_trimmed_by_recovery,
              trim_that_cannot_be_enough_is_left_out, request_that_fails_leaves_no_pool_above_its_cap,
              at_the_cap_only_the_pool_itself_is_trimmed, cuda_is_asked_only_once_there_is_room,
              request_that_stays_vain_is_tried_once_before_it_is_refused,
              small_part_of_the_device_is_asked_for_without_a_look, what_the_pool_has_idle_is_asked_for_without_a_look_at_the_device,
              where_the_os_manages_the_memory_cuda_is_asked_at_once, where_the_os_manages_the_memory_trim_is_tried,
              where_the_device_does_not_say_what_it_has_cuda_is_asked, other_errors_are_passed_on_without_recovery,
              other_error_during_recovery_is_the_one_reported);
    tcase_add_loop_test(calls, ladder_survives_the_failure_of_any_call, 0, 36);

    tcase_add_loop_test(calls, idle_memory_of_a_pool_that_is_not_weirs_serves_at_once, 0, 2);
    tcase_add_loop_test(calls, report_survives_the_failure_of_any_call, 0, 3);
    suite_add(calls, report_of_fifty_pools_has_the_rungs_and_the_largest_pools);
    tcase_add_loop_test(calls, what_came_free_long_before_is_no_gain_of_the_wait_rung, 0, 2);
    suite_add(join, callback_that_leaves_another_device_current_disturbs_no_request_on_a_legacy_stream,
              free_made_after_a_recovery_began_rescues_that_request_too,
              free_made_after_a_recovery_began_rescues_the_request_that_joined_it,
              requests_that_wait_for_a_vain_recovery_are_refused_with_the_next, devices_recover_independently,
              free_on_a_stream_of_another_device_is_rescued_by_wait, event_that_a_capture_has_caught_is_dropped_and_the_one_before_kept,
              free_on_an_unopened_stream_of_another_device_is_rescued_by_wait, handle_recycled_on_another_device_is_noted_anew);
    tcase_add_loop_test(join, largest_pending_free_is_found_among_three_hundred_streams, 0, 2);
    suite_add(join, without_stream_ids_an_opened_stream_still_recovers, pending_frees_on_two_dozen_unopened_streams_are_all_waited_for,
              frees_on_an_unopened_stream_get_an_event_once_they_come_to_a_growth_step,
              more_streams_with_pending_frees_than_the_table_holds_are_harmless);
}
