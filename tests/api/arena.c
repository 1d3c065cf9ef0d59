/* SPDX-License-Identifier: MIT */
/*
 * arena.c - pools with `backing: arena`: which memory serves whom and when, what is given back, and what is refused. Runs on the simulator
 * and on a GPU with virtual memory management.
 */
#include <stdio.h>
#include <string.h>

#include "lib/backing/arena.h"
#include "tests/api/scene.h"

#define PAGE (2 * MIB)
#define LONG 300 /* milliseconds of a kernel */

#define ARENA "backing: arena, cache: off"
static const char keeps[] = "weir: 1\npools: { main: { " ARENA ", release_threshold: all } }\n";
static const char keeps_alone[] = "weir: 1\npools: { main: { " ARENA ", release_threshold: all, " ALONE ", on_oom: { deadline: 5s } } }\n";
static const char gives[] = "weir: 1\npools: { main: { " ARENA ", release_threshold: 0 } }\n";

static uint64_t reserved_of(const char *name)
{
    return scene_pool_stats(name).reserved;
}

static uint64_t free_memory(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes;
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *label;
    uint64_t size, mapped;
} sizes[] = {
    { "one byte", 1, PAGE },
    { "below 1 MiB", MIB - 1, PAGE },
    { "1 MiB", MIB, PAGE },
    { "a page", PAGE, PAGE },
    { "a byte above a page", PAGE + 1, 2 * PAGE },
    { "several pages of the largest size", 200 * MIB, 200 * MIB },
};

START_TEST(block_is_mapped_in_whole_pages_and_counted_in_steps_of_512_bytes)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, sizes[_i].size);
    ck_assert_uint_eq((uintptr_t)ptr % 512, 0);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.reserved, sizes[_i].mapped);
    ck_assert_uint_eq(stats.live, sizes[_i].size);
    ck_assert_uint_eq(stats.used, (sizes[_i].size + 511) / 512 * 512);
    scene_free(s, ptr);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST

START_TEST(block_holds_what_is_written)
{
    enum { SIZE = 3 * 1000 * 1000 };
    static unsigned char bytes[SIZE], back[SIZE];
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = weir_stream_handle(s);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7);
    void *before = scene_malloc(s, 5 * MIB), *ptr = scene_malloc(s, SIZE), *small = scene_malloc(s, 1000);
    ck_assert_int_eq(scene.gpu->copy_async(ptr, bytes, SIZE, stream), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->set_async(before, 1, 5 * MIB, stream), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->set_async(small, 2, 1000, stream), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->copy_async(back, ptr, SIZE, stream), GPU_SUCCESS);
    scene_sync(stream);
    ck_assert_int_eq(memcmp(bytes, back, SIZE), 0);
    scene_free(s, before);
    scene_free(s, ptr);
    scene_free(s, small);
}
END_TEST

START_TEST(pages_without_a_live_block_serve_other_sizes)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    void *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = scene_malloc(s, 24 * MIB);
    void *small = scene_malloc(s, 64 << 10);
    uint64_t before = reserved_of("main");
    for (int i = 0; i < 8; i++)
        scene_free(s, blocks[i]);
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    void *large = scene_malloc(s, 192 * MIB);
    ck_assert_uint_eq(reserved_of("main"), before);
    scene_free(s, large);
    scene_free(s, small);
}
END_TEST

START_TEST(initial_size_is_mapped_at_open)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", initial_size: 96MiB, release_threshold: all } }\n");
    ck_assert_uint_eq(reserved_of("main"), 96 * MIB);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 96 * MIB));
    ck_assert_uint_eq(reserved_of("main"), 96 * MIB);
}
END_TEST

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(stream_uses_what_it_freed_at_once)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    scene_delay(weir_stream_handle(s), LONG);
    void *first = scene_malloc(s, 64 * MIB);
    scene_free(s, first);
    void *second = scene_malloc(s, 64 * MIB);
    ck_assert_ptr_eq(first, second);
    scene_free(s, second);
}
END_TEST

START_TEST(unopened_stream_uses_what_it_freed_at_once)
{
    scene_open(keeps);
    gpu_stream stream = scene_stream(0);
    scene_delay(stream, LONG);
    void *first = scene_malloc_on(stream, 64 * MIB);
    scene_free_on(stream, first);
    void *second = scene_malloc_on(stream, 64 * MIB);
    ck_assert_ptr_eq(first, second);
    scene_free_on(stream, second);
    scene_sync(stream);
}
END_TEST

START_TEST(other_stream_gets_other_memory_while_the_free_is_pending)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    scene_delay(weir_stream_handle(s), LONG);
    void *first = scene_malloc(s, 64 * MIB);
    scene_free(s, first);
    void *second = scene_malloc(other, 64 * MIB);
    ck_assert_ptr_ne(first, second);
    scene_free(other, second);
}
END_TEST

/* Who frees: an opened stream, one that is not open, one that is destroyed meanwhile, one that is closed meanwhile. */
enum freer { OPENED, RAW, DESTROYED, CLOSED, FREERS };

static void free_on(enum freer freer, void *ptr, weir_stream *s)
{
    gpu_stream raw = freer == OPENED || freer == CLOSED ? NULL : scene_stream(0);
    if (raw)
        scene_free_on(raw, ptr);
    else
        scene_free(s, ptr);
    if (raw)
        scene_sync(raw);
    else
        scene_sync(weir_stream_handle(s));
    if (freer == DESTROYED)
        scene_drop_stream(raw);
    if (freer == CLOSED)
        weir_stream_close(s);
}

START_TEST(complete_free_serves_any_stream)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *first = scene_malloc(s, 64 * MIB);
    free_on((enum freer)_i, first, s);
    void *second = scene_malloc(other, 64 * MIB);
    ck_assert_ptr_eq(first, second);
    scene_free(other, second);
}
END_TEST

/* At the cap, so that nothing can be mapped. */
START_TEST(stream_waits_for_a_pending_free_before_its_request_fails)
{
    unsigned char byte = 0;
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB, on_oom: { steps: [] } } }\n");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *first = scene_malloc(s, 64 * MIB);
    scene_delay(weir_stream_handle(s), LONG);
    ck_assert_int_eq(scene.gpu->set_async(first, 1, 1, weir_stream_handle(s)), GPU_SUCCESS);
    scene_free(s, first);
    void *second = scene_malloc(other, 64 * MIB);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(scene.gpu->set_async(second, 2, 1, weir_stream_handle(other)), GPU_SUCCESS);
    ck_assert_int_eq(scene.gpu->copy_async(&byte, second, 1, weir_stream_handle(other)), GPU_SUCCESS);
    scene_sync(weir_stream_handle(s));
    scene_sync(weir_stream_handle(other));
    ck_assert_int_eq(byte, 2);
    scene_free(other, second);
}
END_TEST

START_TEST(without_internal_dependencies_the_ladder_waits_for_it)
{
    scene_open(keeps_alone);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    uint64_t most = scene_share(90);
    void *first = scene_malloc(s, most);
    scene_delay(weir_stream_handle(s), LONG);
    scene_free(s, first);
    void *second = scene_malloc(other, most);
    scene_rescues(WEIR_RUNG_WAIT, 1, 1);
    scene_free(other, second);
}
END_TEST

START_TEST(pieces_that_several_streams_freed_serve_one_request)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 128MiB, on_oom: { steps: [] } } }\n");
    weir_stream *streams[4], *other = scene_create(NULL);
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        streams[i] = scene_create(NULL);
        blocks[i] = scene_malloc(streams[i], 32 * MIB);
    }
    for (int i = 0; i < 4; i++) {
        scene_delay(weir_stream_handle(streams[i]), LONG);
        scene_free(streams[i], blocks[i]);
    }
    scene_free(other, scene_malloc(other, 128 * MIB));
    ck_assert_uint_le(reserved_of("main"), 128 * MIB);
}
END_TEST

START_TEST(stream_that_was_destroyed_unclosed_leaves_its_memory_to_others)
{
    weir_stream *gone, *later;
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB } }\n");
    weir_stream *other = scene_create(NULL);
    gpu_stream handle = scene_stream(0);
    scene_ok(weir_stream_open(scene.w, 0, handle, NULL, NULL, &gone), "opening");
    scene_free(gone, scene_malloc(gone, 64 * MIB));
    scene_drop_stream(handle);
    gpu_stream again = scene_stream(0);
    scene_ok(weir_stream_open(scene.w, 0, again, NULL, NULL, &later), "opening");
    weir_stream_close(gone);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    scene_free(other, scene_malloc(other, 64 * MIB));
    weir_stream_close(later);
}
END_TEST

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(synchronise_gives_back_what_is_above_the_threshold)
{
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: 32MiB } }\n");
    weir_stream *s = scene_create(NULL);
    uint64_t before = free_memory();
    void *ptr = scene_malloc(s, 256 * MIB);
    scene_free(s, ptr);
    ck_assert_uint_eq(reserved_of("main"), 256 * MIB);
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_le(reserved_of("main"), 64 * MIB);
    ck_assert_uint_ge(free_memory() + 64 * MIB, before);
}
END_TEST

START_TEST(trim_gives_back_all_that_no_live_block_lies_on)
{
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    void *blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = scene_malloc(s, 8 * MIB);
    for (int i = 1; i < 16; i++)
        scene_free(s, blocks[i]);
    scene_sync(weir_stream_handle(s));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_uint_eq(reserved_of("main"), 8 * MIB);
    scene_free(s, blocks[0]);
    scene_sync(weir_stream_handle(s));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_uint_eq(reserved_of("main"), 0);
}
END_TEST

START_TEST(trim_takes_nothing_that_is_pending)
{
    uint64_t released;
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    scene_delay(weir_stream_handle(s), LONG);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "a trim");
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(reserved_of("main"), 64 * MIB);
}
END_TEST

START_TEST(cap_holds_to_the_page_and_can_be_raised_and_lowered)
{
    void *ptr;
    scene_open("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB } }\n");
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, 62 * MIB);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, PAGE + 1), WEIR_OUT_OF_MEMORY);
    void *second = scene_malloc(s, PAGE);
    ck_assert_uint_eq(reserved_of("main"), 64 * MIB);
    scene_reload("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 96MiB } }\n");
    void *third = scene_malloc(s, 32 * MIB);
    ck_assert_uint_eq(reserved_of("main"), 96 * MIB);
    scene_reload("weir: 1\npools: { main: { " ARENA ", release_threshold: all, max_size: 64MiB } }\n");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, PAGE), WEIR_OUT_OF_MEMORY);
    scene_free(s, first);
    scene_free(s, second);
    scene_free(s, third);
}
END_TEST

/* Nobody but Weir can take what an arena has idle, whatever the policy's ladder. */
static const char two[] = "weir: 1\ndefaults: { pool: %s }\npools:\n"
                          "  first: { backing: %s, cache: off, release_threshold: all, on_oom: { steps: [] } }\n"
                          "  main: { backing: %s, cache: off, release_threshold: all, on_oom: { steps: [] } }\n";

static const struct {
    const char *first, *second;
} pairs[] = { { "arena", "new" }, { "new", "arena" }, { "arena", "arena" } };

START_TEST(idle_memory_of_one_pool_serves_the_other)
{
    char policy[512];
    weir_pool *first;
    snprintf(policy, sizeof policy, two, "main", pairs[_i].first, pairs[_i].second);
    scene_open(policy);
    scene_ok(weir_pool_get(scene.w, "first", 0, NULL, &first), "a pool");
    weir_stream *s = scene_create(NULL);
    uint64_t most = scene_share(80);
    void *ptr = scene_pool_malloc(first, most, weir_stream_handle(s));
    scene_free(s, ptr);
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_uint_ge(reserved_of("first"), most);
    scene_free(s, scene_malloc(s, most));
    ck_assert_uint_lt(reserved_of("first"), most);
}
END_TEST

/* Captures ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(capturing_stream_gets_a_node_beside_the_arena)
{
    size_t nodes;
    scene_open(keeps);
    weir_stream *s = scene_create(NULL);
    gpu_stream stream = weir_stream_handle(s);
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    void *ptr = scene_malloc(s, 4 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").graph_blocks, 1);
    scene_free(s, ptr);
    ck_assert_int_eq(scene.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 2);
    ck_assert_uint_eq(reserved_of("main"), 0);
}
END_TEST

START_TEST(capturing_stream_cannot_free_a_block_of_the_arena)
{
    size_t nodes;
    scene_open(keeps);
    weir_stream *s = _i ? scene_create(NULL) : NULL;
    gpu_stream stream = s ? weir_stream_handle(s) : scene_stream(0);
    void *ptr = scene_malloc_on(stream, 4 * MIB);
    ck_assert_int_eq(scene.gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_int_eq(s ? weir_stream_free(s, ptr) : weir_free(scene.w, ptr, stream), WEIR_CAPTURING);
    ck_assert_int_eq(scene.gpu->capture_end(stream, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 0);
    ck_assert_uint_eq(scene_pool_stats("main").live, 4 * MIB);
    scene_free_on(stream, ptr);
}
END_TEST

START_TEST(growth_and_trim_leave_another_streams_capture_whole)
{
    size_t nodes;
    scene_open(gives);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    scene_free(other, scene_malloc(other, 8 * MIB));
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(other), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    scene_free(s, scene_malloc(s, 64 * MIB));
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "a trim");
    ck_assert_int_eq(scene.gpu->capture_end(weir_stream_handle(other), &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 0);
}
END_TEST

/* The end ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(blocks_that_outlive_the_weir_are_freed_without_one)
{
    scene_open(keeps);
    uint64_t before = free_memory();
    gpu_stream stream = scene_stream(0);
    void *first = scene_malloc_on(stream, 64 * MIB), *second = scene_malloc_on(stream, 1000);
    ck_assert_int_eq(weir_free(NULL, first, stream), WEIR_INVALID);
    scene_close();
    ck_assert_uint_gt(atomic_load(&scene.log_lines), 0);
    ck_assert_int_eq(scene.gpu->set_async(first, 1, 64 * MIB, stream), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(NULL, (char *)first + 512, stream), WEIR_INVALID);
    scene_ok(weir_free(NULL, first, stream), "a free after the close");
    ck_assert_int_eq(weir_free(NULL, first, stream), WEIR_INVALID);
    scene_ok(weir_free(NULL, second, stream), "a free after the close");
    scene_sync(stream);
    weir__arena_sweep();
    ck_assert_uint_ge(free_memory(), before);
}
END_TEST

START_TEST(private_arena_gives_its_memory_back_with_its_last_block)
{
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: {}, own: { " ARENA ", release_threshold: all } }\n"
               "streams: { mine: { pool: own, private: true } }\n");
    uint64_t before = free_memory();
    weir_stream *s = scene_create("mine");
    gpu_stream stream = scene_stream(0);
    void *first = scene_malloc(s, 64 * MIB), *second = scene_malloc(s, 64 * MIB);
    scene_free(s, first);
    weir_stream_close(s);
    ck_assert_uint_lt(free_memory(), before);
    scene_free_on(stream, second);
    scene_sync(stream);
    s = scene_create("mine");
    scene_free(s, scene_malloc(s, 128 * MIB));
    weir_stream_close(s);
    /* A driver keeps some of it for itself: 2 MiB were measured. */
    ck_assert_uint_ge(free_memory() + 32 * MIB, before);
}
END_TEST

/* Policies ----------------------------------------------------------------------------------------------------------------------------- */

static bool is_arena(const char *name)
{
    weir_pool *pool;
    scene_ok(weir_pool_get(scene.w, name, 0, NULL, &pool), "a pool");
    gpu_stream stream = scene_stream(0);
    scene_free_on(stream, scene_pool_malloc(pool, PAGE, stream));
    scene_sync(stream);
    return reserved_of(name) == PAGE; /* CUDA's pools grow by 32 MiB */
}

START_TEST(auto_is_an_arena_unless_the_pool_needs_one_of_cudas)
{
    scene_open("weir: 1\ndefaults: { pool: plain }\npools:\n"
               "  plain: { backing: auto, cache: off, release_threshold: all }\n"
               "  current: { backing: auto, cache: off, release_threshold: all, current: true, small_below: 0 }\n"
               "  shared: { backing: auto, ipc: posix_fd }\n");
    ck_assert(is_arena("plain"));
    ck_assert(!is_arena("current"));
    ck_assert(!is_arena("shared"));
}
END_TEST

START_TEST(device_without_mapping_has_a_pool_of_cudas_or_is_refused)
{
    weir *w;
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    scene_simulate("memory=2GiB,mapping=no");
    options.policy_text = "weir: 1\npools: { main: { backing: arena } }\n";
    ck_assert_int_eq(weir_open(&options, &error, &w), WEIR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "pools.main.backing"));
    scene_open("weir: 1\npools: { main: { backing: auto, cache: off, release_threshold: all, small_below: 0 } }\n");
    ck_assert(!is_arena("main"));
}
END_TEST

static const char *const refused[] = { "ipc: posix_fd", "current: true", "location: host" };

START_TEST(arena_that_cuda_would_have_to_know_is_refused)
{
    char policy[128];
    weir *w;
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    snprintf(policy, sizeof policy, "weir: 1\npools: { main: { backing: arena, %s } }\n", refused[_i]);
    options.policy_text = policy;
    ck_assert_int_eq(weir_open(&options, &error, &w), WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "backing: arena"));
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("arena");
    TCase *tcase = suite_case(suite, "arena", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, block_is_mapped_in_whole_pages_and_counted_in_steps_of_512_bytes, 0, (int)(sizeof sizes / sizeof *sizes));
    suite_add(tcase, block_holds_what_is_written, pages_without_a_live_block_serve_other_sizes, initial_size_is_mapped_at_open,
              stream_uses_what_it_freed_at_once, unopened_stream_uses_what_it_freed_at_once,
              other_stream_gets_other_memory_while_the_free_is_pending);
    tcase_add_loop_test(tcase, complete_free_serves_any_stream, 0, FREERS);
    suite_add(tcase, stream_waits_for_a_pending_free_before_its_request_fails, without_internal_dependencies_the_ladder_waits_for_it,
              pieces_that_several_streams_freed_serve_one_request, stream_that_was_destroyed_unclosed_leaves_its_memory_to_others,
              synchronise_gives_back_what_is_above_the_threshold, trim_gives_back_all_that_no_live_block_lies_on,
              trim_takes_nothing_that_is_pending, cap_holds_to_the_page_and_can_be_raised_and_lowered);
    tcase_add_loop_test(tcase, idle_memory_of_one_pool_serves_the_other, 0, (int)(sizeof pairs / sizeof *pairs));
    suite_add(tcase, capturing_stream_gets_a_node_beside_the_arena);
    tcase_add_loop_test(tcase, capturing_stream_cannot_free_a_block_of_the_arena, 0, 2);
    suite_add(tcase, growth_and_trim_leave_another_streams_capture_whole, blocks_that_outlive_the_weir_are_freed_without_one,
              private_arena_gives_its_memory_back_with_its_last_block, auto_is_an_arena_unless_the_pool_needs_one_of_cudas);
    if (scene_is_sim())
        suite_add(tcase, device_without_mapping_has_a_pool_of_cudas_or_is_refused);
    tcase_add_loop_test(tcase, arena_that_cuda_would_have_to_know_is_refused, 0, (int)(sizeof refused / sizeof *refused));
    return suite_run(suite);
}
