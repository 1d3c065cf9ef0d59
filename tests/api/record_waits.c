/* SPDX-License-Identifier: MIT */
/* record_waits.c - what a trace says of requests that waited: for others, and for frees outside the rungs of recovery. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/alloc/request.h"
#include "lib/backing/arena_internal.h"
#include "lib/record/unwind.h"
#include "lib/recover/recover.h"
#include "tests/api/hook.h"
#include "tests/api/traced.h"

#define TOOK (7 * MILLISECOND)
#define PATIENT "on_oom: { deadline: 600s }" /* of the simulator's time; who waits for others does so by the real clock */

struct waits {
    unsigned count, rungs;
    uint64_t ns, bytes;
};

static bool look(void *context, const struct trace_event *event)
{
    struct waits *waits = context;
    if (event->kind == TRACE_WAIT) {
        ck_assert_str_eq(event->pool->name, "main");
        waits->count++;
        waits->ns += event->a;
        waits->bytes = event->b;
    }
    waits->rungs += event->kind == TRACE_RUNG;
    return true;
}

/* No trace is being written while a test changes what the weir has of the GPU. */
static void open_recorded(const char *keys)
{
    char record[512];
    snprintf(record, sizeof record, "dump: '%s'", traced_directory);
    traced_open_plain(record, keys);
}

/* An out-of-memory leaves what was recorded. */
static void look_back(struct waits *waits)
{
    void *ptr;
    ck_assert_int_eq(weir_pool_malloc(scene.pool, &ptr, scene.memory + GIB, scene_stream(0)), WEIR_OUT_OF_MEMORY);
    snprintf(traced_file, sizeof traced_file, "%s/weir-%ld-1.weir", traced_directory, (long)getpid());
    ck_assert_uint_eq(traced_play(look, waits), 0);
}

/* For others -------------------------------------------------------------------------------------------------------------------------- */

/* A request that another one waits for. The clock moves once that one waits. */
static struct {
    struct gpu gpu; /* the simulator's, but for the clock and an operation */
    pthread_mutex_t *lock; /* that the other one waits on, or has until it waits. NULL: that of a shared pool's handle */
    bool is_passed_on;     /* the latter */
    bool is_due;
    weir_stream *stream;   /* of the other one */
    pthread_t thread;
    void *block;
    atomic_bool is_waiting, is_over;
    uint64_t since, until; /* what the other one saw of the clock before and behind that */
    void *held; /* what the application can spare */
} hold;

#define OTHER (200 * MIB) /* bytes that the other one asks for */

static __thread bool is_other;

/* Whether the other one may not enter. */
static bool is_held(void)
{
    pthread_rwlock_t *exchange = &scene.pool->native.exchange;
    bool is_free = hold.lock ? pthread_mutex_trylock(hold.lock) == 0 : pthread_rwlock_tryrdlock(exchange) == 0;
    if (is_free && hold.lock)
        pthread_mutex_unlock(hold.lock);
    else if (is_free)
        pthread_rwlock_unlock(exchange);
    return !is_free;
}

static uint64_t watched_now(void)
{
    uint64_t now = hook_base()->now();
    if (!is_other)
        return now;
    if (!atomic_load(&hold.is_over))
        hold.since = now;
    else if (!hold.until)
        hold.until = now;
    if (is_held())
        atomic_store(&hold.is_waiting, true);
    return now;
}

static void *ask_beside(void *unused)
{
    is_other = true;
    hold.block = scene_malloc(hold.stream, OTHER);
    return unused;
}

static void hold_on(void)
{
    if (!hold.is_due || is_other)
        return;
    hold.is_due = false;
    ck_assert_int_eq(pthread_create(&hold.thread, NULL, ask_beside, NULL), 0);
    while (!atomic_load(&hold.is_waiting))
        sched_yield();
    if (hold.is_passed_on) {
        pthread_mutex_lock(hold.lock);
        pthread_mutex_unlock(hold.lock);
    }
    atomic_store(&hold.is_over, true);
    sim_advance(TOOK);
}

static int holding_malloc(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    hold_on();
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

static int holding_malloc_alone(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    if (atomic_load(&scene.w->devices[0].asking.is_closed))
        hold_on();
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

static int holding_create(int device, uint64_t size, gpu_page *page)
{
    hold_on();
    return hook_base()->page_create(device, size, page);
}

static uint64_t give_held(void *data, int device, uint64_t needed)
{
    (void)data, (void)device, (void)needed;
    scene_free(hold.stream, hold.held);
    scene_sync(weir_stream_handle(hold.stream));
    return 800 * MIB;
}

static uint64_t hold_and_give_held(void *data, int device, uint64_t needed)
{
    hold_on();
    return give_held(data, device, needed);
}

static pthread_mutex_t *asking_lock(void)
{
    return &scene.w->devices[0].asking.lock;
}

static pthread_mutex_t *recovery_lock(void)
{
    return &scene.w->devices[0].recovery.lock;
}

static pthread_mutex_t *cap_lock(void)
{
    return &scene.pool->native.cap.lock;
}

static pthread_mutex_t *growing_lock(void)
{
    return &((struct weir__mapped *)scene.pool->backing)->growing;
}

static const struct {
    const char *name, *keys;
    pthread_mutex_t *(*lock)(void);
    bool is_passed_on;
    int (*malloc)(void **ptr, size_t size, gpu_pool pool, gpu_stream stream);
    int (*create)(int device, uint64_t size, gpu_page *page);
    weir_oom_fn callback; /* what there is has to be given back first */
} others[] = {
    { "growth", "max_size: 960MiB, small_below: 1MiB, cache: off", cap_lock, false, holding_malloc, NULL, NULL },
    { "mapping", "backing: arena", growing_lock, false, NULL, holding_create, NULL },
    { "alone", "small_below: 0, cache: off, " PATIENT, asking_lock, true, holding_malloc_alone, NULL, give_held },
    { "turn", "small_below: 0, cache: off, " PATIENT, recovery_lock, true, NULL, NULL, hold_and_give_held },
};

static void open_held(int i)
{
    scene_simulate("memory=1GiB");
    open_recorded(others[i].keys);
    hold.gpu = *hook_base();
    hold.gpu.now = watched_now;
    hold.gpu.malloc_async = others[i].malloc ? others[i].malloc : hook_base()->malloc_async;
    hold.gpu.page_create = others[i].create ? others[i].create : hook_base()->page_create;
    hold.stream = scene_create(NULL);
    hold.lock = others[i].lock();
    hold.is_passed_on = others[i].is_passed_on;
    if (others[i].callback) {
        hold.held = scene_malloc(hold.stream, 900 * MIB);
        scene_ok(weir_oom_add(scene.w, others[i].callback, NULL, NULL, &(unsigned){ 0 }), "weir_oom_add");
    }
}

START_TEST(request_that_waits_for_another_says_how_long)
{
    struct waits waits = { .count = 0 };
    open_held(_i);
    weir_stream *s = scene_create(NULL);
    hook_set(&hold.gpu);
    hold.is_due = true;
    void *ptr = scene_malloc(s, 500 * MIB);
    ck_assert_msg(!hold.is_due, "%s: nobody was held up", others[_i].name);
    pthread_join(hold.thread, NULL);
    hook_set(NULL);
    scene_free(s, ptr);
    scene_free(hold.stream, hold.block);
    look_back(&waits);
    ck_assert_uint_eq(waits.count, 1);
    ck_assert_uint_eq(waits.ns, hold.until - hold.since);
    ck_assert_uint_ge(waits.ns, TOOK);
    ck_assert_uint_eq(waits.bytes, OTHER);
}
END_TEST

/* The service thread does so for a moment when it makes an empty pool anew. */
START_TEST(request_that_waits_for_a_pool_that_is_made_anew_says_how_long)
{
    struct waits waits = { .count = 0 };
    scene_simulate("memory=1GiB");
    open_recorded("devices: [0], ipc: posix_fd, cache: off");
    hold.gpu = *hook_base();
    hold.gpu.now = watched_now;
    hold.stream = scene_create(NULL);
    hook_set(&hold.gpu);
    pthread_rwlock_wrlock(&scene.pool->native.exchange);
    hold.is_due = true;
    hold_on();
    pthread_rwlock_unlock(&scene.pool->native.exchange);
    pthread_join(hold.thread, NULL);
    hook_set(NULL);
    scene_free(hold.stream, hold.block);
    look_back(&waits);
    ck_assert_uint_eq(waits.count, 1);
    ck_assert_uint_eq(waits.ns, TOOK);
    ck_assert_uint_eq(waits.bytes, OTHER);
}
END_TEST

/* For frees --------------------------------------------------------------------------------------------------------------------------- */

/* As a neighbour that gives what another thread of this process was about to free. */
static void free_behind_work(struct weir__plea *plea)
{
    (void)plea;
    scene_delay(weir_stream_handle(hold.stream), 20);
    scene_free(hold.stream, hold.held);
}

static uint64_t paused;

static void counting_pause(uint64_t nanoseconds)
{
    paused += nanoseconds;
    hook_base()->pause(nanoseconds);
}

START_TEST(request_that_waits_for_frees_behind_the_last_rung_says_how_long)
{
    struct waits waits = { .count = 0 };
    scene_simulate("memory=1GiB");
    open_recorded("small_below: 0, cache: off, " ALONE ", on_oom: { steps: [flush, wait, neighbours], deadline: 1s }");
    weir_stream *s = scene_create(NULL);
    hold.stream = scene_create(NULL);
    hold.held = scene_malloc(hold.stream, 900 * MIB);
    scene.w->neighbours = free_behind_work;
    hold.gpu = *hook_base();
    hold.gpu.pause = counting_pause;
    hook_set(&hold.gpu);
    void *ptr = scene_malloc(s, 500 * MIB);
    hook_set(NULL);
    scene_free(s, ptr);
    look_back(&waits);
    ck_assert_uint_eq(waits.ns, paused);
    ck_assert_uint_ge(paused, 19 * MILLISECOND);
    ck_assert_uint_eq(waits.count, 1);
    ck_assert_uint_eq(waits.bytes, 500 * MIB);
}
END_TEST

/* No wait ----------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *keys;
    unsigned delay; /* milliseconds that a free is behind work, which a rung waits for */
    bool climbs;
    unsigned vain; /* calls of CUDA that took long and were refused */
} alone[] = {
    { "cache: off", 0, false, 0 },
    { "max_size: 1GiB, small_below: 1MiB, cache: off", 0, false, 0 },
    { "max_size: 1GiB, small_below: 0, cache: { largest: 1GiB, per_stream: 1GiB, per_device: 1GiB }", 0, true, 0 },
    { "max_size: 1GiB, small_below: 0, cache: off, " ALONE ", " PATIENT, 30, true, 2 },
    { "backing: arena", 0, false, 0 },
    { "backing: arena, max_size: 1GiB, " PATIENT, 30, false, 0 },
};

START_TEST(request_that_waits_for_nobody_says_only_which_calls_were_in_vain)
{
    struct waits waits = { .count = 0 };
    open_recorded(alone[_i].keys);
    weir_stream *first = scene_create(NULL), *second = scene_create(NULL);
    for (int i = 0; i < 3; i++) {
        void *ptr = scene_malloc(first, 600 * MIB);
        if (alone[_i].delay)
            scene_delay(weir_stream_handle(first), alone[_i].delay);
        scene_free(first, ptr);
        scene_free(second, scene_malloc(second, 700 * MIB));
        scene_sync(weir_stream_handle(second));
    }
    look_back(&waits);
    ck_assert(!alone[_i].climbs || waits.rungs);
    ck_assert_uint_eq(waits.count, alone[_i].vain);
}
END_TEST

int main(void)
{
    const char *why = scene_is_sim() ? scene_why_not() : "it needs the simulator's clock: WEIR_GPU=sim";
    if (why)
        return suite_skip(why);
    weir__unwind_prepare();
    Suite *suite = suite_create("record_waits");
    TCase *tcase = suite_case(suite, "record_waits", 60);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, request_that_waits_for_another_says_how_long, 0, sizeof others / sizeof others[0]);
    suite_add(tcase, request_that_waits_for_a_pool_that_is_made_anew_says_how_long,
              request_that_waits_for_frees_behind_the_last_rung_says_how_long);
    tcase_add_loop_test(tcase, request_that_waits_for_nobody_says_only_which_calls_were_in_vain, 0, sizeof alone / sizeof alone[0]);
    return suite_run(suite);
}
