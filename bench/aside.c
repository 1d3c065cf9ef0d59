/* SPDX-License-Identifier: MIT */
/*
 * aside.c - blocks that one stream makes and another one uses and frees, while the host is far ahead: as a program that copies activations to
 * the host on a stream aside. What the allocator reserves for it, and what the GPU takes.
 */
#include "bench/section.h"

#define BLOCKS 400
#define BLOCK (64 * MIB)
#define WORK UINT64_C(400000) /* ns of each stream for each block; the streams work at the same time */

/* One way to get memory, and what its runs showed. */
struct way {
    const char *name;
    const char *policy; /* NULL: the raw calls */
    struct bench_series time, reserved;
};

static struct way ways[] = {
    {.name = "raw"},
    {.name = "pool", .policy = "config/default.yaml"},
    {.name = "pool, bounded", .policy = "config/default.yaml pools.main.reuse.pending_max=auto"},
    {.name = "arena", .policy = "config/default.yaml pools.main.backing=arena"},
    {.name = "arena, bounded", .policy = "config/default.yaml pools.main.backing=arena,pools.main.reuse.pending_max=auto"},
};

static uint64_t reserved_high(const struct side *side)
{
    uint64_t bytes = 0;
    weir_stats *stats;
    if (side->pool) {
        BENCH_GPU(side->gpu, pool_get(side->pool, GPU_POOL_RESERVED_HIGH, &bytes));
        return bytes;
    }
    BENCH_WEIR(weir_stats_take(side->w, &error, &stats));
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        bytes += weir_stats_pool(stats, i)->reserved_high;
    weir_stats_free(stats);
    return bytes;
}

/* Returns the milliseconds from the first kernel to the last. */
static double produce_and_copy(const struct bench *bench, const struct side *side)
{
    cudaEvent_t begin, end, made;
    float milliseconds;
    BENCH_CUDA(cudaEventCreate(&begin));
    BENCH_CUDA(cudaEventCreate(&end));
    BENCH_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    cudaStream_t maker = side->streams[0], copier = side->streams[1];
    shared_delay(bench, maker, 20 * WORK); /* so that the host is ahead from the first block */
    BENCH_CUDA(cudaEventRecord(begin, maker));
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = side_take(side, 0, BLOCK);
        shared_delay(bench, maker, WORK);
        BENCH_CUDA(cudaEventRecord(made, maker));
        BENCH_CUDA(cudaStreamWaitEvent(copier, made, 0));
        shared_delay(bench, copier, WORK);
        side_give(side, 1, block);
    }
    BENCH_CUDA(cudaEventRecord(end, copier));
    BENCH_CUDA(cudaEventSynchronize(end));
    BENCH_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    BENCH_CUDA(cudaEventDestroy(begin));
    BENCH_CUDA(cudaEventDestroy(end));
    BENCH_CUDA(cudaEventDestroy(made));
    return milliseconds;
}

static void run(struct bench *bench, struct way *way)
{
    struct side side = way->policy ? side_weir(bench, "aside", way->policy, 2) : side_raw(2, UINT64_MAX);
    bench_add(&way->time, 1e6 * produce_and_copy(bench, &side));
    bench_add(&way->reserved, (double)reserved_high(&side));
    side_wait(&side);
    side_close(&side);
}

void section_aside(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        ways[i].time.name = ways[i].reserved.name = ways[i].name;
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t k = 0; k < COUNT_OF(ways); k++)
            run(bench, &ways[k]);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        char name[80];
        snprintf(name, sizeof(name), "%d x %d MiB freed aside, reserved, %s", BLOCKS, (int)(BLOCK / MIB), ways[i].name);
        struct bench_figure *figure = bench_figure_of(&bench->report, "aside", name, &ways[i].reserved);
        figure->unit = "bytes";
        bench_show(figure, bench_median(&ways[i].reserved), "bytes", BENCH_SHOWN, 0);
        snprintf(name, sizeof(name), "%d x %d MiB freed aside, time of the GPU, %s", BLOCKS, (int)(BLOCK / MIB), ways[i].name);
        bench_show_beside(&bench->report, "aside", name, &ways[i].time, &ways[0].time);
    }
}
