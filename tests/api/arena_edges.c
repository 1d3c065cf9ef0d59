/* SPDX-License-Identifier: MIT */
/* arena_edges.c - pools with `backing: arena` beside captures, other weirs, other devices and drivers without ids of streams. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/backing/arena.h"
#include "tests/api/scene.h"

#define PAGE (2 * MIB)
#define LONG 300 /* milliseconds of a kernel */

#define ARENA "backing: arena, cache: off"
static const char keeps[] = "weir: 1\npools: { main: { " ARENA ", release_threshold: all } }\n";

static uint64_t free_memory(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes;
}

START_TEST(fragments_that_streams_freed_are_joined_once_they_are_complete)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 72MiB,"
               " on_oom: { steps: [wait], deadline: 5s } } }\n");
    weir_stream *first = scene_create(NULL), *second = scene_create(NULL), *other = scene_create(NULL);
    void *a = scene_malloc(first, 32 * MIB), *x = scene_malloc(first, 4 * MIB), *b = scene_malloc(second, 32 * MIB),
         *y = scene_malloc(second, 4 * MIB);
    scene_delay(weir_stream_handle(first), LONG);
    scene_delay(weir_stream_handle(second), LONG);
    scene_free(first, a);
    scene_free(second, b);
    void *both = scene_malloc(other, 64 * MIB);
    scene_free(other, both);
    scene_free(first, x);
    scene_free(second, y);
}
END_TEST

/* Their pages are theirs alone, and not a piece of a step that larger ones share. */
START_TEST(blocks_between_larger_ones_pin_their_own_pages_alone)
{
    enum { PAIRS = 40 };
    void *large[PAIRS], *lasting[PAIRS];
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < PAIRS; i++) {
        large[i] = scene_malloc(s, 24 * MIB);
        lasting[i] = scene_malloc(s, 4 * MIB);
    }
    for (int i = 0; i < PAIRS; i++)
        scene_free(s, large[i]);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_uint_eq(scene_pool_stats("main").reserved, PAIRS * 4 * MIB);
    for (int i = 0; i < PAIRS; i++)
        scene_free(s, lasting[i]);
}
END_TEST

START_TEST(opening_a_weir_leaves_a_capture_whole)
{
    size_t nodes;
    scene_open(keeps);
    gpu_stream stream = scene_stream(0), other = scene_stream(0);
    void *ptr = scene_malloc_on(stream, 8 * MIB);
    scene_close();
    scene_delay(stream, LONG);
    scene_ok(weir_free(NULL, ptr, stream), "a free after the close");
    ck_assert_int_eq(scene.gpu->capture_begin(other, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    scene_open(keeps);
    ck_assert_int_eq(scene.gpu->capture_end(other, &nodes), GPU_SUCCESS);
}
END_TEST

START_TEST(free_after_the_close_on_a_capturing_stream_is_refused)
{
    size_t nodes;
    scene_open(keeps);
    gpu_stream stream = scene_stream(0);
    void *ptr = scene_malloc_on(stream, 8 * MIB);
    scene_close();
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(NULL, ptr, stream), WEIR_CAPTURING);
    ck_assert_int_eq(scene.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    scene_ok(weir_free(NULL, ptr, stream), "a free after the close");
}
END_TEST

/* Nobody can ask the stream any more: what it freed waits for weir_close(), as nothing captures then. */
START_TEST(trim_after_the_close_of_a_capturing_stream_leaves_its_capture_whole)
{
    size_t nodes;
    weir_stream *s;
    scene_open(keeps);
    gpu_stream stream = scene_stream(0);
    scene_ok(weir_stream_open(scene.w, 0, stream, NULL, NULL, &s), "opening");
    scene_free(s, scene_malloc(s, 8 * MIB));
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    weir_stream_close(s);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_int_eq(scene.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    if (_i) {
        scene_free_on(stream, scene_malloc_on(stream, PAGE));
        scene_sync(stream);
        scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
        ck_assert_uint_eq(scene_pool_stats("main").reserved, 0);
    }
}
END_TEST

START_TEST(looking_for_memory_leaves_a_capture_of_a_blocking_stream_whole)
{
    size_t nodes;
    weir_stream *legacy;
    scene_open(keeps);
    scene_ok(weir_stream_open(scene.w, 0, GPU_STREAM_LEGACY, NULL, NULL, &legacy), "opening");
    scene_free(legacy, scene_malloc(legacy, 8 * MIB));
    ck_assert_int_eq(scene.gpu->capture_begin(GPU_STREAM_PER_THREAD, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_int_eq(scene.gpu->capture_end(GPU_STREAM_PER_THREAD, &nodes), GPU_SUCCESS);
    weir_stream_close(legacy);
}
END_TEST

START_TEST(closed_arena_gives_back_what_no_live_block_lies_on)
{
    scene_open(keeps);
    gpu_stream stream = scene_stream(0);
    void *large = scene_malloc_on(stream, 64 * MIB), *small = scene_malloc_on(stream, 1000);
    scene_close();
    uint64_t before = free_memory();
    scene_ok(weir_free(NULL, large, stream), "a free after the close");
    scene_sync(stream);
    weir__arena_sweep();
    ck_assert_uint_ge(free_memory(), before + 64 * MIB);
    scene_ok(weir_free(NULL, small, stream), "a free after the close");
}
END_TEST

/* What goes back is whole steps: of the one that the request needs a part of, nothing may stay. */
START_TEST(last_step_of_another_pool_serves_an_arena)
{
    weir_pool *other;
    scene_open("weir: 1\ndefaults: { pool: main }\npools:\n"
               "  main: { " ARENA ", release_threshold: all, on_oom: { steps: [] } }\n"
               "  other: { cache: off, release_threshold: all, small_below: 0 }\n");
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "a pool");
    weir_stream *s = scene_create(NULL);
    uint64_t all = scene.memory / (32 * MIB) * (32 * MIB);
    scene_free(s, scene_pool_malloc(other, all, weir_stream_handle(s)));
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    scene_free(s, scene_malloc(s, all - PAGE));
}
END_TEST

/* At once what is complete, at the next synchronise what is pending. */
START_TEST(idle_memory_above_a_cap_that_was_lowered_goes_back)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 128 * MIB);
    if (_i)
        scene_delay(weir_stream_handle(s), LONG);
    scene_free(s, ptr);
    if (!_i)
        scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    scene_reload("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB } }\n");
    if (_i)
        scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_le(scene_pool_stats("main").reserved, 64 * MIB);
}
END_TEST

/* None of them alone is worth a note of its own. */
START_TEST(small_frees_on_a_stream_that_is_not_open_are_waited_for)
{
    enum { COUNT = 128 };
    void *blocks[COUNT];
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB, " ALONE ","
               " on_oom: { steps: [wait], deadline: 5s } } }\n");
    gpu_stream raw = scene_stream(0);
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = scene_malloc_on(raw, MIB / 2);
    scene_delay(raw, LONG);
    for (int i = 0; i < COUNT; i++)
        scene_free_on(raw, blocks[i]);
    scene_free(s, scene_malloc(s, 32 * MIB));
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

/* The two blocks are neighbours, and the later free is not complete. */
START_TEST(early_free_on_a_busy_stream_that_is_not_open_serves_others)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 160MiB, on_oom: { steps: [] },"
               " reuse: { internal_dependencies: false } } }\n");
    gpu_stream raw = scene_stream(0), other = scene_stream(0);
    void *early = scene_malloc_on(raw, 64 * MIB), *late = scene_malloc_on(raw, 64 * MIB), *live = scene_malloc_on(raw, 32 * MIB);
    scene_delay(raw, 1);
    scene_free_on(raw, early);
    scene_delay(raw, LONG);
    scene_free_on(raw, late);
    scene_pass(UINT64_C(2000000));
    void *ptr = scene_malloc_on(other, 64 * MIB);
    ck_assert_ptr_eq(ptr, early);
    scene_free_on(other, ptr);
    scene_free_on(other, live);
    scene_sync(raw);
}
END_TEST

START_TEST(synchronise_looks_once_at_what_is_pending)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: 0 } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *ptr = scene_malloc(other, 8 * MIB);
    scene_delay(weir_stream_handle(other), LONG);
    scene_free(other, ptr);
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise"); /* now the free has an event */
    uint64_t before = sim_calls("event_query");
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_eq(sim_calls("event_query"), before + 1);
}
END_TEST

/* Whether its free is complete before the request. */
START_TEST(memory_of_a_closed_arena_serves_another_weir)
{
    static const char policy[] = "weir: 1\npools: { main: { " ARENA ", release_threshold: all, on_oom: { deadline: 1s } } }\n";
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    scene_open(policy);
    options.policy_text = policy;
    scene_ok(weir_open(&options, NULL, &w), "opening");
    gpu_stream stream = scene_stream(0);
    uint64_t most = scene_share(80);
    void *ptr = NULL;
    scene_ok(weir_malloc(w, &ptr, most, 0, stream), "a request");
    weir_close(w);
    scene_delay(stream, LONG);
    scene_ok(weir_free(NULL, ptr, stream), "a free after the close");
    if (_i)
        scene_sync(stream);
    ptr = scene_malloc_on(stream, most);
    scene_free_on(stream, ptr);
    scene_sync(stream);
}
END_TEST

/* Of an arena of one weir, to an arena and to a pool of CUDA's of another. */
START_TEST(idle_memory_of_an_open_arena_serves_another_weir)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    weir_stats *stats;
    scene_open(_i ? "weir: 1\npools: { main: { cache: off, small_below: 0, on_oom: { deadline: 1s } } }\n"
                  : "weir: 1\npools: { main: { " ARENA ", on_oom: { deadline: 1s } } }\n");
    options.policy_text = keeps;
    scene_ok(weir_open(&options, NULL, &w), "opening");
    gpu_stream stream = scene_stream(0);
    uint64_t most = scene_share(80);
    void *ptr = NULL, *live = NULL;
    scene_ok(weir_malloc(w, &live, PAGE, 0, stream), "a request");
    scene_ok(weir_malloc(w, &ptr, most, 0, stream), "a request");
    scene_ok(weir_free(w, ptr, stream), "a free");
    scene_sync(stream);
    ptr = scene_malloc_on(stream, most);
    scene_ok(weir_stats_take(w, NULL, &stats), "a snapshot");
    ck_assert_uint_ge(weir_stats_pool(stats, 0)->reserved, PAGE);
    ck_assert_uint_lt(weir_stats_pool(stats, 0)->reserved, most);
    weir_stats_free(stats);
    scene_free_on(stream, ptr);
    scene_ok(weir_free(w, live, stream), "a free");
    weir_close(w);
    scene_sync(stream);
}
END_TEST

/* A wait cannot be undone: what was waited for is the stream's then, and it does not wait for it again. */
START_TEST(request_that_borrows_in_vain_does_not_do_so_twice)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 72MiB, on_oom: { steps: [] } } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *a = scene_malloc(s, 32 * MIB), *x = scene_malloc(s, 4 * MIB), *b = scene_malloc(s, 32 * MIB), *y = scene_malloc(s, 4 * MIB);
    scene_delay(weir_stream_handle(s), LONG);
    scene_free(s, a);
    scene_free(s, b);
    ck_assert_int_eq(weir_stream_malloc(other, &ptr, 60 * MIB), WEIR_OUT_OF_MEMORY);
    uint64_t waits = sim_calls("stream_wait_event");
    ck_assert_uint_eq(waits, 1);
    ck_assert_int_eq(weir_stream_malloc(other, &ptr, 60 * MIB), WEIR_OUT_OF_MEMORY);
    scene_free(other, scene_malloc(other, 32 * MIB));
    ck_assert_uint_eq(sim_calls("stream_wait_event"), waits);
    scene_free(s, x);
    scene_free(s, y);
}
END_TEST

#define ROUNDS 40

/* One of two that open and close weirs, and want more than there is for both. What is refused is refused for that reason alone. */
static void *open_and_close(void *data)
{
    weir_options options = WEIR_OPTIONS_INIT;
    gpu_stream stream = data;
    options.policy_text = "weir: 1\npools: { main: { " ARENA ", release_threshold: all, on_oom: { deadline: 1ms } } }\n";
    for (int i = 0; i < ROUNDS; i++) {
        weir *w;
        void *large = NULL, *small = NULL;
        scene_ok(weir_open(&options, NULL, &w), "opening");
        weir_status status = weir_malloc(w, &large, scene_share(60), 0, stream);
        ck_assert(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
        bool is_small = weir_malloc(w, &small, 1000, 0, stream) == WEIR_OK;
        if (status == WEIR_OK)
            scene_ok(weir_free(w, large, stream), "a free");
        if (i % 2 && is_small)
            scene_ok(weir_free(w, small, stream), "a free");
        scene_sync(stream);
        weir_close(w);
        if (i % 2 == 0 && is_small)
            scene_ok(weir_free(NULL, small, stream), "a free after the close");
    }
    return NULL;
}

START_TEST(weirs_may_be_closed_while_others_take_what_they_have_idle)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, scene_stream(0)), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    scene.gpu->device_synchronize(0);
    weir__arena_sweep();
}
END_TEST

static const uint64_t impossible[] = { UINT64_MAX, UINT64_MAX - 511, UINT64_MAX - PAGE, UINT64_C(1) << 63 };

START_TEST(size_that_no_sum_may_go_beyond_is_refused)
{
    void *ptr;
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, impossible[_i]), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 0);
}
END_TEST

/* The driver says of no two streams whether they are one. */
START_TEST(without_ids_of_streams_frees_serve_whom_they_may)
{
    scene_simulate("memory=2GiB,driver=11.8");
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB, on_oom: { steps: [] } } }\n");
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = scene_stream(0);
    struct sim_census census;
    for (int i = 0; i < 100; i++) {
        scene_free_on(raw, scene_malloc_on(raw, 16 * MIB));
        scene_free_on(weir_stream_handle(s), scene_malloc(s, 16 * MIB));
        scene_free(s, scene_malloc(s, 64 * MIB));
    }
    sim_census(&census);
    ck_assert_uint_lt(census.events, 20);
}
END_TEST

/* Nobody but the arena knows of that device any more. */
START_TEST(arena_that_outlives_its_weir_takes_a_free_on_a_stream_of_another_device)
{
    scene_simulate("devices=2,memory=2GiB");
    scene_open("weir: 1\npools: { main: { " ARENA ", devices: [0], peer_access: [1], release_threshold: all } }\n");
    gpu_stream far = scene_stream(1), near = scene_stream(0);
    void *first = scene_malloc_on(near, 64 * MIB), *second = scene_malloc_on(near, 64 * MIB);
    scene_close();
    scene_delay(far, LONG);
    scene_ok(weir_free(NULL, first, far), "a free");
    scene_ok(weir_free(NULL, second, near), "a free");
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_gt(census.pages, 0);
    scene_sync(far);
    weir__arena_sweep();
    sim_census(&census);
    ck_assert_uint_eq(census.pages, 0);
    ck_assert_uint_eq(census.events, 0);
}
END_TEST

/* Legacy streams have one name on all devices. */
START_TEST(legacy_streams_of_two_devices_are_told_apart)
{
    weir_pool *pools[2];
    weir_stream *legacy[2];
    scene_simulate("devices=2,memory=2GiB");
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB, peer_access: all,"
               " on_oom: { steps: [] } } }\n");
    for (int d = 0; d < 2; d++) {
        scene_ok(weir_pool_get(scene.w, NULL, d, NULL, &pools[d]), "a pool");
        scene_ok(weir_stream_open(scene.w, d, GPU_STREAM_LEGACY, NULL, NULL, &legacy[d]), "opening");
    }
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(scene.gpu->set_current_device(i & 1), GPU_SUCCESS);
        weir_pool *pool = pools[i >> 1 & 1];
        weir_stream *s = legacy[i >> 2];
        scene_free(s, scene_pool_malloc(pool, 64 * MIB, GPU_STREAM_LEGACY));
        scene_free_on(GPU_STREAM_LEGACY, scene_pool_malloc(pool, 63 * MIB, GPU_STREAM_PER_THREAD));
        scene_free_on(GPU_STREAM_PER_THREAD, scene_pool_malloc(pool, 62 * MIB, GPU_STREAM_LEGACY));
    }
    for (int d = 0; d < 2; d++)
        weir_stream_close(legacy[d]);
    ck_assert_int_eq(scene.gpu->set_current_device(0), GPU_SUCCESS);
}
END_TEST

/* Whether it is released by a trim, or when the weir is closed. */
START_TEST(page_that_the_driver_does_not_take_back_is_idle_and_logged_and_released_again)
{
    scene_open("weir: 1\npools: { main: { backing: arena, cache: off, release_threshold: all } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 256 * MIB));
    scene_ok(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
    unsigned lines = atomic_load(&scene.log_lines);
    uint64_t released = 0;
    sim_fail("page_release", 1, GPU_UNKNOWN);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_gt(stats.idle, 0);
    ck_assert_uint_eq(stats.reserved, stats.idle);
    ck_assert_uint_eq(released + stats.reserved, 256 * MIB);
    ck_assert_uint_eq(atomic_load(&scene.log_lines), lines + 1);
    if (_i == 0) {
        scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
        ck_assert_uint_eq(released, stats.idle);
        ck_assert_uint_eq(scene_pool_stats("main").reserved, 0);
    }
    weir_stream_close(s);
    scene_close();
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.pages, 0);
    ck_assert_uint_eq(census.ranges, 0);
}
END_TEST

static const char *const failing[] = { "page_release", "page_unmap", "range_free" };

START_TEST(call_of_the_driver_that_fails_once_at_the_close_leaves_nothing)
{
    struct sim_census census;
    scene_open("weir: 1\npools: { main: { backing: arena, cache: off, release_threshold: all } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 256 * MIB));
    weir_stream_close(s);
    sim_fail(failing[_i], 1, GPU_UNKNOWN);
    scene_close();
    sim_census(&census);
    ck_assert_uint_eq(census.ranges + census.pages, 0);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("arena_edges");
    TCase *tcase = suite_case(suite, "arena_edges", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, blocks_between_larger_ones_pin_their_own_pages_alone,
              fragments_that_streams_freed_are_joined_once_they_are_complete, opening_a_weir_leaves_a_capture_whole,
              free_after_the_close_on_a_capturing_stream_is_refused, looking_for_memory_leaves_a_capture_of_a_blocking_stream_whole);
    tcase_add_loop_test(tcase, trim_after_the_close_of_a_capturing_stream_leaves_its_capture_whole, 0, 2);
    tcase_add_loop_test(tcase, idle_memory_above_a_cap_that_was_lowered_goes_back, 0, 2);
    suite_add(tcase, closed_arena_gives_back_what_no_live_block_lies_on, small_frees_on_a_stream_that_is_not_open_are_waited_for);
    tcase_add_loop_test(tcase, memory_of_a_closed_arena_serves_another_weir, 0, 2);
    tcase_add_loop_test(tcase, idle_memory_of_an_open_arena_serves_another_weir, 0, 2);
    tcase_add_loop_test(tcase, size_that_no_sum_may_go_beyond_is_refused, 0, (int)(sizeof impossible / sizeof *impossible));
    suite_add(tcase, weirs_may_be_closed_while_others_take_what_they_have_idle);
    if (scene_is_sim()) {
        tcase_add_loop_test(tcase, page_that_the_driver_does_not_take_back_is_idle_and_logged_and_released_again, 0, 2);
        tcase_add_loop_test(tcase, call_of_the_driver_that_fails_once_at_the_close_leaves_nothing, 0, 3);
    }
    if (scene_is_sim())
        suite_add(tcase, request_that_borrows_in_vain_does_not_do_so_twice,
                  synchronise_looks_once_at_what_is_pending, last_step_of_another_pool_serves_an_arena,
                  without_ids_of_streams_frees_serve_whom_they_may, legacy_streams_of_two_devices_are_told_apart,
                  arena_that_outlives_its_weir_takes_a_free_on_a_stream_of_another_device);
    if (scene_is_sim()) {
        TCase *by_hand = suite_case(suite, "arena_by_hand", 60);
        tcase_add_checked_fixture(by_hand, scene_begin_by_hand, scene_end_by_hand);
        suite_add(by_hand, early_free_on_a_busy_stream_that_is_not_open_serves_others);
    }
    return suite_run(suite);
}
