/* SPDX-License-Identifier: MIT */
/* recovery_callbacks.c - the application's part in recovery: what its callbacks may do, and when they run. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/api/recovery.h"
#include "tests/api/scene.h"

#define MOST 85

static const char plain[] = "weir: 1\ndefaults: { pool: main }\n"
                            "pools:\n"
                            "  main: { " ALONE ", small_below: 0, on_oom: { deadline: 10s } }\n"
                            "streams:\n"
                            "  own: { pool: main, private: true }\n";

/* What the application keeps and can spare. */
struct hoard {
    weir_stream *s;
    void *ptr;
    uint64_t size;
    unsigned calls;
    unsigned order; /* the number of the last call among all hoards */
    int device;
    uint64_t needed;
};
static unsigned calls_of_all;

static void hoard_init(struct hoard *hoard, weir_stream *s, unsigned percent)
{
    *hoard = (struct hoard){ .s = s, .size = scene_share(percent) };
    hoard->ptr = percent ? scene_malloc(s, hoard->size) : NULL;
}

static uint64_t spare(void *data, int device, uint64_t needed)
{
    struct hoard *hoard = data;
    hoard->calls++;
    hoard->order = ++calls_of_all;
    hoard->device = device;
    hoard->needed = needed;
    if (!hoard->ptr || weir_stream_free(hoard->s, hoard->ptr) != WEIR_OK)
        return 0;
    hoard->ptr = NULL;
    return hoard->size;
}

static unsigned add(weir_oom_fn fn, void *data)
{
    weir_error error = WEIR_ERROR_INIT;
    unsigned id = 0;
    ck_assert_msg(weir_oom_add(scene.w, fn, data, &error, &id) == WEIR_OK, "%s", error.text);
    return id;
}

static void expect_served(weir_stream *s)
{
    scene_free(s, scene_malloc(s, scene_share(MOST)));
}

static void expect_refused(weir_stream *s)
{
    void *ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, scene_share(MOST)), WEIR_OUT_OF_MEMORY);
}

/* Order -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_freed_by_a_callback_rescues)
{
    struct hoard hoard;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    hoard_init(&hoard, s, MOST);
    add(spare, &hoard);
    expect_served(s);
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
    ck_assert_int_eq(hoard.device, 0);
    ck_assert_uint_eq(hoard.needed, scene_share(MOST));
}
END_TEST

START_TEST(callbacks_run_in_the_order_of_registration_until_one_helps)
{
    struct hoard hoards[3];
    calls_of_all = 0;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    hoard_init(&hoards[0], s, 0);
    hoard_init(&hoards[1], s, 60);
    hoard_init(&hoards[2], s, 10);
    for (size_t i = 0; i < 3; i++)
        add(spare, &hoards[i]);
    expect_served(s);
    ck_assert_uint_eq(hoards[0].order, 1);
    ck_assert_uint_eq(hoards[1].order, 2);
    ck_assert_uint_eq(hoards[2].calls, 0);
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
    scene_free(s, hoards[2].ptr);
}
END_TEST

START_TEST(callback_that_frees_too_little_is_followed_by_the_next)
{
    struct hoard hoards[2];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    hoard_init(&hoards[0], s, 10);
    hoard_init(&hoards[1], s, 60);
    add(spare, &hoards[0]);
    add(spare, &hoards[1]);
    expect_served(s);
    ck_assert_uint_eq(hoards[0].calls, 1);
    ck_assert_uint_eq(hoards[1].calls, 1);
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
}
END_TEST

START_TEST(every_callback_runs_once_before_the_refusal)
{
    struct hoard hoards[3];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    for (size_t i = 0; i < 3; i++) {
        hoard_init(&hoards[i], s, 0);
        add(spare, &hoards[i]);
    }
    expect_refused(s);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(hoards[i].calls, 1);
    scene_rescues(WEIR_RUNG_CALLBACKS, 0, 1);
    scene_free(s, held);
}
END_TEST

static uint64_t spare_behind_a_kernel(void *data, int device, uint64_t needed)
{
    scene.gpu->delay(weir_stream_handle(((struct hoard *)data)->s), 300 * MILLISECOND);
    return spare(data, device, needed);
}

START_TEST(block_freed_by_a_callback_behind_a_kernel_is_waited_for)
{
    struct hoard hoard;
    scene_open(plain);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    hoard_init(&hoard, a, MOST);
    add(spare_behind_a_kernel, &hoard);
    expect_served(b);
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
}
END_TEST

START_TEST(without_the_wait_step_nothing_waits_for_what_a_callback_freed)
{
    struct hoard hoard;
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, on_oom: { steps: [callbacks] } } }\n");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    hoard_init(&hoard, a, MOST);
    add(spare_behind_a_kernel, &hoard);
    expect_refused(b);
    ck_assert_uint_eq(hoard.calls, 2); /* the second time it has nothing */
}
END_TEST

/* What they may do --------------------------------------------------------------------------------------------------------------------- */

struct inner {
    weir_stream *s;
    weir_status status;
    weir_error error;
};

static uint64_t ask_for_more(void *data, int device, uint64_t needed)
{
    struct inner *inner = data;
    void *ptr;
    (void)device;
    inner->status = weir_stream_malloc(inner->s, &ptr, needed);
    weir_last_error(&inner->error);
    return 0;
}

START_TEST(malloc_within_a_callback_is_refused_without_a_recovery_of_its_own)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    static struct inner inner;
    inner = (struct inner){ .s = s };
    void *held = scene_malloc(s, scene_share(MOST));
    add(ask_for_more, &inner);
    expect_refused(s);
    ck_assert_int_eq(inner.status, WEIR_OUT_OF_MEMORY);
    ck_assert_msg(strstr(inner.error.text, "within an out-of-memory callback") != NULL, "%s", inner.error.text);
    scene_rescues(WEIR_RUNG_CALLBACKS, 0, 1);
    scene_free(s, held);
}
END_TEST

START_TEST(malloc_within_a_callback_is_served_if_there_is_room)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    static struct inner inner;
    inner = (struct inner){ .s = s };
    void *held = scene_malloc(s, scene_share(50)), *small = NULL;
    add(ask_for_more, &inner);
    /* The callback asks for as much as was refused; so refuse it at first, and then ask for what still fits. */
    ck_assert_int_eq(weir_stream_malloc(s, &small, scene_share(60)), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(inner.status, WEIR_OUT_OF_MEMORY);
    scene_free(s, scene_malloc(s, scene_share(20)));
    scene_free(s, held);
}
END_TEST

struct visitor {
    struct hoard hoard;
    weir_stream *other, *made;
    weir_status statuses[6];
};

static uint64_t use_everything(void *data, int device, uint64_t needed)
{
    struct visitor *visitor = data;
    weir_stats *stats = NULL;
    uint64_t released;
    visitor->statuses[0] = weir_stats_take(scene.w, NULL, &stats);
    weir_stats_free(stats);
    visitor->statuses[1] = weir_pool_trim(scene.pool, 0, NULL, &released);
    weir_stream_close(visitor->other);
    visitor->statuses[2] = weir_stream_create(scene.w, 0, "own", NULL, &visitor->made);
    visitor->statuses[3] = weir_pool_set_release_threshold(scene.pool, UINT64_MAX, NULL);
    visitor->statuses[4] = weir_free(scene.w, visitor->hoard.ptr, weir_stream_handle(visitor->hoard.s));
    visitor->statuses[5] = weir_stream_synchronize(visitor->hoard.s, NULL);
    (void)device;
    (void)needed;
    return visitor->hoard.size;
}

START_TEST(callback_meets_no_lock_of_weirs)
{
    static struct visitor visitor;
    scene_open(plain);
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    visitor = (struct visitor){ .other = scene_create("own") };
    hoard_init(&visitor.hoard, a, MOST);
    for (size_t i = 0; i < 6; i++)
        visitor.statuses[i] = WEIR_INVALID;
    add(use_everything, &visitor);
    expect_served(b);
    for (size_t i = 0; i < 6; i++)
        ck_assert_msg(visitor.statuses[i] == WEIR_OK, "step %zu: %s", i, weir_status_name(visitor.statuses[i]));
    scene_rescues(WEIR_RUNG_CALLBACKS, 1, 1);
    weir_stream_close(visitor.made);
}
END_TEST

/* Removing ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(removed_callback_does_not_run)
{
    struct hoard hoards[2];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    hoard_init(&hoards[0], s, 0);
    hoard_init(&hoards[1], s, 0);
    void *held = scene_malloc(s, scene_share(MOST));
    unsigned first = add(spare, &hoards[0]);
    add(spare, &hoards[1]);
    ck_assert_int_eq(weir_oom_remove(scene.w, first, NULL), WEIR_OK);
    expect_refused(s);
    ck_assert_uint_eq(hoards[0].calls, 0);
    ck_assert_uint_eq(hoards[1].calls, 1);
    ck_assert_int_eq(weir_oom_remove(scene.w, first, NULL), WEIR_NOT_FOUND);
    scene_free(s, held);
}
END_TEST

struct slow {
    atomic_bool entered, removing, finished;
};

static uint64_t be_slow(void *data, int device, uint64_t needed)
{
    struct slow *slow = data;
    (void)device;
    (void)needed;
    atomic_store(&slow->entered, true);
    while (!atomic_load(&slow->removing))
        sched_yield();
    /* Enough turns for a remover that does not wait to be back first. */
    for (unsigned i = 0; i < 1000; i++)
        sched_yield();
    atomic_store(&slow->finished, true);
    return 0;
}

static void *request_in_vain(void *data)
{
    void *ptr;
    return weir_stream_malloc(data, &ptr, scene_share(MOST)) == WEIR_OUT_OF_MEMORY ? data : NULL;
}

START_TEST(removing_a_running_callback_waits_for_it)
{
    struct slow slow = { false, false, false };
    pthread_t thread;
    void *result;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    unsigned id = add(be_slow, &slow);
    ck_assert_int_eq(pthread_create(&thread, NULL, request_in_vain, s), 0);
    while (!atomic_load(&slow.entered))
        sched_yield();
    atomic_store(&slow.removing, true);
    ck_assert_int_eq(weir_oom_remove(scene.w, id, NULL), WEIR_OK);
    ck_assert(atomic_load(&slow.finished));
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, s);
    scene_free(s, held);
}
END_TEST

/* Many threads ------------------------------------------------------------------------------------------------------------------------- */

#define THREADS 8

struct gauge {
    atomic_uint inside, most, calls;
};

static uint64_t measure(void *data, int device, uint64_t needed)
{
    struct gauge *gauge = data;
    (void)device;
    (void)needed;
    unsigned inside = atomic_fetch_add(&gauge->inside, 1) + 1, most = atomic_load(&gauge->most);
    while (inside > most && !atomic_compare_exchange_weak(&gauge->most, &most, inside))
        continue;
    sched_yield();
    atomic_fetch_add(&gauge->calls, 1);
    atomic_fetch_sub(&gauge->inside, 1);
    return 0;
}

struct requester {
    weir_stream *s;
    pthread_t thread;
    uint64_t size;
    unsigned requests, served, refused;
    void *ptr;
};

static void *storm(void *data)
{
    struct requester *requester = data;
    for (unsigned i = 0; i < requester->requests; i++) {
        void *ptr;
        weir_status status = weir_stream_malloc(requester->s, &ptr, requester->size);
        requester->served += status == WEIR_OK;
        requester->refused += status == WEIR_OUT_OF_MEMORY;
    }
    return NULL;
}

START_TEST(storm_of_requests_recovers_one_at_a_time)
{
    struct gauge gauge = { 0, 0, 0 };
    struct requester requesters[THREADS];
    /* A refusal costs a large GPU tens of milliseconds. */
    unsigned refused = 0, requests = scene_is_sim() ? 50 : 8;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(MOST));
    add(measure, &gauge);
    for (size_t i = 0; i < THREADS; i++)
        requesters[i] = (struct requester){ .s = scene_create(NULL), .size = scene_share(MOST), .requests = requests };
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&requesters[i].thread, NULL, storm, &requesters[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(requesters[i].thread, NULL);
        refused += requesters[i].refused;
    }
    ck_assert_uint_eq(refused, THREADS * requests);
    ck_assert_uint_eq(gauge.most, 1);
    weir_device_stats stats = scene_device_stats(0);
    ck_assert_uint_eq(stats.recoveries, gauge.calls);
    ck_assert_uint_eq(scene_pool_stats("main").failures, THREADS * requests);
    scene_free(s, held);
}
END_TEST

static void *request_once(void *data)
{
    struct requester *requester = data;
    requester->served = weir_stream_malloc(requester->s, &requester->ptr, requester->size) == WEIR_OK;
    return NULL;
}

START_TEST(all_threads_that_run_out_behind_one_pending_free_get_memory)
{
    struct requester requesters[THREADS];
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *old = scene_malloc(s, scene_share(MOST));
    for (size_t i = 0; i < THREADS; i++)
        requesters[i] = (struct requester){ .s = scene_create(NULL), .size = scene_share(10) };
    /* So little is left that at most one of them is served without the pending free. */
    scene_delay(weir_stream_handle(s), 300);
    scene_free(s, old);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&requesters[i].thread, NULL, request_once, &requesters[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(requesters[i].thread, NULL);
    weir_device_stats stats = scene_device_stats(0);
    ck_assert_uint_ge(stats.rescues[WEIR_RUNG_WAIT], 1);
    ck_assert_uint_eq(scene_pool_stats("main").failures, 0);
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(requesters[i].served, 1);
        scene_free(requesters[i].s, requesters[i].ptr);
    }
}
END_TEST

void add_callback_cases(Suite *suite)
{
    TCase *order = suite_case(suite, "callbacks", 60), *many = suite_case(suite, "many threads", 120);
    tcase_add_checked_fixture(order, scene_begin, scene_end);
    tcase_add_checked_fixture(many, scene_begin, scene_end);

    suite_add(order, block_freed_by_a_callback_rescues, callbacks_run_in_the_order_of_registration_until_one_helps,
              callback_that_frees_too_little_is_followed_by_the_next, every_callback_runs_once_before_the_refusal,
              block_freed_by_a_callback_behind_a_kernel_is_waited_for, without_the_wait_step_nothing_waits_for_what_a_callback_freed,
              malloc_within_a_callback_is_refused_without_a_recovery_of_its_own, malloc_within_a_callback_is_served_if_there_is_room,
              callback_meets_no_lock_of_weirs, removed_callback_does_not_run, removing_a_running_callback_waits_for_it);

    suite_add(many, storm_of_requests_recovers_one_at_a_time, all_threads_that_run_out_behind_one_pending_free_get_memory);
}
