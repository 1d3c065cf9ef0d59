/* SPDX-License-Identifier: MIT */
/*
 * capture.c - Weir beside stream capture: what belongs to the graph, and that nothing Weir does by itself spoils a capture. Runs on the
 * simulator and on a GPU.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/scene.h"

#define MOST 85

static const char plain[] = "weir: 1\ndefaults: { pool: main }\n"
                            "pools:\n"
                            "  main: { " ALONE ", on_oom: { deadline: 10s } }\n"
                            "streams:\n"
                            "  own: { pool: main, private: true }\n";

/* Without caches, so that each call is one of CUDA's. */
static const char relaxed[] =
    "weir: 1\ncapture: relaxed\npools: { main: { " ALONE ", cache: off, on_oom: { deadline: 10s } } }\n";
static const char caller[] = "weir: 1\ncapture: caller\npools: { main: { cache: off } }\n";

static void begin(gpu_stream stream, enum gpu_capture_mode mode)
{
    ck_assert_int_eq(scene.gpu->capture_begin(stream, mode), GPU_SUCCESS);
}

/* Ends a capture that must be whole, and returns how many nodes it has. */
static size_t end(gpu_stream stream)
{
    size_t nodes = 0;
    int code = scene.gpu->capture_end(stream, &nodes);
    ck_assert_msg(code == GPU_SUCCESS, "the capture ended with %s", scene.gpu->code_name(code));
    return nodes;
}

static void end_spoilt(gpu_stream stream)
{
    size_t nodes;
    int code = scene.gpu->capture_end(stream, &nodes);
    ck_assert_msg(code == GPU_CAPTURE_INVALIDATED, "the capture ended with %s", scene.gpu->code_name(code));
}

/* Another thread, whose capture mode is CUDA's default, does something while this one captures. */
static void elsewhere(void *(*work)(void *), void *data)
{
    pthread_t thread;
    void *failed = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, work, data), 0);
    pthread_join(thread, &failed);
    ck_assert_msg(failed == NULL, "%s", (const char *)failed);
}

/* What a failed step in the other thread is called. */
#define STEP(expression) \
    do { \
        if (!(expression)) \
            return (void *)(uintptr_t)#expression; \
    } while (0)

/* On the capturing stream -------------------------------------------------------------------------------------------------------------- */

START_TEST(block_allocated_in_a_capture_belongs_to_the_graph)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    void *ptr = scene_malloc(s, MIB);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.live, 0);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.graph_blocks, 1);
    scene_free(s, ptr);
    stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.graph_blocks, 0);
    ck_assert_uint_eq(stats.live, 0);
    ck_assert_uint_eq(end(weir_stream_handle(s)), 2);
}
END_TEST

START_TEST(small_and_large_requests_both_become_nodes)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_THREAD_LOCAL);
    void *small = scene_malloc(s, 512), *large = scene_malloc(s, 64 * MIB);
    scene_free(s, small);
    scene_free(s, large);
    ck_assert_uint_eq(end(weir_stream_handle(s)), 4);
}
END_TEST

START_TEST(weir_malloc_on_an_unopened_capturing_stream_makes_a_node)
{
    scene_open(plain);
    gpu_stream s = scene_stream(0);
    begin(s, GPU_CAPTURE_MODE_RELAXED);
    scene_free_on(s, scene_malloc_on(s, MIB));
    ck_assert_uint_eq(end(s), 2);
    ck_assert_uint_eq(scene_pool_stats("main").mallocs, 0);
}
END_TEST

START_TEST(free_of_an_older_block_in_a_capture_is_refused_and_harmless)
{
    weir_error error;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, MIB);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_CAPTURING);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_CAPTURING);
    ck_assert_uint_eq(scene_pool_stats("main").live, MIB);
    ck_assert_uint_eq(scene_pool_stats("main").live_blocks, 1);
    end(weir_stream_handle(s));
    scene_free(s, ptr);
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
}
END_TEST

START_TEST(older_block_is_freed_on_another_stream_during_a_capture)
{
    scene_open(relaxed);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * MIB);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    scene_free(other, ptr);
    end(weir_stream_handle(s));
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
}
END_TEST

START_TEST(synchronise_of_a_capturing_stream_is_refused_and_harmless)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(weir_stream_synchronize(s, &error), WEIR_CAPTURING);
    ck_assert_int_eq(error.status, WEIR_CAPTURING);
    end(weir_stream_handle(s));
    scene_ok(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
}
END_TEST

START_TEST(capture_that_is_spoilt_already_is_reported)
{
    void *ptr = NULL;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    scene.gpu->stream_synchronize(weir_stream_handle(s));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB), WEIR_CAPTURING);
    ck_assert_ptr_null(ptr);
    ck_assert_int_eq(weir_stream_synchronize(s, NULL), WEIR_CAPTURING);
    end_spoilt(weir_stream_handle(s));
    ck_assert_uint_eq(scene_pool_stats("main").graph_blocks, 0);
    scene_free(s, scene_malloc(s, MIB));
}
END_TEST

/* Beside a capture --------------------------------------------------------------------------------------------------------------------- */

struct crowd {
    weir_stream *capturing, *a, *b;
    void *held, *pending;
    unsigned calls;
};

static uint64_t give_what_is_held(void *data, int device, uint64_t needed)
{
    struct crowd *crowd = data;
    (void)device;
    (void)needed;
    crowd->calls++;
    if (!crowd->held || weir_stream_free(crowd->a, crowd->held) != WEIR_OK)
        return 0;
    crowd->held = NULL;
    return scene_share(MOST);
}

static void *run_out_behind_a_kernel(void *data)
{
    struct crowd *crowd = data;
    void *ptr;
    STEP(weir_stream_malloc(crowd->b, &ptr, scene_share(MOST)) == WEIR_OK);
    STEP(weir_stream_free(crowd->b, ptr) == WEIR_OK);
    return NULL;
}

START_TEST(waiting_for_a_pending_free_leaves_a_global_capture_whole)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(relaxed);
    crowd.capturing = scene_create(NULL);
    crowd.a = scene_create(NULL);
    crowd.b = scene_create(NULL);
    crowd.pending = scene_malloc(crowd.a, scene_share(MOST));
    scene_delay(weir_stream_handle(crowd.a), 300);
    scene_free(crowd.a, crowd.pending);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    scene_delay(weir_stream_handle(crowd.capturing), 1);
    elsewhere(run_out_behind_a_kernel, &crowd);
    ck_assert_uint_eq(end(weir_stream_handle(crowd.capturing)), 1);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(callbacks_and_trim_leave_a_global_capture_whole)
{
    struct crowd crowd = { .calls = 0 };
    unsigned id;
    scene_open(relaxed);
    crowd.capturing = scene_create(NULL);
    crowd.a = scene_create(NULL);
    crowd.b = scene_create(NULL);
    crowd.held = scene_malloc(crowd.a, scene_share(MOST));
    scene_ok(weir_oom_add(scene.w, give_what_is_held, &crowd, NULL, &id), "weir_oom_add");
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(run_out_behind_a_kernel, &crowd);
    end(weir_stream_handle(crowd.capturing));
    ck_assert_uint_eq(crowd.calls, 1);
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
}
END_TEST

static void *run_out_in_vain(void *data)
{
    struct crowd *crowd = data;
    void *ptr;
    STEP(weir_stream_malloc(crowd->b, &ptr, scene_share(MOST)) == WEIR_OUT_OF_MEMORY);
    return NULL;
}

START_TEST(recovery_in_vain_leaves_a_capture_whole)
{
    static const enum gpu_capture_mode modes[] = { GPU_CAPTURE_MODE_GLOBAL, GPU_CAPTURE_MODE_THREAD_LOCAL, GPU_CAPTURE_MODE_RELAXED };
    struct crowd crowd = { .calls = 0 };
    scene_open(relaxed);
    crowd.capturing = scene_create(NULL);
    crowd.a = scene_create(NULL);
    crowd.b = scene_create(NULL);
    crowd.held = scene_malloc(crowd.a, scene_share(MOST));
    begin(weir_stream_handle(crowd.capturing), modes[_i]);
    elsewhere(run_out_in_vain, &crowd);
    end(weir_stream_handle(crowd.capturing));
    scene_free(crowd.a, crowd.held);
}
END_TEST

/* Memory freed on a stream that captures now cannot be waited for; nor is it: the request is refused long before the deadline. */
START_TEST(recovery_does_not_wait_for_a_capturing_stream)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(relaxed);
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    crowd.pending = scene_malloc(crowd.capturing, scene_share(MOST));
    scene_delay(weir_stream_handle(crowd.capturing), 1000);
    scene_free(crowd.capturing, crowd.pending);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    uint64_t queries = scene_is_sim() ? sim_calls("stream_synchronize") : 0;
    elsewhere(run_out_in_vain, &crowd);
    if (scene_is_sim())
        ck_assert_uint_eq(sim_calls("stream_synchronize"), queries);
    end(weir_stream_handle(crowd.capturing));
    scene_rescues(WEIR_RUNG_WAIT, 0, 1);
    scene_free(crowd.b, scene_malloc(crowd.b, scene_share(MOST)));
    scene_rescues(WEIR_RUNG_WAIT, 1, 2);
}
END_TEST

START_TEST(request_refused_on_a_capturing_stream_is_not_recovered)
{
    void *ptr = NULL;
    unsigned id;
    struct crowd crowd = { .calls = 0 };
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    scene_ok(weir_oom_add(scene.w, give_what_is_held, &crowd, NULL, &id), "weir_oom_add");
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_null(ptr);
    ck_assert_uint_eq(crowd.calls, 0);
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
    end(weir_stream_handle(s));
}
END_TEST

static void *administer(void *data)
{
    weir_stats *stats = NULL;
    weir_stream *s, *opened;
    uint64_t released;
    weir *second;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = "weir: 1\npools: { second: { initial_size: 64MiB, release_threshold: all } }\n";
    STEP(weir_stats_take(scene.w, NULL, &stats) == WEIR_OK);
    weir_stats_free(stats);
    STEP(weir_pool_trim(scene.pool, 0, NULL, &released) == WEIR_OK);
    STEP(weir_pool_set_release_threshold(scene.pool, 512 * MIB, NULL) == WEIR_OK);
    STEP(weir_stream_create(scene.w, 0, NULL, NULL, &s) == WEIR_OK);
    weir_stream_close(s);
    STEP(weir_stream_create(scene.w, 0, "own", NULL, &s) == WEIR_OK);
    weir_stream_close(s);
    STEP(weir_stream_open(scene.w, 0, data, "own", NULL, &opened) == WEIR_OK);
    weir_stream_close(opened);
    STEP(weir_open(&options, NULL, &second) == WEIR_OK);
    weir_close(second);
    return NULL;
}

START_TEST(administration_leaves_a_global_capture_of_another_thread_whole)
{
    scene_open(plain);
    gpu_stream other = scene_stream(0);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_sync(weir_stream_handle(s));
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(administer, other);
    end(weir_stream_handle(s));
}
END_TEST

START_TEST(administration_leaves_a_global_capture_of_the_same_thread_whole)
{
    scene_open(plain);
    gpu_stream other = scene_stream(0);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    ck_assert_ptr_null(administer(other));
    end(weir_stream_handle(s));
}
END_TEST

START_TEST(reload_leaves_a_global_capture_whole)
{
    scene_open("weir: 1\npools: { main: {} }\n");
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    scene_reload("weir: 1\npools: { main: { release_threshold: 64MiB, on_oom: { deadline: 2s } } }\n");
    end(weir_stream_handle(s));
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, 64 * MIB);
}
END_TEST

/* What is cached for a stream that captures when it is closed waits for the capture's end: only a synchronise of the device could tell that
   it can be given back, and would spoil the capture. */
START_TEST(opening_a_capturing_stream_is_refused_and_leaves_its_capture_whole)
{
    weir_stream *s = NULL;
    weir_error error = WEIR_ERROR_INIT;
    scene_open(plain);
    gpu_stream stream = scene_stream(0);
    begin(stream, GPU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(weir_stream_open(scene.w, 0, stream, NULL, &error, &s), WEIR_CAPTURING);
    ck_assert_ptr_nonnull(strstr(error.text, "open it before its capture"));
    ck_assert_uint_eq(end(stream), 0);
}
END_TEST

/* Which pool it is, its handle says: its id cannot be asked for. */
START_TEST(raw_request_on_a_capturing_stream_with_a_pool_of_its_own_leaves_its_capture_whole)
{
    weir_stream *s;
    scene_open("weir: 1\npools: { main: {} }\nstreams: { own: { pool: main, private: true } }\n");
    gpu_stream stream = scene_stream(0);
    scene_ok(weir_stream_open(scene.w, 0, stream, "own", NULL, &s), "weir_stream_open");
    begin(stream, GPU_CAPTURE_MODE_GLOBAL);
    void *ptr = scene_malloc_on(stream, MIB);
    scene_free_on(stream, ptr);
    ck_assert_uint_eq(end(stream), 2);
    weir_stream_close(s);
}
END_TEST

START_TEST(trim_after_the_close_of_a_capturing_stream_leaves_its_capture_whole)
{
    weir_stream *s;
    scene_open(plain);
    gpu_stream stream = scene_stream(0);
    scene_ok(weir_stream_open(scene.w, 0, stream, NULL, NULL, &s), "weir_stream_open");
    scene_free(s, scene_malloc(s, MIB));
    begin(stream, GPU_CAPTURE_MODE_GLOBAL);
    weir_stream_close(s);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(end(stream), 0);
    ck_assert_uint_eq(scene_pool_stats("main").cached, MIB);
    /* The closed stream cannot be asked whether it captures again. */
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(scene_pool_stats("main").cached, MIB);
}
END_TEST

/* Whoever frees the last block destroys the pool. */
START_TEST(last_free_of_a_private_pool_leaves_a_global_capture_whole)
{
    scene_open("weir: 1\ncapture: relaxed\npools: { main: {} }\nstreams: { own: { pool: main, private: true } }\n");
    weir_stream *s = scene_create(NULL), *own = scene_create("own");
    void *ptr = scene_malloc(own, MIB);
    weir_stream_close(own);
    weir_stream *other = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL);
    scene_free(other, ptr);
    end(weir_stream_handle(s));
}
END_TEST

/* The setting `capture` ---------------------------------------------------------------------------------------------------------------- */

static void *allocate_and_free(void *data)
{
    struct crowd *crowd = data;
    void *ptr;
    STEP(weir_stream_malloc(crowd->b, &ptr, MIB) == WEIR_OK);
    STEP(weir_stream_free(crowd->b, ptr) == WEIR_OK);
    return NULL;
}

START_TEST(with_capture_relaxed_plain_calls_leave_a_global_capture_whole)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(relaxed);
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(allocate_and_free, &crowd);
    ck_assert_ptr_null(allocate_and_free(&crowd));
    end(weir_stream_handle(crowd.capturing));
    ck_assert_uint_eq(scene_pool_stats("main").mallocs, 2);
}
END_TEST

static void *allocate_in_vain(void *data)
{
    struct crowd *crowd = data;
    void *ptr;
    STEP(weir_stream_malloc(crowd->b, &ptr, MIB) == WEIR_CAPTURING);
    return NULL;
}

START_TEST(with_capture_caller_a_plain_request_spoils_a_global_capture_as_with_cuda)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(caller);
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(allocate_in_vain, &crowd);
    end_spoilt(weir_stream_handle(crowd.capturing));
    ck_assert_uint_eq(scene_pool_stats("main").live, 0);
    scene_free(crowd.b, scene_malloc(crowd.b, MIB));
}
END_TEST

static void *free_in_vain(void *data)
{
    struct crowd *crowd = data;
    STEP(weir_stream_free(crowd->b, crowd->held) == WEIR_CAPTURING);
    return NULL;
}

START_TEST(with_capture_caller_a_plain_free_spoils_a_global_capture_and_its_block_stays_live)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(caller);
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    crowd.held = scene_malloc(crowd.b, MIB);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(free_in_vain, &crowd);
    end_spoilt(weir_stream_handle(crowd.capturing));
    ck_assert_uint_eq(scene_pool_stats("main").live, MIB);
    scene_free(crowd.b, crowd.held);
}
END_TEST

/* What the cache serves and keeps needs no CUDA call that a capture could forbid. */
START_TEST(with_capture_caller_a_cached_request_and_free_leave_a_global_capture_whole)
{
    struct crowd crowd = { .calls = 0 };
    scene_open("weir: 1\ncapture: caller\npools: { main: {} }\n");
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    scene_free(crowd.b, scene_malloc(crowd.b, MIB));
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    elsewhere(allocate_and_free, &crowd);
    ck_assert_ptr_null(allocate_and_free(&crowd));
    ck_assert_uint_eq(end(weir_stream_handle(crowd.capturing)), 0);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cache_hits, 2);
    ck_assert_uint_eq(stats.mallocs, 3);
    ck_assert_uint_eq(stats.cached, MIB);
}
END_TEST

START_TEST(with_capture_caller_the_mode_of_the_thread_decides)
{
    struct crowd crowd = { .calls = 0 };
    scene_open(caller);
    crowd.capturing = scene_create(NULL);
    crowd.b = scene_create(NULL);
    begin(weir_stream_handle(crowd.capturing), GPU_CAPTURE_MODE_GLOBAL);
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_ptr_null(allocate_and_free(&crowd));
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_int_eq(mode, GPU_CAPTURE_MODE_RELAXED);
    end(weir_stream_handle(crowd.capturing));
}
END_TEST

START_TEST(mode_of_the_thread_is_what_it_was_after_each_call)
{
    void *ptr;
    scene_open(relaxed);
    weir_stream *s = scene_create(NULL);
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_THREAD_LOCAL;
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    void *held = scene_malloc(s, scene_share(MOST));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, SIZE_MAX / 2), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_null(administer(scene_stream(0)));
    scene_free(s, held);
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_int_eq(mode, GPU_CAPTURE_MODE_THREAD_LOCAL);
}
END_TEST

START_TEST(legacy_stream_is_served_beside_a_capture_of_a_non_blocking_stream)
{
    scene_open(relaxed);
    weir_stream *s = scene_create(NULL);
    begin(weir_stream_handle(s), GPU_CAPTURE_MODE_RELAXED);
    scene_free_on(NULL, scene_malloc_on(NULL, MIB));
    end(weir_stream_handle(s));
    ck_assert_uint_eq(scene_pool_stats("main").mallocs, 1);
}
END_TEST

/* The per-thread stream blocks, so the legacy stream cannot be told from one that captures. */
START_TEST(legacy_stream_is_refused_while_a_blocking_stream_captures)
{
    void *ptr = NULL;
    size_t nodes;
    scene_open(relaxed);
    begin(GPU_STREAM_PER_THREAD, GPU_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(weir_malloc(scene.w, &ptr, MIB, 0, NULL), WEIR_CAPTURING);
    ck_assert_ptr_null(ptr);
    scene.gpu->capture_end(GPU_STREAM_PER_THREAD, &nodes);
    ck_assert_uint_eq(scene_pool_stats("main").graph_blocks, 0);
    scene_free_on(NULL, scene_malloc_on(NULL, MIB));
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("capture");
    TCase *inside = suite_case(suite, "capturing stream", 60), *beside = suite_case(suite, "beside a capture", 60);
    TCase *setting = suite_case(suite, "setting", 60);
    TCase *const cases[] = { inside, beside, setting };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_checked_fixture(cases[i], scene_begin, scene_end);

    suite_add(inside, block_allocated_in_a_capture_belongs_to_the_graph, small_and_large_requests_both_become_nodes,
              weir_malloc_on_an_unopened_capturing_stream_makes_a_node, free_of_an_older_block_in_a_capture_is_refused_and_harmless,
              older_block_is_freed_on_another_stream_during_a_capture, synchronise_of_a_capturing_stream_is_refused_and_harmless,
              capture_that_is_spoilt_already_is_reported);

    suite_add(beside, waiting_for_a_pending_free_leaves_a_global_capture_whole, callbacks_and_trim_leave_a_global_capture_whole);
    tcase_add_loop_test(beside, recovery_in_vain_leaves_a_capture_whole, 0, 3);
    suite_add(beside, recovery_does_not_wait_for_a_capturing_stream);
    if (scene_is_sim())
        suite_add(beside, request_refused_on_a_capturing_stream_is_not_recovered);
    suite_add(beside, administration_leaves_a_global_capture_of_another_thread_whole,
              administration_leaves_a_global_capture_of_the_same_thread_whole, reload_leaves_a_global_capture_whole,
              opening_a_capturing_stream_is_refused_and_leaves_its_capture_whole,
              raw_request_on_a_capturing_stream_with_a_pool_of_its_own_leaves_its_capture_whole,
              trim_after_the_close_of_a_capturing_stream_leaves_its_capture_whole,
              last_free_of_a_private_pool_leaves_a_global_capture_whole);

    suite_add(setting, with_capture_relaxed_plain_calls_leave_a_global_capture_whole,
              with_capture_caller_a_plain_request_spoils_a_global_capture_as_with_cuda,
              with_capture_caller_a_plain_free_spoils_a_global_capture_and_its_block_stays_live,
              with_capture_caller_a_cached_request_and_free_leave_a_global_capture_whole,
              with_capture_caller_the_mode_of_the_thread_decides, mode_of_the_thread_is_what_it_was_after_each_call,
              legacy_stream_is_served_beside_a_capture_of_a_non_blocking_stream, legacy_stream_is_refused_while_a_blocking_stream_captures);
    return suite_run(suite);
}
