/* SPDX-License-Identifier: MIT */
/* sim_work.c - the simulator at work: its clock, its memory, what is fatal, capture beyond the measured facts, and threads. */
#include <pthread.h>
#include <unistd.h>

#include "tests/gpu/sim_test.h"

/* The clock ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(calls_that_only_queue_take_no_time)
{
    take(1, a);
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 1000000), 0);
    ck_assert_int_eq(g->free_async(take(1, a), a), 0);
    ck_assert_uint_eq(g->now(), before);
}
END_TEST

START_TEST(synchronise_takes_as_long_as_the_work)
{
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 1000000), 0);
    ck_assert_int_eq(g->delay(a, 500), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_eq(g->now() - before, 1000500);
}
END_TEST

START_TEST(pause_and_advance_let_time_pass)
{
    uint64_t before = g->now();
    g->pause(5);
    sim_advance(7);
    ck_assert_uint_eq(g->now() - before, 12);
}
END_TEST

START_TEST(endless_kernel_does_not_wrap_the_clock)
{
    ck_assert_int_eq(g->delay(a, UINT64_MAX), 0);
    ck_assert_int_eq(g->delay(a, UINT64_MAX), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_eq(g->now(), UINT64_MAX);
}
END_TEST

START_TEST(growth_and_trim_cost_what_is_set)
{
    configure("grow=1000us/GiB,trim=2ms/GiB");
    uint64_t before = g->now();
    void *ptr = take(2 * GIB, a);
    ck_assert_uint_eq(g->now() - before, 2000000);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_eq(g->now() - before, 2000000 + 4000000);
}
END_TEST

START_TEST(growth_costs_what_is_missing)
{
    configure("grow=1000us/GiB,trim=2ms/GiB");
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, GIB), 0);
    ck_assert_int_eq(g->free_async(take(GIB, a), a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    uint64_t before = g->now();
    take(3 * GIB, a);
    ck_assert_uint_eq(g->now() - before, 2000000);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 3 * GIB);
}
END_TEST

START_TEST(device_synchronise_waits_for_streams_that_are_gone)
{
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 1000000), 0);
    ck_assert_int_eq(g->stream_destroy(a), 0);
    ck_assert_int_eq(g->device_synchronize(0), 0);
    ck_assert_uint_eq(g->now() - before, 1000000);
}
END_TEST

START_TEST(legacy_and_per_thread_streams_wait_for_each_other)
{
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(GPU_STREAM_PER_THREAD, 1000), 0);
    ck_assert_int_eq(g->delay(NULL, 1000), 0);
    ck_assert_int_eq(g->delay(GPU_STREAM_PER_THREAD, 1000), 0);
    ck_assert_int_eq(g->stream_synchronize(GPU_STREAM_PER_THREAD), 0);
    ck_assert_uint_eq(g->now() - before, 3000);
}
END_TEST

START_TEST(destroyed_handle_is_the_next_one)
{
    gpu_stream stream;
    ck_assert_int_eq(g->stream_destroy(a), 0);
    ck_assert_int_eq(g->stream_create(1, &stream), 0);
    ck_assert_ptr_eq(stream, a);
}
END_TEST

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(size_0_and_null_are_nothing)
{
    void *ptr = &g;
    ck_assert_int_eq(g->malloc_async(&ptr, 0, pool, a), 0);
    ck_assert_ptr_null(ptr);
    ck_assert_int_eq(g->free_async(NULL, a), 0);
}
END_TEST

START_TEST(best_fit_takes_the_smallest_hole)
{
    void *large = take(8 * MIB, a);
    take(512, a);
    void *small = take(2 * MIB, a);
    take(22 * MIB - 512, a);
    ck_assert_int_eq(g->free_async(large, a), 0);
    ck_assert_int_eq(g->free_async(small, a), 0);
    ck_assert_ptr_eq(take(MIB, a), small);
    ck_assert_ptr_eq(take(8 * MIB, a), large);
}
END_TEST

START_TEST(ended_free_does_not_serve_another_stream_without_opportunism)
{
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_REUSE_OPPORTUNISTIC, 0), 0);
    ck_assert_int_eq(g->free_async(take(32 * MIB, a), a), 0);
    take(32 * MIB, b);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 64 * MIB);
}
END_TEST

/* A pool at its cap, with a block freed on stream a behind a kernel of a second. */
static void *free_at_a_cap(uint64_t size)
{
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .max_size = size }, &pool), 0);
    void *ptr = take(size, a);
    ck_assert_int_eq(g->delay(a, 1000000000), 0);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    return ptr;
}

START_TEST(stream_of_another_device_is_not_made_to_wait_for_a_free)
{
    void *ptr;
    gpu_stream peer;
    free_at_a_cap(64 * MIB);
    ck_assert_int_eq(g->stream_create(1, &peer), 0);
    ck_assert_int_eq(g->malloc_async(&ptr, 64 * MIB, pool, peer), GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(stream_waits_only_for_the_frees_that_it_needs)
{
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .max_size = 64 * MIB }, &pool), 0);
    void *first = take(32 * MIB, a), *second = take(32 * MIB, a);
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 1000), 0);
    ck_assert_int_eq(g->free_async(first, a), 0);
    ck_assert_int_eq(g->delay(a, 1000), 0);
    ck_assert_int_eq(g->free_async(second, a), 0);
    ck_assert_ptr_eq(take(32 * MIB, b), first);
    ck_assert_int_eq(g->stream_synchronize(b), 0);
    ck_assert_uint_eq(g->now() - before, 1000);
}
END_TEST

START_TEST(free_that_a_stream_was_made_to_wait_for_counts_as_an_event_dependency)
{
    void *ptr = free_at_a_cap(64 * MIB);
    ck_assert_ptr_eq(take(32 * MIB, b), ptr);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0), 0);
    ck_assert_ptr_eq(take(32 * MIB, b), (char *)ptr + 32 * MIB);
}
END_TEST

START_TEST(growth_is_cut_to_what_a_cap_leaves)
{
    void *ptr;
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .max_size = 48 * MIB }, &pool), 0);
    take(32 * MIB, a);
    take(16 * MIB, a);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 48 * MIB);
    ck_assert_int_eq(g->malloc_async(&ptr, 1, pool, a), GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(capped_pool_makes_room_from_its_own_idle_memory)
{
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .max_size = 128 * MIB }, &pool), 0);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), 0);
    void *first = take(64 * MIB, a);
    take(32 * MIB, a);
    ck_assert_int_eq(g->free_async(first, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    take(96 * MIB, a);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 128 * MIB);
}
END_TEST

/* Three blocks, the last of which was cut to what the device had; then the outer ones are free. */
START_TEST(what_a_growth_was_cut_to_serves_a_larger_request)
{
    configure("memory=126MiB");
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), 0);
    void *first = take(32 * MIB, a);
    take(64 * MIB, a);
    ck_assert_int_eq(g->free_async(take(30 * MIB, a), a), 0);
    ck_assert_int_eq(g->free_async(first, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    take(62 * MIB, a);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 126 * MIB);
}
END_TEST

START_TEST(exported_memory_is_not_put_behind_other_addresses)
{
    int fd;
    struct gpu_shared_block shared;
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .posix_fd = true }, &pool), 0);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), 0);
    ck_assert_int_eq(g->pool_export(pool, &fd), 0);
    void *exported = take(64 * MIB, a), *other = take(64 * MIB, a);
    ck_assert_int_eq(g->block_export(exported, &shared), 0);
    take(32 * MIB, a);
    ck_assert_int_eq(g->free_async(exported, a), 0);
    ck_assert_int_eq(g->free_async(other, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    take(192 * MIB, a);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), (64 + 32 + 192) * MIB);
    close(fd);
}
END_TEST

START_TEST(given_back_memory_comes_back_as_zeros)
{
    unsigned char byte = 1;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->set_async(ptr, 255, MIB, a), 0);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_ptr_eq(take(MIB, a), ptr);
    ck_assert_int_eq(g->copy_async(&byte, ptr, 1, a), 0);
    ck_assert_uint_eq(byte, 0);
}
END_TEST

START_TEST(destroyed_pool_goes_with_its_last_block)
{
    struct sim_census census;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->pool_destroy(pool), 0);
    sim_census(&census);
    ck_assert_uint_eq(census.reserved, 32 * MIB);
    ck_assert_int_eq(g->delay(a, 1000), 0);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    sim_census(&census);
    ck_assert_uint_eq(census.reserved, 32 * MIB);
    sim_advance(1000);
    sim_census(&census);
    ck_assert_uint_eq(census.reserved, 0);
}
END_TEST

START_TEST(default_pool_takes_the_place_of_a_destroyed_current_one)
{
    gpu_pool standard, current;
    ck_assert_int_eq(g->pool_set_current(0, pool), 0);
    ck_assert_int_eq(g->pool_destroy(pool), 0);
    ck_assert_int_eq(g->pool_get_default(0, &standard), 0);
    ck_assert_int_eq(g->pool_get_current(0, &current), 0);
    ck_assert_ptr_eq(current, standard);
    ck_assert_int_eq(g->pool_destroy(standard), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(host_pool_costs_no_device_memory)
{
    uint64_t before, after, total_bytes;
    ck_assert_int_eq(g->device_memory(0, &before, &total_bytes), 0);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .location = GPU_LOCATION_HOST }, &pool), 0);
    take(64 * MIB, a);
    ck_assert_int_eq(g->device_memory(0, &after, &total_bytes), 0);
    ck_assert_uint_eq(before, after);
}
END_TEST

START_TEST(exported_descriptor_shows_the_pools_memory)
{
    int fd;
    unsigned char byte = 0;
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .posix_fd = true }, &pool), 0);
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->set_async(ptr, 77, MIB, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_int_eq(g->pool_export(pool, &fd), 0);
    ck_assert_int_eq(pread(fd, &byte, 1, 0), 1);
    close(fd);
    ck_assert_uint_eq(byte, 77);
}
END_TEST

/* What kills the process's work -------------------------------------------------------------------------------------------------------- */

static void check_sticky(void)
{
    int count;
    ck_assert_int_eq(g->device_synchronize(0), GPU_ILLEGAL_ADDRESS);
    ck_assert_int_eq(g->device_count(&count), GPU_ILLEGAL_ADDRESS);
    ck_assert_int_eq(g->device_count(&count), GPU_ILLEGAL_ADDRESS);
}

START_TEST(touch_by_a_device_without_access_is_fatal)
{
    gpu_stream peer;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->stream_create(1, &peer), 0);
    ck_assert_int_eq(g->set_async(ptr, 1, MIB, peer), 0);
    sim_advance(1000000);
    check_sticky();
}
END_TEST

START_TEST(use_of_memory_that_was_given_back_is_fatal)
{
    unsigned char byte;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_int_eq(g->copy_async(&byte, ptr, 1, a), GPU_ILLEGAL_ADDRESS);
    check_sticky();
}
END_TEST

START_TEST(illegal_address_is_seen_by_whoever_waits)
{
    gpu_event event;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->free_async(ptr, a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_int_eq(g->set_async(ptr, 1, MIB, a), 0);
    ck_assert_int_eq(g->event_record(event, a), 0);
    ck_assert_int_eq(g->event_synchronize(event), GPU_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(set_of_host_memory_is_refused)
{
    ck_assert_int_eq(g->set_async(&pool, 0, sizeof(pool), a), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->copy_async(NULL, &pool, 1, a), GPU_INVALID_VALUE);
}
END_TEST

/* Capture, where CUDA's facts were not measured ---------------------------------------------------------------------------------------- */

START_TEST(all_work_of_a_capturing_stream_becomes_nodes)
{
    size_t nodes = 0;
    unsigned char byte = 1;
    void *ptr = take(MIB, a);
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(g->set_async(ptr, 9, MIB, a), 0);
    ck_assert_int_eq(g->copy_async(&byte, ptr, 1, a), 0);
    ck_assert_int_eq(g->delay(a, 1000), 0);
    ck_assert_int_eq(g->capture_end(a, &nodes), 0);
    ck_assert_uint_eq(nodes, 3);
    ck_assert_uint_eq(byte, 1);
}
END_TEST

START_TEST(spoilt_capture_takes_no_more_work)
{
    size_t nodes;
    void *ptr;
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(g->pool_trim(pool, 0), GPU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(g->malloc_async(&ptr, 1, pool, a), GPU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(g->delay(a, 1), GPU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(g->capture_end(a, &nodes), GPU_CAPTURE_INVALIDATED);
    take(1, a);
}
END_TEST

START_TEST(capture_begins_and_ends_where_it_can)
{
    size_t nodes;
    ck_assert_int_eq(g->capture_begin(GPU_STREAM_LEGACY, GPU_CAPTURE_MODE_GLOBAL), GPU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(g->capture_begin(a, (enum gpu_capture_mode)9), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->exchange_capture_mode(&(enum gpu_capture_mode){ 9 }), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->capture_end(a, &nodes), 401);
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), 401);
    ck_assert_int_eq(g->capture_end(a, &nodes), 0);
}
END_TEST

START_TEST(stream_that_waits_for_a_captured_event_joins_the_capture)
{
    size_t nodes;
    gpu_event event;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(g->event_record(event, a), 0);
    ck_assert_int_eq(g->stream_wait_event(b, event), 0);
    ck_assert_int_eq(g->delay(b, 1000), 0);
    ck_assert_int_eq(g->capture_end(b, &nodes), 903);
    ck_assert_int_eq(g->capture_end(a, &nodes), 0);
    ck_assert_uint_eq(nodes, 1);
    ck_assert_int_eq(g->stream_wait_event(b, event), 907);
}
END_TEST

START_TEST(wait_for_work_outside_the_capture_spoils_it)
{
    size_t nodes;
    gpu_event event;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->event_record(event, b), 0);
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(g->stream_wait_event(a, event), 905);
    ck_assert_int_eq(g->stream_wait_event(a, event), GPU_CAPTURE_INVALIDATED);
    ck_assert_int_eq(g->capture_end(a, &nodes), GPU_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(work_on_the_legacy_stream_spoils_the_capture_of_a_blocking_one)
{
    size_t nodes;
    gpu_event event;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->capture_begin(GPU_STREAM_PER_THREAD, GPU_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(g->event_record(event, GPU_STREAM_PER_THREAD), 0);
    ck_assert_int_eq(g->stream_wait_event(GPU_STREAM_LEGACY, event), GPU_CAPTURE_IMPLICIT);
    ck_assert_int_eq(g->delay(NULL, 1), GPU_CAPTURE_IMPLICIT);
    ck_assert_int_eq(g->capture_end(GPU_STREAM_PER_THREAD, &nodes), GPU_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(destroying_a_capturing_stream_is_refused)
{
    size_t nodes;
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(g->stream_destroy(a), GPU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(g->capture_end(a, &nodes), GPU_CAPTURE_INVALIDATED);
}
END_TEST

static void *end_a(void *code)
{
    size_t nodes;
    *(int *)code = g->capture_end(a, &nodes);
    return NULL;
}

static void *capture_own_stream(void *code)
{
    *(int *)code = g->capture_begin(GPU_STREAM_PER_THREAD, GPU_CAPTURE_MODE_GLOBAL);
    return NULL;
}

static int in_thread(void *(*act)(void *code))
{
    int code = -1;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, act, &code), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return code;
}

START_TEST(capture_ends_in_the_thread_where_it_began)
{
    ck_assert_int_eq(g->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(in_thread(end_a), 908);
    size_t nodes;
    ck_assert_int_eq(g->capture_end(a, &nodes), 0);
}
END_TEST

START_TEST(capture_of_a_per_thread_stream_ends_with_its_thread)
{
    ck_assert_int_eq(in_thread(capture_own_stream), 0);
    ck_assert_int_eq(g->pool_trim(pool, 0), 0);
}
END_TEST

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

#define THREADS 8
#define ROUNDS 200

static void *work(void *failures)
{
    gpu_stream stream;
    size_t *count = failures;
    if (g->stream_create(0, &stream)) {
        ++*count;
        return NULL;
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        void *ptr;
        unsigned char byte = 0;
        if (g->malloc_async(&ptr, 1 + i * 4096 % MIB, pool, stream)) {
            ++*count;
            continue;
        }
        *count += g->set_async(ptr, (int)(i % 256), 1, stream) != 0;
        *count += g->copy_async(&byte, ptr, 1, stream) != 0;
        *count += byte != i % 256;
        *count += g->delay(stream, 100) != 0;
        *count += g->free_async(ptr, i % 3 ? stream : GPU_STREAM_PER_THREAD) != 0;
    }
    *count += g->stream_synchronize(stream) != 0;
    *count += g->stream_destroy(stream) != 0;
    return NULL;
}

START_TEST(threads_do_not_disturb_each_other)
{
    pthread_t threads[THREADS];
    size_t failures[THREADS] = { 0 };
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &failures[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_uint_eq(failures[i], 0);
    ck_assert_uint_eq(figure(GPU_POOL_USED), 0);
    ck_assert_int_eq(g->device_synchronize(0), 0);
    ck_assert_uint_eq(figure(GPU_POOL_RESERVED), 0);
}
END_TEST

/* Handles ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(each_of_many_handles_is_known_until_it_is_destroyed)
{
    enum { MANY = 3000 };
    static gpu_stream streams[MANY];
    static gpu_event events[MANY];
    uint64_t id;
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(g->stream_create(0, &streams[i]), 0);
        ck_assert_int_eq(g->event_create(0, &events[i]), 0);
    }
    for (int i = 0; i < MANY; i += 2)
        ck_assert_int_eq(g->event_destroy(events[i]) ?: g->stream_destroy(streams[i]), 0);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(g->event_query(events[i]), i % 2 ? 0 : GPU_INVALID_HANDLE);
        ck_assert_int_eq(i % 2 ? g->stream_id(streams[i], &id) : 0, 0);
    }
    ck_assert_int_eq(g->stream_id((gpu_stream)(void *)events[1], &id), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->event_query((gpu_event)(void *)streams[1]), GPU_INVALID_HANDLE);
    for (int i = 1; i < MANY; i += 2)
        ck_assert_int_eq(g->event_destroy(events[i]) ?: g->stream_destroy(streams[i]), 0);
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.events, 0);
    ck_assert_uint_eq(census.streams, 2);
}
END_TEST

static void add_clock_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "clock");
    suite_add(tcase, calls_that_only_queue_take_no_time, synchronise_takes_as_long_as_the_work, pause_and_advance_let_time_pass,
              endless_kernel_does_not_wrap_the_clock, growth_and_trim_cost_what_is_set, growth_costs_what_is_missing, device_synchronise_waits_for_streams_that_are_gone,
              legacy_and_per_thread_streams_wait_for_each_other, destroyed_handle_is_the_next_one);
}

static void add_memory_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "memory");
    suite_add(tcase, size_0_and_null_are_nothing, best_fit_takes_the_smallest_hole,
              ended_free_does_not_serve_another_stream_without_opportunism, stream_of_another_device_is_not_made_to_wait_for_a_free,
              stream_waits_only_for_the_frees_that_it_needs, free_that_a_stream_was_made_to_wait_for_counts_as_an_event_dependency,
              growth_is_cut_to_what_a_cap_leaves, capped_pool_makes_room_from_its_own_idle_memory,
              what_a_growth_was_cut_to_serves_a_larger_request, exported_memory_is_not_put_behind_other_addresses, given_back_memory_comes_back_as_zeros,
              destroyed_pool_goes_with_its_last_block, default_pool_takes_the_place_of_a_destroyed_current_one,
              host_pool_costs_no_device_memory, exported_descriptor_shows_the_pools_memory);
}

static void add_fatal_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "fatal");
    suite_add(tcase, touch_by_a_device_without_access_is_fatal, use_of_memory_that_was_given_back_is_fatal,
              illegal_address_is_seen_by_whoever_waits, set_of_host_memory_is_refused);
}

static void add_capture_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "capture");
    suite_add(tcase, all_work_of_a_capturing_stream_becomes_nodes, spoilt_capture_takes_no_more_work, capture_begins_and_ends_where_it_can,
              stream_that_waits_for_a_captured_event_joins_the_capture, wait_for_work_outside_the_capture_spoils_it,
              work_on_the_legacy_stream_spoils_the_capture_of_a_blocking_one, destroying_a_capturing_stream_is_refused,
              capture_ends_in_the_thread_where_it_began, capture_of_a_per_thread_stream_ends_with_its_thread);
}

static void add_threads_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "threads");
    suite_add(tcase, threads_do_not_disturb_each_other, each_of_many_handles_is_known_until_it_is_destroyed);
}

void add_work_tests(Suite *suite)
{
    add_clock_tests(suite);
    add_memory_tests(suite);
    add_fatal_tests(suite);
    add_capture_tests(suite);
    add_threads_tests(suite);
}
