/* SPDX-License-Identifier: MIT */
/*
 * RMM's benchmark MULTI_STREAM_ALLOCATIONS: four kernels of a million clocks on 1, 2 or 4 streams, each with 8 bytes of its own that are
 * allocated before and freed behind it. An allocator that makes one stream wait for another shows as a multiple of the time.
 *
 * Every sample starts from new streams and pools. With pre-warm every stream has allocated and freed once before; without, the first
 * allocation makes the pool grow, and the later ones are tempted to take what another stream is about to free.
 */
#include "bench/section.h"

#define KERNELS 4
#define STREAMS 4
#define CLOCKS 1000000
#define BYTES 8
/* A sample is a few milliseconds, and the figure is a ratio near 1: more samples make its median steady. */
#define REPETITIONS 21
/*
 * "No slower" within what the raw call itself varies from sample to sample: its kernels last whole steps of the GPU's timer (1 us of 500),
 * and starting four of them and waiting for four streams takes the host 30 to 50 us more or less. One stream that waits for another would
 * be seen as 1.9 or more.
 */
#define NO_SLOWER 1.05

static const char policy[] = "weir: 1\npools: { p: { devices: [0] } }\n";

struct multi {
    const struct bench *bench;
    uint64_t kernel_ns;
    size_t stream_count;
    bool prewarm;
};

static double time_kernels(const struct multi *multi, struct side side)
{
    for (size_t i = 0; i < side.stream_count; i++) {
        /* What a stream's first kernel costs is not the question. */
        shared_delay(multi->bench, side.streams[i], 1000);
        if (multi->prewarm)
            side_give(&side, i, side_take(&side, i, BYTES));
    }
    side_wait(&side);
    uint64_t start = bench_now();
    for (size_t i = 0; i < KERNELS; i++) {
        size_t stream = i % side.stream_count;
        void *block = side_take(&side, stream, BYTES);
        shared_delay(multi->bench, side.streams[stream], multi->kernel_ns);
        side_give(&side, stream, block);
    }
    side_wait(&side);
    double ns = (double)(bench_now() - start);
    side_close(&side);
    return ns;
}

static double time_raw(const struct multi *multi)
{
    return time_kernels(multi, side_raw(multi->stream_count, UINT64_MAX));
}

static double time_weir(struct bench *bench, const struct multi *multi)
{
    return time_kernels(multi, side_weir(bench, "multi", policy, multi->stream_count));
}

static void measure(struct bench *bench, const struct multi *multi)
{
    char name[96];
    snprintf(name, sizeof(name), "%d kernels on %zu stream%s, %s", KERNELS, multi->stream_count, multi->stream_count == 1 ? "" : "s",
             multi->prewarm ? "pre-warmed" : "no pre-warm");
    struct bench_figure *figure = bench_figure_new(&bench->report, "multi", name);
    struct bench_series *ours = bench_series_new(figure, "weir"), *raw = bench_series_new(figure, "raw");
    size_t repetitions = bench->quick || bench->repetitions > REPETITIONS ? bench->repetitions : REPETITIONS;
    time_raw(multi);
    time_weir(bench, multi);
    for (size_t i = 0; i < repetitions; i++) {
        bench_add(raw, time_raw(multi));
        bench_add(ours, time_weir(bench, multi));
    }
    bool asked = multi->stream_count == STREAMS && !multi->prewarm;
    bench_show_ratio(figure, ours, raw, asked ? BENCH_AT_MOST : BENCH_SHOWN, NO_SLOWER);
}

void section_multi(struct bench *bench)
{
    int khz;
    BENCH_CUDA(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    struct multi multi = {.bench = bench, .kernel_ns = CLOCKS * UINT64_C(1000000) / (uint64_t)khz};
    shared_policy(bench, "multi", policy);
    printf("multi    kernel: %d clocks at %d MHz, %llu ns\n", CLOCKS, khz / 1000, (unsigned long long)multi.kernel_ns);
    for (multi.stream_count = 1; multi.stream_count <= STREAMS; multi.stream_count *= 2) {
        for (int prewarm = 0; prewarm < 2; prewarm++) {
            multi.prewarm = prewarm;
            measure(bench, &multi);
        }
    }
}
