/* SPDX-License-Identifier: MIT */
/* refusal_sim.c - the same on the simulator: thresholds that change or cannot be put back, other weirs, streams that nobody opened. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/api/hook.h"
#include "tests/api/refusal.h"
#include "tests/api/scene.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char plain[] = "weir: 1\ndefaults: { pool: a }\npools: { a: { small_below: 0 }, b: { small_below: 0 } }\n";

static uint64_t threshold_of(weir_pool *pool)
{
    uint64_t threshold = 0;
    ck_assert_int_eq(scene.gpu->pool_get(weir_pool_handle(pool), GPU_POOL_RELEASE_THRESHOLD, &threshold), GPU_SUCCESS);
    return threshold;
}

static void refuse(weir_stream *s, uint64_t size)
{
    void *ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, size), WEIR_OUT_OF_MEMORY);
}

/* Thresholds --------------------------------------------------------------------------------------------------------------------------- */

static struct gpu hooked;
static bool is_broken;

/* The program sets the threshold while Weir asks for memory, through the handle that it has. */
static int malloc_and_set(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    hook_base()->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, 123 * MIB);
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

START_TEST(threshold_that_the_program_sets_during_an_attempt_stays)
{
    scene_open("weir: 1\ndefaults: { pool: a }\npools: { a: { small_below: 0, current: true, release_threshold: all } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene.memory - 96 * MIB);
    hooked = *hook_base();
    hooked.malloc_async = malloc_and_set;
    hook_set(&hooked);
    refuse(s, 100 * MIB);
    hook_set(NULL);
    ck_assert_uint_eq(threshold_of(scene.pool), 123 * MIB);
    scene_free(s, held);
}
END_TEST

START_TEST(threshold_that_the_program_set_outlives_trims_and_refusals)
{
    scene_open("weir: 1\ndefaults: { pool: a }\npools: { a: { current: true, release_threshold: 1GiB } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene.memory - 96 * MIB), *small = scene_malloc(s, 4096);
    ck_assert_int_eq(scene.gpu->pool_set(weir_pool_handle(scene.pool), GPU_POOL_RELEASE_THRESHOLD, 123 * MIB), GPU_SUCCESS);
    refuse(s, 100 * MIB);
    ck_assert_uint_eq(threshold_of(scene.pool), 123 * MIB);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(threshold_of(scene.pool), 123 * MIB);
    scene_free(s, small);
    scene_free(s, held);
}
END_TEST

static int set_unless_broken(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value)
{
    if (attribute == GPU_POOL_RELEASE_THRESHOLD && value == UINT64_MAX && is_broken)
        return GPU_UNKNOWN;
    return hook_base()->pool_set(pool, attribute, value);
}

START_TEST(threshold_that_could_not_be_put_back_is_by_the_next_trim)
{
    scene_open("weir: 1\ndefaults: { pool: a }\npools: { a: { small_below: 0, release_threshold: all } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, GIB);
    hooked = *hook_base();
    hooked.pool_set = set_unless_broken;
    hook_set(&hooked);
    is_broken = true;
    refuse(s, scene.memory - GIB + 32 * MIB);
    is_broken = false;
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    hook_set(NULL);
    ck_assert_uint_eq(threshold_of(scene.pool), UINT64_MAX);
    scene_free(s, held);
}
END_TEST

/* All blocks together are below the cap, but the pool grows by whole steps. */
START_TEST(growth_above_the_cap_that_is_undone_does_not_stay_below_it)
{
    void *blocks[6];
    uint64_t before = 0, after = 0;
    scene_open("weir: 1\ndefaults: { pool: a }\npools: { a: { max_size: 270MiB, release_threshold: all, cache: off } }\n");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < COUNT(blocks); i++)
        blocks[i] = scene_malloc(s, 20 * MIB);
    ck_assert_int_eq(scene.gpu->pool_get(weir_pool_handle(scene.pool), GPU_POOL_RESERVED, &before), GPU_SUCCESS);
    refuse(s, 145 * MIB);
    ck_assert_int_eq(scene.gpu->pool_get(weir_pool_handle(scene.pool), GPU_POOL_RESERVED, &after), GPU_SUCCESS);
    ck_assert_msg(after <= before, "%llu MiB before, %llu MiB after", (unsigned long long)(before / MIB), (unsigned long long)(after / MIB));
    for (int i = 0; i < COUNT(blocks); i++)
        scene_free(s, blocks[i]);
}
END_TEST

/* Streams that nobody opened ------------------------------------------------------------------------------------------------------------ */

static weir_pool *pool_b(void)
{
    weir_pool *b;
    scene_ok(weir_pool_get(scene.w, "b", 0, NULL, &b), "weir_pool_get");
    return b;
}

/* On which stream, in how many blocks of which size, and how much of the device these may pin at most afterwards. */
static const struct unopened {
    const char *name;
    bool is_legacy;
    unsigned blocks;
    uint64_t size, left;
} unopened[] = {
    { "three blocks of 32 MiB on stream 0", true, 3, 32 * MIB, 0 },
    { "a thousand blocks of 1000 KiB on stream 0", true, 1000, 1000 << 10, 0 },
    { "one block of 4 KiB on stream 0", true, 1, 4 << 10, 0 },
    { "three blocks of 32 MiB", false, 3, 32 * MIB, 0 },
    { "64 blocks of 1 MiB", false, 64, 1 * MIB, 0 },
};

START_TEST(complete_frees_on_a_stream_that_nobody_opened_keep_nothing_from_another_pool)
{
    const struct unopened *row = &unopened[_i];
    void *blocks[1000];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = row->is_legacy ? NULL : scene_stream(0);
    for (unsigned i = 0; i < row->blocks; i++)
        blocks[i] = scene_malloc_on(stream, row->size);
    for (unsigned i = 0; i < row->blocks; i++)
        scene_free_on(stream, blocks[i]);
    void *ptr;
    weir_error error;
    weir_status status = weir_pool_malloc(pool_b(), &ptr, scene.memory - row->left, weir_stream_handle(s));
    weir_last_error(&error);
    ck_assert_msg(status == WEIR_OK, "%s: %s", row->name, error.text);
    scene_free(s, ptr);
}
END_TEST

/* By the weir_stream, and by the raw handle. */
START_TEST(complete_frees_on_an_opened_stream_of_another_device_keep_nothing_from_another_pool)
{
    void *blocks[64];
    weir_stream *abroad;
    scene_simulate("memory=8GiB,devices=2");
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    scene_ok(weir_stream_create(scene.w, 1, NULL, NULL, &abroad), "weir_stream_create");
    for (int i = 0; i < COUNT(blocks); i++)
        blocks[i] = scene_malloc(s, 1000 << 10);
    scene_sync(weir_stream_handle(s));
    for (int i = 0; i < COUNT(blocks); i++)
        if (_i == 0)
            scene_free(abroad, blocks[i]);
        else
            scene_free_on(weir_stream_handle(abroad), blocks[i]);
    scene_free(s, scene_pool_malloc(pool_b(), scene.memory, weir_stream_handle(s)));
}
END_TEST

START_TEST(trim_sees_complete_frees_on_stream_0)
{
    uint64_t released = 0;
    scene_open(plain);
    void *ptr = scene_malloc_on(NULL, 8 * MIB);
    scene_free_on(NULL, ptr);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_uint_eq(released, 32 * MIB);
}
END_TEST

START_TEST(keeper_sees_complete_frees_on_stream_0_and_puts_no_event_there)
{
    scene_open("weir: 1\ndefaults: { pool: a }\nkeeper: true\npools: { a: { small_below: 0, release_threshold: none } }\n");
    void *ptr = scene_malloc_on(NULL, 8 * MIB);
    scene_delay(NULL, 50);
    scene_free_on(NULL, ptr);
    uint64_t events = sim_calls("event_record");
    scene_pass(10 * MILLISECOND);
    ck_assert_uint_eq(scene_pool_stats("a").reserved, 32 * MIB);
    for (int i = 0; i < 50; i++)
        scene_pass(1000 * MILLISECOND);
    ck_assert_uint_eq(scene_pool_stats("a").reserved, 0);
    ck_assert_uint_eq(sim_calls("event_record"), events);
}
END_TEST

START_TEST(report_says_of_no_complete_work_that_it_was_not_done)
{
    weir_error error;
    void *ptr;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = scene_stream(0);
    scene_free_on(stream, scene_malloc_on(stream, 30 * MIB));
    void *held = scene_pool_malloc(pool_b(), scene.memory - 128 * MIB, weir_stream_handle(s));
    ck_assert_int_eq(weir_pool_malloc(pool_b(), &ptr, 128 * MIB, weir_stream_handle(s)), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(!strstr(error.text, "was not done") && strstr(error.text, "streams that Weir was not told of"), "%s", error.text);
    scene_free(s, held);
}
END_TEST

/* Other weirs of the process ------------------------------------------------------------------------------------------------------------ */

static weir *open_other(const char *policy, weir_stream **s)
{
    weir *w = NULL;
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_stream_create(w, 0, NULL, &error, s) == WEIR_OK, "%s", error.text);
    return w;
}

/* Where what the other weir freed is when the request comes. */
enum where { CACHED, PENDING, UNOPENED, IDLE };
static const struct company {
    const char *name, *own, *other;
    enum where where;
    uint64_t size;
} companies[] = {
    { "cached", "", "{ cache: { largest: 1GiB, per_stream: 8GiB, per_device: 8GiB } }", CACHED, 512 * MIB },
    { "pending behind 100 ms", "", "{}", PENDING, 512 * MIB },
    { "pending on a stream that was not opened", "", "{}", UNOPENED, 512 * MIB },
    { "idle, for an arena", "backing: arena,", "{ release_threshold: all }", IDLE, 512 * MIB },
    { "cached in an arena, for a pool", "", "{ backing: arena, cache: { largest: 1GiB, per_stream: 8GiB, per_device: 8GiB } }", CACHED, 512 * MIB },
    { "pending in an arena, for an arena", "backing: arena,", "{ backing: arena }", PENDING, 512 * MIB },
};

static void free_in(weir *other, weir_stream *t, const struct company *row, void *ptr)
{
    gpu_stream stream = weir_stream_handle(t);
    if (row->where != UNOPENED) {
        scene_ok(weir_stream_free(t, ptr), "weir_stream_free");
    } else {
        stream = scene_stream(0);
        scene_delay(stream, 100);
        scene_ok(weir_free(other, ptr, stream), "weir_free");
    }
    if (row->where == IDLE)
        scene_sync(stream);
}

START_TEST(what_another_weir_of_the_process_does_not_use_serves_a_request)
{
    const struct company *row = &companies[_i];
    char own[256], others[256];
    weir_stream *t;
    void *ptr[8];
    snprintf(own, sizeof own, "weir: 1\ndefaults: { pool: p }\npools: { p: { %s on_oom: { deadline: 5s } } }\n", row->own);
    snprintf(others, sizeof others, "weir: 1\npools: { p: %s }\n", row->other);
    scene_open(own);
    weir_stream *s = scene_create(NULL);
    weir *other = open_other(others, &t);
    int count = (int)(scene.memory / row->size) - 1;
    for (int i = 0; i < count && i < 8; i++)
        scene_ok(weir_stream_malloc(t, &ptr[i], row->size), "weir_stream_malloc");
    if (row->where == PENDING)
        scene_delay(weir_stream_handle(t), 100);
    for (int i = 0; i < count && i < 8; i++)
        free_in(other, t, row, ptr[i]);
    scene_free(s, scene_malloc(s, scene.memory - 512 * MIB));
    weir_stream_close(t);
    weir_close(other);
}
END_TEST

/* Another weir's blocks, which a callback frees one at a time. */
static struct {
    weir_stream *t;
    void *blocks[64];
    int left, calls;
} lent;

static uint64_t free_one(void *data, int device, uint64_t needed)
{
    (void)data, (void)device, (void)needed;
    lent.calls++;
    return lent.left && weir_stream_free(lent.t, lent.blocks[--lent.left]) == WEIR_OK ? 64 * MIB : 0;
}

START_TEST(callback_that_frees_blocks_of_another_weir_is_asked_again)
{
    unsigned id;
    scene_open("weir: 1\npools: { p: { on_oom: { deadline: 5s } } }\n");
    weir_stream *s = scene_create(NULL);
    weir *other = open_other("weir: 1\npools: { p: { release_threshold: all } }\n", &lent.t);
    for (lent.left = 0; lent.left < 64; lent.left++)
        scene_ok(weir_stream_malloc(lent.t, &lent.blocks[lent.left], 64 * MIB), "weir_stream_malloc");
    scene_ok(weir_oom_add(scene.w, free_one, NULL, NULL, &id), "weir_oom_add");
    scene_free(s, scene_malloc(s, scene.memory - 32 * 64 * MIB));
    ck_assert_int_ge(lent.calls, 32);
    while (lent.left)
        scene_ok(weir_stream_free(lent.t, lent.blocks[--lent.left]), "weir_stream_free");
    weir_close(other);
}
END_TEST

static atomic_bool is_over;

static void *open_and_close(void *unused)
{
    while (!atomic_load(&is_over)) {
        weir_stream *t;
        weir *other = open_other("weir: 1\npools: { p: { release_threshold: all } }\n", &t);
        weir_close(other);
    }
    return unused;
}

START_TEST(weirs_can_be_closed_beside_recoveries_that_look_at_them)
{
    pthread_t thread;
    scene_open("weir: 1\ndefaults: { pool: p }\npools: { p: { backing: arena, on_oom: { deadline: 1ms } } }\n");
    weir_stream *s = scene_create(NULL);
    atomic_store(&is_over, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 300; i++)
        refuse(s, scene.memory + GIB);
    for (int i = 0; i < 300; i++) {
        void *held = scene_malloc(s, scene.memory / 2);
        refuse(s, scene.memory / 2 + 64 * MIB);
        scene_free(s, held);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}
END_TEST

void add_refusal_sim_cases(Suite *suite)
{
    TCase *tcase = suite_case(suite, "thresholds", 0);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, threshold_that_the_program_sets_during_an_attempt_stays,
              threshold_that_the_program_set_outlives_trims_and_refusals, threshold_that_could_not_be_put_back_is_by_the_next_trim,
              growth_above_the_cap_that_is_undone_does_not_stay_below_it);

    tcase = suite_case(suite, "streams that nobody opened", 0);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, complete_frees_on_a_stream_that_nobody_opened_keep_nothing_from_another_pool, 0, COUNT(unopened));
    tcase_add_loop_test(tcase, complete_frees_on_an_opened_stream_of_another_device_keep_nothing_from_another_pool, 0, 2);
    suite_add(tcase, trim_sees_complete_frees_on_stream_0, report_says_of_no_complete_work_that_it_was_not_done);

    tcase = suite_case(suite, "the keeper", 0);
    tcase_add_checked_fixture(tcase, scene_begin_by_hand, scene_end_by_hand);
    suite_add(tcase, keeper_sees_complete_frees_on_stream_0_and_puts_no_event_there);

    tcase = suite_case(suite, "other weirs", 0);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, what_another_weir_of_the_process_does_not_use_serves_a_request, 0, COUNT(companies));
    suite_add(tcase, callback_that_frees_blocks_of_another_weir_is_asked_again, weirs_can_be_closed_beside_recoveries_that_look_at_them);
}
