/* SPDX-License-Identifier: MIT */
#include "bench/section.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gpu *shared_gpu(void)
{
    const char *why = NULL;
    const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
    if (!gpu)
        bench_die(__FILE__, __LINE__, "no CUDA", why ? why : "not in this build");
    return gpu;
}

weir *shared_weir(const char *gpu, const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = gpu;
    weir *w;
    BENCH_WEIR(weir_open(&options, &error, &w));
    return w;
}

void shared_policy(struct bench *bench, const char *section, const char *policy)
{
    if (bench_policy_add(&bench->report, section, policy))
        bench_print_policy(stdout, section, policy);
}

weir *shared_weir_shipped(struct bench *bench, const char *section)
{
    const char *top = getenv("top_srcdir");
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/config/default.yaml", top ? top : ".");
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_file = path;
    options.gpu = bench->gpu->name;
    shared_policy(bench, section, "config/default.yaml, as it is shipped");
    weir *w;
    BENCH_WEIR(weir_open(&options, &error, &w));
    return w;
}

weir *shared_weir_for(struct bench *bench, const char *section, const char *policy)
{
    shared_policy(bench, section, policy);
    return shared_weir(bench->gpu->name, policy);
}

cudaMemPool_t shared_raw_pool(uint64_t release_threshold)
{
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeNone;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    cudaMemPool_t pool;
    BENCH_CUDA(cudaMemPoolCreate(&pool, &props));
    BENCH_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &release_threshold));
    return pool;
}

void shared_destroy_raw(cudaMemPool_t pool)
{
    BENCH_CUDA(cudaDeviceSynchronize());
    BENCH_CUDA(cudaMemPoolDestroy(pool));
}

cudaStream_t shared_stream(void)
{
    cudaStream_t stream;
    BENCH_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
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

void shared_empty_raw(cudaMemPool_t pool)
{
    BENCH_CUDA(cudaMemPoolTrimTo(pool, 0));
}

void shared_delay(const struct bench *bench, cudaStream_t stream, uint64_t nanoseconds)
{
    BENCH_GPU(bench->gpu, delay(stream, nanoseconds));
}

struct shared_figures shared_figures(weir *w)
{
    struct shared_figures sum = {0, 0, 0};
    weir_stats *stats;
    BENCH_WEIR(weir_stats_take(w, &error, &stats));
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        sum.cached += pool->cached;
        sum.idle += pool->idle;
        sum.reserved += pool->reserved;
    }
    weir_stats_free(stats);
    return sum;
}

const char *shared_cuda_text(cudaError_t code)
{
    return code == cudaSuccess ? NULL : cudaGetErrorString(code);
}

const char *shared_weir_text(weir_status status)
{
    return status == WEIR_OK ? NULL : weir_status_text(status);
}

bool shared_fails_raw(size_t size, cudaMemPool_t pool, cudaStream_t stream, uint64_t *start, uint64_t *end)
{
    void *block;
    *start = bench_now();
    cudaError_t code = cudaMallocFromPoolAsync(&block, size, pool, stream);
    *end = bench_now();
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return true;
    }
    BENCH_CUDA(code);
    BENCH_CUDA(cudaFreeAsync(block, stream));
    BENCH_CUDA(cudaStreamSynchronize(stream));
    return false;
}

size_t shared_big_size(uint64_t memory, uint64_t wanted, uint64_t hundredths)
{
    uint64_t size = memory >= wanted + 12 * GIB ? wanted : memory / 100 * hundredths;
    return (size_t)(size - size % (32 * MIB));
}
