/* SPDX-License-Identifier: MIT */
/*
 * 1 GiB allocated, freed and synchronised, over and over: under a threshold below what is in use, CUDA gives memory back at every
 * synchronise and fetches it again.
 */
#include "bench/section.h"

#include <string.h>

#define LOOPS 2000    /* a few microseconds each */
#define SLOW_LOOPS 10 /* about a millisecond each: the pool shrinks and grows every time */

static const struct threshold {
    const char *name;
    uint64_t bytes;
} thresholds[] = {{"0", 0}, {"128MiB", 128 * MIB}, {"512MiB", 512 * MIB}, {"2GiB", 2 * GIB}};
#define THRESHOLD_COUNT COUNT_OF(thresholds)

/* One threshold, raw and under Weir. */
struct loop {
    weir *w;
    weir_stream *s;
    cudaStream_t stream;
    cudaMemPool_t pool;
    size_t loops;
    struct bench_series ours, raw;
};

static double time_raw(const struct loop *loop, size_t loops)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < loops; i++) {
        void *block;
        BENCH_CUDA(cudaMallocFromPoolAsync(&block, GIB, loop->pool, loop->stream));
        BENCH_CUDA(cudaFreeAsync(block, loop->stream));
        BENCH_CUDA(cudaStreamSynchronize(loop->stream));
    }
    return (double)(bench_now() - start) / (double)loops;
}

static double time_weir(const struct loop *loop, size_t loops)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < loops; i++) {
        void *block;
        shared_check(weir_malloc(loop->w, &block, GIB, 0, loop->stream), "weir_malloc");
        shared_check(weir_free(loop->w, block, loop->stream), "weir_free");
        BENCH_CUDA(cudaStreamSynchronize(loop->stream));
    }
    return (double)(bench_now() - start) / (double)loops;
}

static void set_up(struct bench *bench, struct loop *loop, const struct threshold *threshold)
{
    char policy[128];
    snprintf(policy, sizeof(policy), "weir: 1\npools: { p: { devices: [0], release_threshold: %s } }\n", threshold->name);
    memset(loop, 0, sizeof(*loop));
    loop->stream = shared_stream();
    loop->pool = shared_raw_pool(threshold->bytes);
    loop->w = shared_weir_for(bench, "loop", policy);
    loop->s = shared_open_stream(loop->w, loop->stream, NULL);
    loop->loops = threshold->bytes < GIB ? SLOW_LOOPS : LOOPS;
    loop->ours.name = "weir";
    loop->raw.name = "raw";
    time_weir(loop, 2);
    time_raw(loop, 2);
}

static void take_down(struct loop *loop)
{
    weir_stream_close(loop->s);
    weir_close(loop->w);
    shared_destroy_raw(loop->pool);
    BENCH_CUDA(cudaStreamDestroy(loop->stream));
}

static void report(struct bench *bench, const struct loop loops[THRESHOLD_COUNT])
{
    for (size_t i = 0; i < THRESHOLD_COUNT; i++) {
        char name[96];
        snprintf(name, sizeof(name), "threshold %s, against raw with as much", thresholds[i].name);
        struct bench_figure *same = bench_figure_of(&bench->report, "loop", name, &loops[i].ours, &loops[i].raw);
        bench_figure_in(same, "by threshold", (double)thresholds[i].bytes);
        /* Where the pool shrinks and grows in each round, that is what is measured, and Weir has no part in it. */
        bench_figure_ratio(same, &loops[i].ours, &loops[i].raw, thresholds[i].bytes < GIB ? BENCH_SHOWN : BENCH_AT_MOST, 1.2);
        bench_print(stdout, same);
    }
    const struct loop *released = &loops[0], *kept = &loops[THRESHOLD_COUNT - 1];
    struct bench_figure *faster =
        bench_figure_of(&bench->report, "loop", "threshold 2GiB: times faster than raw with threshold 0", &kept->ours, &released->raw);
    faster->series[1].name = "raw, threshold 0";
    bench_figure_ratio(faster, &released->raw, &kept->ours, BENCH_AT_LEAST, 300);
    bench_print(stdout, faster);
}

void section_loop(struct bench *bench)
{
    struct loop loops[THRESHOLD_COUNT];
    for (size_t i = 0; i < THRESHOLD_COUNT; i++)
        set_up(bench, &loops[i], &thresholds[i]);
    for (size_t i = 0; i < bench->repetitions; i++) {
        for (size_t t = 0; t < THRESHOLD_COUNT; t++) {
            bench_add(&loops[t].ours, time_weir(&loops[t], loops[t].loops));
            bench_add(&loops[t].raw, time_raw(&loops[t], loops[t].loops));
        }
    }
    report(bench, loops);
    for (size_t i = 0; i < THRESHOLD_COUNT; i++)
        take_down(&loops[i]);
}
