/* SPDX-License-Identifier: MIT */
/* align.c - the key `align`: every block of the pool begins at a multiple of it, wherever the memory comes from and whoever asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/scene.h"

#define KIB UINT64_C(1024)
#define MOST 256
#define STRANGER 512 /* bytes of a block that other code takes from the pool */

static const struct {
    const char *label, *pool;
} pools[] = {
    {"CUDA's", "release_threshold: all"},
    {"CUDA's without a twin", "small_below: 0"},
    {"CUDA's without caches", "cache: off"},
    {"CUDA's under a cap", "max_size: 512MiB"},
    {"the current one", "current: true"},
    {"the driver's", "backing: default"},
    {"an arena", "backing: arena"},
    {"an arena without caches", "backing: arena, cache: off"},
    {"an arena that begins with an odd size", "backing: arena, initial_size: 12345678"},
    {"one with little to cache", "cache: { per_stream: 1MiB, per_device: 2MiB, largest: 64KiB }"},
};
static const uint64_t aligns[] = {1 * KIB, 4 * KIB, 64 * KIB, 2 * MIB};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Some alignments with what takes other ways through the caches. */
static void open_aligned(const char *pool, uint64_t align)
{
    char text[512];
    snprintf(text, sizeof text, "weir: 1\nkeeper: true\nrecord: { level: %s }\nexact_peaks: %s\npools: { main: { %s, align: %llu } }\n",
             align == 1 * KIB ? "all" : "pool", align == 64 * KIB ? "true" : "false", pool, (unsigned long long)align);
    scene_open(text);
}

/* Blocks that are live, with the bytes that were asked for. */
static struct {
    char *ptr;
    uint64_t size;
} live[MOST];
static size_t count;

static int by_address(const void *one, const void *other)
{
    const char *a = *(char *const *)one, *b = *(char *const *)other;
    return a < b ? -1 : a > b;
}

static void expect_multiples(uint64_t align)
{
    qsort(live, count, sizeof live[0], by_address);
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg((uintptr_t)live[i].ptr % align == 0, "%p, of %llu bytes, is at no multiple of %llu", (void *)live[i].ptr,
                      (unsigned long long)live[i].size, (unsigned long long)align);
        ck_assert(i == 0 || live[i - 1].ptr + live[i - 1].size <= live[i].ptr);
    }
}

/* The three ways to ask, in turn. */
static void ask(weir_stream *s, gpu_stream raw, uint64_t size)
{
    void *ptr = count % 3 == 0   ? scene_malloc(s, size)
                : count % 3 == 1 ? scene_malloc_on(count % 2 ? raw : weir_stream_handle(s), size)
                                 : scene_pool_malloc(scene.pool, size, raw);
    live[count].ptr = ptr;
    live[count++].size = size;
}

static void give(weir_stream *s, gpu_stream raw)
{
    count--;
    if (count % 2)
        scene_free(s, live[count].ptr);
    else
        scene_free_on(raw, live[count].ptr);
}

static uint64_t raw_figure(enum gpu_pool_attribute attribute)
{
    uint64_t value = 0;
    ck_assert_int_eq(scene.gpu->pool_get(weir_pool_handle(scene.pool), attribute, &value), GPU_SUCCESS);
    return value;
}

/* Between the requests other code takes blocks from the pool, where it can, that shift what follows. */
START_TEST(every_block_begins_at_a_multiple)
{
    static const uint64_t sizes[] = {1, 512, 513, 5000, 70000, MIB + 512, 3 * MIB, 9 * MIB + 1024};
    uint64_t align = aligns[_i % COUNT(aligns)], rounded = 0;
    const char *pool = pools[_i / COUNT(aligns)].pool;
    void *strangers[MOST / 4];
    size_t others = 0;
    open_aligned(pool, align);
    weir_stream *s = scene_create(NULL);
    gpu_stream raw = scene_stream(0), theirs = scene_stream(0);
    bool is_arena = scene_pool_stats("main").is_arena;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
            if (!is_arena && round == 0)
                ck_assert_int_eq(scene.gpu->malloc_async(&strangers[others++], STRANGER, weir_pool_handle(scene.pool), theirs), GPU_SUCCESS);
            ask(s, raw, sizes[i % COUNT(sizes)]);
        }
        expect_multiples(align);
        for (size_t i = 0; i < COUNT(sizes); i++)
            give(s, raw);
        scene_sync(raw);
    }
    for (size_t i = 0; i < count; i++)
        rounded += (live[i].size + align - 1) / align * align;
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.align, align);
    ck_assert_uint_eq(stats.live, rounded);
    while (count)
        give(s, raw);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    if (!is_arena)
        ck_assert_uint_eq(raw_figure(GPU_POOL_USED), others * STRANGER);
    while (others)
        ck_assert_int_eq(scene.gpu->free_async(strangers[--others], theirs), GPU_SUCCESS);
    scene_sync(theirs);
}
END_TEST

START_TEST(host_memory_is_aligned_too)
{
    scene_open("weir: 1\npools: { main: { location: host, align: 64KiB } }\n");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < 20; i++)
        ask(s, weir_stream_handle(s), 5000);
    expect_multiples(64 * KIB);
    while (count)
        give(s, weir_stream_handle(s));
}
END_TEST

START_TEST(cache_serves_each_size_with_the_same_multiple)
{
    open_aligned(_i ? "backing: arena" : "small_below: 0", 4 * KIB);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 4097);
    scene_free(s, ptr);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 8 * KIB);
    ck_assert_ptr_eq(scene_malloc(s, 8192), ptr);
    scene_free(s, ptr);
    ck_assert_ptr_eq(scene_malloc_on(weir_stream_handle(s), 5000), ptr);
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, 2);
    scene_free(s, ptr);
    /* A large one, by its exact size. */
    ptr = scene_malloc(s, 8 * MIB + 1);
    scene_free(s, ptr);
    ck_assert_ptr_eq(scene_malloc(s, 8 * MIB + 3000), ptr);
    ck_assert_uint_eq(scene_pool_stats("main").cache_hits, 3);
    scene_free(s, ptr);
}
END_TEST

/* Small requests of a coarse pool are what they cost, to the bound of the cache and to the cap. */
START_TEST(bounds_count_what_blocks_take)
{
    open_aligned(_i ? "backing: arena, max_size: 256MiB" : "max_size: 256MiB", 2 * MIB);
    weir_stream *s = scene_create(NULL);
    void *blocks[MOST];
    size_t served = 0;
    while (served < MOST && weir_stream_malloc(s, &blocks[served], 512) == WEIR_OK)
        served++;
    ck_assert_uint_ge(served, 96);
    ck_assert_uint_le(served, 128);
    for (size_t i = 0; i < served; i++)
        scene_free(s, blocks[i]);
    ck_assert_uint_le(scene_pool_stats("main").cached, 64 * MIB);
}
END_TEST

START_TEST(block_of_a_graph_begins_at_a_multiple)
{
    size_t nodes = 0;
    uint64_t align = aligns[_i % COUNT(aligns)];
    open_aligned(_i < (int)COUNT(aligns) ? ALONE : "backing: arena", align);
    weir_stream *s = scene_create(NULL);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    void *small = scene_malloc(s, 100), *large = scene_malloc(s, 3 * MIB);
    ck_assert((uintptr_t)small % align == 0 && (uintptr_t)large % align == 0);
    scene_free(s, small);
    scene_free(s, large);
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(s), &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 4);
    ck_assert_uint_eq(scene_pool_stats("main").graph_blocks, 0);
}
END_TEST

START_TEST(size_that_cannot_be_rounded_is_out_of_memory)
{
    open_aligned(_i ? "backing: arena" : ALONE, 2 * MIB);
    weir_stream *s = scene_create(NULL);
    void *ptr = s;
    for (size_t less = 0; less < 3 * MIB; less += MIB - 1)
        ck_assert_int_eq(weir_stream_malloc(s, &ptr, SIZE_MAX - less), WEIR_OUT_OF_MEMORY);
    size_t nodes;
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, SIZE_MAX), WEIR_OUT_OF_MEMORY);
    scene.gpu->capture_end(weir_stream_handle(s), &nodes);
    ck_assert_ptr_eq(ptr, s);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 0), WEIR_OK);
    ck_assert_ptr_null(ptr);
}
END_TEST

/* A block of CUDA's that lies wrong, where any call on the way to another one fails: the request is served or fails, and nothing is lost but
   what CUDA twice refused to take back. */
START_TEST(failure_on_the_way_to_a_multiple_loses_nothing)
{
    static const char *const operations[] = {"malloc_async", "free_async", "pool_get", "pool_set", "pool_trim"};
    open_aligned("backing: default, cache: off", 4 * KIB);
    gpu_stream stream = scene_stream(0);
    void *stranger, *ptr;
    ck_assert_int_eq(scene.gpu->malloc_async(&stranger, STRANGER, weir_pool_handle(scene.pool), stream), GPU_SUCCESS);
    for (size_t i = 0; i < COUNT(operations); i++)
        for (unsigned nth = 1; nth < 8; nth++) {
            sim_fail(operations[i], nth, GPU_UNKNOWN);
            weir_status status = (weir_pool_malloc)(scene.pool, &ptr, 2 * MIB + 512, stream);
            sim_fail(operations[i], 0, 0);
            ck_assert(status == WEIR_OK || status == WEIR_CUDA_ERROR);
            if (status == WEIR_OK) {
                ck_assert_uint_eq((uintptr_t)ptr % (4 * KIB), 0);
                scene_free_on(stream, ptr);
            }
            ck_assert_uint_eq(raw_figure(GPU_POOL_USED), STRANGER);
        }
    ck_assert_int_eq(scene.gpu->free_async(stranger, stream), GPU_SUCCESS);
    scene_sync(stream);
}
END_TEST

START_TEST(block_that_outlives_its_weir_can_be_freed)
{
    void *stranger, *blocks[4];
    open_aligned(pools[_i].pool, 4 * KIB);
    gpu_stream stream = scene_stream(0);
    bool is_arena = scene_pool_stats("main").is_arena;
    if (!is_arena)
        ck_assert_int_eq(scene.gpu->malloc_async(&stranger, STRANGER, weir_pool_handle(scene.pool), stream), GPU_SUCCESS);
    for (size_t i = 0; i < COUNT(blocks); i++)
        blocks[i] = scene_pool_malloc(scene.pool, i % 2 ? 5000 : 3 * MIB, stream);
    const struct gpu *gpu = scene.gpu;
    scene_close();
    sim_fail("free_async", 1, GPU_UNKNOWN);
    ck_assert_int_eq((weir_free)(NULL, blocks[0], stream), is_arena ? WEIR_OK : WEIR_CUDA_ERROR);
    sim_fail("free_async", 0, 0);
    for (size_t i = is_arena; i < COUNT(blocks); i++)
        ck_assert_int_eq((weir_free)(NULL, blocks[i], stream), WEIR_OK);
    ck_assert_int_eq((weir_free)(NULL, blocks[0], stream), WEIR_INVALID);
    if (!is_arena)
        ck_assert_int_eq(gpu->free_async(stranger, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(stream), GPU_SUCCESS);
}
END_TEST

START_TEST(block_of_a_graph_that_outlives_its_weir_can_be_freed)
{
    size_t nodes = 0;
    open_aligned(pools[_i].pool, 64 * KIB);
    gpu_stream stream = scene_stream(0);
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    void *small = scene_pool_malloc(scene.pool, 100, stream), *large = scene_pool_malloc(scene.pool, 3 * MIB, stream);
    const struct gpu *gpu = scene.gpu;
    scene_close();
    ck_assert_int_eq((weir_free)(NULL, small, stream), WEIR_OK);
    ck_assert_int_eq((weir_free)(NULL, large, stream), WEIR_OK);
    ck_assert_int_eq((weir_free)(NULL, small, stream), WEIR_INVALID);
    ck_assert_int_eq(gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 4);
}
END_TEST

START_TEST(alignment_cannot_change_while_the_policy_is_open)
{
    weir_error error = WEIR_ERROR_INIT;
    open_aligned(ALONE, 4 * KIB);
    char path[] = "/tmp/weir-align-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *file = fdopen(fd, "w");
    fputs("weir: 1\nkeeper: true\npools: { main: { align: 64KiB } }\n", file);
    fclose(file);
    ck_assert_int_eq(weir_reload(scene.w, path, &error), WEIR_BAD_POLICY);
    remove(path);
    ck_assert_ptr_nonnull(strstr(error.text, "pools.main.align"));
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("align");
    TCase *tcase = suite_case(suite, "align", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, every_block_begins_at_a_multiple, 0, (int)(COUNT(pools) * COUNT(aligns)));
    tcase_add_loop_test(tcase, cache_serves_each_size_with_the_same_multiple, 0, 2);
    tcase_add_loop_test(tcase, bounds_count_what_blocks_take, 0, 2);
    tcase_add_loop_test(tcase, block_of_a_graph_begins_at_a_multiple, 0, 2 * (int)COUNT(aligns));
    tcase_add_loop_test(tcase, size_that_cannot_be_rounded_is_out_of_memory, 0, 2);
    suite_add(tcase, host_memory_is_aligned_too, alignment_cannot_change_while_the_policy_is_open);
    if (scene_is_sim()) {
        suite_add(tcase, failure_on_the_way_to_a_multiple_loses_nothing);
        tcase_add_loop_test(tcase, block_that_outlives_its_weir_can_be_freed, 0, (int)COUNT(pools));
        tcase_add_loop_test(tcase, block_of_a_graph_that_outlives_its_weir_can_be_freed, 0, (int)COUNT(pools));
    }
    return suite_run(suite);
}
