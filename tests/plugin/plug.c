/* SPDX-License-Identifier: MIT */
#include "tests/plugin/plug.h"

const struct gpu *plug_gpu;

void plug_set_up(const char *machine, const char *policy)
{
    char why[256] = "";
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    const char *missing = "";
    plug_gpu = gpu_find("sim", &missing);
    ck_assert_msg(plug_gpu != NULL, "%s", missing);
    ck_assert_msg(sim_configure(machine ? machine : "memory=1GiB", why, sizeof why) == 0, "%s", why);
    options.gpu = "sim";
    options.policy_text = policy ? policy : "weir: 1\npools: { p: {} }\n";
    ck_assert_msg(weir_torch_configure(&options, &error) == WEIR_OK, "%s", error.text);
    weir_torch_init(2);
}

gpu_stream plug_external(int device)
{
    gpu_stream stream;
    ck_assert_int_eq(plug_gpu->stream_create(device, &stream), GPU_SUCCESS);
    return stream;
}

gpu_stream plug_stream(int device)
{
    gpu_stream stream = plug_external(device);
    weir_torch_stream_lives(device, stream);
    return stream;
}

void *plug_malloc(size_t size, int device, gpu_stream stream)
{
    void *ptr = weir_torch_pool_malloc((ssize_t)size, device, stream);
    ck_assert_msg(ptr != NULL, "%zu bytes: %s", size, plug_report());
    return ptr;
}

weir_torch_pool_id plug_id(uint64_t id)
{
    return (weir_torch_pool_id){ id, 1 };
}

void plug_capture_begin(int device, uint64_t id, gpu_stream stream)
{
    weir_torch_begin_allocate_to_pool(device, plug_id(id));
    ck_assert_int_eq(plug_gpu->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
}

size_t plug_capture_end(int device, uint64_t id, gpu_stream stream)
{
    size_t nodes = 0;
    int code = plug_gpu->capture_end(stream, &nodes);
    ck_assert_msg(code == GPU_SUCCESS, "the capture ended with %s", plug_gpu->code_name(code));
    weir_torch_end_allocate_to_pool(device, plug_id(id));
    return nodes;
}

void plug_order(int device, gpu_stream from, gpu_stream to)
{
    gpu_event event;
    ck_assert_int_eq(plug_gpu->event_create(device, &event), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->event_record(event, from), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->stream_wait_event(to, event), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->event_destroy(event), GPU_SUCCESS);
}

weir_torch_stats plug_stats(int device)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_stats stats = { .size = sizeof stats };
    ck_assert_msg(weir_torch_stats_take(device, &error, &stats) == WEIR_OK, "%s", error.text);
    ck_assert_uint_le(stats.allocated, stats.active);
    ck_assert_uint_le(stats.allocated, stats.allocated_high);
    ck_assert_uint_le(stats.active + stats.cached + stats.idle, stats.reserved);
    ck_assert_uint_le(stats.reserved, stats.reserved_high);
    ck_assert_uint_le(stats.graph_live, stats.graph_reserved);
    ck_assert_uint_le(stats.graph_reserved, stats.reserved);
    return stats;
}

const char *plug_report(void)
{
    static weir_error error;
    weir_torch_report(&error);
    return error.text;
}

void plug_expect_empty(int device)
{
    struct sim_census census;
    weir_torch_reset();
    weir_torch_stats stats = plug_stats(device);
    ck_assert_uint_eq(stats.allocated, 0);
    ck_assert_uint_eq(stats.active, 0);
    ck_assert_uint_eq(stats.blocks, 0);
    ck_assert_uint_eq(stats.graph_reserved, 0);
    ck_assert_uint_eq(stats.reserved, 0);
    sim_census(&census);
    ck_assert_uint_eq(census.blocks, 0);
    /* Weir keeps an event for each stream that it was not told of, once that has freed much. */
    ck_assert_uint_le(census.events, 2);
}

bool plug_all(const unsigned char *bytes, int value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}
