/* SPDX-License-Identifier: MIT */
#include "tools/calibrate/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/calibrate/fit.h"
#include "tools/common/complain.h"

#define LEAST (256 * MIB) /* free on the device */

bool bench_is_good(const struct bench *bench, int code, const char *what)
{
    if (code == GPU_SUCCESS)
        return true;
    complain("device %d: %s: %s (%s)", bench->device, what, bench->gpu->code_text(code), bench->gpu->code_name(code));
    return false;
}

uint64_t bench_time(struct bench *bench, bench_call *call, int *code)
{
    uint64_t begun = bench->gpu->now();
    *code = call(bench);
    uint64_t time = bench->gpu->now() - begun;
    return time > bench->reading ? time - bench->reading : 0;
}

static int do_nothing(struct bench *bench)
{
    (void)bench;
    return GPU_SUCCESS;
}

static uint64_t time_of_reading(struct bench *bench)
{
    uint64_t times[SAMPLES_MAX];
    int code;
    for (size_t i = 0; i < SAMPLES_MAX; i++)
        times[i] = bench_time(bench, do_nothing, &code);
    return median(times, SAMPLES_MAX);
}

/* Half of what is free at most; a power of two, as rates then come out whole. */
static bool choose_block(struct bench *bench)
{
    uint64_t free_bytes, total;
    if (!bench_is_good(bench, bench->gpu->device_memory(bench->device, &free_bytes, &total), "free memory"))
        return false;
    if (free_bytes < LEAST) {
        complain("device %d: only %llu MiB are free, and measuring needs 256: end what uses it, or name another --device", bench->device,
                 (unsigned long long)(free_bytes / MIB));
        return false;
    }
    for (bench->block = GIB; bench->block > free_bytes / 2; bench->block /= 2)
        ;
    return true;
}

BENCH_CALL(begin, malloc_async(&bench->ptr, STEP, bench->pool, bench->stream))

/* The pool has its memory before anything else is timed. */
static int warm(struct bench *bench)
{
    int code = bench->gpu->pool_set(bench->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    if (!code)
        bench->begun = bench_time(bench, do_begin, &code);
    if (!code)
        code = bench->gpu->free_async(bench->ptr, bench->stream);
    return code ? code : bench->gpu->stream_synchronize(bench->stream);
}

/* With a pool, a stream and an event, which are there. */
static bool measure(struct bench *bench)
{
    bench->reading = time_of_reading(bench);
    return bench_is_good(bench, warm(bench), "a pool") && measure_calls(bench) && measure_growth(bench) && measure_pages(bench) &&
           measure_arena(bench);
}

bool measure_describe(const struct gpu *gpu, int device, struct costs *costs)
{
    struct bench bench = { .gpu = gpu, .device = device };
    struct gpu_device_info info;
    int driver, toolkit;
    if (!bench_is_good(&bench, gpu->device_info(device, &info), "its name") ||
        !bench_is_good(&bench, gpu->versions(&driver, &toolkit), "the driver's version"))
        return false;
    snprintf(costs->gpu, sizeof costs->gpu, "%s", info.name);
    snprintf(costs->uuid, sizeof costs->uuid, "%s", info.uuid);
    snprintf(costs->driver, sizeof costs->driver, "%d.%d", driver / 1000, driver % 1000 / 10);
    return true;
}

bool measure_all(const struct gpu *gpu, int device, struct costs *costs)
{
    char why[256];
    struct bench bench = { .gpu = gpu, .device = device, .mode = GPU_CAPTURE_MODE_RELAXED, .result = costs };
    const struct gpu_pool_spec spec = { .device = device };
    costs_init(costs);
    if (!gpu->supports(device, GPU_FEATURE_POOLS, why, sizeof why)) {
        complain("device %d: %s", device, why);
        return false;
    }
    bool good = measure_describe(gpu, device, costs) && bench_is_good(&bench, gpu->set_current_device(device), "made current") &&
                choose_block(&bench) && bench_is_good(&bench, gpu->stream_create(device, &bench.stream), "a stream") &&
                bench_is_good(&bench, gpu->event_create(device, &bench.event), "an event") &&
                bench_is_good(&bench, gpu->pool_create(&spec, &bench.pool), "a pool") && measure(&bench);
    if (bench.pool)
        gpu->pool_destroy(bench.pool);
    if (bench.event)
        gpu->event_destroy(bench.event);
    if (bench.stream)
        gpu->stream_destroy(bench.stream);
    return good;
}
