/* SPDX-License-Identifier: MIT */
/*
 * The same pair from 1 to 16 threads at once: CUDA's driver has one lock for all of them, Weir's caches one for each stream. Starts threads
 * of its own for every sample; they share nothing but what they measure.
 */
#include "bench/crowd.h"

#define SIZE (64 * KIB)
#define RAW_PAIRS 8000      /* in all: 33 us each at 16 threads */
#define CACHED_PAIRS 50000  /* by each thread: 50 ns each */
#define SHARED_PAIRS 100000 /* on one stream, in all: its threads wait for one another */

static const char policy[] = "weir: 1\n"
                             "defaults: { pool: p }\n"
                             "pools: { p: { devices: [0] } }\n"
                             "streams: { own: { pool: p, private: true } }\n";

static const struct mode {
    const char *name;
    bool one_stream, own_pools;
} modes[] = {
    {"own streams, one pool", false, false},
    {"own streams, own pools", false, true},
    {"one stream", true, false},
};

/* What each thread of one mode uses. Raw calls and Weir have streams of their own, so that neither finds what the other freed. */
struct crowd {
    weir *w;
    cudaStream_t raw_streams[CROWD_MAX], weir_streams[CROWD_MAX];
    cudaMemPool_t pools[CROWD_MAX];
    weir_stream *opened[CROWD_MAX];
};

static const char *raw_pairs(const void *data, size_t nth, size_t count)
{
    const struct crowd *crowd = data;
    return crowd_raw_pairs(crowd->pools[nth], crowd->raw_streams[nth], SIZE, count);
}

static const char *weir_pairs(const void *data, size_t nth, size_t count)
{
    const struct crowd *crowd = data;
    return crowd_stream_pairs(crowd->opened[nth], SIZE, count);
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
    bench_show_ratio(figure, raw, ours, bound, mode->one_stream ? 10 : 400);
    if (threads != CROWD_MAX || mode->one_stream)
        return;
    figure = figure_for(bench, mode, threads, ", each", ours, raw);
    bench_show(figure, bench_median(ours), "ns", BENCH_AT_MOST, 70);
}

static void set_up(struct bench *bench, struct crowd *crowd, const struct mode *mode)
{
    crowd->w = shared_weir_for(bench, "threads", policy);
    for (size_t i = 0; i < CROWD_MAX; i++) {
        bool has_stream = i == 0 || !mode->one_stream, has_pool = i == 0 || mode->own_pools;
        crowd->raw_streams[i] = has_stream ? shared_stream() : crowd->raw_streams[0];
        crowd->weir_streams[i] = has_stream ? shared_stream() : crowd->weir_streams[0];
        crowd->opened[i] =
            has_stream ? shared_open_stream(crowd->w, crowd->weir_streams[i], mode->own_pools ? "own" : NULL) : crowd->opened[0];
        crowd->pools[i] = has_pool ? shared_raw_pool(UINT64_MAX) : crowd->pools[0];
    }
}

static void take_down(struct crowd *crowd, const struct mode *mode)
{
    size_t streams = mode->one_stream ? 1 : CROWD_MAX, pools = mode->own_pools ? CROWD_MAX : 1;
    for (size_t i = 0; i < streams; i++)
        weir_stream_close(crowd->opened[i]);
    weir_close(crowd->w);
    for (size_t i = 0; i < streams; i++) {
        BENCH_CUDA(cudaStreamDestroy(crowd->raw_streams[i]));
        BENCH_CUDA(cudaStreamDestroy(crowd->weir_streams[i]));
    }
    for (size_t i = 0; i < pools; i++)
        shared_destroy_raw(crowd->pools[i]);
}

void section_threads(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct crowd crowd;
        const struct crowd_way ways[] = {
            {.name = "raw", .run = raw_pairs, .data = &crowd, .in_all = RAW_PAIRS},
            {.name = "weir", .run = weir_pairs, .data = &crowd, .in_all = SHARED_PAIRS, .by_each = modes[i].one_stream ? 0 : CACHED_PAIRS},
        };
        struct bench_series series[COUNT_OF(ways)][CROWD_COUNTS];
        set_up(bench, &crowd, &modes[i]);
        crowd_measure(bench, ways, COUNT_OF(ways), series);
        for (size_t c = 0; c < CROWD_COUNTS; c++)
            report(bench, &modes[i], crowd_counts[c], &series[1][c], &series[0][c]);
        take_down(&crowd, &modes[i]);
    }
}
