/* SPDX-License-Identifier: MIT */
/* conformance_stream.c - streams, events, and data that really moves. */
#include "tests/gpu/conformance.h"

#include <stdio.h>
#include <string.h>

static uint64_t id_of(gpu_stream stream)
{
    uint64_t id;
    ck_assert_gpu(g->stream_id(stream, &id));
    return id;
}

START_TEST(streams_have_different_ids)
{
    ck_assert_uint_ne(id_of(rig.a), id_of(rig.b));
    ck_assert_uint_ne(id_of(rig.a), id_of(GPU_STREAM_LEGACY));
}
END_TEST

START_TEST(recycled_handle_has_a_new_id)
{
    gpu_stream first, stream = NULL;
    ck_assert_gpu(g->stream_create(0, &first));
    uint64_t id = id_of(first);
    ck_assert_gpu(g->stream_destroy(first));
    for (int i = 0; i < 16 && stream != first; i++)
        stream = make_stream(0);
    ck_assert_msg(stream == first, "none of 16 new streams got the handle of the destroyed one");
    ck_assert_uint_ne(id_of(stream), id);
}
END_TEST

static int write_per_thread_id(void *id)
{
    return g->stream_id(GPU_STREAM_PER_THREAD, id);
}

START_TEST(per_thread_stream_has_an_id_of_its_own_in_each_thread)
{
    uint64_t other = 0;
    ck_assert_gpu(in_other_thread(GPU_CAPTURE_MODE_GLOBAL, write_per_thread_id, &other));
    ck_assert_uint_ne(id_of(GPU_STREAM_PER_THREAD), other);
}
END_TEST

START_TEST(null_stream_is_the_legacy_stream)
{
    ck_assert_uint_eq(id_of(NULL), id_of(GPU_STREAM_LEGACY));
}
END_TEST

START_TEST(event_is_not_ready_behind_a_running_kernel)
{
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
    ck_assert_gpu(g->event_synchronize(rig.event));
    ck_assert_gpu(g->event_query(rig.event));
}
END_TEST

START_TEST(event_that_was_never_recorded_is_ready)
{
    ck_assert_gpu(g->event_query(rig.event));
    ck_assert_gpu(g->event_synchronize(rig.event));
}
END_TEST

START_TEST(clock_covers_the_kernel_that_a_synchronise_waited_for)
{
    uint64_t before = g->now();
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_ge(g->now() - before, KERNEL_NS * 9 / 10);
}
END_TEST

START_TEST(streams_run_side_by_side)
{
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.b));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(stream_waits_for_the_event_of_another)
{
    unsigned char byte = 0;
    void *ptr = take(rig.pool, MIB, rig.a);
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    ck_assert_gpu(g->set_async(ptr, 5, MIB, rig.a));
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    ck_assert_gpu(g->stream_wait_event(rig.b, rig.event));
    ck_assert_gpu(g->copy_async(&byte, ptr, 1, rig.b));
    ck_assert_gpu(g->stream_synchronize(rig.b));
    ck_assert_uint_eq(byte, 5);
}
END_TEST

START_TEST(data_come_back_from_the_device_as_they_went)
{
    unsigned char sent[4096], received[4096] = { 0 };
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (unsigned char)(i * 31);
    void *first = take(rig.pool, sizeof(sent), rig.a), *second = take(rig.pool, sizeof(sent), rig.a);
    ck_assert_gpu(g->copy_async(first, sent, sizeof(sent), rig.a));
    ck_assert_gpu(g->copy_async(second, first, sizeof(sent), rig.a));
    ck_assert_gpu(g->copy_async(received, second, sizeof(sent), rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_mem_eq(sent, received, sizeof(sent));
}
END_TEST

START_TEST(work_of_a_stream_runs_in_order)
{
    unsigned char bytes[2] = { 0 };
    unsigned char *ptr = take(rig.pool, 2, rig.a);
    ck_assert_gpu(g->set_async(ptr, 1, 2, rig.a));
    ck_assert_gpu(g->set_async(ptr + 1, 2, 1, rig.a));
    ck_assert_gpu(g->copy_async(bytes, ptr, 2, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(bytes[0], 1);
    ck_assert_uint_eq(bytes[1], 2);
}
END_TEST

START_TEST(current_device_reads_back_as_it_was_set)
{
    int device = -1;
    ck_assert_gpu(g->set_current_device(0));
    ck_assert_gpu(g->get_current_device(&device));
    ck_assert_int_eq(device, 0);
}
END_TEST

START_TEST(device_that_does_not_exist_is_refused)
{
    struct gpu_device_info info;
    ck_assert_gpu_code(g->device_info(1000, &info), GPU_INVALID_DEVICE);
    ck_assert_gpu_code(g->set_current_device(1000), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(device_tells_its_name_uuid_and_memory)
{
    uint64_t free_bytes, total_bytes;
    struct gpu_device_info info;
    ck_assert_gpu(g->device_info(0, &info));
    ck_assert_gpu(g->device_memory(0, &free_bytes, &total_bytes));
    ck_assert_uint_eq(info.memory, total_bytes);
    ck_assert_uint_le(free_bytes, total_bytes);
    ck_assert_uint_gt(strlen(info.name), 0);
    ck_assert(!strncmp(info.uuid, "GPU-", 4) || !strncmp(info.uuid, "MIG-", 4));
}
END_TEST

START_TEST(error_numbers_have_cudas_names)
{
    ck_assert_str_eq(g->code_name(GPU_OUT_OF_MEMORY), "cudaErrorMemoryAllocation");
    ck_assert_str_eq(g->code_text(GPU_OUT_OF_MEMORY), "out of memory");
    ck_assert_str_eq(g->code_name(GPU_CAPTURE_INVALIDATED), "cudaErrorStreamCaptureInvalidated");
    ck_assert_str_eq(g->code_name(12345), "unrecognized error code");
}
END_TEST

START_TEST(stream_tells_its_device)
{
    int device = -1;
    ck_assert_gpu(g->stream_device(rig.a, &device));
    ck_assert_int_eq(device, 0);
}
END_TEST

START_TEST(stream_that_captures_tells_its_device_and_captures_on)
{
    int device = -1;
    size_t nodes;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_GLOBAL));
    ck_assert_gpu(g->stream_device(rig.a, &device));
    ck_assert_int_eq(device, 0);
    ck_assert_gpu(g->capture_end(rig.a, &nodes));
}
END_TEST

START_TEST(device_with_a_stream_is_used)
{
    bool used = false;
    ck_assert_gpu(g->device_is_used(0, &used));
    ck_assert(used);
}
END_TEST

/* The work of one stream that lives (0), that was destroyed (1), of the legacy stream (2), and of two (3). */
START_TEST(event_of_the_device_is_behind_all_work_given_before)
{
    gpu_event event = make_event(0);
    uint64_t begin = g->now();
    if (_i == 1) {
        gpu_stream stream;
        ck_assert_gpu(g->stream_create(0, &stream));
        ck_assert_gpu(g->delay(stream, KERNEL_NS));
        ck_assert_gpu(g->stream_destroy(stream));
    } else {
        ck_assert_gpu(g->delay(_i == 2 ? GPU_STREAM_LEGACY : rig.a, KERNEL_NS));
    }
    if (_i == 3)
        ck_assert_gpu(g->delay(rig.b, KERNEL_NS / 2));
    ck_assert_gpu(g->event_record_device(event, 0));
    ck_assert_gpu(g->event_synchronize(event));
    ck_assert_uint_ge(g->now() - begin, KERNEL_NS);
    ck_assert_gpu(g->event_query(event));
}
END_TEST

START_TEST(event_of_the_device_waits_for_no_work_given_later)
{
    gpu_event event = make_event(0), later = make_event(0);
    int code = GPU_SUCCESS;
    for (uint64_t ns = 5 * KERNEL_NS; code == GPU_SUCCESS; ns *= 4) { /* until this process gets there before it ends */
        ck_assert_gpu(g->event_record_device(event, 0));
        ck_assert_gpu(g->delay(rig.a, ns));
        ck_assert_gpu(g->event_record(later, rig.a));
        ck_assert_gpu(g->event_synchronize(event));
        code = g->event_query(later);
    }
    ck_assert_gpu_code(code, GPU_NOT_READY);
}
END_TEST

START_TEST(event_of_the_device_spoils_a_capture)
{
    gpu_event event = make_event(0);
    size_t nodes;
    ck_assert_gpu(g->capture_begin(rig.a, GPU_CAPTURE_MODE_RELAXED));
    ck_assert_gpu_code(g->event_record_device(event, 0), GPU_CAPTURE_UNSUPPORTED);
    ck_assert_gpu_code(g->capture_end(rig.a, &nodes), GPU_CAPTURE_INVALIDATED);
}
END_TEST

static void add_device_event_tests(TCase *tcase, const struct probe *probe)
{
    const enum gpu_feature feature = GPU_FEATURE_DEVICE_EVENT;
    if (!probe->supports[feature]) {
        printf("# left out: %s\n", probe->why[feature]);
        return;
    }
    tcase_add_loop_test(tcase, event_of_the_device_is_behind_all_work_given_before, 0, 4);
    suite_add(tcase, event_of_the_device_waits_for_no_work_given_later, event_of_the_device_spoils_a_capture);
}

void add_stream_tests(Suite *suite, const struct probe *probe)
{
    TCase *tcase = rig_case(suite, "streams");
    suite_add(tcase, streams_have_different_ids, recycled_handle_has_a_new_id, per_thread_stream_has_an_id_of_its_own_in_each_thread,
              null_stream_is_the_legacy_stream, event_is_not_ready_behind_a_running_kernel, event_that_was_never_recorded_is_ready,
              clock_covers_the_kernel_that_a_synchronise_waited_for, streams_run_side_by_side, stream_waits_for_the_event_of_another,
              data_come_back_from_the_device_as_they_went, work_of_a_stream_runs_in_order, current_device_reads_back_as_it_was_set,
              device_that_does_not_exist_is_refused, device_tells_its_name_uuid_and_memory, error_numbers_have_cudas_names,
              stream_tells_its_device, stream_that_captures_tells_its_device_and_captures_on, device_with_a_stream_is_used);
    add_device_event_tests(tcase, probe);
}
