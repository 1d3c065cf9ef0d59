/* SPDX-License-Identifier: MIT */
/*
 * Blocks of mixed sizes, allocated and freed at random, until 32 GiB have no room for the next one: what is live then. A seed for each
 * repetition, the same for all allocators.
 */
#include "bench/rival.h"

#include <stdlib.h>

#define BLOCKS_MAX 65536
#define SMALLEST (64 * KIB)
#define DOUBLINGS 12 /* each as often as the next: 64 KiB to 256 MiB */
#define SEED 41

static struct {
    void *ptr;
    size_t size;
} blocks[BLOCKS_MAX];

/* Returns the bytes that were live when the first request failed. */
static uint64_t fill(const struct rival *rival, uint64_t seed)
{
    uint64_t live = 0, random = seed;
    size_t count = 0;
    while (count < BLOCKS_MAX) {
        size_t half = (size_t)SMALLEST << sequence_below(&random, DOUBLINGS);
        size_t size = half + (size_t)sequence_below(&random, half);
        if (count && sequence_below(&random, 100) >= SEQUENCE_CHANCE) {
            size_t i = (size_t)sequence_below(&random, count);
            rival_give(rival, blocks[i].ptr, blocks[i].size);
            live -= blocks[i].size;
            blocks[i] = blocks[--count];
            continue;
        }
        if (!rival_try(rival, &blocks[count].ptr, size))
            break;
        live += size;
        blocks[count++].size = size;
    }
    while (count--)
        rival_give(rival, blocks[count].ptr, blocks[count].size);
    return live;
}

void section_full(struct bench *bench)
{
    uint64_t bytes = shared_big_size(bench->memory, 32 * GIB, 25);
    struct bench_series series[RIVAL_COUNT] = {{0}};
    size_t count = rival_count(bench);
    for (size_t i = 0; i < bench->repetitions; i++) {
        for (size_t r = 0; r < count; r++) {
            struct rival rival;
            rival_open(bench, "full", (enum rival_which)r, bytes, 1, &rival);
            series[r].name = rival.name;
            bench_add(&series[r], 100.0 * (double)fill(&rival, SEED + i) / (double)bytes);
            rival_close(&rival);
        }
    }
    for (size_t r = RIVAL_POOLS; r <= RIVAL_ARENA; r++) {
        char name[96];
        snprintf(name, sizeof(name), "live when %llu MiB are out, %s", (unsigned long long)(bytes / MIB), series[r].name);
        struct bench_figure *figure = bench_figure_new(&bench->report, "full", name);
        figure->unit = "%";
        for (size_t i = 0; i < count; i++)
            *bench_series_new(figure, series[i].name) = series[i];
        bench_show(figure, bench_median(&series[r]), "%", r == RIVAL_ARENA ? BENCH_AT_LEAST : BENCH_SHOWN, 98.7);
    }
}
