/* SPDX-License-Identifier: MIT */
/* yield.c - weir_pool_yield(): memory that goes only if somebody needs it, and comes back as it was. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "include/weir_sleep.h"
#include "lib/alloc/sleep.h"
#include "lib/base/context.h"
#include "lib/release/give.h"
#include "tests/api/hook.h"
#include "tests/api/scene.h"

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])
#define BLOCKS 5
#define PATIENCE 10000 /* ms */

/* `main` yields and `other` needs; `idle` has memory that nothing uses. */
static const char pools[] = "weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena, on_oom: { deadline: 10s } }\n"
                            "  other: { backing: arena, on_oom: { deadline: 10s } }\n  idle: { backing: arena, keep: all }\n";

static struct {
    unsigned char *ptr;
    uint64_t size;
} blocks[BLOCKS];

static weir_stream *s;
static weir_pool *other;

static void fill(void)
{
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(scene.gpu->set_async(blocks[i].ptr, i + 1, blocks[i].size, weir_stream_handle(s)), GPU_SUCCESS);
}

/* The first and last bytes, and one in each MiB. */
static void expect_contents(void)
{
    for (int i = 0; i < BLOCKS; i++)
        for (uint64_t at = 0; at < blocks[i].size + MIB; at += MIB) {
            unsigned char seen = 0;
            uint64_t place = at < blocks[i].size ? at : blocks[i].size - 1;
            ck_assert_int_eq(scene.gpu->copy_async(&seen, blocks[i].ptr + place, 1, weir_stream_handle(s)), GPU_SUCCESS);
            scene_sync(weir_stream_handle(s));
            ck_assert_msg(seen == i + 1, "block %d has %d at %llu", i, seen, (unsigned long long)place);
        }
}

static void open_with(const char *policy)
{
    static const uint64_t sizes[BLOCKS] = {512, 300 << 10, MIB, 40 * MIB, 9 * MIB};
    scene_open(policy);
    s = scene_create(NULL);
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].size = sizes[i];
        blocks[i].ptr = scene_malloc(s, sizes[i]);
    }
    fill();
}

static void open_pools(void)
{
    open_with(pools);
}

static void free_blocks(void)
{
    for (int i = 0; i < BLOCKS; i++)
        scene_free(s, blocks[i].ptr);
}

static void yield(unsigned flags)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = weir_pool_yield(scene.pool, flags, &error);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
}

static bool wake(void)
{
    weir_error error = WEIR_ERROR_INIT;
    int kept = -1;
    weir_status status = weir_pool_wake(scene.pool, 0, &error, &kept);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    return kept;
}

static void expect_yielded(bool is_taken)
{
    weir_pool_stats stats = scene_pool_stats("main");
    void *ptr;
    ck_assert_msg((stats.asleep != 0) == is_taken, "asleep: %llu", (unsigned long long)stats.asleep);
    ck_assert_uint_eq(stats.yielded, stats.reserved);
    ck_assert(is_taken || stats.yielded >= 40 * MIB);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 512), WEIR_BUSY);
}

static void expect_awake(void)
{
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.asleep, 0);
    ck_assert_uint_eq(stats.yielded, 0);
    scene_free(s, scene_malloc(s, 512));
}

/* All that the device has free, and 20 MiB of what is yielded. */
static uint64_t too_much(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes + 20 * MIB;
}

/* Has pool `other` take what is yielded. */
static void *need(void)
{
    return scene_pool_malloc(other, too_much(), weir_stream_handle(s));
}

/* What it costs ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(yielded_pool_keeps_its_memory_and_wakes_without_a_call_of_the_driver)
{
    open_pools();
    scene_free(s, scene_malloc(s, 4096));
    uint64_t hits = scene_pool_stats("main").cache_hits, calls = scene_is_sim() ? sim_calls(NULL) : 0;
    yield(0);
    yield(WEIR_SLEEP_DISCARD);
    yield(0);
    ck_assert(wake());
    ck_assert(wake());
    if (scene_is_sim())
        ck_assert_uint_eq(sim_calls(NULL), calls);
    scene_free(s, scene_malloc(s, 4096));
    ck_assert_uint_gt(scene_pool_stats("main").cache_hits, hits);
    yield(0);
    expect_yielded(false);
    ck_assert(wake());
    expect_contents();
    ck_assert_uint_eq(scene_pool_stats("main").sleeps, 0);
    expect_awake();
    free_blocks();
}
END_TEST

START_TEST(frees_work_while_a_pool_is_yielded)
{
    open_pools();
    yield(0);
    free_blocks();
    ck_assert(wake());
    expect_awake();
}
END_TEST

START_TEST(pool_of_cudas_and_unknown_flags_are_refused)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_open("weir: 1\npools: { main: { small_below: 0 } }\n");
    ck_assert_int_eq(weir_pool_yield(scene.pool, 0, &error), WEIR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "write backing: arena"));
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_yield(scene.pool, 1U << 31, &error), WEIR_INVALID);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_yield(NULL, 0, &error), WEIR_INVALID);
    scene_free_on(NULL, scene_malloc_on(NULL, 512));
}
END_TEST

/* Who gets it ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(request_of_another_pool_gets_what_is_yielded)
{
    weir_error error = WEIR_ERROR_INIT;
    open_pools();
    yield(_i ? WEIR_SLEEP_DISCARD : 0);
    void *ptr = need();
    expect_yielded(true);
    yield(0);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 0, PATIENCE, NULL, NULL), WEIR_OK);
    ck_assert_int_eq(weir_pool_wake(scene.pool, 100, &error, NULL), WEIR_OUT_OF_MEMORY);
    expect_yielded(true);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert_int_eq(wake(), !_i);
    expect_awake();
    if (_i)
        fill();
    expect_contents();
    ck_assert_uint_eq(scene_pool_stats("main").sleeps, 1);
    ck_assert_uint_eq(scene_pool_stats("main").wakes, 1);
    free_blocks();
}
END_TEST

START_TEST(wake_of_another_pool_gets_what_is_yielded)
{
    open_pools();
    void *ptr = scene_pool_malloc(other, 64 * MIB, weir_stream_handle(s));
    scene_ok(weir_pool_sleep(other, 0, PATIENCE, NULL, NULL), "a sleep");
    weir_pool *idle;
    scene_ok(weir_pool_get(scene.w, "idle", 0, NULL, &idle), "weir_pool_get");
    uint64_t bytes, total;
    scene.gpu->device_memory(0, &bytes, &total);
    void *live = scene_pool_malloc(idle, bytes - 24 * MIB, weir_stream_handle(s));
    yield(0);
    scene_ok(weir_pool_wake(other, 0, NULL, NULL), "a wake");
    expect_yielded(true);
    scene_free_on(weir_stream_handle(s), live);
    ck_assert(wake());
    expect_contents();
    scene_free_on(weir_stream_handle(s), ptr);
    free_blocks();
}
END_TEST

START_TEST(idle_memory_goes_before_what_is_yielded)
{
    weir_pool *idle;
    open_pools();
    scene_ok(weir_pool_get(scene.w, "idle", 0, NULL, &idle), "weir_pool_get");
    scene_free_on(weir_stream_handle(s), scene_pool_malloc(idle, 64 * MIB, weir_stream_handle(s)));
    yield(0);
    void *ptr = need();
    expect_yielded(false);
    void *more = need();
    expect_yielded(true);
    scene_free_on(weir_stream_handle(s), ptr);
    scene_free_on(weir_stream_handle(s), more);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(policy_without_trim_leaves_what_is_yielded_alone)
{
    void *ptr;
    open_with("weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena }\n"
              "  other: { backing: arena, on_oom: { steps: [flush, wait, callbacks, neighbours] } }\n");
    yield(0);
    ck_assert_int_eq((weir_pool_malloc)(other, &ptr, too_much(), weir_stream_handle(s)), WEIR_OUT_OF_MEMORY);
    expect_yielded(false);
    ck_assert(wake());
    free_blocks();
}
END_TEST

/* Of the largest request that the device could ever serve. */
START_TEST(request_in_vain_leaves_what_is_yielded_alone)
{
    void *ptr;
    open_pools();
    void *live = scene_pool_malloc(other, 512 * MIB, weir_stream_handle(s));
    yield(0);
    ck_assert_int_eq((weir_pool_malloc)(other, &ptr, scene.memory - 256 * MIB, weir_stream_handle(s)), WEIR_OUT_OF_MEMORY);
    expect_yielded(false);
    scene_free_on(weir_stream_handle(s), live);
    ck_assert(wake());
    free_blocks();
}
END_TEST

static uint64_t give(uint64_t wanted, bool takes_yielded)
{
    struct weir__give_request request = {.keep = WEIR__GIVE_POLICY_KEEP, .wanted = wanted, .is_neighbour = true, .takes_yielded = takes_yielded};
    request.deadline = weir__service_now() + PATIENCE * MILLISECOND;
    struct weir__give *give = weir__give_begin(scene.w, &request);
    while (weir__give_step(give) != WEIR__GIVE_DONE)
        continue;
    uint64_t gave = weir__give_bytes(give);
    weir__give_end(give);
    return gave;
}

START_TEST(neighbour_gets_what_is_yielded_only_if_it_asks_for_that)
{
    uint64_t yielded = 0;
    open_pools();
    scene_free_on(weir_stream_handle(s), scene_pool_malloc(other, 64 * MIB, weir_stream_handle(s)));
    scene_sync(weir_stream_handle(s));
    yield(0);
    uint64_t offer = weir__give_offer(scene.w, 0, &yielded);
    ck_assert_uint_ge(offer, 64 * MIB);
    ck_assert_uint_ge(yielded, 50 * MIB);
    uint64_t gave = give(UINT64_MAX, false);
    ck_assert_uint_ge(gave, 64 * MIB);
    expect_yielded(false);
    ck_assert_uint_ge(give(1, true), 50 * MIB);
    expect_yielded(true);
    ck_assert_uint_eq(give(1, true), 0);
    ck_assert(wake());
    expect_contents();
    ck_assert_uint_eq(give(UINT64_MAX, true), 0);
    expect_awake();
    free_blocks();
}
END_TEST

/* What an operator does -------------------------------------------------------------------------------------------------------------------- */

static void refuse(weir_status status, weir_error *error, const char *words)
{
    ck_assert_int_eq(status, WEIR_BUSY);
    ck_assert_msg(strstr(error->text, words), "'%s' without '%s'", error->text, words);
    weir_error_clear(error);
}

START_TEST(operator_can_have_only_what_is_yielded)
{
    weir_error error = WEIR_ERROR_INIT;
    uint64_t given = 0, deadline;
    open_pools();
    deadline = scene.gpu->now() + PATIENCE * MILLISECOND;
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    refuse(weir__yielded_take(scene.pool, deadline, &error, &given), &error, "pool 'main' on device 0 is in use: its program has to call weir_pool_yield()");
    scene_ok(weir__yielded_return(scene.pool, NULL), "nothing to do");
    scene_ok(weir_pool_sleep(scene.pool, 0, PATIENCE, NULL, NULL), "a sleep");
    scene_ok(weir__yielded_take(scene.pool, deadline, NULL, &given), "nothing to do");
    refuse(weir__yielded_return(scene.pool, &error), &error, "pool 'main' on device 0 was put to sleep by its program");
    ck_assert(wake());
    for (int discards = 0; discards < 2; discards++) {
        yield(discards ? WEIR_SLEEP_DISCARD : 0);
        given = 0;
        scene_ok(weir__yielded_take(scene.pool, deadline, NULL, &given), "a sleep");
        ck_assert_uint_ge(given, 50 * MIB);
        expect_yielded(true);
        scene_ok(weir__yielded_return(scene.pool, NULL), "a wake");
        expect_yielded(false);
        if (discards) { /* what came back is new, whatever the pool does then */
            yield(0);
            scene_ok(weir__yielded_take(scene.pool, deadline, NULL, &given), "a sleep");
        }
        ck_assert_int_eq(wake(), !discards);
        if (discards)
            fill();
        expect_contents();
        yield(0);
        ck_assert(wake());
    }
    weir__relaxed_end(scene.gpu, mode);
    free_blocks();
}
END_TEST

START_TEST(return_without_memory_leaves_the_pool_asleep)
{
    weir_error error = WEIR_ERROR_INIT;
    open_pools();
    yield(0);
    void *ptr = need();
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    ck_assert_int_eq(weir__yielded_return(scene.pool, &error), WEIR_OUT_OF_MEMORY);
    weir__relaxed_end(scene.gpu, mode);
    ck_assert_msg(strstr(error.text, "pool 'main' on device 0 sleeps on") && strstr(error.text, "weir trim"), "%s", error.text);
    expect_yielded(true);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

/* Hooks ------------------------------------------------------------------------------------------------------------------------------------ */

static char told[256];
static int answer;

/* Tries what would wait for itself. */
static int note(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len)
{
    static const char *const words[] = {"before", "after", "new"};
    void *ptr;
    (void)data;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s, ", words[moment]);
    ck_assert_int_eq(weir_pool_wake(pool, 0, NULL, NULL), WEIR_BUSY);
    ck_assert_int_eq(weir_pool_yield(pool, 0, NULL), WEIR_BUSY);
    if (moment == WEIR_SLEEP_BEFORE)
        ck_assert_int_eq((weir_pool_malloc)(other, &ptr, too_much() + GIB, NULL), WEIR_OUT_OF_MEMORY);
    snprintf(why, len, "a batch is under way");
    return moment == WEIR_SLEEP_BEFORE ? answer : 0;
}

START_TEST(hooks_are_told_when_somebody_takes_the_memory)
{
    unsigned id;
    open_pools();
    scene_ok(weir_sleep_hook_add(scene.pool, note, NULL, NULL, &id), "a hook");
    yield(0);
    ck_assert(wake());
    ck_assert_str_eq(told, "");
    yield(WEIR_SLEEP_DISCARD);
    void *ptr = need();
    ck_assert_str_eq(told, "before, ");
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert(!wake());
    ck_assert_str_eq(told, "before, new, ");
    free_blocks();
}
END_TEST

START_TEST(hook_that_refuses_keeps_the_memory_yielded)
{
    unsigned id;
    void *ptr;
    weir_error error = WEIR_ERROR_INIT;
    uint64_t given = 0;
    open_pools();
    scene_ok(weir_sleep_hook_add(scene.pool, note, NULL, NULL, &id), "a hook");
    answer = 1;
    yield(0);
    ck_assert_int_eq((weir_pool_malloc)(other, &ptr, too_much(), weir_stream_handle(s)), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(told, "before, "));
    expect_yielded(false);
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    refuse(weir__yielded_take(scene.pool, scene.gpu->now(), &error, &given), &error, "a hook of pool 'main' refuses the sleep: a batch is under way");
    weir__relaxed_end(scene.gpu, mode);
    answer = 0;
    scene_free_on(weir_stream_handle(s), need());
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

static int count_before;

/* Refuses, and asks for memory that nobody has. */
static int refuse_and_ask(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len)
{
    void *ptr;
    (void)pool;
    if (moment != WEIR_SLEEP_BEFORE)
        return 0;
    count_before++;
    if (data)
        ck_assert_int_eq((weir_pool_malloc)(other, &ptr, too_much(), NULL), WEIR_OUT_OF_MEMORY);
    snprintf(why, len, "never");
    return 1;
}

START_TEST(hook_that_a_neighbour_has_called_begins_no_recovery)
{
    unsigned id;
    open_pools();
    scene_ok(weir_sleep_hook_add(scene.pool, refuse_and_ask, &id, NULL, &id), "a hook");
    yield(0);
    uint64_t before = scene_device_stats(0).recoveries;
    ck_assert_uint_eq(give(UINT64_MAX, true), 0);
    ck_assert_int_ge(count_before, 1);
    ck_assert_uint_eq(scene_device_stats(0).recoveries, before);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

/* Although the giver looks again and again whether that memory comes free. */
START_TEST(hook_that_refuses_is_asked_once_while_freed_memory_is_waited_for)
{
    unsigned id;
    open_pools();
    void *ptr = scene_pool_malloc(other, 64 * MIB, weir_stream_handle(s));
    scene_delay(weir_stream_handle(s), 50);
    scene_free(s, ptr);
    scene_ok(weir_sleep_hook_add(scene.pool, refuse_and_ask, NULL, NULL, &id), "a hook");
    yield(0);
    give(UINT64_MAX, true);
    ck_assert_msg(count_before <= 2, "%d times", count_before);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

/* A hook that ends its thread once the pool stays awake after all. */
static int end_thread(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len)
{
    (void)pool, (void)why, (void)len;
    if (moment == WEIR_SLEEP_AFTER && !atomic_exchange((atomic_bool *)data, true))
        pthread_exit(NULL);
    return 0;
}

static void *need_in_vain(void *data)
{
    uint64_t given = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    ck_assert_int_eq(weir__yielded_take(scene.pool, scene.gpu->now(), NULL, &given), WEIR_BUSY);
    weir__relaxed_end(scene.gpu, mode);
    return data;
}

START_TEST(hook_that_ends_its_thread_leaves_the_pool_yielded)
{
    unsigned ids[2];
    atomic_bool has_ended = false;
    pthread_t thread;
    open_pools();
    scene_ok(weir_sleep_hook_add(scene.pool, end_thread, &has_ended, NULL, &ids[0]), "a hook");
    scene_ok(weir_sleep_hook_add(scene.pool, refuse_and_ask, NULL, NULL, &ids[1]), "a hook");
    yield(0);
    ck_assert_int_eq(pthread_create(&thread, NULL, need_in_vain, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(has_ended);
    scene_ok(weir_sleep_hook_remove(scene.pool, ids[1], NULL), "a hook");
    scene_free_on(weir_stream_handle(s), need());
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

/* Captures, kernels, ends ------------------------------------------------------------------------------------------------------------------ */

START_TEST(capture_keeps_the_memory_yielded)
{
    size_t nodes;
    void *ptr;
    open_pools();
    yield(0);
    weir_stream *captured = scene_create(NULL);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(captured), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_int_eq((weir_pool_malloc)(other, &ptr, too_much(), weir_stream_handle(s)), WEIR_OUT_OF_MEMORY);
    expect_yielded(false);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(captured), &nodes), GPU_SUCCESS);
    ptr = need();
    expect_yielded(true);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(capture_gets_nothing_from_what_is_yielded)
{
    size_t nodes;
    void *ptr;
    open_pools();
    weir_stream *captured = scene_create(NULL);
    yield(0);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(captured), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_malloc(captured, &ptr, 512), WEIR_BUSY);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(captured), &nodes), GPU_SUCCESS);
    ck_assert(wake());
    free_blocks();
}
END_TEST

START_TEST(work_from_before_the_yield_is_waited_for)
{
    open_pools();
    gpu_stream raw = scene_stream(0);
    scene_delay(raw, 50);
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(scene.gpu->set_async(blocks[i].ptr, i + 1, blocks[i].size, raw), GPU_SUCCESS);
    yield(0);
    void *ptr = need();
    ck_assert_int_eq(scene.gpu->stream_query(raw), GPU_SUCCESS);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(reload_sleep_and_close_of_what_is_yielded)
{
    open_pools();
    yield(0);
    void *ptr = _i % 2 ? need() : NULL;
    scene_reload(pools);
    expect_yielded(ptr);
    if (_i < 2) {
        scene_ok(weir_pool_sleep(scene.pool, 0, PATIENCE, NULL, NULL), "a sleep");
        ck_assert_uint_gt(scene_pool_stats("main").asleep, 0);
    }
    if (ptr)
        scene_free_on(weir_stream_handle(s), ptr);
    if (_i < 4)
        ck_assert(wake());
    free_blocks();
}
END_TEST

/* Failures --------------------------------------------------------------------------------------------------------------------------------- */

static const char *const operations[] = {"page_unmap", "page_release", "host_alloc", "copy_async", "stream_create", "stream_synchronize",
                                         "event_create", "event_record_device", "event_query", "stream_destroy", NULL};

START_TEST(each_failing_call_leaves_the_pool_yielded_and_whole)
{
    const char *operation = operations[_i];
    open_pools();
    for (unsigned nth = 1, calls = nth; nth <= calls; nth += (operation ? 1 : 3) * suite_lone_stride()) {
        void *ptr = NULL;
        yield(0);
        uint64_t before = sim_calls(operation), size = too_much();
        sim_fail(operation, nth, GPU_UNKNOWN);
        (void)!(weir_pool_malloc)(other, &ptr, size, weir_stream_handle(s));
        sim_fail(operation, 0, 0);
        calls = (unsigned)(sim_calls(operation) - before);
        weir_pool_stats stats = scene_pool_stats("main");
        ck_assert_uint_eq(stats.live_blocks, BLOCKS);
        /* A page that cannot be unmapped stays. */
        ck_assert_uint_eq(stats.yielded, stats.asleep ? 0 : stats.reserved);
        if (ptr)
            scene_free_on(weir_stream_handle(s), ptr);
        scene_sync(weir_stream_handle(s));
        ck_assert(wake());
        expect_contents();
        expect_awake();
    }
    free_blocks();
}
END_TEST

/* At once ---------------------------------------------------------------------------------------------------------------------------------- */

/* A thread that wakes the pool, from within a call of the driver. */
static struct {
    struct gpu gpu;
    pthread_t thread;
    int calls;
    bool is_past; /* the pool's pages have begun to go */
    bool was_kept;
} waker;

static void *wake_beside(void *data)
{
    waker.was_kept = wake();
    return data;
}

/* Lets the other thread begin to wake the pool, and goes on once that is known. */
static void call_for_waker(void)
{
    hook_set(NULL);
    ck_assert_int_eq(pthread_create(&waker.thread, NULL, wake_beside, NULL), 0);
    if (!waker.is_past)
        while (atomic_load(&scene.pool->nap.state) != WEIR__NAP_WAKING)
            sched_yield();
}

static int copy_beside(void *to, const void *from, uint64_t bytes, gpu_stream stream)
{
    if (++waker.calls == 1)
        call_for_waker();
    return hook_base()->copy_async(to, from, bytes, stream);
}

static int unmap_beside(void *address, uint64_t bytes)
{
    waker.is_past = true;
    call_for_waker();
    return hook_base()->page_unmap(address, bytes);
}

static int query_beside(gpu_event event)
{
    call_for_waker();
    return hook_base()->event_query(event);
}

START_TEST(wake_recalls_the_thread_that_takes_the_memory)
{
    open_pools();
    yield(0);
    uint64_t given = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    waker.gpu = *hook_base();
    if (_i == 0)
        waker.gpu.copy_async = copy_beside;
    else if (_i == 1)
        waker.gpu.page_unmap = unmap_beside;
    else
        waker.gpu.event_query = query_beside;
    hook_set(&waker.gpu);
    weir_status status = weir__yielded_take(scene.pool, scene.gpu->now() + PATIENCE * MILLISECOND, NULL, &given);
    weir__relaxed_end(scene.gpu, mode);
    ck_assert_int_eq(pthread_join(waker.thread, NULL), 0);
    ck_assert_int_eq(status, waker.is_past ? WEIR_OK : WEIR_BUSY);
    ck_assert(waker.was_kept);
    ck_assert_uint_eq(scene_pool_stats("main").sleeps, waker.is_past);
    expect_awake();
    expect_contents();
    free_blocks();
}
END_TEST

static atomic_bool is_over;

/* Needs the memory again and again. */
static void *need_on(void *data)
{
    uint64_t size = scene.memory - 30 * MIB;
    while (!atomic_load(&is_over)) {
        void *ptr;
        if ((weir_pool_malloc)(other, &ptr, size, NULL) == WEIR_OK && (weir_free)(scene.w, ptr, NULL) != WEIR_OK)
            return data;
    }
    return NULL;
}

static void *operate_on(void *data)
{
    uint64_t given = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(scene.gpu);
    while (!atomic_load(&is_over)) {
        weir_status status = weir__yielded_take(scene.pool, scene.gpu->now() + PATIENCE * MILLISECOND, NULL, &given);
        if (status == WEIR_OK)
            status = weir__yielded_return(scene.pool, NULL);
        if (status != WEIR_OK && status != WEIR_BUSY && status != WEIR_OUT_OF_MEMORY)
            return data;
    }
    weir__relaxed_end(scene.gpu, mode);
    return NULL;
}

/* The owner never finds its pool busy, and never a byte wrong. */
START_TEST(owner_yields_and_wakes_beside_threads_that_take)
{
    pthread_t threads[3];
    open_with("weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena, on_oom: { deadline: 10s } }\n"
              "  other: { backing: arena, on_oom: { deadline: 1ms } }\n");
    for (int i = 0; i < COUNT(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, i ? operate_on : need_on, &is_over), 0);
    for (int round = 0; round < 120; round += (int)suite_lone_stride()) {
        yield(round % 2 ? WEIR_SLEEP_RETAIN : 0);
        for (int i = round % 4; i; i--)
            sched_yield();
        ck_assert(wake());
        expect_contents();
        scene_free(s, scene_malloc(s, 512));
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert(wake());
    free_blocks();
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("yield");
    TCase *tcase = suite_case(suite, "yield", 180);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, yielded_pool_keeps_its_memory_and_wakes_without_a_call_of_the_driver, frees_work_while_a_pool_is_yielded,
              pool_of_cudas_and_unknown_flags_are_refused, wake_of_another_pool_gets_what_is_yielded, idle_memory_goes_before_what_is_yielded,
              policy_without_trim_leaves_what_is_yielded_alone, neighbour_gets_what_is_yielded_only_if_it_asks_for_that,
              operator_can_have_only_what_is_yielded, return_without_memory_leaves_the_pool_asleep, hooks_are_told_when_somebody_takes_the_memory,
              hook_that_refuses_keeps_the_memory_yielded, capture_keeps_the_memory_yielded, work_from_before_the_yield_is_waited_for,
              owner_yields_and_wakes_beside_threads_that_take, request_in_vain_leaves_what_is_yielded_alone,
              hook_that_a_neighbour_has_called_begins_no_recovery, hook_that_refuses_is_asked_once_while_freed_memory_is_waited_for,
              hook_that_ends_its_thread_leaves_the_pool_yielded, capture_gets_nothing_from_what_is_yielded);
    tcase_add_loop_test(tcase, request_of_another_pool_gets_what_is_yielded, 0, 2);
    tcase_add_loop_test(tcase, reload_sleep_and_close_of_what_is_yielded, 0, 6);
    tcase_add_loop_test(tcase, wake_recalls_the_thread_that_takes_the_memory, 0, 3);
    if (scene_is_sim())
        tcase_add_loop_test(tcase, each_failing_call_leaves_the_pool_yielded_and_whole, 0, COUNT(operations));
    return suite_run(suite);
}
