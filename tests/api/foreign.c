/* SPDX-License-Identifier: MIT */
/*
 * foreign.c - the program's own code that Weir runs, and threads that end in the middle of a call: pthread_exit() and pthread_cancel() in
 * callbacks, log functions and waits, and calls that would wait for the thread that makes them. tests/cxx/throws.cc has the exceptions.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/scene.h"

#define MOST 85

static const char plain[] = "weir: 1\ndefaults: { pool: main }\n"
                            "pools: { main: { " ALONE ", small_below: 0, on_oom: { deadline: 10s } } }\n";

/* How a request is made. */
static weir_stream *stream;
static weir_status by_stream(void **ptr)
{
    return weir_stream_malloc(stream, ptr, scene_share(MOST));
}

static weir_status by_handle(void **ptr)
{
    return weir_malloc(scene.w, ptr, scene_share(MOST), 0, weir_stream_handle(stream));
}

static weir_status by_pool(void **ptr)
{
    return weir_pool_malloc(scene.pool, ptr, scene_share(MOST), weir_stream_handle(stream));
}

static weir_status (*const ways[])(void **) = { by_stream, by_handle, by_pool };
#define WAYS ((int)(sizeof ways / sizeof *ways))

/* What a callback does once, in the thread that makes the first request; later it frees `spare`. */
static struct {
    void (*once)(void);
    void *spare;
    atomic_bool entered, leave, returned;
    unsigned id;
    weir_status status;
} plan;

static uint64_t callback(void *data, int device, uint64_t needed)
{
    void (*once)(void) = plan.once;
    (void)data;
    (void)device;
    plan.once = NULL;
    if (once)
        once();
    if (once || !plan.spare)
        return 0;
    scene_free(stream, plan.spare);
    plan.spare = NULL;
    return needed;
}

static void begin(void (*once)(void))
{
    weir_error error = WEIR_ERROR_INIT;
    scene_open(plain);
    stream = scene_create(NULL);
    plan.once = once;
    plan.spare = scene_malloc(stream, scene_share(MOST));
    plan.entered = plan.leave = plan.returned = false;
    ck_assert_msg(weir_oom_add(scene.w, callback, NULL, &error, &plan.id) == WEIR_OK, "%s", error.text);
}

/* The next recovery runs as ever, the callback can be removed, and nothing is in use any more. */
static void expect_recovery(void)
{
    scene_free(stream, scene_malloc(stream, scene_share(MOST)));
    ck_assert_ptr_null(plan.spare);
    scene_ok(weir_oom_remove(scene.w, plan.id, NULL), "weir_oom_remove");
    scene_ok(weir_stream_close(stream), "weir_stream_close");
}

static __attribute__((noinline)) void request_once(weir_status (*way)(void **))
{
    void *ptr;
    plan.status = way(&ptr);
    plan.returned = true;
}

/* A function in which a thread ends by cancellation has nothing on its stack: the address sanitizer would take that for in use later. */
static void *request(void *way)
{
    request_once(*(weir_status(*const *)(void **))way);
    pthread_testcancel();
    return NULL;
}

static void *run_thread(void *(*run)(void *), void *data)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, data), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

/* Leaving ------------------------------------------------------------------------------------------------------------------------------ */

static void end_thread(void)
{
    pthread_exit(&plan);
}

START_TEST(thread_that_ends_in_a_callback_gives_its_recovery_up)
{
    begin(end_thread);
    ck_assert_ptr_eq(run_thread(request, (void *)&ways[_i]), &plan);
    ck_assert(!plan.returned);
    expect_recovery();
}
END_TEST

static void *open_ring(void *e)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = scene_share(30), .depth = 4 };
    weir_ring *ring;
    return weir_ring_open(e, "frames", &options, weir_stream_handle(stream), NULL, &ring) == WEIR_OK ? ring : NULL;
}

START_TEST(thread_that_ends_while_a_ring_is_opened_leaves_no_slots)
{
    char directory[] = "/tmp/weir-foreign-XXXXXX", policy[256], socket[64];
    weir_export *e;
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(socket, sizeof socket, "%s/frames", directory);
    snprintf(policy, sizeof policy, "weir: 1\npools: { main: { devices: [0], ipc: posix_fd, share: { socket: %s } } }\n", socket);
    scene_open(policy);
    stream = scene_create(NULL);
    plan.once = end_thread;
    plan.spare = NULL;
    scene_ok(weir_oom_add(scene.w, callback, NULL, NULL, &plan.id), "weir_oom_add");
    ck_assert_msg(weir_export_open(scene.pool, &error, &e) == WEIR_OK, "%s", error.text);
    ck_assert_ptr_eq(run_thread(open_ring, e), &plan);
    weir_export_info info = { .size = sizeof info };
    scene_ok(weir_export_get_info(e, &info), "weir_export_get_info");
    ck_assert_uint_eq(info.blocks, 0);
    ck_assert_uint_eq(scene_pool_stats("main").live_blocks, 0);
    weir_export_close(e, 0);
    scene_ok(weir_stream_close(stream), "weir_stream_close");
    scene_close();
    rmdir(directory);
}
END_TEST

static void wait_in_callback(void)
{
    plan.entered = true;
    while (!plan.leave)
        sched_yield();
    pthread_testcancel();
}

START_TEST(thread_is_not_cancelled_in_a_callback)
{
    pthread_t thread;
    void *result;
    begin(wait_in_callback);
    ck_assert_int_eq(pthread_create(&thread, NULL, request, (void *)&ways[_i]), 0);
    while (!plan.entered)
        sched_yield();
    pthread_cancel(thread);
    plan.leave = true;
    pthread_join(thread, &result);
    ck_assert(plan.returned && result == PTHREAD_CANCELED && plan.status == WEIR_OUT_OF_MEMORY);
    expect_recovery();
}
END_TEST

static atomic_bool has_waited;

static __attribute__((noinline)) void request_and_free(void)
{
    void *ptr;
    weir_status status = by_stream(&ptr);
    atomic_store(&has_waited, true);
    if (status == WEIR_OK)
        weir_stream_free(stream, ptr);
}

static void *wait_for_turn(void *data)
{
    request_and_free();
    pthread_testcancel();
    return data;
}

START_TEST(thread_is_not_cancelled_while_it_waits_for_a_recovery)
{
    pthread_t first, second;
    void *result;
    begin(wait_in_callback);
    atomic_store(&has_waited, false);
    ck_assert_int_eq(pthread_create(&first, NULL, request, (void *)&ways[0]), 0);
    while (!plan.entered)
        sched_yield();
    ck_assert_int_eq(pthread_create(&second, NULL, wait_for_turn, NULL), 0);
    pthread_cancel(second);
    plan.leave = true;
    pthread_join(first, NULL);
    pthread_join(second, &result);
    ck_assert(result == PTHREAD_CANCELED && atomic_load(&has_waited));
    if (plan.spare)
        expect_recovery();
}
END_TEST

/* A thread that is cancelled already when its calls begin. Assertions, which write to a file, would end it. */
static __attribute__((noinline)) void call_everything(weir_status *status)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    weir_stream *s = NULL;
    weir_stats *stats = NULL;
    void *ptr = NULL;
    options.policy_text = "weir: 1\npools: { main: { initial_size: 64MiB } }\nkeeper: true\n";
    pthread_cancel(pthread_self());
    *status++ = weir_open(&options, NULL, &w);
    *status++ = weir_stream_create(w, 0, NULL, NULL, &s);
    *status++ = weir_stream_malloc(s, &ptr, MIB);
    *status++ = weir_stats_take(w, NULL, &stats);
    weir_stats_free(stats);
    *status++ = weir_stream_free(s, ptr);
    *status++ = weir_stream_synchronize(s, NULL);
    *status++ = weir_stream_close(s);
    *status++ = weir_close(w);
}

static void *call_everything_and_end(void *statuses_of_calls)
{
    call_everything(statuses_of_calls);
    pthread_testcancel();
    return NULL;
}

START_TEST(cancelled_thread_ends_behind_its_calls)
{
    weir_status done[] = { [0 ... 7] = WEIR_INVALID };
    ck_assert(run_thread(call_everything_and_end, done) == PTHREAD_CANCELED);
    for (int i = 0; i < 8; i++)
        ck_assert_msg(done[i] == WEIR_OK, "call %d: %s", i, weir_status_name(done[i]));
}
END_TEST

/* Waiting for itself ------------------------------------------------------------------------------------------------------------------- */

static weir_status statuses[4];
static weir_stream *idle;

static void close_what_runs(void)
{
    weir_error error = WEIR_ERROR_INIT;
    statuses[0] = weir_oom_remove(scene.w, plan.id, &error);
    ck_assert_msg(strstr(error.text, "callback 1 is running"), "%s", error.text);
    statuses[1] = weir_stream_close(stream);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "in progress"), "%s", error.text);
    statuses[2] = weir_close(scene.w);
    statuses[3] = weir_stream_close(idle);
}

START_TEST(what_runs_is_busy_in_a_callback)
{
    begin(close_what_runs);
    idle = scene_create(NULL);
    void *ptr;
    ck_assert_int_eq(ways[_i](&ptr), WEIR_OUT_OF_MEMORY);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(statuses[i], WEIR_BUSY);
    ck_assert_int_eq(statuses[3], WEIR_OK);
    expect_recovery();
}
END_TEST

/* Two threads, of two devices, are in one callback at a time, and each wants to remove it. */
static pthread_barrier_t both_inside;
static atomic_int busy;

static uint64_t remove_itself(void *data, int device, uint64_t needed)
{
    (void)device;
    (void)needed;
    pthread_barrier_wait(&both_inside);
    atomic_fetch_add(&busy, weir_oom_remove(scene.w, *(unsigned *)data, NULL) == WEIR_BUSY);
    pthread_barrier_wait(&both_inside);
    return 0;
}

static void *ask_in_vain(void *handle)
{
    void *ptr;
    (void)!weir_malloc(scene.w, &ptr, 3 * GIB, handle != NULL, handle);
    return NULL;
}

START_TEST(threads_that_remove_the_callback_in_which_both_are_do_not_wait_for_each_other)
{
    unsigned id;
    pthread_t thread;
    scene_simulate("devices=2,memory=4GiB");
    scene_open("weir: 1\npools: { main: { small_below: 0, on_oom: { deadline: 20s } } }\n");
    gpu_stream other = scene_stream(1);
    void *held = scene_malloc_on(NULL, 2 * GIB), *held_there;
    scene_ok(weir_malloc(scene.w, &held_there, 2 * GIB, 1, other), "weir_malloc");
    scene_ok(weir_oom_add(scene.w, remove_itself, &id, NULL, &id), "weir_oom_add");
    pthread_barrier_init(&both_inside, NULL, 2);
    atomic_store(&busy, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_in_vain, other), 0);
    ask_in_vain(NULL);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both_inside);
    ck_assert_int_eq(atomic_load(&busy), 2);
    scene_ok(weir_oom_remove(scene.w, id, NULL), "weir_oom_remove");
    scene_free_on(NULL, held);
    scene_free_on(other, held_there);
}
END_TEST

static void close_another(void)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *other;
    options.policy_text = plain;
    scene_ok(weir_open(&options, NULL, &other), "weir_open");
    statuses[0] = weir_close(other);
}

START_TEST(another_weir_may_be_closed_in_a_callback)
{
    begin(close_another);
    void *ptr;
    statuses[0] = WEIR_INVALID;
    ck_assert_int_eq(by_stream(&ptr), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(statuses[0], WEIR_OK);
    expect_recovery();
}
END_TEST

static void reload_in_callback(void)
{
    statuses[0] = weir_reload(scene.w, "/nonexistent/policy.yaml", NULL);
    statuses[1] = weir_pool_trim(scene.pool, 0, NULL, NULL);
}

START_TEST(reload_in_a_callback_does_not_wait)
{
    begin(reload_in_callback);
    void *ptr;
    ck_assert_int_eq(by_stream(&ptr), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(statuses[0], WEIR_UNREADABLE);
    ck_assert_int_eq(statuses[1], WEIR_OK);
    expect_recovery();
}
END_TEST

/* Log functions and leaks -------------------------------------------------------------------------------------------------------------- */

static struct {
    weir *w;
    unsigned lines;
    weir_status closed;
} logged;

static void end_thread_at_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    (void)level;
    (void)line;
    logged.lines++;
    pthread_exit(&logged);
}

static weir_log_fn log_fn;
static void *block;

/* Closes a weir with a live block, of which there is a line. */
static void *close_with_block(void *data)
{
    weir_options options = WEIR_OPTIONS_INIT;
    (void)data;
    options.policy_text = plain;
    options.log = log_fn;
    scene_ok(weir_open(&options, NULL, &logged.w), "weir_open");
    scene_ok(weir_malloc(logged.w, &block, MIB, 0, NULL), "weir_malloc");
    weir_close(logged.w);
    return NULL;
}

START_TEST(log_function_that_ends_its_thread_leaves_the_call_done)
{
    logged.lines = 0;
    log_fn = end_thread_at_line;
    ck_assert_ptr_eq(run_thread(close_with_block, NULL), &logged);
    ck_assert_uint_eq(logged.lines, 1);
    /* The weir is closed: its block is CUDA's alone. */
    ck_assert_int_eq(scene.gpu->free_async(block, NULL), GPU_SUCCESS);
    scene.gpu->stream_synchronize(NULL);
    scene_open(plain);
}
END_TEST

static void close_at_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    (void)level;
    (void)line;
    logged.closed = weir_close(logged.w);
}

START_TEST(weir_is_busy_in_its_log_function)
{
    log_fn = close_at_line;
    logged.closed = WEIR_OK;
    run_thread(close_with_block, NULL);
    ck_assert_int_eq(logged.closed, WEIR_BUSY);
    ck_assert_int_eq(scene.gpu->free_async(block, NULL), GPU_SUCCESS);
    scene.gpu->stream_synchronize(NULL);
    scene_open(plain);
}
END_TEST

static void end_thread_at_leak(void *data, const weir_leak *leak)
{
    (void)leak;
    pthread_exit(data);
}

static void *list_leaks(void *data)
{
    return weir_leaks(scene.w, -1, end_thread_at_leak, data, NULL) == WEIR_OK ? data : NULL;
}

START_TEST(thread_may_end_in_a_list_of_leaks)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, MIB);
    ck_assert_ptr_eq(run_thread(list_leaks, &logged), &logged);
    scene_free(s, ptr);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("foreign");
    TCase *tcase = suite_case(suite, "foreign", 30);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, thread_that_ends_in_a_callback_gives_its_recovery_up, 0, WAYS);
    tcase_add_loop_test(tcase, thread_is_not_cancelled_in_a_callback, 0, WAYS);
    tcase_add_loop_test(tcase, what_runs_is_busy_in_a_callback, 0, WAYS);
    suite_add(tcase, thread_is_not_cancelled_while_it_waits_for_a_recovery, cancelled_thread_ends_behind_its_calls,
              another_weir_may_be_closed_in_a_callback, reload_in_a_callback_does_not_wait,
              log_function_that_ends_its_thread_leaves_the_call_done, weir_is_busy_in_its_log_function, thread_may_end_in_a_list_of_leaks);
    if (scene_is_sim()) /* two devices; slots that fill a large device cannot be shared */
        suite_add(tcase, threads_that_remove_the_callback_in_which_both_are_do_not_wait_for_each_other,
                  thread_that_ends_while_a_ring_is_opened_leaves_no_slots);
    return suite_run(suite);
}
