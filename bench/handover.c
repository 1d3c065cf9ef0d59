/* SPDX-License-Identifier: MIT */
/*
 * A producer and a consumer: allocated on stream A, handed over by an event, freed on stream B. What B's cache keeps never comes back to A
 * by itself, so this shows what a cache costs where it cannot help.
 */
#include "bench/section.h"

#define HANDOVERS 2000 /* of a microsecond */

/* The first one is raw. */
static const struct {
    const char *name, *policy;
} sides[] = {
    {"raw", NULL},
    {"cache off", "weir: 1\npools: { p: { devices: [0], cache: off } }\n"},
    {"default policy", "weir: 1\npools: { p: { devices: [0] } }\n"},
};
#define SIDE_COUNT COUNT_OF(sides)

static double time_handovers(const struct side *side, cudaEvent_t ready, size_t size, size_t count)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < count; i++) {
        void *block = side_take(side, 0, size);
        BENCH_CUDA(cudaEventRecord(ready, side->streams[0]));
        BENCH_CUDA(cudaStreamWaitEvent(side->streams[1], ready, 0));
        side_give(side, 1, block);
    }
    double ns = (double)(bench_now() - start) / (double)count;
    side_wait(side);
    return ns;
}

static void measure_size(struct bench *bench, struct side measured[SIDE_COUNT], cudaEvent_t ready, size_t size)
{
    size_t count = bench->quick ? HANDOVERS / 5 : HANDOVERS;
    for (size_t v = 0; v < SIDE_COUNT; v++) {
        measured[v].series.count = 0;
        time_handovers(&measured[v], ready, size, count);
    }
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t v = 0; v < SIDE_COUNT; v++)
            bench_add(&measured[v].series, time_handovers(&measured[v], ready, size, count));
    for (size_t v = 1; v < SIDE_COUNT; v++) {
        char name[96], size_name[32];
        snprintf(name, sizeof(name), "%s from stream to stream, %s", bench_size_name(size, size_name), sides[v].name);
        bench_show_beside(&bench->report, "handover", name, &measured[v].series, &measured[0].series);
    }
}

void section_handover(struct bench *bench)
{
    static const size_t sizes[] = {64 * KIB, MIB, 16 * MIB};
    struct side measured[SIDE_COUNT];
    cudaEvent_t ready;
    BENCH_CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    for (size_t v = 0; v < SIDE_COUNT; v++)
        measured[v] = sides[v].policy ? side_weir(bench, "handover", sides[v].policy, 2) : side_raw(2, UINT64_MAX);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        measure_size(bench, measured, ready, sizes[i]);
    for (size_t v = 0; v < SIDE_COUNT; v++)
        side_close(&measured[v]);
    BENCH_CUDA(cudaEventDestroy(ready));
}
