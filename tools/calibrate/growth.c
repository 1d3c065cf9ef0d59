/* SPDX-License-Identifier: MIT */
/* growth.c - pools that grow by memory which they have not had, and give it back. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

#define ROUNDS 7
#define ROUNDS_HOST 3 /* each takes a good part of a second on a GPU */

struct round {
    uint64_t first, step, growth, trim; /* nanoseconds: the first step, another one, `block` more, that back */
};

BENCH_CALL(step, malloc_async(&bench->ptr, STEP, bench->other, bench->stream))
BENCH_CALL(grow, malloc_async(&bench->ptr, bench->block, bench->other, bench->stream))
BENCH_CALL(give, pool_trim(bench->other, 0))

static int give_back(struct bench *bench, void *ptr)
{
    int code = bench->gpu->free_async(ptr, bench->stream);
    return code ? code : bench->gpu->stream_synchronize(bench->stream);
}

/* In a pool that is new, so that only its growth serves them. */
static int run_round(struct bench *bench, struct round *round)
{
    int code = bench->gpu->pool_set(bench->other, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    if (!code)
        round->first = bench_time(bench, do_step, &code);
    if (code)
        return code;
    void *first = bench->ptr, *second = NULL;
    round->step = bench_time(bench, do_step, &code);
    if (!code) {
        second = bench->ptr;
        round->growth = bench_time(bench, do_grow, &code);
    }
    if (!code)
        code = give_back(bench, bench->ptr);
    if (!code)
        round->trim = bench_time(bench, do_give, &code);
    int ended = second ? give_back(bench, second) : GPU_SUCCESS;
    code = code ? code : ended;
    ended = give_back(bench, first);
    return code ? code : ended;
}

static uint64_t without(uint64_t time, uint64_t part)
{
    return time > part ? time - part : 0;
}

/* Nanoseconds for each GiB. */
static uint64_t rate(uint64_t time, uint64_t bytes)
{
    return (uint64_t)((double)time * (double)GIB / (double)bytes + 0.5);
}

static bool measure_rounds(struct bench *bench, enum gpu_location location, unsigned count, struct round *medians)
{
    uint64_t first[ROUNDS], step[ROUNDS], growth[ROUNDS], trim[ROUNDS];
    const struct gpu_pool_spec spec = { .device = bench->device, .location = location };
    for (unsigned i = 0; i < count; i++) {
        struct round round = { 0 };
        int code = bench->gpu->pool_create(&spec, &bench->other);
        if (!code) {
            code = run_round(bench, &round);
            int ended = bench->gpu->pool_destroy(bench->other);
            code = code ? code : ended;
        }
        if (!bench_is_good(bench, code, location == GPU_LOCATION_HOST ? "growth of a pool on the host" : "growth of a pool"))
            return false;
        first[i] = round.first;
        step[i] = round.step;
        growth[i] = round.growth;
        trim[i] = round.trim;
    }
    *medians = (struct round){ .first = median(first, count), .step = median(step, count), .growth = median(growth, count), .trim = median(trim, count) };
    return true;
}

/* A line through a step and a block: what each growth costs, and what each GiB of it. */
static struct gpu_cost line_of(const struct bench *bench, const struct round *round, uint64_t call)
{
    const struct sample samples[] = { { STEP, without(round->step, call) }, { bench->block, without(round->growth, call) } };
    return fit_cost(samples, sizeof samples / sizeof samples[0]);
}

static void found_growth(struct bench *bench, const struct round *round, uint64_t call)
{
    struct gpu_cost grow = line_of(bench, round, call);
    uint64_t first = without(round->first, round->step);
    bench_found(bench, COST_grow, (struct gpu_cost){ .gib = grow.gib });
    bench_found(bench, COST_grow_each, (struct gpu_cost){ .call = grow.call });
    bench_found(bench, COST_first, (struct gpu_cost){ .call = first });
    bench_found(bench, COST_first_of_all, (struct gpu_cost){ .call = without(bench->begun, round->first) });
}

bool measure_growth(struct bench *bench)
{
    struct round round;
    const struct gpu_cost *calls = bench->result->values;
    if (!measure_rounds(bench, GPU_LOCATION_DEVICE, ROUNDS, &round))
        return false;
    found_growth(bench, &round, calls[COST_malloc_async].call);
    bench_found(bench, COST_trim, (struct gpu_cost){ .gib = rate(without(round.trim, calls[COST_pool_trim].call), bench->block) });
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_POOL_HOST, NULL, 0))
        return true;
    if (!measure_rounds(bench, GPU_LOCATION_HOST, ROUNDS_HOST, &round))
        return false;
    uint64_t host = rate(without(round.growth, calls[COST_malloc_async].call), bench->block);
    bench_found(bench, COST_grow_host, (struct gpu_cost){ .gib = host });
    return true;
}
