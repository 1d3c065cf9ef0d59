/* SPDX-License-Identifier: MIT */
/* calls.c - calls that cost the same whatever their size. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

BENCH_CALL(malloc, malloc_async(&bench->ptr, SMALL, bench->pool, bench->stream))
BENCH_CALL(free, free_async(bench->ptr, bench->stream))
BENCH_CALL(trim, pool_trim(bench->pool, UINT64_MAX))
BENCH_CALL(pool_create, pool_create(&(struct gpu_pool_spec){ .device = bench->device }, &bench->other))
BENCH_CALL(pool_destroy, pool_destroy(bench->other))
BENCH_CALL(pool_get, pool_get(bench->pool, GPU_POOL_RELEASE_THRESHOLD, &(uint64_t){ 0 }))
BENCH_CALL(pool_set, pool_set(bench->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX))
BENCH_CALL(stream_synchronize, stream_synchronize(bench->stream))
BENCH_CALL(device_synchronize, device_synchronize(bench->device))
BENCH_CALL(wait_event, stream_wait_event(bench->stream, bench->event))
BENCH_CALL(capture_status, stream_capture_status(bench->stream, &(enum gpu_capture_status){ 0 }))
BENCH_CALL(stream_id, stream_id(bench->stream, &(uint64_t){ 0 }))
BENCH_CALL(exchange_mode, exchange_capture_mode(&bench->mode))
BENCH_CALL(record, event_record(bench->event, bench->stream))
BENCH_CALL(query, event_query(bench->event))
BENCH_CALL(current_device, get_current_device(&(int){ 0 }))
BENCH_CALL(device_memory, device_memory(bench->device, &(uint64_t){ 0 }, &(uint64_t){ 0 }))

static int do_record_and_wait(struct bench *bench)
{
    int code = do_record(bench);
    return code ? code : do_stream_synchronize(bench);
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
