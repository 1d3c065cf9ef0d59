/* SPDX-License-Identifier: MIT */
/* order.c - `reuse.pending_max`: where a stream waits for what another one has freed, rather than let its pool grow. */
#include <stdio.h>

#include "tests/api/scene.h"

#define BLOCK (64 * MIB)
#define COUNT 400
#define LONG 1000

/* What moves blocks out by a second stream: each block is worked on for a millisecond, copied for another, and freed behind the copy, while the
   host runs ahead. Returns the time until all of that is done. */
static uint64_t move_out(const char *policy, bool is_raw)
{
    scene_open(policy);
    const struct gpu *gpu = scene.gpu;
    weir_stream *s = scene_create(NULL), *side = is_raw ? NULL : scene_create(NULL);
    gpu_stream copies = is_raw ? scene_stream(0) : weir_stream_handle(side);
    uint64_t begun = gpu->now();
    for (int i = 0; i < COUNT; i++) {
        gpu_event event;
        void *ptr = scene_malloc(s, BLOCK);
        scene_delay(weir_stream_handle(s), 1);
        ck_assert_int_eq(gpu->event_create(0, &event), GPU_SUCCESS);
        ck_assert_int_eq(gpu->event_record(event, weir_stream_handle(s)), GPU_SUCCESS);
        ck_assert_int_eq(gpu->stream_wait_event(copies, event), GPU_SUCCESS);
        gpu->event_destroy(event);
        scene_delay(copies, 1);
        if (is_raw)
            scene_free_on(copies, ptr);
        else
            scene_free(side, ptr);
    }
    ck_assert_uint_lt(gpu->now() - begun, COUNT / 10 * MILLISECOND); /* the host has waited for none of it */
    scene_sync(copies);
    scene_sync(weir_stream_handle(s));
    return gpu->now() - begun;
}

static const struct {
    const char *label, *pool, *bound;
    bool is_raw;
    uint64_t reserved; /* bytes at most, */
    unsigned time;     /* and thousandths of the time that the work takes without a bound */
} movers[] = {
    {"an arena", "backing: arena", "auto", false, 256 * MIB, 1020},
    {"an arena without caches", "backing: arena, cache: off", "auto", false, 256 * MIB, 1020},
    {"an arena, freed on a stream that is not open", "backing: arena", "auto", true, 256 * MIB, 1020},
    {"an arena, by a size", "backing: arena", "128MiB", false, 320 * MIB, 1020},
    {"a pool of CUDA's", "small_below: 0", "auto", false, 256 * MIB, 2000}, /* which waits for the newest copy each time */
    {"a pool of CUDA's, freed on a stream that is not open", "small_below: 0", "auto", true, 256 * MIB, 2000},
    {"a pool of CUDA's, by a size", "small_below: 0", "128MiB", false, 320 * MIB, 2000},
};

START_TEST(memory_that_moves_out_by_another_stream_is_bounded)
{
    char text[512];
    scene_simulate("memory=40GiB");
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s } }\n", movers[_i].pool);
    uint64_t time = move_out(text, movers[_i].is_raw);
    ck_assert_uint_gt(scene_pool_stats("main").reserved_high, 20 * GIB);
    scene_close();
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, reuse: { pending_max: %s } } }\n", movers[_i].pool, movers[_i].bound);
    uint64_t bounded = move_out(text, movers[_i].is_raw);
    ck_assert_uint_le(scene_pool_stats("main").reserved_high, movers[_i].reserved);
    ck_assert_uint_le(bounded, time / 1000 * movers[_i].time);
}
END_TEST

/* Which pools the others are about. */
static const char *const pools[] = {"backing: arena, cache: off, release_threshold: all", "cache: off, small_below: 0, release_threshold: all"};

static void open_bounded(int i, const char *reuse)
{
    char text[512];
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, reuse: { %s } } }\n", pools[i], reuse);
    scene_open(text);
}

/* So many blocks, freed on another stream behind a kernel. */
static void pend(gpu_stream side, int count)
{
    void *blocks[8];
    for (int i = 0; i < count; i++)
        blocks[i] = scene_malloc_on(side, BLOCK);
    scene_delay(side, LONG);
    for (int i = 0; i < count; i++)
        scene_free_on(side, blocks[i]);
}

static void *expect_waits(weir_stream *s, uint64_t size, uint64_t waits, uint64_t reserved)
{
    uint64_t before = sim_calls("stream_wait_event");
    void *ptr = scene_malloc(s, size);
    ck_assert_uint_eq(sim_calls("stream_wait_event") - before, waits);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, reserved);
    return ptr;
}

/* With so many blocks pending, and one idle or not, a request for so many waits or not: in an arena for each block that it needs, in a pool of
   CUDA's for all. */
static const struct bound {
    const char *label, *reuse;
    int pending;
    bool is_idle;
    uint64_t asked; /* blocks, as is `reserved` */
    bool waits;
    uint64_t reserved;
} bounds[] = {
    {"no more than the bound is pending", "pending_max: 128MiB", 2, false, 1, false, 3},
    {"more is", "pending_max: 128MiB", 3, false, 1, true, 3},
    {"as much is idle", "pending_max: 128MiB", 3, true, 1, false, 4},
    {"less than the request is pending", "pending_max: 0", 2, false, 3, false, 5},
    {"the pool grows within a little more than was in use", "pending_max: auto", 4, false, 1, false, 5},
    {"it would not", "pending_max: auto", 4, false, 2, true, 4},
    {"no bound is set", "pending_max: all", 4, false, 2, false, 6},
};

START_TEST(request_waits_where_the_pool_would_grow_beyond_the_bound)
{
    int pool = _i & 1;
    const struct bound *bound = &bounds[_i >> 1];
    open_bounded(pool, bound->reuse);
    weir_stream *s = scene_create(NULL);
    void *idle = bound->is_idle ? scene_malloc(s, BLOCK) : NULL;
    pend(scene_stream(0), bound->pending);
    if (idle) {
        scene_free(s, idle);
        scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    }
    scene_free(s, expect_waits(s, bound->asked * BLOCK, bound->waits * (pool ? 1 : bound->asked), bound->reserved * BLOCK));
}
END_TEST

/* What was freed on it since its last event could be lent by nobody. */
START_TEST(pool_of_cudas_waits_for_no_stream_that_freed_more_since_its_last_event)
{
    open_bounded(1, "pending_max: 0");
    weir_stream *s = scene_create(NULL);
    gpu_stream side = scene_stream(0);
    void *little = scene_malloc_on(side, MIB);
    pend(side, 2);
    scene_free_on(side, little);
    uint64_t reserved = scene_pool_stats("main").reserved;
    scene_free(s, expect_waits(s, BLOCK, 0, reserved + BLOCK));
}
END_TEST

START_TEST(stream_waits_for_nothing_that_the_other_one_uses_again)
{
    open_bounded(0, "pending_max: 0");
    weir_stream *s = scene_create(NULL), *side = scene_create(NULL);
    void *again = scene_malloc(side, BLOCK), *freed = scene_malloc(side, BLOCK);
    scene_delay(weir_stream_handle(side), LONG);
    scene_free(side, again);
    ck_assert_ptr_eq(scene_malloc(side, BLOCK), again);
    scene_free(side, freed);
    scene_free(s, expect_waits(s, BLOCK, 1, 2 * BLOCK));
    scene_free(side, again);
}
END_TEST

START_TEST(reload_sets_the_bound)
{
    char text[512];
    open_bounded(_i, "pending_max: all");
    weir_stream *s = scene_create(NULL);
    pend(scene_stream(0), 2);
    void *first = expect_waits(s, BLOCK, 0, 3 * BLOCK);
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, reuse: { pending_max: 0 } } }\n", pools[_i]);
    scene_reload(text);
    scene_free(s, expect_waits(s, BLOCK, 1, 3 * BLOCK));
    scene_free(s, first);
}
END_TEST

START_TEST(stream_that_waits_works_behind_what_it_was_lent)
{
    open_bounded(_i, "pending_max: 0");
    weir_stream *s = scene_create(NULL);
    pend(scene_stream(0), 2);
    uint64_t begun = scene.gpu->now();
    void *ptr = scene_malloc(s, BLOCK);
    ck_assert_uint_lt(scene.gpu->now() - begun, LONG / 10 * MILLISECOND);
    scene_sync(weir_stream_handle(s));
    ck_assert_uint_ge(scene.gpu->now() - begun, LONG / 10 * 9 * MILLISECOND);
    scene_free(s, ptr);
}
END_TEST

int main(void)
{
    if (!scene_is_sim())
        return suite_skip("only the simulator's clock tells how long streams waited");
    Suite *suite = suite_create("order");
    TCase *tcase = suite_case(suite, "order", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, memory_that_moves_out_by_another_stream_is_bounded, 0, (int)(sizeof movers / sizeof *movers));
    tcase_add_loop_test(tcase, request_waits_where_the_pool_would_grow_beyond_the_bound, 0, 2 * (int)(sizeof bounds / sizeof *bounds));
    tcase_add_loop_test(tcase, reload_sets_the_bound, 0, 2);
    tcase_add_loop_test(tcase, stream_that_waits_works_behind_what_it_was_lent, 0, 2);
    suite_add(tcase, stream_waits_for_nothing_that_the_other_one_uses_again,
              pool_of_cudas_waits_for_no_stream_that_freed_more_since_its_last_event);
    return suite_run(suite);
}
