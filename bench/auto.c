/* SPDX-License-Identifier: MIT */
/*
 * `release_threshold: auto`: a loop of 1 GiB with other phases between, beside fixed thresholds; what is still held a minute later; the
 * requests of a step that comes again after its memory went back; and what the keeper costs the calls of another thread. Takes 40 seconds,
 * most of them asleep.
 */
#include "bench/section.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define POLICY(threshold) "weir: 1\nkeeper: true\npools: { p: { devices: [0], release_threshold: " threshold ", cache: off } }\n"

/* Phases ------------------------------------------------------------------------------------------------------------------------------- */

#define LOOPS 100 /* of each phase in a round */
#define IDLE_MOST (32 * MIB)
#define IDLE_SECONDS 60
static const uint64_t phases[] = {GIB, 64 * MIB, GIB, 256 * MIB};
static const char *const thresholds[] = {"auto", "0", "128MiB", "512MiB", "2GiB"};
#define THRESHOLD_COUNT COUNT_OF(thresholds)

/* Looks until no more than so many bytes are reserved, or that many milliseconds have passed, and says how many are. */
static uint64_t went_back(const struct side *side, uint64_t most, unsigned patience)
{
    uint64_t reserved;
    for (unsigned waited = 0; (reserved = side_figures(side).reserved) > most && waited < patience; waited += 100)
        shared_sleep(100);
    return reserved;
}

static double phases_ns(const struct side *side)
{
    uint64_t start = bench_now();
    for (size_t phase = 0; phase < COUNT_OF(phases); phase++)
        for (size_t i = 0; i < LOOPS; i++) {
            side_give(side, 0, side_take(side, 0, phases[phase]));
            side_wait(side);
        }
    return (double)(bench_now() - start) / (double)(LOOPS * COUNT_OF(phases));
}

static void measure_phases(struct bench *bench)
{
    struct side sides[THRESHOLD_COUNT];
    for (size_t t = 0; t < THRESHOLD_COUNT; t++) {
        char policy[160];
        snprintf(policy, sizeof policy, POLICY("%s"), thresholds[t]);
        sides[t] = side_weir(bench, "auto", policy, 1);
        sides[t].series.name = thresholds[t];
        phases_ns(&sides[t]);
    }
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t t = 0; t < THRESHOLD_COUNT; t++)
            bench_add(&sides[t].series, phases_ns(&sides[t]));
    const struct bench_series *best = &sides[1].series;
    for (size_t t = 2; t < THRESHOLD_COUNT; t++)
        if (bench_median(&sides[t].series) < bench_median(best))
            best = &sides[t].series;
    struct bench_figure *figure =
        bench_figure_of(&bench->report, "auto", "1 GiB loop with other phases: auto / best fixed", &sides[0].series, &sides[1].series,
                        &sides[2].series, &sides[3].series, &sides[4].series);
    bench_show_ratio(figure, &sides[0].series, best, BENCH_AT_MOST, 1.2);

    struct bench_series idle = {.name = "reserved"};
    uint64_t held = went_back(&sides[0], IDLE_MOST, IDLE_SECONDS * 1000);
    bench_add(&idle, (double)held);
    figure = bench_figure_of(&bench->report, "auto", "held within a minute of the last phase", &idle);
    figure->unit = "bytes";
    bench_show(figure, bench_median(&idle), "bytes", BENCH_AT_MOST, (double)IDLE_MOST);
    for (size_t t = 0; t < THRESHOLD_COUNT; t++)
        side_close(&sides[t]);
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

#define BLOCKS 256 /* of a step: 2 GiB */
#define BLOCK (8 * MIB)
#define STEPS 8         /* one after another, before the memory goes back */
#define VISITS 3        /* of the program to its steps */
#define HOST_US 100     /* what the program does between two requests */
#define GONE (64 * MIB) /* still held: the memory has gone back */
#define PATIENCE 30000  /* ms until then, at most */

struct requests {
    size_t count;
    double values[VISITS * STEPS * BLOCKS];
};

static void spin(uint64_t nanoseconds)
{
    uint64_t end = bench_now() + nanoseconds;
    while (bench_now() < end)
        continue;
}

static void step(const struct side *side, struct requests *requests)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        spin(HOST_US * UINT64_C(1000));
        uint64_t start = bench_now();
        blocks[i] = side_take(side, 0, BLOCK);
        if (requests)
            requests->values[requests->count++] = (double)(bench_now() - start);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        side_give(side, 0, blocks[BLOCKS - 1 - i]);
    side_wait(side);
}

static void show_requests(struct bench *bench, const char *name, struct requests *requests)
{
    struct bench_series half = {.name = "p50"}, most = {.name = "p99"}, worst = {.name = "worst"}, slow = {.name = "p99.9"};
    struct bench_series all = {.name = "all of a step"};
    double sum = 0;
    for (size_t i = 0; i < requests->count; i++)
        sum += requests->values[i];
    bench_add(&all, sum / (double)requests->count * BLOCKS);
    bench_add(&half, bench_quantile(requests->values, requests->count, 50));
    bench_add(&most, bench_quantile(requests->values, requests->count, 99));
    bench_add(&slow, requests->values[requests->count - 1 - requests->count / 1000]);
    bench_add(&worst, requests->values[requests->count - 1]);
    struct bench_figure *figure = bench_figure_of(&bench->report, "auto", name, &half, &most, &slow, &worst, &all);
    bench_show(figure, bench_median(&slow), "ns", BENCH_AT_MOST, 5000);
}

static void measure_steps(struct bench *bench)
{
    static struct requests first, later;
    struct side side = side_weir(bench, "auto", POLICY("auto"), 1);
    unsigned kept = 0;
    for (size_t visit = 0; visit <= (bench->quick ? 1 : VISITS); visit++) {
        /* The first visit warms up. */
        step(&side, visit ? &first : NULL);
        for (size_t s = 1; s < STEPS; s++)
            step(&side, visit ? &later : NULL);
        if (visit < VISITS)
            kept += went_back(&side, GONE, PATIENCE) > GONE;
    }
    show_requests(bench, "requests of a step that comes again", &later);
    show_requests(bench, "the same once its memory had gone back", &first);
    if (kept)
        printf("auto     memory stayed for longer than %d s %u times, so some of these steps found theirs\n", PATIENCE / 1000, kept);
    side_close(&side);
}

/* Others' calls ------------------------------------------------------------------------------------------------------------------------ */

#define PROBE_GAP_US 20 /* between two calls of the other thread */
#define PROBES_MAX 400000

struct probe {
    const struct side *side;
    _Atomic bool stop;
    size_t count;
    double *values;
};

/* Pairs on the second stream of the pool, of a block that it has. */
static void *probe_run(void *argument)
{
    struct probe *probe = argument;
    while (!atomic_load(&probe->stop) && probe->count < PROBES_MAX) {
        uint64_t start = bench_now();
        side_give(probe->side, 1, side_take(probe->side, 1, 2 * MIB));
        probe->values[probe->count++] = (double)(bench_now() - start);
        spin(PROBE_GAP_US * UINT64_C(1000));
    }
    return NULL;
}

/* Beside the probes run two steps, or the keeper gives 2 GiB back, or nothing happens. */
static void probe_while(struct bench *bench, const struct side *side, const char *name, bool keeper, bool steps)
{
    struct probe probe = {.side = side, .values = calloc(PROBES_MAX, sizeof(double))};
    if (!probe.values)
        bench_die(__FILE__, __LINE__, "calloc", "there is no memory");
    pthread_t thread;
    BENCH_GPU(bench->gpu, device_synchronize(0));
    if (pthread_create(&thread, NULL, probe_run, &probe))
        bench_die(__FILE__, __LINE__, "pthread_create", "no thread");
    if (steps)
        for (size_t i = 0; i < 2; i++)
            step(side, NULL);
    else if (keeper)
        went_back(side, GONE, PATIENCE);
    else
        shared_sleep(5000);
    atomic_store(&probe.stop, true);
    pthread_join(thread, NULL);
    struct bench_series half = {.name = "p50"}, slow = {.name = "p99.9"}, worst = {.name = "worst"};
    bench_add(&half, bench_quantile(probe.values, probe.count, 50));
    bench_add(&slow, probe.values[probe.count - 1 - probe.count / 1000]);
    bench_add(&worst, probe.values[probe.count - 1]);
    struct bench_figure *figure = bench_figure_of(&bench->report, "auto", name, &half, &slow, &worst);
    bench_show(figure, bench_median(&worst), "ns", keeper ? BENCH_AT_MOST : BENCH_SHOWN, 150000);
    free(probe.values);
}

static void measure_others(struct bench *bench)
{
    struct side kept = side_weir(bench, "auto", "weir: 1\npools: { p: { devices: [0], release_threshold: all, cache: off } }\n", 2);
    step(&kept, NULL);
    probe_while(bench, &kept, "a pair of another thread, no keeper, nothing else", false, false);
    probe_while(bench, &kept, "a pair of another thread, no keeper, beside steps", false, true);
    side_close(&kept);
    struct side side = side_weir(bench, "auto", POLICY("auto"), 2);
    step(&side, NULL);
    step(&side, NULL);
    probe_while(bench, &side, "a pair of another thread, while the keeper trims", true, false);
    side_close(&side);
}

void section_auto(struct bench *bench)
{
    measure_others(bench);
    measure_steps(bench);
    measure_phases(bench);
}
