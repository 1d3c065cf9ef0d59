/* SPDX-License-Identifier: MIT */
/*
 * 1 GiB allocated, freed and synchronised, over and over: under a threshold below what is in use, CUDA gives memory back at every
 * synchronise and fetches it again.
 */
#include "bench/section.h"

#define LOOPS 2000    /* a few microseconds each */
#define SLOW_LOOPS 10 /* about a millisecond each: the pool shrinks and grows every time */

static const struct threshold {
    const char *name;
    uint64_t bytes;
} thresholds[] = {{"0", 0}, {"128MiB", 128 * MIB}, {"512MiB", 512 * MIB}, {"2GiB", 2 * GIB}};
#define THRESHOLD_COUNT COUNT_OF(thresholds)

static double time_loops(const struct side *side, size_t loops)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < loops; i++) {
        side_give(side, 0, side_take(side, 0, GIB));
        side_wait(side);
    }
    return (double)(bench_now() - start) / (double)loops;
}

static void report(struct bench *bench, const struct side ours[THRESHOLD_COUNT], const struct side raw[THRESHOLD_COUNT])
{
    for (size_t i = 0; i < THRESHOLD_COUNT; i++) {
        char name[96];
        snprintf(name, sizeof(name), "threshold %s, against raw with as much", thresholds[i].name);
        struct bench_figure *same = bench_figure_of(&bench->report, "loop", name, &ours[i].series, &raw[i].series);
        bench_figure_in(same, "by threshold", (double)thresholds[i].bytes);
        /* Where the pool shrinks and grows in each round, that is what is measured, and Weir has no part in it. */
        bench_show_ratio(same, &ours[i].series, &raw[i].series, thresholds[i].bytes < GIB ? BENCH_SHOWN : BENCH_AT_MOST, 1.2);
    }
    const struct bench_series *released = &raw[0].series, *kept = &ours[THRESHOLD_COUNT - 1].series;
    struct bench_figure *faster =
        bench_figure_of(&bench->report, "loop", "threshold 2GiB: times faster than raw with threshold 0", kept, released);
    faster->series[1].name = "raw, threshold 0";
    bench_show_ratio(faster, released, kept, BENCH_AT_LEAST, 300);
}

void section_loop(struct bench *bench)
{
    struct side ours[THRESHOLD_COUNT], raw[THRESHOLD_COUNT];
    for (size_t t = 0; t < THRESHOLD_COUNT; t++) {
        char policy[128];
        snprintf(policy, sizeof(policy), "weir: 1\npools: { p: { devices: [0], release_threshold: %s } }\n", thresholds[t].name);
        ours[t] = side_weir(bench, "loop", policy, 1);
        raw[t] = side_raw(1, thresholds[t].bytes);
        time_loops(&ours[t], 2);
        time_loops(&raw[t], 2);
    }
    for (size_t i = 0; i < bench->repetitions; i++) {
        for (size_t t = 0; t < THRESHOLD_COUNT; t++) {
            size_t loops = thresholds[t].bytes < GIB ? SLOW_LOOPS : LOOPS;
            bench_add(&ours[t].series, time_loops(&ours[t], loops));
            bench_add(&raw[t].series, time_loops(&raw[t], loops));
        }
    }
    report(bench, ours, raw);
    for (size_t t = 0; t < THRESHOLD_COUNT; t++) {
        side_close(&ours[t]);
        side_close(&raw[t]);
    }
}
