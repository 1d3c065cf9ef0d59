/* SPDX-License-Identifier: MIT */
/* What caches hold at most: per stream, per device, and who has to make room. Runs on the simulator and on a GPU. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/api/cache.h"

#define SOME 96 /* blocks of 64 KiB, which is more than any cache here may hold */

/* Without the check most frees take another, shorter path. */
static const char *const checks[] = { "true", "false" };

static void open_bounded(const char *bounds, int check)
{
    char cache[256];
    snprintf(cache, sizeof cache, "{ %s, capture_check: %s }", bounds, checks[check]);
    cache_open(cache);
}

static weir_pool *other_pool(void)
{
    weir_pool *pool;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &pool), "weir_pool_get");
    return pool;
}

START_TEST(cache_never_holds_more_than_per_stream)
{
    void *ptrs[SOME];
    uint64_t most = 0;
    open_bounded("per_stream: 1MiB", _i);
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < SOME; i++)
        ptrs[i] = scene_malloc(s, 64 * KIB);
    for (size_t i = 0; i < SOME; i++) {
        scene_free(s, ptrs[i]);
        uint64_t cached = cache_bytes("main");
        ck_assert_uint_le(cached, MIB);
        most = cached > most ? cached : most;
    }
    ck_assert_uint_eq(most, MIB);
}
END_TEST

START_TEST(cache_never_holds_more_than_per_stream_of_mixed_sizes)
{
    void *ptrs[SOME];
    open_bounded("per_stream: 1MiB", _i);
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < SOME; i++)
        ptrs[i] = scene_malloc(s, 1 + i * i * 7919 % (300 * KIB));
    for (size_t i = 0; i < SOME; i++) {
        scene_free(s, ptrs[i]);
        ck_assert_uint_le(cache_bytes("main"), MIB);
    }
}
END_TEST

START_TEST(each_stream_may_hold_per_stream)
{
    cache_open("{ per_stream: 1MiB }");
    for (unsigned i = 1; i <= 3; i++) {
        cache_fill_many(scene_create(NULL), 64 * KIB, 32);
        ck_assert_uint_eq(cache_bytes("main"), i * MIB);
    }
}
END_TEST

START_TEST(all_caches_together_never_hold_more_than_per_device)
{
    void *ptrs[4][SOME];
    weir_stream *streams[4];
    open_bounded("per_stream: 2MiB, per_device: 3MiB", _i);
    for (size_t s = 0; s < 4; s++) {
        streams[s] = scene_create(NULL);
        for (size_t i = 0; i < SOME; i++)
            ptrs[s][i] = scene_malloc(streams[s], 64 * KIB);
    }
    for (size_t i = 0; i < SOME; i++)
        for (size_t s = 0; s < 4; s++) {
            scene_free(streams[s], ptrs[s][i]);
            ck_assert_uint_le(cache_bytes("main"), 3 * MIB);
        }
    ck_assert_uint_eq(cache_bytes("main"), 3 * MIB);
}
END_TEST

START_TEST(pools_have_a_per_device_of_their_own)
{
    cache_open("{ per_stream: 1MiB, per_device: 1MiB }");
    cache_fill_many(scene_create(NULL), 64 * KIB, 32);
    cache_fill_many(scene_create("side"), 64 * KIB, 32);
    ck_assert_uint_eq(cache_bytes("main"), MIB);
    ck_assert_uint_eq(cache_bytes("other"), 2 * MIB);
}
END_TEST

START_TEST(stream_takes_the_room_that_a_closed_one_had)
{
    cache_open("{ per_stream: 2MiB, per_device: 2MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 32);
    cache_fill_many(b, 64 * KIB, 1);
    ck_assert_uint_eq(cache_bytes("main"), 2 * MIB);
    weir_stream_close(a);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    cache_fill_many(b, 64 * KIB, 32);
    ck_assert_uint_eq(cache_bytes("main"), 2 * MIB);
}
END_TEST

START_TEST(stream_takes_the_room_that_a_trim_left)
{
    cache_open("{ per_stream: 2MiB, per_device: 2MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 32);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    cache_fill_many(b, 64 * KIB, 32);
    ck_assert_uint_eq(cache_bytes("main"), 2 * MIB);
}
END_TEST

/* A stream whose blocks are all in use gives up what it was granted for them when it next finds its cache empty, but for 2 MiB. */
START_TEST(stream_takes_the_room_that_another_does_not_need_any_more)
{
    void *ptrs[SOME];
    cache_open("{ per_stream: 6MiB, per_device: 6MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, SOME);
    ck_assert_uint_eq(cache_bytes("main"), 6 * MIB);
    for (size_t i = 0; i < SOME; i++)
        ptrs[i] = scene_malloc(a, 64 * KIB);
    void *more = scene_malloc(a, 64 * KIB);
    cache_fill_many(b, 64 * KIB, SOME);
    ck_assert_uint_ge(cache_bytes("main"), 4 * MIB);
    for (size_t i = 0; i < SOME; i++)
        scene_free(a, ptrs[i]);
    scene_free(a, more);
    ck_assert_uint_eq(cache_bytes("main"), 6 * MIB);
}
END_TEST

START_TEST(block_that_finds_no_room_at_all_goes_to_cuda)
{
    cache_open("{ per_stream: 1MiB, per_device: 1MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 16);
    void *ptr = scene_malloc(b, 64 * KIB);
    uint64_t used = scene_pool_stats("main").used;
    scene_free(b, ptr);
    ck_assert_uint_eq(cache_bytes("main"), MIB);
    ck_assert_uint_eq(scene_pool_stats("main").used, used - 64 * KIB);
}
END_TEST

/* Who has the room that there is ------------------------------------------------------------------------------------------------------- */

/* So many pairs, of a block of each of `blocks` in turn, all of them live at first. Returns how many were served from the cache. */
static uint64_t pairs(weir_stream *s, unsigned blocks, unsigned count)
{
    void *ptrs[SOME];
    ck_assert_uint_le(blocks, SOME);
    for (unsigned i = 0; i < blocks; i++)
        ptrs[i] = scene_malloc(s, 64 * KIB);
    uint64_t before = cache_hits("main");
    for (unsigned i = 0; i < count; i++) {
        scene_free(s, ptrs[i % blocks]);
        ptrs[i % blocks] = scene_malloc(s, 64 * KIB);
    }
    uint64_t hits = cache_hits("main") - before;
    for (unsigned i = 0; i < blocks; i++)
        scene_free(s, ptrs[i]);
    return hits;
}

/* After which a stream that kept nothing is idle, for whoever has looked before. */
#define IDLE (1001 * MILLISECOND)

/* The first refusals see who is at work, the next ones who still is. */
static uint64_t pairs_later(weir_stream *s, unsigned blocks, unsigned count)
{
    pairs(s, blocks, 2 * blocks);
    scene.gpu->pause(IDLE);
    return pairs(s, blocks, count);
}

START_TEST(ninth_stream_is_served_although_eight_that_are_idle_have_all)
{
    cache_open("on");
    for (unsigned i = 0; i < 8; i++)
        cache_fill_many(scene_create(NULL), MIB, 64);
    ck_assert_uint_eq(cache_bytes("main"), 512 * MIB);
    uint64_t hits = pairs_later(scene_create(NULL), 1, 1000);
    ck_assert_msg(hits >= 990, "%" PRIu64 " hits", hits);
    ck_assert_uint_le(cache_bytes("main"), 512 * MIB);
    scene_pool_stats("main");
}
END_TEST

/* What one idle stream has is not enough, so that another one gives its part as well. */
START_TEST(stream_gets_all_that_idle_ones_have)
{
    cache_open("{ per_stream: 4MiB, per_device: 4MiB }");
    for (unsigned i = 0; i < 4; i++)
        cache_fill_many(scene_create(NULL), 16 * KIB, 64);
    ck_assert_uint_eq(cache_bytes("main"), 4 * MIB);
    weir_stream *s = scene_create(NULL);
    pairs_later(s, 64, 0);
    uint64_t hits = pairs(s, 64, 1000);
    ck_assert_msg(hits >= 900, "%" PRIu64 " hits", hits);
}
END_TEST

START_TEST(stream_that_kept_a_block_within_the_second_keeps_all)
{
    cache_open("{ per_stream: 1MiB, per_device: 1MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 16);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_uint_eq(pairs(b, 1, 100), 0);
        scene.gpu->pause(IDLE * 4 / 5);
        ck_assert_uint_eq(pairs(b, 1, 100), 0);
        scene_free(a, scene_malloc(a, 64 * KIB));
    }
    ck_assert_uint_eq(cache_bytes("main"), MIB);
    scene.gpu->pause(IDLE);
    ck_assert_uint_ge(pairs_later(b, 1, 100), 99);
}
END_TEST

/* Streams that work in turns, each with a set of 1 MiB, where there is room for two of three. */
START_TEST(streams_that_work_in_turns_do_not_rob_each_other)
{
    static const unsigned turns[] = { 1, 16, 256, 2000 };
    unsigned turn = turns[_i], rounds = 10;
    uint64_t hits = 0;
    weir_stream *streams[3];
    cache_open("{ per_stream: 1MiB, per_device: 2MiB }");
    for (unsigned i = 0; i < 3; i++)
        cache_fill_many(streams[i] = scene_create(NULL), 64 * KIB, 16);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < 3; i++) {
            hits += pairs(streams[i], 16, turn);
            scene.gpu->pause(IDLE * 2 / 5);
            hits += pairs(streams[i], 16, turn);
        }
    ck_assert_uint_ge(hits, (uint64_t)turn * rounds * 4);
}
END_TEST

START_TEST(nothing_is_taken_from_a_stream_that_captures)
{
    cache_open("{ per_stream: 1MiB, per_device: 1MiB }");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 16);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(a), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_uint_eq(pairs_later(b, 1, 100), 0);
    ck_assert_uint_eq(cache_end_capture(weir_stream_handle(a)), 0);
    ck_assert_uint_eq(cache_bytes("main"), MIB);
    ck_assert_uint_ge(pairs_later(b, 1, 100), 99);
}
END_TEST

START_TEST(class_without_a_new_block_for_longest_makes_room)
{
    cache_open("{ per_stream: 1MiB }");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 512 * KIB);
    cache_fill_many(s, 256 * KIB, 3);
    ck_assert_uint_eq(cache_bytes("main"), 768 * KIB);
    void *other = scene_malloc(s, 512 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 0);
    ck_assert_uint_eq(cache_bytes("main"), 768 * KIB);
    scene_free(s, other);
}
END_TEST

START_TEST(class_that_had_a_new_block_since_is_spared)
{
    cache_open("{ per_stream: 1MiB }");
    weir_stream *s = scene_create(NULL);
    void *large = scene_malloc(s, 512 * KIB);
    cache_fill_many(s, 128 * KIB, 4);
    scene_free(s, large); /* the cache is full, and the newest block is the large one */
    cache_fill_many(s, 64 * KIB, 4);
    ck_assert_uint_eq(cache_bytes("main"), MIB);
    ck_assert_ptr_eq(scene_malloc(s, 512 * KIB), large);
    scene_free(s, large);
}
END_TEST

START_TEST(block_that_made_room_is_cudas_again)
{
    cache_open("{ per_stream: 1MiB }");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 512 * KIB, 2);
    cache_fill(s, 64 * KIB);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 512 * KIB + 64 * KIB);
    ck_assert_uint_eq(stats.used, 512 * KIB + 64 * KIB);
    ck_assert_uint_eq(stats.live_blocks, 0);
}
END_TEST

/* Classes that nobody asks for any more ------------------------------------------------------------------------------------------------- */

#define WINDOW 4096 /* frees after which a class that had none of them is stale */

static void pass_time(weir_stream *s, unsigned frees)
{
    for (unsigned i = 0; i < frees; i++)
        cache_fill(s, 512);
}

START_TEST(stale_class_gives_up_two_blocks_at_each_miss)
{
    void *ptrs[2];
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 64 * KIB, 4);
    pass_time(s, WINDOW - 2);
    ptrs[0] = scene_malloc(s, 128 * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 4 * 64 * KIB + 512);
    scene_free(s, ptrs[0]);
    for (unsigned i = 0; i < 2; i++)
        ptrs[i] = scene_malloc(s, (256 + i) * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 128 * KIB + 512);
    ck_assert_uint_eq(scene_pool_stats("main").used, cache_bytes("main") + (256 + 288) * KIB);
    for (unsigned i = 0; i < 2; i++)
        scene_free(s, ptrs[i]);
}
END_TEST

START_TEST(stale_class_is_left_alone_while_its_stream_captures)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 64 * KIB, 4);
    pass_time(s, WINDOW);
    cache_begin_capture(weir_stream_handle(s));
    void *node = scene_malloc(s, 128 * KIB);
    scene_free(s, node);
    ck_assert_uint_eq(cache_end_capture(weir_stream_handle(s)), 2);
    ck_assert_uint_eq(cache_bytes("main"), 4 * 64 * KIB + 512);
}
END_TEST

/* As a KV cache grows: each step asks for a larger block before it frees the one that it replaces, for each of 24 tensors. */
START_TEST(sizes_that_grow_leave_little_behind)
{
    void *ptrs[24] = { NULL };
    uint64_t most = 0;
    cache_open("{ per_stream: 128MiB }");
    weir_stream *s = scene_create(NULL);
    for (unsigned step = 0; step < 200; step++) {
        for (unsigned i = 0; i < 24; i++) {
            void *larger = scene_malloc(s, 64 * KIB + step * 1536);
            if (ptrs[i])
                scene_free(s, ptrs[i]);
            ptrs[i] = larger;
        }
        pass_time(s, 64);
        most = cache_bytes("main") > most ? cache_bytes("main") : most;
    }
    ck_assert_uint_le(most, 32 * MIB);
    ck_assert_uint_ge(cache_hits("main"), 200 * (24 + 64) * 95 / 100);
    for (unsigned i = 0; i < 24; i++)
        scene_free(s, ptrs[i]);
}
END_TEST

START_TEST(pool_that_is_no_streams_has_nothing_cached)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = weir_stream_handle(s);
    for (size_t i = 0; i < 8; i++)
        scene_free(s, scene_pool_malloc(other_pool(), 64 * KIB, raw));
    ck_assert_uint_eq(cache_bytes("other"), 0);
}
END_TEST

void add_bounds_cases(Suite *suite)
{
    TCase *tcase = suite_case(suite, "bounds", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, cache_never_holds_more_than_per_stream, 0, 2);
    tcase_add_loop_test(tcase, cache_never_holds_more_than_per_stream_of_mixed_sizes, 0, 2);
    suite_add(tcase, each_stream_may_hold_per_stream);
    tcase_add_loop_test(tcase, all_caches_together_never_hold_more_than_per_device, 0, 2);
    suite_add(tcase, pools_have_a_per_device_of_their_own, stream_takes_the_room_that_a_closed_one_had,
              stream_takes_the_room_that_a_trim_left, stream_takes_the_room_that_another_does_not_need_any_more,
              block_that_finds_no_room_at_all_goes_to_cuda, ninth_stream_is_served_although_eight_that_are_idle_have_all,
              stream_gets_all_that_idle_ones_have, stream_that_kept_a_block_within_the_second_keeps_all);
    tcase_add_loop_test(tcase, streams_that_work_in_turns_do_not_rob_each_other, 0, 4);
    suite_add(tcase, nothing_is_taken_from_a_stream_that_captures, class_without_a_new_block_for_longest_makes_room,
              class_that_had_a_new_block_since_is_spared, block_that_made_room_is_cudas_again,
              stale_class_gives_up_two_blocks_at_each_miss, stale_class_is_left_alone_while_its_stream_captures,
              sizes_that_grow_leave_little_behind, pool_that_is_no_streams_has_nothing_cached);
}
