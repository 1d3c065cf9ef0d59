/* SPDX-License-Identifier: MIT */
/*
 * A request that grows an empty pool by 1 GiB: on an idle device, while a kernel runs, and where a peer has access. CUDA's pool, Weir on a
 * pool of CUDA's and Weir on an arena, in turn.
 */
#include "bench/section.h"

#include <string.h>

#define KERNEL UINT64_C(50000000) /* ns: longer than any of these requests takes */

enum { RAW, POOLS, ARENA, GROW_COUNT };

static const char *const names[GROW_COUNT] = {"raw", "weir", "weir, arena"};

static const struct state {
    const char *name;
    bool kernel, peer;
    double limit; /* of an arena, times CUDA's pool */
} states[] = {
    {"idle", false, false, 0.4},
    {"while a kernel runs", true, false, 0.7},
    {"with one peer", false, true, 0.6},
};

static bool has_peer(const struct gpu *gpu)
{
    int count;
    bool can = false;
    BENCH_GPU(gpu, device_count(&count));
    if (count > 1)
        BENCH_GPU(gpu, can_access_peer(0, 1, &can));
    return can;
}

static struct side open_side(struct bench *bench, size_t which, const struct state *state)
{
    char policy[192];
    snprintf(policy, sizeof(policy), "weir: 1\npools: { p: { devices: [0], release_threshold: all, cache: off%s%s } }\n",
             which == ARENA ? ", backing: arena" : "", state->peer ? ", peer_access: [1]" : "");
    if (which != RAW)
        return side_weir(bench, "grow", policy, 2);
    struct side side = side_raw(2, UINT64_MAX);
    if (state->peer)
        BENCH_GPU(side.gpu, pool_set_access(side.pool, 1, GPU_ACCESS_READ_WRITE));
    return side;
}

/* The pool is empty before and behind it. */
static double time_growth(const struct bench *bench, const struct side *side, const struct state *state)
{
    if (state->kernel)
        shared_delay(bench, side->streams[1], KERNEL);
    uint64_t start = bench_now();
    void *block = side_take(side, 0, GIB);
    double ns = (double)(bench_now() - start);
    side_give(side, 0, block);
    side_wait(side);
    side_trim(side);
    if (side_figures(side).reserved)
        bench_die(__FILE__, __LINE__, "grow", "a trim left memory in the pool: nothing else may use it");
    return ns;
}

static void measure(struct bench *bench, const struct state *state)
{
    struct side sides[GROW_COUNT];
    for (size_t i = 0; i < GROW_COUNT; i++) {
        sides[i] = open_side(bench, i, state);
        sides[i].series.name = names[i];
        time_growth(bench, &sides[i], state);
    }
    for (size_t r = 0; r < bench->repetitions; r++)
        for (size_t i = 0; i < GROW_COUNT; i++)
            bench_add(&sides[i].series, time_growth(bench, &sides[i], state));
    bool asked = strcmp(bench->gpu->name, "cuda") == 0;
    for (size_t i = POOLS; i < GROW_COUNT; i++) {
        char name[96];
        snprintf(name, sizeof(name), "an empty pool by 1 GiB, %s, %s", state->name, names[i]);
        struct bench_figure *figure =
            bench_figure_of(&bench->report, "grow", name, &sides[RAW].series, &sides[POOLS].series, &sides[ARENA].series);
        bench_show_ratio(figure, &sides[i].series, &sides[RAW].series, asked && i == ARENA ? BENCH_AT_MOST : BENCH_SHOWN, state->limit);
    }
    for (size_t i = 0; i < GROW_COUNT; i++)
        side_close(&sides[i]);
}

void section_grow(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        if (states[i].peer && !has_peer(bench->gpu))
            printf("grow     %s: left out: device 0 has no peer here\n", states[i].name);
        else
            measure(bench, &states[i]);
    }
}
