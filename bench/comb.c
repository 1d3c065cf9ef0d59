/* SPDX-License-Identifier: MIT */
/*
 * A comb: 8 GiB of blocks of random sizes, of which every second one is freed, then one request of 95 % of what was freed. How much of what
 * the pool has from the device is not live then? CUDA's pool, Weir on a pool of CUDA's and Weir on an arena, with a seed for each
 * repetition.
 */
#include "bench/section.h"

#include <string.h>

#include "bench/arguments.h"
#include "bench/sequence.h"

#define BLOCKS_MAX 8192
#define SEED 11

enum { RAW, POOLS, ARENA, COMB_COUNT };

static const char *const names[COMB_COUNT] = {"raw", "weir", "weir, arena"};

static const struct comb {
    const char *name;
    uint64_t least, most; /* bytes of a block */
    double limit;         /* per cent that an arena may strand */
} combs[] = {
    {"2 to 16 MiB", 2 * MIB, 16 * MIB, 12},
    {"8 to 64 MiB", 8 * MIB, 64 * MIB, 5},
    {"4 to 400 MiB", 4 * MIB, 400 * MIB, 5},
};

static struct {
    void *ptr;
    uint64_t size;
} blocks[BLOCKS_MAX];

/* Returns how much is stranded, in per cent of what is reserved. bytes: all blocks together. */
static double strand(const struct side *side, const struct comb *comb, uint64_t bytes, uint64_t seed)
{
    uint64_t random = seed, live = 0, freed = 0;
    size_t count = 0;
    for (; live < bytes && count < BLOCKS_MAX; count++) {
        blocks[count].size = comb->least + sequence_below(&random, comb->most - comb->least + 1);
        blocks[count].ptr = side_take(side, 0, blocks[count].size);
        live += blocks[count].size;
    }
    for (size_t i = 0; i < count; i += 2) {
        side_give(side, 0, blocks[i].ptr);
        freed += blocks[i].size;
    }
    side_wait(side);
    uint64_t size = freed / 100 * 95;
    void *large = side_take(side, 0, size);
    double reserved = (double)side_figures(side).reserved;
    double stranded = 100 * (reserved - (double)(live - freed + size)) / reserved;
    side_give(side, 0, large);
    for (size_t i = 1; i < count; i += 2)
        side_give(side, 0, blocks[i].ptr);
    side_wait(side);
    return stranded;
}

static struct side open_side(struct bench *bench, size_t which)
{
    char policy[128];
    snprintf(policy, sizeof(policy), "weir: 1\npools: { p: { devices: [0], release_threshold: all, cache: off%s } }\n",
             which == ARENA ? ", backing: arena" : "");
    return which == RAW ? side_raw(1, UINT64_MAX) : side_weir(bench, "comb", policy, 1);
}

static void measure(struct bench *bench, const struct comb *comb)
{
    uint64_t bytes = shared_big_size(bench->memory, 8 * GIB, 25);
    struct bench_series series[COMB_COUNT] = {{0}};
    for (uint64_t i = 0; i < ARGUMENTS_REPETITIONS_MIN; i++) {
        for (size_t which = 0; which < COMB_COUNT; which++) {
            struct side side = open_side(bench, which);
            series[which].name = names[which];
            bench_add(&series[which], strand(&side, comb, bytes, SEED + i));
            side_close(&side);
        }
    }
    for (size_t which = POOLS; which < COMB_COUNT; which++) {
        char name[96];
        snprintf(name, sizeof(name), "stranded in a comb of %s, %s", comb->name, names[which]);
        struct bench_figure *figure = bench_figure_of(&bench->report, "comb", name, &series[RAW], &series[POOLS], &series[ARENA]);
        figure->unit = "%";
        bench_show(figure, bench_median(&series[which]), "%", which == ARENA ? BENCH_AT_MOST : BENCH_SHOWN, comb->limit);
    }
}

void section_comb(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(combs); i++)
        measure(bench, &combs[i]);
}
