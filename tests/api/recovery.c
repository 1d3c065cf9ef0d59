/* SPDX-License-Identifier: MIT */
/*
 * recovery.c - requests that CUDA alone refuses: what each rung of the ladder rescues, and what a refusal says. Runs on the simulator and on
 * a GPU. Times here only have to be long enough that a kernel still runs while the host makes a few calls.
 */
#include "tests/api/recovery.h"

#include <string.h>

#include "tests/api/scene.h"

#define MOST 85 /* percent of the memory: two such blocks never fit */

static const char wait_only[] = "weir: 1\n"
                                "defaults: { pool: main }\n"
                                "pools:\n"
                                "  main: { " ALONE ", small_below: 0, on_oom: { steps: [wait], deadline: 10s } }\n"
                                "  other: { " ALONE ", small_below: 0, on_oom: { steps: [wait], deadline: 10s } }\n";

static weir_pool *pool_named(const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    ck_assert_msg(weir_pool_get(scene.w, name, 0, &error, &pool) == WEIR_OK, "%s", error.text);
    return pool;
}

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

/* CUDA alone refuses the request, Weir serves it, and counts it as rescued by waiting. */
static void expect_rescue_by_wait(weir_pool *pool, weir_stream *s)
{
    void *ptr = NULL;
    uint64_t size = scene_share(MOST);
    scene_fails_raw(pool, size, weir_stream_handle(s));
    scene_ok(weir_pool_malloc(pool, &ptr, size, weir_stream_handle(s)), "behind a pending free");
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free(s, ptr);
}

START_TEST(free_on_an_opened_stream_behind_a_kernel_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, ptr);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(weir_free_with_an_opened_stream_behind_a_kernel_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free_on(weir_stream_handle(a), ptr);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(large_free_on_an_unopened_stream_behind_a_kernel_is_rescued_by_wait)
{
    scene_open(wait_only);
    gpu_stream a = scene_stream(0);
    weir_stream *b = scene_create(NULL);
    void *ptr = scene_malloc_on(a, scene_share(MOST));
    scene_delay(a, 300);
    scene_free_on(a, ptr);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(large_free_on_a_stream_destroyed_since_is_rescued_by_wait)
{
    scene_open(wait_only);
    gpu_stream a = scene_stream(0);
    weir_stream *b = scene_create(NULL);
    void *ptr = scene_malloc_on(a, scene_share(MOST));
    scene_delay(a, 300);
    scene_free_on(a, ptr);
    scene_drop_stream(a);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(many_large_frees_on_one_unopened_stream_are_rescued_by_wait)
{
    void *blocks[8];
    scene_open(wait_only);
    gpu_stream a = scene_stream(0);
    weir_stream *b = scene_create(NULL);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = scene_malloc_on(a, scene_share(MOST) / 8);
    for (size_t i = 0; i < 8; i++) {
        scene_delay(a, 30);
        scene_free_on(a, blocks[i]);
    }
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(free_on_the_legacy_stream_behind_a_kernel_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_stream *b = scene_create(NULL);
    void *ptr = scene_malloc_on(NULL, scene_share(MOST));
    scene_delay(NULL, 300);
    scene_free_on(NULL, ptr);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(free_on_the_per_thread_stream_behind_a_kernel_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_stream *b = scene_create(NULL);
    void *ptr = scene_malloc_on(GPU_STREAM_PER_THREAD, scene_share(MOST));
    scene_delay(GPU_STREAM_PER_THREAD, 300);
    scene_free_on(GPU_STREAM_PER_THREAD, ptr);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(pending_free_that_cuda_makes_the_stream_wait_for_needs_no_recovery)
{
    scene_open("weir: 1\npools: { main: { small_below: 0 } }\n");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 200);
    scene_free(a, ptr);
    ck_assert_ptr_eq(scene_malloc(b, scene_share(MOST)), ptr);
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
    scene_free(b, ptr);
}
END_TEST

START_TEST(pending_free_in_another_pool_is_rescued_by_wait_with_cudas_defaults)
{
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { small_below: 0 }, other: { small_below: 0 } }\n");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 200);
    scene_free(a, ptr);
    expect_rescue_by_wait(pool_named("other"), b);
}
END_TEST

START_TEST(free_into_one_pool_behind_a_kernel_rescues_a_request_to_another_pool)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, ptr);
    expect_rescue_by_wait(pool_named("other"), b);
}
END_TEST

START_TEST(free_on_the_requesting_stream_rescues_its_request_to_another_pool)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, ptr);
    expect_rescue_by_wait(pool_named("other"), a);
}
END_TEST

START_TEST(request_on_an_unopened_stream_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL);
    gpu_stream b = scene_stream(0);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, ptr);
    scene_fails_raw(scene.pool, scene_share(MOST), b);
    ptr = scene_malloc_on(b, scene_share(MOST));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free_on(b, ptr);
}
END_TEST

START_TEST(free_of_a_closed_stream_is_rescued_by_wait)
{
    scene_open(wait_only);
    weir_error error = WEIR_ERROR_INIT;
    gpu_stream handle = scene_stream(0);
    weir_stream *a, *b = scene_create(NULL);
    ck_assert_msg(weir_stream_open(scene.w, 0, handle, NULL, &error, &a) == WEIR_OK, "%s", error.text);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(handle, 300);
    scene_free(a, ptr);
    weir_stream_close(a);
    expect_rescue_by_wait(scene.pool, b);
}
END_TEST

START_TEST(block_rescued_behind_a_kernel_has_memory_of_its_own)
{
    unsigned char byte = 0;
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    gpu_stream first = weir_stream_handle(a), second = weir_stream_handle(b);
    unsigned char *old = scene_malloc(a, scene_share(MOST));
    scene_delay(first, 100);
    ck_assert_int_eq(scene.gpu->set_async(old, 0x11, MIB, first), GPU_SUCCESS);
    scene_free(a, old);
    unsigned char *ptr = scene_malloc(b, scene_share(MOST));
    ck_assert_int_eq(scene.gpu->set_async(ptr, 0x77, MIB, second), GPU_SUCCESS);
    scene_sync(first);
    ck_assert_int_eq(scene.gpu->copy_async(&byte, ptr + MIB - 1, 1, second), GPU_SUCCESS);
    scene_sync(second);
    ck_assert_uint_eq(byte, 0x77);
    scene_free(b, ptr);
}
END_TEST

/* Deadline ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(kernel_longer_than_the_deadline_fails_now_and_later_succeeds)
{
    void *ptr = NULL;
    weir_error error;
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, on_oom: { deadline: 20ms } } }\n");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *old = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 1000);
    scene_free(a, old);
    ck_assert_int_eq(weir_stream_malloc(b, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_null(ptr);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(error.cuda_code, GPU_OUT_OF_MEMORY);
    scene_rescues(WEIR_RUNG_WAIT, 0, 1);
    scene_sync(weir_stream_handle(a));
    scene_free(b, scene_malloc(b, scene_share(MOST)));
    ck_assert_uint_eq(scene_pool_stats("main").failures, 1);
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

static uint64_t count_call(void *data, int device, uint64_t needed)
{
    (void)device;
    (void)needed;
    atomic_fetch_add((atomic_uint *)data, 1);
    return 0;
}

START_TEST(report_names_request_pools_device_and_rungs)
{
    void *ptr;
    unsigned id;
    atomic_uint calls = 0;
    weir_error error = WEIR_ERROR_INIT;
    static const char *const parts[] = { "pool 'main'", "pool 'other'", "live ", "cached 0 B", "idle ",           "reserved ",
                                         "device 0: ",  " free of ",    "\n  gave nothing: ", "trim", ", callbacks",
                                         "cudaErrorMemoryAllocation" };
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: {}, other: {} }\n");
    scene_ok(weir_oom_add(scene.w, count_call, &calls, &error, &id), "weir_oom_add");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(error.text, parts[i]) != NULL, "no \"%s\" in: %s", parts[i], error.text);
    ck_assert_uint_eq(calls, 1);
    scene_free(s, held);
}
END_TEST

START_TEST(failures_are_logged_once_a_second)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
        ck_assert_uint_eq(scene.log_lines, i);
        scene.gpu->pause(1000 * MILLISECOND);
    }
    scene_free(s, held);
}
END_TEST

START_TEST(rescue_is_not_logged)
{
    scene_open(wait_only);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, ptr);
    scene_free(b, scene_malloc(b, scene_share(MOST)));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    ck_assert_uint_eq(scene.log_lines, 0);
}
END_TEST

static void expect_10000_quick_refusals(weir_stream *s, uint64_t size, const char *words)
{
    unsigned id;
    atomic_uint calls = 0;
    void *ptr;
    weir_error error = WEIR_ERROR_INIT;
    scene_ok(weir_oom_add(scene.w, count_call, &calls, &error, &id), "weir_oom_add");
    uint64_t records = scene_is_sim() ? sim_calls("event_record") : 0, trims = scene_is_sim() ? sim_calls("pool_trim") : 0;
    for (unsigned i = 0; i < 10000; i++)
        ck_assert_int_eq(weir_stream_malloc(s, &ptr, size), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, words) != NULL, "no \"%s\" in: %s", words, error.text);
    ck_assert_uint_eq(calls, 0);
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
    ck_assert_uint_eq(scene_pool_stats("main").failures, 10000);
    if (scene_is_sim()) {
        ck_assert_uint_eq(sim_calls("event_record"), records);
        ck_assert_uint_eq(sim_calls("pool_trim"), trims);
    }
    ck_assert_int_eq(weir_oom_remove(scene.w, id, NULL), WEIR_OK);
}

START_TEST(requests_larger_than_the_device_fail_at_once)
{
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    expect_10000_quick_refusals(s, scene_device_stats(0).memory * 4, "larger than the device");
}
END_TEST

START_TEST(requests_larger_than_the_cap_fail_at_once)
{
    scene_open("weir: 1\npools: { main: { max_size: 1GiB } }\n");
    weir_stream *s = scene_create(NULL);
    expect_10000_quick_refusals(s, GIB + 1, "above max_size");
}
END_TEST

START_TEST(hopeless_request_leaves_live_alone)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, GIB);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_device_stats(0).memory + 1), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, SIZE_MAX), WEIR_OUT_OF_MEMORY);
    weir_error error = WEIR_ERROR_INIT;
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "no 16 EiB for pool 'main'") != NULL, "%s", error.text);
    ck_assert_uint_eq(scene_pool_stats("main").live, GIB);
    ck_assert_uint_eq(scene_pool_stats("main").live_high, GIB);
    scene_free(s, held);
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
}
END_TEST

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

static void expect_refusal_behind_a_kernel(const char *policy, unsigned callbacks, const char *absent)
{
    void *ptr;
    unsigned id;
    atomic_uint calls = 0;
    weir_error error = WEIR_ERROR_INIT;
    scene_open(policy);
    scene_ok(weir_oom_add(scene.w, count_call, &calls, &error, &id), "weir_oom_add");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *old = scene_malloc(a, scene_share(MOST));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, old);
    ck_assert_int_eq(weir_stream_malloc(b, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(calls, callbacks);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, absent) == NULL, "\"%s\" in: %s", absent, error.text);
}

START_TEST(without_steps_nothing_is_tried)
{
    expect_refusal_behind_a_kernel("weir: 1\npools: { main: { " ALONE ", small_below: 0, on_oom: { steps: [] } } }\n", 0, "gave");
}
END_TEST

START_TEST(without_the_wait_step_a_pending_free_is_not_waited_for)
{
    expect_refusal_behind_a_kernel("weir: 1\npools: { main: { " ALONE ", small_below: 0, on_oom: { steps: [trim, callbacks] } } }\n", 1, "wait: gave");
    weir_error error;
    weir_last_error(&error);
    ck_assert_ptr_null(strstr(error.text, "gave nothing: wait"));
}
END_TEST

START_TEST(without_the_callbacks_step_no_callback_runs)
{
    void *ptr;
    unsigned id;
    atomic_uint calls = 0;
    weir_error error = WEIR_ERROR_INIT;
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [wait, trim] } } }\n");
    scene_ok(weir_oom_add(scene.w, count_call, &calls, &error, &id), "weir_oom_add");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(calls, 0);
    scene_free(s, held);
}
END_TEST

/* Caps --------------------------------------------------------------------------------------------------------------------------------- */

static const char capped[] = "weir: 1\ndefaults: { pool: main }\n"
                             "pools:\n"
                             "  main: { " ALONE ", max_size: 50%, on_oom: { deadline: 10s } }\n"
                             "  other: {}\n";

static uint64_t note_needed(void *data, int device, uint64_t needed)
{
    (void)device;
    *(uint64_t *)data = needed;
    return 0;
}

START_TEST(at_the_cap_callbacks_are_asked_for_what_lacks_below_it)
{
    void *ptr;
    unsigned id;
    uint64_t needed = 0;
    weir_error error = WEIR_ERROR_INIT;
    scene_open(capped);
    scene_ok(weir_oom_add(scene.w, note_needed, &needed, &error, &id), "weir_oom_add");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(30));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(30)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(needed, 2 * scene_share(30) - scene_pool_stats("main").max_size);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "its max_size is reached") != NULL, "%s", error.text);
    scene_free(s, held);
}
END_TEST

START_TEST(at_the_cap_a_pending_free_is_rescued_by_wait)
{
    scene_open(capped);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *old = scene_malloc(a, scene_share(30));
    scene_delay(weir_stream_handle(a), 300);
    scene_free(a, old);
    scene_free(b, scene_malloc(b, scene_share(30)));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

/* Fills the twin with three quarters of the cap and frees it all. */
static weir_stream *leave_the_twin_idle(void)
{
    static void *blocks[1024];
    scene_open("weir: 1\npools: { main: { max_size: 1GiB, small_below: 1MiB, cache: off, on_oom: { deadline: 10s } } }\n");
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < 1024; i++)
        blocks[i] = scene_malloc(s, 768 * 1024);
    for (size_t i = 0; i < 1024; i++)
        scene_free(s, blocks[i]);
    return s;
}

START_TEST(at_the_cap_idle_memory_of_the_twin_makes_room)
{
    weir_stream *s = leave_the_twin_idle();
    scene_sync(weir_stream_handle(s));
    void *ptr = scene_malloc(s, 768 * MIB);
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
    ck_assert_uint_le(scene_pool_stats("main").reserved, GIB);
    scene_free(s, ptr);
}
END_TEST

START_TEST(at_the_cap_memory_just_freed_in_the_twin_is_rescued_by_wait)
{
    weir_stream *s = leave_the_twin_idle();
    void *ptr = scene_malloc(s, 768 * MIB);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    ck_assert_uint_le(scene_pool_stats("main").reserved, GIB);
    scene_free(s, ptr);
}
END_TEST

/* Small blocks ------------------------------------------------------------------------------------------------------------------------- */

#define LARGE_BLOCK (24 * MIB)
#define SMALL_BLOCK (64 * 1024)
#define PAIRS_MAX 2048

struct mixture {
    size_t pairs;
    void *small[PAIRS_MAX], *large[PAIRS_MAX];
};

/* Small live blocks between large freed ones, in a third of the memory; all freeing has been seen. */
static void mix(weir_stream *s, struct mixture *mixture)
{
    mixture->pairs = scene_share(35) / LARGE_BLOCK < PAIRS_MAX ? scene_share(35) / LARGE_BLOCK : PAIRS_MAX;
    for (size_t i = 0; i < mixture->pairs; i++) {
        mixture->large[i] = scene_malloc(s, LARGE_BLOCK);
        mixture->small[i] = scene_malloc(s, SMALL_BLOCK);
    }
    for (size_t i = 0; i < mixture->pairs; i++)
        scene_free(s, mixture->large[i]);
    scene_sync(weir_stream_handle(s));
}

static void unmix(weir_stream *s, struct mixture *mixture)
{
    for (size_t i = 0; i < mixture->pairs; i++)
        scene_free(s, mixture->small[i]);
}

START_TEST(with_a_twin_small_live_blocks_pin_no_large_memory)
{
    static struct mixture mixture;
    uint64_t released = 0;
    scene_open("weir: 1\npools: { main: { small_below: 1MiB } }\n");
    weir_stream *s = scene_create(NULL);
    mix(s, &mixture);
    uint64_t idle = scene_pool_stats("main").idle;
    ck_assert_uint_ge(idle, mixture.pairs * LARGE_BLOCK);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_msg(released >= idle / 100 * 99, "%llu of %llu idle bytes came back", (unsigned long long)released, (unsigned long long)idle);
    scene_free(s, scene_malloc(s, scene_share(78)));
    unmix(s, &mixture);
}
END_TEST

START_TEST(without_a_twin_small_live_blocks_pin_large_memory)
{
    static struct mixture mixture;
    void *ptr;
    uint64_t released = 0;
    scene_open("weir: 1\npools: { main: { small_below: 0 } }\n");
    weir_stream *s = scene_create(NULL);
    mix(s, &mixture);
    uint64_t idle = scene_pool_stats("main").idle;
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_msg(released < idle / 10, "%llu of %llu idle bytes came back", (unsigned long long)released, (unsigned long long)idle);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(78)), WEIR_OUT_OF_MEMORY);
    unmix(s, &mixture);
}
END_TEST

/* Memory of graphs --------------------------------------------------------------------------------------------------------------------- */

static const char *const backings[] = { "weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [trim] } } }\n",
                                        "weir: 1\npools: { main: { backing: arena, on_oom: { steps: [trim] } } }\n" };

/* Runs a graph that has 60 % of the device for a while, and destroys it: the driver keeps all that. */
START_TEST(memory_of_a_destroyed_graph_is_rescued_by_trim)
{
    void *ptr;
    weir_error error = WEIR_ERROR_INIT;
    scene_open(backings[_i]);
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    scene_free(s, scene_malloc(s, scene_share(60)));
    ck_assert_int_eq(scene.gpu->capture_run(weir_stream_handle(s)), GPU_SUCCESS);
    weir_status status = weir_stream_malloc(s, &ptr, scene_share(60));
    weir_last_error(&error);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    scene_free(s, ptr);
}
END_TEST

static Suite *recovery_suite(void)
{
    Suite *suite = suite_create("recovery");
    TCase *wait = suite_case(suite, "wait", 60), *refusal = suite_case(suite, "refusal", 60), *cap = suite_case(suite, "cap", 60);
    TCase *small = suite_case(suite, "small blocks", 120), *graphs = suite_case(suite, "graphs", 60);
    TCase *const cases[] = { wait, refusal, cap, small, graphs };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_checked_fixture(cases[i], scene_begin, scene_end);

    suite_add(wait, free_on_an_opened_stream_behind_a_kernel_is_rescued_by_wait,
              weir_free_with_an_opened_stream_behind_a_kernel_is_rescued_by_wait,
              large_free_on_an_unopened_stream_behind_a_kernel_is_rescued_by_wait,
              large_free_on_a_stream_destroyed_since_is_rescued_by_wait, many_large_frees_on_one_unopened_stream_are_rescued_by_wait,
              free_on_the_legacy_stream_behind_a_kernel_is_rescued_by_wait,
              free_on_the_per_thread_stream_behind_a_kernel_is_rescued_by_wait,
              pending_free_that_cuda_makes_the_stream_wait_for_needs_no_recovery,
              pending_free_in_another_pool_is_rescued_by_wait_with_cudas_defaults,
              free_into_one_pool_behind_a_kernel_rescues_a_request_to_another_pool,
              free_on_the_requesting_stream_rescues_its_request_to_another_pool, request_on_an_unopened_stream_is_rescued_by_wait,
              free_of_a_closed_stream_is_rescued_by_wait, block_rescued_behind_a_kernel_has_memory_of_its_own,
              kernel_longer_than_the_deadline_fails_now_and_later_succeeds);

    suite_add(refusal, report_names_request_pools_device_and_rungs, failures_are_logged_once_a_second, rescue_is_not_logged,
              requests_larger_than_the_device_fail_at_once, requests_larger_than_the_cap_fail_at_once, hopeless_request_leaves_live_alone,
              without_steps_nothing_is_tried, without_the_wait_step_a_pending_free_is_not_waited_for,
              without_the_callbacks_step_no_callback_runs);

    suite_add(cap, at_the_cap_callbacks_are_asked_for_what_lacks_below_it, at_the_cap_a_pending_free_is_rescued_by_wait, at_the_cap_idle_memory_of_the_twin_makes_room,
              at_the_cap_memory_just_freed_in_the_twin_is_rescued_by_wait);

    suite_add(small, with_a_twin_small_live_blocks_pin_no_large_memory, without_a_twin_small_live_blocks_pin_large_memory);
    tcase_add_loop_test(graphs, memory_of_a_destroyed_graph_is_rescued_by_trim, 0, sizeof backings / sizeof *backings);
    return suite;
}

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = recovery_suite();
    add_callback_cases(suite);
    if (scene_is_sim()) {
        add_simulator_cases(suite);
        add_crowd_cases(suite);
        add_deadline_cases(suite);
        add_growth_cases(suite);
        add_report_cases(suite);
    }
    return suite_run(suite);
}
