/* SPDX-License-Identifier: MIT */
/* recovery_growth.c - a pool under a cap that Weir watches, as the driver does not: for the pool and its twin together, before 12.2, and where
   the cap was lowered since the pool was opened. */
#include <stdio.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/orphans.h"
#include "lib/gpu/sim.h"
#include "lib/pool/device.h"
#include "lib/pool/figures.h"
#include "tests/api/hook.h"
#include "tests/api/recovery.h"
#include "tests/api/scene.h"

#define DEADLINE 50 /* milliseconds */
#define HOUR (3600 * 1000)
#define CAP (512 * MIB)

static const struct {
    const char *machine, *small_below, *opened; /* max_size at open; NULL: the same */
} watched[] = { { "memory=2GiB", "2MiB", NULL }, { "memory=2GiB,driver=12.0", "0", NULL }, { "memory=2GiB", "0", "1GiB" } };

static const char *text_of(int row, const char *max_size, const char *reuse)
{
    static char text[320];
    snprintf(text, sizeof text,
             "weir: 1\ndefaults: { pool: main }\npools:\n"
             "  main: { %s, max_size: %s, small_below: %s, cache: off, on_oom: { deadline: 50ms } }\n"
             "  other: { small_below: 0, cache: off }\n",
             reuse, max_size, watched[row].small_below);
    return text;
}

static const char *policy(int row, const char *max_size)
{
    return text_of(row, max_size, ALONE);
}

static void open_as(int row, const char *reuse)
{
    scene_simulate(watched[row].machine);
    scene_open(text_of(row, watched[row].opened ? watched[row].opened : "512MiB", reuse));
    if (watched[row].opened)
        scene_reload(text_of(row, "512MiB", reuse));
}

static void open_watched(int row)
{
    open_as(row, ALONE);
}

/* So much is freed, and not complete for so long. */
static void leave_pending(uint64_t size, uint64_t milliseconds)
{
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, size);
    scene_delay(weir_stream_handle(s), milliseconds);
    scene_free(s, ptr);
}

static gpu_stream busy_stream(void)
{
    gpu_stream busy = scene_stream(0);
    scene_delay(busy, HOUR);
    return busy;
}

static void fails(uint64_t size, gpu_stream stream)
{
    void *ptr;
    ck_assert_int_eq(weir_malloc(scene.w, &ptr, size, 0, stream), WEIR_OUT_OF_MEMORY);
}

static uint64_t reserved(void)
{
    return scene_pool_stats("main").reserved;
}

/* The pool grows above its cap for the first request, beside a free that is pending. That goes back on the request's own stream, and takes an
   hour to get there. */
START_TEST(growth_that_is_undone_on_a_busy_stream_takes_no_room_from_others)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, HOUR);
    fails(256 * MIB, busy_stream());
    ck_assert_uint_gt(reserved(), CAP);
    void *ptr = scene_malloc(s, 64 * MIB);
    fails(64 * MIB, weir_stream_handle(s));
    scene_free(s, ptr);
    scene_free(s, live);
}
END_TEST

START_TEST(growth_that_is_undone_on_a_stream_of_another_device_takes_no_room_from_others)
{
    scene_simulate("devices=2,memory=2GiB");
    scene_open(policy(0, "512MiB"));
    weir_stream *s = scene_create(NULL);
    gpu_stream busy = scene_stream(1);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, HOUR);
    scene_delay(busy, HOUR);
    fails(256 * MIB, busy);
    ck_assert_uint_gt(reserved(), CAP);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_free(s, live);
}
END_TEST

/* It looked as if memory came free with each attempt, which so was followed by another one, up to the deadline. */
START_TEST(growth_that_is_undone_at_once_is_no_memory_that_was_found)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, HOUR);
    uint64_t before = sim_calls("malloc_async");
    fails(256 * MIB, scene_stream(0));
    ck_assert_uint_lt(sim_calls("malloc_async") - before, 50);
    scene_free(s, live);
}
END_TEST

START_TEST(one_request_at_a_time_takes_the_pool_above_its_cap)
{
    open_watched(_i);
    leave_pending(CAP, HOUR);
    for (int i = 0; i < 4; i++)
        fails(128 * MIB, busy_stream());
    ck_assert_uint_eq(reserved(), CAP + 128 * MIB);
}
END_TEST

START_TEST(growth_goes_back_to_the_device_once_its_stream_gets_there)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    gpu_stream busy = scene_stream(0);
    leave_pending(CAP, DEADLINE * 2);
    scene_delay(busy, DEADLINE * 2);
    fails(128 * MIB, busy);
    scene_sync(busy);
    uint64_t streams = sim_calls("stream_create");
    scene_free(s, scene_malloc(s, 128 * MIB));
    ck_assert_uint_le(reserved(), CAP);
    ck_assert_uint_eq(sim_calls("stream_create"), streams); /* without recovery */
}
END_TEST

/* As the device has no more, CUDA makes recovery's stream wait for the busy one, to use there what went back; so what recovery gives back is
   late, too. */
START_TEST(growth_that_recovery_undoes_behind_a_busy_stream_is_seen_once_that_gets_there)
{
    weir_pool *other;
    void *held;
    open_as(_i, "reuse: { opportunistic: false }");
    ck_assert_int_eq(weir_pool_get(scene.w, "other", 0, NULL, &other), WEIR_OK);
    weir_stream *s = scene_create(NULL);
    gpu_stream busy = scene_stream(0);
    ck_assert_int_eq(weir_pool_malloc(other, &held, 1376 * MIB, busy), WEIR_OK);
    leave_pending(256 * MIB, DEADLINE * 2);
    scene_delay(busy, DEADLINE * 2);
    fails(384 * MIB, busy);
    ck_assert_int_eq(weir_free(scene.w, held, busy), WEIR_OK);
    scene_sync(busy);
    scene_free(s, scene_malloc(s, 448 * MIB));
    ck_assert_uint_le(reserved(), CAP);
}
END_TEST

/* Recovery asks on a stream of its own. */
START_TEST(what_recovery_serves_at_a_cap_is_ordered_before_the_work_of_the_requests_stream)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    leave_pending(CAP, DEADLINE / 2);
    uint64_t waits = sim_calls("stream_wait_event");
    void *ptr = scene_malloc(s, 256 * MIB);
    ck_assert_uint_eq(sim_calls("stream_wait_event") - waits, 1);
    ck_assert_int_eq(scene.gpu->set_async(ptr, 1, 256 * MIB, weir_stream_handle(s)), GPU_SUCCESS);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free(s, ptr);
}
END_TEST

/* Four requests of 16 MiB, which may grow the pool by a step each, and surely stay below the cap, need no look at the pool after the first. */
static uint64_t looks_of_four(void)
{
    void *ptrs[4];
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 16 * MIB));
    uint64_t before = sim_calls("pool_get");
    for (int i = 0; i < 4; i++)
        ptrs[i] = scene_malloc(s, 16 * MIB);
    uint64_t looks = sim_calls("pool_get") - before;
    for (int i = 0; i < 4; i++)
        scene_free(s, ptrs[i]);
    return looks;
}

/* Without the recorder, which looks at pools that grow, too. */
START_TEST(far_from_the_cap_nothing_is_asked_of_the_pool)
{
    char text[400];
    open_watched(_i);
    snprintf(text, sizeof text, "%srecord: { level: off }\n", policy(_i, "512MiB"));
    scene_reload(text);
    ck_assert_uint_eq(looks_of_four(), 0);
}
END_TEST

/* The program may allocate from it, which Weir does not see. */
START_TEST(pool_whose_handle_the_program_has_is_looked_at_each_time)
{
    open_watched(_i);
    ck_assert_ptr_nonnull(weir_pool_handle(scene.pool));
    ck_assert_uint_ge(looks_of_four(), 4);
}
END_TEST

START_TEST(room_under_a_cap_that_was_lowered_is_found_anew)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 128 * MIB), *more;
    scene_reload(policy(_i, "128MiB"));
    ck_assert_int_eq(weir_stream_malloc(s, &more, 32 * MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_le(reserved(), 128 * MIB);
    scene_free(s, ptr);
}
END_TEST

/* As with the cap lifted nobody watches how the pool grows. */
START_TEST(room_under_a_cap_that_was_lifted_meanwhile_is_found_anew)
{
    open_watched(_i);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 32 * MIB));
    scene_reload(policy(_i, "none"));
    leave_pending(GIB, HOUR);
    uint64_t before = reserved();
    scene_reload(policy(_i, "512MiB"));
    fails(128 * MIB, weir_stream_handle(s));
    ck_assert_uint_le(reserved(), before);
}
END_TEST

/* A reload, and a request that finds room under the new cap, while CUDA is asked for what needed no watching before. */
static struct {
    struct gpu gpu;
    int row;
    bool has_reloaded;
    weir_stream *s;
} reloader;

static int reloading_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    if (!reloader.has_reloaded) {
        reloader.has_reloaded = true;
        scene_reload(policy(reloader.row, "512MiB"));
        scene_free(reloader.s, scene_malloc(reloader.s, 32 * MIB));
    }
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

START_TEST(room_is_found_anew_behind_a_request_that_began_before_there_was_a_cap)
{
    open_watched(_i);
    reloader.gpu = *hook_base();
    reloader.gpu.malloc_async = reloading_malloc_async;
    reloader.row = _i;
    reloader.s = scene_create(NULL);
    gpu_stream busy = busy_stream();
    scene_reload(policy(_i, "none"));
    hook_set(&reloader.gpu);
    void *ptr = scene_malloc_on(busy, GIB);
    ck_assert(reloader.has_reloaded);
    hook_set(NULL);
    scene_free_on(busy, ptr);
    uint64_t before = reserved();
    fails(128 * MIB, weir_stream_handle(reloader.s));
    ck_assert_uint_le(reserved(), before);
}
END_TEST

START_TEST(growth_that_is_undone_takes_no_room_from_others_where_recovery_has_no_steps)
{
    char text[320];
    scene_simulate(watched[_i].machine);
    snprintf(text, sizeof text,
             "weir: 1\npools: { main: { " ALONE ", max_size: 512MiB, small_below: %s, cache: off, on_oom: { steps: [] } } }\n",
             watched[_i].small_below);
    scene_open(text);
    weir_stream *s = scene_create(NULL);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, HOUR);
    fails(256 * MIB, busy_stream());
    ck_assert_uint_gt(reserved(), CAP);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_free(s, live);
}
END_TEST

START_TEST(one_request_at_a_time_takes_the_pool_above_its_cap_where_recovery_gets_no_stream)
{
    open_watched(_i);
    leave_pending(CAP, HOUR);
    gpu_stream first = busy_stream(), second = busy_stream();
    fails(128 * MIB, first);
    sim_fail("stream_create", 1, GPU_UNKNOWN);
    fails(128 * MIB, second);
    ck_assert_uint_eq(reserved(), CAP + 128 * MIB);
}
END_TEST

/* Its memory is used again before its first user's stream gets there, so it is not on its way back any more. */
START_TEST(what_is_used_again_while_it_is_undone_counts_for_the_cap)
{
    open_watched(_i);
    gpu_stream busy = busy_stream();
    leave_pending(CAP, HOUR);
    fails(128 * MIB, busy);
    ck_assert_uint_eq(reserved(), CAP + 128 * MIB);
    fails(128 * MIB, busy);
    fails(64 * MIB, busy);
    ck_assert_uint_eq(reserved(), CAP + 128 * MIB);
}
END_TEST

#define EVENTS 8

/* Whichever of its events fails. */
START_TEST(growth_whose_event_fails_goes_back_all_the_same)
{
    open_watched(_i / EVENTS);
    weir_stream *s = scene_create(NULL);
    gpu_stream busy = scene_stream(0);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, DEADLINE * 2);
    scene_delay(busy, DEADLINE * 2);
    sim_fail("event_create", (unsigned)(_i % EVENTS) + 1, GPU_UNKNOWN);
    fails(256 * MIB, busy);
    sim_fail("event_create", 0, GPU_UNKNOWN);
    scene_sync(busy);
    scene_free(s, scene_malloc(s, 256 * MIB));
    ck_assert_uint_le(reserved(), CAP);
    scene_free(s, live);
}
END_TEST

/* The one that is asked at once, or that of the debt. */
START_TEST(growth_whose_event_fails_once_takes_no_room_from_others)
{
    open_watched(_i / 2);
    weir_stream *s = scene_create(NULL);
    void *live = scene_malloc(s, 192 * MIB);
    leave_pending(256 * MIB, HOUR);
    gpu_stream busy = busy_stream();
    sim_fail("event_create", (unsigned)(_i % 2) + 1, GPU_UNKNOWN);
    fails(256 * MIB, busy);
    ck_assert_uint_gt(reserved(), CAP);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_free(s, live);
}
END_TEST

START_TEST(requests_claim_no_more_than_the_cap_leaves_beside_what_is_taken)
{
    open_watched(_i);
    weir_pool *pool = scene.pool;
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(weir__claim_begin(pool, 300 * MIB, CAP), WEIR__CLAIM_GO);
    ck_assert_int_eq(weir__claim_begin(pool, 300 * MIB, CAP), WEIR__CLAIM_CROWDED);
    ck_assert_int_eq(weir__claim_begin(pool, 212 * MIB, CAP), WEIR__CLAIM_GO);
    ck_assert_int_eq(weir__claim_begin(pool, 1, CAP), WEIR__CLAIM_CROWDED);
    ck_assert_int_eq(weir__claim_begin(pool, CAP + 1, CAP), WEIR__CLAIM_FULL);
    weir__claim_end(pool, 212 * MIB);
    weir__claim_end(pool, 300 * MIB);
    void *ptr = scene_malloc(s, 300 * MIB);
    ck_assert_int_eq(weir__claim_begin(pool, 300 * MIB, CAP), WEIR__CLAIM_FULL);
    ck_assert_int_eq(weir__claim_begin(pool, 212 * MIB, CAP), WEIR__CLAIM_GO);
    weir__claim_end(pool, 212 * MIB);
    scene_free(s, ptr);
}
END_TEST

static void *look_at_frees(void *unused)
{
    for (int i = 0; i < 200; i++)
        weir__wait_for_frees(&scene.w->devices[0], 0, false);
    return unused;
}

START_TEST(several_threads_may_look_at_one_free_that_is_noted)
{
    pthread_t threads[3];
    scene_open("weir: 1\npools:\n  main: { " ALONE ", small_below: 0 }\n");
    gpu_stream s = scene_stream(0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, look_at_frees, NULL), 0);
    for (int i = 0; i < 50; i++)
        scene_free_on(s, scene_malloc_on(s, GIB));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert(weir__wait_for_frees(&scene.w->devices[0], WEIR__NO_DEADLINE, true));
}
END_TEST

void add_growth_cases(Suite *suite)
{
    const int rows = sizeof watched / sizeof *watched, lifted = rows - 1; /* of which the cap can be lifted */
    TCase *tcase = suite_case(suite, "growth", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, growth_that_is_undone_on_a_busy_stream_takes_no_room_from_others, 0, rows);
    tcase_add_loop_test(tcase, growth_that_is_undone_at_once_is_no_memory_that_was_found, 0, rows);
    tcase_add_loop_test(tcase, one_request_at_a_time_takes_the_pool_above_its_cap, 0, rows);
    tcase_add_loop_test(tcase, growth_goes_back_to_the_device_once_its_stream_gets_there, 0, rows);
    tcase_add_loop_test(tcase, growth_that_recovery_undoes_behind_a_busy_stream_is_seen_once_that_gets_there, 0, rows);
    tcase_add_loop_test(tcase, what_recovery_serves_at_a_cap_is_ordered_before_the_work_of_the_requests_stream, 0, rows);
    tcase_add_loop_test(tcase, far_from_the_cap_nothing_is_asked_of_the_pool, 0, rows);
    tcase_add_loop_test(tcase, pool_whose_handle_the_program_has_is_looked_at_each_time, 0, rows);
    tcase_add_loop_test(tcase, room_under_a_cap_that_was_lowered_is_found_anew, 0, rows);
    tcase_add_loop_test(tcase, room_under_a_cap_that_was_lifted_meanwhile_is_found_anew, 0, lifted);
    tcase_add_loop_test(tcase, room_is_found_anew_behind_a_request_that_began_before_there_was_a_cap, 0, lifted);
    tcase_add_loop_test(tcase, growth_that_is_undone_takes_no_room_from_others_where_recovery_has_no_steps, 0, lifted);
    tcase_add_loop_test(tcase, one_request_at_a_time_takes_the_pool_above_its_cap_where_recovery_gets_no_stream, 0, rows);
    tcase_add_loop_test(tcase, growth_whose_event_fails_once_takes_no_room_from_others, 0, rows * 2);
    tcase_add_loop_test(tcase, what_is_used_again_while_it_is_undone_counts_for_the_cap, 0, rows);
    tcase_add_loop_test(tcase, growth_whose_event_fails_goes_back_all_the_same, 0, rows * EVENTS);
    tcase_add_loop_test(tcase, requests_claim_no_more_than_the_cap_leaves_beside_what_is_taken, 0, rows);
    suite_add(tcase, growth_that_is_undone_on_a_stream_of_another_device_takes_no_room_from_others,
              several_threads_may_look_at_one_free_that_is_noted);
}
