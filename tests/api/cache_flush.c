/* SPDX-License-Identifier: MIT */
/*
 * cache_flush.c - when caches give back what they hold: trim, the flush rung, reload, close, and what happens to it during a capture. Runs
 * on the simulator and on a GPU.
 */
#include <stdio.h>
#include <string.h>

#include "tests/api/cache.h"

static void trim(weir_pool *pool)
{
    scene_ok(weir_pool_trim(pool, 0, NULL, NULL), "weir_pool_trim");
}

static weir_pool *other_pool(void)
{
    weir_pool *pool;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &pool), "weir_pool_get");
    return pool;
}

/* Trim -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(trim_empties_the_caches_of_all_streams_of_the_pool)
{
    cache_open("on");
    for (size_t i = 0; i < 5; i++)
        cache_fill_many(scene_create(NULL), 64 * KIB, 4);
    ck_assert_uint_eq(cache_bytes("main"), 20 * 64 * KIB);
    trim(scene.pool);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 0);
    ck_assert_uint_eq(stats.used, 0);
}
END_TEST

START_TEST(trim_gives_the_memory_of_cached_blocks_to_the_device)
{
    cache_open("{ largest: 16MiB }");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 16 * MIB, 3);
    scene_sync(weir_stream_handle(s));
    trim(scene.pool);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, 0);
}
END_TEST

START_TEST(trim_leaves_the_caches_of_other_pools_alone)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL), *side = scene_create("side");
    cache_fill(s, 64 * KIB);
    cache_fill(side, 64 * KIB);
    trim(scene.pool);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_bytes("other"), 64 * KIB);
    trim(other_pool());
    ck_assert_uint_eq(cache_bytes("other"), 0);
}
END_TEST

START_TEST(trim_leaves_live_blocks_alone)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    cache_fill(s, 64 * KIB);
    trim(scene.pool);
    ck_assert_uint_eq(scene_pool_stats("main").live, 64 * KIB);
    scene_free(s, ptr);
}
END_TEST

START_TEST(trim_does_not_wait_for_a_busy_stream)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    gpu_event after;
    ck_assert_int_eq(scene.gpu->event_create(0, &after), GPU_SUCCESS);
    scene_delay(weir_stream_handle(s), 1); /* loads the kernel, which takes its time */
    scene_sync(weir_stream_handle(s));
    cache_fill(s, 64 * KIB);
    scene_delay(weir_stream_handle(s), 2000);
    ck_assert_int_eq(scene.gpu->event_record(after, weir_stream_handle(s)), GPU_SUCCESS);
    trim(scene.pool);
    ck_assert_int_eq(scene.gpu->event_query(after), GPU_NOT_READY);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    scene_sync(weir_stream_handle(s));
    ck_assert_int_eq(scene.gpu->event_destroy(after), GPU_SUCCESS);
}
END_TEST

/* The flush rung ---------------------------------------------------------------------------------------------------------------------- */

/* A pool of which a cache holds as much as it may, an eighth of the cap: 4 blocks of 64 MiB of 2 GiB. */
#define MOST (1920 * MIB) /* what fits beside nothing else */

static weir_stream *fill_cap(const char *steps)
{
    char text[512];
    snprintf(text, sizeof text,
             "weir: 1\npools: { main: { small_below: 0, max_size: 2GiB, cache: { per_stream: 512MiB, largest: 64MiB }, "
             "on_oom: { steps: [%s], deadline: 10s } } }\n",
             steps);
    scene_open(text);
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 64 * MIB, 4);
    ck_assert_uint_eq(cache_bytes("main"), 256 * MIB);
    return s;
}

START_TEST(cached_blocks_count_towards_max_size)
{
    void *ptr;
    weir_stream *s = fill_cap("");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MOST), WEIR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(report_of_a_refusal_tells_what_is_cached)
{
    void *ptr;
    weir_error error;
    weir_stream *s = fill_cap("");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MOST), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "cached 256") != NULL, "%s", error.text);
}
END_TEST

START_TEST(request_at_the_cap_is_rescued_by_flush)
{
    weir_stream *s = fill_cap("flush");
    void *ptr = scene_malloc(s, MOST);
    scene_rescues(WEIR_RUNG_FLUSH, 1, 1);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    scene_free(s, ptr);
}
END_TEST

START_TEST(request_on_another_stream_at_the_cap_is_rescued_by_flush)
{
    fill_cap("flush");
    gpu_stream raw = scene_stream(0);
    void *ptr = scene_malloc_on(raw, MOST);
    scene_rescues(WEIR_RUNG_FLUSH, 1, 1);
    scene_free_on(raw, ptr);
}
END_TEST

START_TEST(request_that_the_cache_can_serve_needs_no_recovery_at_the_cap)
{
    weir_stream *s = fill_cap("flush");
    void *ptr = scene_malloc(s, 64 * MIB);
    ck_assert_uint_eq(scene_device_stats(0).recoveries, 0);
    scene_free(s, ptr);
}
END_TEST

START_TEST(flush_that_gave_nothing_rescues_nobody)
{
    void *ptr;
    weir_stream *s = fill_cap("flush");
    trim(scene.pool);
    void *held = scene_malloc(s, MOST);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MOST), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(scene_device_stats(0).rescues[WEIR_RUNG_FLUSH], 0);
    scene_free(s, held);
}
END_TEST

/* Reload ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(reload_empties_the_caches)
{
    cache_open("on");
    cache_fill(scene_create(NULL), 64 * KIB);
    cache_fill(scene_create("side"), 64 * KIB);
    cache_reload("on");
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_bytes("other"), 0);
}
END_TEST

START_TEST(reload_that_is_refused_leaves_the_caches_alone)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    ck_assert_int_ne(weir_reload(scene.w, "/nonexistent/policy.yaml", NULL), WEIR_OK);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
}
END_TEST

START_TEST(cache_switched_off_by_reload_keeps_nothing_more)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    cache_reload("off");
    scene_free(s, ptr);
    cache_fill(s, 64 * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(cache_switched_on_by_reload_keeps_blocks_on_streams_already_open)
{
    cache_open("off");
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    cache_reload("on");
    cache_fill(s, 64 * KIB);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    scene_free_on(weir_stream_handle(s), scene_malloc_on(weir_stream_handle(s), 64 * KIB));
    ck_assert_uint_eq(cache_hits("main"), 1);
}
END_TEST

START_TEST(block_from_before_the_cache_was_switched_on_goes_to_cuda)
{
    cache_open("off");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 63 * KIB);
    cache_reload("on");
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST

START_TEST(largest_lowered_by_reload_keeps_no_larger_block)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *large = scene_malloc(s, 512 * KIB), *small = scene_malloc(s, 64 * KIB);
    cache_reload("{ largest: 64KiB }");
    scene_free(s, large);
    scene_free(s, small);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    ck_assert_uint_eq(scene_pool_stats("main").used, 64 * KIB);
}
END_TEST

START_TEST(bounds_lowered_by_reload_hold_for_an_empty_cache_that_was_full)
{
    void *ptrs[64];
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    cache_fill_many(s, 64 * KIB, 64);
    for (size_t i = 0; i < 64; i++)
        ptrs[i] = scene_malloc(s, 64 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 64);
    cache_reload("{ per_stream: 1MiB, per_device: 1MiB }");
    for (size_t i = 0; i < 64; i++)
        scene_free(s, ptrs[i]);
    ck_assert_uint_eq(cache_bytes("main"), MIB);
}
END_TEST

START_TEST(bounds_lowered_by_reload_hold_from_the_next_free_on)
{
    void *ptrs[64];
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    for (size_t i = 0; i < 64; i++)
        ptrs[i] = scene_malloc(s, 64 * KIB);
    for (size_t i = 0; i < 64; i++) {
        if (i == 32)
            cache_reload("{ per_stream: 1MiB, per_device: 1MiB }");
        scene_free(s, ptrs[i]);
        ck_assert_uint_le(cache_bytes("main"), i < 32 ? 4 * MIB : MIB);
    }
    ck_assert_uint_eq(cache_bytes("main"), MIB);
}
END_TEST

/* Close ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(closing_a_stream_gives_its_cache_back)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    cache_fill_many(s, 64 * KIB, 8);
    cache_fill(other, 64 * KIB);
    weir_stream_close(s);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 64 * KIB);
    ck_assert_uint_eq(stats.used, 64 * KIB);
}
END_TEST

/* scene_end() looks for what is left on the simulator. */
START_TEST(closing_the_weir_gives_all_caches_back)
{
    cache_open("on");
    for (size_t i = 0; i < 70; i++)
        cache_fill(scene_create(i % 2 ? NULL : "side"), 64 * KIB);
    scene_close();
}
END_TEST

START_TEST(private_pool_serves_the_next_stream_once_the_cache_of_the_last_is_empty)
{
    cache_open("on");
    weir_stream *first = scene_create("own");
    weir_pool *pool = weir_stream_pool(first);
    cache_fill(first, 64 * KIB);
    weir_stream_close(first);
    weir_stream *second = scene_create("own");
    ck_assert_ptr_eq(weir_stream_pool(second), pool);
}
END_TEST

/* Captures ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(trim_leaves_the_cache_of_a_capturing_stream_alone)
{
    cache_open("on");
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    void *ptr = cache_fill(captured, 64 * KIB);
    cache_fill(s, 128 * KIB);
    cache_begin_capture(weir_stream_handle(captured));
    trim(scene.pool);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    cache_end_capture(weir_stream_handle(captured));
    ck_assert_ptr_eq(scene_malloc(captured, 64 * KIB), ptr);
    scene_free(captured, ptr);
}
END_TEST

START_TEST(reload_leaves_a_capture_whole)
{
    cache_open("on");
    weir_stream *captured = scene_create(NULL), *s = scene_create(NULL);
    cache_fill(captured, 64 * KIB);
    cache_fill(s, 64 * KIB);
    cache_begin_capture(weir_stream_handle(captured));
    cache_reload("off");
    cache_end_capture(weir_stream_handle(captured));
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    trim(scene.pool);
    ck_assert_uint_eq(cache_bytes("main"), 0);
}
END_TEST

START_TEST(flush_rung_leaves_a_capture_whole)
{
    weir_stream *captured = fill_cap("flush");
    weir_stream *s = scene_create(NULL);
    void *ptr;
    cache_begin_capture(weir_stream_handle(captured));
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MOST), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(scene.gpu->exchange_capture_mode(&mode), GPU_SUCCESS);
    cache_end_capture(weir_stream_handle(captured));
    ck_assert_uint_eq(cache_bytes("main"), 256 * MIB);
    scene_free(s, scene_malloc(s, MOST));
    scene_rescues(WEIR_RUNG_FLUSH, 1, 2);
}
END_TEST

/* The blocks cannot be freed on the stream, nor anywhere else, as long as its work may run. */
static gpu_stream close_during_capture(void)
{
    weir_stream *s;
    gpu_stream raw = scene_stream(0);
    cache_open("on");
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    cache_fill(s, 64 * KIB);
    cache_begin_capture(raw);
    weir_stream_close(s);
    return raw;
}

START_TEST(stream_closed_during_its_capture_leaves_it_whole)
{
    cache_end_capture(close_during_capture());
}
END_TEST

START_TEST(blocks_of_a_stream_closed_during_its_capture_stay_in_the_figures)
{
    gpu_stream raw = close_during_capture();
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 64 * KIB);
    ck_assert_uint_eq(stats.live_blocks, 0);
    cache_end_capture(raw);
}
END_TEST

/* Nobody may ask a closed stream whether it captures on, or again. */
START_TEST(blocks_of_a_stream_closed_during_its_capture_go_back_with_no_trim)
{
    cache_end_capture(close_during_capture());
    trim(scene.pool);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.cached, 64 * KIB);
    ck_assert_uint_eq(stats.used, 64 * KIB);
}
END_TEST

START_TEST(orphans_are_not_served_to_the_stream_opened_again)
{
    weir_stream *s;
    gpu_stream raw = close_during_capture();
    cache_end_capture(raw);
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    scene_free(s, scene_malloc(s, 64 * KIB));
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(orphans_go_back_once_their_stream_is_opened_again)
{
    weir_stream *s;
    gpu_stream raw = close_during_capture();
    cache_end_capture(raw);
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    trim(scene.pool);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST

/* The free says that the stream captures no more. */
START_TEST(orphans_go_back_once_their_stream_has_freed_again)
{
    void *ptr;
    gpu_stream raw = close_during_capture();
    trim(scene.pool);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 64 * KIB);
    cache_end_capture(raw);
    ck_assert_int_eq(weir_malloc(scene.w, &ptr, 64 * KIB, 0, raw), WEIR_OK);
    ck_assert_int_eq(weir_free(scene.w, ptr, raw), WEIR_OK);
    trim(scene.pool);
    ck_assert_uint_eq(scene_pool_stats("main").cached, 0);
}
END_TEST

START_TEST(second_free_of_an_orphan_is_refused)
{
    weir_stream *s;
    gpu_stream raw = scene_stream(0);
    cache_open("on");
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(raw);
    weir_stream_close(s);
    cache_end_capture(raw);
    ck_assert_int_eq(weir_free(scene.w, ptr, raw), WEIR_NOT_A_BLOCK);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
}
END_TEST

START_TEST(orphans_go_back_when_the_weir_is_closed)
{
    cache_end_capture(close_during_capture());
    scene_close();
}
END_TEST

/* Nobody can free them as long as the capture lasts, and afterwards there is no weir. */
START_TEST(weir_closed_during_a_capture_leaves_it_whole_and_says_what_is_lost)
{
    weir_stream *s;
    gpu_stream raw = scene_stream(0);
    cache_open("on");
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    void *ptr = cache_fill(s, 64 * KIB);
    cache_begin_capture(raw);
    unsigned before = atomic_load(&scene.log_lines);
    scene_close();
    ck_assert_uint_eq(atomic_load(&scene.log_lines), before + 1);
    cache_end_capture(raw);
    ck_assert_int_eq(scene.gpu->free_async(ptr, raw), GPU_SUCCESS);
    scene_sync(raw);
}
END_TEST

START_TEST(private_pool_with_an_orphan_serves_no_new_stream)
{
    weir_stream *first;
    gpu_stream raw = scene_stream(0);
    cache_open("on");
    scene_ok(weir_stream_open(scene.w, 0, raw, "own", NULL, &first), "weir_stream_open");
    weir_pool *pool = weir_stream_pool(first);
    cache_fill(first, 64 * KIB);
    cache_begin_capture(raw);
    weir_stream_close(first);
    cache_end_capture(raw);
    weir_stream *second = scene_create("own");
    ck_assert_ptr_ne(weir_stream_pool(second), pool);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------------------------------------- */

static TCase *flush_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    return tcase;
}

static void add_rung_cases(Suite *suite)
{
    TCase *trims = flush_case(suite, "trim"), *rung = flush_case(suite, "the flush rung");
    suite_add(trims, trim_empties_the_caches_of_all_streams_of_the_pool, trim_gives_the_memory_of_cached_blocks_to_the_device,
              trim_leaves_the_caches_of_other_pools_alone, trim_leaves_live_blocks_alone, trim_does_not_wait_for_a_busy_stream);
    suite_add(rung, cached_blocks_count_towards_max_size, report_of_a_refusal_tells_what_is_cached, request_at_the_cap_is_rescued_by_flush,
              request_on_another_stream_at_the_cap_is_rescued_by_flush, request_that_the_cache_can_serve_needs_no_recovery_at_the_cap,
              flush_that_gave_nothing_rescues_nobody);
}

void add_flush_cases(Suite *suite)
{
    TCase *reload = flush_case(suite, "reload"), *close = flush_case(suite, "close"), *capture = flush_case(suite, "flush and capture");
    add_rung_cases(suite);
    suite_add(reload, reload_empties_the_caches, reload_that_is_refused_leaves_the_caches_alone,
              cache_switched_off_by_reload_keeps_nothing_more, cache_switched_on_by_reload_keeps_blocks_on_streams_already_open,
              block_from_before_the_cache_was_switched_on_goes_to_cuda, largest_lowered_by_reload_keeps_no_larger_block,
              bounds_lowered_by_reload_hold_for_an_empty_cache_that_was_full, bounds_lowered_by_reload_hold_from_the_next_free_on);
    suite_add(close, closing_a_stream_gives_its_cache_back, closing_the_weir_gives_all_caches_back,
              private_pool_serves_the_next_stream_once_the_cache_of_the_last_is_empty);
    suite_add(capture, trim_leaves_the_cache_of_a_capturing_stream_alone, reload_leaves_a_capture_whole, flush_rung_leaves_a_capture_whole,
              stream_closed_during_its_capture_leaves_it_whole, blocks_of_a_stream_closed_during_its_capture_stay_in_the_figures,
              blocks_of_a_stream_closed_during_its_capture_go_back_with_no_trim, orphans_are_not_served_to_the_stream_opened_again,
              orphans_go_back_once_their_stream_is_opened_again, orphans_go_back_once_their_stream_has_freed_again,
              second_free_of_an_orphan_is_refused, orphans_go_back_when_the_weir_is_closed,
              weir_closed_during_a_capture_leaves_it_whole_and_says_what_is_lost, private_pool_with_an_orphan_serves_no_new_stream);
}
