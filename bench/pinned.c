/* SPDX-License-Identifier: MIT */
/*
 * Live blocks between freed ones of 24 MiB: what the pool still has from the device after a trim, by its own figure and by the device's.
 */
#include "bench/rival.h"

#include "bench/arguments.h"

#define BLOCKS 2048 /* of each kind: 48 GiB of large ones */
#define LARGE_BLOCK (24 * MIB)
#define PAGE (2 * MIB)

static const struct pinned_case {
    const char *name;
    size_t size;
    uint64_t pages; /* asked of arenas: live and so many pages, or (else 0) 1.5 times what is live */
} cases[] = {{"64 KiB", 64 * KIB, 2}, {"4 MiB", 4 * MIB, 0}};

static void *live[BLOCKS], *freed[BLOCKS];

static uint64_t device_free(const struct gpu *gpu)
{
    uint64_t free_bytes, total_bytes;
    BENCH_GPU(gpu, device_memory(0, &free_bytes, &total_bytes));
    return free_bytes;
}

static void run(const struct side *side, size_t blocks, size_t size, struct bench_series *reserved, struct bench_series *missing)
{
    uint64_t before = device_free(side->gpu);
    for (size_t i = 0; i < blocks; i++) {
        live[i] = side_take(side, 0, size);
        freed[i] = side_take(side, 0, LARGE_BLOCK);
    }
    for (size_t i = 0; i < blocks; i++)
        side_give(side, 0, freed[i]);
    side_wait(side);
    side_trim(side);
    bench_add(reserved, (double)side_figures(side).reserved);
    uint64_t now = device_free(side->gpu);
    bench_add(missing, now < before ? (double)(before - now) : 0);
    for (size_t i = 0; i < blocks; i++)
        side_give(side, 0, live[i]);
    side_wait(side);
}

static void measure(struct bench *bench, const struct pinned_case *one, enum rival_which which)
{
    struct bench_series reserved = {.name = "reserved"}, missing = {.name = "of the device"};
    uint64_t third = bench->memory / 100 * 34 / (LARGE_BLOCK + one->size);
    size_t blocks = third < BLOCKS ? (size_t)third : BLOCKS;
    double alive = (double)(blocks * one->size), limit = one->pages ? alive + (double)(one->pages * PAGE) : 1.5 * alive;
    char name[96];
    for (size_t i = 0; i < ARGUMENTS_REPETITIONS_MIN; i++) {
        struct rival rival;
        /* As large as it takes, and empty before: what the policy begins with would stay. */
        rival_open(bench, "pinned", which, bench->memory / 100 * 45 / GIB * GIB, 1, &rival);
        snprintf(name, sizeof(name), "%zu x %s live between 24 MiB, after a trim, %s", blocks, one->name, rival.name);
        run(&rival.side, blocks, one->size, &reserved, &missing);
        rival_close(&rival);
    }
    struct bench_figure *figure = bench_figure_of(&bench->report, "pinned", name, &reserved, &missing);
    figure->unit = "bytes";
    bench_show(figure, bench_max(&reserved), "bytes", which == RIVAL_ARENA ? BENCH_AT_MOST : BENCH_SHOWN, limit);
}

void section_pinned(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int which = RIVAL_RAW; which <= RIVAL_ARENA; which++)
            measure(bench, &cases[i], (enum rival_which)which);
}
