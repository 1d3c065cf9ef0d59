/* SPDX-License-Identifier: MIT */
/*
 * What Weir rescues: memory that small blocks pin. The raw request after it is expected to fail; the figure says how often it did.
 */
#include "bench/section.h"

static const char policy[] = "weir: 1\n"
                             "pools: { p: { devices: [0], release_threshold: all, small_below: 1MiB, on_oom: { deadline: 5s } } }\n";

#define BLOCKS 2048 /* small ones that stay, and as many large ones between them that go */
#define SMALL_BLOCK (64 * KIB)
#define LARGE_BLOCK (24 * MIB)

struct small {
    size_t blocks;
    size_t request;
    void *live[BLOCKS], *freed[BLOCKS];
};

/* What the runs of one side showed. */
struct outcome {
    struct bench_series before, after; /* idle bytes, around the trim */
    struct bench_series request;       /* the large one after it */
    size_t served;
};

static void run(struct small *small, struct side side, struct outcome *outcome)
{
    void *block;
    for (size_t i = 0; i < small->blocks; i++) {
        small->live[i] = side_take(&side, 0, SMALL_BLOCK);
        small->freed[i] = side_take(&side, 0, LARGE_BLOCK);
    }
    for (size_t i = 0; i < small->blocks; i++)
        side_give(&side, 0, small->freed[i]);
    side_wait(&side);
    bench_add(&outcome->before, (double)side_figures(&side).idle);
    side_trim(&side);
    bench_add(&outcome->after, (double)side_figures(&side).idle);
    uint64_t start = bench_now();
    bool is_served = side_try(&side, &block, small->request);
    bench_add(&outcome->request, (double)(bench_now() - start));
    outcome->served += is_served;
    if (is_served)
        side_give(&side, 0, block);
    for (size_t i = 0; i < small->blocks; i++)
        side_give(&side, 0, small->live[i]);
    side_wait(&side);
    side_close(&side);
}

void section_small(struct bench *bench)
{
    static struct small small;
    struct outcome ours = {.before.name = "weir before", .after.name = "weir after", .request.name = "weir"};
    struct outcome raw = {.before.name = "raw before", .after.name = "raw after", .request.name = "raw"};
    char name[80];
    small.request = shared_big_size(bench->memory, 110 * GIB, 78);
    /* About a third of the device: with it pinned, the request cannot fit. */
    uint64_t third = bench->memory / 100 * 34 / LARGE_BLOCK;
    small.blocks = third < BLOCKS && small.request != 110 * GIB ? (size_t)third : BLOCKS;
    for (size_t i = 0; i < bench->repetitions; i++) {
        run(&small, side_raw(1, UINT64_MAX), &raw);
        run(&small, side_weir(bench, "small", policy, 1), &ours);
    }
    struct bench_figure *back = bench_figure_of(&bench->report, "small", "idle memory that a trim gives back", &ours.before, &ours.after,
                                                &raw.before, &raw.after);
    back->unit = "bytes";
    bench_show(back, 100 * (1 - bench_median(&ours.after) / bench_median(&ours.before)), "%", BENCH_AT_LEAST, 99);
    snprintf(name, sizeof(name), "%zu MiB served after it (raw: %zu of %zu times)", small.request / MIB, raw.served, bench->repetitions);
    struct bench_figure *request = bench_figure_of(&bench->report, "small", name, &ours.request, &raw.request);
    bench_show(request, 100.0 * (double)ours.served / (double)bench->repetitions, "%", BENCH_AT_LEAST, 100);
}
