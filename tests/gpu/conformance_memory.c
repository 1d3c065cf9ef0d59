/* SPDX-License-Identifier: MIT */
/* conformance_memory.c - blocks: where they come from, when they may be used again, and when their memory goes back. */
#include <pthread.h>
#include <unistd.h>

#include "tests/gpu/conformance.h"

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(blocks_are_aligned_to_512_bytes)
{
    static const uint64_t sizes[] = { 1, 511, 513, MIB + 1, 3 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        ck_assert_uint_eq((uintptr_t)take(rig.pool, sizes[i], rig.a) % 512, 0);
}
END_TEST

START_TEST(page_locked_memory_is_the_hosts_and_of_copies)
{
    unsigned char *host, *other = take(rig.pool, MIB, rig.a);
    void *ptr;
    ck_assert_gpu(g->host_alloc(0, MIB, &ptr));
    host = ptr;
    for (uint64_t i = 0; i < MIB; i++)
        host[i] = (unsigned char)(i * 7);
    ck_assert_gpu(g->copy_async(other, host, MIB, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    for (uint64_t i = 0; i < MIB; i++)
        host[i] = 0;
    ck_assert_gpu(g->copy_async(host, other, MIB, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    for (uint64_t i = 0; i < MIB; i++)
        ck_assert_uint_eq(host[i], (unsigned char)(i * 7));
    ck_assert_gpu(g->host_free(ptr));
    ck_assert_gpu(g->host_free(NULL));
    give(other, rig.a);
}
END_TEST

START_TEST(used_counts_the_bytes_asked_for)
{
    take(rig.pool, 1, rig.a);
    void *ptr = take(rig.pool, 513, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 1 + 513);
    give(ptr, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 1);
}
END_TEST

START_TEST(pool_grows_in_steps_of_32_mib)
{
    take(rig.pool, 1, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), STEP);
    take(rig.pool, 70 * MIB, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED) % STEP, 0);
}
END_TEST

START_TEST(double_free_is_refused)
{
    void *ptr = take(rig.pool, MIB, rig.a);
    give(ptr, rig.a);
    ck_assert_gpu_code(g->free_async(ptr, rig.a), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(freeing_foreign_memory_is_refused)
{
    char foreign[1024];
    ck_assert_gpu_code(g->free_async(foreign, rig.a), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(freeing_the_middle_of_a_block_is_refused_and_harmless)
{
    char *ptr = take(rig.pool, MIB, rig.a);
    ck_assert_gpu_code(g->free_async(ptr + 512, rig.a), GPU_INVALID_VALUE);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), MIB);
    give(ptr, rig.a);
}
END_TEST

/* With everything that a stream may be called by. */
static void *malloc_and_free(void *unused)
{
    gpu_stream streams[] = { rig.a, GPU_STREAM_PER_THREAD, NULL, GPU_STREAM_LEGACY };
    int code = GPU_SUCCESS;
    (void)unused;
    for (int i = 0; i < 4 && code == GPU_SUCCESS; i++) {
        void *ptr;
        code = g->malloc_async(&ptr, MIB, rig.pool, streams[i]);
        if (code == GPU_SUCCESS)
            code = g->free_async(ptr, streams[i]);
    }
    return (void *)(intptr_t)code;
}

/* CUDA gives a thread its device 0 where it chooses none. */
START_TEST(thread_that_chose_no_device_is_served)
{
    pthread_t thread;
    void *code;
    ck_assert_int_eq(pthread_create(&thread, NULL, malloc_and_free, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &code), 0);
    ck_assert_gpu((int)(intptr_t)code);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 0);
}
END_TEST

/* Whose first call is a free. */
static void *give_first(void *ptr)
{
    return (void *)(intptr_t)g->free_async(ptr, rig.a);
}

START_TEST(thread_that_chose_no_device_frees_a_block_of_another)
{
    pthread_t thread;
    void *code, *ptr = take(rig.pool, MIB, rig.a);
    forget_block(ptr);
    ck_assert_int_eq(pthread_create(&thread, NULL, give_first, ptr), 0);
    ck_assert_int_eq(pthread_join(thread, &code), 0);
    ck_assert_gpu((int)(intptr_t)code);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 0);
}
END_TEST

START_TEST(request_beyond_the_device_fails)
{
    uint64_t size = UINT64_C(1000) << 30;
    if (size < rig.free_bytes)
        size = rig.free_bytes * 2;
    ck_assert_gpu_code(try_take(rig.pool, size, rig.a), GPU_OUT_OF_MEMORY);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

/* A request that fails, as most of the device is another pool's: that one's block. Measured: the request takes all that is left, fails, and
   gives back what is above the threshold. */
static void *fail_beside_a_large_block(void)
{
    gpu_pool other = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    void *live = take(other, percent_of_device(60), rig.b);
    ck_assert_gpu_code(try_take(rig.pool, percent_of_device(60), rig.a), GPU_OUT_OF_MEMORY);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 0);
    return live;
}

START_TEST(request_that_does_not_fit_leaves_nothing_with_threshold_0)
{
    void *live = fail_beside_a_large_block();
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
    give(live, rig.b);
}
END_TEST

START_TEST(request_that_does_not_fit_leaves_its_pool_as_much_as_the_threshold)
{
    uint64_t threshold = percent_of_device(10);
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, threshold);
    void *live = fail_beside_a_large_block();
    ck_assert_uint_le(figure(rig.pool, GPU_POOL_RESERVED), threshold);
    ck_assert_uint_gt(figure(rig.pool, GPU_POOL_RESERVED) + STEP, threshold);
    give(live, rig.b);
}
END_TEST

START_TEST(request_that_does_not_fit_leaves_its_pool_what_the_device_had_with_threshold_all)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    void *live = fail_beside_a_large_block();
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), percent_of_device(30));
    give(live, rig.b);
    ck_assert_gpu(g->stream_synchronize(rig.b));
    give(take(rig.pool, percent_of_device(90), rig.a), rig.a);
}
END_TEST

START_TEST(free_memory_of_the_device_is_what_a_pool_can_grow_by)
{
    uint64_t free_bytes, total;
    ck_assert_gpu(g->device_memory(0, &free_bytes, &total));
    free_bytes = free_bytes / STEP * STEP;
    ck_assert_gpu_code(try_take(rig.pool, free_bytes + STEP, rig.a), GPU_OUT_OF_MEMORY);
    give(take(rig.pool, free_bytes - STEP, rig.a), rig.a);
}
END_TEST

/* Where that can be told at all. */
START_TEST(processes_that_use_the_device_have_this_one_among_them)
{
    struct gpu_process found[64];
    size_t count = 0, place = 0;
    take(rig.pool, 64 * MIB, rig.a);
    int code = g->device_processes(0, found, 64, &count);
    ck_assert_int_eq(g->device_processes(0, found, 64, &count), code);
    if (code == GPU_NOT_SUPPORTED)
        return;
    ck_assert_gpu(code);
    while (place < count && place < 64 && found[place].pid != (int)getpid())
        place++;
    ck_assert_uint_lt(place, count);
    ck_assert_uint_ge(found[place].bytes, 64 * MIB);
}
END_TEST

/* Where a pool has idle memory, but not in one piece. */

START_TEST(pool_grows_by_what_is_missing)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, 512 * MIB);
    give(take(rig.pool, 512 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 512 * MIB);
    take(rig.pool, 1024 * MIB, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 1024 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED_HIGH), 1024 * MIB);
}
END_TEST

START_TEST(idle_steps_that_lie_apart_serve_a_larger_request)
{
    void *blocks[8];
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(rig.pool, 128 * MIB, rig.a);
    uint64_t free_bytes = device_free();
    for (size_t i = 0; i < 8; i += 2)
        give(blocks[i], rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    take(rig.pool, 512 * MIB, rig.a);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 8 * 128 * MIB);
    ck_assert_uint_eq(device_free(), free_bytes);
}
END_TEST

START_TEST(used_falls_at_the_call_of_free)
{
    free_behind_kernel(MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 0);
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(high_marks_restart_at_the_current_figures)
{
    give(take(rig.pool, 64 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED_HIGH), 64 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED_HIGH), 64 * MIB);
    take(rig.pool, MIB, rig.a);
    set_figure(rig.pool, GPU_POOL_USED_HIGH, 0);
    set_figure(rig.pool, GPU_POOL_RESERVED_HIGH, 0);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED_HIGH), MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED_HIGH), STEP);
}
END_TEST

/* Reuse -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(pending_free_serves_the_same_stream)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.a));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

/* Another stream of the same pool: with CUDA's defaults the driver makes it wait for the free, where nothing else serves it. */

START_TEST(pending_free_serves_another_stream_at_once_where_nothing_else_does)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.b));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(pending_free_is_served_at_the_same_address)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    void *freed = free_behind_kernel(percent_of_device(60));
    ck_assert_ptr_eq(take(rig.pool, percent_of_device(60), rig.b), freed);
}
END_TEST

START_TEST(stream_served_from_a_pending_free_waits_for_it)
{
    gpu_event behind = make_event(0);
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    take(rig.pool, percent_of_device(60), rig.b);
    ck_assert_gpu(g->event_record(behind, rig.b));
    ck_assert_gpu_code(g->event_query(behind), GPU_NOT_READY);
    ck_assert_gpu(g->event_synchronize(behind));
    ck_assert_gpu(g->event_query(rig.event));
}
END_TEST

START_TEST(block_served_from_a_pending_free_holds_what_its_new_owner_wrote)
{
    unsigned char byte = 0;
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    void *old = take(rig.pool, percent_of_device(60), rig.a);
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->set_async(old, 1, MIB, rig.a));
    give(old, rig.a);
    void *mine = take(rig.pool, percent_of_device(60), rig.b);
    ck_assert_gpu(g->set_async(mine, 2, MIB, rig.b));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->copy_async(&byte, mine, 1, rig.b));
    ck_assert_gpu(g->stream_synchronize(rig.b));
    ck_assert_uint_eq(byte, 2);
}
END_TEST

START_TEST(pool_grows_rather_than_make_a_stream_wait)
{
    gpu_event behind = make_event(0);
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(20));
    take(rig.pool, percent_of_device(20), rig.b);
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), 2 * percent_of_device(20));
    ck_assert_gpu(g->event_record(behind, rig.b));
    ck_assert_gpu(g->event_synchronize(behind));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(pending_free_serves_no_other_stream_without_internal_dependencies)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    set_figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu_code(try_take(rig.pool, percent_of_device(60), rig.b), GPU_OUT_OF_MEMORY);
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(pending_free_serves_another_stream_after_synchronise_of_the_freeing_one)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    set_figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.b));
}
END_TEST

START_TEST(pending_free_serves_the_same_pool_after_polling)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    set_figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_behind_kernel(percent_of_device(60));
    poll_until_done(rig.event);
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.b));
}
END_TEST

START_TEST(pending_free_does_not_serve_another_pool)
{
    gpu_pool other = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu_code(try_take(other, percent_of_device(60), rig.b), GPU_OUT_OF_MEMORY);
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(polling_is_not_enough_for_another_pool)
{
    gpu_pool other = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    poll_until_done(rig.event);
    ck_assert_gpu_code(try_take(other, percent_of_device(60), rig.b), GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(pending_free_serves_another_pool_after_event_synchronise)
{
    gpu_pool other = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(60));
    poll_until_done(rig.event);
    ck_assert_gpu(g->event_synchronize(rig.event));
    ck_assert_gpu(try_take(other, percent_of_device(60), rig.b));
}
END_TEST

START_TEST(pending_free_serves_a_stream_that_waits_for_it)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    set_figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(60), rig.b));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(pool_serves_a_stream_that_waits_before_it_grows)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    free_behind_kernel(percent_of_device(20));
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    take(rig.pool, percent_of_device(20), rig.b);
    ck_assert_uint_lt(figure(rig.pool, GPU_POOL_RESERVED), 2 * percent_of_device(20));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

/* Rather than by the newest free of the other stream. */
START_TEST(pool_grows_for_a_stream_that_waits_for_an_older_free)
{
    uint64_t size = percent_of_device(20);
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    void *newest = take(rig.pool, size, rig.a);
    free_behind_kernel(size);
    give(newest, rig.a);
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    give(take(rig.pool, size, rig.b), rig.b);
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), 3 * size);
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(waiting_stream_is_not_served_without_reuse_by_events)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    set_figure(rig.pool, GPU_POOL_REUSE_EVENT_DEPENDENCIES, 0);
    set_figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_behind_kernel(percent_of_device(60));
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    ck_assert_gpu_code(try_take(rig.pool, percent_of_device(60), rig.b), GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(driver_rescues_with_idle_memory_of_another_pool)
{
    gpu_pool other = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(rig.pool, percent_of_device(60), rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), percent_of_device(60));
    ck_assert_gpu(try_take(other, percent_of_device(60), rig.b));
    ck_assert_uint_lt(figure(rig.pool, GPU_POOL_RESERVED), percent_of_device(60));
}
END_TEST

START_TEST(driver_rescues_a_larger_request_with_idle_memory_of_the_same_pool)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(rig.pool, percent_of_device(50), rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(try_take(rig.pool, percent_of_device(80), rig.a));
}
END_TEST

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(threshold_0_gives_back_at_stream_synchronise)
{
    give(take(rig.pool, 256 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

START_TEST(threshold_0_gives_back_at_event_synchronise)
{
    free_behind_kernel(256 * MIB);
    ck_assert_gpu(g->event_synchronize(rig.event));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

START_TEST(threshold_0_gives_back_at_device_synchronise)
{
    give(take(rig.pool, 256 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->device_synchronize(0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

START_TEST(threshold_0_keeps_memory_at_event_query)
{
    free_behind_kernel(256 * MIB);
    poll_until_done(rig.event);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 256 * MIB);
}
END_TEST

START_TEST(threshold_0_keeps_memory_at_synchronise_of_another_stream)
{
    give(take(rig.pool, 256 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.b));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 256 * MIB);
}
END_TEST

START_TEST(threshold_all_keeps_memory_at_synchronise)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(rig.pool, 256 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->device_synchronize(0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 256 * MIB);
}
END_TEST

START_TEST(trim_gives_nothing_back_before_a_synchronise)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(rig.pool, 1024 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->pool_trim(rig.pool, 0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 1024 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), 0);
}
END_TEST

START_TEST(trim_gives_all_back_after_a_synchronise)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(rig.pool, 1024 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_trim(rig.pool, 0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

/* Frees a GiB on a new stream behind a kernel, destroys the stream, before the kernel's end or behind it, and trims the pool after that end.
   The host learns of the end by queries alone, which let the driver see no free. */
static void trim_without_a_synchronise(bool is_idle)
{
    gpu_event behind = make_event(0);
    gpu_stream stream;
    ck_assert_gpu(g->stream_create(0, &stream));
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    void *ptr = take(rig.pool, 1024 * MIB, stream);
    ck_assert_gpu(g->delay(stream, KERNEL_NS));
    give(ptr, stream);
    ck_assert_gpu(g->event_record(behind, stream));
    if (is_idle)
        poll_until_done(behind);
    ck_assert_gpu(g->stream_destroy(stream));
    poll_until_done(behind);
    ck_assert_gpu(g->pool_trim(rig.pool, 0));
}

START_TEST(trim_gives_back_without_a_synchronise_what_a_stream_destroyed_when_idle_has_freed)
{
    trim_without_a_synchronise(true);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

START_TEST(trim_gives_back_only_after_a_synchronise_what_a_stream_destroyed_at_work_has_freed)
{
    trim_without_a_synchronise(false);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 1024 * MIB);
    ck_assert_gpu(g->device_synchronize(0));
    ck_assert_gpu(g->pool_trim(rig.pool, 0));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

START_TEST(trim_keeps_what_it_is_told_to)
{
    void *blocks[8];
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(rig.pool, 128 * MIB, rig.a);
    for (size_t i = 0; i < 8; i++)
        give(blocks[i], rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_trim(rig.pool, 512 * MIB));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 512 * MIB);
}
END_TEST

#define PAIRS 64

/* Large blocks with a small one behind each; then the large ones go and all is done to get their memory back. */
static void interleave(gpu_pool large, gpu_pool small)
{
    void *blocks[PAIRS];
    set_figure(large, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    for (size_t i = 0; i < PAIRS; i++) {
        blocks[i] = take(large, 24 * MIB, rig.a);
        take(small, 64 * 1024, rig.a);
    }
    for (size_t i = 0; i < PAIRS; i++)
        give(blocks[i], rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_trim(large, 0));
}

START_TEST(small_blocks_pin_large_memory)
{
    interleave(rig.pool, rig.pool);
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), PAIRS * 24 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_USED), PAIRS * 64 * 1024);
}
END_TEST

START_TEST(steps_that_small_blocks_pin_serve_no_larger_request)
{
    interleave(rig.pool, rig.pool);
    uint64_t reserved = figure(rig.pool, GPU_POOL_RESERVED);
    take(rig.pool, 512 * MIB, rig.a);
    ck_assert_uint_ge(figure(rig.pool, GPU_POOL_RESERVED), reserved + 512 * MIB - STEP);
}
END_TEST

START_TEST(small_blocks_in_a_pool_of_their_own_pin_nothing)
{
    interleave(rig.pool, make_pool(&(struct gpu_pool_spec){ .device = 0 }));
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RESERVED), 0);
}
END_TEST

void add_memory_tests(Suite *suite)
{
    TCase *tcase = rig_case(suite, "memory");
    suite_add(tcase, blocks_are_aligned_to_512_bytes, page_locked_memory_is_the_hosts_and_of_copies, used_counts_the_bytes_asked_for, pool_grows_in_steps_of_32_mib,
              double_free_is_refused, freeing_foreign_memory_is_refused, freeing_the_middle_of_a_block_is_refused_and_harmless,
              thread_that_chose_no_device_is_served, thread_that_chose_no_device_frees_a_block_of_another,
              request_beyond_the_device_fails, request_that_does_not_fit_leaves_nothing_with_threshold_0,
              request_that_does_not_fit_leaves_its_pool_as_much_as_the_threshold,
              request_that_does_not_fit_leaves_its_pool_what_the_device_had_with_threshold_all,
              free_memory_of_the_device_is_what_a_pool_can_grow_by, processes_that_use_the_device_have_this_one_among_them, pool_grows_by_what_is_missing,
              idle_steps_that_lie_apart_serve_a_larger_request, used_falls_at_the_call_of_free,
              high_marks_restart_at_the_current_figures, pending_free_serves_the_same_stream,
              pending_free_serves_another_stream_at_once_where_nothing_else_does, pending_free_is_served_at_the_same_address,
              stream_served_from_a_pending_free_waits_for_it, block_served_from_a_pending_free_holds_what_its_new_owner_wrote,
              pool_grows_rather_than_make_a_stream_wait, pending_free_serves_no_other_stream_without_internal_dependencies,
              pending_free_serves_another_stream_after_synchronise_of_the_freeing_one, pending_free_serves_the_same_pool_after_polling,
              pending_free_does_not_serve_another_pool, polling_is_not_enough_for_another_pool,
              pending_free_serves_another_pool_after_event_synchronise, pending_free_serves_a_stream_that_waits_for_it,
              pool_serves_a_stream_that_waits_before_it_grows, pool_grows_for_a_stream_that_waits_for_an_older_free,
              waiting_stream_is_not_served_without_reuse_by_events, driver_rescues_with_idle_memory_of_another_pool,
              driver_rescues_a_larger_request_with_idle_memory_of_the_same_pool, threshold_0_gives_back_at_stream_synchronise,
              threshold_0_gives_back_at_event_synchronise, threshold_0_gives_back_at_device_synchronise,
              threshold_0_keeps_memory_at_event_query, threshold_0_keeps_memory_at_synchronise_of_another_stream,
              threshold_all_keeps_memory_at_synchronise, trim_gives_nothing_back_before_a_synchronise,
              trim_gives_all_back_after_a_synchronise,
              trim_gives_back_without_a_synchronise_what_a_stream_destroyed_when_idle_has_freed,
              trim_gives_back_only_after_a_synchronise_what_a_stream_destroyed_at_work_has_freed, trim_keeps_what_it_is_told_to, small_blocks_pin_large_memory,
              steps_that_small_blocks_pin_serve_no_larger_request, small_blocks_in_a_pool_of_their_own_pin_nothing);
}
