/* SPDX-License-Identifier: MIT */
/* sleep.c - weir_pool_sleep() and weir_pool_wake(): memory goes and comes back, and whatever fails, all of it is there or none is lost. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/weir_sleep.h"
#include "tests/api/hook.h"
#include "tests/api/scene.h"

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])
#define BLOCKS 14
#define PATIENCE 10000 /* ms */

static const char arena[] = "weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena, on_oom: { deadline: 10s } }\n"
                            "  other: { small_below: 0, on_oom: { deadline: 10s } }\n";

/* Live blocks, each with one byte in all its places. */
static struct {
    unsigned char *ptr;
    uint64_t size;
} blocks[BLOCKS];

static weir_stream *s;

static void put(int i, int byte)
{
    ck_assert_int_eq(scene.gpu->set_async(blocks[i].ptr, byte, blocks[i].size, weir_stream_handle(s)), GPU_SUCCESS);
}

static void make_blocks(void)
{
    static const uint64_t sizes[] = {512, 5000, 300 << 10, MIB, 20 * MIB, 3 * MIB + 512, 9 * MIB};
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].size = sizes[i % COUNT(sizes)];
        blocks[i].ptr = scene_malloc(s, blocks[i].size);
        put(i, i + 1);
    }
}

/* The first and last bytes, and one in each MiB. */
static void expect_bytes(int i, int byte)
{
    for (uint64_t at = 0; at < blocks[i].size + MIB; at += MIB) {
        unsigned char seen = 0;
        uint64_t place = at < blocks[i].size ? at : blocks[i].size - 1;
        ck_assert_int_eq(scene.gpu->copy_async(&seen, blocks[i].ptr + place, 1, weir_stream_handle(s)), GPU_SUCCESS);
        scene_sync(weir_stream_handle(s));
        ck_assert_msg(seen == byte, "block %d has %d at %llu, not %d", i, seen, (unsigned long long)place, byte);
    }
}

static void expect_contents(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].ptr)
            expect_bytes(i, i + 1);
}

static void free_blocks(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].ptr)
            scene_free(s, blocks[i].ptr);
}

static uint64_t free_bytes(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes;
}

/* Nothing of the pool is on the device. On a real one the driver may have taken a few MiB for itself meanwhile: 2 MiB were measured. */
static void expect_nothing_taken(void)
{
    ck_assert_uint_ge(free_bytes() + (scene_is_sim() ? 0 : 8 * MIB), scene.memory);
}

static void open_awake(void)
{
    scene_open(arena);
    s = scene_create(NULL);
    make_blocks();
}

static uint64_t fall_asleep(unsigned flags)
{
    weir_error error = WEIR_ERROR_INIT;
    uint64_t given = 0;
    weir_status status = weir_pool_sleep(scene.pool, flags, PATIENCE, &error, &given);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    return given;
}

static bool wake(void)
{
    weir_error error = WEIR_ERROR_INIT;
    int kept = -1;
    weir_status status = weir_pool_wake(scene.pool, 0, &error, &kept);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    return kept;
}

static void refuse_busy(weir_status status)
{
    weir_error error;
    ck_assert_int_eq(status, WEIR_BUSY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "the pool is asleep or yielded: wake it with weir_pool_wake()"), "%s", error.text);
}

START_TEST(contents_come_back_at_their_addresses)
{
    open_awake();
    weir_pool_stats before = scene_pool_stats("main");
    for (int round = 0; round < 3; round++) {
        uint64_t given = fall_asleep(round == 1 ? WEIR_SLEEP_RETAIN : 0);
        weir_pool_stats stats = scene_pool_stats("main");
        expect_nothing_taken();
        ck_assert_uint_eq(stats.reserved, 0);
        ck_assert_uint_eq(stats.held_elsewhere, 0);
        ck_assert_uint_ge(given, stats.asleep);
        ck_assert_uint_ge(stats.asleep, stats.live);
        ck_assert_uint_eq(stats.live, before.live);
        ck_assert_uint_eq(fall_asleep(0), 0);
        ck_assert(wake());
        ck_assert(wake());
        expect_contents();
        stats = scene_pool_stats("main");
        ck_assert_uint_eq(stats.asleep, 0);
        ck_assert_uint_eq(stats.sleeps, (uint64_t)round + 1);
        ck_assert_uint_eq(stats.wakes, (uint64_t)round + 1);
        scene_free(s, scene_malloc(s, 5 * MIB));
    }
    free_blocks();
}
END_TEST

START_TEST(discarded_blocks_have_new_memory)
{
    struct sim_census census;
    open_awake();
    fall_asleep(WEIR_SLEEP_DISCARD);
    expect_nothing_taken();
    if (scene_is_sim()) {
        sim_census(&census);
        ck_assert_uint_eq(census.hosts, 0);
    }
    ck_assert(!wake());
    for (int i = 0; i < BLOCKS; i++)
        put(i, i + 1);
    expect_contents();
    free_blocks();
}
END_TEST

/* What a policy's `sleep` says, what the call does, and what comes back: the old bytes, zeros, or anything. */
static const struct {
    const char *policy;
    unsigned flags;
    enum { OLD, ZEROS, ANYTHING } comes;
    bool retains;
} manners[] = {
    {"", 0, OLD, false},
    {"contents: discard", 0, ANYTHING, false},
    {"contents: discard", WEIR_SLEEP_KEEP, OLD, false},
    {"contents: discard, on_wake: zero", 0, ZEROS, false},
    {"contents: discard, on_wake: zero", WEIR_SLEEP_KEEP, OLD, false},
    {"on_wake: zero", WEIR_SLEEP_DISCARD, ZEROS, false},
    {"", WEIR_SLEEP_DISCARD | WEIR_SLEEP_ZERO, ZEROS, false},
    {"retain: true", 0, OLD, true},
};

START_TEST(policy_says_what_the_call_does_not)
{
    char policy[sizeof arena + 64];
    struct sim_census census;
    snprintf(policy, sizeof policy, "weir: 1\npools: { main: { backing: arena, sleep: { %s } } }\n", manners[_i].policy);
    scene_open("weir: 1\npools: { main: { backing: arena } }\n");
    scene_reload(policy);
    s = scene_create(NULL);
    make_blocks();
    fall_asleep(manners[_i].flags);
    ck_assert_int_eq(wake(), manners[_i].comes == OLD);
    for (int i = 0; i < BLOCKS && manners[_i].comes != ANYTHING; i++)
        expect_bytes(i, manners[_i].comes == OLD ? i + 1 : 0);
    if (scene_is_sim()) {
        sim_census(&census);
        ck_assert_uint_eq(census.hosts, manners[_i].retains);
    }
    free_blocks();
}
END_TEST

START_TEST(sleeper_serves_no_request_and_takes_frees)
{
    open_awake();
    void *ptr;
    fall_asleep(0);
    refuse_busy(weir_stream_malloc(s, &ptr, 512));
    refuse_busy((weir_pool_malloc)(scene.pool, &ptr, MIB, weir_stream_handle(s)));
    refuse_busy((weir_malloc)(scene.w, &ptr, 100 * MIB, 0, weir_stream_handle(s)));
    /* Pages in which nothing is left do not come back. */
    uint64_t asleep = scene_pool_stats("main").asleep;
    for (int i = 3; i < BLOCKS; i++) {
        if (i % 2)
            scene_free(s, blocks[i].ptr);
        else
            scene_free_on(weir_stream_handle(s), blocks[i].ptr);
        blocks[i].ptr = NULL;
    }
    refuse_busy(weir_stream_malloc(s, &ptr, 512));
    ck_assert(wake());
    ck_assert_uint_lt(scene_pool_stats("main").reserved, asleep / 2);
    expect_contents();
    scene_free(s, scene_malloc(s, 512));
    free_blocks();
}
END_TEST

START_TEST(kernels_are_waited_for)
{
    open_awake();
    gpu_stream raw = scene_stream(0);
    scene_delay(raw, 50);
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(scene.gpu->set_async(blocks[i].ptr, i + 1, blocks[i].size, raw), GPU_SUCCESS);
    fall_asleep(0);
    ck_assert_int_eq(scene.gpu->stream_query(raw), GPU_SUCCESS);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(kernel_that_does_not_end_in_time_leaves_the_pool_awake)
{
    weir_error error = WEIR_ERROR_INIT;
    uint64_t given = 7;
    open_awake();
    scene_delay(scene_stream(0), 3000);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 0, 5, &error, &given), WEIR_TIMEOUT);
    ck_assert_uint_eq(given, 7);
    expect_contents();
    ck_assert_uint_eq(scene_pool_stats("main").asleep, 0);
    scene_free(s, scene_malloc(s, 512));
    ck_assert_uint_ge(scene_pool_stats("main").cached, 512);
    free_blocks();
}
END_TEST

START_TEST(capture_refuses_the_sleep_and_goes_on)
{
    size_t nodes;
    weir_error error = WEIR_ERROR_INIT;
    open_awake();
    weir_stream *captured = scene_create(NULL);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(captured), GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 0, PATIENCE, &error, NULL), WEIR_CAPTURING);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(captured), &nodes), GPU_SUCCESS);
    expect_contents();
    fall_asleep(0);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(pool_of_cudas_cannot_sleep)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *other;
    scene_open(arena);
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    ck_assert_int_eq(weir_pool_sleep(other, 0, PATIENCE, &error, NULL), WEIR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "write backing: arena"));
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(NULL, 0, 0, &error, NULL), WEIR_INVALID);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 64, 0, &error, NULL), WEIR_INVALID);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, WEIR_SLEEP_KEEP | WEIR_SLEEP_DISCARD, 0, &error, NULL), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "exclude each other"));
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_wake(NULL, 0, &error, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_pool_wake(other, 0, NULL, NULL), WEIR_OK);
}
END_TEST

START_TEST(empty_pool_sleeps_and_wakes)
{
    scene_open(arena);
    s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 9 * MIB));
    ck_assert_uint_gt(fall_asleep(0), 0);
    expect_nothing_taken();
    ck_assert(wake());
    scene_free(s, scene_malloc(s, 9 * MIB));
}
END_TEST

/* Neither a device without memory nor a cap sends the request up the ladder. */
START_TEST(sleeper_refuses_at_once)
{
    void *ptr, *all = NULL;
    scene_open(_i ? "weir: 1\npools: { main: { backing: arena, max_size: 256MiB } }\n" : arena);
    s = scene_create(NULL);
    void *block = scene_malloc(s, 200 * MIB);
    fall_asleep(0);
    if (!_i) {
        weir_pool *other;
        scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
        all = scene_pool_malloc(other, scene.memory - 64 * MIB, weir_stream_handle(s));
    }
    refuse_busy(weir_stream_malloc(s, &ptr, _i ? 100 * MIB : GIB));
    ck_assert_uint_eq(scene_device_stats(0).recoveries, 0);
    if (all)
        scene_free(s, all);
    ck_assert(wake());
    scene_free(s, block);
}
END_TEST

/* The capture of a stream ends right after Weir was told of it. */
static struct gpu hooked;
static gpu_stream captured;

static int capture_until_asked(gpu_stream stream, enum gpu_capture_status *status)
{
    int code = hook_base()->stream_capture_status(stream, status);
    if (stream == captured) {
        captured = NULL;
        *status = GPU_CAPTURE_STATUS_ACTIVE;
    }
    return code;
}

START_TEST(caches_serve_nothing_of_a_sleeper)
{
    void *ptr, *cached[2];
    scene_open(arena);
    s = scene_create(NULL);
    weir_stream *other = scene_create(NULL);
    cached[0] = scene_malloc(s, 80 * MIB);
    cached[1] = scene_malloc(other, 90 * MIB);
    void *block = scene_malloc(s, MIB);
    scene_free(s, cached[0]);
    scene_free(other, cached[1]);
    captured = _i ? weir_stream_handle(s) : NULL;
    hooked = *hook_base();
    hooked.stream_capture_status = capture_until_asked;
    hook_set(&hooked);
    scene_ok(weir_pool_sleep(scene.pool, 0, _i ? PATIENCE : 0, NULL, NULL), "a sleep");
    hook_set(NULL);
    refuse_busy(weir_stream_malloc(s, &ptr, 80 * MIB));
    refuse_busy((weir_malloc)(scene.w, &ptr, 80 * MIB, 0, weir_stream_handle(s)));
    refuse_busy(weir_stream_malloc(other, &ptr, 90 * MIB));
    ck_assert(wake());
    scene_free(s, block);
}
END_TEST

/* Waking without memory ------------------------------------------------------------------------------------------------------------------ */

START_TEST(wake_takes_idle_memory_of_another_pool)
{
    weir_pool *other;
    open_awake();
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    fall_asleep(0);
    void *ptr = scene_pool_malloc(other, scene.memory - 64 * MIB, weir_stream_handle(s));
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert_uint_lt(free_bytes(), 64 * MIB + 1);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(wake_without_memory_is_refused_with_the_report_and_takes_nothing)
{
    weir_pool *other;
    weir_error error = WEIR_ERROR_INIT;
    int kept = 7;
    open_awake();
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    fall_asleep(0);
    uint64_t asleep = scene_pool_stats("main").asleep;
    void *ptr = scene_pool_malloc(other, scene.memory - 64 * MIB, weir_stream_handle(s));
    uint64_t before = free_bytes();
    ck_assert_int_eq(weir_pool_wake(scene.pool, 100, &error, &kept), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(kept, 7);
    ck_assert_msg(strstr(error.text, "for pool 'main' on device 0") && strstr(error.text, "gave nothing"), "%s", error.text);
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_uint_eq(scene_pool_stats("main").asleep, asleep);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(cap_lowered_meanwhile_stops_no_wake)
{
    weir_pool *other;
    open_awake();
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    fall_asleep(0);
    scene_reload("weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena, max_size: 64MiB, on_oom: { deadline: 10s } }\n"
                 "  other: { small_below: 0 }\n");
    /* The memory comes free while the wake waits for it. */
    gpu_stream busy = scene_stream(0);
    void *ptr = scene_pool_malloc(other, scene.memory - 64 * MIB, busy);
    scene_delay(busy, 50);
    scene_free_on(busy, ptr);
    ck_assert(wake());
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(private_stream_gets_no_pool_that_sleeps)
{
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { backing: arena } }\nstreams: { own: { pool: main, private: true } }\n");
    weir_stream *first = scene_create("own");
    weir_pool *pool = weir_stream_pool(first);
    scene_free(first, scene_malloc(first, MIB));
    scene_ok(weir_pool_sleep(pool, 0, PATIENCE, NULL, NULL), "a sleep");
    scene_ok(weir_stream_close(first), "a close");
    weir_stream *second = scene_create("own");
    ck_assert_ptr_ne(weir_stream_pool(second), pool);
    scene_free(second, scene_malloc(second, MIB));
    scene_ok(weir_pool_wake(pool, 0, NULL, NULL), "a wake");
}
END_TEST

/* Failures ------------------------------------------------------------------------------------------------------------------------------- */

/* Each call of the driver on the way to sleep and back fails, once. The pool is awake and whole, or asleep and whole. */
static const char *const operations[] = {"page_unmap", "page_release", "page_create",  "page_map",     "page_set_access",     "host_alloc",
                                         "host_free",  "copy_async",   "stream_create", "stream_synchronize", "event_create", "event_record_device",
                                         "event_query", "event_destroy", "device_memory", "stream_destroy", NULL};

static void expect_refused(void)
{
    void *ptr;
    refuse_busy(weir_stream_malloc(s, &ptr, 512));
}

static void expect_whole(bool is_asleep)
{
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.live_blocks, BLOCKS);
    if (!is_asleep) {
        ck_assert_uint_eq(stats.asleep, 0);
        expect_contents();
        scene_free(s, scene_malloc(s, 512));
    } else {
        expect_refused();
    }
}

START_TEST(each_failing_call_leaves_the_pool_awake_or_asleep_and_whole)
{
    const char *operation = operations[_i % COUNT(operations)];
    bool at_sleep = _i < COUNT(operations);
    static const int codes[] = {GPU_UNKNOWN, GPU_OUT_OF_MEMORY};
    open_awake();
    for (int c = 0; c < COUNT(codes); c++)
        for (unsigned nth = 1, calls = nth; nth <= calls; nth += (operation ? 1 : 3) * suite_lone_stride()) {
            weir_error error = WEIR_ERROR_INIT;
            bool is_asleep = false;
            uint64_t before = sim_calls(operation);
            if (at_sleep)
                sim_fail(operation, nth, codes[c]);
            is_asleep = weir_pool_sleep(scene.pool, nth % 3 == 0 ? WEIR_SLEEP_RETAIN : 0, PATIENCE, &error, NULL) == WEIR_OK;
            if (at_sleep) {
                sim_fail(operation, 0, 0);
                calls = (unsigned)(sim_calls(operation) - before);
            }
            ck_assert(is_asleep || at_sleep);
            expect_whole(is_asleep);
            if (!at_sleep)
                sim_fail(operation, nth, codes[c]);
            weir_error_clear(&error);
            before = sim_calls(operation);
            bool is_awake = weir_pool_wake(scene.pool, 0, &error, NULL) == WEIR_OK;
            if (!at_sleep) {
                sim_fail(operation, 0, 0);
                calls = (unsigned)(sim_calls(operation) - before);
            }
            ck_assert(is_awake || !at_sleep);
            if (!is_awake) {
                expect_whole(true);
                ck_assert(wake());
            }
            expect_whole(false);
        }
    free_blocks();
}
END_TEST

/* Random programs: blocks come and go, and the pool sleeps, yields and wakes while calls of the driver fail. Whatever fails, it is awake or
   asleep, and whole. */
#define PROGRAMS 60
#define KEPT 12

static uint64_t drawn;

static unsigned draw(unsigned bound)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(drawn >> 33) % bound;
}

static const char *failing;

/* Has one of the next calls of an operation fail. */
static void fail_sometime(void)
{
    static const int codes[] = {GPU_UNKNOWN, GPU_OUT_OF_MEMORY};
    failing = operations[draw(COUNT(operations) - 1)];
    sim_fail(failing, draw(3) ? 1 + draw(6) : 0, codes[draw(2)]);
}

static void fail_no_more(void)
{
    sim_fail(failing, 0, 0);
}

static void take_or_free(int i)
{
    if (blocks[i].ptr) {
        scene_free(s, blocks[i].ptr);
        blocks[i].ptr = NULL;
        return;
    }
    blocks[i].size = draw(3) ? 512 + draw(4 << 20) : MIB * (1 + draw(12));
    blocks[i].ptr = scene_malloc(s, blocks[i].size);
    put(i, i + 1);
}

static void wake_at_last(void)
{
    int kept = 0;
    weir_status status = WEIR_BUSY;
    for (int tries = 0; status != WEIR_OK && tries < 4; tries++) {
        fail_sometime();
        if (tries == 3)
            fail_no_more();
        status = weir_pool_wake(scene.pool, 0, NULL, &kept);
        fail_no_more();
        if (status != WEIR_OK)
            expect_refused();
    }
    scene_ok(status, "a wake where nothing fails");
    ck_assert(kept);
}

START_TEST(random_programs_stay_whole_whatever_call_fails)
{
    weir_pool *other;
    drawn = (uint64_t)_i;
    scene_open(arena);
    s = scene_create(NULL);
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    for (int step = 0; step < 6; step++) {
        void *ptr;
        for (int i = 0; i < 6; i++)
            take_or_free((int)draw(KEPT));
        scene_sync(weir_stream_handle(s));
        bool yields = draw(2);
        fail_sometime();
        weir_status status = yields ? weir_pool_yield(scene.pool, 0, NULL) : weir_pool_sleep(scene.pool, draw(2) ? WEIR_SLEEP_RETAIN : 0, PATIENCE, NULL, NULL);
        if (yields && draw(2) && (weir_pool_malloc)(other, &ptr, scene.memory - 16 * MIB, weir_stream_handle(s)) == WEIR_OK) {
            fail_no_more();
            scene_free_on(weir_stream_handle(s), ptr);
        }
        fail_no_more();
        if (status == WEIR_OK && draw(2) && blocks[0].ptr)
            take_or_free(0);
        if (status == WEIR_OK)
            wake_at_last();
        expect_contents();
        ck_assert_uint_eq(scene_pool_stats("main").asleep, 0);
    }
    free_blocks();
}
END_TEST

/* The same under policies that change at any time, also while the pool sleeps, with a second device that has access or not. */
static const char *const firm[] = {"", ", align: 2MiB", ", initial_size: 96MiB", ", align: 64KiB, release_threshold: auto", ", cache: off"};
static const char *const loose[] = {"", ", peer_access: [1]", ", leave_free: 64MiB, keep: 32MiB", ", max_size: 128MiB",
                                    ", sleep: { retain: true }", ", peer_access: all, reuse: { pending_max: 0 }",
                                    ", sleep: { contents: discard, on_wake: zero }"};
static weir_pool *mixed;
static gpu_stream lanes[2];          /* on device 0 and on device 1 */
static unsigned firm_key, loose_key; /* of the policy in force */

static void write_mix(char *text, size_t len, unsigned how)
{
    snprintf(text, len, "weir: 1\nkeeper: true\ndefaults: { pool: main }\npools:\n"
                        "  main: { backing: arena, devices: [0]%s%s, on_oom: { deadline: 10s } }\n"
                        "  far: { devices: [1] }\n",
             firm[firm_key], loose[how]);
}

static void reload_mix(unsigned how)
{
    char text[512], path[] = "/tmp/weir-mix-XXXXXX";
    write_mix(text, sizeof text, how);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    weir_error error = WEIR_ERROR_INIT;
    bool fails = draw(2);
    if (fails)
        fail_sometime();
    weir_status status = weir_reload(scene.w, path, &error);
    if (fails)
        fail_no_more();
    unlink(path);
    ck_assert_msg(status == WEIR_OK || (fails && (status == WEIR_CUDA_ERROR || status == WEIR_OUT_OF_MEMORY)), "%s: %s", text, error.text);
    if (status == WEIR_OK)
        loose_key = how;
}

static void mix_take_or_free(int i)
{
    if (blocks[i].ptr) {
        if (draw(2))
            scene_free_on(lanes[draw(2)], blocks[i].ptr);
        else
            scene_free(s, blocks[i].ptr);
        blocks[i].ptr = NULL;
        return;
    }
    void *ptr = NULL;
    blocks[i].size = draw(3) ? 512 + draw(4 << 20) : MIB * (1 + draw(12));
    weir_status status = (weir_pool_malloc)(mixed, &ptr, blocks[i].size, weir_stream_handle(s));
    ck_assert_msg(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY, "%s", weir_status_name(status));
    blocks[i].ptr = ptr;
    if (ptr)
        put(i, i + 1);
    scene_sync(weir_stream_handle(s));
}

/* The other device writes all blocks anew. */
static void write_from_peer(void)
{
    gpu_stream far = lanes[1];
    for (int i = 0; i < KEPT; i++)
        if (blocks[i].ptr) {
            unsigned char seen = 0;
            ck_assert_int_eq(scene.gpu->set_async(blocks[i].ptr, i + 1, blocks[i].size, far), GPU_SUCCESS);
            scene_sync(far);
            ck_assert_int_eq(scene.gpu->copy_async(&seen, blocks[i].ptr + blocks[i].size - 1, 1, far), GPU_SUCCESS);
            scene_sync(far);
            ck_assert_int_eq(seen, i + 1);
        }
}

START_TEST(random_programs_stay_whole_whatever_the_policy_becomes)
{
    char text[512];
    drawn = (uint64_t)_i + 1000;
    firm_key = (unsigned)_i % COUNT(firm);
    loose_key = 0;
    memset(blocks, 0, sizeof blocks);
    scene_simulate("devices=2,memory=4GiB");
    write_mix(text, sizeof text, 0);
    scene_open(text);
    s = scene_create(NULL);
    mixed = scene.pool;
    lanes[0] = scene_stream(0);
    lanes[1] = scene_stream(1);
    for (int step = 0; step < 6; step++) {
        for (int i = 0; i < 6; i++)
            mix_take_or_free((int)draw(KEPT));
        scene_sync(weir_stream_handle(s));
        bool fails = draw(2);
        if (fails)
            fail_sometime();
        weir_status status = weir_pool_sleep(mixed, WEIR_SLEEP_KEEP | (draw(2) ? WEIR_SLEEP_RETAIN : 0), PATIENCE, NULL, NULL);
        fail_no_more();
        ck_assert(fails || status == WEIR_OK);
        scene_pool_stats("main");
        for (unsigned i = draw(4); i; i--) {
            if (draw(3) == 0)
                reload_mix(draw(COUNT(loose)));
            if (draw(3) == 0)
                scene_ok(weir_pool_trim(mixed, draw(2) ? 0 : draw(1 << 28), NULL, NULL), "a trim");
            int b = (int)draw(KEPT);
            if (draw(2) && blocks[b].ptr)
                mix_take_or_free(b);
            scene_pool_stats("main");
        }
        if (status == WEIR_OK)
            wake_at_last();
        scene_pool_stats("main");
        expect_contents();
        if (strstr(loose[loose_key], "peer_access"))
            write_from_peer();
        if (draw(3) == 0)
            reload_mix(draw(COUNT(loose)));
        ck_assert_uint_eq(scene_pool_stats("main").asleep, 0);
    }
    for (int i = 0; i < KEPT; i++)
        if (blocks[i].ptr)
            mix_take_or_free(i);
}
END_TEST

/* Hooks ---------------------------------------------------------------------------------------------------------------------------------- */

static char told[256];
static int answer;

static int note(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len)
{
    static const char *const words[] = {"before", "after", "new"};
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s %s, ", (const char *)data, words[moment]);
    ck_assert_int_eq(weir_pool_sleep(pool, 0, 0, NULL, NULL), WEIR_BUSY);
    ck_assert_int_eq(weir_pool_wake(pool, 0, NULL, NULL), WEIR_BUSY);
    ck_assert_int_eq(weir_sleep_hook_remove(pool, 1, NULL), WEIR_BUSY);
    if (answer && *(const char *)data == 'b')
        snprintf(why, len, "a batch is under way");
    return *(const char *)data == 'b' ? answer : 0;
}

START_TEST(hooks_are_told_and_may_refuse)
{
    weir_error error = WEIR_ERROR_INIT;
    unsigned ids[3];
    char a[] = "a", b[] = "b", c[] = "c";
    char *const names[] = {a, b, c};
    open_awake();
    for (int i = 0; i < 3; i++)
        scene_ok(weir_sleep_hook_add(scene.pool, note, names[i], NULL, &ids[i]), "a hook");
    fall_asleep(0);
    wake();
    fall_asleep(WEIR_SLEEP_DISCARD);
    wake();
    ck_assert_str_eq(told, "a before, b before, c before, a after, b after, c after, a before, b before, c before, a new, b new, c new, ");
    for (int i = 0; i < BLOCKS; i++)
        put(i, i + 1);
    told[0] = '\0';
    answer = 1;
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 0, PATIENCE, &error, NULL), WEIR_BUSY);
    ck_assert_msg(strstr(error.text, "a hook of pool 'main' refuses the sleep: a batch is under way"), "%s", error.text);
    ck_assert_str_eq(told, "a before, b before, a after, ");
    expect_contents();
    scene_ok(weir_sleep_hook_remove(scene.pool, ids[1], NULL), "its removal");
    ck_assert_int_eq(weir_sleep_hook_remove(scene.pool, ids[1], NULL), WEIR_NOT_FOUND);
    told[0] = '\0';
    scene_delay(scene_stream(0), 3000);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(scene.pool, 0, 1, &error, NULL), WEIR_TIMEOUT);
    ck_assert_str_eq(told, "a before, c before, a after, c after, ");
    free_blocks();
}
END_TEST

/* Beside others ---------------------------------------------------------------------------------------------------------------------------- */

static void *go_on(void *data)
{
    atomic_bool *is_over = data;
    weir_stream *own;
    if (weir_stream_create(scene.w, 0, NULL, NULL, &own) != WEIR_OK)
        return data;
    for (unsigned i = 0; !atomic_load(is_over) || i < 100; i++) {
        void *ptr;
        weir_status status = weir_stream_malloc(own, &ptr, 512 << i % 14);
        if (status == WEIR_OK)
            status = weir_stream_free(own, ptr);
        if (status != WEIR_OK && status != WEIR_BUSY)
            return data;
    }
    return weir_stream_close(own) == WEIR_OK ? NULL : data;
}

START_TEST(threads_go_on_beside_sleeps)
{
    atomic_bool is_over = false;
    pthread_t threads[3];
    open_awake();
    for (int i = 0; i < COUNT(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, go_on, &is_over), 0);
    for (int i = 0; i < 60; i++) {
        uint64_t released;
        fall_asleep(i % 2 ? WEIR_SLEEP_RETAIN : 0);
        ck_assert_int_eq(weir_pool_trim(scene.pool, 0, NULL, &released), WEIR_OK);
        ck_assert(wake());
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    expect_contents();
    free_blocks();
}
END_TEST

/* Calls while contents are copied, which takes a second for some 60 GiB. */
static weir_pool *neighbour;
static gpu_stream beside;

static weir_status ask_sleeper(void)
{
    void *ptr;
    return (weir_pool_malloc)(scene.pool, &ptr, MIB, beside);
}

static weir_status ask_neighbour(void)
{
    void *ptr;
    return (weir_pool_malloc)(neighbour, &ptr, scene.memory - 32 * MIB, beside);
}

static weir_status trim_sleeper(void)
{
    return weir_pool_trim(scene.pool, 0, NULL, NULL);
}

static weir_status free_in_sleeper(void)
{
    weir_status status = (weir_free)(scene.w, blocks[0].ptr, beside);
    blocks[0].ptr = NULL;
    return status;
}

static const struct beside {
    const char *label;
    weir_status (*call)(void), status;
} calls_beside[] = {
    {"a request of its own", ask_sleeper, WEIR_BUSY},
    {"a request that needs its memory", ask_neighbour, WEIR_OUT_OF_MEMORY},
    {"a trim", trim_sleeper, WEIR_OK},
    {"a free", free_in_sleeper, WEIR_OK},
};
static const struct beside *to_call;

static void *call_beside(void *data)
{
    const struct beside *call = data;
    return call->call() == call->status ? NULL : data;
}

static int copy_beside(void *to, const void *from, uint64_t size, gpu_stream stream)
{
    pthread_t thread;
    struct beside call;
    void *failed;
    if (to_call) {
        call = *to_call;
        to_call = NULL;
        ck_assert_int_eq(pthread_create(&thread, NULL, call_beside, &call), 0);
        pthread_join(thread, &failed);
        ck_assert_msg(!failed, "%s", call.label);
    }
    return hook_base()->copy_async(to, from, size, stream);
}

START_TEST(nobody_waits_for_the_copies)
{
    bool at_wake = _i / COUNT(calls_beside);
    open_awake();
    beside = scene_stream(0);
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &neighbour), "weir_pool_get");
    hooked = *hook_base();
    hooked.copy_async = copy_beside;
    hook_set(&hooked);
    to_call = at_wake ? NULL : &calls_beside[_i % COUNT(calls_beside)];
    fall_asleep(0);
    to_call = at_wake ? &calls_beside[_i % COUNT(calls_beside)] : NULL;
    ck_assert(wake());
    hook_set(NULL);
    expect_contents();
    free_blocks();
}
END_TEST

START_TEST(reload_and_close_of_a_sleeper)
{
    open_awake();
    fall_asleep(_i ? WEIR_SLEEP_RETAIN : 0);
    scene_reload(arena);
    void *ptr;
    refuse_busy(weir_stream_malloc(s, &ptr, 512));
    if (_i == 2) {
        free_blocks();
        scene_close();
        return;
    }
    scene_ok(weir_stream_close(s), "a close");
    if (_i == 1) {
        for (int i = 0; i < BLOCKS; i++)
            scene_free_on(NULL, blocks[i].ptr);
        scene_close();
        return;
    }
    /* Live blocks outlive the weir, asleep for good. */
    const struct gpu *gpu = scene.gpu;
    scene_close();
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq((weir_free)(NULL, blocks[i].ptr, NULL), WEIR_OK);
    gpu->device_synchronize(0);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("sleep");
    TCase *tcase = suite_case(suite, "sleep", 180);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, contents_come_back_at_their_addresses, discarded_blocks_have_new_memory, sleeper_serves_no_request_and_takes_frees,
              kernels_are_waited_for, kernel_that_does_not_end_in_time_leaves_the_pool_awake, capture_refuses_the_sleep_and_goes_on,
              pool_of_cudas_cannot_sleep, private_stream_gets_no_pool_that_sleeps, empty_pool_sleeps_and_wakes, wake_takes_idle_memory_of_another_pool,
              wake_without_memory_is_refused_with_the_report_and_takes_nothing, cap_lowered_meanwhile_stops_no_wake,
              hooks_are_told_and_may_refuse, threads_go_on_beside_sleeps);
    tcase_add_loop_test(tcase, reload_and_close_of_a_sleeper, 0, 3);
    tcase_add_loop_test(tcase, sleeper_refuses_at_once, 0, 2);
    tcase_add_loop_test(tcase, caches_serve_nothing_of_a_sleeper, 0, 2);
    tcase_add_loop_test(tcase, nobody_waits_for_the_copies, 0, 2 * COUNT(calls_beside));
    tcase_add_loop_test(tcase, policy_says_what_the_call_does_not, 0, COUNT(manners));
    if (scene_is_sim())
        tcase_add_loop_test(tcase, each_failing_call_leaves_the_pool_awake_or_asleep_and_whole, 0, 2 * COUNT(operations));
    if (scene_is_sim())
        tcase_add_loop_test(tcase, random_programs_stay_whole_whatever_call_fails, 0, PROGRAMS / (int)suite_lone_stride());
    TCase *mix = suite_case(suite, "policies", 180);
    tcase_add_checked_fixture(mix, scene_begin, scene_end);
    if (scene_is_sim())
        tcase_add_loop_test(mix, random_programs_stay_whole_whatever_the_policy_becomes, 0, 2 * COUNT(firm));
    return suite_run(suite);
}
