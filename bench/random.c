/* SPDX-License-Identifier: MIT */
/*
 * RMM's benchmark RANDOM_ALLOCATIONS, from one sequence for each N and largest size, which every allocator replays. Every sample is a
 * pass behind another one of the same sequence, so that pools have grown and caches are filled.
 *
 * Three allocators whose pools and caches hold a working set each do not fit into one device where blocks are large: there each gives
 * everything back after its sample and warms up before the next.
 */
#include "bench/rival.h"

#include "bench/arguments.h"

#define SEED 73
#define WARM_MAX (64 * MIB)           /* largest block with which all allocators stay warm side by side */
#define ROW_TIME UINT64_C(1500000000) /* ns, after which a row has no more repetitions than it must */
#define SHORT_STEPS 5000              /* up to here a pass takes a millisecond: a sample has several */
#define SHORT_PASSES 5
#define MARGIN (40 * GIB) /* of the device's memory that the large cache leaves to what is live and to fragments */

static const size_t counts[] = {1000, 10000, 100000};
static const uint64_t largest[] = {MIB, 4 * MIB, 64 * MIB, 256 * MIB, GIB, 4 * GIB};

/* Allocators --------------------------------------------------------------------------------------------------------------------------- */

enum { RAW, DEFAULT, LARGE, MALLOC, ALLOCATOR_COUNT };

/* Nothing is live. */
static void empty(const struct rival *rival)
{
    if (rival->is_malloc)
        return;
    /* The first trim frees what the cache holds. What goes back is what CUDA has seen complete: the second one's part. */
    side_trim(&rival->side);
    side_wait(&rival->side);
    side_trim(&rival->side);
}

static void sample(struct rival *rival, const struct rival_row *row)
{
    bool tight = row->largest > WARM_MAX;
    size_t passes = row->sequence.step_count <= SHORT_STEPS && !rival->is_malloc ? SHORT_PASSES : 1;
    if (tight)
        rival_pass(rival, row);
    uint64_t ns = 0;
    for (size_t i = 0; i < passes; i++)
        ns += rival_pass(rival, row);
    bench_add(&rival->side.series, (double)ns / (double)(passes * row->sequence.step_count));
    if (tight)
        empty(rival);
}

/* Rows --------------------------------------------------------------------------------------------------------------------------------- */

static void report_ratio(struct bench *bench, const struct rival_row *row, const char *what, const struct rival *ours,
                         const struct rival *raw, bool is_speedup, enum bench_bound bound, double limit)
{
    char name[96], size[32], failures[48] = "";
    if (ours->failures + raw->failures)
        snprintf(failures, sizeof(failures), " (failed: %zu, raw %zu)", ours->failures, raw->failures);
    snprintf(name, sizeof(name), "%zu of up to %s, %s%s", row->count, bench_size_name(row->largest, size), what, failures);
    struct bench_figure *figure = bench_figure_of(&bench->report, "random", name, &ours->side.series, &raw->side.series);
    if (is_speedup)
        bench_show_ratio(figure, &raw->side.series, &ours->side.series, bound, limit);
    else
        bench_show_ratio(figure, &ours->side.series, &raw->side.series, bound, limit);
}

static bool takes_part(const struct rival *rival, const struct rival_row *row)
{
    return !rival->is_malloc || row->sequence.step_count <= SHORT_STEPS;
}

static void measure(struct bench *bench, struct rival *allocators, const struct rival_row *row)
{
    const size_t fewest = ARGUMENTS_REPETITIONS_MIN;
    uint64_t start = bench_now();
    for (size_t a = 0; a < ALLOCATOR_COUNT; a++) {
        allocators[a].failures = 0;
        allocators[a].side.series.count = 0;
        allocators[a].side.series.name = allocators[a].name;
        if (takes_part(&allocators[a], row) && row->largest <= WARM_MAX)
            rival_pass(&allocators[a], row);
    }
    for (size_t i = 0; i < bench->repetitions && (i < fewest || bench_now() - start < ROW_TIME); i++) {
        for (size_t a = 0; a < ALLOCATOR_COUNT; a++) {
            if (takes_part(&allocators[a], row) && (!allocators[a].is_malloc || i < fewest))
                sample(&allocators[a], row);
        }
    }
    report_ratio(bench, row, "default policy", &allocators[DEFAULT], &allocators[RAW], false, BENCH_AT_MOST, 1.15);
    report_ratio(bench, row, "large cache: times faster", &allocators[LARGE], &allocators[RAW], true, BENCH_AT_LEAST, 3);
    if (allocators[MALLOC].side.series.count)
        report_ratio(bench, row, "cudaMalloc", &allocators[MALLOC], &allocators[RAW], false, BENCH_SHOWN, 0);
    for (size_t a = 0; a < ALLOCATOR_COUNT; a++)
        empty(&allocators[a]);
}

/* Whether a row would take longer than is wanted, by what a step of a shorter sequence took (0: there was none). */
static bool is_too_long(const struct bench *bench, size_t count, uint64_t largest_size, double step_ns)
{
    /* Raw and the default policy, each with a pass to warm up; a large cache takes next to nothing. */
    double seconds = step_ns * 2 * (double)count * 2 * 2 * ARGUMENTS_REPETITIONS_MIN / 1e9;
    char size[32];
    if (!bench->row_seconds || seconds <= (double)bench->row_seconds)
        return false;
    printf("random   %zu of up to %s: left out, as it would take about %.0f s\n", count, bench_size_name(largest_size, size), seconds);
    return true;
}

/* Returns what a step of the raw calls took, in nanoseconds. */
static double measure_row(struct bench *bench, struct rival *allocators, size_t count, uint64_t largest_size)
{
    struct rival_row row;
    rival_row_open(&row, count, largest_size, SEED);
    measure(bench, allocators, &row);
    rival_row_close(&row);
    return bench_median(&allocators[RAW].side.series);
}

/* A cache as large as the device allows: what is freed is kept by size, so that it needs more than is ever live. */
static const char *large_policy(const struct bench *bench, char text[192])
{
    uint64_t cache = bench->memory > 2 * MARGIN ? bench->memory - MARGIN : bench->memory / 2;
    uint64_t most = cache < 4 * GIB ? cache : 4 * GIB;
    snprintf(text, 192, "weir: 1\npools: { p: { devices: [0], cache: { per_stream: %lluMiB, per_device: %lluMiB, largest: %lluMiB } } }\n",
             (unsigned long long)(cache / MIB), (unsigned long long)(cache / MIB), (unsigned long long)(most / MIB));
    return text;
}

void section_random(struct bench *bench)
{
    struct rival allocators[ALLOCATOR_COUNT] = {
        [RAW] = {.name = "raw async"},
        [DEFAULT] = {.name = "weir"},
        [LARGE] = {.name = "weir, large cache"},
        /* Fewer passes, and none of long sequences: one takes as long as a hundred of the others. */
        [MALLOC] = {.name = "raw cudaMalloc", .is_malloc = true},
    };
    double step_ns[COUNT_OF(largest)] = {0};
    char policy[192];
    allocators[RAW].side = side_raw(1, UINT64_MAX);
    allocators[DEFAULT].side = side_weir(bench, "random", "weir: 1\npools: { p: { devices: [0] } }\n", 1);
    allocators[LARGE].side = side_weir(bench, "random", large_policy(bench, policy), 1);
    for (size_t c = 0; c < COUNT_OF(counts) - bench->quick; c++) {
        for (size_t i = 0; i < COUNT_OF(largest); i += 1 + bench->quick) {
            if (!is_too_long(bench, counts[c], largest[i], step_ns[i]))
                step_ns[i] = measure_row(bench, allocators, counts[c], largest[i]);
        }
    }
    for (size_t a = 0; a < ALLOCATOR_COUNT; a++)
        side_close(&allocators[a].side);
}
