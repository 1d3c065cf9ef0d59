/* SPDX-License-Identifier: MIT */
/* recovery_crowd.c - requests beside each other at a bound: none fails that would have been served alone, or to the byte. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/api/hook.h"
#include "tests/api/recovery.h"
#include "tests/api/scene.h"

/* Who waits for another request does so by the real clock. */
#define PATIENT "on_oom: { deadline: 600s }" /* of the simulator's time, which goes on while a loaded machine lets no thread run */

static const char *const policies[] = {
    "weir: 1\npools: { main: { max_size: 7GiB, small_below: 0, cache: off, " PATIENT " } }\n",
    "weir: 1\npools: { main: { max_size: 7GiB, small_below: 1MiB, cache: off, " PATIENT " } }\n",
    "weir: 1\npools: { main: { small_below: 0, cache: off, " PATIENT " } }\n",
};

#define HOPELESS (6 * GIB) /* bytes of a request that CUDA cannot serve, */
#define TAKEN (5 * GIB)    /* as somebody else has so much */

/* What CUDA does with requests from HOPELESS on: it takes all that the device has left, thinks for a while, and fails. */
static struct {
    struct gpu gpu;     /* the simulator's, but for one operation */
    gpu_pool foreign;
    gpu_stream stream;  /* that the foreign pool is used on */
    void *held;         /* TAKEN */
    bool is_greedy;     /* it takes what is left */
    atomic_bool is_open; /* it fails without thinking */
    atomic_uint entered; /* how often it began to think */
} slow;

static bool is_asked_alone(void)
{
    return atomic_load(&scene.w->devices[0].asking.is_closed);
}

/* Whether another request waits for the end of those that are tried. */
static bool is_waited_for(void)
{
    struct weir__asking *asking = &scene.w->devices[0].asking;
    pthread_mutex_lock(&asking->lock);
    bool is_waited_for = asking->waiting || (is_asked_alone() && atomic_load(&asking->begun) != atomic_load(&asking->ended));
    pthread_mutex_unlock(&asking->lock);
    return is_waited_for;
}

/* Thinks until somebody waits for the outcome, as whoever needs it must. */
static int think(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    void *rest = NULL;
    uint64_t available = 0, total;
    if (slow.is_greedy) {
        scene.gpu->device_memory(0, &available, &total);
        hook_base()->malloc_async(&rest, available, slow.foreign, slow.stream);
    }
    atomic_fetch_add(&slow.entered, 1);
    while (!atomic_load(&slow.is_open) && !is_waited_for())
        sched_yield();
    if (rest) {
        scene.gpu->free_async(rest, slow.stream);
        scene.gpu->stream_synchronize(slow.stream);
        scene.gpu->pool_trim(slow.foreign, TAKEN);
    }
    return hook_base()->malloc_async(ptr, size, pool, stream);
}

static int slow_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    return size < HOPELESS ? hook_base()->malloc_async(ptr, size, pool, stream) : think(ptr, size, pool, stream);
}

static void open_slow(const char *policy)
{
    struct gpu_pool_spec spec = { .device = 0 };
    scene_open(policy);
    slow.gpu = *hook_base();
    slow.gpu.malloc_async = slow_malloc_async;
    slow.stream = scene_stream(0);
    ck_assert_int_eq(scene.gpu->pool_create(&spec, &slow.foreign), 0);
    ck_assert_int_eq(scene.gpu->malloc_async(&slow.held, TAKEN, slow.foreign, slow.stream), 0);
    hook_set(&slow.gpu);
}

static void close_slow(void)
{
    hook_set(NULL);
    ck_assert_int_eq(scene.gpu->free_async(slow.held, slow.stream), 0);
    scene_sync(slow.stream);
    ck_assert_int_eq(scene.gpu->pool_destroy(slow.foreign), 0);
}

struct hopeless {
    weir_stream *s;
    pthread_t thread;
    atomic_bool over;
    unsigned served;
};

/* Asks again and again, once at least. */
static void *ask_in_vain(void *data)
{
    struct hopeless *hopeless = data;
    void *ptr;
    do
        hopeless->served += weir_stream_malloc(hopeless->s, &ptr, HOPELESS) == WEIR_OK;
    while (!atomic_load(&hopeless->over));
    return NULL;
}

static void start(struct hopeless *hopeless)
{
    *hopeless = (struct hopeless){ .s = scene_create(NULL) };
    ck_assert_int_eq(pthread_create(&hopeless->thread, NULL, ask_in_vain, hopeless), 0);
    while (!atomic_load(&slow.entered))
        sched_yield();
}

static void join(struct hopeless *hopeless)
{
    atomic_store(&hopeless->over, true);
    atomic_store(&slow.is_open, true);
    pthread_join(hopeless->thread, NULL);
    ck_assert_uint_eq(hopeless->served, 0);
}

START_TEST(request_that_cannot_succeed_makes_no_other_fail)
{
    struct hopeless hopeless;
    slow.is_greedy = _i >= 3;
    open_slow(policies[_i % 3]);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 64 * MIB);
    start(&hopeless);
    for (unsigned i = 0; i < 400; i++)
        scene_free(s, scene_malloc(s, GIB));
    join(&hopeless);
    scene_free(s, held);
    close_slow();
}
END_TEST

START_TEST(what_only_was_asked_for_is_no_peak)
{
    struct hopeless hopeless;
    open_slow(policies[_i]);
    weir_stream *s = scene_create(NULL);
    start(&hopeless);
    scene_free(s, scene_malloc(s, 32 * MIB));
    ck_assert_uint_eq(scene_pool_stats("main").live_high, 32 * MIB);
    join(&hopeless);
    ck_assert_uint_eq(scene_pool_stats("main").live_high, 32 * MIB);
    close_slow();
}
END_TEST

/* Two that are asked for at the same time, of which the cap has room for one: one is served, and the cap kept. */
struct rival {
    weir_stream *s;
    pthread_t thread;
    weir_status status;
    void *ptr;
};

static void *ask_once(void *data)
{
    struct rival *rival = data;
    rival->status = weir_stream_malloc(rival->s, &rival->ptr, 600 * MIB);
    return NULL;
}

START_TEST(of_two_requests_that_do_not_fit_together_one_is_served)
{
    struct rival rivals[2];
    scene_open(_i ? "weir: 1\npools: { main: { max_size: 1GiB, small_below: 1MiB, " PATIENT " } }\n" :
                    "weir: 1\npools: { main: { max_size: 1GiB, small_below: 0, " PATIENT " } }\n");
    for (size_t i = 0; i < 2; i++)
        rivals[i].s = scene_create(NULL);
    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < 2; i++)
            ck_assert_int_eq(pthread_create(&rivals[i].thread, NULL, ask_once, &rivals[i]), 0);
        unsigned served = 0;
        for (size_t i = 0; i < 2; i++) {
            pthread_join(rivals[i].thread, NULL);
            served += rivals[i].status == WEIR_OK;
        }
        ck_assert_uint_eq(served, 1);
        ck_assert_uint_le(scene_pool_stats("main").reserved_high, GIB);
        for (size_t i = 0; i < 2; i++)
            if (rivals[i].status == WEIR_OK)
                scene_free(rivals[i].s, rivals[i].ptr);
        scene_sync(weir_stream_handle(rivals[0].s));
        scene_sync(weir_stream_handle(rivals[1].s));
    }
}
END_TEST

/* Joining ------------------------------------------------------------------------------------------------------------------------------ */

/* A request of another pool that is refused while the patient one waits for it. It says nothing to that. */
#define UNLIKES 3
static const struct unlike {
    const char *name, *keys; /* of the other pool */
    int fails;               /* code with which the other request's last attempt ends, where the device alone does not see to it */
    weir_status status;      /* of the other request */
} unlikes[UNLIKES] = {
    { "leave_free", "leave_free: 1GiB, " PATIENT, 0, WEIR_OUT_OF_MEMORY },
    { "a short deadline", "on_oom: { deadline: 10s }", 0, WEIR_OUT_OF_MEMORY },
    { "another failure", PATIENT, GPU_UNKNOWN, WEIR_CUDA_ERROR },
};

/* The patient request joins the recovery of one before it. It is held up before it tries again, until the other request recovers, and joins
   that recovery too. */
enum patient_state { PATIENT_NEW, PATIENT_WAITS, PATIENT_GOES_ON, PATIENT_WAITS_AGAIN };

static struct {
    struct gpu gpu;
    const struct unlike *unlike;
    weir_stream *s; /* of the patient request */
    void *hoard;    /* that the last callback frees */
    atomic_uint calls; /* of the callback */
    _Atomic enum patient_state state;
} joining;
static _Thread_local bool is_patient;

/* A thread asks for the time under the lock of the recovery just before it waits for that. */
static uint64_t joining_now(void)
{
    pthread_mutex_t *lock = &scene.w->devices[0].recovery.lock;
    enum patient_state state = atomic_load(&joining.state);
    bool waits = is_patient && pthread_mutex_trylock(lock) != 0;
    if (is_patient && !waits)
        pthread_mutex_unlock(lock);
    if (waits && state != PATIENT_WAITS)
        atomic_store(&joining.state, state == PATIENT_NEW ? PATIENT_WAITS : PATIENT_WAITS_AGAIN);
    if (is_patient && !waits && state == PATIENT_WAITS) {
        while (atomic_load(&joining.calls) < 2)
            sched_yield();
        atomic_store(&joining.state, PATIENT_GOES_ON);
    }
    return hook_base()->now();
}

static void await_state(enum patient_state state)
{
    while (atomic_load(&joining.state) != state)
        sched_yield();
}

static uint64_t wait_then_spare(void *data, int device, uint64_t needed)
{
    (void)data, (void)device, (void)needed;
    void *hoard = joining.hoard;
    unsigned call = atomic_fetch_add(&joining.calls, 1);
    if (call < 2) {
        await_state(call ? PATIENT_WAITS_AGAIN : PATIENT_WAITS);
        if (call && joining.unlike->fails)
            sim_fail("malloc_async", 1, joining.unlike->fails);
        return call && joining.unlike->fails; /* as if it had helped, so that the request is tried again */
    }
    joining.hoard = NULL;
    if (hoard)
        scene_free(joining.s, hoard);
    return hoard ? 512 * MIB : 0;
}

static void *ask_for_64(void *data)
{
    struct rival *rival = data;
    is_patient = rival->s == joining.s;
    rival->status = weir_stream_malloc(rival->s, &rival->ptr, 64 * MIB);
    return NULL;
}

static void begin_rival(struct rival *rival, weir_stream *s)
{
    *rival = (struct rival){.s = s};
    ck_assert_int_eq(pthread_create(&rival->thread, NULL, ask_for_64, rival), 0);
}

START_TEST(refusal_of_another_kind_says_nothing_to_the_request_that_waited_for_it)
{
    struct rival before, other, patient;
    char policy[512];
    unsigned id;
    joining.unlike = &unlikes[_i];
    atomic_store(&joining.calls, 0);
    atomic_store(&joining.state, PATIENT_NEW);
    snprintf(policy, sizeof policy,
             "weir: 1\ndefaults: { pool: main }\n"
             "pools:\n  main: { small_below: 0, cache: off, " PATIENT " }\n  other: { small_below: 0, cache: off, %s }\n"
             "streams: { other: { pool: other } }\n", joining.unlike->keys);
    scene_open(policy);
    joining.s = scene_create(NULL);
    weir_stream *s = scene_create("other");
    joining.hoard = scene_malloc(joining.s, 512 * MIB);
    void *rest = scene_malloc(joining.s, scene.memory / (32 * MIB) * (32 * MIB) - 544 * MIB);
    scene_ok(weir_oom_add(scene.w, wait_then_spare, NULL, NULL, &id), "weir_oom_add");
    joining.gpu = *hook_base();
    joining.gpu.now = joining_now;
    hook_set(&joining.gpu);
    begin_rival(&before, s);
    while (!atomic_load(&joining.calls))
        sched_yield();
    begin_rival(&patient, joining.s);
    pthread_join(before.thread, NULL);
    begin_rival(&other, s);
    pthread_join(other.thread, NULL);
    pthread_join(patient.thread, NULL);
    hook_set(NULL);
    ck_assert_msg(other.status == joining.unlike->status, "%s: the other: %s", joining.unlike->name, weir_status_name(other.status));
    ck_assert_msg(patient.status == WEIR_OK, "%s: the patient: %s", joining.unlike->name, weir_status_name(patient.status));
    scene_free(joining.s, patient.ptr);
    scene_free(joining.s, rest);
}
END_TEST

/* Caches ------------------------------------------------------------------------------------------------------------------------------- */

/* Another thread that takes what recovery has just flushed, and has it in its cache a moment later. It does so within a call that Weir makes
   before it tries again. */
static struct {
    struct gpu gpu;
    weir_stream *s;
    bool is_on, is_inside;
    unsigned times;
} thief;

static void steal(void)
{
    void *ptr;
    if (!thief.is_on || thief.is_inside || is_asked_alone())
        return;
    thief.is_inside = true;
    if (weir_stream_malloc(thief.s, &ptr, 128 * MIB) == WEIR_OK) {
        scene_free(thief.s, ptr);
        thief.times++;
    }
    thief.is_inside = false;
}

static uint64_t stealing_now(void)
{
    steal();
    return hook_base()->now();
}

START_TEST(what_other_threads_cache_again_and_again_is_still_nobodys)
{
    scene_open("weir: 1\npools:\n"
               "  main: { max_size: 1GiB, small_below: 0, cache: { largest: 256MiB, per_stream: 1GiB, per_device: 1GiB }, " PATIENT " }\n");
    weir_stream *s = scene_create(NULL);
    thief.s = scene_create(NULL);
    thief.gpu = *hook_base();
    thief.gpu.now = stealing_now;
    void *held = scene_malloc(s, 512 * MIB);
    scene_free(thief.s, scene_malloc(thief.s, 128 * MIB));
    hook_set(&thief.gpu);
    thief.is_on = true;
    void *ptr = scene_malloc(s, 512 * MIB);
    thief.is_on = false;
    hook_set(NULL);
    ck_assert_uint_gt(thief.times, 0);
    scene_free(s, ptr);
    scene_free(s, held);
}
END_TEST

/* A thread that stops between taking a block out of its cache, for another one to have room there, and giving it back. It goes on once
   somebody waits. */
static struct {
    struct gpu gpu;
    weir_stream *s;
    void *ptr;
    pthread_t thread;
    atomic_bool is_begun, is_stopped, may_go_on, is_over;
} slowpoke;

static int stopping_exchange(enum gpu_capture_mode *mode)
{
    bool stops = atomic_load(&slowpoke.is_begun) && pthread_equal(pthread_self(), slowpoke.thread) && !atomic_exchange(&slowpoke.is_stopped, true);
    while (stops && !atomic_load(&slowpoke.may_go_on))
        sched_yield();
    return hook_base()->exchange_capture_mode(mode);
}

static void releasing_pause(uint64_t nanoseconds)
{
    atomic_store(&slowpoke.may_go_on, true);
    /* The simulator's clock may pass the deadline before the thread gets to run. */
    while (!atomic_load(&slowpoke.is_over))
        sched_yield();
    hook_base()->pause(nanoseconds);
}

static void *free_slowly(void *unused)
{
    slowpoke.thread = pthread_self();
    atomic_store(&slowpoke.is_begun, true);
    scene_free(slowpoke.s, slowpoke.ptr);
    atomic_store(&slowpoke.is_over, true);
    return unused;
}

START_TEST(block_that_makes_room_in_a_cache_is_waited_for)
{
    pthread_t thread;
    void *ptrs[2];
    scene_simulate("memory=2GiB");
    scene_open("weir: 1\ncapture: relaxed\npools:\n"
               "  main: { small_below: 0, cache: { largest: 128MiB, per_stream: 256MiB, per_device: 256MiB }, " PATIENT " }\n");
    slowpoke.s = scene_create(NULL);
    slowpoke.gpu = *hook_base();
    slowpoke.gpu.exchange_capture_mode = stopping_exchange;
    slowpoke.gpu.pause = releasing_pause;
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 1536 * MIB);
    for (int i = 0; i < 2; i++)
        ptrs[i] = scene_malloc(slowpoke.s, 128 * MIB);
    slowpoke.ptr = scene_malloc(slowpoke.s, 128 * MIB);
    for (int i = 0; i < 2; i++)
        scene_free(slowpoke.s, ptrs[i]);
    hook_set(&slowpoke.gpu);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_slowly, NULL), 0);
    while (!atomic_load(&slowpoke.is_stopped))
        sched_yield();
    void *ptr = scene_malloc(s, 448 * MIB);
    pthread_join(thread, NULL);
    hook_set(NULL);
    scene_free(s, ptr);
    scene_free(s, held);
}
END_TEST

/* Frees -------------------------------------------------------------------------------------------------------------------------------- */

/* Another thread that uses again what is waited for, and frees as much elsewhere, while recovery waits. */
static struct {
    struct gpu gpu;
    weir_stream *first, *second;
    void *on_first, *on_second;
} swapper;

static void swapping_pause(uint64_t nanoseconds)
{
    if (swapper.on_first) {
        void *old = swapper.on_first;
        swapper.on_first = NULL;
        swapper.on_second = scene_malloc(swapper.second, 512 * MIB);
        scene_delay(weir_stream_handle(swapper.first), 200);
        scene_free(swapper.first, old);
    }
    hook_base()->pause(nanoseconds);
}

START_TEST(what_is_freed_while_recovery_waits_for_something_else_is_waited_for)
{
    scene_open("weir: 1\npools: { main: { max_size: 1GiB, small_below: 0, cache: off, " ALONE ", " PATIENT " } }\n");
    weir_stream *s = scene_create(NULL);
    swapper.gpu = *hook_base();
    swapper.gpu.pause = swapping_pause;
    swapper.first = scene_create(NULL);
    swapper.second = scene_create(NULL);
    swapper.on_first = scene_malloc(swapper.first, 512 * MIB);
    void *pending = scene_malloc(swapper.second, 512 * MIB);
    scene_delay(weir_stream_handle(swapper.second), 100);
    scene_free(swapper.second, pending);
    hook_set(&swapper.gpu);
    void *ptr = scene_malloc(s, 512 * MIB);
    hook_set(NULL);
    ck_assert_ptr_null(swapper.on_first);
    scene_free(s, ptr);
    scene_free(swapper.second, swapper.on_second);
}
END_TEST

/* Another thread that frees on an idle stream while recovery waits for one that will not come. */
static struct {
    struct gpu gpu;
    weir_stream *stream;
    void *ptr;
} freer;

static void freeing_pause(uint64_t nanoseconds)
{
    void *ptr = freer.ptr;
    freer.ptr = NULL;
    if (ptr)
        scene_free(freer.stream, ptr);
    hook_base()->pause(nanoseconds);
}

START_TEST(what_is_freed_while_recovery_waits_for_a_stuck_stream_is_found)
{
    scene_simulate("memory=2GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\npools:\n  main: { small_below: 0, cache: off }\n  other: { small_below: 0, cache: off, " PATIENT " }\n");
    weir_stream *stuck = scene_create(NULL);
    weir_pool *other;
    void *ptr;
    freer.gpu = *hook_base();
    freer.gpu.pause = freeing_pause;
    freer.stream = scene_create(NULL);
    freer.ptr = scene_malloc(freer.stream, 1536 * MIB);
    void *late = scene_malloc(stuck, 64 * MIB);
    scene_delay(weir_stream_handle(stuck), 3600 * 1000);
    scene_free(stuck, late);
    ck_assert_int_eq(weir_pool_get(scene.w, "other", 0, NULL, &other), WEIR_OK);
    hook_set(&freer.gpu);
    ck_assert_int_eq(weir_pool_malloc(other, &ptr, GIB, scene_stream(0)), WEIR_OK);
    hook_set(NULL);
    ck_assert_int_eq(weir_free(scene.w, ptr, scene_stream(0)), WEIR_OK);
}
END_TEST

/* As recoveries and the keeper do: what both saw complete counted twice, and hid what came behind it. */
START_TEST(free_behind_one_that_two_waited_for_is_still_to_be_waited_for)
{
    struct weir__wait waits[2], last;
    uint64_t bytes;
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: off, " ALONE " } }\n");
    struct weir__device *device = &scene.w->devices[0];
    const struct weir__scope scope = {.fences = device->fences, .group = device};
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, GIB), *second = scene_malloc(s, 2 * GIB);
    scene_free(s, first);
    for (size_t i = 0; i < 2; i++)
        weir__wait_begin(&waits[i], &scope, true);
    scene_sync(weir_stream_handle(s));
    scene_delay(weir_stream_handle(s), 100);
    scene_free(s, second);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(weir__wait_look(&waits[i], &bytes));
        ck_assert_uint_eq(bytes, GIB);
        ck_assert_uint_eq(waits[i].left, 0);
    }
    weir__wait_begin(&last, &scope, true);
    ck_assert(!weir__wait_look(&last, &bytes));
    ck_assert_uint_eq(last.left, 1);
    ck_assert_uint_eq(weir__scope_marked(&scope), 2 * GIB);
}
END_TEST

/* The default stream has the same handle on each device. */
START_TEST(free_on_a_default_stream_is_waited_for_though_that_of_another_device_frees_too)
{
    weir_stream *far;
    weir_pool *other;
    void *ptr;
    scene_simulate("devices=2,memory=2GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\npools:\n"
               "  main: { small_below: 0, cache: off }\n  other: { small_below: 0, cache: off }\n");
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    scene_ok(weir_stream_open(scene.w, 1, GPU_STREAM_LEGACY, NULL, NULL, &far), "weir_stream_open");
    void *first = scene_malloc_on(GPU_STREAM_LEGACY, 1536 * MIB), *second = scene_malloc_on(GPU_STREAM_LEGACY, 256 * MIB);
    scene_delay(GPU_STREAM_LEGACY, 100);
    scene_free_on(GPU_STREAM_LEGACY, first);
    scene_free(far, second);
    scene_ok(weir_pool_malloc(other, &ptr, GIB, scene_stream(0)), "weir_pool_malloc");
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_ok(weir_free(scene.w, ptr, scene_stream(0)), "weir_free");
    weir_stream_close(far);
}
END_TEST

/* CUDA hands out the handle of a stream that was destroyed again, and destroys none before its work has ended. */
START_TEST(free_on_a_stream_that_was_destroyed_is_waited_for_though_another_has_its_handle)
{
    weir_pool *other;
    void *ptr;
    scene_simulate("memory=2GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\npools:\n"
               "  main: { small_below: 0, cache: off }\n  other: { small_below: 0, cache: off }\n");
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    gpu_stream former = scene_stream(0);
    void *first = scene_malloc_on(former, 1536 * MIB), *second = scene_malloc_on(former, 256 * MIB);
    scene_delay(former, 100);
    scene_free_on(former, first);
    scene_drop_stream(former);
    gpu_stream later = scene_stream(0);
    ck_assert_ptr_eq(former, later);
    scene_free_on(later, second);
    scene_ok(weir_pool_malloc(other, &ptr, GIB, scene_stream(0)), "weir_pool_malloc");
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_ok(weir_free(scene.w, ptr, scene_stream(0)), "weir_free");
}
END_TEST

/* Size classes ------------------------------------------------------------------------------------------------------------------------- */

#define CACHES "cache: { largest: 8GiB, per_stream: 8GiB, per_device: 8GiB }"

/* 7.25 GiB, which a cache would have as 7.5 GiB, where there are 7.375 GiB. */
START_TEST(what_fits_only_in_its_exact_size_is_served_so)
{
    static const char *const texts[] = {
        "weir: 1\npools: { main: { small_below: 0, " CACHES " } }\n",
        "weir: 1\npools: { main: { small_below: 0, max_size: 7552MiB, " CACHES " } }\n",
        "weir: 1\npools: { main: { small_below: 1MiB, max_size: 7552MiB, " CACHES " } }\n",
    };
    void *ptr;
    scene_open(texts[_i]);
    weir_stream *s = scene_create(NULL);
    gpu_stream other = scene_stream(0);
    void *held = _i == 0 ? scene_malloc_on(other, 640 * MIB) : NULL;
    uint64_t size = 7 * GIB + 256 * MIB;
    for (unsigned i = 0; i < 3; i++) {
        ptr = scene_malloc(s, size);
        weir_pool_stats stats = scene_pool_stats("main");
        ck_assert_uint_eq(stats.slack, 0);
        ck_assert_uint_eq(stats.live_high, size + (held ? 640 * MIB : 0));
        scene_free(s, ptr);
        ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
    }
    scene_rescues(WEIR_RUNG_WAIT, 0, 0);
    if (held)
        scene_free_on(other, held);
}
END_TEST

/* Another thread may look for memory after the stream left the list and before its work has ended. Here that is so for good, as the wait for
   its work fails. */
START_TEST(free_on_a_stream_that_is_being_closed_is_waited_for)
{
    scene_open("weir: 1\npools:\n  main: { " ALONE ", small_below: 0, on_oom: { deadline: 1s } }\n");
    weir_stream *s = scene_create(NULL), *closing = scene_create(NULL);
    void *freed = scene_malloc(closing, 6 * GIB);
    scene_delay(weir_stream_handle(closing), 100);
    scene_free(closing, freed);
    sim_fail("stream_synchronize", 1, GPU_UNKNOWN);
    weir_stream_close(closing);
    uint64_t begin = scene.gpu->now();
    scene_free(s, scene_malloc(s, 4 * GIB));
    ck_assert_uint_ge(scene.gpu->now() - begin, 99 * MILLISECOND);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
}
END_TEST

START_TEST(free_is_waited_for_though_a_later_one_on_its_stream_got_no_event)
{
    scene_open("weir: 1\npools:\n  main: { " ALONE ", small_below: 0, on_oom: { deadline: 1s } }\n");
    gpu_stream s = scene_stream(0), a = scene_stream(0);
    void *freed = scene_malloc_on(a, 6 * GIB), *later = scene_malloc_on(a, 64 * MIB);
    scene_delay(a, 100);
    scene_free_on(a, freed);
    sim_fail("event_create", 1, GPU_UNKNOWN);
    scene_free_on(a, later);
    void *ptr = scene_malloc_on(s, 4 * GIB);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free_on(s, ptr);
}
END_TEST

/* Another thread begins to wait for the stream's last free before the next one is made. */
START_TEST(free_gets_an_event_though_somebody_waits_for_the_one_before)
{
    struct weir__wait wait;
    uint64_t bytes;
    scene_open("weir: 1\npools:\n  main: { " ALONE ", small_below: 0 }\n");
    const struct weir__scope scope = {.fences = scene.w->devices[0].fences};
    gpu_stream raw = scene_stream(0);
    void *first = scene_malloc_on(raw, GIB), *second = scene_malloc_on(raw, 2 * GIB);
    scene_free_on(raw, first);
    weir__wait_begin(&wait, &scope, false);
    scene_delay(raw, 100);
    scene_free_on(raw, second);
    ck_assert_uint_eq(weir__scope_marked(&scope), 3 * GIB);
    ck_assert(weir__wait_look(&wait, &bytes));
    ck_assert_uint_eq(bytes, GIB);
    ck_assert_uint_eq(weir__scope_marked(&scope), 2 * GIB);
}
END_TEST

void add_crowd_cases(Suite *suite)
{
    TCase *crowd = suite_case(suite, "simulated crowd", 120);
    tcase_add_checked_fixture(crowd, scene_begin, scene_end);
    tcase_add_loop_test(crowd, request_that_cannot_succeed_makes_no_other_fail, 0, 6);
    tcase_add_loop_test(crowd, what_only_was_asked_for_is_no_peak, 0, 3);
    tcase_add_loop_test(crowd, of_two_requests_that_do_not_fit_together_one_is_served, 0, 2);
    TCase *joined = suite_case(suite, "simulated joining", 120);
    tcase_add_checked_fixture(joined, scene_begin, scene_end);
    tcase_add_loop_test(joined, refusal_of_another_kind_says_nothing_to_the_request_that_waited_for_it, 0, UNLIKES);
    suite_add(crowd, what_other_threads_cache_again_and_again_is_still_nobodys);
    tcase_add_loop_test(crowd, what_fits_only_in_its_exact_size_is_served_so, 0, 3);
    suite_add(crowd, block_that_makes_room_in_a_cache_is_waited_for, what_is_freed_while_recovery_waits_for_something_else_is_waited_for,
              what_is_freed_while_recovery_waits_for_a_stuck_stream_is_found, free_on_a_stream_that_is_being_closed_is_waited_for,
              free_is_waited_for_though_a_later_one_on_its_stream_got_no_event,
              free_gets_an_event_though_somebody_waits_for_the_one_before,
              free_behind_one_that_two_waited_for_is_still_to_be_waited_for,
              free_on_a_default_stream_is_waited_for_though_that_of_another_device_frees_too,
              free_on_a_stream_that_was_destroyed_is_waited_for_though_another_has_its_handle);
}
