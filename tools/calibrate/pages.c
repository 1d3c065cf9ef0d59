/* SPDX-License-Identifier: MIT */
/* pages.c - pages that are mapped into a range of addresses, by their size. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"

#define ROUNDS_MAX 64
#define PAGE_SIZES 5
#define PAGE_CALLS 5 /* COST_page_create and those behind it */

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

/* Each call of a page of each size there is room for. Returns how many sizes these are; 0 after a complaint. */
static size_t measure_sizes(struct bench *bench, struct sample samples[static PAGE_CALLS][PAGE_SIZES])
{
    size_t count = 0;
    for (; count < PAGE_SIZES && sizes[count].size <= bench->block; count++) {
        uint64_t found[PAGE_CALLS] = {0};
        bench->page_size = sizes[count].size;
        if (!bench_is_good(bench, measure_size(bench, sizes[count].rounds, found), "pages"))
            return 0;
        for (size_t call = 0; call < PAGE_CALLS; call++)
            samples[call][count] = (struct sample){ .size = bench->page_size, .time = found[call] };
    }
    return count;
}

bool measure_pages(struct bench *bench)
{
    struct sample samples[PAGE_CALLS][PAGE_SIZES];
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_MAPPING, NULL, 0))
        return true;
    size_t count = measure_sizes(bench, samples);
    for (int call = 0; call < PAGE_CALLS && count; call++)
        bench_found(bench, (enum cost_id)(COST_page_create + call), fit_cost(samples[call], count));
    return count > 0;
}
