/* SPDX-License-Identifier: MIT */
/*
 * 1,000 live blocks of mixed sizes, freed in the order in which they came, in the reverse, and in a random one.
 */
#include "bench/section.h"

#include <string.h>

#include "bench/sequence.h"

#define BLOCKS 1000
#define ROUNDS 20 /* for one sample: about 20 ms */
#define SEED 20

/* The same three orders for every allocator. */
enum order { SAME, REVERSE, RANDOM, ORDER_COUNT };
static const char *const order_names[ORDER_COUNT] = {"freed in the same order", "freed in reverse", "freed in random order"};

/* All sizes together are more than the default policy caches for one stream; the second policy holds them all. */
enum which { OFF, DEFAULT, LARGE, WEIR_COUNT };
static const struct {
    const char *name, *policy;
} weirs[WEIR_COUNT] = {
    [OFF] = {"cache off", "weir: 1\npools: { p: { devices: [0], cache: off } }\n"},
    [DEFAULT] = {"default policy", "weir: 1\npools: { p: { devices: [0] } }\n"},
    [LARGE] = {"cache of 1 GiB", "weir: 1\npools: { p: { devices: [0], cache: { per_stream: 1GiB, per_device: 1GiB } } }\n"},
};

struct live {
    size_t sizes[BLOCKS];
    size_t orders[ORDER_COUNT][BLOCKS];
    void *blocks[BLOCKS];
    cudaStream_t stream; /* raw */
    cudaMemPool_t pool;
    cudaStream_t weir_streams[WEIR_COUNT];
    weir *w[WEIR_COUNT];
    weir_stream *opened[WEIR_COUNT];
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

static double time_raw(struct live *live, const size_t *order, size_t rounds)
{
    uint64_t start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            BENCH_CUDA(cudaMallocFromPoolAsync(&live->blocks[i], live->sizes[i], live->pool, live->stream));
        for (size_t i = 0; i < BLOCKS; i++)
            BENCH_CUDA(cudaFreeAsync(live->blocks[order[i]], live->stream));
    }
    double ns = (double)(bench_now() - start) / (double)(rounds * BLOCKS);
    BENCH_CUDA(cudaStreamSynchronize(live->stream));
    return ns;
}

static double time_weir(struct live *live, enum which which, const size_t *order, size_t rounds)
{
    weir_stream *s = live->opened[which];
    uint64_t start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            shared_check(weir_stream_malloc(s, &live->blocks[i], live->sizes[i]), "weir_stream_malloc");
        for (size_t i = 0; i < BLOCKS; i++)
            shared_check(weir_stream_free(s, live->blocks[order[i]]), "weir_stream_free");
    }
    double ns = (double)(bench_now() - start) / (double)(rounds * BLOCKS);
    BENCH_CUDA(cudaStreamSynchronize(live->weir_streams[which]));
    return ns;
}

static void measure_order(struct bench *bench, struct live *live, enum order order)
{
    struct bench_series raw = {.name = "raw"}, ours[WEIR_COUNT];
    size_t rounds = bench->quick ? ROUNDS / 5 : ROUNDS;
    memset(ours, 0, sizeof(ours));
    time_raw(live, live->orders[order], 1);
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        ours[v].name = "weir";
        time_weir(live, v, live->orders[order], 1);
    }
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(&raw, time_raw(live, live->orders[order], rounds));
        for (size_t v = 0; v < WEIR_COUNT; v++)
            bench_add(&ours[v], time_weir(live, v, live->orders[order], rounds));
    }
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        char name[96];
        snprintf(name, sizeof(name), "%d live blocks %s, %s", BLOCKS, order_names[order], weirs[v].name);
        bench_show_ratio(&bench->report, "live", name, &ours[v], &raw, BENCH_SHOWN, 0);
    }
}

void section_live(struct bench *bench)
{
    static struct live live;
    make_workload(&live);
    live.stream = shared_stream();
    live.pool = shared_raw_pool(UINT64_MAX);
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        live.weir_streams[v] = shared_stream();
        live.w[v] = shared_weir_for(bench, "live", weirs[v].policy);
        live.opened[v] = shared_open_stream(live.w[v], live.weir_streams[v], NULL);
    }
    for (size_t order = 0; order < ORDER_COUNT; order++)
        measure_order(bench, &live, order);
    for (size_t v = 0; v < WEIR_COUNT; v++) {
        weir_stream_close(live.opened[v]);
        weir_close(live.w[v]);
        BENCH_CUDA(cudaStreamDestroy(live.weir_streams[v]));
    }
    shared_destroy_raw(live.pool);
    BENCH_CUDA(cudaStreamDestroy(live.stream));
}
