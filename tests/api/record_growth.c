/* SPDX-License-Identifier: MIT */
/*
 * record_growth.c - whose growth of a pool of CUDA's a recording says it was, and when an arena slept. On the simulator alone: there a call is slow because the test
 * says so, as that of a thread that is preempted, and other threads grow the pool at the moment that the test chooses.
 */
#include "config.h"

#include <stdio.h>

#include "include/weir_sleep.h"
#include "lib/pool/weir_internal.h"
#include "tests/api/hook.h"
#include "tests/api/traced.h"
#include "trace/model.h"

#define STEP (32 * MIB)
#define KEYS "release_threshold: all, cache: off, small_below: 0"

static bool look(void *model, const struct trace_event *event)
{
    return model_look(model, event);
}

/* What the recording says of the pool. */
static struct model_pool play(void)
{
    struct model model = { 0 };
    ck_assert_uint_eq(traced_play(look, &model), 0);
    struct model_pool pool = model.pools[1];
    model_free(&model);
    return pool;
}

/* Each call of CUDA for a block is worth a look. */
static void open_slow(const char *record, const char *keys)
{
    scene_simulate("memory=8GiB,malloc_async=100us");
    traced_open(record, keys);
}

START_TEST(slow_request_has_not_grown_what_the_pool_had_before_the_recording)
{
    char text[512];
    open_slow("level: off", KEYS);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, GIB));
    snprintf(text, sizeof text, "weir: 1\nrecord: { level: pool, file: '%s' }\npools: { main: { " KEYS " } }\n", traced_file);
    scene_reload(text);
    scene_free(s, scene_malloc(s, 512 * MIB));
    ck_assert_uint_eq(play().growth.count, 0);
}
END_TEST

START_TEST(slow_request_has_not_grown_what_the_pool_began_with)
{
    open_slow("level: pool", KEYS ", initial_size: 1GiB");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 512 * MIB));
    ck_assert_uint_eq(play().growth.count, 0);
}
END_TEST

/* Another thread, which grows the pool while CUDA is asked for a block. */
static struct {
    struct gpu gpu;
    weir_stream *s;
    unsigned calls;
    void *block;
} other;

static int grow_and_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    if (other.calls++ == 0)
        ck_assert_int_eq(hook_base()->malloc_async(&other.block, GIB, pool, weir_stream_handle(other.s)), GPU_SUCCESS);
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

static void begin_other(void)
{
    other.gpu = *hook_base();
    other.gpu.malloc_async = grow_and_malloc_async;
    other.s = scene_create(NULL);
    other.calls = 0;
    hook_set(&other.gpu);
}

static void end_other(void)
{
    hook_set(NULL);
    ck_assert_int_eq(scene.gpu->free_async(other.block, weir_stream_handle(other.s)), GPU_SUCCESS);
}

START_TEST(slow_request_has_grown_no_more_than_its_size_takes)
{
    open_slow("level: pool", KEYS);
    weir_stream *s = scene_create(NULL);
    begin_other();
    scene_free(s, scene_malloc(s, 4096));
    end_other();
    ck_assert_uint_eq(play().growth.bytes, STEP);
}
END_TEST

/* 512 MiB are free behind a kernel, so a request of another stream for 900 takes the pool above its cap, which Weir watches with this
   driver. */
static void open_capped(void)
{
    scene_simulate("memory=8GiB,malloc_async=100us,driver=12.0");
    traced_open("level: pool", KEYS ", max_size: 1GiB, " ALONE ", on_oom: { steps: [] }");
}

static void refuse_beside_pending(weir_stream *s, weir_stream *busy)
{
    void *ptr, *kept = scene_malloc(s, 64 * MIB), *freed = scene_malloc(busy, 512 * MIB);
    scene_delay(weir_stream_handle(busy), 10000);
    scene_free(busy, freed);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 900 * MIB), WEIR_OUT_OF_MEMORY);
    scene_free(s, kept);
}

START_TEST(request_that_is_refused_has_grown_nothing)
{
    open_capped();
    weir_stream *s = scene_create(NULL), *busy = scene_create(NULL);
    refuse_beside_pending(s, busy);
    struct model_pool pool = play();
    ck_assert_uint_eq(pool.growth.bytes, 576 * MIB);
    ck_assert_uint_eq(pool.growth.count, 2);
}
END_TEST

static bool sum_trims(void *context, const struct trace_event *event)
{
    uint64_t *bytes = context;
    *bytes += event->kind == TRACE_TRIM ? event->a : 0;
    return true;
}

START_TEST(what_goes_back_to_keep_to_a_cap_is_recorded)
{
    uint64_t bytes = 0;
    open_capped();
    weir_stream *s = scene_create(NULL), *busy = scene_create(NULL);
    refuse_beside_pending(s, busy);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 576 * MIB);
    ck_assert_uint_eq(traced_play(sum_trims, &bytes), 0);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_uint_eq(bytes % (928 * MIB), 0); /* the steps of each attempt */
}
END_TEST

/* What a refused request's attempts took goes back, and the trims of that are in the recording. */
static bool look_at_refusal(void *context, const struct trace_event *event)
{
    struct model *model = context;
    model_apply(model, event);
    if (event->kind == TRACE_OUT_OF_MEMORY) {
        const struct model_pool *pool = &model->pools[event->pool->number + 1];
        ck_assert_uint_ge(pool->reserved, pool->live.size);
    }
    return true;
}

START_TEST(pool_that_refuses_reserves_what_is_live_in_it)
{
    void *ptr;
    struct model model = { 0 };
    open_slow("level: pool", KEYS ", on_oom: { steps: [trim] }");
    weir_stream *s = scene_create(NULL);
    void *kept = scene_malloc(s, 6 * GIB);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 3 * GIB), WEIR_OUT_OF_MEMORY);
    scene_free(s, kept);
    ck_assert_uint_eq(traced_play(look_at_refusal, &model), 0);
    ck_assert_uint_eq(model.oom_count, 1);
    ck_assert_uint_eq(model.pools[1].reserved, 6 * GIB);
    ck_assert_uint_eq(model.pools[1].growth.bytes, 6 * GIB);
    model_free(&model);
}
END_TEST

/* Sleeping ------------------------------------------------------------------------------------------------------------------------------ */

struct naps {
    unsigned yields, sleeps, wakes;
    uint64_t went, came, mapped; /* bytes; `mapped` with the growth before */
};

static bool look_at_naps(void *context, const struct trace_event *event)
{
    struct naps *naps = context;
    naps->yields += event->kind == TRACE_YIELD;
    naps->sleeps += event->kind == TRACE_SLEEP;
    naps->wakes += event->kind == TRACE_WAKE;
    naps->went += event->kind == TRACE_SLEEP ? event->a : 0;
    naps->came += event->kind == TRACE_WAKE ? event->a : 0;
    naps->mapped += event->kind == TRACE_MAP ? event->a : 0;
    naps->mapped -= event->kind == TRACE_UNMAP ? event->a : 0;
    return true;
}

START_TEST(sleeps_wakes_and_yields_are_events_of_their_pool)
{
    struct naps naps = {0};
    traced_open("level: pool", "backing: arena");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * MIB);
    scene_ok(weir_pool_yield(scene.pool, 0, NULL), "a yield");
    scene_ok(weir_pool_wake(scene.pool, 0, NULL, NULL), "a wake");
    scene_ok(weir_pool_sleep(scene.pool, 0, 10000, NULL, NULL), "a sleep");
    scene_ok(weir_pool_wake(scene.pool, 0, NULL, NULL), "a wake");
    scene_ok(weir_pool_wake(scene.pool, 0, NULL, NULL), "no wake");
    uint64_t reserved = scene_pool_stats("main").reserved;
    scene_free(s, ptr);
    scene_ok(weir_pool_yield(scene.pool, 0, NULL), "a yield");
    ck_assert_uint_eq(traced_play(look_at_naps, &naps), 0);
    ck_assert_uint_eq(naps.yields, 2);
    ck_assert_uint_eq(naps.sleeps, 1);
    ck_assert_uint_eq(naps.wakes, 2);
    ck_assert_uint_ge(naps.went, 64 * MIB);
    ck_assert_uint_eq(naps.came, naps.went);
    ck_assert(naps.mapped == reserved || naps.mapped == 0);
}
END_TEST

int main(void)
{
    const char *why = scene_is_sim() ? scene_why_not() : "only the simulator has calls that are slow when a test wants it";
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("record_growth");
    TCase *tcase = suite_case(suite, "growth", 60);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, slow_request_has_not_grown_what_the_pool_had_before_the_recording,
              slow_request_has_not_grown_what_the_pool_began_with, slow_request_has_grown_no_more_than_its_size_takes,
              request_that_is_refused_has_grown_nothing, what_goes_back_to_keep_to_a_cap_is_recorded,
              pool_that_refuses_reserves_what_is_live_in_it, sleeps_wakes_and_yields_are_events_of_their_pool);
    return suite_run(suite);
}
