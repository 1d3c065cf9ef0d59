/* SPDX-License-Identifier: MIT */
/* Streams that the program may destroy at any time, and blocks that other streams use: record_stream(). */
#include <string.h>

#include "plugin/torch/note.h"
#include "tests/plugin/plug.h"

#define SIZE (64 * KIB)
#define LARGE (64 * MIB)

static gpu_stream a, b;
static unsigned char host[SIZE];

static void set_up(void)
{
    plug_set_up("devices=2,memory=1GiB", "weir: 1\npools: { p: { cache: { largest: 4MiB } } }\n");
    a = plug_stream(0);
    b = plug_stream(0);
}

static void sync(gpu_stream stream)
{
    ck_assert_int_eq(plug_gpu->stream_synchronize(stream), GPU_SUCCESS);
}

/* Where a stream writes what it has read: a copy to the host would be waited for. */
static void *new_page(void)
{
    return plug_malloc(SIZE, 0, b);
}

static void copy_to(void *page, const void *ptr, gpu_stream stream)
{
    ck_assert_int_eq(plug_gpu->copy_async(page, ptr, SIZE, stream), GPU_SUCCESS);
}

/* Frees the page. Its bytes are in `host`, once the streams that wrote to it were waited for. */
static void read_page(void *page)
{
    ck_assert_int_eq(plug_gpu->copy_async(host, page, SIZE, b), GPU_SUCCESS);
    sync(b);
    weir_torch_free(page, SIZE, 0, b);
}

static void destroy(gpu_stream stream)
{
    ck_assert_int_eq(plug_gpu->stream_destroy(stream), GPU_SUCCESS);
}

/* Streams of the program --------------------------------------------------------------------------------------------------------------- */

START_TEST(external_stream_is_not_touched_by_a_free)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    destroy(external);
    uint64_t calls = sim_calls(NULL);
    weir_torch_free(ptr, SIZE, 0, external);
    ck_assert_uint_eq(sim_calls(NULL), calls);
    ck_assert_uint_eq(plug_stats(0).allocated, 0);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_goes_back_when_its_external_stream_is_named_again)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    weir_torch_free(ptr, SIZE, 0, external);
    void *next = plug_malloc(SIZE, 0, external);
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.active, SIZE);
    ck_assert_uint_eq(stats.blocks, 1);
    ck_assert_uint_eq(sim_calls("free_async"), 1);
    weir_torch_free(next, SIZE, 0, external);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(recycled_handle_takes_no_free_of_the_former_stream)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external), *page = new_page();
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, external), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->delay(external, 10 * MILLISECOND), GPU_SUCCESS);
    copy_to(page, ptr, external);
    weir_torch_free(ptr, SIZE, 0, external);
    destroy(external);
    gpu_stream recycled = plug_external(0);
    ck_assert_ptr_eq(recycled, external);
    /* The former stream's work goes on: its block must not serve the new one. */
    void *next = plug_malloc(SIZE, 0, recycled);
    ck_assert_ptr_ne(next, ptr);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, SIZE, recycled), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->device_synchronize(0), GPU_SUCCESS);
    read_page(page);
    ck_assert(plug_all(host, 1, SIZE));
    weir_torch_free(next, SIZE, 0, recycled);
    plug_expect_empty(0);
    destroy(recycled);
}
END_TEST

START_TEST(block_of_a_former_stream_that_is_freed_after_its_handle_was_recycled_is_orphaned)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    destroy(external);
    gpu_stream recycled = plug_external(0);
    void *next = plug_malloc(SIZE, 0, recycled);
    weir_torch_free(ptr, SIZE, 0, external);
    uint64_t frees = sim_calls("free_async");
    void *more = plug_malloc(SIZE, 0, recycled);
    ck_assert_uint_eq(sim_calls("free_async"), frees);
    weir_torch_free(next, SIZE, 0, recycled);
    weir_torch_free(more, SIZE, 0, recycled);
    plug_expect_empty(0);
    destroy(recycled);
}
END_TEST

START_TEST(stream_destroyed_after_its_blocks_were_freed_harms_nothing)
{
    gpu_stream external = plug_external(0);
    weir_torch_free(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    destroy(external);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(out_of_memory_is_rescued_by_what_waits_for_external_streams)
{
    gpu_stream external = plug_external(0);
    weir_torch_free(plug_malloc(800 * MIB, 0, external), 800 * MIB, 0, external);
    destroy(external);
    void *ptr = plug_malloc(800 * MIB, 0, a);
    ck_assert_uint_eq(plug_stats(0).rescues, 1);
    weir_torch_free(ptr, 800 * MIB, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(external_stream_that_turns_out_to_live_is_opened)
{
    gpu_stream stream = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, stream);
    weir_torch_free(ptr, SIZE, 0, stream);
    weir_torch_stream_lives(0, stream);
    weir_torch_free(plug_malloc(SIZE, 0, stream), SIZE, 0, stream);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    weir_torch_free(plug_malloc(SIZE, 0, stream), SIZE, 0, stream);
    ck_assert_uint_eq(plug_stats(0).cache_hits, 1);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_of_an_external_stream_that_is_opened_by_now_goes_back)
{
    gpu_stream stream = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, stream);
    weir_torch_stream_lives(0, stream);
    weir_torch_free(plug_malloc(SIZE, 0, stream), SIZE, 0, stream);
    weir_torch_free(ptr, SIZE, 0, stream);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_of_a_former_stream_whose_handle_is_an_opened_one_by_now_is_orphaned)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    destroy(external);
    gpu_stream recycled = plug_stream(0);
    ck_assert_ptr_eq(recycled, external);
    weir_torch_free(plug_malloc(SIZE, 0, recycled), SIZE, 0, recycled);
    uint64_t frees = sim_calls("free_async");
    weir_torch_free(ptr, SIZE, 0, external);
    ck_assert_uint_eq(sim_calls("free_async"), frees);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_of_an_external_stream_that_is_opened_by_now_and_captures_waits)
{
    gpu_stream stream = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, stream);
    weir_torch_stream_lives(0, stream);
    weir_torch_free(plug_malloc(SIZE, 0, stream), SIZE, 0, stream);
    plug_capture_begin(0, 1, stream);
    weir_torch_free(ptr, SIZE, 0, stream);
    ck_assert_uint_eq(plug_capture_end(0, 1, stream), 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(handle_recycled_on_another_device_harms_nothing)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    weir_torch_free(ptr, SIZE, 0, external);
    destroy(external);
    gpu_stream recycled = plug_stream(1);
    ck_assert_ptr_eq(recycled, external);
    weir_torch_free(plug_malloc(SIZE, 1, recycled), SIZE, 1, recycled);
    plug_expect_empty(0);
    plug_expect_empty(1);
}
END_TEST

START_TEST(per_thread_stream_is_served_as_an_external_one)
{
    void *ptr = plug_malloc(SIZE, 0, GPU_STREAM_PER_THREAD);
    weir_torch_free(ptr, SIZE, 0, GPU_STREAM_PER_THREAD);
    weir_torch_free(plug_malloc(SIZE, 0, GPU_STREAM_PER_THREAD), SIZE, 0, GPU_STREAM_PER_THREAD);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_goes_back_at_once_where_the_caller_keeps_its_stream_alive)
{
    gpu_stream external = plug_external(0);
    weir_torch_free_alive(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    ck_assert_uint_eq(sim_calls("free_async"), 1);
    sync(external);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(block_goes_back_on_the_stream_that_the_caller_keeps_alive)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    destroy(external);
    weir_torch_free_alive(ptr, SIZE, 0, NULL);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    sync(NULL);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_whose_stream_is_kept_alive_and_captures_goes_back_when_it_is_named_again)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    size_t nodes;
    ck_assert_int_eq(plug_gpu->capture_begin(external, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    weir_torch_free_alive(ptr, SIZE, 0, external);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    ck_assert_int_eq(plug_gpu->capture_end(external, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 0);
    weir_torch_free_alive(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    sync(external);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(recorded_block_whose_own_stream_is_kept_alive_waits_for_the_other)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    uint64_t frees = sim_calls("free_async");
    weir_torch_record_stream(ptr, b);
    weir_torch_free_alive(ptr, SIZE, 0, external);
    ck_assert_uint_eq(sim_calls("free_async"), frees);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(at_a_cap_too_what_waits_for_external_streams_serves_again)
{
    plug_set_up("memory=2GiB", "weir: 1\npools: { p: { max_size: 1GiB, small_below: 0 } }\n");
    gpu_stream external = plug_external(0), others[] = { plug_stream(0), NULL };
    for (int i = 0; i < 4; i++) {
        weir_torch_free(plug_malloc(800 * MIB, 0, external), 800 * MIB, 0, external);
        gpu_stream other = others[i % 2];
        weir_torch_free(plug_malloc(800 * MIB, 0, other), 800 * MIB, 0, other);
        ck_assert_uint_eq(plug_stats(0).active, 0);
    }
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(driver_without_stream_ids_frees_on_streams_that_are_kept_alive)
{
    plug_set_up("memory=1GiB,driver=11.8", NULL);
    gpu_stream external = plug_external(0);
    weir_torch_free_alive(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    ck_assert_uint_eq(sim_calls("free_async"), 1);
    sync(external);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

START_TEST(driver_without_stream_ids_keeps_blocks_of_external_streams_until_they_are_orphaned)
{
    plug_set_up("memory=1GiB,driver=11.8", NULL);
    gpu_stream external = plug_external(0);
    weir_torch_free(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    weir_torch_free(plug_malloc(SIZE, 0, external), SIZE, 0, external);
    plug_expect_empty(0);
    destroy(external);
}
END_TEST

/* Streams that use a block ------------------------------------------------------------------------------------------------------------- */

/* A stream that is slow reads what a wrote, and a's next tensor of this size is written at once. What it read is in `host`. */
static void read_slowly(gpu_stream reader, bool is_recorded)
{
    void *ptr = plug_malloc(SIZE, 0, a), *page = new_page();
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    plug_order(0, a, reader);
    ck_assert_int_eq(plug_gpu->delay(reader, 10 * MILLISECOND), GPU_SUCCESS);
    copy_to(page, ptr, reader);
    if (is_recorded)
        weir_torch_record_stream(ptr, reader);
    weir_torch_free(ptr, SIZE, 0, a);
    sim_advance(MILLISECOND); /* a has nothing to do any more, so that what waits for a alone is free now */
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, SIZE, a), GPU_SUCCESS);
    sync(a);
    sync(reader);
    read_page(page);
    weir_torch_free(next, SIZE, 0, a);
}

START_TEST(recorded_block_is_not_overwritten_while_the_other_stream_reads)
{
    read_slowly(b, true);
    ck_assert(plug_all(host, 1, SIZE));
    plug_expect_empty(0);
}
END_TEST

/* So the test above can fail. */
START_TEST(block_that_was_not_recorded_is_overwritten)
{
    read_slowly(b, false);
    ck_assert(plug_all(host, 2, SIZE));
}
END_TEST

START_TEST(stream_that_allocated_waits_for_no_other)
{
    void *ptr = plug_malloc(SIZE, 0, a);
    uint64_t before = plug_gpu->now();
    ck_assert_int_eq(plug_gpu->delay(b, 10 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(ptr, b);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_lt(plug_gpu->now(), before + 10 * MILLISECOND);
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, SIZE, a), GPU_SUCCESS);
    sync(a);
    ck_assert_uint_lt(plug_gpu->now(), before + 10 * MILLISECOND);
    weir_torch_free(next, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_recorded_on_several_streams_waits_for_the_slowest)
{
    gpu_stream c = plug_stream(0);
    const gpu_stream streams[] = { a, b, c };
    void *ptr = plug_malloc(SIZE, 0, a), *pages[2] = { new_page(), new_page() }, *next[3];
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    plug_order(0, a, b);
    plug_order(0, a, c);
    copy_to(pages[0], ptr, b);
    ck_assert_int_eq(plug_gpu->delay(c, 20 * MILLISECOND), GPU_SUCCESS);
    copy_to(pages[1], ptr, c);
    weir_torch_record_stream(ptr, b);
    weir_torch_record_stream(ptr, c);
    weir_torch_record_stream(ptr, c);
    weir_torch_free(ptr, SIZE, 0, a);
    sim_advance(MILLISECOND);
    for (int i = 0; i < 3; i++) {
        next[i] = plug_malloc(SIZE, 0, streams[i]);
        ck_assert_int_eq(plug_gpu->set_async(next[i], 2, SIZE, streams[i]), GPU_SUCCESS);
    }
    for (int i = 0; i < 3; i++)
        sync(streams[i]);
    for (int i = 0; i < 2; i++) {
        read_page(pages[i]);
        ck_assert(plug_all(host, 1, SIZE));
    }
    for (int i = 0; i < 3; i++)
        weir_torch_free(next[i], SIZE, 0, streams[i]);
    plug_expect_empty(0);
}
END_TEST

START_TEST(recorded_block_waits_for_its_own_stream_too)
{
    void *ptr = plug_malloc(SIZE, 0, a), *page = new_page();
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->delay(a, 20 * MILLISECOND), GPU_SUCCESS);
    copy_to(page, ptr, a);
    weir_torch_record_stream(ptr, b);
    weir_torch_free(ptr, SIZE, 0, a);
    sync(b);
    void *next = plug_malloc(SIZE, 0, b);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, SIZE, b), GPU_SUCCESS);
    sync(b);
    sync(a);
    read_page(page);
    ck_assert(plug_all(host, 1, SIZE));
    weir_torch_free(next, SIZE, 0, b);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_recorded_on_its_own_stream_alone_is_cached_as_ever)
{
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_record_stream(ptr, a);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(sim_calls("event_record"), 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_recorded_on_the_default_stream_waits_for_it)
{
    read_slowly(NULL, true);
    ck_assert(plug_all(host, 1, SIZE));
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_recorded_on_a_stream_of_another_device_waits_for_it)
{
    gpu_stream far = plug_stream(1);
    weir_torch_free(plug_malloc(SIZE, 1, far), SIZE, 1, far);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->delay(far, 10 * MILLISECOND), GPU_SUCCESS);
    uint64_t until = plug_gpu->now() + 10 * MILLISECOND;
    weir_torch_record_stream(ptr, far);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_reset();
    ck_assert_uint_ge(plug_gpu->now(), until);
    plug_expect_empty(0);
    plug_expect_empty(1);
}
END_TEST

/* Of such a stream nobody knows which device it is of, nor whether it is there yet. */
START_TEST(block_recorded_on_an_external_stream_of_another_device_is_not_overwritten_while_that_reads)
{
    gpu_stream former[] = { a, b };
    plug_set_up("devices=2,memory=1GiB", "weir: 1\npools: { p: { peer_access: all } }\n");
    a = plug_stream(0);
    b = plug_stream(0);
    gpu_stream far = plug_external(1);
    /* torch's own streams, of which these were some, never end: their handles name no others. */
    while (far == former[0] || far == former[1])
        far = plug_external(1);
    void *ptr = plug_malloc(SIZE, 0, a), *page = new_page();
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    plug_order(0, a, far);
    ck_assert_int_eq(plug_gpu->delay(far, 10 * MILLISECOND), GPU_SUCCESS);
    copy_to(page, ptr, far);
    weir_torch_record_stream(ptr, far);
    if (_i)
        destroy(far);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_reset();
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, SIZE, a), GPU_SUCCESS);
    sync(a);
    ck_assert_int_eq(plug_gpu->device_synchronize(1), GPU_SUCCESS);
    read_page(page);
    ck_assert(plug_all(host, 1, SIZE));
    weir_torch_free(next, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* Bytes that are reserved once `asker` has a block of LARGE bytes of its own again; it is freed. */
static uint64_t reserved_with_another(gpu_stream asker)
{
    void *next = plug_malloc(LARGE, 0, asker);
    uint64_t reserved = plug_stats(0).reserved;
    weir_torch_free(next, LARGE, 0, asker);
    return reserved;
}

static void free_recorded(gpu_stream own, gpu_stream user)
{
    void *ptr = plug_malloc(LARGE, 0, own);
    weir_torch_record_stream(ptr, user);
    weir_torch_free(ptr, LARGE, 0, own);
}

START_TEST(slow_stream_delays_only_the_blocks_that_it_uses)
{
    gpu_stream slow = plug_stream(0);
    ck_assert_int_eq(plug_gpu->delay(slow, 1000 * MILLISECOND), GPU_SUCCESS);
    free_recorded(a, slow);
    uint64_t until = plug_gpu->now() + 1000 * MILLISECOND;
    free_recorded(a, b);
    uint64_t reserved = plug_stats(0).reserved;
    sim_advance(MILLISECOND);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(reserved_with_another(a), reserved);
    ck_assert_uint_lt(plug_gpu->now(), until);
    plug_expect_empty(0);
    ck_assert_uint_ge(plug_gpu->now(), until);
}
END_TEST

/* As another tensor of its stream would be: nothing that the stream does next comes before its own work. */
START_TEST(recorded_block_serves_its_own_stream_behind_the_work_of_that)
{
    ck_assert_int_eq(plug_gpu->delay(a, 1000 * MILLISECOND), GPU_SUCCESS);
    uint64_t until = plug_gpu->now() + 1000 * MILLISECOND;
    free_recorded(a, b);
    uint64_t reserved = plug_stats(0).reserved;
    sim_advance(MILLISECOND);
    ck_assert_uint_gt(reserved_with_another(b), reserved);
    free_recorded(a, b);
    reserved = plug_stats(0).reserved;
    sim_advance(MILLISECOND);
    ck_assert_uint_eq(reserved_with_another(a), reserved);
    ck_assert_uint_lt(plug_gpu->now(), until);
    plug_expect_empty(0);
}
END_TEST

/* Layers of a model whose activations a side stream copies away. The host is AHEAD layers ahead of the GPU, so at least as many blocks are in
   use, and one that is being copied. */
#define AHEAD 16
START_TEST(offloading_reserves_little_more_than_what_is_in_use)
{
    gpu_event passed[AHEAD];
    for (int i = 0; i < AHEAD; i++)
        ck_assert_int_eq(plug_gpu->event_create(0, &passed[i]), GPU_SUCCESS);
    for (int i = 0; i < 10 * AHEAD; i++) {
        if (i >= AHEAD)
            ck_assert_int_eq(plug_gpu->event_synchronize(passed[i % AHEAD]), GPU_SUCCESS);
        void *ptr = plug_malloc(16 * MIB, 0, a);
        ck_assert_int_eq(plug_gpu->delay(a, MILLISECOND), GPU_SUCCESS);
        plug_order(0, a, b);
        ck_assert_int_eq(plug_gpu->delay(b, MILLISECOND / 2), GPU_SUCCESS);
        weir_torch_record_stream(ptr, b);
        weir_torch_free(ptr, 16 * MIB, 0, a);
        ck_assert_int_eq(plug_gpu->event_record(passed[i % AHEAD], a), GPU_SUCCESS);
    }
    ck_assert_uint_le(plug_stats(0).reserved, (AHEAD + 1) * 16 * MIB * 5 / 4);
    for (int i = 0; i < AHEAD; i++)
        plug_gpu->event_destroy(passed[i]);
    plug_expect_empty(0);
}
END_TEST

START_TEST(device_that_the_process_does_not_use_stays_unused)
{
    bool used = true;
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_record_stream(ptr, external);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_expect_empty(0);
    ck_assert_int_eq(plug_gpu->device_is_used(1, &used), GPU_SUCCESS);
    ck_assert(!used);
    destroy(external);
}
END_TEST

START_TEST(block_recorded_on_an_external_stream_is_orphaned)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_record_stream(ptr, external);
    destroy(external);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(next, ptr);
    weir_torch_free(next, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(recorded_block_of_an_external_stream_is_orphaned)
{
    gpu_stream external = plug_external(0);
    void *ptr = plug_malloc(SIZE, 0, external);
    weir_torch_record_stream(ptr, b);
    destroy(external);
    weir_torch_free(ptr, SIZE, 0, external);
    plug_expect_empty(0);
}
END_TEST

START_TEST(record_is_of_one_block_and_not_of_the_next_at_its_address)
{
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_record_stream(ptr, b);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_expect_empty(0);
    void *next = plug_malloc(SIZE, 0, a);
    uint64_t events = sim_calls("event_record");
    weir_torch_free(next, SIZE, 0, a);
    ck_assert_uint_eq(sim_calls("event_record"), events);
    plug_expect_empty(0);
}
END_TEST

/* After a record_stream() that had no host memory for its note. */
START_TEST(block_that_may_lack_a_note_waits_for_all_work)
{
    void *ptr = plug_malloc(LARGE, 0, a);
    ck_assert_int_eq(plug_gpu->delay(a, 1000 * MILLISECOND), GPU_SUCCESS);
    for (size_t i = 0; i < TORCH_NOTE_SHARDS; i++)
        atomic_store(&torch_note_shards[i].is_lossy, true);
    weir_torch_free(ptr, LARGE, 0, a);
    ck_assert_ptr_ne(plug_malloc(LARGE, 0, b), ptr);
    ck_assert_int_eq(plug_gpu->stream_query(a), GPU_NOT_READY);
}
END_TEST

/* The same without a host that waits: the copies are slower than the layers. With a bound the layers' stream waits for copies on the GPU. */
START_TEST(offloading_with_the_host_ahead_is_bounded_by_the_policy)
{
    enum { LAYERS = 100 };
    const char *policy = _i ? "weir: 1\npools: { main: { backing: arena, reuse: { pending_max: auto } } }\n"
                            : "weir: 1\npools: { main: { small_below: 0, reuse: { pending_max: auto } } }\n";
    plug_set_up("memory=16GiB", policy);
    gpu_stream layers = plug_stream(0), copies = plug_stream(0);
    uint64_t begun = plug_gpu->now();
    for (int i = 0; i < LAYERS; i++) {
        void *ptr = plug_malloc(LARGE, 0, layers);
        ck_assert_int_eq(plug_gpu->delay(layers, MILLISECOND), GPU_SUCCESS);
        plug_order(0, layers, copies);
        ck_assert_int_eq(plug_gpu->delay(copies, 2 * MILLISECOND), GPU_SUCCESS);
        weir_torch_record_stream(ptr, copies);
        weir_torch_free(ptr, LARGE, 0, layers);
    }
    ck_assert_uint_lt(plug_gpu->now() - begun, LAYERS * MILLISECOND / 2); /* the host has waited for none of it */
    ck_assert_uint_le(plug_stats(0).reserved_high, 128 * MIB + 3 * LARGE);
    ck_assert_int_eq(plug_gpu->stream_synchronize(copies), GPU_SUCCESS);
    ck_assert_uint_le(plug_gpu->now() - begun, (2 * LAYERS + LAYERS / 10) * MILLISECOND);
    plug_expect_empty(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("streams");
    TCase *tcase = suite_case(suite, "external", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, external_stream_is_not_touched_by_a_free, block_goes_back_when_its_external_stream_is_named_again,
              recycled_handle_takes_no_free_of_the_former_stream,
              block_of_a_former_stream_that_is_freed_after_its_handle_was_recycled_is_orphaned,
              stream_destroyed_after_its_blocks_were_freed_harms_nothing, out_of_memory_is_rescued_by_what_waits_for_external_streams,
              external_stream_that_turns_out_to_live_is_opened, block_of_an_external_stream_that_is_opened_by_now_goes_back,
              block_of_a_former_stream_whose_handle_is_an_opened_one_by_now_is_orphaned,
              block_of_an_external_stream_that_is_opened_by_now_and_captures_waits, handle_recycled_on_another_device_harms_nothing,
              per_thread_stream_is_served_as_an_external_one, block_goes_back_at_once_where_the_caller_keeps_its_stream_alive,
              block_goes_back_on_the_stream_that_the_caller_keeps_alive,
              block_whose_stream_is_kept_alive_and_captures_goes_back_when_it_is_named_again,
              recorded_block_whose_own_stream_is_kept_alive_waits_for_the_other);
    tcase = suite_case(suite, "machine", 0);
    suite_add(tcase, at_a_cap_too_what_waits_for_external_streams_serves_again,
              driver_without_stream_ids_frees_on_streams_that_are_kept_alive,
              driver_without_stream_ids_keeps_blocks_of_external_streams_until_they_are_orphaned);
    tcase = suite_case(suite, "recorded", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, recorded_block_is_not_overwritten_while_the_other_stream_reads, block_that_was_not_recorded_is_overwritten,
              stream_that_allocated_waits_for_no_other, block_recorded_on_several_streams_waits_for_the_slowest,
              recorded_block_waits_for_its_own_stream_too, block_recorded_on_its_own_stream_alone_is_cached_as_ever,
              block_recorded_on_the_default_stream_waits_for_it, block_recorded_on_a_stream_of_another_device_waits_for_it);
    tcase_add_loop_test(tcase, block_recorded_on_an_external_stream_of_another_device_is_not_overwritten_while_that_reads, 0, 2);
    suite_add(tcase, slow_stream_delays_only_the_blocks_that_it_uses, recorded_block_serves_its_own_stream_behind_the_work_of_that,
              offloading_reserves_little_more_than_what_is_in_use, device_that_the_process_does_not_use_stays_unused,
              block_recorded_on_an_external_stream_is_orphaned, block_that_may_lack_a_note_waits_for_all_work,
              recorded_block_of_an_external_stream_is_orphaned, record_is_of_one_block_and_not_of_the_next_at_its_address);
    tcase = suite_case(suite, "bounded", 0);
    tcase_add_loop_test(tcase, offloading_with_the_host_ahead_is_bounded_by_the_policy, 0, 2);
    return suite_run(suite);
}
