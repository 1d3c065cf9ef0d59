/* SPDX-License-Identifier: MIT */
/*
 * cache_sim.c - caches where the simulator is needed: calls of CUDA are counted and made to fail, streams are destroyed under Weir's feet,
 * and the driver is an old one.
 */
#include "lib/alloc/stream.h"
#include "lib/open.h"
#include "lib/pool/settings.h"
#include "tests/api/cache.h"

/* Calls ------------------------------------------------------------------------------------------------------------------------------- */

/* How many calls of the operation, or in all for NULL, a cached pair makes; on the weir_stream, or on its raw handle. */
static uint64_t calls_of_pair(weir_stream *s, const char *operation, bool is_raw)
{
    gpu_stream raw = weir_stream_handle(s);
    uint64_t before = sim_calls(operation);
    if (is_raw)
        scene_free_on(raw, scene_malloc_on(raw, 64 * KIB));
    else
        scene_free(s, scene_malloc(s, 64 * KIB));
    return sim_calls(operation) - before;
}

static weir_stream *warm(const char *cache)
{
    cache_open(cache);
    weir_stream *s = scene_create(NULL);
    cache_fill(s, 64 * KIB);
    return s;
}

START_TEST(cached_pair_asks_cuda_for_the_capture_and_nothing_else)
{
    weir_stream *s = warm("on");
    ck_assert_uint_eq(calls_of_pair(s, NULL, false), 2);
    ck_assert_uint_eq(calls_of_pair(s, "stream_capture_status", false), 2);
}
END_TEST

START_TEST(cached_pair_without_the_check_makes_no_call)
{
    weir_stream *s = warm("{ capture_check: false }");
    ck_assert_uint_eq(calls_of_pair(s, NULL, false), 0);
}
END_TEST

START_TEST(cached_pair_on_a_raw_handle_asks_for_its_id_as_well)
{
    weir_stream *s = warm("on");
    ck_assert_uint_eq(calls_of_pair(s, NULL, true), 4);
    ck_assert_uint_eq(calls_of_pair(s, "stream_id", true), 2);
    ck_assert_uint_eq(calls_of_pair(s, "stream_capture_status", true), 2);
}
END_TEST

/* The question for the id would destroy a capture. */
START_TEST(cached_pair_on_a_raw_handle_asks_for_the_capture_without_the_check_too)
{
    weir_stream *s = warm("{ capture_check: false }");
    ck_assert_uint_eq(calls_of_pair(s, NULL, true), 4);
    ck_assert_uint_eq(calls_of_pair(s, "stream_id", true), 2);
    ck_assert_uint_eq(calls_of_pair(s, "stream_capture_status", true), 2);
}
END_TEST

START_TEST(pair_above_largest_that_the_threshold_does_not_cover_allocates_and_frees_at_cuda)
{
    weir_stream *s = warm("{ largest: 4KiB }, release_threshold: 0");
    ck_assert_uint_eq(calls_of_pair(s, "malloc_async", false), 1);
    ck_assert_uint_eq(calls_of_pair(s, "free_async", false), 1);
}
END_TEST

START_TEST(stream_of_which_nobody_knows_whether_it_captures_is_left_alone)
{
    weir_stream *s = warm("on");
    uint64_t before = sim_calls("free_async");
    void *ptr = scene_malloc(s, 64 * KIB);
    sim_fail("stream_capture_status", 1, GPU_CAPTURE_IMPLICIT);
    ck_assert_int_eq(weir_free(scene.w, ptr, weir_stream_handle(s)), WEIR_OK);
    ck_assert_uint_eq(sim_calls("free_async"), before + 1);
    ck_assert_uint_eq(cache_bytes("main"), 0);
}
END_TEST

/* CUDA cannot see that the second free is one. Whoever gets the address then must be the only one. */
START_TEST(cached_block_that_the_program_frees_with_cuda_again_is_served_to_one_only)
{
    weir_stream *s = warm("on"), *other = scene_create(NULL);
    void *twice = scene_malloc(s, 64 * KIB), *again = NULL;
    scene_free(s, twice);
    ck_assert_int_eq(scene.gpu->free_async(twice, weir_stream_handle(s)), GPU_SUCCESS);
    scene.gpu->stream_synchronize(weir_stream_handle(s));
    again = scene_malloc(other, 64 * KIB);
    ck_assert_ptr_eq(again, twice);
    void *mine = scene_malloc(s, 64 * KIB);
    ck_assert_ptr_ne(mine, twice);
    scene_free(s, mine);
    scene_free(other, again);
    ck_assert_int_eq(weir_stream_free(s, twice), WEIR_NOT_A_BLOCK);
}
END_TEST

/* Failures ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_that_cuda_does_not_take_in_a_flush_is_kept_for_the_next)
{
    weir_stream *s = warm("on");
    sim_fail("free_async", 1, GPU_UNKNOWN);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    weir_stream_close(s);
}
END_TEST

START_TEST(block_that_cuda_does_not_take_when_it_makes_room_is_kept)
{
    cache_open("{ per_stream: 1MiB }");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 64 * KIB);
    cache_fill(s, MIB);
    sim_fail("free_async", 1, GPU_UNKNOWN);
    scene_free(s, ptr);
    ck_assert_uint_eq(cache_bytes("main"), MIB + 64 * KIB);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST


/* What a flush calls. */
static const char *const flush_calls[] = {
    "exchange_capture_mode", "stream_id", "stream_capture_status", "free_async", "event_create", "event_record", "event_query",
    "event_synchronize", "event_destroy", "pool_trim", "pool_get", "pool_set", "device_synchronize",
};
#define FLUSH_CALLS ((int)(sizeof flush_calls / sizeof flush_calls[0]))
#define TIMES 4

static void fail_some_call(int index)
{
    sim_fail(flush_calls[index / TIMES], (unsigned)(index % TIMES) + 1, GPU_UNKNOWN);
}

static void fail_no_more(int index)
{
    sim_fail(flush_calls[index / TIMES], 0, GPU_SUCCESS);
}

START_TEST(trim_loses_no_block_to_the_failure_of_any_call)
{
    cache_open("on");
    weir_stream *a = scene_create(NULL), *b = scene_create(NULL);
    cache_fill_many(a, 64 * KIB, 3);
    cache_fill_many(b, 64 * KIB, 3);
    fail_some_call(_i);
    weir_pool_trim(scene.pool, 0, NULL, NULL);
    fail_no_more(_i);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST

START_TEST(close_of_a_stream_loses_no_block_to_the_failure_of_any_call)
{
    cache_open("on");
    gpu_stream raw = scene_stream(0);
    weir_stream *s;
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, &s), "weir_stream_open");
    cache_fill_many(s, 64 * KIB, 3);
    fail_some_call(_i);
    weir_stream_close(s);
    fail_no_more(_i);
    /* What a stream that could not say whether it captured has left behind goes back only here. */
    scene_close();
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.blocks, 0);
}
END_TEST

START_TEST(flush_rung_rescues_a_request_on_a_full_device)
{
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: { per_stream: 768MiB, per_device: 768MiB, largest: 64MiB }, "
               "on_oom: { steps: [flush] } } }\n");
    weir_stream *s = scene_create(NULL);
    void *held = scene_malloc(s, 7 * GIB);
    cache_fill_many(s, 64 * MIB, 12);
    scene_free(s, scene_malloc(s, 512 * MIB));
    scene_rescues(WEIR_RUNG_FLUSH, 1, 1);
    scene_free(s, held);
}
END_TEST

START_TEST(device_without_a_shortage_keeps_its_caches)
{
    scene_simulate("devices=2,memory=8GiB");
    scene_open("weir: 1\npools: { main: { small_below: 0, cache: { per_stream: 768MiB, per_device: 768MiB, largest: 64MiB } } }\n");
    weir_stream *near = scene_create(NULL), *far;
    scene_ok(weir_stream_create(scene.w, 1, NULL, NULL, &far), "weir_stream_create");
    void *held = scene_malloc(near, 7 * GIB);
    cache_fill_many(near, 64 * MIB, 12);
    void *ptr = cache_fill(far, 64 * KIB);
    scene_free(near, scene_malloc(near, 512 * MIB));
    scene_free(near, held);
    ck_assert_ptr_eq(scene_malloc(far, 64 * KIB), ptr);
    scene_free(far, ptr);
}
END_TEST

/* Handles ----------------------------------------------------------------------------------------------------------------------------- */

/* A stream that was destroyed while it was open, with 64 KiB in its cache at *ptr; the handle is a new stream. */
static gpu_stream recycle(weir_stream **s, void **ptr)
{
    gpu_stream raw, again;
    ck_assert_int_eq(scene.gpu->stream_create(0, &raw), GPU_SUCCESS);
    scene_ok(weir_stream_open(scene.w, 0, raw, NULL, NULL, s), "weir_stream_open");
    *ptr = cache_fill(*s, 64 * KIB);
    ck_assert_int_eq(scene.gpu->stream_destroy(raw), GPU_SUCCESS);
    again = scene_stream(0);
    ck_assert_ptr_eq(again, raw);
    return again;
}

/* Weir learns of it when the new stream is opened. */
static weir_stream *recycle_and_open(weir_stream **s)
{
    weir_stream *opened;
    void *ptr;
    gpu_stream again = recycle(s, &ptr);
    scene_ok(weir_stream_open(scene.w, 0, again, NULL, NULL, &opened), "weir_stream_open");
    return opened;
}

START_TEST(recycled_handle_is_not_served_from_the_old_streams_cache)
{
    weir_stream *s;
    void *ptr;
    cache_open("on");
    gpu_stream again = recycle(&s, &ptr);
    void *other = scene_malloc_on(again, 64 * KIB);
    ck_assert_ptr_ne(other, ptr);
    ck_assert_uint_eq(cache_hits("main"), 0);
    scene_free_on(again, other);
    weir_stream_close(s);
}
END_TEST

START_TEST(block_freed_on_a_recycled_handle_does_not_enter_the_old_streams_cache)
{
    weir_stream *s;
    void *ptr;
    cache_open("on");
    gpu_stream again = recycle(&s, &ptr);
    weir_stream *other = scene_create(NULL);
    void *block = scene_malloc(other, 64 * KIB);
    scene_free_on(again, block);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    weir_stream_close(s);
}
END_TEST

START_TEST(recycled_handle_can_be_opened_beside_its_predecessor)
{
    weir_stream *s, *opened;
    void *ptr;
    cache_open("on");
    gpu_stream again = recycle(&s, &ptr);
    scene_ok(weir_stream_open(scene.w, 0, again, NULL, NULL, &opened), "weir_stream_open");
    void *own = scene_malloc_on(again, 64 * KIB);
    ck_assert_ptr_ne(own, ptr);
    scene_free_on(again, own);
    ck_assert_ptr_eq(scene_malloc(opened, 64 * KIB), own);
    scene_free(opened, own);
    weir_stream_close(s);
}
END_TEST

/* A thread that found a stream by its id may be late: another stream may be in the place of that one. */
START_TEST(call_for_a_stream_that_was_replaced_meanwhile_is_not_served)
{
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB), *served = NULL;
    uint64_t id = s->id, former = id + 1;
    unsigned class = weir__class_of(64 * KIB);
    ck_assert_int_eq(weir__cache_serve(s, &former, NULL, class, 64 * KIB, &served, false), WEIR__CACHE_CLOSED);
    ck_assert_ptr_null(served);
    ck_assert_int_eq(weir__cache_serve(s, &id, NULL, class, 64 * KIB, &served, false), WEIR__CACHE_DONE);
    ck_assert_ptr_eq(served, ptr);
    struct weir__block block;
    struct weir__entry *entry;
    ck_assert(weir__blocks_take(&scene.w->blocks, ptr, &block, &entry, WEIR__TAKER_FREE));
    ck_assert_ptr_nonnull(entry);
    ck_assert_int_eq(weir__cache_keep(s, &former, entry), WEIR__CACHE_CLOSED);
    ck_assert_int_eq(weir__cache_keep(s, &id, entry), WEIR__CACHE_DONE);
}
END_TEST

START_TEST(trim_frees_the_blocks_of_a_destroyed_stream_behind_the_device)
{
    weir_stream *s;
    cache_open("on");
    recycle_and_open(&s);
    uint64_t before = sim_calls("event_record_device");
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(sim_calls("event_record_device"), before + 1);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
    weir_stream_close(s);
}
END_TEST

/* It has nothing any more that could be taken back. */
START_TEST(what_a_destroyed_stream_was_granted_serves_others)
{
    weir_stream *s;
    cache_open("{ per_stream: 64KiB, per_device: 64KiB, largest: 64KiB }");
    weir_stream *opened = recycle_and_open(&s);
    for (unsigned i = 0; i < 2000; i++)
        cache_fill(opened, 64 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 1999);
    ck_assert_uint_eq(cache_bytes("main"), 128 * KIB); /* the former stream's, too */
    weir_stream_close(s);
}
END_TEST

/* That is the service thread's, which exports wait for. */
START_TEST(change_of_the_policy_from_outside_waits_for_no_device)
{
    weir_stream *s;
    weir_error error = WEIR_ERROR_INIT;
    cache_open("on");
    weir_stream *later = recycle_and_open(&s);
    scene_free(later, scene_malloc(later, 64 * KIB));
    uint64_t devices = sim_calls("event_record_device"), events = sim_calls("event_query");
    ck_assert_msg(weir__policy_set(scene.w, "pools.main.keep=16MiB", &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(sim_calls("event_record_device"), devices);
    ck_assert_uint_eq(sim_calls("event_query"), events);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB); /* the former stream's */
    weir_stream_close(s);
}
END_TEST

START_TEST(blocks_of_a_destroyed_stream_wait_for_the_end_of_a_capture)
{
    weir_stream *s;
    cache_open("on");
    recycle_and_open(&s);
    weir_stream *captured = scene_create(NULL);
    cache_begin_capture(weir_stream_handle(captured));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    cache_end_capture(weir_stream_handle(captured));
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(cache_bytes("main"), 0);
    weir_stream_close(s);
}
END_TEST

START_TEST(stream_closed_after_its_handle_was_recycled_leaves_orphans)
{
    weir_stream *s;
    cache_open("on");
    recycle_and_open(&s);
    weir_stream_close(s);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    ck_assert_uint_eq(cache_bytes("main"), 0);
}
END_TEST

START_TEST(closing_the_weir_frees_the_blocks_of_a_destroyed_stream)
{
    weir_stream *s;
    cache_open("on");
    recycle_and_open(&s);
    scene_close();
}
END_TEST

/* A fixed handle means a stream of the device that it was opened on, whichever device the block is of. */
START_TEST(block_freed_on_an_opened_default_stream_of_another_device_waits_for_that_stream)
{
    scene_simulate("devices=2,memory=1GiB");
    cache_open("off");
    weir_stream *far;
    scene_ok(weir_stream_open(scene.w, 1, NULL, NULL, NULL, &far), "weir_stream_open");
    weir_stream *near = scene_create(NULL);
    void *ptr = scene_malloc(near, 64 * MIB);
    scene_sync(weir_stream_handle(near));
    ck_assert_int_eq(scene.gpu->set_current_device(1), GPU_SUCCESS);
    scene_delay(NULL, 20);
    ck_assert_int_eq(scene.gpu->set_current_device(0), GPU_SUCCESS);
    scene_free(far, ptr);
    /* The free has not come to pass, so nothing of the pool can go back. */
    scene_sync(weir_stream_handle(near));
    uint64_t released = 1;
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_uint_eq(released, 0);
    scene_ok(weir_stream_synchronize(far, NULL), "weir_stream_synchronize");
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_uint_ge(released, 64 * MIB);
    weir_stream_close(far);
}
END_TEST

START_TEST(opened_stream_of_another_device_is_another_stream)
{
    scene_simulate("devices=2,memory=1GiB");
    cache_open("on");
    weir_stream *near, *far;
    scene_ok(weir_stream_open(scene.w, 0, NULL, NULL, NULL, &near), "weir_stream_open");
    scene_ok(weir_stream_open(scene.w, 1, NULL, NULL, NULL, &far), "weir_stream_open");
    void *ptr = cache_fill(near, 64 * KIB), *other;
    scene_ok(weir_malloc(scene.w, &other, 64 * KIB, 1, NULL), "weir_malloc");
    ck_assert_ptr_ne(other, ptr);
    scene_free(far, other);
    ck_assert_ptr_eq(scene_malloc_on(NULL, 64 * KIB), ptr);
    scene_free(near, ptr);
}
END_TEST

START_TEST(block_freed_on_a_stream_of_another_device_goes_to_cuda)
{
    scene_simulate("devices=2,memory=1GiB");
    cache_open("on");
    weir_stream *near = scene_create(NULL), *far;
    scene_ok(weir_stream_create(scene.w, 1, NULL, NULL, &far), "weir_stream_create");
    void *ptr = scene_malloc(near, 64 * KIB);
    scene_free(far, ptr);
    ck_assert_uint_eq(cache_bytes("main"), 0);
    ck_assert_uint_eq(scene_pool_stats("main").used, 0);
}
END_TEST

/* Old drivers ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(without_stream_ids_raw_handles_are_never_cached)
{
    scene_simulate("memory=1GiB,driver=11.4");
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    void *other = scene_malloc_on(weir_stream_handle(s), 64 * KIB);
    ck_assert_ptr_ne(other, ptr);
    scene_free_on(weir_stream_handle(s), other);
    ck_assert_uint_eq(cache_bytes("main"), 64 * KIB);
    ck_assert_uint_eq(cache_hits("main"), 0);
}
END_TEST

START_TEST(without_stream_ids_opened_streams_are_cached)
{
    scene_simulate("memory=1GiB,driver=11.4");
    cache_open("on");
    weir_stream *s = scene_create(NULL);
    void *ptr = cache_fill(s, 64 * KIB);
    ck_assert_ptr_eq(scene_malloc(s, 64 * KIB), ptr);
    scene_free(s, ptr);
}
END_TEST

static TCase *simulator_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    return tcase;
}

static void add_handle_cases(Suite *suite)
{
    TCase *handles = simulator_case(suite, "simulated handles"), *old = simulator_case(suite, "simulated old drivers");
    suite_add(handles, recycled_handle_is_not_served_from_the_old_streams_cache,
              block_freed_on_a_recycled_handle_does_not_enter_the_old_streams_cache, recycled_handle_can_be_opened_beside_its_predecessor,
              call_for_a_stream_that_was_replaced_meanwhile_is_not_served, what_a_destroyed_stream_was_granted_serves_others,
              trim_frees_the_blocks_of_a_destroyed_stream_behind_the_device, change_of_the_policy_from_outside_waits_for_no_device,
              blocks_of_a_destroyed_stream_wait_for_the_end_of_a_capture, stream_closed_after_its_handle_was_recycled_leaves_orphans,
              closing_the_weir_frees_the_blocks_of_a_destroyed_stream,
              block_freed_on_an_opened_default_stream_of_another_device_waits_for_that_stream,
              opened_stream_of_another_device_is_another_stream, block_freed_on_a_stream_of_another_device_goes_to_cuda);
    suite_add(old, without_stream_ids_raw_handles_are_never_cached, without_stream_ids_opened_streams_are_cached);
}

void add_cache_simulator_cases(Suite *suite)
{
    TCase *calls = simulator_case(suite, "simulated calls"), *failures = simulator_case(suite, "simulated failures");
    suite_add(calls, cached_pair_asks_cuda_for_the_capture_and_nothing_else, cached_pair_without_the_check_makes_no_call,
              cached_pair_on_a_raw_handle_asks_for_its_id_as_well, cached_pair_on_a_raw_handle_asks_for_the_capture_without_the_check_too,
              pair_above_largest_that_the_threshold_does_not_cover_allocates_and_frees_at_cuda,
              stream_of_which_nobody_knows_whether_it_captures_is_left_alone,
              cached_block_that_the_program_frees_with_cuda_again_is_served_to_one_only);
    suite_add(failures, block_that_cuda_does_not_take_in_a_flush_is_kept_for_the_next,
              block_that_cuda_does_not_take_when_it_makes_room_is_kept);
    tcase_add_loop_test(failures, trim_loses_no_block_to_the_failure_of_any_call, 0, FLUSH_CALLS * TIMES);
    tcase_add_loop_test(failures, close_of_a_stream_loses_no_block_to_the_failure_of_any_call, 0, FLUSH_CALLS * TIMES);
    suite_add(failures, flush_rung_rescues_a_request_on_a_full_device, device_without_a_shortage_keeps_its_caches);
    add_handle_cases(suite);
}
