/* SPDX-License-Identifier: MIT */
/*
 * 1,000 live blocks of mixed sizes, freed in the order in which they came, in the reverse, and in a random one.
 */
#include "bench/section.h"

#include "bench/sequence.h"

#define BLOCKS 1000
#define ROUNDS 20 /* for one sample: about 20 ms */
#define SEED 20

/* The same three orders for every allocator. */
enum order { SAME, REVERSE, RANDOM, ORDER_COUNT };
static const char *const order_names[ORDER_COUNT] = {"freed in the same order", "freed in reverse", "freed in random order"};

/* The first one is raw. All sizes together are more than the default policy caches for one stream; the last policy holds them all. */
static const struct {
    const char *name, *policy;
} sides[] = {
    {"raw", NULL},
    {"cache off", "weir: 1\npools: { p: { devices: [0], cache: off } }\n"},
    {"default policy", "weir: 1\npools: { p: { devices: [0] } }\n"},
    {"cache of 1 GiB", "weir: 1\npools: { p: { devices: [0], cache: { per_stream: 1GiB, per_device: 1GiB } } }\n"},
};
#define SIDE_COUNT COUNT_OF(sides)

struct live {
    size_t sizes[BLOCKS];
    size_t orders[ORDER_COUNT][BLOCKS];
    void *blocks[BLOCKS];
    struct side measured[SIDE_COUNT];
};

/* Sizes from 512 B to 1 MiB, each power of two as often as the next, and nothing round in between. */
static void make_workload(struct live *live)
{
    uint64_t random = SEED;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t half = (size_t)512 << sequence_below(&random, 11);
        live->sizes[i] = half + (size_t)sequence_below(&random, half);
        live->orders[SAME][i] = i;
        live->orders[REVERSE][i] = BLOCKS - 1 - i;
        live->orders[RANDOM][i] = i;
    }
    for (size_t i = BLOCKS - 1; i > 0; i--) {
        size_t other = (size_t)sequence_below(&random, i + 1), kept = live->orders[RANDOM][i];
        live->orders[RANDOM][i] = live->orders[RANDOM][other];
        live->orders[RANDOM][other] = kept;
    }
}

static double time_rounds(struct live *live, const struct side *side, const size_t *order, size_t rounds)
{
    uint64_t start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            live->blocks[i] = side_take(side, 0, live->sizes[i]);
        for (size_t i = 0; i < BLOCKS; i++)
            side_give(side, 0, live->blocks[order[i]]);
    }
    double ns = (double)(bench_now() - start) / (double)(rounds * BLOCKS);
    side_wait(side);
    return ns;
}

static void measure_order(struct bench *bench, struct live *live, enum order order)
{
    size_t rounds = bench->quick ? ROUNDS / 5 : ROUNDS;
    for (size_t v = 0; v < SIDE_COUNT; v++) {
        live->measured[v].series.count = 0;
        time_rounds(live, &live->measured[v], live->orders[order], 1);
    }
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t v = 0; v < SIDE_COUNT; v++)
            bench_add(&live->measured[v].series, time_rounds(live, &live->measured[v], live->orders[order], rounds));
    for (size_t v = 1; v < SIDE_COUNT; v++) {
        char name[96];
        snprintf(name, sizeof(name), "%d live blocks %s, %s", BLOCKS, order_names[order], sides[v].name);
        bench_show_beside(&bench->report, "live", name, &live->measured[v].series, &live->measured[0].series);
    }
}

void section_live(struct bench *bench)
{
    static struct live live;
    make_workload(&live);
    for (size_t v = 0; v < SIDE_COUNT; v++)
        live.measured[v] = sides[v].policy ? side_weir(bench, "live", sides[v].policy, 1) : side_raw(1, UINT64_MAX);
    for (size_t order = 0; order < ORDER_COUNT; order++)
        measure_order(bench, &live, order);
    for (size_t v = 0; v < SIDE_COUNT; v++)
        side_close(&live.measured[v]);
}
