/* SPDX-License-Identifier: MIT */
/*
 * What Weir rescues: a request behind a pending free. Each raw case has to fail for the figure to mean anything; a driver on which it does
 * not is reported, and the case is left out.
 */
#include "bench/section.h"

#define KERNEL UINT64_C(300000000) /* ns */

/*
 * With CUDA's defaults a request in the *same* pool is served by making its stream wait for the freeing one (internal dependencies), so the
 * cases are those in which CUDA gives up: another pool, and the same pool with internal dependencies switched off.
 */
static const struct pending_case {
    const char *name;
    const char *policy;
    bool same_pool;
} pending_cases[] = {
    {"another pool",
     "weir: 1\n"
     "defaults: { pool: freed }\n"
     "pools: { freed: { devices: [0], on_oom: { deadline: 5s } }, wanted: { devices: [0], on_oom: { deadline: 5s } } }\n",
     false},
    {"same pool, no internal dependencies",
     "weir: 1\n"
     "pools: { freed: { devices: [0], reuse: { internal_dependencies: false }, on_oom: { deadline: 5s } } }\n",
     true},
};

struct pending {
    const struct bench *bench;
    cudaStream_t a, b;           /* freed on a, wanted on b; of both sides */
    cudaMemPool_t freed, wanted; /* raw pools */
    weir *w;
    weir_pool *weir_freed, *weir_wanted;
    size_t size;
};

/* Starts the kernel on a and says when. */
static uint64_t start_kernel(const struct pending *pending)
{
    uint64_t start = bench_now();
    shared_delay(pending->bench, pending->a, KERNEL);
    return start;
}

/* How long the kernel that was started then still runs. */
static double kernel_left(uint64_t started, uint64_t at)
{
    return at - started < KERNEL ? (double)(KERNEL - (at - started)) : 0;
}

/* failed: the time of the failed attempt. retry: synchronise and retry, less the rest of the kernel. False if the raw request succeeds. */
static bool pending_raw(const struct pending *pending, double *failed, double *retry)
{
    void *block;
    BENCH_CUDA(cudaMallocFromPoolAsync(&block, pending->size, pending->freed, pending->a));
    BENCH_CUDA(cudaStreamSynchronize(pending->a));
    uint64_t started = start_kernel(pending);
    BENCH_CUDA(cudaFreeAsync(block, pending->a));
    uint64_t asked = bench_now();
    cudaError_t code = cudaMallocFromPoolAsync(&block, pending->size, pending->wanted, pending->b);
    uint64_t refused = bench_now();
    bool fails = !shared_is_room(code);
    BENCH_CUDA(cudaStreamSynchronize(pending->a));
    if (fails) {
        BENCH_CUDA(cudaMallocFromPoolAsync(&block, pending->size, pending->wanted, pending->b));
        *retry = (double)(bench_now() - refused) - kernel_left(started, refused);
        *failed = (double)(refused - asked);
    }
    BENCH_CUDA(cudaFreeAsync(block, pending->b));
    BENCH_CUDA(cudaStreamSynchronize(pending->b));
    BENCH_CUDA(cudaMemPoolTrimTo(pending->freed, 0));
    BENCH_CUDA(cudaMemPoolTrimTo(pending->wanted, 0));
    return fails;
}

/* The time of the request, less the rest of the kernel at its start. */
static double pending_weir(const struct pending *pending)
{
    void *block;
    shared_check(weir_pool_malloc(pending->weir_freed, &block, pending->size, pending->a), "weir_pool_malloc on an empty device");
    BENCH_CUDA(cudaStreamSynchronize(pending->a));
    uint64_t started = start_kernel(pending);
    shared_check(weir_free(pending->w, block, pending->a), "weir_free");
    uint64_t asked = bench_now();
    weir_status status = weir_pool_malloc(pending->weir_wanted, &block, pending->size, pending->b);
    uint64_t served = bench_now();
    shared_check(status, "weir_pool_malloc behind a pending free");
    shared_check(weir_free(pending->w, block, pending->b), "weir_free");
    BENCH_CUDA(cudaStreamSynchronize(pending->b));
    shared_empty(pending->weir_freed);
    shared_empty(pending->weir_wanted);
    return (double)(served - asked) - kernel_left(started, asked);
}

static void measure_pending(struct bench *bench, const struct pending *pending, const char *case_name)
{
    struct bench_series ours = {.name = "weir, beyond the kernel"}, failed = {.name = "raw failed attempt"};
    struct bench_series retry = {.name = "raw synchronise and retry, beyond the kernel"};
    for (size_t i = 0; i < bench->repetitions; i++) {
        double failed_ns, retry_ns;
        if (!pending_raw(pending, &failed_ns, &retry_ns)) {
            printf("pending  %s: left out: on this driver the raw request behind a pending free succeeds\n", case_name);
            return;
        }
        bench_add(&failed, failed_ns);
        bench_add(&retry, retry_ns);
        bench_add(&ours, pending_weir(pending));
    }
    char name[120];
    snprintf(name, sizeof(name), "%zu GiB, %s", pending->size / GIB, case_name);
    struct bench_figure *figure = bench_figure_of(&bench->report, "pending", name, &ours, &failed, &retry);
    bench_show(figure, bench_median(&ours) / (bench_median(&failed) + bench_median(&retry)), "x", BENCH_AT_MOST, 1.2);
}

static cudaMemPool_t pending_pool(bool internal_dependencies)
{
    cudaMemPool_t pool = shared_raw_pool(UINT64_MAX);
    int value = internal_dependencies;
    BENCH_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &value));
    return pool;
}

static void pending_one(struct bench *bench, const struct pending_case *one)
{
    struct side side = side_weir(bench, "pending", one->policy, 2);
    struct pending pending = {.bench = bench, .a = side.streams[0], .b = side.streams[1], .w = side.w};
    pending.freed = pending_pool(!one->same_pool);
    pending.wanted = one->same_pool ? pending.freed : pending_pool(true);
    shared_check(weir_pool_get(pending.w, "freed", 0, NULL, &pending.weir_freed), "weir_pool_get");
    shared_check(weir_pool_get(pending.w, one->same_pool ? "freed" : "wanted", 0, NULL, &pending.weir_wanted), "weir_pool_get");
    pending.size = shared_big_size(bench->memory, 120 * GIB, 85);
    /* The first delay compiles the kernel. */
    shared_delay(bench, pending.a, 1000);
    BENCH_CUDA(cudaStreamSynchronize(pending.a));
    measure_pending(bench, &pending, one->name);
    if (pending.wanted != pending.freed)
        shared_destroy_raw(pending.wanted);
    shared_destroy_raw(pending.freed);
    side_close(&side);
}

void section_pending(struct bench *bench)
{
    for (size_t i = 0; i < COUNT_OF(pending_cases); i++)
        pending_one(bench, &pending_cases[i]);
}
