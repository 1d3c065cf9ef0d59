/* SPDX-License-Identifier: MIT */
/* conformance_capture.c - stream capture: what a call may do while a stream captures, on that stream and beside it. */
#include "tests/gpu/conformance.h"

static size_t end_capture(void)
{
    size_t nodes;
    ck_assert_gpu(g->capture_end(rig.a, &nodes));
    return nodes;
}

static void expect_spoilt(void)
{
    size_t nodes;
    ck_assert_gpu_code(g->capture_end(rig.a, &nodes), GPU_CAPTURE_INVALIDATED);
}

static enum gpu_capture_status status_of(gpu_stream stream)
{
    enum gpu_capture_status status;
    ck_assert_gpu(g->stream_capture_status(stream, &status));
    return status;
}

/* On the capturing stream -------------------------------------------------------------------------------------------------------------- */

START_TEST(capturing_stream_says_so)
{
    ck_assert_int_eq(status_of(rig.a), GPU_CAPTURE_STATUS_NONE);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(status_of(rig.a), GPU_CAPTURE_STATUS_ACTIVE);
    ck_assert_int_eq(status_of(rig.b), GPU_CAPTURE_STATUS_NONE);
    end_capture();
    ck_assert_int_eq(status_of(rig.a), GPU_CAPTURE_STATUS_NONE);
}
END_TEST

static uint64_t capture_of(gpu_stream stream)
{
    uint64_t id;
    ck_assert_gpu(g->stream_capture_id(stream, &id));
    return id;
}

START_TEST(streams_of_one_capture_have_its_number_and_no_other_capture_has_it)
{
    ck_assert_uint_eq(capture_of(rig.a), 0);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    uint64_t first = capture_of(rig.a);
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_eq(capture_of(rig.b), 0);
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    ck_assert_uint_eq(capture_of(rig.b), first);
    ck_assert_gpu(g->event_record(rig.event, rig.b)); /* what joined has to come back before the end */
    ck_assert_gpu(g->stream_wait_event(rig.a, rig.event));
    end_capture();
    ck_assert_uint_eq(capture_of(rig.a), 0);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    ck_assert_uint_ne(capture_of(rig.a), first);
    end_capture();
}
END_TEST

static int ask_capture(void *stream)
{
    uint64_t id;
    return g->stream_capture_id(stream, &id);
}

START_TEST(asking_for_the_number_harms_no_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(in_other_thread(GPU_CAPTURE_MODE_GLOBAL, ask_capture, rig.a));
    ck_assert_uint_ne(capture_of(rig.a), 0);
    end_capture();
}
END_TEST

START_TEST(captured_malloc_and_free_become_nodes)
{
    void *ptr;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(g->malloc_async(&ptr, MIB, rig.pool, rig.a));
    ck_assert_gpu(g->free_async(ptr, rig.a));
    ck_assert_uint_eq(end_capture(), 2);
}
END_TEST

START_TEST(captured_malloc_takes_nothing_from_the_pool)
{
    void *ptr;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(g->malloc_async(&ptr, MIB, rig.pool, rig.a));
    ck_assert_gpu(g->free_async(ptr, rig.a));
    end_capture();
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED_HIGH), 0);
}
END_TEST

START_TEST(captured_free_of_an_older_block_is_refused)
{
    void *ptr = take(rig.pool, MIB, rig.a);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu_code(g->free_async(ptr, rig.a), GPU_INVALID_VALUE);
    ck_assert_int_eq(status_of(rig.a), GPU_CAPTURE_STATUS_ACTIVE);
    end_capture();
    give(ptr, rig.a);
}
END_TEST

static int synchronize_stream(void *stream)
{
    return g->stream_synchronize(stream);
}

static int query_event(void *event)
{
    return g->event_query(event);
}

static int record_and_wait(void *unused)
{
    (void)unused;
    int code = g->event_record(rig.event, rig.a);
    return code ? code : g->stream_wait_event(rig.b, rig.event);
}

static int free_block(void *ptr)
{
    return g->free_async(ptr, rig.a);
}

static int ask_status(void *stream)
{
    enum gpu_capture_status status;
    return g->stream_capture_status(stream, &status);
}

static int ask_id(void *stream)
{
    uint64_t id;
    return g->stream_id(stream, &id);
}

START_TEST(relaxed_question_for_the_id_of_the_capturing_stream_spoils_the_capture)
{
    if (!g->supports(0, GPU_FEATURE_STREAM_ID, NULL, 0))
        return;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    ck_assert_gpu_code(in_other_thread(GPU_CAPTURE_MODE_RELAXED, ask_id, rig.a), GPU_CAPTURE_UNSUPPORTED);
    expect_spoilt();
}
END_TEST

START_TEST(relaxed_synchronise_of_the_capturing_stream_spoils_the_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    int code = in_other_thread(GPU_CAPTURE_MODE_RELAXED, synchronize_stream, rig.a);
    ck_assert_int_ne(code, 0);
    expect_spoilt();
}
END_TEST

START_TEST(relaxed_query_of_a_captured_event_spoils_the_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    int code = in_other_thread(GPU_CAPTURE_MODE_RELAXED, query_event, rig.event);
    ck_assert_int_ne(code, 0);
    ck_assert_int_ne(code, GPU_NOT_READY);
    expect_spoilt();
}
END_TEST

START_TEST(relaxed_record_and_wait_harm_no_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(in_other_thread(GPU_CAPTURE_MODE_RELAXED, record_and_wait, NULL));
    end_capture();
}
END_TEST

START_TEST(relaxed_free_on_the_capturing_stream_is_refused_and_harms_no_capture)
{
    void *ptr = take(rig.pool, MIB, rig.a);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(in_other_thread(GPU_CAPTURE_MODE_RELAXED, free_block, ptr), GPU_INVALID_VALUE);
    end_capture();
    give(ptr, rig.a);
}
END_TEST

START_TEST(asking_for_the_status_harms_no_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(in_other_thread(GPU_CAPTURE_MODE_GLOBAL, ask_status, rig.a));
    end_capture();
}
END_TEST

START_TEST(legacy_stream_cannot_tell_while_a_blocking_stream_captures)
{
    size_t nodes;
    enum gpu_capture_status status;
    ck_assert_gpu(g->capture_begin(GPU_STREAM_PER_THREAD, GPU_CAPTURE_MODE_RELAXED));
    int code = g->stream_capture_status(GPU_STREAM_LEGACY, &status);
    g->capture_end(GPU_STREAM_PER_THREAD, &nodes);
    ck_assert_int_eq(code, GPU_CAPTURE_IMPLICIT);
}
END_TEST

START_TEST(legacy_stream_can_tell_while_a_non_blocking_stream_captures)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(status_of(GPU_STREAM_LEGACY), GPU_CAPTURE_STATUS_NONE);
    end_capture();
}
END_TEST

/* Beside it, by another thread --------------------------------------------------------------------------------------------------------- */

static int allocate(void *ptr)
{
    return g->malloc_async(ptr, MIB, rig.pool, rig.b);
}

/* Of a block that was made before the capture. */
static int free_beside(void *ptr)
{
    return g->free_async(ptr, rig.b);
}

static int trim(void *unused)
{
    (void)unused;
    return g->pool_trim(rig.pool, 0);
}

static int set_threshold(void *unused)
{
    (void)unused;
    return g->pool_set(rig.pool, GPU_POOL_RELEASE_THRESHOLD, MIB);
}

static int synchronize_other_stream(void *unused)
{
    (void)unused;
    return g->stream_synchronize(rig.b);
}

static int synchronize_device(void *unused)
{
    (void)unused;
    return g->device_synchronize(0);
}

/* Such a call of a thread in global mode fails and spoils a global capture. */
static void check_that_it_spoils(int (*act)(void *data))
{
    void *ptr = NULL;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    int code = in_other_thread(GPU_CAPTURE_MODE_GLOBAL, act, &ptr);
    ck_assert_int_ne(code, 0);
    ck_assert_int_eq(status_of(rig.a), GPU_CAPTURE_STATUS_INVALID);
    expect_spoilt();
}

/* In relaxed mode it works and harms nothing. */
static void check_that_relaxed_helps(int (*act)(void *data))
{
    void *ptr = NULL;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    int code = in_other_thread(GPU_CAPTURE_MODE_RELAXED, act, &ptr);
    end_capture();
    ck_assert_gpu(code);
    if (ptr)
        ck_assert_gpu(g->free_async(ptr, rig.b));
}

START_TEST(malloc_by_another_thread_spoils_a_global_capture)
{
    check_that_it_spoils(allocate);
}
END_TEST

START_TEST(free_by_another_thread_spoils_a_global_capture)
{
    void *ptr = take(rig.pool, MIB, rig.b);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(in_other_thread(GPU_CAPTURE_MODE_GLOBAL, free_beside, ptr), GPU_CAPTURE_UNSUPPORTED);
    expect_spoilt();
    give(ptr, rig.b);
}
END_TEST

START_TEST(trim_by_another_thread_spoils_a_global_capture)
{
    check_that_it_spoils(trim);
}
END_TEST

START_TEST(set_attribute_by_another_thread_spoils_a_global_capture)
{
    check_that_it_spoils(set_threshold);
}
END_TEST

START_TEST(synchronise_by_another_thread_spoils_a_global_capture)
{
    check_that_it_spoils(synchronize_other_stream);
}
END_TEST

START_TEST(malloc_by_a_relaxed_thread_harms_no_capture)
{
    check_that_relaxed_helps(allocate);
}
END_TEST

START_TEST(free_by_a_relaxed_thread_harms_no_capture)
{
    void *ptr = take(rig.pool, MIB, rig.b);
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    int code = in_other_thread(GPU_CAPTURE_MODE_RELAXED, free_beside, ptr);
    end_capture();
    ck_assert_gpu(code);
    forget_block(ptr);
}
END_TEST

START_TEST(trim_by_a_relaxed_thread_harms_no_capture)
{
    check_that_relaxed_helps(trim);
}
END_TEST

START_TEST(set_attribute_by_a_relaxed_thread_harms_no_capture)
{
    check_that_relaxed_helps(set_threshold);
}
END_TEST

START_TEST(synchronise_by_a_relaxed_thread_harms_no_capture)
{
    check_that_relaxed_helps(synchronize_other_stream);
}
END_TEST

START_TEST(device_synchronise_spoils_a_capture_even_if_relaxed)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    int code = in_other_thread(GPU_CAPTURE_MODE_RELAXED, synchronize_device, NULL);
    ck_assert_int_ne(code, 0);
    expect_spoilt();
}
END_TEST

START_TEST(malloc_by_another_thread_harms_no_relaxed_capture)
{
    void *ptr = NULL;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    int code = in_other_thread(GPU_CAPTURE_MODE_GLOBAL, allocate, &ptr);
    end_capture();
    ck_assert_gpu(code);
    ck_assert_gpu(g->free_async(ptr, rig.b));
}
END_TEST

START_TEST(malloc_by_another_thread_harms_no_thread_local_capture)
{
    void *ptr = NULL;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_THREAD_LOCAL));
    int code = in_other_thread(GPU_CAPTURE_MODE_GLOBAL, allocate, &ptr);
    end_capture();
    ck_assert_gpu(code);
    ck_assert_gpu(g->free_async(ptr, rig.b));
}
END_TEST

START_TEST(exchanged_capture_mode_is_the_former_one)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_gpu(g->exchange_capture_mode(&mode));
    ck_assert_int_eq(mode, GPU_CAPTURE_MODE_GLOBAL);
    ck_assert_gpu(g->exchange_capture_mode(&mode));
    ck_assert_int_eq(mode, GPU_CAPTURE_MODE_RELAXED);
}
END_TEST

/* Memory of graphs --------------------------------------------------------------------------------------------------------------------- */

/* Runs a graph that has so much memory for a while, and destroys it. */
static void run_graph(uint64_t size)
{
    void *ptr;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(g->malloc_async(&ptr, size, rig.pool, rig.a));
    ck_assert_gpu(g->set_async(ptr, 1, size, rig.a));
    ck_assert_gpu(g->free_async(ptr, rig.a));
    ck_assert_gpu(g->capture_run(rig.a));
}

START_TEST(memory_of_a_destroyed_graph_comes_back_when_it_is_trimmed)
{
    uint64_t before = device_free();
    run_graph(1024 * MIB);
    uint64_t after = device_free();
    ck_assert_uint_ge(before, after + 1024 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
    ck_assert_gpu(g->graph_trim(0));
    ck_assert_uint_ge(device_free(), after + 1024 * MIB);
}
END_TEST

START_TEST(memory_of_a_destroyed_graph_serves_the_next_one)
{
    run_graph(1024 * MIB);
    uint64_t after = device_free();
    run_graph(1024 * MIB);
    ck_assert_uint_lt(after, device_free() + 1024 * MIB);
    ck_assert_gpu(g->graph_trim(0));
}
END_TEST

START_TEST(memory_of_a_destroyed_graph_serves_no_pool_before_it_is_trimmed)
{
    run_graph(percent_of_device(60));
    ck_assert_gpu_code(try_take(rig.pool, percent_of_device(60), rig.a), GPU_OUT_OF_MEMORY);
    ck_assert_gpu(g->graph_trim(0));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.a));
}
END_TEST

/* The driver takes it for cudaMalloc() by itself (measured), and perhaps for a page. Weir trims it where a page cannot be created. */
START_TEST(memory_of_a_destroyed_graph_is_given_up_with_the_request_that_it_refuses)
{
    run_graph(percent_of_device(60));
    ck_assert_gpu_code(try_take(rig.pool, percent_of_device(60), rig.a), GPU_OUT_OF_MEMORY);
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.a));
    ck_assert_gpu(g->graph_trim(0));
}
END_TEST

START_TEST(memory_of_a_destroyed_graph_serves_a_page_behind_a_trim_at_the_latest)
{
    gpu_page page;
    run_graph(percent_of_device(60));
    int code = g->page_create(0, percent_of_device(60), &page);
    if (code != GPU_SUCCESS) {
        ck_assert_gpu_code(code, GPU_OUT_OF_MEMORY);
        ck_assert_gpu(g->graph_trim(0));
        ck_assert_gpu(g->page_create(0, percent_of_device(60), &page));
    }
    ck_assert_gpu(g->page_release(page));
    ck_assert_gpu(g->graph_trim(0));
}
END_TEST

static int trim_graphs(void *unused)
{
    (void)unused;
    return g->graph_trim(0);
}

START_TEST(trim_of_graphs_by_a_relaxed_thread_harms_no_capture)
{
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(in_other_thread(GPU_CAPTURE_MODE_RELAXED, trim_graphs, NULL));
    end_capture();
}
END_TEST

void add_capture_tests(Suite *suite, const struct probe *probe)
{
    TCase *tcase = rig_case(suite, "capture");
    suite_add(tcase, capturing_stream_says_so, streams_of_one_capture_have_its_number_and_no_other_capture_has_it,
              asking_for_the_number_harms_no_capture, captured_malloc_and_free_become_nodes, captured_malloc_takes_nothing_from_the_pool,
              captured_free_of_an_older_block_is_refused, relaxed_synchronise_of_the_capturing_stream_spoils_the_capture,
              relaxed_query_of_a_captured_event_spoils_the_capture, relaxed_record_and_wait_harm_no_capture,
              relaxed_free_on_the_capturing_stream_is_refused_and_harms_no_capture,
              relaxed_question_for_the_id_of_the_capturing_stream_spoils_the_capture, asking_for_the_status_harms_no_capture,
              legacy_stream_cannot_tell_while_a_blocking_stream_captures, legacy_stream_can_tell_while_a_non_blocking_stream_captures,
              malloc_by_another_thread_spoils_a_global_capture, free_by_another_thread_spoils_a_global_capture,
              trim_by_another_thread_spoils_a_global_capture, set_attribute_by_another_thread_spoils_a_global_capture,
              synchronise_by_another_thread_spoils_a_global_capture, malloc_by_a_relaxed_thread_harms_no_capture,
              free_by_a_relaxed_thread_harms_no_capture, trim_by_a_relaxed_thread_harms_no_capture,
              set_attribute_by_a_relaxed_thread_harms_no_capture, synchronise_by_a_relaxed_thread_harms_no_capture,
              device_synchronise_spoils_a_capture_even_if_relaxed, malloc_by_another_thread_harms_no_relaxed_capture,
              malloc_by_another_thread_harms_no_thread_local_capture, exchanged_capture_mode_is_the_former_one,
              memory_of_a_destroyed_graph_comes_back_when_it_is_trimmed, memory_of_a_destroyed_graph_serves_the_next_one,
              memory_of_a_destroyed_graph_serves_no_pool_before_it_is_trimmed,
              memory_of_a_destroyed_graph_is_given_up_with_the_request_that_it_refuses, trim_of_graphs_by_a_relaxed_thread_harms_no_capture);
    add_if(tcase, probe, GPU_FEATURE_MAPPING, memory_of_a_destroyed_graph_serves_a_page_behind_a_trim_at_the_latest);
}
