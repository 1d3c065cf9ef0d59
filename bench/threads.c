/* SPDX-License-Identifier: MIT */
/*
 * The same pair from 1 to 16 threads at once: CUDA's driver has one lock for all of them, Weir's caches one for each stream. Starts threads
 * of its own for every sample; they share nothing but what they measure.
 */
#include "bench/crowd.h"

#include <string.h>

#define SIZE (64 * KIB)
#define RAW_PAIRS 8000      /* in all: 33 us each at 16 threads */
#define CACHED_PAIRS 50000  /* by each thread: 50 ns each */
#define SHARED_PAIRS 100000 /* on one stream, in all: its threads wait for one another */

static const char policy[] = "weir: 1\n"
                             "defaults: { pool: p }\n"
                             "pools: { p: { devices: [0] } }\n"
                             "streams: { own: { pool: p, private: true } }\n";

static const size_t thread_counts[] = {1, 2, 4, 8, 16};
#define COUNT_COUNT COUNT_OF(thread_counts)

static const struct mode {
    const char *name;
    bool one_stream, own_pools;
} modes[] = {
    {"own streams, one pool", false, false},
    {"own streams, own pools", false, true},
    {"one stream", true, false},
};

/* What one mode uses. Raw calls and Weir have streams of their own, so that neither finds what the other freed. */
struct crowd {
    const struct mode *mode;
    weir *w;
    cudaStream_t raw_streams[CROWD_MAX], weir_streams[CROWD_MAX];
    cudaMemPool_t pools[CROWD_MAX];
    weir_stream *opened[CROWD_MAX];
    size_t made; /* streams: 1, or CROWD_MAX */
};

static const char *raw_pairs(const void *data, size_t nth, size_t count)
{
    const struct crowd *crowd = data;
    return crowd_raw_pairs(crowd->pools[crowd->mode->own_pools ? nth : 0], crowd->raw_streams[crowd->mode->one_stream ? 0 : nth], SIZE,
                           count);
}

static const char *weir_pairs(const void *data, size_t nth, size_t count)
{
    const struct crowd *crowd = data;
    return crowd_stream_pairs(crowd->opened[crowd->mode->one_stream ? 0 : nth], SIZE, count);
}

static double time_crowd(const struct bench *bench, const struct crowd *crowd, size_t threads, bool raw, size_t count)
{
    return crowd_time(bench->gpu, raw ? "raw pairs" : "weir pairs", raw ? raw_pairs : weir_pairs, crowd, threads, count);
}

static size_t pair_count(const struct bench *bench, const struct mode *mode, size_t threads, bool raw)
{
    size_t count = raw ? RAW_PAIRS / threads : mode->one_stream ? SHARED_PAIRS / threads : CACHED_PAIRS;
    return bench->quick ? count / 5 : count;
}

static struct bench_figure *figure_for(struct bench *bench, const struct mode *mode, size_t threads, const char *what,
                                       const struct bench_series *ours, const struct bench_series *raw)
{
    char name[96];
    snprintf(name, sizeof(name), "%zu thread%s, %s%s", threads, threads == 1 ? "" : "s", mode->name, what);
    return bench_figure_of(&bench->report, "threads", name, ours, raw);
}

static void report(struct bench *bench, const struct mode *mode, size_t threads, const struct bench_series *ours,
                   const struct bench_series *raw)
{
    struct bench_figure *figure = figure_for(bench, mode, threads, ", times faster than raw", ours, raw);
    bench_figure_in(figure, mode->name, (double)threads);
    /* What is asked, is asked of 16 threads. */
    enum bench_bound bound = threads == CROWD_MAX ? BENCH_AT_LEAST : BENCH_SHOWN;
    bench_figure_ratio(figure, raw, ours, bound, mode->one_stream ? 10 : 400);
    bench_print(stdout, figure);
    if (threads != CROWD_MAX || mode->one_stream)
        return;
    figure = figure_for(bench, mode, threads, ", each", ours, raw);
    bench_figure_value(figure, bench_median(ours), "ns", BENCH_AT_MOST, 70);
    bench_print(stdout, figure);
}

static void set_up(struct bench *bench, struct crowd *crowd, const struct mode *mode)
{
    memset(crowd, 0, sizeof(*crowd));
    crowd->mode = mode;
    crowd->w = shared_weir_for(bench, "threads", policy);
    crowd->made = mode->one_stream ? 1 : CROWD_MAX;
    for (size_t i = 0; i < crowd->made; i++) {
        crowd->raw_streams[i] = shared_stream();
        crowd->weir_streams[i] = shared_stream();
        crowd->opened[i] = shared_open_stream(crowd->w, crowd->weir_streams[i], mode->own_pools ? "own" : NULL);
        if (mode->own_pools || i == 0)
            crowd->pools[i] = shared_raw_pool(UINT64_MAX);
    }
}

static void take_down(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->made; i++)
        weir_stream_close(crowd->opened[i]);
    weir_close(crowd->w);
    for (size_t i = 0; i < crowd->made; i++) {
        BENCH_CUDA(cudaStreamDestroy(crowd->raw_streams[i]));
        BENCH_CUDA(cudaStreamDestroy(crowd->weir_streams[i]));
        if (crowd->pools[i])
            shared_destroy_raw(crowd->pools[i]);
    }
}

static void measure_mode(struct bench *bench, const struct mode *mode)
{
    struct bench_series ours[COUNT_COUNT], raw[COUNT_COUNT];
    struct crowd crowd;
    set_up(bench, &crowd, mode);
    memset(ours, 0, sizeof(ours));
    memset(raw, 0, sizeof(raw));
    for (size_t i = 0; i < COUNT_COUNT; i++) {
        ours[i].name = "weir";
        raw[i].name = "raw";
    }
    /* Every stream and pool once, outside the figures. */
    time_crowd(bench, &crowd, CROWD_MAX, true, CROWD_WARM);
    time_crowd(bench, &crowd, CROWD_MAX, false, CROWD_WARM);
    for (size_t i = 0; i < bench->repetitions; i++) {
        for (size_t c = 0; c < COUNT_COUNT; c++) {
            size_t threads = thread_counts[c];
            bench_add(&raw[c], time_crowd(bench, &crowd, threads, true, pair_count(bench, mode, threads, true)));
            bench_add(&ours[c], time_crowd(bench, &crowd, threads, false, pair_count(bench, mode, threads, false)));
        }
    }
    for (size_t c = 0; c < COUNT_COUNT; c++)
        report(bench, mode, thread_counts[c], &ours[c], &raw[c]);
    take_down(&crowd);
}

void section_threads(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        measure_mode(bench, &modes[i]);
}
