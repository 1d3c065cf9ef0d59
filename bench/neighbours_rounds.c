/* SPDX-License-Identifier: MIT */
/*
 * Two processes that alternate between nine parts of the device and four, out of phase: together they always need less than there is, but
 * what each keeps of its nine is what the other lacks. Each part is a block of its own. A round is both phases of both.
 */
#include "config.h"

#include "bench/neighbours.h"

#define WORKERS 2
#define PARTS 13
static const unsigned parts[2] = {9, 4};

struct rounds {
    struct worker workers[WORKERS];
    uint64_t part; /* bytes */
    bool raw;
};

static void drop(const struct rounds *rounds)
{
    for (size_t i = 0; i < WORKERS; i++)
        worker_tell(&rounds->workers[i], &(struct worker_order){.task = NEIGHBOUR_DROP, .raw = rounds->raw}, -1);
    for (size_t i = 0; i < WORKERS; i++)
        worker_hear(&rounds->workers[i]);
}

/* Both at once. Returns how many requests failed. */
static unsigned take(const struct rounds *rounds, size_t phase)
{
    unsigned failed = 0;
    struct worker_order order = {.task = NEIGHBOUR_TAKE, .raw = rounds->raw, .bytes = rounds->part};
    for (size_t i = 0; i < WORKERS; i++) {
        order.count = parts[(phase + i) % 2];
        worker_tell(&rounds->workers[i], &order, -1);
    }
    for (size_t i = 0; i < WORKERS; i++)
        failed += (unsigned)worker_hear(&rounds->workers[i]).values[0];
    return failed;
}

static unsigned one_round(const struct rounds *rounds)
{
    unsigned failed = 0;
    for (size_t phase = 0; phase < 2; phase++) {
        failed += take(rounds, phase);
        drop(rounds);
    }
    return failed;
}

static void start(struct rounds *rounds, bool raw)
{
    rounds->raw = raw;
    for (size_t i = 0; i < WORKERS; i++)
        worker_start(&rounds->workers[i], WORKER_NEIGHBOUR);
    drop(rounds); /* until they are there */
}

static void measure(struct bench *bench, struct rounds *rounds, bool raw)
{
    struct bench_series time = {.name = raw ? "raw, a round" : "weir, a round"};
    size_t round = 0;
    unsigned failed = 0;
    char name[96];
    start(rounds, raw);
    /* Of raw pools it is only asked when they fail first. */
    while (round < bench->rounds && !(raw && failed)) {
        uint64_t begin = bench_now();
        failed += one_round(rounds);
        if (round++ < BENCH_SAMPLES_MAX)
            bench_add(&time, (double)(bench_now() - begin));
    }
    worker_end(rounds->workers, WORKERS);
    if (raw) {
        neighbours_show(bench, "the same with raw pools: first round that fails (0: none)", &time, 1, failed ? (double)round : 0, "th",
                        BENCH_SHOWN, 0);
        return;
    }
    snprintf(name, sizeof(name), "%zu rounds of two workers, %u <-> %u blocks of %llu MiB", bench->rounds, parts[1], parts[0],
             (unsigned long long)(rounds->part / MIB));
    neighbours_show(bench, name, &time, 1, failed, "failures", BENCH_AT_MOST, 0);
}

void neighbours_rounds(struct bench *bench)
{
    struct rounds rounds = {.raw = false};
    rounds.part = shared_big_size(bench->memory, 130 * GIB, 92) / PARTS / NEIGHBOURS_STEP * NEIGHBOURS_STEP;
    measure(bench, &rounds, true);
    measure(bench, &rounds, false);
}
