/* SPDX-License-Identifier: MIT */
/*
 * cache.c - which blocks a stream's cache keeps, and whom it serves them to. Runs on the simulator and on a GPU.
 *
 * An address tells who served: a block that a cache holds is live for CUDA, which therefore cannot give it out a second time.
 */
#include "tests/api/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_policy(char *text, size_t len, const char *cache)
{
    snprintf(text, len,
             "weir: 1\ndefaults: { pool: main }\n"
             "pools:\n  main: { cache: %s }\n  other: {}\n"
             "streams:\n  side: { pool: other }\n  own: { pool: main, private: true }\n",
             cache);
}

void cache_open(const char *cache)
{
    char text[1024];
    write_policy(text, sizeof text, cache);
    scene_open(text);
}

void cache_reload(const char *cache)
{
    char text[1024];
    write_policy(text, sizeof text, cache);
    scene_reload(text);
}

uint64_t cache_bytes(const char *pool)
{
    return scene_pool_stats(pool).cached;
}

uint64_t cache_hits(const char *pool)
{
    return scene_pool_stats(pool).cache_hits;
}

void *cache_fill(weir_stream *s, uint64_t size)
{
    void *ptr = scene_malloc(s, size);
    scene_free(s, ptr);
    return ptr;
}

void cache_fill_many(weir_stream *s, uint64_t size, unsigned count)
{
    void *ptrs[256];
    ck_assert_uint_le(count, 256);
    for (unsigned i = 0; i < count; i++)
        ptrs[i] = scene_malloc(s, size);
    for (unsigned i = 0; i < count; i++)
        scene_free(s, ptrs[i]);
}

void cache_begin_capture(gpu_stream stream)
{
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
}

size_t cache_end_capture(gpu_stream stream)
{
    size_t nodes = 0;
    int code = scene.gpu->capture_end(stream, &nodes);
    ck_assert_msg(code == GPU_SUCCESS, "the capture ended with %s", scene.gpu->code_name(code));
    return nodes;
}

/* Asserts that the pointer is refused as no live block. */
static void refused(weir_stream *s, void *ptr)
{
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_NOT_A_BLOCK);
    ck_assert_int_eq(weir_free(scene.w, ptr, weir_stream_handle(s)), WEIR_NOT_A_BLOCK);
}

/* On the stream itself ----------------------------------------------------------------------------------------------------------------- */

START_TEST(freed_block_is_served_again_on_its_stream)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 100 * KIB);
    ck_assert_ptr_eq(scene_malloc(s, 100 * KIB), ptr);
    ck_assert_uint_eq(cache_hits("main"), 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(freed_block_serves_every_size_of_its_class)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 4608);
    for (uint64_t size = 4097; size <= 4608; size += 73) {
        ck_assert_ptr_eq(scene_malloc(s, size), ptr);
        ck_assert_uint_eq(scene_pool_stats("main").live, size);
        scene_free(s, ptr);
    }
}
END_TEST

START_TEST(freed_block_serves_no_size_of_another_class)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 5120);
    void *smaller = scene_malloc(s, 4608), *larger = scene_malloc(s, 5121);
    ck_assert_ptr_ne(smaller, ptr);
    ck_assert_ptr_ne(larger, ptr);
    ck_assert_uint_eq(cache_hits("main"), 0);
    scene_free(s, smaller);
    scene_free(s, larger);
}
END_TEST

START_TEST(last_block_freed_is_the_first_served)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, 64 * KIB), *last = scene_malloc(s, 64 * KIB);
    scene_free(s, first);
    scene_free(s, last);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), last);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), first);
    scene_free(s, first);
    scene_free(s, last);
}
END_TEST

START_TEST(figures_of_a_live_a_cached_and_a_rounded_block_are_right)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 8 * KIB);
    void *ptr = scene_malloc(s, 4097);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 8 * KIB);
    ck_assert_uint_eq(stats.live, 4097);
    ck_assert_uint_eq(stats.slack, 4608 - 4097);
    ck_assert_uint_eq(stats.live_blocks, 1);
    ck_assert_uint_eq(stats.mallocs, 2);
    ck_assert_uint_eq(stats.frees, 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(cached_blocks_are_not_live)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 64 * KIB, 16);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.live, 0);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.cached, MIB);
    ck_assert_uint_eq(stats.frees, 16);
}
END_TEST

START_TEST(hits_of_a_closed_stream_still_count)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    cache_fill(s, 64 * KIB);
    weir_stream_close(s);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cache_hits, 1);
    ck_assert_uint_eq(stats.mallocs, 2);
    ck_assert_uint_eq(stats.frees, 2);
}
END_TEST

START_TEST(highest_live_figure_counts_blocks_that_the_cache_served)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptrs[8];
    cache_fill_many(s, MIB, 8);
    for (size_t i = 0; i < 8; i++)
        ptrs[i] = scene_malloc(s, MIB);
    ck_assert_uint_eq(scene_pool_stats("main").live, 8 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").live_high, 8 * MIB);
    for (size_t i = 0; i < 8; i++)
        scene_free(s, ptrs[i]);
}
END_TEST

START_TEST(with_cache_off_nothing_is_kept_nor_rounded)
{
    cache_open("off");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 4608);
    void *ptr = scene_malloc(s, 17 * 512);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 0);
    ck_assert_uint_eq(stats.slack, 0);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(request_above_largest_is_kept_but_not_rounded)
{
    cache_open("{ largest: 8KiB }");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 17 * 512);
    ck_assert_uint_eq(scene_pool_stats("main").slack, 0);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 17 * 512);
}
END_TEST

START_TEST(request_of_exactly_largest_is_kept)
{
    cache_open("{ largest: 8KiB }");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 8 * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 8 * KIB);
}
END_TEST

/* A class above cache.largest would have to be kept for a size below it. */
START_TEST(largest_between_two_classes_rounds_only_to_the_lower)
{
    cache_open("{ largest: 8500 }");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 8 * KIB - 1);
    cache_fill(s, 8 * KIB + 1);
    ck_assert_uint_eq(cache_bytes("main"), 8 * KIB + 8 * KIB + 1);
}
END_TEST

START_TEST(without_the_capture_check_blocks_are_served_as_well)
{
    cache_open("{ capture_check: false }");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_hits("main"), 1);
}
END_TEST

/* Whose cache ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(freed_block_is_not_served_to_another_stream)
{
    cache_open("on");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = cache_fill(a, 64 * KIB), *other = scene_malloc(b, 64 * KIB);
    ck_assert_ptr_ne(other, ptr);
    ck_assert_uint_eq(cache_hits("main"), 0);
    scene_free(b, other);
}
END_TEST

START_TEST(block_freed_on_another_stream_enters_the_cache_of_that_stream)
{
    cache_open("on");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    void *ptr = scene_malloc(a, 64 * KIB);
    scene_sync(weir_stream_handle(a));
    scene_free(b, ptr);
    void *other = scene_malloc(a, 64 * KIB);
    ck_assert_ptr_ne(other, ptr);
    ck_assert_ptr_eq(scene_malloc(b, 64 * KIB), ptr);
    scene_free(a, other);
    scene_free(b, ptr);
}
END_TEST

START_TEST(block_of_another_pool_goes_to_cuda)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    weir_pool *other;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    scene_free(s, scene_pool_malloc(other, 64 * KIB, weir_stream_handle(s)));
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_bytes("other"), 0);
    ck_assert_uint_eq(scene_pool_stats("other").used, 0);
}
END_TEST

START_TEST(request_from_another_pool_is_not_served_by_the_cache)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    weir_pool *other;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    void *ptr = cache_fill(s, 64 * KIB), *foreign = scene_pool_malloc(other, 64 * KIB, weir_stream_handle(s));
    ck_assert_ptr_ne(foreign, ptr);
    ck_assert_uint_eq(cache_hits("main"), 0);
    ck_assert_uint_eq(cache_hits("other"), 0);
    scene_free(s, foreign);
}
END_TEST

START_TEST(request_from_the_pool_of_the_stream_is_served_by_the_cache)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    ck_assert_ptr_eq(scene_pool_malloc(scene.pool, 64 * KIB, weir_stream_handle(s)), ptr);
    ck_assert_uint_eq(cache_hits("main"), 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(raw_handle_of_an_opened_stream_is_served_by_its_cache)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    ck_assert_ptr_eq(scene_malloc_on(weir_stream_handle(s), 64 * KIB), ptr);
    ck_assert_uint_eq(cache_hits("main"), 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(block_freed_on_the_raw_handle_of_an_opened_stream_enters_its_cache)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    scene_free_on(weir_stream_handle(s), ptr);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
}
END_TEST

START_TEST(raw_handle_uses_the_pool_of_its_stream)
{
    cache_open("on");
    weir_stream *s = scene_create("side");
    void *ptr = cache_fill(s, 64 * KIB);
    ck_assert_ptr_eq(scene_malloc_on(weir_stream_handle(s), 64 * KIB), ptr);
    ck_assert_uint_eq(cache_hits("other"), 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(stream_that_is_not_opened_is_served_exactly)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    void *ptr = scene_malloc_on(raw, 17 * 512);
    ck_assert_uint_eq(scene_pool_stats("main").slack, 0);
    scene_free_on(raw, ptr);
}
END_TEST

START_TEST(block_freed_on_a_stream_that_is_not_opened_goes_to_cuda)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    scene_sync(weir_stream_handle(s));
    scene_free_on(raw, ptr);
    scene_free_on(raw, scene_malloc_on(raw, 64 * KIB));
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

/* Its size is whatever the program asked for: no class says whom it could serve. */
START_TEST(block_of_a_stream_that_was_not_opened_goes_to_cuda)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc_on(raw, 64 * KIB);
    scene_sync(raw);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 0);
}
END_TEST

START_TEST(stream_is_no_longer_cached_once_it_is_closed)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    weir_stream *s;
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    scene_free_on(raw, scene_malloc_on(raw, 64 * KIB));
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    weir_stream_close(s);
    scene_free_on(raw, scene_malloc_on(raw, 64 * KIB));
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(stream_opened_again_has_an_empty_cache)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    weir_stream *s;
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    cache_fill(s, 64 * KIB);
    weir_stream_close(s);
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    cache_fill(s, 64 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 0);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
}
END_TEST

START_TEST(per_thread_default_stream_is_never_cached)
{
    weir_stream *s;
    cache_open("on");
    weir_stream *opened = scene_create(NULL); /* so that raw handles are looked at at all */
    ck_assert_int_eq(weir_stream_open(scene.w, 0, GPU_STREAM_PER_THREAD, NULL, NULL, &s), WEIR_INVALID);
    for (size_t i = 0; i < 2; i++)
        scene_free_on(GPU_STREAM_PER_THREAD, scene_malloc_on(GPU_STREAM_PER_THREAD, 64 * KIB));
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_hits("main"), 0);
    weir_stream_close(opened);
}
END_TEST

START_TEST(legacy_stream_is_cached_once_opened_whichever_its_name)
{
    weir_stream *s;
    cache_open("on");
    scene_ok(weir_stream_open(scene.w, 0, NULL, NULL, NULL, &s), "weir_stream_open");
    void *ptr = scene_malloc_on(GPU_STREAM_LEGACY, 64 * KIB);
    scene_free_on(GPU_STREAM_LEGACY, ptr);
    ck_assert_ptr_eq(scene_malloc_on(NULL, 64 * KIB), ptr);
    scene_free_on(NULL, ptr);
    ck_assert_uint_eq(cache_hits("main"), 1);
}
END_TEST

START_TEST(blocks_of_an_exportable_pool_are_never_cached)
{
    if (!scene.gpu->supports(0, GPU_FEATURE_POOL_POSIX_FD, NULL, 0))
        return;
    scene_open("weir: 1\npools: { main: { ipc: posix_fd } }\n");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    cache_fill(s, 64 * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(blocks_of_a_private_pool_are_cached_on_its_stream)
{
    cache_open("on");
    weir_stream *own = scene_create("own");
    void *ptr = cache_fill(own, 64 * KIB);
    ck_assert_ptr_eq(scene_malloc(own, 64 * KIB), ptr);
    scene_free(own, ptr);
}
END_TEST

START_TEST(block_of_a_private_pool_goes_to_cuda_on_another_stream)
{
    cache_open("on");
    weir_stream *own = scene_create("own"), *s = scene_create(NULL);
    void *ptr = scene_malloc(own, 64 * KIB);
    scene_sync(weir_stream_handle(own));
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    void *other = scene_malloc(s, 64 * KIB);
    ck_assert_ptr_ne(other, ptr);
    scene_free(s, other);
}
END_TEST

/* Wrong pointers ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(second_free_of_a_cached_block_is_refused)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    refused(s, ptr);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 64 * KIB);
    ck_assert_uint_eq(stats.frees, 1);
}
END_TEST

START_TEST(second_free_on_another_stream_is_refused)
{
    cache_open("on");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    refused(b, cache_fill(a, 64 * KIB));
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
}
END_TEST

START_TEST(interior_pointer_of_a_live_block_is_refused)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    char *ptr = scene_malloc(s, 64 * KIB);
    refused(s, ptr + 512);
    refused(s, ptr + 1);
    scene_free(s, ptr);
}
END_TEST

START_TEST(interior_pointer_of_a_cached_block_is_refused)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    char *ptr = cache_fill(s, 64 * KIB);
    refused(s, ptr + 512);
    refused(s, ptr + 1);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
}
END_TEST

START_TEST(foreign_pointer_is_refused)
{
    static char foreign[512];
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 512);
    refused(s, foreign);
}
END_TEST

START_TEST(block_served_again_can_be_freed_once_and_no_more)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
        scene_free(s, ptr);
        refused(s, ptr);
    }
}
END_TEST

START_TEST(block_that_left_the_cache_for_cuda_is_refused)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    refused(s, ptr);
}
END_TEST

START_TEST(call_on_a_closed_stream_is_refused_and_the_block_stays_live)
{
    void *other;
    cache_open("on");
    weir_stream *s = scene_create(NULL), *closed = scene_create(NULL);
    cache_fill(closed, 64 * KIB);
    void *ptr = scene_malloc(closed, 64 * KIB);
    weir_stream_close(closed);
    ck_assert_int_eq(weir_stream_malloc(closed, &other, 64 * KIB), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_free(closed, ptr), WEIR_INVALID);
    ck_assert_uint_eq(scene_pool_stats("main").live_blocks, 1);
    scene_free(s, ptr);
}
END_TEST

/* Captures ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(request_on_a_capturing_stream_makes_a_node_though_the_cache_could_serve)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(s));
    void *node = scene_malloc(s, 64 * KIB);
    ck_assert_ptr_ne(node, ptr);
    scene_free(s, node);
    ck_assert_uint_eq(cache_end_capture(weir_stream_handle(s)), 2);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(raw_request_on_a_capturing_stream_makes_a_node_though_the_cache_could_serve)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = weir_stream_handle(s);
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(raw);
    void *node = scene_malloc_on(raw, 64 * KIB);
    ck_assert_ptr_ne(node, ptr);
    scene_free_on(raw, node);
    ck_assert_uint_eq(cache_end_capture(raw), 2);
}
END_TEST

START_TEST(older_block_freed_on_a_capturing_stream_is_refused_and_stays_live)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(s));
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_CAPTURING);
    ck_assert_int_eq(weir_free(scene.w, ptr, weir_stream_handle(s)), WEIR_CAPTURING);
    cache_end_capture(weir_stream_handle(s));
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").live_blocks, 1);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
}
END_TEST

START_TEST(blocks_cached_before_a_capture_are_served_after_it)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(s));
    cache_end_capture(weir_stream_handle(s));
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
}
END_TEST

START_TEST(other_streams_are_served_by_their_caches_during_a_capture)
{
    cache_open("on");
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(captured));
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_end_capture(weir_stream_handle(captured)), 0);
}
END_TEST

static void *use_cache(void *stream)
{
    for (size_t i = 0; i < 100; i++) {
        void *ptr;
        if (weir_stream_malloc(stream, &ptr, 64 * KIB) != WEIR_OK || weir_stream_free(stream, ptr) != WEIR_OK)
            return stream;
    }
    return NULL;
}

START_TEST(cached_calls_of_another_thread_leave_a_global_capture_whole)
{
    pthread_t thread;
    void *failed;
    cache_open("on");
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(captured));
    ck_assert_int_eq(pthread_create(&thread, NULL, use_cache, s), 0);
    pthread_join(thread, &failed);
    cache_end_capture(weir_stream_handle(captured));
    ck_assert_ptr_null(failed);
    ck_assert_uint_eq(cache_hits("main"), 100);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------------------------------------- */

static TCase *cache_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    return tcase;
}

static void add_stream_cases(Suite *suite)
{
    TCase *tcase = cache_case(suite, "the stream itself");
    suite_add(tcase, freed_block_is_served_again_on_its_stream, freed_block_serves_every_size_of_its_class,
              freed_block_serves_no_size_of_another_class, last_block_freed_is_the_first_served,
              figures_of_a_live_a_cached_and_a_rounded_block_are_right, cached_blocks_are_not_live, hits_of_a_closed_stream_still_count,
              highest_live_figure_counts_blocks_that_the_cache_served, with_cache_off_nothing_is_kept_nor_rounded,
              request_above_largest_is_kept_but_not_rounded, request_of_exactly_largest_is_kept,
              largest_between_two_classes_rounds_only_to_the_lower, without_the_capture_check_blocks_are_served_as_well);
}

static void add_ownership_cases(Suite *suite)
{
    TCase *tcase = cache_case(suite, "whose cache");
    suite_add(tcase, freed_block_is_not_served_to_another_stream, block_freed_on_another_stream_enters_the_cache_of_that_stream,
              block_of_another_pool_goes_to_cuda, request_from_another_pool_is_not_served_by_the_cache,
              request_from_the_pool_of_the_stream_is_served_by_the_cache, raw_handle_of_an_opened_stream_is_served_by_its_cache,
              block_freed_on_the_raw_handle_of_an_opened_stream_enters_its_cache, raw_handle_uses_the_pool_of_its_stream,
              stream_that_is_not_opened_is_served_exactly, block_freed_on_a_stream_that_is_not_opened_goes_to_cuda,
              block_of_a_stream_that_was_not_opened_goes_to_cuda, stream_is_no_longer_cached_once_it_is_closed,
              stream_opened_again_has_an_empty_cache, per_thread_default_stream_is_never_cached,
              legacy_stream_is_cached_once_opened_whichever_its_name, blocks_of_an_exportable_pool_are_never_cached,
              blocks_of_a_private_pool_are_cached_on_its_stream, block_of_a_private_pool_goes_to_cuda_on_another_stream);
}

static void add_pointer_cases(Suite *suite)
{
    TCase *tcase = cache_case(suite, "wrong pointers");
    suite_add(tcase, second_free_of_a_cached_block_is_refused, second_free_on_another_stream_is_refused,
              interior_pointer_of_a_live_block_is_refused, interior_pointer_of_a_cached_block_is_refused, foreign_pointer_is_refused,
              block_served_again_can_be_freed_once_and_no_more, block_that_left_the_cache_for_cuda_is_refused,
              call_on_a_closed_stream_is_refused_and_the_block_stays_live);
}

static void add_capture_cases(Suite *suite)
{
    TCase *tcase = cache_case(suite, "captures");
    suite_add(tcase, request_on_a_capturing_stream_makes_a_node_though_the_cache_could_serve,
              raw_request_on_a_capturing_stream_makes_a_node_though_the_cache_could_serve,
              older_block_freed_on_a_capturing_stream_is_refused_and_stays_live, blocks_cached_before_a_capture_are_served_after_it,
              other_streams_are_served_by_their_caches_during_a_capture, cached_calls_of_another_thread_leave_a_global_capture_whole);
}

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("cache");
    add_stream_cases(suite);
    add_ownership_cases(suite);
    add_pointer_cases(suite);
    add_capture_cases(suite);
    add_bounds_cases(suite);
    add_flush_cases(suite);
    if (scene_is_sim())
        add_cache_simulator_cases(suite);
    return suite_run(suite);
}
