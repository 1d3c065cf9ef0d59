/* SPDX-License-Identifier: MIT */
/* growth.c - pools that grow by memory which they have not had, and give it back. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

#define ROUNDS 7
#define ROUNDS_HOST 3 /* each takes a good part of a second on a GPU */

struct round {
    uint64_t first, growth, trim; /* nanoseconds: the first step, `block` more, that back */
};

static int do_first(struct bench *bench)
{
    return bench->gpu->malloc_async(&bench->ptr, STEP, bench->other, bench->stream);
}

static int do_grow(struct bench *bench)
{
    return bench->gpu->malloc_async(&bench->ptr, bench->block, bench->other, bench->stream);
}

static int do_give(struct bench *bench)
{
    return bench->gpu->pool_trim(bench->other, 0);
}

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
        round->first = bench_time(bench, do_first, &code);
    if (code)
        return code;
    void *first = bench->ptr;
    round->growth = bench_time(bench, do_grow, &code);
    if (!code)
        code = give_back(bench, bench->ptr);
    if (!code)
        round->trim = bench_time(bench, do_give, &code);
    int ended = give_back(bench, first);
    return code ? code : ended;
}

static uint64_t without(uint64_t time, uint64_t part)
{
    return time > part ? time - part : 0;
}

/* Nanoseconds for each GiB. */
static uint64_t rate(const struct bench *bench, uint64_t time)
{
    return (uint64_t)((double)time * (double)GIB / (double)bench->block + 0.5);
}

static bool measure_rounds(struct bench *bench, enum gpu_location location, unsigned count, struct round *medians)
{
    uint64_t first[ROUNDS], growth[ROUNDS], trim[ROUNDS];
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
        growth[i] = round.growth;
        trim[i] = round.trim;
    }
    *medians = (struct round){ .first = median(first, count), .growth = median(growth, count), .trim = median(trim, count) };
    return true;
}

bool measure_growth(struct bench *bench)
{
    struct round round;
    const struct gpu_cost *calls = bench->result->costs.values;
    if (!measure_rounds(bench, GPU_LOCATION_DEVICE, ROUNDS, &round))
        return false;
    struct gpu_cost grow = { .gib = rate(bench, without(round.growth, calls[COST_malloc_async].call)) };
    uint64_t step = without(round.first, calls[COST_malloc_async].call);
    bench_found(bench, COST_grow, grow);
    bench_found(bench, COST_first, (struct gpu_cost){ .call = without(step, gpu_cost_of(grow, STEP)) });
    bench_found(bench, COST_trim, (struct gpu_cost){ .gib = rate(bench, without(round.trim, calls[COST_pool_trim].call)) });
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_POOL_HOST, NULL, 0))
        return true;
    if (!measure_rounds(bench, GPU_LOCATION_HOST, ROUNDS_HOST, &round))
        return false;
    grow.gib = rate(bench, without(round.growth, calls[COST_malloc_async].call));
    bench_found(bench, COST_grow_host, grow);
    return true;
}
