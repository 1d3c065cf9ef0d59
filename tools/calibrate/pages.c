/* SPDX-License-Identifier: MIT */
/* pages.c - pages that are mapped into a range of addresses, by their size. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

#define ROUNDS_MAX 64

static const struct {
    uint64_t size;
    unsigned rounds;
} sizes[PAGE_SIZES] = { { 2 * MIB, ROUNDS_MAX }, { 32 * MIB, 32 }, { 64 * MIB, 32 }, { 256 * MIB, 16 }, { GIB, 9 } };

BENCH_CALL(create, page_create(bench->device, bench->page_size, &bench->page))
BENCH_CALL(map, page_map(bench->range, bench->page_size, bench->page))
BENCH_CALL(access, page_set_access(bench->range, bench->page_size, &bench->device, 1))
BENCH_CALL(unmap, page_unmap(bench->range, bench->page_size))
BENCH_CALL(release, page_release(bench->page))

static bench_call *const calls[PAGE_CALLS] = { do_create, do_map, do_access, do_unmap, do_release };

/* What a call that failed has left. */
static void undo(struct bench *bench, size_t failed)
{
    if (failed == 2 || failed == 3)
        do_unmap(bench);
    if (failed > 0)
        do_release(bench);
}

/* Each page at addresses that had none before, as an arena maps them. */
static int measure_rounds(struct bench *bench, unsigned rounds, uint64_t found[static PAGE_CALLS])
{
    uint64_t times[PAGE_CALLS][ROUNDS_MAX];
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < PAGE_CALLS; i++) {
            int code;
            times[i][round] = bench_time(bench, calls[i], &code);
            if (code) {
                undo(bench, i);
                return code;
            }
        }
        bench->range = (char *)bench->range + bench->page_size;
    }
    for (size_t i = 0; i < PAGE_CALLS; i++)
        found[i] = median(times[i], rounds);
    return GPU_SUCCESS;
}

static int measure_size(struct bench *bench, unsigned rounds, uint64_t found[static PAGE_CALLS])
{
    void *range;
    uint64_t bytes = rounds * bench->page_size;
    int code = bench->gpu->range_reserve(bench->device, bytes, &range);
    if (code)
        return code;
    bench->range = range;
    code = measure_rounds(bench, rounds, found);
    int ended = bench->gpu->range_free(range, bytes);
    return code ? code : ended;
}

static bool measure_sizes(struct bench *bench)
{
    struct measurement *result = bench->result;
    for (size_t i = 0; i < PAGE_SIZES && sizes[i].size <= bench->block; i++) {
        uint64_t found[PAGE_CALLS] = {0};
        bench->page_size = sizes[i].size;
        if (!bench_is_good(bench, measure_size(bench, sizes[i].rounds, found), "pages"))
            return false;
        result->page_sizes[result->page_size_count] = sizes[i].size;
        for (size_t call = 0; call < PAGE_CALLS; call++)
            result->page_times[call][result->page_size_count] = found[call];
        result->page_size_count++;
    }
    return true;
}

static void fit_calls(struct bench *bench)
{
    const struct measurement *result = bench->result;
    for (int call = 0; call < PAGE_CALLS; call++) {
        struct sample samples[PAGE_SIZES];
        for (size_t i = 0; i < result->page_size_count; i++)
            samples[i] = (struct sample){ .size = result->page_sizes[i], .time = result->page_times[call][i] };
        bench_found(bench, (enum cost_id)(COST_page_create + call), fit_cost(samples, result->page_size_count));
    }
}

bool measure_pages(struct bench *bench)
{
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_MAPPING, NULL, 0))
        return true;
    if (!measure_sizes(bench))
        return false;
    fit_calls(bench);
    return true;
}
