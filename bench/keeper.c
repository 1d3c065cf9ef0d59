/* SPDX-License-Identifier: MIT */
/*
 * What an idle process still holds. Caches and pools are filled on several streams, then the program touches nothing for three times
 * cache.idle and looks again. A raw pool, filled and left alone in the same way, keeps everything.
 */
#include "bench/section.h"

#define SMALL_BLOCKS 256 /* on each stream, of 64 KiB: 16 MiB, which its cache takes */
#define SMALL_BLOCK (64 * KIB)
#define LARGE_BLOCKS 16 /* of 16 MiB: they pass the cache and become idle memory of the pool */
#define LARGE_BLOCK (16 * MIB)
#define IDLE 100 /* ms, as in the policy */
#define STREAMS 4
#define THRESHOLD (64 * MIB)

static const char policy[] = "weir: 1\n"
                             "keeper: true\n"
                             "pools: { p: { devices: [0], release_threshold: 64MiB, cache: { idle: 100ms } } }\n";

static size_t size_of(size_t block)
{
    return block < SMALL_BLOCKS ? SMALL_BLOCK : LARGE_BLOCK;
}

#define BLOCKS (SMALL_BLOCKS + LARGE_BLOCKS)

/* The program never synchronises: whoever gives memory back has to see by himself that the frees are complete. */
static void fill(const struct side *side)
{
    void *blocks[BLOCKS];
    for (size_t s = 0; s < STREAMS; s++) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = side_take(side, s, size_of(i));
        for (size_t i = 0; i < BLOCKS; i++)
            side_give(side, s, blocks[i]);
    }
}

/* The worst of all repetitions: memory that is kept once is kept. */
static void show_bytes(struct bench_figure *figure, const struct bench_series *after, double limit)
{
    figure->unit = "bytes";
    bench_show(figure, bench_max(after), "bytes", BENCH_AT_MOST, limit);
}

static void measure(struct bench *bench, const struct side *ours, const struct side *raw)
{
    struct bench_series cached_before = {.name = "weir before"}, cached_after = {.name = "weir after"};
    struct bench_series reserved_before = {.name = "weir before"}, reserved_after = {.name = "weir after"};
    struct bench_series raw_before = {.name = "raw before"}, raw_after = {.name = "raw after"};
    size_t filled = 0;
    for (size_t i = 0; i < bench->repetitions; i++) {
        fill(raw);
        fill(ours);
        struct side_figures before = side_figures(ours);
        bench_add(&cached_before, (double)before.cached);
        bench_add(&reserved_before, (double)before.reserved);
        bench_add(&raw_before, (double)side_figures(raw).reserved);
        filled += before.cached > 0;
        shared_sleep(3 * IDLE);
        struct side_figures after = side_figures(ours);
        bench_add(&cached_after, (double)after.cached);
        bench_add(&reserved_after, (double)after.reserved);
        bench_add(&raw_after, (double)side_figures(raw).reserved);
    }
    struct bench_report *report = &bench->report;
    show_bytes(bench_figure_of(report, "keeper", "held by caches, 3 x cache.idle later", &cached_after, &cached_before), &cached_after, 0);
    show_bytes(bench_figure_of(report, "keeper", "reserved, 3 x cache.idle later, under a threshold of 64 MiB", &reserved_after,
                               &reserved_before, &raw_before, &raw_after),
               &reserved_after, (double)THRESHOLD);
    /* Nothing held after nothing was held shows nothing. */
    struct bench_figure *figure = bench_figure_of(report, "keeper", "repetitions in which caches held something before", &cached_before);
    figure->unit = "bytes";
    bench_show(figure, 100.0 * (double)filled / (double)bench->repetitions, "%", BENCH_AT_LEAST, 100);
}

void section_keeper(struct bench *bench)
{
    struct side ours = side_weir(bench, "keeper", policy, STREAMS), raw = side_raw(STREAMS, THRESHOLD);
    measure(bench, &ours, &raw);
    side_close(&ours);
    side_close(&raw);
}
