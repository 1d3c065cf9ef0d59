/* SPDX-License-Identifier: MIT */
#include "bench/section.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/gpu/clock.h"

const struct gpu *shared_gpu(void)
{
    const char *why = NULL;
    const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
    if (!gpu)
        bench_die(__FILE__, __LINE__, "no CUDA", why ? why : "not in this build");
    return gpu;
}

static weir *open_weir(const weir_options *options)
{
    weir *w;
    BENCH_WEIR(weir_open(options, &error, &w));
    return w;
}

weir *shared_weir(const char *gpu, const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = gpu;
    return open_weir(&options);
}

void shared_policy(struct bench *bench, const char *section, const char *policy)
{
    if (bench_policy_add(&bench->report, section, policy))
        bench_print_policy(stdout, section, policy);
}

weir *shared_weir_for(struct bench *bench, const char *section, const char *policy)
{
    const char *top = getenv("top_srcdir");
    char path[PATH_MAX];
    weir_options options = WEIR_OPTIONS_INIT;
    options.gpu = bench->gpu->name;
    shared_policy(bench, section, policy);
    if (strchr(policy, '\n')) {
        options.policy_text = policy;
        return open_weir(&options);
    }
    size_t len = strcspn(policy, " ");
    snprintf(path, sizeof(path), "%s/%.*s", top ? top : ".", (int)len, policy);
    options.policy_file = path;
    setenv("WEIR_CONF", policy[len] ? policy + len + 1 : "", 1);
    weir *w = open_weir(&options);
    unsetenv("WEIR_CONF");
    return w;
}

static gpu_pool capped_pool(uint64_t release_threshold, uint64_t max_size)
{
    const struct gpu *gpu = shared_gpu();
    const struct gpu_pool_spec spec = {.device = 0, .location = GPU_LOCATION_DEVICE, .max_size = max_size};
    gpu_pool pool;
    BENCH_GPU(gpu, pool_create(&spec, &pool));
    BENCH_GPU(gpu, pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, release_threshold));
    return pool;
}

gpu_pool shared_raw_pool(uint64_t release_threshold)
{
    return capped_pool(release_threshold, 0);
}

void shared_destroy_raw(gpu_pool pool)
{
    const struct gpu *gpu = shared_gpu();
    BENCH_GPU(gpu, device_synchronize(0));
    BENCH_GPU(gpu, pool_destroy(pool));
}

gpu_stream shared_stream(void)
{
    const struct gpu *gpu = shared_gpu();
    gpu_stream stream;
    BENCH_GPU(gpu, stream_create(0, &stream));
    return stream;
}

weir_stream *shared_open_stream(weir *w, cudaStream_t stream, const char *name)
{
    weir_stream *s;
    BENCH_WEIR(weir_stream_open(w, 0, stream, name, &error, &s));
    return s;
}

void shared_check(weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return;
    weir_error error = WEIR_ERROR_INIT;
    weir_last_error(&error);
    bench_die(__FILE__, __LINE__, what, error.status == status ? error.text : weir_status_text(status));
}

void shared_empty(weir_pool *pool)
{
    BENCH_WEIR(weir_pool_trim(pool, 0, &error, NULL));
}

void shared_delay(const struct bench *bench, cudaStream_t stream, uint64_t nanoseconds)
{
    BENCH_GPU(bench->gpu, delay(stream, nanoseconds));
}

void shared_sleep(unsigned milliseconds)
{
    struct timespec left = gpu_clock_timespec(milliseconds * GPU_MILLISECOND);
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

const char *shared_cuda_text(cudaError_t code)
{
    return code == cudaSuccess ? NULL : cudaGetErrorString(code);
}

const char *shared_weir_text(weir_status status)
{
    return status == WEIR_OK ? NULL : weir_status_text(status);
}

bool shared_is_room(cudaError_t code)
{
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return false;
    }
    BENCH_CUDA(code);
    return true;
}

size_t shared_big_size(uint64_t memory, uint64_t wanted, uint64_t hundredths)
{
    uint64_t size = memory >= wanted + 12 * GIB ? wanted : memory / 100 * hundredths;
    return (size_t)(size - size % (32 * MIB));
}

/* Sides -------------------------------------------------------------------------------------------------------------------------------- */

struct side side_raw(size_t stream_count, uint64_t release_threshold)
{
    return side_raw_capped(stream_count, release_threshold, 0);
}

struct side side_raw_capped(size_t stream_count, uint64_t release_threshold, uint64_t max_size)
{
    struct side side = {.gpu = shared_gpu(), .stream_count = stream_count, .series = {.name = "raw"}};
    side.pool = capped_pool(release_threshold, max_size);
    for (size_t i = 0; i < stream_count; i++)
        side.streams[i] = shared_stream();
    return side;
}

struct side side_weir(struct bench *bench, const char *section, const char *policy, size_t stream_count)
{
    struct side side = {.gpu = bench->gpu, .stream_count = stream_count, .series = {.name = "weir"}};
    side.w = shared_weir_for(bench, section, policy);
    for (size_t i = 0; i < stream_count; i++) {
        side.streams[i] = shared_stream();
        side.opened[i] = shared_open_stream(side.w, side.streams[i], NULL);
    }
    return side;
}

void side_close(struct side *side)
{
    for (size_t i = 0; i < side->stream_count; i++)
        weir_stream_close(side->opened[i]);
    weir_close(side->w);
    if (side->pool)
        shared_destroy_raw(side->pool);
    for (size_t i = 0; i < side->stream_count; i++)
        BENCH_GPU(side->gpu, stream_destroy(side->streams[i]));
}

bool side_try(const struct side *side, void **block, size_t size)
{
    if (side->pool) {
        int code = side->gpu->malloc_async(block, size, side->pool, side->streams[0]);
        if (code && code != GPU_OUT_OF_MEMORY)
            bench_die(__FILE__, __LINE__, "malloc_async", side->gpu->code_text(code));
        return code == GPU_SUCCESS;
    }
    weir_status status = weir_stream_malloc(side->opened[0], block, size);
    if (status != WEIR_OUT_OF_MEMORY)
        shared_check(status, "weir_stream_malloc");
    return status == WEIR_OK;
}

void side_wait(const struct side *side)
{
    for (size_t i = 0; i < side->stream_count; i++)
        if (side->pool)
            BENCH_GPU(side->gpu, stream_synchronize(side->streams[i]));
        else
            weir_stream_synchronize(side->opened[i], NULL);
}

void side_trim(const struct side *side)
{
    if (side->pool)
        BENCH_GPU(side->gpu, pool_trim(side->pool, 0));
    else
        shared_empty(weir_stream_pool(side->opened[0]));
}

struct side_figures side_figures(const struct side *side)
{
    struct side_figures sum = {0, 0, 0};
    uint64_t used;
    weir_stats *stats;
    if (side->pool) {
        BENCH_GPU(side->gpu, pool_get(side->pool, GPU_POOL_RESERVED, &sum.reserved));
        BENCH_GPU(side->gpu, pool_get(side->pool, GPU_POOL_USED, &used));
        sum.idle = sum.reserved - used;
        return sum;
    }
    BENCH_WEIR(weir_stats_take(side->w, &error, &stats));
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        sum.cached += pool->cached;
        sum.idle += pool->idle;
        sum.reserved += pool->reserved;
    }
    weir_stats_free(stats);
    return sum;
}
