/* SPDX-License-Identifier: MIT */
/*
 * What an idle process still holds. Caches and pools are filled on several streams, then the program touches nothing for three times
 * cache.idle and looks again. A raw pool, filled and left alone in the same way, keeps everything.
 */
#include "bench/section.h"

#include <errno.h>
#include <time.h>

#define STREAMS 4
#define SMALL_BLOCKS 256 /* on each stream, of 64 KiB: 16 MiB, which its cache takes */
#define SMALL_BLOCK (64 * KIB)
#define LARGE_BLOCKS 16 /* of 16 MiB: they pass the cache and become idle memory of the pool */
#define LARGE_BLOCK (16 * MIB)
#define IDLE 100 /* ms, as in the policy */
#define THRESHOLD (64 * MIB)

static const char policy[] = "weir: 1\n"
                             "keeper: true\n"
                             "pools: { p: { devices: [0], release_threshold: 64MiB, cache: { idle: 100ms } } }\n";

struct keeper {
    weir *w;
    weir_stream *opened[STREAMS];
    cudaStream_t streams[STREAMS], raw_streams[STREAMS];
    cudaMemPool_t pool;
};

static size_t size_of(size_t block)
{
    return block < SMALL_BLOCKS ? SMALL_BLOCK : LARGE_BLOCK;
}

#define BLOCKS (SMALL_BLOCKS + LARGE_BLOCKS)

/* The program never synchronises: whoever gives memory back has to see by himself that the frees are complete. */
static void fill(const struct keeper *keeper)
{
    void *ours[BLOCKS], *raw[BLOCKS];
    for (size_t s = 0; s < STREAMS; s++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            shared_check(weir_stream_malloc(keeper->opened[s], &ours[i], size_of(i)), "weir_stream_malloc");
            BENCH_CUDA(cudaMallocFromPoolAsync(&raw[i], size_of(i), keeper->pool, keeper->raw_streams[s]));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            shared_check(weir_stream_free(keeper->opened[s], ours[i]), "weir_stream_free");
            BENCH_CUDA(cudaFreeAsync(raw[i], keeper->raw_streams[s]));
        }
    }
}

static double raw_reserved(const struct keeper *keeper)
{
    uint64_t reserved;
    BENCH_CUDA(cudaMemPoolGetAttribute(keeper->pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    return (double)reserved;
}

static void sleep_ms(long milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

/* The worst of all repetitions: memory that is kept once is kept. */
static void show_bytes(struct bench_figure *figure, const struct bench_series *after, double limit)
{
    figure->unit = "bytes";
    bench_figure_value(figure, bench_max(after), "bytes", BENCH_AT_MOST, limit);
    bench_print(stdout, figure);
}

static void measure(struct bench *bench, const struct keeper *keeper)
{
    struct bench_series cached_before = {.name = "weir before"}, cached_after = {.name = "weir after"};
    struct bench_series reserved_before = {.name = "weir before"}, reserved_after = {.name = "weir after"};
    struct bench_series raw_before = {.name = "raw before"}, raw_after = {.name = "raw after"};
    size_t filled = 0;
    for (size_t i = 0; i < bench->repetitions; i++) {
        fill(keeper);
        struct shared_figures before = shared_figures(keeper->w);
        bench_add(&cached_before, (double)before.cached);
        bench_add(&reserved_before, (double)before.reserved);
        bench_add(&raw_before, raw_reserved(keeper));
        filled += before.cached > 0;
        sleep_ms(3 * IDLE);
        struct shared_figures after = shared_figures(keeper->w);
        bench_add(&cached_after, (double)after.cached);
        bench_add(&reserved_after, (double)after.reserved);
        bench_add(&raw_after, raw_reserved(keeper));
    }
    struct bench_report *report = &bench->report;
    show_bytes(bench_figure_of(report, "keeper", "held by caches, 3 x cache.idle later", &cached_after, &cached_before), &cached_after, 0);
    show_bytes(bench_figure_of(report, "keeper", "reserved, 3 x cache.idle later, under a threshold of 64 MiB", &reserved_after,
                               &reserved_before, &raw_before, &raw_after),
               &reserved_after, (double)THRESHOLD);
    /* Nothing held after nothing was held shows nothing. */
    struct bench_figure *figure = bench_figure_of(report, "keeper", "repetitions in which caches held something before", &cached_before);
    figure->unit = "bytes";
    bench_figure_value(figure, 100.0 * (double)filled / (double)bench->repetitions, "%", BENCH_AT_LEAST, 100);
    bench_print(stdout, figure);
}

void section_keeper(struct bench *bench)
{
    struct keeper keeper = {.w = shared_weir_for(bench, "keeper", policy), .pool = shared_raw_pool(THRESHOLD)};
    for (size_t i = 0; i < STREAMS; i++) {
        keeper.streams[i] = shared_stream();
        keeper.raw_streams[i] = shared_stream();
        keeper.opened[i] = shared_open_stream(keeper.w, keeper.streams[i], NULL);
    }
    measure(bench, &keeper);
    for (size_t i = 0; i < STREAMS; i++)
        weir_stream_close(keeper.opened[i]);
    weir_close(keeper.w);
    for (size_t i = 0; i < STREAMS; i++) {
        BENCH_CUDA(cudaStreamSynchronize(keeper.raw_streams[i]));
        BENCH_CUDA(cudaStreamDestroy(keeper.raw_streams[i]));
        BENCH_CUDA(cudaStreamDestroy(keeper.streams[i]));
    }
    shared_destroy_raw(keeper.pool);
}
