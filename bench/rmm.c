/* SPDX-License-Identifier: MIT */
/*
 * Weir on CUDA's pools and on arenas, beside CUDA's pool and, with --rmm, beside RMM's pool, arena and binning: RANDOM_ALLOCATIONS, where an
 * arena begins with nothing, hot pairs of large blocks, and those of 16 threads. What is asked is asked of arenas, on a GPU.
 */
#include "bench/rival.h"

#include <string.h>

#include "bench/arguments.h"
#include "bench/crowd.h"

#define SEED 73
#define SIDE_BY_SIDE 12 /* each may have so many hundredths of the device where all are open at once */
#define PAIRS 20000
#define THREAD_SIZE (16 * MIB)
#define RAW_PAIRS 8000     /* in all: 38 us each at 16 threads */
#define THREAD_PAIRS 10000 /* by each thread, of those that take less than 3 us */

static enum bench_bound asked_of(const struct bench *bench, size_t which)
{
    return which == RIVAL_ARENA && strcmp(bench->gpu->name, "cuda") == 0 ? BENCH_AT_MOST : BENCH_SHOWN;
}

/* Whether --only wants the row. Its figures' names begin with this one. */
static bool is_wanted(const struct bench *bench, const char *name)
{
    return !bench->only || strncmp(name, bench->only, strlen(bench->only)) == 0;
}

/* RANDOM_ALLOCATIONS ------------------------------------------------------------------------------------------------------------------- */

/* What rivals took in a row, and what they had from the device behind it. */
struct outcome {
    struct bench_series ns, bytes;
    size_t failures;
};

static double free_memory(void)
{
    size_t now_free, total;
    BENCH_CUDA(cudaMemGetInfo(&now_free, &total));
    return (double)now_free;
}

/* Each has the device for itself, as in RMM's benchmark, and two passes: the second one counts. None gives memory back before its end. */
static void sample(struct bench *bench, enum rival_which which, const struct rival_row *row, struct outcome *outcome)
{
    struct rival rival;
    double before = free_memory();
    rival_open(bench, "rmm-random", which, 0, 1, &rival);
    rival_pass(&rival, row);
    rival.failures = 0;
    outcome->ns.name = outcome->bytes.name = rival.name;
    bench_add(&outcome->ns, (double)rival_pass(&rival, row) / (double)row->sequence.step_count);
    bench_add(&outcome->bytes, before - free_memory());
    outcome->failures += rival.failures;
    rival_close(&rival);
}

/* RMM's fastest; without it CUDA's pool. */
static const struct bench_series *fastest(const struct outcome *outcomes, size_t count)
{
    const struct bench_series *best = &outcomes[count > RIVAL_RMM ? RIVAL_RMM : RIVAL_RAW].ns;
    for (size_t i = RIVAL_RMM + 1; i < count; i++)
        best = bench_median(&outcomes[i].ns) < bench_median(best) ? &outcomes[i].ns : best;
    return best;
}

/* The arena's memory is asked to be no more than that of RMM's pool, which takes half of the free memory when it is made. */
static void report_memory(struct bench *bench, const char *row, const struct outcome *outcomes, size_t count)
{
    char name[96];
    snprintf(name, sizeof(name), "%smemory taken by an arena", row);
    struct bench_figure *figure = bench_figure_new(&bench->report, "rmm-random", name);
    figure->unit = "bytes";
    for (size_t i = 0; i < count; i++)
        *bench_series_new(figure, outcomes[i].bytes.name) = outcomes[i].bytes;
    bench_show_ratio(figure, &outcomes[RIVAL_ARENA].bytes, &outcomes[count > RIVAL_RMM ? RIVAL_RMM : RIVAL_RAW].bytes,
                     count > RIVAL_RMM ? asked_of(bench, RIVAL_ARENA) : BENCH_SHOWN, 1);
}

static void measure_row(struct bench *bench, size_t count, uint64_t largest)
{
    struct rival_row row;
    char start[48], name[96], size[32];
    snprintf(start, sizeof(start), "%zu of up to %s, ", count, bench_size_name(largest, size));
    if (!is_wanted(bench, start))
        return;
    struct outcome outcomes[RIVAL_COUNT] = {0};
    size_t rivals = rival_count(bench);
    rival_row_open(&row, count, largest, SEED);
    for (size_t i = 0; i < ARGUMENTS_REPETITIONS_MIN; i++)
        for (size_t r = 0; r < rivals; r++)
            sample(bench, (enum rival_which)r, &row, &outcomes[r]);
    const struct bench_series *best = fastest(outcomes, rivals);
    for (size_t r = RIVAL_POOLS; r <= RIVAL_ARENA; r++) {
        snprintf(name, sizeof(name), "%s%s against %s (failed: %zu)", start, outcomes[r].ns.name, best->name, outcomes[r].failures);
        struct bench_figure *figure = bench_figure_new(&bench->report, "rmm-random", name);
        for (size_t i = 0; i < rivals; i++)
            *bench_series_new(figure, outcomes[i].ns.name) = outcomes[i].ns;
        bench_show_ratio(figure, &outcomes[r].ns, best, r == RIVAL_ARENA ? asked_of(bench, r) : BENCH_SHOWN, 1.05);
    }
    report_memory(bench, start, outcomes, rivals);
    rival_row_close(&row);
}

void section_rmm_random(struct bench *bench)
{
    static const size_t counts[] = {1000, 10000};
    static const uint64_t largest[] = {MIB, 4 * MIB, 64 * MIB, 256 * MIB, GIB};
    for (size_t c = 0; c < COUNT_OF(counts) - bench->quick; c++)
        for (size_t i = 0; i < COUNT_OF(largest); i += 1 + bench->quick)
            measure_row(bench, counts[c], largest[i]);
}

/* Hot pairs ---------------------------------------------------------------------------------------------------------------------------- */

/* All at once, each with its part of the device. Returns how many there are. */
static size_t open_all(struct bench *bench, const char *section, size_t streams, struct rival rivals[RIVAL_COUNT])
{
    uint64_t bytes = bench->memory / 100 * SIDE_BY_SIDE / GIB * GIB;
    for (size_t r = 0; r < rival_count(bench); r++)
        rival_open(bench, section, (enum rival_which)r, bytes, streams, &rivals[r]);
    return rival_count(bench);
}

static void close_all(struct rival *rivals, size_t count)
{
    for (size_t r = 0; r < count; r++)
        rival_close(&rivals[r]);
}

static double time_pairs(const struct rival *rival, size_t size, size_t count)
{
    /* One pair outside the clock, so that no sample grows a pool. */
    const char *wrong = rival_pairs(rival, 0, size, 1);
    side_wait(&rival->side);
    uint64_t start = bench_now();
    if (!wrong)
        wrong = rival_pairs(rival, 0, size, count);
    double ns = (double)(bench_now() - start) / (double)count;
    if (wrong)
        bench_die(__FILE__, __LINE__, rival->name, wrong);
    return ns;
}

static void measure_pairs(struct bench *bench, struct rival *rivals, size_t count, size_t size)
{
    char name[96], text[32];
    snprintf(name, sizeof(name), "%s, a hot pair, ", bench_size_name(size, text));
    if (!is_wanted(bench, name))
        return;
    for (size_t r = 0; r < count; r++)
        rivals[r].side.series.count = 0;
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t r = 0; r < count; r++)
            bench_add(&rivals[r].side.series, time_pairs(&rivals[r], size, bench->quick ? PAIRS / 5 : PAIRS));
    for (size_t r = RIVAL_POOLS; r <= RIVAL_ARENA; r++) {
        snprintf(name, sizeof(name), "%s, a hot pair, %s", text, rivals[r].name);
        struct bench_figure *figure = bench_figure_new(&bench->report, "rmm-pairs", name);
        for (size_t i = 0; i < count; i++)
            *bench_series_new(figure, rivals[i].name) = rivals[i].side.series;
        bench_show(figure, bench_median(&rivals[r].side.series), "ns", asked_of(bench, r), 120);
    }
}

void section_rmm_pairs(struct bench *bench)
{
    static const size_t sizes[] = {64 * KIB, 16 * MIB, GIB};
    struct rival rivals[RIVAL_COUNT];
    size_t count = open_all(bench, "rmm-pairs", 1, rivals);
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        measure_pairs(bench, rivals, count, sizes[s]);
    close_all(rivals, count);
}

static const char *crowd_pairs(const void *data, size_t nth, size_t count)
{
    return rival_pairs(data, nth, THREAD_SIZE, count);
}

void section_rmm_threads(struct bench *bench)
{
    struct rival rivals[RIVAL_COUNT];
    struct crowd_way ways[RIVAL_COUNT];
    struct bench_series series[RIVAL_COUNT][CROWD_COUNTS];
    size_t count = open_all(bench, "rmm-threads", CROWD_MAX, rivals);
    for (size_t r = 0; r < count; r++)
        ways[r] = (struct crowd_way){.name = rivals[r].name,
                                     .run = crowd_pairs,
                                     .data = &rivals[r],
                                     .in_all = RAW_PAIRS,
                                     .by_each = r == RIVAL_ARENA ? THREAD_PAIRS : 0};
    crowd_measure(bench, ways, count, series);
    for (size_t c = 0; c < CROWD_COUNTS; c++) {
        for (size_t r = RIVAL_POOLS; r <= RIVAL_ARENA; r++) {
            char name[96];
            snprintf(name, sizeof(name), "%zu thread%s, 16 MiB on own streams, %s, each", crowd_counts[c], crowd_counts[c] == 1 ? "" : "s",
                     rivals[r].name);
            struct bench_figure *figure = bench_figure_new(&bench->report, "rmm-threads", name);
            for (size_t i = 0; i < count; i++)
                *bench_series_new(figure, rivals[i].name) = series[i][c];
            bench_figure_in(figure, rivals[r].name, (double)crowd_counts[c]);
            bench_show(figure, bench_median(&series[r][c]), "ns", crowd_counts[c] == CROWD_MAX ? asked_of(bench, r) : BENCH_SHOWN, 3000);
        }
    }
    close_all(rivals, count);
}
