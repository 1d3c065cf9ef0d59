/* SPDX-License-Identifier: MIT */
/*
 * An arena that sleeps and wakes, beside the bare calls for pages of the same size, in turn: contents that are given up, and contents that
 * stay in host memory from one sleep to the next, beside a copy to page-locked memory.
 */
#include "bench/section.h"

#include "include/weir_sleep.h"

#include <string.h>

#define PAGE (64 * MIB) /* the largest page of an arena: of these are blocks of 1 GiB, but for the last 2 MiB */
#define BLOCKS_MAX 64
#define PAGES_MAX (BLOCKS_MAX * (GIB / PAGE))
#define KEPT_BLOCKS 16
#define PATIENCE 60000 /* ms */
#define POLICY "weir: 1\npools: { p: { devices: [0], backing: arena, release_threshold: all, cache: off } }\n"

static struct sleeper {
    struct side side;
    weir_pool *pool;
    void *blocks[BLOCKS_MAX];
    size_t count;
} sleeper;

static void open_sleeper(struct bench *bench, size_t count)
{
    sleeper.side = side_weir(bench, "sleep", POLICY, 1);
    sleeper.pool = weir_stream_pool(sleeper.side.opened[0]);
    for (sleeper.count = 0; sleeper.count < count; sleeper.count++)
        sleeper.blocks[sleeper.count] = side_take(&sleeper.side, 0, GIB);
    side_wait(&sleeper.side);
}

static void close_sleeper(void)
{
    for (size_t i = 0; i < sleeper.count; i++)
        side_give(&sleeper.side, 0, sleeper.blocks[i]);
    side_close(&sleeper.side);
}

static double time_sleep(unsigned flags)
{
    uint64_t given = 0, start = bench_now();
    BENCH_WEIR(weir_pool_sleep(sleeper.pool, flags, PATIENCE, &error, &given));
    double ns = (double)(bench_now() - start);
    if (given < sleeper.count * GIB)
        bench_die(__FILE__, __LINE__, "weir_pool_sleep", "less went than is live");
    return ns;
}

static double time_wake(void)
{
    int kept;
    uint64_t start = bench_now();
    BENCH_WEIR(weir_pool_wake(sleeper.pool, PATIENCE, &error, &kept));
    return (double)(bench_now() - start);
}

/* Contents that are given up ----------------------------------------------------------------------------------------------------------- */

static gpu_page pages[PAGES_MAX];

/* Maps so many pages there, one after another, and returns the time. */
static double time_mapping(const struct gpu *gpu, char *at, size_t count)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_create(0, PAGE, &pages[i]));
    for (size_t i = 0; i < count; i++) {
        BENCH_GPU(gpu, page_map(at + i * PAGE, PAGE, pages[i]));
        BENCH_GPU(gpu, page_set_access(at + i * PAGE, PAGE, (const int[]){0}, 1));
    }
    return (double)(bench_now() - start);
}

static double time_unmapping(const struct gpu *gpu, char *at, size_t count)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < count; i++) {
        BENCH_GPU(gpu, page_unmap(at + i * PAGE, PAGE));
        BENCH_GPU(gpu, page_release(pages[i]));
    }
    return (double)(bench_now() - start);
}

static void report(struct bench *bench, const char *what, const struct bench_series *bare, const struct bench_series *ours, enum bench_bound bound,
                   double limit)
{
    char name[96];
    snprintf(name, sizeof(name), "%zu GiB %s", sleeper.count, what);
    bool asked = strcmp(bench->gpu->name, "cuda") == 0;
    struct bench_figure *figure = bench_figure_of(&bench->report, "sleep", name, bare, ours);
    if (bound == BENCH_AT_LEAST)
        bench_show_ratio(figure, bare, ours, asked ? bound : BENCH_SHOWN, limit);
    else
        bench_show_ratio(figure, ours, bare, asked ? bound : BENCH_SHOWN, limit);
}

static void measure_discarded(struct bench *bench, size_t blocks)
{
    struct bench_series mapped = {.name = "bare"}, unmapped = {.name = "bare"}, woken = {.name = "weir"}, slept = {.name = "weir"};
    size_t count = blocks * (size_t)(GIB / PAGE);
    void *range;
    open_sleeper(bench, blocks);
    BENCH_GPU(bench->gpu, range_reserve(0, count * PAGE, &range));
    time_sleep(WEIR_SLEEP_DISCARD);
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(&mapped, time_mapping(bench->gpu, range, count));
        bench_add(&unmapped, time_unmapping(bench->gpu, range, count));
        bench_add(&woken, time_wake());
        bench_add(&slept, time_sleep(WEIR_SLEEP_DISCARD));
    }
    BENCH_GPU(bench->gpu, range_free(range, count * PAGE));
    report(bench, "given up, a sleep against unmapping and releasing", &unmapped, &slept, BENCH_AT_MOST, 1.15);
    report(bench, "given up, a wake against creating and mapping", &mapped, &woken, BENCH_AT_MOST, 1.15);
    close_sleeper();
}

/* Contents that stay in host memory ---------------------------------------------------------------------------------------------------- */

static double time_copy(const struct gpu *gpu, void *host)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < sleeper.count; i++)
        BENCH_GPU(gpu, copy_async((char *)host + i * GIB, sleeper.blocks[i], GIB, sleeper.side.streams[0]));
    side_wait(&sleeper.side);
    return (double)(bench_now() - start);
}

static void measure_kept(struct bench *bench, size_t blocks)
{
    struct bench_series copied = {.name = "pinned copy"}, slept = {.name = "weir"};
    void *host;
    open_sleeper(bench, blocks);
    BENCH_GPU(bench->gpu, host_alloc(0, blocks * GIB, &host));
    time_sleep(WEIR_SLEEP_RETAIN);
    time_wake();
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(&copied, time_copy(bench->gpu, host));
        bench_add(&slept, time_sleep(WEIR_SLEEP_RETAIN));
        time_wake();
    }
    BENCH_GPU(bench->gpu, host_free(host));
    report(bench, "kept and retained, how fast a later sleep is against a copy", &copied, &slept, BENCH_AT_LEAST, 0.9);
    close_sleeper();
}

void section_sleep(struct bench *bench)
{
    size_t most = (size_t)(bench->memory / 10 * 9 / GIB), all = bench->quick ? KEPT_BLOCKS : BLOCKS_MAX;
    measure_discarded(bench, most < all ? most : all);
    if (strcmp(bench->gpu->name, "cuda") == 0)
        measure_kept(bench, most < KEPT_BLOCKS ? most : KEPT_BLOCKS);
    else
        printf("sleep    contents that are kept: left out, as the simulator's memory is this machine's\n");
}
