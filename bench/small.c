/* SPDX-License-Identifier: MIT */
/*
 * What Weir rescues: memory that small blocks pin. The raw request after it is expected to fail; the figure says how often it did.
 */
#include "bench/section.h"

#include <stdlib.h>

static const char policy[] = "weir: 1\n"
                             "pools: { p: { devices: [0], release_threshold: all, small_below: 1MiB, on_oom: { deadline: 5s } } }\n";

#define BLOCKS 2048 /* small ones that stay, and as many large ones between them that go */
#define SMALL_BLOCK (64 * KIB)
#define LARGE_BLOCK (24 * MIB)

/* What one run of the case showed. */
struct outcome {
    double idle_before, idle_after; /* bytes, around the trim */
    double request_ns;              /* the large request after it */
    bool served;
};

struct small {
    size_t blocks;
    size_t request;
    void *live[BLOCKS], *freed[BLOCKS];
};

static struct outcome run(struct small *small, struct side side)
{
    struct outcome outcome;
    void *block;
    for (size_t i = 0; i < small->blocks; i++) {
        small->live[i] = side_take(&side, 0, SMALL_BLOCK);
        small->freed[i] = side_take(&side, 0, LARGE_BLOCK);
    }
    for (size_t i = 0; i < small->blocks; i++)
        side_give(&side, 0, small->freed[i]);
    side_wait(&side);
    outcome.idle_before = (double)side_figures(&side).idle;
    side_trim(&side);
    outcome.idle_after = (double)side_figures(&side).idle;
    uint64_t start = bench_now();
    outcome.served = side_try(&side, &block, small->request);
    outcome.request_ns = (double)(bench_now() - start);
    if (outcome.served)
        side_give(&side, 0, block);
    for (size_t i = 0; i < small->blocks; i++)
        side_give(&side, 0, small->live[i]);
    side_wait(&side);
    side_close(&side);
    return outcome;
}

void section_small(struct bench *bench)
{
    struct bench_figure *back = bench_figure_new(&bench->report, "small", "idle memory that a trim gives back");
    struct bench_series *before = bench_series_new(back, "weir before"), *after = bench_series_new(back, "weir after");
    struct bench_series *raw_before = bench_series_new(back, "raw before"), *raw_after = bench_series_new(back, "raw after");
    struct bench_series ours = {.name = "weir"}, raw = {.name = "raw"};
    size_t served = 0, raw_served = 0;
    struct small *small = calloc(1, sizeof(*small));
    if (!small)
        bench_die(__FILE__, __LINE__, "calloc", "out of memory");
    small->request = shared_big_size(bench->memory, 110 * GIB, 78);
    /* About a third of the device: with it pinned, the request cannot fit. */
    uint64_t third = bench->memory / 100 * 34 / LARGE_BLOCK;
    small->blocks = third < BLOCKS ? (size_t)third : BLOCKS;
    if (small->request == 110 * GIB)
        small->blocks = BLOCKS;
    for (size_t i = 0; i < bench->repetitions; i++) {
        struct outcome outcome = run(small, side_raw(1, UINT64_MAX));
        bench_add(raw_before, outcome.idle_before);
        bench_add(raw_after, outcome.idle_after);
        bench_add(&raw, outcome.request_ns);
        raw_served += outcome.served;
        outcome = run(small, side_weir(bench, "small", policy, 1));
        bench_add(before, outcome.idle_before);
        bench_add(after, outcome.idle_after);
        bench_add(&ours, outcome.request_ns);
        served += outcome.served;
    }
    back->unit = "bytes";
    bench_show(back, 100 * (1 - bench_median(after) / bench_median(before)), "%", BENCH_AT_LEAST, 99);
    char name[80];
    snprintf(name, sizeof(name), "%zu MiB served after it (raw: %zu of %zu times)", small->request / MIB, raw_served, bench->repetitions);
    struct bench_figure *request = bench_figure_of(&bench->report, "small", name, &ours, &raw);
    bench_show(request, 100.0 * (double)served / (double)bench->repetitions, "%", BENCH_AT_LEAST, 100);
    free(small);
}
