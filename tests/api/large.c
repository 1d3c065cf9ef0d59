/* SPDX-License-Identifier: MIT */
/*
 * large.c - the last large blocks that a stream freed, in an arena or a pool of CUDA's: whom they serve, and who gets them back when.
 */
#include <stdio.h>

#include "tests/api/scene.h"

#define LARGE (4 * MIB)
#define SMALL (MIB / 16)
#define MANY 2 /* that a stream keeps at most */

static const char keeps[] = "weir: 1\npools: { main: { backing: arena, release_threshold: all } }\n";
static const char cudas[] = "weir: 1\npools: { main: { release_threshold: all } }\n";

/* Both have streams that keep large blocks, and the same without caches. */
static const struct {
    const char *label, *policy, *without;
} backings[] = {
    { "an arena", keeps, "weir: 1\npools: { main: { backing: arena, release_threshold: all, cache: off } }\n" },
    { "a pool of CUDA's", cudas, "weir: 1\npools: { main: { release_threshold: all, cache: off } }\n" },
};

static uint64_t cached(void)
{
    return scene_pool_stats("main").cached;
}

/* Blocks of LARGE each, and one that stays, so that they are a small part of what the pool has. */
static void *keep_some(weir_stream *s, int count, void **blocks)
{
    void *anchor = scene_malloc(s, 64 * MANY * LARGE);
    for (int i = 0; i < count; i++)
        blocks[i] = scene_malloc(s, LARGE);
    for (int i = 0; i < count; i++)
        scene_free(s, blocks[i]);
    return anchor;
}

START_TEST(request_of_the_same_size_gets_the_last_such_block)
{
    void *blocks[MANY];
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *anchor = keep_some(s, MANY, blocks);
    uint64_t hits = scene_pool_stats("main").cache_hits;
    ck_assert_uint_eq(cached(), MANY * LARGE);
    for (int i = MANY - 1; i >= 0; i--)
        ck_assert_ptr_eq(scene_malloc(s, LARGE), blocks[i]);
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, hits + MANY);
    ck_assert_uint_eq(cached(), 0);
    for (int i = 0; i < MANY; i++)
        scene_free(s, blocks[i]);
    scene_free(s, anchor);
}
END_TEST

/* CUDA's pool serves other sizes from the memory of a block that passes through, so only a size that comes again is kept. */
START_TEST(sizes_that_never_come_again_pass_through_a_pool_of_cudas)
{
    scene_open(cudas);
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < 4; i++)
        scene_free(s, scene_malloc(s, LARGE + (uint64_t)i * MIB));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "trim");
    for (int i = 4; i < 12; i++) {
        scene_free(s, scene_malloc(s, LARGE + (uint64_t)i * MIB));
        ck_assert_uint_eq(cached(), 0);
    }
    scene_free(s, scene_malloc(s, LARGE + 11 * MIB));
    ck_assert_uint_eq(cached(), LARGE + 11 * MIB);
    uint64_t hits = scene_pool_stats("main").cache_hits;
    scene_free(s, scene_malloc(s, LARGE + 11 * MIB));
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, hits + 1);
}
END_TEST

START_TEST(request_by_raw_handle_is_served_too)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, LARGE);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert_uint_eq(cached(), LARGE);
    ck_assert_ptr_eq(scene_malloc_on(weir_stream_handle(s), LARGE), ptr);
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, 1);
    scene_free_on(weir_stream_handle(s), ptr);
}
END_TEST

START_TEST(request_of_another_size_leaves_them)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *anchor = scene_malloc(s, 64 * MANY * LARGE), *ptr = scene_malloc(s, LARGE), *spare = scene_malloc(s, 2 * LARGE);
    scene_free(s, ptr);
    scene_free(s, spare);
    ck_assert_uint_eq(cached(), 3 * LARGE);
    void *other = scene_malloc(s, LARGE - 1);
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, 0);
    scene_free(s, other);
    scene_free(s, anchor);
}
END_TEST

START_TEST(oldest_makes_room)
{
    void *blocks[MANY + 1];
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *anchor = keep_some(s, MANY + 1, blocks);
    ck_assert_uint_eq(cached(), MANY * LARGE);
    for (int i = MANY; i > 0; i--)
        ck_assert_ptr_eq(scene_malloc(s, LARGE), blocks[i]);
    for (int i = MANY; i > 0; i--)
        scene_free(s, blocks[i]);
    scene_free(s, anchor);
}
END_TEST

START_TEST(several_are_a_small_part_of_what_is_live)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, 64 * MIB), *second = scene_malloc(s, 64 * MIB);
    scene_free(s, first);
    ck_assert_uint_eq(cached(), 64 * MIB);
    scene_free(s, second);
    ck_assert_uint_eq(cached(), 64 * MIB);
    ck_assert_ptr_eq(scene_malloc(s, 64 * MIB), second);
    scene_free(s, second);
}
END_TEST

/* What comes next needs what the stream keeps, on whichever stream that is: the pool is no larger for it. */
static const struct {
    const char *label, *policy;
    bool is_other;
} growths[] = {
    { "its own", "weir: 1\npools: { main: { backing: arena, release_threshold: all } }\n", false },
    { "another stream's", "weir: 1\npools: { main: { backing: arena, release_threshold: all } }\n", true },
    { "its own at the cap",
      "weir: 1\npools: { main: { backing: arena, release_threshold: all, max_size: 64MiB, on_oom: { steps: [] } } }\n", false },
    { "another stream's at the cap",
      "weir: 1\npools: { main: { backing: arena, release_threshold: all, max_size: 64MiB, on_oom: { steps: [] } } }\n", true },
    { "its own of CUDA's", "weir: 1\npools: { main: { release_threshold: all } }\n", false },
    { "another stream's of CUDA's", "weir: 1\npools: { main: { release_threshold: all } }\n", true },
    { "its own at the cap of CUDA's",
      "weir: 1\npools: { main: { release_threshold: all, small_below: 0, max_size: 64MiB, on_oom: { steps: [] } } }\n", false },
    { "another stream's at the cap of CUDA's",
      "weir: 1\npools: { main: { release_threshold: all, small_below: 0, max_size: 64MiB, on_oom: { steps: [] } } }\n", true },
    { "another stream's at a cap that Weir watches",
      "weir: 1\npools: { main: { release_threshold: all, small_below: 1MiB, max_size: 96MiB, on_oom: { steps: [] } } }\n", true },
};

START_TEST(they_serve_what_the_pool_would_grow_for)
{
    scene_open(growths[_i].policy);
    weir_stream *s = scene_create(NULL), *needy = growths[_i].is_other ? scene_create(NULL) : s;
    scene_free(s, scene_malloc(s, 64 * MIB));
    ck_assert_uint_eq(cached(), 64 * MIB);
    scene_sync(weir_stream_handle(s));
    void *ptr = scene_malloc(needy, 48 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
    scene_free(needy, ptr);
}
END_TEST

/* Each uses as much in turn, and frees it before the next begins. */
START_TEST(pool_is_no_larger_for_many_streams_that_take_turns)
{
    weir_stream *streams[16];
    scene_open(backings[_i].policy);
    for (int i = 0; i < 16; i++)
        streams[i] = scene_create(NULL);
    for (int i = 0; i < 3 * 16; i++) {
        weir_stream *s = streams[i % 16];
        void *ptr = scene_malloc(s, 64 * MIB);
        scene_free(s, ptr);
        scene_sync(weir_stream_handle(s));
        ck_assert_uint_eq(scene_pool_stats("main").reserved, 64 * MIB);
    }
}
END_TEST

/* As many as are in use at once, so that no stream takes what another one keeps for a pair that comes again. */
START_TEST(streams_keep_their_own_where_the_pool_has_enough_for_all)
{
    weir_stream *streams[16];
    void *blocks[16];
    scene_open(backings[_i].policy);
    for (int i = 0; i < 16; i++)
        streams[i] = scene_create(NULL);
    for (int i = 0; i < 16; i++)
        blocks[i] = scene_malloc(streams[i], 16 * MIB);
    for (int i = 0; i < 16; i++)
        scene_free(streams[i], blocks[i]);
    ck_assert_uint_eq(cached(), 16 * 16 * MIB);
    for (int i = 0; i < 16; i++)
        scene_free(streams[i], scene_malloc(streams[i], 16 * MIB));
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, 16);
}
END_TEST

/* A stream that finds nothing has one other stream give as much up, and the rest keep what is theirs. */
START_TEST(stream_takes_no_more_of_others_than_its_request_needs)
{
    weir_stream *streams[8], *last;
    void *blocks[8];
    scene_open(cudas);
    for (int i = 0; i < 8; i++)
        streams[i] = scene_create(NULL);
    last = scene_create(NULL);
    for (int i = 0; i < 8; i++)
        blocks[i] = scene_malloc(streams[i], 32 * MIB);
    for (int i = 0; i < 8; i++)
        scene_free(streams[i], blocks[i]);
    for (int i = 0; i < 8; i++)
        scene_sync(weir_stream_handle(streams[i]));
    void *ptr = scene_malloc(last, 48 * MIB);
    ck_assert_uint_eq(cached(), 6 * 32 * MIB);
    scene_free(last, ptr);
}
END_TEST

/* One page of them, of which nothing is left for another size. */
START_TEST(small_blocks_that_the_stream_keeps_serve_what_the_arena_would_grow_for)
{
    void *blocks[32];
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < 32; i++)
        blocks[i] = scene_malloc(s, SMALL);
    for (int i = 0; i < 32; i++)
        scene_free(s, blocks[i]);
    ck_assert_uint_eq(cached(), 32 * SMALL);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 32 * SMALL);
    void *ptr = scene_malloc(s, 12 * SMALL);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 32 * SMALL);
    ck_assert_uint_eq(cached(), 0);
    scene_free(s, ptr);
}
END_TEST

/* Of per_device, that is, but for what a stream may keep of it while it works. */
START_TEST(part_of_a_cache_that_was_given_up_is_another_streams)
{
    void *blocks[64];
    scene_open("weir: 1\npools: { main: { backing: arena, release_threshold: all, cache: { per_stream: 4MiB, per_device: 4MiB } } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    for (int i = 0; i < 64; i++)
        blocks[i] = scene_malloc(s, SMALL);
    for (int i = 0; i < 64; i++)
        scene_free(s, blocks[i]);
    ck_assert_uint_eq(cached(), 64 * SMALL);
    void *ptr = scene_malloc(s, 12 * SMALL);
    ck_assert_uint_eq(cached(), 0);
    for (int i = 0; i < 32; i++)
        blocks[i] = scene_malloc(other, SMALL);
    for (int i = 0; i < 32; i++)
        scene_free(other, blocks[i]);
    ck_assert_uint_eq(cached(), 32 * SMALL);
    scene_free(s, ptr);
}
END_TEST

/* Of a class, as `largest` is more than such blocks have. */
START_TEST(large_blocks_of_a_class_serve_what_the_arena_would_grow_for)
{
    scene_open("weir: 1\npools: { main: { backing: arena, release_threshold: all, cache: { largest: 8MiB } } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, SMALL));
    scene_free(s, scene_malloc(s, LARGE));
    ck_assert_uint_eq(cached(), SMALL + LARGE);
    void *ptr = scene_malloc(s, LARGE / 2);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 2 * MIB + LARGE);
    ck_assert_uint_eq(cached(), SMALL);
    scene_free(s, ptr);
}
END_TEST

/* The other stream keeps the large block, which serves as well: no more is mapped, and the requester's cache stays. */
START_TEST(small_blocks_stay_where_what_another_stream_freed_serves)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    scene_free(other, scene_malloc(s, LARGE));
    scene_free(s, scene_malloc(s, SMALL));
    for (int i = 0; i < 3; i++) {
        scene_sync(weir_stream_handle(other));
        scene_free(other, scene_malloc(s, LARGE));
    }
    ck_assert_uint_eq(cached(), SMALL + LARGE);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 2 * MIB + LARGE);
}
END_TEST

/* They lie among small requests, and their pages cannot be moved before it is known that the stream has come to the frees. */
START_TEST(small_blocks_stay_where_a_large_request_makes_the_arena_grow)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, SMALL));
    void *ptr = scene_malloc(s, LARGE);
    ck_assert_uint_eq(cached(), SMALL);
    scene_free(s, ptr);
}
END_TEST

START_TEST(small_blocks_stay_where_a_request_alone_is_above_the_cap)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { backing: arena, release_threshold: all, max_size: 64MiB } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, SMALL));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 65 * MIB), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(cached(), SMALL);
}
END_TEST

static const struct {
    const char *label, *policy;
    uint64_t kept; /* after a synchronise */
} thresholds[] = {
    { "threshold 0", "weir: 1\npools: { main: { backing: arena, release_threshold: 0 } }\n", 0 },
    { "a threshold that covers it", "weir: 1\npools: { main: { backing: arena, release_threshold: 64MiB } }\n", 64 * MIB },
    { "a threshold below it", "weir: 1\npools: { main: { backing: arena, release_threshold: 32MiB } }\n", 32 * MIB },
    { "threshold 0 of CUDA's", "weir: 1\npools: { main: { release_threshold: 0 } }\n", 0 },
    { "a threshold of CUDA's that covers it", "weir: 1\npools: { main: { release_threshold: 64MiB } }\n", 64 * MIB },
    { "a threshold of CUDA's below it", "weir: 1\npools: { main: { release_threshold: 32MiB } }\n", 32 * MIB },
};

START_TEST(synchronise_gives_back_what_the_threshold_does_not_cover)
{
    scene_open(thresholds[_i].policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_le(scene_pool_stats("main").reserved, thresholds[_i].kept);
}
END_TEST

START_TEST(trim_gives_all_back)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 0);
}
END_TEST

START_TEST(without_caches_nothing_is_kept)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, LARGE));
    ck_assert_uint_eq(cached(), LARGE);
    scene_reload(backings[_i].without);
    ck_assert_uint_eq(cached(), 0);
    scene_free(s, scene_malloc(s, LARGE));
    ck_assert_uint_eq(cached(), 0);
}
END_TEST

START_TEST(closing_the_stream_gives_them_back)
{
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, LARGE));
    weir_stream_close(s);
    ck_assert_uint_eq(cached(), 0);
}
END_TEST

START_TEST(capturing_stream_neither_gets_nor_keeps_one)
{
    size_t nodes;
    scene_open(backings[_i].policy);
    weir_stream *s = scene_create(NULL);
    void *anchor = scene_malloc(s, 64 * MANY * LARGE), *older = scene_malloc(s, LARGE), *kept = scene_malloc(s, LARGE), *node;
    scene_free(s, kept);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    node = scene_malloc(s, LARGE);
    ck_assert_ptr_ne(node, kept);
    ck_assert_int_eq(weir_stream_free(s, older), WEIR_CAPTURING);
    scene_free(s, node);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(s), &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(cached(), LARGE);
    scene_free(s, older);
    scene_free(s, anchor);
}
END_TEST

/* Who needs what a stream keeps, of all that the device has. The ladder does not run within the same weir, and need not within another. */
static const struct {
    const char *label, *policy, *needy; /* NULL: the stream itself, or with another weir one of that */
    bool is_same_weir;
} wants[] = {
    { "the same stream", "weir: 1\npools: { main: { backing: arena, release_threshold: all, on_oom: { steps: [] } } }\n", NULL, true },
    { "another arena",
      "weir: 1\npools: { main: { backing: arena, release_threshold: all }, second: { backing: arena, on_oom: { steps: [] } } }\n"
      "defaults: { pool: main }\nstreams: { needy: { pool: second } }\n",
      "needy", true },
    { "a pool of CUDA's",
      "weir: 1\npools: { main: { backing: arena, release_threshold: all }, second: { small_below: 0, on_oom: { steps: [] } } }\n"
      "defaults: { pool: main }\nstreams: { needy: { pool: second } }\n",
      "needy", true },
    { "another weir", "weir: 1\npools: { main: { backing: arena, release_threshold: all } }\n", NULL, false },
    { "another weir, without steps", "weir: 1\npools: { main: { backing: arena, release_threshold: all, on_oom: { steps: [] } } }\n", NULL,
      false },
};

START_TEST(they_serve_whoever_needs_the_device)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    weir_stream *needy;
    void *ptr;
    scene_open(wants[_i].policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, scene_share(80)));
    ck_assert_uint_eq(cached(), scene_share(80));
    scene_sync(weir_stream_handle(s));
    options.policy_text = wants[_i].policy;
    if (!wants[_i].is_same_weir)
        scene_ok(weir_open(&options, NULL, &w), "opening");
    if (wants[_i].needy || w)
        scene_ok(weir_stream_create(w ? w : scene.w, 0, wants[_i].needy, NULL, &needy), "a stream");
    else
        needy = s;
    scene_ok(weir_stream_malloc(needy, &ptr, scene_share(75)), "a request");
    if (!w)
        scene_rescues(WEIR_RUNG_FLUSH, 0, 0);
    scene_free(needy, ptr);
    if (needy != s)
        weir_stream_close(needy);
    weir_close(w);
}
END_TEST

/* CUDA could lend it to another stream meanwhile. */
START_TEST(large_block_alone_is_64_mib_at_most_in_a_pool_of_cudas)
{
    scene_open(cudas);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 64 * MIB + 1));
    ck_assert_uint_eq(cached(), 0);
    void *anchor = scene_malloc(s, scene_share(50));
    scene_free(s, scene_malloc(s, scene_share(1)));
    ck_assert_uint_eq(cached(), scene_share(1));
    scene_free(s, anchor);
}
END_TEST

START_TEST(what_the_threshold_would_not_keep_is_not_kept)
{
    scene_open("weir: 1\npools: { main: { release_threshold: 64MiB } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *anchor = scene_malloc(s, 32 * MIB);
    scene_free(s, scene_malloc(s, 32 * MIB + 1));
    ck_assert_uint_eq(cached(), 0);
    scene_free(s, scene_malloc(s, 32 * MIB));
    ck_assert_uint_eq(cached(), 32 * MIB);
    /* Now it is above the threshold, and is noticed where Weir hears of a synchronise. */
    void *more = scene_malloc(other, 32 * MIB);
    ck_assert_uint_eq(cached(), 32 * MIB);
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_eq(cached(), 0);
    scene_free(other, more);
    scene_free(s, anchor);
}
END_TEST

START_TEST(threshold_that_is_raised_keeps_them_from_then_on)
{
    scene_open("weir: 1\npools: { main: { release_threshold: 0 } }\n");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, LARGE));
    ck_assert_uint_eq(cached(), 0);
    scene_ok(weir_pool_set_release_threshold(scene.pool, GIB, NULL), "a threshold");
    scene_free_on(weir_stream_handle(s), scene_malloc_on(weir_stream_handle(s), LARGE));
    ck_assert_uint_eq(cached(), LARGE);
}
END_TEST

/* By the weir_stream, or by its raw handle. */
START_TEST(large_miss_with_memory_idle_leaves_them)
{
    scene_open(cudas);
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = weir_stream_handle(s);
    void *spare = scene_malloc(s, 256 * MIB);
    scene_free(s, spare); /* too large to be kept: idle from now on */
    scene_free(s, scene_malloc(s, 64 * MIB));
    void *ptr = _i ? scene_malloc_on(raw, 48 * MIB) : scene_malloc(s, 48 * MIB);
    ck_assert_uint_eq(cached(), 64 * MIB);
    void *rest = _i ? scene_malloc_on(raw, 176 * MIB) : scene_malloc(s, 176 * MIB);
    ck_assert_uint_eq(cached(), 0);
    scene_free(s, ptr);
    scene_free(s, rest);
}
END_TEST

/* Its address comes again where the program gives it to CUDA a second time. */
START_TEST(large_block_that_the_program_frees_with_cuda_again_is_served_to_one_only)
{
    scene_open(cudas);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *twice = scene_malloc(s, LARGE);
    scene_free(s, twice);
    ck_assert_int_eq(scene.gpu->free_async(twice, weir_stream_handle(s)), GPU_SUCCESS);
    scene_sync(weir_stream_handle(s));
    void *again = scene_malloc(other, LARGE);
    ck_assert_ptr_eq(again, twice);
    ck_assert_uint_eq(cached(), 0);
    void *mine = scene_malloc(s, LARGE);
    ck_assert_ptr_ne(mine, twice);
    scene_free(s, mine);
    scene_free(other, again);
    ck_assert_int_eq(weir_stream_free(s, twice), WEIR_NOT_A_BLOCK);
}
END_TEST

/* The device has 128 MiB left beside what the program has, and the stream keeps half of that. CUDA sees that the free of another stream is
   complete where the ladder waits for it. */
START_TEST(they_serve_whoever_needs_the_device_from_a_pool_of_cudas)
{
    scene_open("weir: 1\ndefaults: { pool: main }\nstreams: { needy: { pool: second } }\n"
               "pools: { main: { release_threshold: all, small_below: 0, on_oom: { steps: [] } },\n"
               "         second: { small_below: 0 } }\n");
    weir_stream *s = scene_create(NULL), *needy = _i ? scene_create("needy") : s;
    void *anchor = scene_malloc(s, scene.memory / (32 * MIB) * (32 * MIB) - 128 * MIB);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_sync(weir_stream_handle(s));
    ck_assert_uint_eq(cached(), 64 * MIB);
    void *ptr = scene_malloc(needy, 96 * MIB);
    ck_assert_uint_eq(cached(), 0);
    scene_free(needy, ptr);
    scene_free(s, anchor);
}
END_TEST

int main(void)
{
    const char *why_not = scene_why_not();
    if (why_not)
        return suite_skip(why_not);
    Suite *suite = suite_create("large");
    TCase *tcase = suite_case(suite, "large", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, small_blocks_that_the_stream_keeps_serve_what_the_arena_would_grow_for,
              part_of_a_cache_that_was_given_up_is_another_streams,
              large_blocks_of_a_class_serve_what_the_arena_would_grow_for,
              small_blocks_stay_where_what_another_stream_freed_serves,
              small_blocks_stay_where_a_large_request_makes_the_arena_grow,
              small_blocks_stay_where_a_request_alone_is_above_the_cap,
              stream_takes_no_more_of_others_than_its_request_needs,
              large_block_alone_is_64_mib_at_most_in_a_pool_of_cudas,
              what_the_threshold_would_not_keep_is_not_kept,
              threshold_that_is_raised_keeps_them_from_then_on,
              large_block_that_the_program_frees_with_cuda_again_is_served_to_one_only);
    tcase_add_loop_test(tcase, request_of_the_same_size_gets_the_last_such_block, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_test(tcase, sizes_that_never_come_again_pass_through_a_pool_of_cudas);
    tcase_add_loop_test(tcase, request_by_raw_handle_is_served_too, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, request_of_another_size_leaves_them, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, oldest_makes_room, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, several_are_a_small_part_of_what_is_live, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, trim_gives_all_back, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, without_caches_nothing_is_kept, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, closing_the_stream_gives_them_back, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, capturing_stream_neither_gets_nor_keeps_one, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, pool_is_no_larger_for_many_streams_that_take_turns, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, streams_keep_their_own_where_the_pool_has_enough_for_all, 0, (int)(sizeof backings / sizeof *backings));
    tcase_add_loop_test(tcase, large_miss_with_memory_idle_leaves_them, 0, 2);
    tcase_add_loop_test(tcase, they_serve_whoever_needs_the_device_from_a_pool_of_cudas, 0, 2);
    tcase_add_loop_test(tcase, they_serve_what_the_pool_would_grow_for, 0, (int)(sizeof growths / sizeof *growths));
    tcase_add_loop_test(tcase, synchronise_gives_back_what_the_threshold_does_not_cover, 0, (int)(sizeof thresholds / sizeof *thresholds));
    tcase_add_loop_test(tcase, they_serve_whoever_needs_the_device, 0, (int)(sizeof wants / sizeof *wants));
    return suite_run(suite);
}
