/* SPDX-License-Identifier: MIT */
/*
 * give.c - what a weir gives to a neighbour or an operator, step by step, and what the last rung of the ladder asks of whoever knows
 * neighbours. Other processes have no part in it (tests/share/neighbours.c). Runs on the simulator and on a GPU.
 */
#include <stdio.h>
#include <string.h>

#include "lib/alloc/stream.h"
#include "lib/base/service.h"
#include "lib/gpu/sim.h"
#include "lib/recover/recover.h"
#include "lib/release/give.h"
#include "tests/api/scene.h"

#define SECOND (UINT64_C(1) * 1000000000)

static const char plain[] = "weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off } }\n";

/* Runs a request to its end; the GPU's time goes on between the steps. */
static uint64_t run(struct weir__give_request request)
{
    struct weir__give *give = weir__give_begin(scene.w, &request);
    ck_assert_ptr_nonnull(give);
    while (weir__give_step(give) != WEIR__GIVE_DONE)
        scene.gpu->pause(MILLISECOND);
    uint64_t bytes = weir__give_bytes(give);
    weir__give_end(give);
    return bytes;
}

static struct weir__give_request neighbours(uint64_t wanted)
{
    return (struct weir__give_request){
        .keep = WEIR__GIVE_POLICY_KEEP, .wanted = wanted, .deadline = weir__service_now() + 60 * SECOND, .is_neighbour = true
    };
}

static uint64_t reserved(const char *pool)
{
    return scene_pool_stats(pool).reserved;
}

/* Leaves so much idle, in pieces of so much. */
static void leave_idle(weir_stream *s, uint64_t bytes, uint64_t piece)
{
    void *blocks[64];
    size_t count = bytes / piece;
    ck_assert_uint_le(count, 64);
    for (size_t i = 0; i < count; i++)
        blocks[i] = scene_malloc(s, piece);
    for (size_t i = 0; i < count; i++)
        scene_free(s, blocks[i]);
    scene_sync(weir_stream_handle(s));
}

/* Giving --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(idle_memory_is_given)
{
    scene_open(plain);
    leave_idle(scene_create(NULL), 512 * MIB, 512 * MIB);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 512 * MIB);
    ck_assert_uint_eq(reserved("main"), 0);
}
END_TEST

START_TEST(live_memory_is_never_given)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *live = scene_malloc(s, 256 * MIB);
    leave_idle(s, 512 * MIB, 512 * MIB);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 512 * MIB);
    ck_assert_uint_eq(reserved("main"), 256 * MIB);
    scene_free(s, live);
}
END_TEST

START_TEST(no_more_is_given_than_is_wanted)
{
    scene_open(plain);
    leave_idle(scene_create(NULL), 1024 * MIB, 64 * MIB);
    ck_assert_uint_eq(run(neighbours(192 * MIB)), 192 * MIB);
    ck_assert_uint_eq(reserved("main"), 832 * MIB);
}
END_TEST

/* However large the pieces are in which the GPU gives memory back. */
START_TEST(of_large_blocks_no_more_than_one_is_given)
{
    scene_open(plain);
    leave_idle(scene_create(NULL), 1024 * MIB, 512 * MIB);
    uint64_t gave = run(neighbours(64 * MIB));
    ck_assert_uint_ge(gave, 64 * MIB);
    ck_assert_uint_le(gave, 512 * MIB);
}
END_TEST

/* In one pool, or in several together. */
START_TEST(a_step_gives_4_gib)
{
    scene_simulate("memory=32GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { " ALONE ", small_below: 0, cache: off }, other: { " ALONE
               ", small_below: 0, cache: off } }\nstreams: { second: { pool: other } }\n");
    leave_idle(scene_create(NULL), (_i ? 5 : 10) * GIB, 512 * MIB);
    if (_i)
        leave_idle(scene_create("second"), 5 * GIB, 512 * MIB);
    struct weir__give_request request = neighbours(UINT64_MAX);
    struct weir__give *give = weir__give_begin(scene.w, &request);
    for (uint64_t step = 1; step <= 3; step++) {
        ck_assert_int_eq(weir__give_step(give) == WEIR__GIVE_DONE, step == 3);
        ck_assert_uint_eq(weir__give_bytes(give), step < 3 ? step * 4 * GIB : 10 * GIB);
    }
    weir__give_end(give);
}
END_TEST

START_TEST(request_for_everything_ends_although_the_program_goes_on)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    leave_idle(s, 512 * MIB, 64 * MIB);
    struct weir__give_request request = { .device = -1, .wanted = UINT64_MAX, .deadline = UINT64_MAX };
    struct weir__give *give = weir__give_begin(scene.w, &request);
    for (int step = 0; weir__give_step(give) != WEIR__GIVE_DONE; step++) {
        ck_assert_int_lt(step, 20);
        leave_idle(s, 512 * MIB, 64 * MIB);
    }
    weir__give_end(give);
}
END_TEST

START_TEST(keep_of_the_policy_stays)
{
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off, keep: 128MiB } }\n");
    leave_idle(scene_create(NULL), 512 * MIB, 64 * MIB);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 384 * MIB);
    ck_assert_uint_eq(reserved("main"), 128 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").keep, 128 * MIB);
}
END_TEST

START_TEST(keep_all_gives_nothing)
{
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off, keep: all } }\n");
    leave_idle(scene_create(NULL), 512 * MIB, 64 * MIB);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 0);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 0);
}
END_TEST

START_TEST(operator_says_what_is_kept)
{
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off, keep: all } }\n");
    leave_idle(scene_create(NULL), 512 * MIB, 64 * MIB);
    struct weir__give_request request = { .device = -1, .keep = 64 * MIB, .wanted = UINT64_MAX, .deadline = UINT64_MAX };
    ck_assert_uint_eq(run(request), 448 * MIB);
    ck_assert_uint_eq(scene_device_stats(0).asks_received, 0);
}
END_TEST

START_TEST(operator_names_a_pool_and_others_keep_theirs)
{
    scene_open("weir: 1\ndefaults: { pool: a }\npools:\n  a: { small_below: 0, cache: off }\n  b: { small_below: 0, cache: off }\n"
               "streams: { b: { pool: b } }\n");
    leave_idle(scene_create(NULL), 128 * MIB, 64 * MIB);
    leave_idle(scene_create("b"), 128 * MIB, 64 * MIB);
    struct weir__give_request request = { .device = -1, .pool = "b", .wanted = UINT64_MAX, .deadline = UINT64_MAX };
    ck_assert_uint_eq(run(request), 128 * MIB);
    ck_assert_uint_eq(reserved("a"), 128 * MIB);
    ck_assert_uint_eq(reserved("b"), 0);
}
END_TEST

START_TEST(cached_blocks_are_given)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: { largest: 64MiB, per_stream: 1GiB, per_device: 1GiB } } }\n");
    leave_idle(scene_create(NULL), 256 * MIB, 32 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 256 * MIB);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 256 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
}
END_TEST

START_TEST(caches_are_left_alone_where_idle_memory_is_enough)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: { largest: 64MiB, per_stream: 1GiB, per_device: 1GiB } } }\n");
    weir_stream *s = scene_create(NULL);
    leave_idle(s, 256 * MIB, 32 * MIB);
    leave_idle(s, 512 * MIB, 256 * MIB);
    ck_assert_uint_eq(run(neighbours(512 * MIB)), 512 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 256 * MIB);
}
END_TEST

START_TEST(pending_free_is_waited_for_and_given)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *block = scene_malloc(s, 512 * MIB);
    scene_delay(weir_stream_handle(s), 50);
    scene_free(s, block);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 512 * MIB);
}
END_TEST

START_TEST(pending_free_on_a_stream_that_is_not_open_is_waited_for)
{
    scene_open(plain);
    gpu_stream s = scene_stream(0);
    uint64_t size = scene_share(25);
    void *block = scene_malloc_on(s, size);
    scene_delay(s, 50);
    scene_free_on(s, block);
    ck_assert_uint_ge(run(neighbours(UINT64_MAX)), size);
}
END_TEST

START_TEST(what_is_complete_is_given_before_what_is_not)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL), *slow = scene_create(NULL);
    void *block = scene_malloc(s, 256 * MIB), *late = scene_malloc(slow, 256 * MIB);
    scene_delay(weir_stream_handle(slow), 200);
    scene_free(slow, late);
    scene_free(s, block);
    ck_assert_uint_eq(run(neighbours(256 * MIB)), 256 * MIB);
    ck_assert_uint_eq(reserved("main"), 256 * MIB);
    scene_sync(weir_stream_handle(slow));
}
END_TEST

START_TEST(nothing_is_waited_for_beyond_the_deadline)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *block = scene_malloc(s, 512 * MIB);
    scene_delay(weir_stream_handle(s), 200);
    scene_free(s, block);
    struct weir__give_request request = neighbours(UINT64_MAX);
    request.deadline = 0;
    ck_assert_uint_eq(run(request), 0);
    ck_assert_uint_eq(reserved("main"), 512 * MIB);
}
END_TEST

START_TEST(request_that_is_dropped_half_way_leaves_nothing)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    void *block = scene_malloc(s, 512 * MIB);
    scene_delay(weir_stream_handle(s), 50);
    scene_free(s, block);
    struct weir__give_request request = neighbours(UINT64_MAX);
    struct weir__give *give = weir__give_begin(scene.w, &request);
    ck_assert_uint_ne(weir__give_step(give), WEIR__GIVE_DONE);
    weir__give_end(give); /* scene_end() looks for events that are left */
}
END_TEST

START_TEST(pool_whose_stream_captures_is_left_alone)
{
    scene_open("weir: 1\ndefaults: { pool: a }\npools:\n  a: { small_below: 0, cache: off }\n  b: { small_below: 0, cache: off }\n"
               "streams: { b: { pool: b } }\n");
    weir_stream *a = scene_create(NULL), *b = scene_create("b");
    size_t nodes;
    leave_idle(a, 128 * MIB, 64 * MIB);
    leave_idle(b, 64 * MIB, 64 * MIB);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(a), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 64 * MIB);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 64 * MIB);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(a), &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(reserved("a"), 128 * MIB);
}
END_TEST

START_TEST(offer_is_what_is_reserved_and_not_live_less_what_is_kept)
{
    scene_open("weir: 1\npools: { main: { " ALONE ", small_below: 0, cache: off, keep: 320MiB } }\n");
    weir_stream *s = scene_create(NULL);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 0);
    void *live = scene_malloc(s, 256 * MIB);
    leave_idle(s, 512 * MIB, 256 * MIB);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 448 * MIB);
    scene_free(s, live);
}
END_TEST

START_TEST(offer_of_an_arena_is_no_more_than_is_given)
{
    void *blocks[64];
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { backing: arena, cache: off } }\n");
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < 64; i++)
        blocks[i] = scene_malloc(s, (i % 7 + 1) * MIB);
    for (size_t i = 0; i < 64; i += 2)
        scene_free(s, blocks[i]);
    scene_sync(weir_stream_handle(s));
    uint64_t offer = weir__give_offer(scene.w, 0, NULL);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), offer);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 0);
    for (size_t i = 1; i < 64; i += 2)
        scene_free(s, blocks[i]);
}
END_TEST

/* A program may allocate from the CUDA pool by itself. */
START_TEST(what_others_have_of_the_pool_is_not_offered)
{
    void *block;
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = weir_stream_handle(s);
    leave_idle(s, 512 * MIB, 256 * MIB);
    ck_assert_int_eq(scene.gpu->malloc_async(&block, 256 * MIB, scene.pool->native.handle, stream), GPU_SUCCESS);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 256 * MIB);
    ck_assert_int_eq(scene.gpu->free_async(block, stream), GPU_SUCCESS);
    scene_sync(stream);
}
END_TEST

START_TEST(pool_is_left_alone_whichever_of_many_streams_captures)
{
    size_t nodes;
    scene_open(plain);
    weir_stream *capturing = scene_create(NULL);
    for (int i = 0; i < 300; i++) {
        weir_stream *s = scene_create(NULL);
        scene_free(s, scene_malloc(s, MIB));
    }
    leave_idle(capturing, 512 * MIB, 256 * MIB);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(capturing), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 0);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(capturing), &nodes), GPU_SUCCESS);
}
END_TEST

START_TEST(requests_and_gifts_are_counted)
{
    scene_open(plain);
    weir_stream *s = scene_create(NULL);
    leave_idle(s, 128 * MIB, 64 * MIB);
    run(neighbours(64 * MIB));
    run(neighbours(UINT64_MAX));
    weir_device_stats stats = scene_device_stats(0);
    ck_assert_uint_eq(stats.asks_received, 2);
    ck_assert_uint_eq(stats.bytes_given, 128 * MIB);
}
END_TEST

START_TEST(host_memory_is_no_neighbours_but_an_operators)
{
    scene_open("weir: 1\npools: { main: { location: host, small_below: 0, cache: off } }\n");
    leave_idle(scene_create(NULL), 128 * MIB, 64 * MIB);
    ck_assert_uint_eq(weir__give_offer(scene.w, 0, NULL), 0);
    ck_assert_uint_eq(run(neighbours(UINT64_MAX)), 0);
    struct weir__give_request request = { .device = -1, .wanted = UINT64_MAX, .deadline = UINT64_MAX };
    ck_assert_uint_eq(run(request), 128 * MIB);
}
END_TEST

/* The rung ------------------------------------------------------------------------------------------------------------------------------- */

static struct {
    unsigned pleas;
    struct weir__plea seen;
    weir_stream *s; /* frees this there, */
    void *block;    /* as a neighbour would: nobody else has it */
} helper;

static void help(struct weir__plea *plea)
{
    helper.pleas++;
    helper.seen = *plea;
    snprintf(plea->note, sizeof plea->note, "a note");
    if (!helper.block)
        return;
    plea->gave = 5;
    scene_free(helper.s, helper.block);
    scene_sync(weir_stream_handle(helper.s));
    helper.block = NULL;
    ck_assert(plea->retry(plea));
}

static void open_with_helper(const char *policy)
{
    scene_open(policy);
    memset(&helper, 0, sizeof helper);
    scene.w->neighbours = help;
    helper.s = scene_create(NULL);
}

START_TEST(neighbours_are_the_last_rung)
{
    open_with_helper(plain);
    helper.block = scene_malloc(helper.s, scene_share(70));
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, scene_share(60));
    ck_assert_uint_eq(helper.pleas, 1);
    ck_assert_uint_eq(helper.seen.size, scene_share(60));
    ck_assert_ptr_eq(helper.seen.device, &scene.w->devices[0]);
    ck_assert_uint_gt(helper.seen.time_left, 0);
    scene_rescues(WEIR_RUNG_NEIGHBOURS, 1, 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(report_says_what_neighbours_had)
{
    open_with_helper(plain);
    void *ptr = scene_malloc(helper.s, scene_share(70)), *none = NULL;
    ck_assert_int_eq(weir_stream_malloc(helper.s, &none, scene_share(60)), WEIR_OUT_OF_MEMORY);
    weir_error error;
    weir_last_error(&error);
    ck_assert_uint_eq(helper.pleas, 1);
    ck_assert_ptr_nonnull(strstr(error.text, "gave nothing: flush, wait, trim, callbacks, neighbours\n"));
    ck_assert_ptr_nonnull(strstr(error.text, "\n  a note"));
    scene_free(helper.s, ptr);
}
END_TEST

/* One request that has no room, and does not get to the neighbours. */
static void ask_in_vain(const char *policy, uint64_t taken, uint64_t size)
{
    open_with_helper(policy);
    void *ptr = scene_malloc(helper.s, taken), *none = NULL;
    ck_assert_int_eq(weir_stream_malloc(helper.s, &none, size), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(helper.pleas, 0);
    scene_free(helper.s, ptr);
}

START_TEST(neighbours_are_not_asked_where_the_policy_leaves_them_out)
{
    ask_in_vain("weir: 1\npools: { main: { small_below: 0, on_oom: { steps: [flush, wait, trim, callbacks] } } }\n", scene_share(70),
                scene_share(60));
}
END_TEST

START_TEST(neighbours_are_not_asked_at_a_cap)
{
    ask_in_vain("weir: 1\npools: { main: { small_below: 0, max_size: 256MiB } }\n", 192 * MIB, 128 * MIB);
}
END_TEST

/* On the simulator, which says that there is none. */
START_TEST(neighbours_are_not_asked_for_memory_of_the_host)
{
    void *none = NULL;
    open_with_helper("weir: 1\npools: { main: { location: host, cache: off, on_oom: { steps: [neighbours] } } }\n");
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_stream_malloc(helper.s, &none, 64 * MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(helper.pleas, 0);
}
END_TEST

int main(void)
{
    const char *why_not = scene_why_not();
    if (why_not)
        return suite_skip(why_not);
    Suite *suite = suite_create("give");
    TCase *giving = suite_case(suite, "giving", 60), *rung = suite_case(suite, "rung", 60);
    tcase_add_checked_fixture(giving, scene_begin, scene_end);
    tcase_add_checked_fixture(rung, scene_begin, scene_end);

    suite_add(giving, idle_memory_is_given, live_memory_is_never_given, no_more_is_given_than_is_wanted,
              of_large_blocks_no_more_than_one_is_given);
    tcase_add_loop_test(giving, a_step_gives_4_gib, 0, 2);
    suite_add(giving, request_for_everything_ends_although_the_program_goes_on, keep_of_the_policy_stays, keep_all_gives_nothing,
              operator_says_what_is_kept, operator_names_a_pool_and_others_keep_theirs, cached_blocks_are_given,
              caches_are_left_alone_where_idle_memory_is_enough, pending_free_is_waited_for_and_given,
              pending_free_on_a_stream_that_is_not_open_is_waited_for, what_is_complete_is_given_before_what_is_not,
              nothing_is_waited_for_beyond_the_deadline, request_that_is_dropped_half_way_leaves_nothing,
              pool_whose_stream_captures_is_left_alone, offer_is_what_is_reserved_and_not_live_less_what_is_kept, offer_of_an_arena_is_no_more_than_is_given,
              what_others_have_of_the_pool_is_not_offered, pool_is_left_alone_whichever_of_many_streams_captures,
              requests_and_gifts_are_counted, host_memory_is_no_neighbours_but_an_operators);

    suite_add(rung, neighbours_are_the_last_rung, report_says_what_neighbours_had,
              neighbours_are_not_asked_where_the_policy_leaves_them_out, neighbours_are_not_asked_at_a_cap);
    if (scene_is_sim())
        suite_add(rung, neighbours_are_not_asked_for_memory_of_the_host);
    return suite_run(suite);
}
