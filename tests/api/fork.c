/* SPDX-License-Identifier: MIT */
/* After fork(): in the child every call fails cleanly and calls nothing; the parent goes on. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/weir_sleep.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static const char policy[] = "weir: 1\npools: { a: { current: true } }\nstreams: { own: { private: true } }\n";

/* What the parent has when it forks. */
static struct {
    weir *w;
    weir_stream *s, *own;
    weir_pool *pool;
    weir_stats *stats;
    void *ptr;
    gpu_stream handle;
    unsigned id;
} parent;

static uint64_t spare_nothing(void *data, int device, uint64_t needed)
{
    (void)data;
    (void)device;
    (void)needed;
    return 0;
}

static void set_up(void)
{
    fixture_machine(NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &parent.handle), GPU_SUCCESS);
    parent.w = fixture_open(policy);
    parent.s = fixture_stream(parent.w, 0, NULL);
    parent.own = fixture_stream(parent.w, 0, "own");
    parent.pool = fixture_pool(parent.w, NULL, 0);
    parent.ptr = fixture_malloc(parent.s, 1000);
    ck_assert_int_eq(weir_stats_take(parent.w, NULL, &parent.stats), WEIR_OK);
    ck_assert_int_eq(weir_oom_add(parent.w, spare_nothing, NULL, NULL, &parent.id), WEIR_OK);
}

/* The parent's things still work after the fork. */
static void tear_down(void)
{
    void *more = fixture_malloc(parent.own, MIB(40));
    ck_assert_int_eq(weir_stream_free(parent.own, more), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(parent.s, parent.ptr), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(parent.w, "a", 0).live_blocks, 0);
    ck_assert_int_eq(weir_oom_remove(parent.w, parent.id, NULL), WEIR_OK);
    weir_stats_free(parent.stats);
    weir_close(parent.w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(parent.handle), GPU_SUCCESS);
    fixture_expect_empty();
}

/*
 * Runs the function in a child, which has ten seconds, and returns what it returned. The child then ends as if by accident: it has no way
 * to free what other threads of its parent were holding, and a leak checker would count that.
 */
static int in_child(int (*fn)(void))
{
    int ends[2], answer = -1;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm(60);
        answer = fn();
        if (write(ends[1], &answer, sizeof answer) == sizeof answer)
            raise(SIGKILL);
        _exit(1);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &answer, sizeof answer);
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_msg(got == sizeof answer, "the child ended before it answered");
    return answer;
}

/* The number of the first call whose answer is wrong, 0 if all are right. */
static int first_wrong(const bool *right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!right[i])
            return (int)i + 1;
    return 0;
}

static int call_with_status(void)
{
    weir_error e = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_stream *s = NULL;
    weir_pool *pool = NULL;
    weir_stats *stats = NULL;
    void *ptr = NULL;
    uint64_t released = 7;
    unsigned id = 0;
    uint64_t calls = sim_calls(NULL);
    const bool right[] = {
        weir_open(NULL, &e, &w) == WEIR_FORKED && !w,
        weir_reload(parent.w, NULL, NULL) == WEIR_FORKED,
        weir_malloc(parent.w, &ptr, 1000, 0, parent.handle) == WEIR_FORKED && !ptr,
        weir_malloc(parent.w, &ptr, 0, 0, parent.handle) == WEIR_FORKED,
        weir_free(parent.w, parent.ptr, parent.handle) == WEIR_FORKED,
        weir_free(parent.w, NULL, parent.handle) == WEIR_FORKED,
        weir_stream_open(parent.w, 0, parent.handle, NULL, NULL, &s) == WEIR_FORKED && !s,
        weir_stream_create(parent.w, 0, NULL, NULL, &s) == WEIR_FORKED && !s,
        weir_stream_malloc(parent.s, &ptr, 1000) == WEIR_FORKED && !ptr,
        weir_stream_free(parent.s, parent.ptr) == WEIR_FORKED,
        weir_stream_synchronize(parent.s, NULL) == WEIR_FORKED,
        weir_pool_get(parent.w, NULL, 0, NULL, &pool) == WEIR_FORKED && !pool,
        weir_pool_malloc(parent.pool, &ptr, 1000, parent.handle) == WEIR_FORKED && !ptr,
        weir_pool_trim(parent.pool, 0, NULL, &released) == WEIR_FORKED && released == 7,
        weir_pool_set_release_threshold(parent.pool, 0, NULL) == WEIR_FORKED,
        weir_pool_sleep(parent.pool, 0, 0, NULL, &released) == WEIR_FORKED && released == 7,
        weir_pool_wake(parent.pool, 0, NULL, NULL) == WEIR_FORKED,
        weir_pool_yield(parent.pool, 0, NULL) == WEIR_FORKED,
        weir_stats_take(parent.w, NULL, &stats) == WEIR_FORKED && !stats,
        weir_oom_add(parent.w, spare_nothing, NULL, NULL, &id) == WEIR_FORKED && !id,
        weir_oom_remove(parent.w, parent.id, NULL) == WEIR_FORKED,
        e.status == WEIR_FORKED && strstr(e.text, "fork()") != NULL,
        sim_calls(NULL) == calls,
    };
    return first_wrong(right, sizeof right / sizeof right[0]);
}

START_TEST(every_call_in_the_child_says_so)
{
    ck_assert_int_eq(in_child(call_with_status), 0);
}
END_TEST

static int fail_and_ask(void)
{
    weir_error error = WEIR_ERROR_INIT;
    void *ptr = NULL;
    if (weir_stream_malloc(parent.s, &ptr, 1000) != WEIR_FORKED)
        return 1;
    weir_last_error(&error);
    return error.status != WEIR_FORKED || !strstr(error.text, "weir_open");
}

START_TEST(last_error_in_the_child_says_what_to_do)
{
    ck_assert_int_eq(in_child(fail_and_ask), 0);
}
END_TEST

static int call_getters(void)
{
    const bool right[] = {
        strcmp(weir_version(), "") != 0,
        strcmp(weir_status_name(WEIR_FORKED), "WEIR_FORKED") == 0,
        strcmp(weir_status_text(WEIR_OK), "success") == 0,
        weir_stream_handle(parent.s) != NULL,
        weir_stream_device(parent.s) == 0,
        weir_stream_pool(parent.s) == parent.pool,
        weir_pool_handle(parent.pool) != NULL,
        weir_pool_small_handle(parent.pool) != NULL,
        strcmp(weir_pool_name(parent.pool), "a") == 0,
        weir_pool_device(parent.pool) == 0,
        strcmp(weir_rung_name(WEIR_RUNG_WAIT), "wait") == 0,
        weir_stats_pool_count(parent.stats) == 2,
        weir_stats_pool(parent.stats, 0)->live == 1000,
        weir_stats_device_count(parent.stats) == 1,
        weir_stats_device(parent.stats, 0)->device == 0,
    };
    return first_wrong(right, sizeof right / sizeof right[0]);
}

START_TEST(names_and_snapshots_can_be_read_in_the_child)
{
    ck_assert_int_eq(in_child(call_getters), 0);
}
END_TEST

static int call_void_functions(void)
{
    uint64_t calls = sim_calls(NULL);
    weir_stats_free(parent.stats);
    weir_stream_close(parent.own);
    weir_stream_close(parent.s);
    weir_close(parent.w);
    return sim_calls(NULL) != calls;
}

START_TEST(closing_in_the_child_does_nothing)
{
    ck_assert_int_eq(in_child(call_void_functions), 0);
}
END_TEST

static int fork_again(void)
{
    return in_child(call_with_status);
}

START_TEST(grandchild_is_a_child_too)
{
    ck_assert_int_eq(in_child(fork_again), 0);
}
END_TEST

/* A child gets the locks of other threads as they were, and must touch none of them. */
static atomic_bool stop;

static void *allocate_and_look(void *data)
{
    while (!atomic_load(&stop)) {
        weir_stats *stats;
        weir_stream *s;
        void *ptr;
        if (weir_malloc(parent.w, &ptr, 100, 0, parent.handle) == WEIR_OK)
            weir_free(parent.w, ptr, parent.handle);
        if (weir_stream_create(parent.w, 0, "own", NULL, &s) == WEIR_OK)
            weir_stream_close(s);
        if (weir_stats_take(parent.w, NULL, &stats) == WEIR_OK)
            weir_stats_free(stats);
    }
    return data;
}

static int call_everything(void)
{
    int wrong = call_with_status();
    return wrong ? wrong : 100 * call_void_functions();
}

START_TEST(child_of_a_busy_process_waits_for_nobody)
{
    pthread_t threads[3];
    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_look, NULL), 0);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(in_child(fail_and_ask), 0);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(in_child(call_everything), 0);
}
END_TEST

/* Before the first weir ---------------------------------------------------------------------------------------------------------------- */

static int use_a_weir(void)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    void *ptr = NULL;
    options.policy_text = policy;
    options.gpu = "sim";
    if (weir_open(&options, NULL, &w) != WEIR_OK)
        return 1;
    if (weir_malloc(w, &ptr, 1000, 0, NULL) != WEIR_OK || weir_free(w, ptr, NULL) != WEIR_OK)
        return 2;
    weir_close(w);
    fixture_sweep();
    struct sim_census census;
    sim_census(&census);
    return census.pools || census.blocks ? 3 : 0;
}

START_TEST(child_forked_before_the_first_weir_works)
{
    ck_assert_int_eq(in_child(use_a_weir), 0);
    ck_assert_int_eq(use_a_weir(), 0); /* and so does its parent */
}
END_TEST

START_TEST(open_that_was_refused_before_it_saw_a_gpu_does_no_harm)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    options.policy_text = "weir: 2\n";
    options.gpu = "sim";
    ck_assert_int_eq(weir_open(&options, NULL, &w), WEIR_BAD_POLICY);
    ck_assert_int_eq(in_child(use_a_weir), 0);
}
END_TEST

static int open_again(void)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    options.policy_text = policy;
    options.gpu = "sim";
    return weir_open(&options, NULL, &w) != WEIR_FORKED;
}

START_TEST(child_forked_after_the_last_weir_was_closed_is_told_so)
{
    ck_assert_int_eq(use_a_weir(), 0);
    ck_assert_int_eq(in_child(open_again), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fork");
    TCase *tcase = suite_case(suite, "child", 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, every_call_in_the_child_says_so, last_error_in_the_child_says_what_to_do, names_and_snapshots_can_be_read_in_the_child,
              closing_in_the_child_does_nothing, grandchild_is_a_child_too, child_of_a_busy_process_waits_for_nobody);

    const char *forks = getenv("CK_FORK");
    if (forks && strcmp(forks, "no") == 0)
        return suite_run(suite); /* the next tests need a process in which there was no weir */
    tcase = suite_case(suite, "before", 60);
    suite_add(tcase, child_forked_before_the_first_weir_works, open_that_was_refused_before_it_saw_a_gpu_does_no_harm,
              child_forked_after_the_last_weir_was_closed_is_told_so);
    return suite_run(suite);
}
