/* SPDX-License-Identifier: MIT */
/*
 * What opening and closing a weir cost beyond what CUDA takes for the same pools.
 */
#include "bench/section.h"

static const char policy[] = "weir: 1\n"
                             "defaults: { pool: activations }\n"
                             "pools:\n"
                             "  activations:\n"
                             "    devices: [0]\n"
                             "    release_threshold: all\n"
                             "    small_below: 1MiB\n"
                             "    reuse: { event_dependencies: true, opportunistic: true, internal_dependencies: true }\n"
                             "    on_oom: { steps: [flush, wait, trim, callbacks], deadline: 1s }\n"
                             "streams:\n"
                             "  infer: { pool: activations }\n";

/* What CUDA has to be called for to set up and tear down the same pools: facts of each device, a pool and its small twin, all settings. */
static void open_bare(void)
{
    int count, driver, attribute;
    struct cudaDeviceProp properties;
    BENCH_CUDA(cudaGetDeviceCount(&count));
    BENCH_CUDA(cudaDriverGetVersion(&driver));
    for (int device = 0; device < count; device++) {
        BENCH_CUDA(cudaGetDeviceProperties(&properties, device));
        BENCH_CUDA(cudaDeviceGetAttribute(&attribute, cudaDevAttrMemoryPoolsSupported, device));
    }
    cudaMemPool_t pools[2];
    for (size_t i = 0; i < 2; i++) {
        int yes = 1;
        pools[i] = shared_raw_pool(UINT64_MAX);
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseFollowEventDependencies, &yes));
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseAllowOpportunistic, &yes));
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseAllowInternalDependencies, &yes));
    }
    for (size_t i = 0; i < 2; i++)
        BENCH_CUDA(cudaMemPoolDestroy(pools[i]));
}

static void open_weir(void)
{
    weir_close(shared_weir("cuda", policy));
}

static double time_call(void (*call)(void))
{
    uint64_t start = bench_now();
    call();
    return (double)(bench_now() - start);
}

void section_open(struct bench *bench)
{
    shared_policy(bench, "open", policy);
    struct bench_figure *figure = bench_figure_new(&bench->report, "open", "weir_open and weir_close, less bare calls");
    struct bench_series *ours = bench_series_new(figure, "weir");
    struct bench_series *bare = bench_series_new(figure, "bare calls");
    time_call(open_bare);
    time_call(open_weir);
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(bare, time_call(open_bare));
        bench_add(ours, time_call(open_weir));
    }
    bench_show(figure, (bench_median(ours) - bench_median(bare)) / 1e6, "ms", BENCH_AT_MOST, 1);
}
