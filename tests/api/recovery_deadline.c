/* SPDX-License-Identifier: MIT */
/* recovery_deadline.c - a recovery ends by its deadline whatever runs on the device: by the simulator's clock. */
#include "lib/alloc/free.h"
#include "lib/pool/settings.h"
#include "tests/api/hook.h"
#include "tests/api/recovery.h"
#include "tests/api/scene.h"

#define DEADLINE 50 /* milliseconds */
#define HOUR (3600 * 1000)
#define MACHINE "grow=0ns/GiB,trim=0ns/GiB," /* the last attempt takes no time */

static const char policy[] = "weir: 1\ndefaults: { pool: main }\npools:\n"
                             "  main: { " ALONE ", small_below: 0, on_oom: { deadline: 50ms } }\n";

/* Asks for what cannot be had. */
static void fail_in_time(weir_stream *s, uint64_t size)
{
    void *ptr;
    uint64_t begin = scene.gpu->now();
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, size), WEIR_OUT_OF_MEMORY);
    uint64_t took = scene.gpu->now() - begin;
    ck_assert_msg(took <= DEADLINE * MILLISECOND + 20000, "%llu us", (unsigned long long)took / 1000);
}

static weir_stream *busy_stream(uint64_t size, uint64_t milliseconds)
{
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, size);
    scene_delay(weir_stream_handle(s), milliseconds);
    scene_free(s, ptr);
    return s;
}

static void orphan(uint64_t size, gpu_stream behind, uint64_t milliseconds)
{
    void *ptr = scene_malloc_on(behind, size);
    scene_delay(behind, milliseconds);
    ck_assert_int_eq(weir__block_orphan(scene.w, ptr, NULL, 0, NULL), WEIR_OK);
}

/* Each has a block in its cache, and 400 of them were settled one after the other. */
START_TEST(four_hundred_busy_streams_with_caches_delay_no_refusal)
{
    scene_simulate(MACHINE "memory=8GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    void *most = scene_malloc(s, scene_share(75));
    for (int i = 0; i < 400; i++)
        busy_stream(64 << 10, HOUR);
    fail_in_time(s, scene_share(50));
    scene_free(s, most);
}
END_TEST

/* A device was synchronised for it. */
START_TEST(orphan_behind_a_kernel_delays_no_refusal)
{
    /* The older driver has no events behind all work of a device. */
    scene_simulate(_i ? MACHINE "memory=2GiB,driver=12.4" : MACHINE "memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    orphan(512 * MIB, scene_stream(0), HOUR);
    fail_in_time(s, 1792 * MIB);
}
END_TEST

START_TEST(orphan_behind_a_kernel_of_another_device_delays_no_refusal)
{
    scene_simulate(MACHINE "devices=2,memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    scene_delay(scene_stream(1), HOUR);
    orphan(512 * MIB, weir_stream_handle(s), 0);
    fail_in_time(s, 1792 * MIB);
}
END_TEST

START_TEST(orphan_whose_work_ends_in_time_rescues)
{
    scene_simulate(MACHINE "memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    orphan(GIB, scene_stream(0), DEADLINE / 2);
    scene_free(s, scene_malloc(s, 1536 * MIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    ck_assert_uint_eq(sim_calls("device_synchronize"), 0);
}
END_TEST

static uint64_t orphan_it(void *data, int device, uint64_t needed)
{
    (void)device;
    void **block = data;
    if (!*block || !needed)
        return 0;
    ck_assert_int_eq(weir__block_orphan(scene.w, *block, NULL, 0, NULL), WEIR_OK);
    *block = NULL;
    return GIB;
}

/* As a host does that does not know whether the block's stream is there yet. */
START_TEST(block_that_a_callback_orphans_rescues)
{
    unsigned id;
    scene_simulate(MACHINE "memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *block = scene_malloc(other, GIB);
    scene_delay(weir_stream_handle(other), DEADLINE / 2);
    scene_ok(weir_oom_add(scene.w, orphan_it, &block, NULL, &id), "weir_oom_add");
    scene_free(s, scene_malloc(s, 1536 * MIB));
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
}
END_TEST

/* Another device's kernels may use an orphan, but only where its owner cannot say otherwise. */
START_TEST(orphan_of_a_destroyed_stream_waits_for_no_other_device)
{
    scene_simulate(MACHINE "devices=2,memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL), *former, *later;
    gpu_stream raw, again;
    ck_assert_int_eq(scene.gpu->stream_create(0, &raw), GPU_SUCCESS);
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &former), "weir_stream_open");
    scene_free(former, scene_malloc(former, 64 << 10));
    ck_assert_int_eq(scene.gpu->stream_destroy(raw), GPU_SUCCESS);
    again = scene_stream(0);
    ck_assert_ptr_eq(again, raw);
    scene_ok(weir_stream_open(scene.w, 0, again, NULL, NULL, &later), "weir_stream_open");
    scene_delay(scene_stream(1), HOUR);
    uint64_t begin = scene.gpu->now();
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_lt(scene.gpu->now() - begin, 10 * MILLISECOND);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    scene_free(s, scene_malloc(s, MIB));
}
END_TEST

/* All are looked at in turn: what is done need not wait for the largest. */
START_TEST(free_that_is_done_is_not_kept_waiting_by_a_larger_one)
{
    scene_simulate(MACHINE "memory=8GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    busy_stream(4 * GIB, HOUR);
    busy_stream(3 * GIB, 5);
    uint64_t begin = scene.gpu->now();
    void *ptr = scene_malloc(s, 2 * GIB);
    ck_assert_uint_lt(scene.gpu->now() - begin, 10 * MILLISECOND);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free(s, ptr);
}
END_TEST

static unsigned asked;

/* As where the process's work has failed; in the end it tells, so that a test that fails ends. */
static int broken_query(gpu_event event)
{
    return ++asked > 10000 ? hook_base()->event_query(event) : GPU_UNKNOWN;
}

/* It was collected and dropped again and again, without a pause, until the deadline. */
START_TEST(free_whose_event_never_tells_is_not_looked_at_again_and_again)
{
    struct gpu broken;
    void *ptr;
    scene_simulate(MACHINE "memory=2GiB");
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = scene_stream(0);
    if (_i == 0) {
        busy_stream(2 * GIB, HOUR);
    } else {
        void *pending = scene_malloc_on(raw, 2 * GIB);
        scene_delay(raw, HOUR);
        scene_free_on(raw, pending);
    }
    broken = *hook_base();
    broken.event_query = broken_query;
    hook_set(&broken);
    weir_status status = weir_stream_malloc(s, &ptr, 16 * MIB);
    hook_set(NULL);
    ck_assert_int_eq(status, WEIR_OUT_OF_MEMORY);
    ck_assert_uint_lt(asked, 100);
}
END_TEST

void add_deadline_cases(Suite *suite)
{
    TCase *tcase = suite_case(suite, "the deadline", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, four_hundred_busy_streams_with_caches_delay_no_refusal);
    tcase_add_loop_test(tcase, orphan_behind_a_kernel_delays_no_refusal, 0, 2);
    suite_add(tcase, orphan_behind_a_kernel_of_another_device_delays_no_refusal, orphan_whose_work_ends_in_time_rescues,
              block_that_a_callback_orphans_rescues, orphan_of_a_destroyed_stream_waits_for_no_other_device,
              free_that_is_done_is_not_kept_waiting_by_a_larger_one);
    tcase_add_loop_test(tcase, free_whose_event_never_tells_is_not_looked_at_again_and_again, 0, 2);
}
