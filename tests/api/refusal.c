/* SPDX-License-Identifier: MIT */
/* refusal.c - after a request that was refused everything is as before: what the device has free, and what the pool has reserved. */
#include "tests/api/refusal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/scene.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define THREADS 8
#define PAIRS 300

#define POOL(keys) "weir: 1\ndefaults: { pool: main }\npools: { main: { " keys " } }\n"

static const char *const policies[] = {
    POOL("release_threshold: all"),
    POOL("release_threshold: none"),
    POOL("release_threshold: 75%"),
    POOL("release_threshold: all, small_below: 0"),
    POOL("release_threshold: all, max_size: 95%"),
    POOL("release_threshold: all, max_size: 95%, small_below: 0"),
    POOL("release_threshold: all, cache: { largest: 64MiB, per_stream: 512MiB }"),
    POOL("release_threshold: all, backing: default"),
    POOL("release_threshold: all, current: true"),
    POOL("backing: arena"),
    POOL("release_threshold: all, small_below: 8GiB, on_oom: { deadline: 0ms }"),
    POOL("keep: 50%, on_oom: { steps: [] }"),
    "keeper: true\n" POOL("release_threshold: auto"),
};

static uint64_t free_bytes(void)
{
    uint64_t bytes = 0, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes;
}

/* What a GPU's driver keeps of its own for streams and pools that are gone: 2 MiB (measured). */
static uint64_t driver_keeps(void)
{
    return scene_is_sim() ? 0 : 32 * MIB;
}

static void refuse(weir_stream *s, uint64_t size)
{
    void *ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, size), WEIR_OUT_OF_MEMORY);
}

/* How far the request is above what could be had. */
static const uint64_t excesses[] = { 64 * MIB, 3 * GIB };

START_TEST(refused_request_leaves_the_device_and_the_pool_as_they_were)
{
    scene_open(policies[_i / COUNT(excesses)]);
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(15));
    scene_sync(weir_stream_handle(s));
    uint64_t before = free_bytes(), reserved = scene_pool_stats("main").reserved;
    for (int i = 0; i < 2; i++) {
        refuse(s, before + excesses[_i % COUNT(excesses)]);
        ck_assert_uint_ge(free_bytes(), before);
        ck_assert_uint_le(scene_pool_stats("main").reserved, reserved);
    }
    scene_free(s, held);
}
END_TEST

/* A request for a small part of the device is made without a look at the device first. */
START_TEST(refused_request_for_a_small_part_leaves_the_rest_free)
{
    scene_open(policies[_i]);
    weir_stream *s = scene_create(NULL);
    uint64_t cap = scene_pool_stats("main").max_size, rest = scene.memory / 64 - 4 * MIB;
    uint64_t size = (cap && cap < free_bytes() ? cap : free_bytes()) / (32 * MIB) * 32 * MIB - rest / 2;
    void *held = scene_malloc(s, size);
    scene_sync(weir_stream_handle(s));
    uint64_t before = free_bytes(), reserved = scene_pool_stats("main").reserved;
    refuse(s, rest);
    ck_assert_uint_ge(free_bytes(), before);
    ck_assert_uint_le(scene_pool_stats("main").reserved, reserved);
    scene_free(s, held);
}
END_TEST

/* Idle memory that the pool had, and that was too little, is still the pool's where no step of recovery gave it back. */
START_TEST(refused_request_costs_the_pool_nothing_that_it_kept)
{
    scene_open(POOL("release_threshold: all, small_below: 0"));
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, scene_share(30)));
    scene_sync(weir_stream_handle(s));
    uint64_t idle = scene_pool_stats("main").idle;
    refuse(s, scene.memory * 2);
    ck_assert_uint_eq(scene_pool_stats("main").idle, idle);
}
END_TEST

struct neighbour {
    pthread_t thread;
    weir_stream *s;
    unsigned refused;
};

static void *work(void *data)
{
    struct neighbour *neighbour = data;
    for (int i = 0; i < PAIRS; i++) {
        void *ptr;
        if (weir_stream_malloc(neighbour->s, &ptr, 40 * MIB) != WEIR_OK)
            neighbour->refused++;
        else
            scene_free(neighbour->s, ptr);
    }
    return NULL;
}

START_TEST(request_that_is_refused_beside_threads_leaves_no_more_than_they_use)
{
    struct neighbour neighbours[THREADS] = { 0 };
    scene_open(POOL("release_threshold: all, small_below: 0"));
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(15));
    uint64_t before = free_bytes(), others = THREADS * 3 * 64 * MIB; /* what pending frees and rounding can add to 40 MiB each */
    for (int i = 0; i < THREADS; i++) {
        neighbours[i].s = scene_create(NULL);
        ck_assert_int_eq(pthread_create(&neighbours[i].thread, NULL, work, &neighbours[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        refuse(s, before + 64 * MIB);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(neighbours[i].thread, NULL);
        ck_assert_uint_eq(neighbours[i].refused, 0);
    }
    ck_assert_uint_ge(free_bytes() + others, before);
    scene_free(s, held);
}
END_TEST

/* What fits ---------------------------------------------------------------------------------------------------------------------------- */

static const uint64_t sizes[] = { 0, 32 * MIB };

static const char *const fitting[] = {
    POOL("small_below: 1MiB"),
    POOL("small_below: 0, release_threshold: all"),
    POOL("backing: arena"),
    POOL("backing: arena, max_size: 50%"),
    POOL("small_below: 0, max_size: 50%"),
    POOL("max_size: 50%"),
    POOL("backing: default, release_threshold: all"),
};

/* Of many blocks of mixed sizes on two streams every tenth lives on, so that the rest lies in pieces. */
START_TEST(what_the_figures_call_obtainable_is_served)
{
    void *blocks[1000];
    unsigned random = 3;
    scene_open(fitting[_i / COUNT(sizes)]);
    weir_stream *streams[2] = { scene_create(NULL), scene_create(NULL) };
    for (int i = 0; i < COUNT(blocks); i++) {
        random = random * 1103515245 + 12345;
        blocks[i] = scene_malloc(streams[i % 2], (1 + (random >> 8) % 4096) << 10);
    }
    for (int i = 0; i < COUNT(blocks); i++)
        if (i % 10)
            scene_free(streams[i % 2], blocks[i]);
    scene_sync(weir_stream_handle(streams[0]));
    scene_sync(weir_stream_handle(streams[1]));
    uint64_t obtainable = scene_pool_stats("main").obtainable, sum = scene_pool_stats("main").idle + scene_device_stats(0).obtainable;
    ck_assert_uint_ge(obtainable, scene.memory / 8);
    ck_assert_uint_le(obtainable, sum);
    scene_free(streams[0], scene_malloc(streams[0], obtainable - sizes[_i % COUNT(sizes)]));
    for (int i = 0; i < COUNT(blocks); i += 10)
        scene_free(streams[i % 2], blocks[i]);
}
END_TEST

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

#define UNSERVED(keys) "weir: 1\npools: { other: { initial_size: 95%, release_threshold: all, " keys " } }\n"

static const char *const unserved[] = {
    UNSERVED("small_below: 0"),        UNSERVED("backing: arena"),  UNSERVED("backing: default"),
    UNSERVED("current: true"),         UNSERVED("max_size: 100%"),
};

static weir_status open_other(const char *policy, weir **w)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    return weir_open(&options, NULL, w);
}

START_TEST(failed_open_leaves_the_device_as_it_was)
{
    weir *w = NULL;
    scene_open(POOL("release_threshold: all"));
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, scene_share(30));
    uint64_t before = free_bytes();
    ck_assert_int_ne(open_other(unserved[_i], &w), WEIR_OK);
    ck_assert_uint_ge(free_bytes() + driver_keeps(), before);
    scene_free(s, held);
}
END_TEST

START_TEST(close_leaves_no_idle_memory_in_the_default_pool)
{
    uint64_t before = free_bytes();
    scene_open(POOL("release_threshold: all, backing: default"));
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, scene_share(30)));
    scene_close();
    ck_assert_uint_ge(free_bytes() + driver_keeps(), before);
}
END_TEST

struct attributes {
    uint64_t threshold, opportunistic, internal;
};

static struct attributes look_at_default_pool(void)
{
    struct attributes found = { 0 };
    gpu_pool pool;
    ck_assert_int_eq(scene.gpu->pool_get_default(0, &pool), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->pool_get(pool, GPU_POOL_RELEASE_THRESHOLD, &found.threshold), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->pool_get(pool, GPU_POOL_REUSE_OPPORTUNISTIC, &found.opportunistic), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->pool_get(pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, &found.internal), GPU_SUCCESS);
    return found;
}

/* Each in which three weirs on one default pool can be closed. */
static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

START_TEST(default_pool_is_as_before_in_whichever_order_weirs_close)
{
    static const char *const texts[] = {
        "weir: 1\npools: { d: { backing: default, current: true, release_threshold: 100MiB, reuse: { opportunistic: false } } }\n",
        "weir: 1\npools: { d: { backing: default, release_threshold: 200MiB } }\n",
        "weir: 1\npools: { d: { backing: default, release_threshold: 100MiB, reuse: { internal_dependencies: false } } }\n",
    };
    weir *weirs[3];
    struct attributes before = look_at_default_pool();
    const int *order = orders[_i % COUNT(orders)];
    bool reloads = _i >= COUNT(orders); /* the first weir writes its settings once more, behind the others' */
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(open_other(texts[i], &weirs[i]), WEIR_OK);
    if (reloads)
        ck_assert_int_eq(weir_reload(weirs[0], NULL, NULL), WEIR_OK);
    for (int i = 0; i < 3; i++) {
        weir_close(weirs[order[i]]);
        if (i < 2 && order[2] == 2 && !reloads)
            ck_assert_uint_eq(look_at_default_pool().internal, 0); /* what the last one of them set stays in force */
    }
    struct attributes after = look_at_default_pool();
    ck_assert_uint_eq(after.threshold, before.threshold);
    ck_assert_uint_eq(after.opportunistic, before.opportunistic);
    ck_assert_uint_eq(after.internal, before.internal);
}
END_TEST

/* Spilling ----------------------------------------------------------------------------------------------------------------------------- */

#define BUFFERS 448

/* As many buffers as fill most of the device, of which each call frees `each` in random order. */
static struct store {
    weir_stream *s;
    void *buffers[BUFFERS];
    uint64_t size;
    int order[BUFFERS], next, each, calls;
    bool is_liar;
} store;

static uint64_t spill(void *data, int device, uint64_t needed)
{
    (void)data;
    (void)device;
    (void)needed;
    uint64_t freed = 0;
    store.calls++;
    for (int i = 0; i < store.each && store.next < BUFFERS && !store.is_liar; i++, freed += store.size)
        scene_free(store.s, store.buffers[store.order[store.next++]]);
    return store.is_liar ? GIB : freed;
}

static void fill_store(const char *policy, unsigned percent, int each)
{
    unsigned id, random = 7;
    scene_open(policy);
    store = (struct store){ .s = scene_create(NULL), .size = scene_share(percent) / BUFFERS / MIB * MIB, .each = each };
    for (int i = 0; i < BUFFERS; i++) {
        store.buffers[i] = scene_malloc(store.s, store.size);
        store.order[i] = i;
    }
    for (int i = BUFFERS - 1; i > 0; i--) {
        random = random * 1103515245 + 12345;
        int j = (int)(random >> 8) % (i + 1), k = store.order[i];
        store.order[i] = store.order[j];
        store.order[j] = k;
    }
    scene_ok(weir_oom_add(scene.w, spill, NULL, NULL, &id), "weir_oom_add");
}

static void empty_store(void)
{
    while (store.next < BUFFERS)
        scene_free(store.s, store.buffers[store.order[store.next++]]);
}

static const char *const spilling[] = {
    POOL("on_oom: { deadline: 30s }"),
    POOL("small_below: 0, on_oom: { deadline: 30s, steps: [flush, wait, trim, callbacks] }"),
    POOL("backing: arena, on_oom: { deadline: 30s }"),
};

START_TEST(callbacks_are_asked_again_for_as_long_as_they_help)
{
    fill_store(spilling[_i], 85, BUFFERS / 8);
    scene_free(store.s, scene_malloc(store.s, scene_share(50)));
    ck_assert_int_ge(store.calls, 2);
    empty_store();
}
END_TEST

/* More calls than anybody would count as rounds. */
START_TEST(callbacks_that_free_little_are_asked_as_often_as_it_takes)
{
    fill_store(spilling[_i], 85, 1);
    scene_free(store.s, scene_malloc(store.s, scene_share(50)));
    ck_assert_int_gt(store.calls, 64);
    empty_store();
}
END_TEST

START_TEST(callback_that_only_says_it_freed_something_is_asked_once)
{
    fill_store(spilling[_i], 85, 0);
    store.is_liar = true;
    refuse(store.s, scene_share(50));
    ck_assert_int_eq(store.calls, 1);
    empty_store();
}
END_TEST

START_TEST(at_the_cap_a_program_spills_until_there_is_room)
{
    fill_store(POOL("max_size: 50%, on_oom: { deadline: 30s }"), 45, 8);
    scene_free(store.s, scene_malloc(store.s, scene_share(25)));
    ck_assert_int_ge(store.calls, 2);
    empty_store();
}
END_TEST

static Suite *refusal_suite(void)
{
    Suite *suite = suite_create("refusal");
    TCase *tcase = suite_case(suite, "refused", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, refused_request_leaves_the_device_and_the_pool_as_they_were, 0, COUNT(policies) * COUNT(excesses));
    tcase_add_loop_test(tcase, refused_request_for_a_small_part_leaves_the_rest_free, 0, COUNT(policies));
    suite_add(tcase, refused_request_costs_the_pool_nothing_that_it_kept,
              request_that_is_refused_beside_threads_leaves_no_more_than_they_use);

    tcase = suite_case(suite, "what fits", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, what_the_figures_call_obtainable_is_served, 0, COUNT(fitting) * COUNT(sizes));

    tcase = suite_case(suite, "open and close", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, failed_open_leaves_the_device_as_it_was, 0, COUNT(unserved));
    suite_add(tcase, close_leaves_no_idle_memory_in_the_default_pool);
    tcase_add_loop_test(tcase, default_pool_is_as_before_in_whichever_order_weirs_close, 0, 2 * COUNT(orders));

    tcase = suite_case(suite, "spilling", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, callbacks_are_asked_again_for_as_long_as_they_help, 0, COUNT(spilling));
    tcase_add_loop_test(tcase, callbacks_that_free_little_are_asked_as_often_as_it_takes, 0, COUNT(spilling));
    tcase_add_loop_test(tcase, callback_that_only_says_it_freed_something_is_asked_once, 0, COUNT(spilling));
    suite_add(tcase, at_the_cap_a_program_spills_until_there_is_room);
    return suite;
}

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = refusal_suite();
    if (scene_is_sim())
        add_refusal_sim_cases(suite);
    return suite_run(suite);
}
