/* SPDX-License-Identifier: MIT */
/*
 * ahead.c - growth ahead of demand of `release_threshold: auto`: whom it spares growth, its bounds, what comes of a wrong guess, and of
 * failures. By hand, on the simulator's clock.
 */
#include <sched.h>
#include <stdio.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "lib/pool/extend.h"
#include "lib/release/give.h"
#include "tests/api/scene.h"

#define SECOND (1000 * MILLISECOND)
#define LONG (60 * SECOND) /* after which nothing idle is kept any more */
#define GAP (20 * SECOND)  /* after which memory was given back */
#define BLOCK (32 * MIB)
#define BLOCKS 64 /* 2 GiB */
#define POLICY(rest) "weir: 1\nkeeper: true\npools: { main: { small_below: 0, cache: off, " rest " } }\n"
#define AUTO "release_threshold: auto"

static uint64_t reserved(void)
{
    return scene_pool_stats("main").reserved;
}

static weir_stream *open_pool(const char *policy)
{
    scene_open(policy);
    return scene_create(NULL);
}

/* The program: a step uses more and more, and gives back all --------------------------------------------------------------------------- */

static void *blocks[BLOCKS];

/* So much time passes behind each request. Returns how many of them grew the pool. */
static unsigned rise(weir_stream *s, unsigned count, uint64_t each)
{
    unsigned growths = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t before = reserved();
        blocks[i] = scene_malloc(s, BLOCK);
        growths += reserved() > before;
        if (each)
            scene_pass(each);
    }
    return growths;
}

static void fall(weir_stream *s, unsigned count)
{
    weir_error error = WEIR_ERROR_INIT;
    for (unsigned i = 0; i < count; i++)
        scene_free(s, blocks[i]);
    scene_ok(weir_stream_synchronize(s, &error), "synchronize");
}

/* A step, and a gap long enough for all of it to go back. */
static unsigned step(weir_stream *s, unsigned count)
{
    unsigned growths = rise(s, count, 2 * MILLISECOND);
    fall(s, count);
    scene_pass(GAP);
    return growths;
}

static uint64_t grown_ahead(void)
{
    return scene_pool_stats("main").grown_ahead;
}

/* Whom it spares growth ---------------------------------------------------------------------------------------------------------------- */

static const char *const backings[] = {POLICY(AUTO), POLICY("backing: arena, " AUTO),
                                       "weir: 1\nkeeper: true\npools: { main: { cache: off, " AUTO " } }\n"};

START_TEST(requests_of_a_step_that_comes_again_grow_the_pool_no_more)
{
    weir_stream *s = open_pool(backings[_i]);
    void *held = scene_malloc(s, BLOCK);
    ck_assert_uint_eq(step(s, BLOCKS), BLOCKS);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_le(step(s, BLOCKS), 2);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_ge(stats.grown_ahead, 5 * (BLOCKS - 2) * BLOCK);
    ck_assert_uint_eq(stats.ahead_used, stats.grown_ahead);
    ck_assert_uint_eq(stats.reserved, BLOCK);
    scene_free(s, held);
}
END_TEST

START_TEST(fixed_threshold_is_never_grown_ahead)
{
    weir_stream *s = open_pool(POLICY("release_threshold: 64MiB"));
    for (unsigned i = 0; i < 3; i++)
        step(s, BLOCKS);
    ck_assert_uint_eq(grown_ahead(), 0);
}
END_TEST

START_TEST(pool_is_grown_in_pieces_with_pauses)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    rise(s, 8, 0);
    uint64_t last = 0, pieces = 0;
    for (uint64_t due; (due = weir__service_next()) != WEIR__SERVICE_NEVER && pieces < 4;) {
        uint64_t before = reserved();
        weir__service_pass(due);
        uint64_t grown = reserved() - before;
        ck_assert_uint_le(grown, 32 * MIB);
        ck_assert(!grown || !last || due - last >= MILLISECOND / 2);
        last = grown ? scene.gpu->now() : last;
        pieces += grown > 0;
    }
    ck_assert_uint_eq(pieces, 4);
    ck_assert_uint_eq(reserved(), 8 * BLOCK + 4 * 32 * MIB);
    fall(s, 8);
}
END_TEST

START_TEST(keeper_sleeps_until_the_use_rises)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    void *held = scene_malloc(s, BLOCK);
    step(s, BLOCKS);
    scene_pass(LONG);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    ck_assert_uint_eq(reserved(), BLOCK);
    void *risen = scene_malloc(s, BLOCK);
    ck_assert_uint_eq(weir__service_next(), 0);
    scene_free(s, risen);
    scene_free(s, held);
}
END_TEST

/* Its bounds --------------------------------------------------------------------------------------------------------------------------- */

static const char *const bounds[] = {
    POLICY(AUTO),
    POLICY(AUTO ", max_size: 2GiB"),
    POLICY("backing: arena, " AUTO ", max_size: 2GiB"),
    "weir: 1\nkeeper: true\npools: { main: { cache: off, " AUTO ", max_size: 2GiB } }\n",
};

START_TEST(pool_is_grown_no_further_than_its_use_has_risen_and_a_piece)
{
    weir_stream *s = open_pool(bounds[_i]);
    step(s, BLOCKS);
    rise(s, 8, 2 * MILLISECOND);
    scene_pass(100 * MILLISECOND);
    ck_assert_uint_ge(reserved(), 2 * 8 * BLOCK);
    ck_assert_uint_le(reserved(), 2 * 8 * BLOCK + 32 * MIB);
    fall(s, 8);
}
END_TEST

START_TEST(nothing_is_grown_beyond_what_the_program_used_or_a_lower_cap)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    rise(s, BLOCKS - 2, 2 * MILLISECOND);
    scene_pass(100 * MILLISECOND);
    ck_assert_uint_eq(reserved(), BLOCKS * BLOCK);
    fall(s, BLOCKS - 2);
    scene_pass(GAP);
    scene_reload(POLICY(AUTO ", max_size: 1GiB"));
    rise(s, 30, 2 * MILLISECOND);
    scene_pass(100 * MILLISECOND);
    ck_assert_uint_eq(reserved(), GIB);
    fall(s, 30);
}
END_TEST

static void ask_as_neighbour(void)
{
    struct weir__give_request request = {.device = 0, .wanted = 1, .keep = UINT64_MAX, .is_neighbour = true, .deadline = UINT64_MAX};
    struct weir__give *give = weir__give_begin(scene.w, &request);
    while (weir__give_step(give) != WEIR__GIVE_DONE)
        scene_pass(MILLISECOND);
    weir__give_end(give);
}

START_TEST(where_a_neighbour_asked_nothing_is_grown_beyond_keep)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    ask_as_neighbour();
    ck_assert_uint_eq(rise(s, BLOCKS, 2 * MILLISECOND), BLOCKS);
    ck_assert_uint_eq(grown_ahead(), 0);
    fall(s, BLOCKS);
    scene_pass(LONG);
    scene_reload(POLICY(AUTO ", keep: 1GiB"));
    ask_as_neighbour();
    scene_pass(GAP);
    ck_assert_uint_ge(rise(s, BLOCKS, 2 * MILLISECOND), BLOCKS / 2);
    ck_assert_uint_le(grown_ahead(), GIB);
    fall(s, BLOCKS);
}
END_TEST

START_TEST(device_that_is_short_of_memory_is_left_alone)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    void *other;
    gpu_stream stream = scene_stream(0);
    gpu_pool pool;
    ck_assert_int_eq(scene.gpu->pool_get_default(0, &pool), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->malloc_async(&other, 7 * GIB + 736 * MIB, pool, stream), GPU_SUCCESS);
    ck_assert_uint_eq(rise(s, 8, 2 * MILLISECOND), 8);
    ck_assert_uint_eq(grown_ahead(), 0);
    fall(s, 8);
    ck_assert_int_eq(scene.gpu->free_async(other, stream), GPU_SUCCESS);
    scene_sync(stream);
}
END_TEST

/* Captures that no call but a relaxed one survives. */
START_TEST(captures_beside_it_go_on)
{
    weir_stream *s = open_pool(backings[_i]);
    step(s, BLOCKS);
    gpu_stream stream = scene_stream(0);
    size_t nodes;
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    rise(s, BLOCKS, 2 * MILLISECOND);
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    ck_assert_uint_ge(grown_ahead(), GIB);
    fall(s, BLOCKS);
}
END_TEST

/* What comes of it --------------------------------------------------------------------------------------------------------------------- */

START_TEST(wrong_guess_goes_back_and_is_not_made_again)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    void *held = scene_malloc(s, 256 * MIB);
    scene_pass(100 * MILLISECOND);
    ck_assert_uint_ge(reserved(), 256 * MIB + 64 * MIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 256 * MIB);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_ge(stats.grown_ahead, 64 * MIB);
    ck_assert_uint_eq(stats.ahead_used, 0);
    scene_free(s, held);
    scene_pass(LONG);
    held = scene_malloc(s, 256 * MIB);
    scene_pass(SECOND);
    ck_assert_uint_eq(grown_ahead(), stats.grown_ahead);
    scene_free(s, held);
}
END_TEST

/* Each second time it hardly rises. */
START_TEST(program_that_cannot_be_guessed_wastes_little)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    for (unsigned i = 0; i < 10; i++) {
        step(s, BLOCKS);
        rise(s, 2, 0);
        scene_pass(100 * MILLISECOND);
        fall(s, 2);
        scene_pass(GAP);
    }
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_le(stats.grown_ahead - stats.ahead_used, 10 * 128 * MIB + 64 * MIB);
    ck_assert_uint_eq(stats.reserved, 0);
}
END_TEST

START_TEST(reload_ends_it_and_begins_it_anew)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    scene_reload(POLICY("release_threshold: all"));
    ck_assert_uint_eq(step(s, BLOCKS), BLOCKS);
    ck_assert_uint_eq(grown_ahead(), 0);
    scene_reload(POLICY(AUTO));
    scene_pass(LONG);
    step(s, BLOCKS);
    ck_assert_uint_le(step(s, BLOCKS), 2);
}
END_TEST

#define NO_KEEPER "weir: 1\npools: { main: { small_below: 0, cache: off, release_threshold: all } }\n"

START_TEST(keeper_that_goes_between_two_pieces_grows_the_pool_again_when_it_is_back)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    rise(s, 8, 0);
    scene_pass(0);
    ck_assert_uint_gt(grown_ahead(), 0);
    ck_assert_uint_ne(weir__service_next(), WEIR__SERVICE_NEVER);
    scene_reload(NO_KEEPER);
    fall(s, 8);
    scene_reload(POLICY(AUTO));
    scene_pass(LONG);
    step(s, BLOCKS);
    ck_assert_uint_le(step(s, BLOCKS), 2);
}
END_TEST

/* Time passes while the keeper looks. */
START_TEST(what_is_used_while_an_epoch_ends_is_no_wrong_guess)
{
    scene_simulate("pool_get=1us");
    weir__service_by_hand(scene.gpu);
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    step(s, BLOCKS);
    unsigned growths = rise(s, BLOCKS, 100 * MILLISECOND);
    ck_assert_uint_le(growths, 2);
    fall(s, BLOCKS);
}
END_TEST

/* Failures ----------------------------------------------------------------------------------------------------------------------------- */

static const char *const calls[] = {"stream_create", "malloc_async", "free_async", "pool_get",      "event_create",    "event_record",
                                    "event_query",   "page_create",  "page_map",   "device_memory", "page_set_access", "event_synchronize"};
#define CALL_COUNT (sizeof calls / sizeof calls[0])

/* Only the keeper calls CUDA while the call fails. */
START_TEST(failing_call_is_nothing_to_the_program_and_is_tried_again_later)
{
    const char *call = calls[(size_t)_i % CALL_COUNT];
    for (unsigned nth = 1; nth <= 6; nth++) {
        weir_stream *s = open_pool(backings[(size_t)_i / CALL_COUNT]);
        step(s, BLOCKS);
        rise(s, 8, 0);
        unsigned logged = atomic_load(&scene.log_lines);
        sim_fail(call, nth, GPU_UNKNOWN);
        scene_pass(2 * MILLISECOND);
        sim_fail(call, 0, 0);
        ck_assert_uint_eq(atomic_load(&scene.log_lines), logged);
        weir_pool_stats stats = scene_pool_stats("main");
        ck_assert_uint_eq(stats.live, 8 * BLOCK);
        ck_assert_uint_eq(stats.used, 8 * BLOCK);
        fall(s, 8);
        scene_pass(LONG);
        ck_assert_uint_le(reserved(), 32 * MIB);
        step(s, BLOCKS);
        ck_assert_uint_le(step(s, BLOCKS), 3);
        scene_close();
    }
}
END_TEST

START_TEST(failures_that_go_on_are_tried_less_and_less)
{
    weir_stream *s = open_pool(POLICY(AUTO));
    step(s, BLOCKS);
    uint64_t tries = 0;
    for (unsigned i = 0; i < 100; i++) {
        rise(s, 4, 0);
        uint64_t before = sim_calls("malloc_async");
        sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
        scene_pass(10 * MILLISECOND);
        sim_fail("malloc_async", 0, 0);
        tries += sim_calls("malloc_async") - before;
        fall(s, 4);
        scene_pass(SECOND);
    }
    ck_assert_uint_ge(tries, 4);
    ck_assert_uint_le(tries, 8);
    ck_assert_uint_eq(grown_ahead(), 0);
}
END_TEST

/* Beside the program ------------------------------------------------------------------------------------------------------------------ */

#define LEAST_GROWN (512 * MIB)
#define CAPPED "release_threshold: auto, max_size: 1GiB, on_oom: { steps: [] }"
static const char *const capped[] = {POLICY(CAPPED), POLICY("backing: arena, " CAPPED),
                                     "weir: 1\nkeeper: true\npools: { main: { cache: off, " CAPPED " } }\n"};

/* The service thread grows the pool while requests take all of it up to its cap, each of which fits. Nothing but time makes an epoch end,
   so this takes some. */
START_TEST(requests_up_to_the_cap_never_fail_beside_it)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = open_pool(capped[_i]);
    uint64_t deadline = gpu_clock_now() + 25 * SECOND;
    while (grown_ahead() < LEAST_GROWN && gpu_clock_now() < deadline) {
        for (unsigned i = 0; i < GIB / BLOCK; i++) {
            blocks[i] = scene_malloc(s, BLOCK);
            sched_yield();
        }
        fall(s, GIB / BLOCK);
        scene_ok(weir_pool_trim(scene.pool, 0, &error, NULL), "trim");
    }
    ck_assert_uint_ge(grown_ahead(), LEAST_GROWN);
}
END_TEST

/* A GPU of which the program trims the pool once the keeper has taken its first piece of what is idle. No other thread may look at it. */
static struct gpu trimmer;

static int trimming_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    weir_error error = WEIR_ERROR_INIT;
    int code = scene.gpu->malloc_async(ptr, size, pool, stream);
    scene.w->gpu = scene.gpu;
    scene_ok(weir_pool_trim(scene.pool, 0, &error, NULL), "trim");
    return code;
}

START_TEST(what_is_trimmed_beside_it_is_not_grown_again)
{
    trimmer = *scene.gpu;
    trimmer.malloc_async = trimming_malloc_async;
    weir_stream *s = open_pool(POLICY("release_threshold: all"));
    rise(s, 6, 0);
    fall(s, 6);
    ck_assert_uint_eq(reserved(), 6 * BLOCK);
    scene.w->gpu = &trimmer;
    ck_assert_uint_eq(weir__pool_extend(scene.pool, 2 * BLOCK, scene_stream(0)), 0);
    ck_assert_uint_eq(reserved(), 2 * BLOCK);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why || !scene_is_sim())
        return suite_skip(why ? why : "a GPU has its own clock; WEIR_TEST_GPU=sim runs on the simulator");
    Suite *suite = suite_create("growth ahead of demand");
    TCase *spared = suite_case(suite, "growth", 0);
    tcase_add_checked_fixture(spared, scene_begin_by_hand, scene_end_by_hand);
    tcase_add_loop_test(spared, requests_of_a_step_that_comes_again_grow_the_pool_no_more, 0, (int)(sizeof backings / sizeof backings[0]));
    suite_add(spared, fixed_threshold_is_never_grown_ahead, pool_is_grown_in_pieces_with_pauses, keeper_sleeps_until_the_use_rises);
    TCase *limits = suite_case(suite, "bounds", 0);
    tcase_add_checked_fixture(limits, scene_begin_by_hand, scene_end_by_hand);
    tcase_add_loop_test(limits, pool_is_grown_no_further_than_its_use_has_risen_and_a_piece, 0, (int)(sizeof bounds / sizeof bounds[0]));
    suite_add(limits, nothing_is_grown_beyond_what_the_program_used_or_a_lower_cap, where_a_neighbour_asked_nothing_is_grown_beyond_keep,
              device_that_is_short_of_memory_is_left_alone);
    tcase_add_loop_test(limits, captures_beside_it_go_on, 0, (int)(sizeof backings / sizeof backings[0]));
    TCase *after = suite_case(suite, "afterwards", 0);
    tcase_add_checked_fixture(after, scene_begin_by_hand, scene_end_by_hand);
    suite_add(after, wrong_guess_goes_back_and_is_not_made_again, program_that_cannot_be_guessed_wastes_little,
              reload_ends_it_and_begins_it_anew, keeper_that_goes_between_two_pieces_grows_the_pool_again_when_it_is_back,
              what_is_used_while_an_epoch_ends_is_no_wrong_guess);
    TCase *failures = suite_case(suite, "failures", 0);
    tcase_add_checked_fixture(failures, scene_begin_by_hand, scene_end_by_hand);
    tcase_add_loop_test(failures, failing_call_is_nothing_to_the_program_and_is_tried_again_later, 0, (int)(CALL_COUNT * 2));
    suite_add(failures, failures_that_go_on_are_tried_less_and_less, what_is_trimmed_beside_it_is_not_grown_again);
    TCase *beside = suite_case(suite, "beside the program", 60);
    tcase_add_checked_fixture(beside, scene_begin, scene_end);
    tcase_add_loop_test(beside, requests_up_to_the_cap_never_fail_beside_it, 0, (int)(sizeof capped / sizeof capped[0]));
    return suite_run(suite);
}
