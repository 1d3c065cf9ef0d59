/* SPDX-License-Identifier: MIT */
/*
 * A producer and a consumer: allocated on stream A, handed over by an event, freed on stream B. What B's cache keeps never comes back to A
 * by itself, so this shows what a cache costs where it cannot help.
 */
#include "bench/section.h"

#include <string.h>

#define HANDOVERS 2000 /* of a microsecond */

enum which { OFF, DEFAULT, WEIR_COUNT };
static const struct {
    const char *name, *policy;
} weirs[WEIR_COUNT] = {
    [OFF] = {"cache off", "weir: 1\npools: { p: { devices: [0], cache: off } }\n"},
    [DEFAULT] = {"default policy", "weir: 1\npools: { p: { devices: [0] } }\n"},
};

/* Producer, consumer and what one tells the other; raw, and for each weir. */
struct handover {
    cudaStream_t a, b;
    cudaEvent_t ready;
    cudaMemPool_t pool; /* raw */
    weir *w;            /* Weir */
    weir_stream *opened_a, *opened_b;
};

static void hand_over(const struct handover *handover)
{
    BENCH_CUDA(cudaEventRecord(handover->ready, handover->a));
    BENCH_CUDA(cudaStreamWaitEvent(handover->b, handover->ready, 0));
}

static double time_raw(const struct handover *handover, size_t size, size_t count)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < count; i++) {
        void *block;
        BENCH_CUDA(cudaMallocFromPoolAsync(&block, size, handover->pool, handover->a));
        hand_over(handover);
        BENCH_CUDA(cudaFreeAsync(block, handover->b));
    }
    double ns = (double)(bench_now() - start) / (double)count;
    BENCH_CUDA(cudaStreamSynchronize(handover->b));
    return ns;
}

static double time_weir(const struct handover *handover, size_t size, size_t count)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < count; i++) {
        void *block;
        shared_check(weir_stream_malloc(handover->opened_a, &block, size), "weir_stream_malloc");
        hand_over(handover);
        shared_check(weir_stream_free(handover->opened_b, block), "weir_stream_free");
    }
    double ns = (double)(bench_now() - start) / (double)count;
    BENCH_CUDA(cudaStreamSynchronize(handover->b));
    return ns;
}

static void measure_size(struct bench *bench, const struct handover *raw, const struct handover ours[WEIR_COUNT], size_t size)
{
    struct bench_series raw_series = {.name = "raw"}, series[WEIR_COUNT];
    size_t count = bench->quick ? HANDOVERS / 5 : HANDOVERS;
    memset(series, 0, sizeof(series));
    time_raw(raw, size, count);
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        series[v].name = "weir";
        time_weir(&ours[v], size, count);
    }
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(&raw_series, time_raw(raw, size, count));
        for (size_t v = 0; v < WEIR_COUNT; v++)
            bench_add(&series[v], time_weir(&ours[v], size, count));
    }
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        char name[96], size_name[32];
        snprintf(name, sizeof(name), "%s from stream to stream, %s", bench_size_name(size, size_name), weirs[v].name);
        bench_show_ratio(&bench->report, "handover", name, &series[v], &raw_series, BENCH_SHOWN, 0);
    }
}

static struct handover set_up(void)
{
    struct handover handover = {.a = shared_stream(), .b = shared_stream()};
    BENCH_CUDA(cudaEventCreateWithFlags(&handover.ready, cudaEventDisableTiming));
    return handover;
}

static void take_down(struct handover *handover)
{
    weir_stream_close(handover->opened_a);
    weir_stream_close(handover->opened_b);
    weir_close(handover->w);
    if (handover->pool)
        shared_destroy_raw(handover->pool);
    BENCH_CUDA(cudaEventDestroy(handover->ready));
    BENCH_CUDA(cudaStreamDestroy(handover->a));
    BENCH_CUDA(cudaStreamDestroy(handover->b));
}

void section_handover(struct bench *bench)
{
    static const size_t sizes[] = {64 * KIB, MIB, 16 * MIB};
    struct handover raw = set_up(), ours[WEIR_COUNT];
    raw.pool = shared_raw_pool(UINT64_MAX);
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        ours[v] = set_up();
        ours[v].w = shared_weir_for(bench, "handover", weirs[v].policy);
        ours[v].opened_a = shared_open_stream(ours[v].w, ours[v].a, NULL);
        ours[v].opened_b = shared_open_stream(ours[v].w, ours[v].b, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        measure_size(bench, &raw, ours, sizes[i]);
    for (size_t v = 0; v < WEIR_COUNT; v++)
        take_down(&ours[v]);
    take_down(&raw);
}
