/* SPDX-License-Identifier: MIT */
/* calls.c - calls that cost the same whatever their size. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

static int do_malloc(struct bench *bench)
{
    return bench->gpu->malloc_async(&bench->ptr, SMALL, bench->pool, bench->stream);
}

static int do_free(struct bench *bench)
{
    return bench->gpu->free_async(bench->ptr, bench->stream);
}

static int do_trim(struct bench *bench)
{
    return bench->gpu->pool_trim(bench->pool, UINT64_MAX);
}

static int do_pool_create(struct bench *bench)
{
    return bench->gpu->pool_create(&(struct gpu_pool_spec){ .device = bench->device }, &bench->other);
}

static int do_pool_destroy(struct bench *bench)
{
    return bench->gpu->pool_destroy(bench->other);
}

static int do_pool_get(struct bench *bench)
{
    uint64_t value;
    return bench->gpu->pool_get(bench->pool, GPU_POOL_RELEASE_THRESHOLD, &value);
}

static int do_pool_set(struct bench *bench)
{
    return bench->gpu->pool_set(bench->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
}

static int do_stream_synchronize(struct bench *bench)
{
    return bench->gpu->stream_synchronize(bench->stream);
}

static int do_device_synchronize(struct bench *bench)
{
    return bench->gpu->device_synchronize(bench->device);
}

static int do_wait_event(struct bench *bench)
{
    return bench->gpu->stream_wait_event(bench->stream, bench->event);
}

static int do_capture_status(struct bench *bench)
{
    enum gpu_capture_status status;
    return bench->gpu->stream_capture_status(bench->stream, &status);
}

static int do_stream_id(struct bench *bench)
{
    uint64_t id;
    return bench->gpu->stream_id(bench->stream, &id);
}

static int do_exchange_mode(struct bench *bench)
{
    return bench->gpu->exchange_capture_mode(&bench->mode);
}

static int do_record(struct bench *bench)
{
    return bench->gpu->event_record(bench->event, bench->stream);
}

static int do_record_and_wait(struct bench *bench)
{
    int code = do_record(bench);
    return code ? code : do_stream_synchronize(bench);
}

static int do_query(struct bench *bench)
{
    return bench->gpu->event_query(bench->event);
}

static int do_current_device(struct bench *bench)
{
    int device;
    return bench->gpu->get_current_device(&device);
}

static int do_device_memory(struct bench *bench)
{
    uint64_t free_bytes, total;
    return bench->gpu->device_memory(bench->device, &free_bytes, &total);
}

/* Each of `samples` times: before, the call that is timed, after. */
static const struct row {
    enum cost_id id;
    bench_call *before, *call, *after;
    unsigned samples;
} rows[] = {
    { COST_malloc_async, NULL, do_malloc, do_free, 1001 },
    { COST_free_async, do_malloc, do_free, NULL, 1001 },
    { COST_pool_trim, NULL, do_trim, NULL, 101 },
    { COST_pool_create, NULL, do_pool_create, do_pool_destroy, 31 },
    { COST_pool_get, NULL, do_pool_get, NULL, 1001 },
    { COST_pool_set, NULL, do_pool_set, NULL, 1001 },
    { COST_stream_synchronize, NULL, do_stream_synchronize, NULL, 1001 },
    { COST_device_synchronize, NULL, do_device_synchronize, NULL, 101 },
    { COST_event_record, NULL, do_record, do_stream_synchronize, 1001 },
    { COST_event_query, do_record_and_wait, do_query, NULL, 1001 },
    { COST_stream_wait_event, do_record_and_wait, do_wait_event, NULL, 1001 },
    { COST_stream_capture_status, NULL, do_capture_status, NULL, 1001 },
    { COST_stream_id, NULL, do_stream_id, NULL, 1001 },
    { COST_exchange_capture_mode, NULL, do_exchange_mode, do_exchange_mode, 1001 },
    { COST_get_current_device, NULL, do_current_device, NULL, 1001 },
    { COST_device_memory, NULL, do_device_memory, NULL, 101 },
};

static bool measure_row(struct bench *bench, const struct row *row)
{
    uint64_t times[SAMPLES_MAX];
    for (unsigned i = 0; i < row->samples; i++) {
        int code = row->before ? row->before(bench) : GPU_SUCCESS;
        if (code == GPU_SUCCESS)
            times[i] = bench_time(bench, row->call, &code);
        if (code == GPU_SUCCESS && row->after)
            code = row->after(bench);
        if (!bench_is_good(bench, code, cost_rows[row->id].key))
            return false;
    }
    bench_found(bench, row->id, (struct gpu_cost){ .call = median(times, row->samples) });
    return true;
}

bool measure_calls(struct bench *bench)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool can = rows[i].id != COST_stream_id || bench->gpu->supports(bench->device, GPU_FEATURE_STREAM_ID, NULL, 0);
        if (can && !measure_row(bench, &rows[i]))
            return false;
    }
    return true;
}
