/* SPDX-License-Identifier: MIT */
/*
 * What Weir rescues: a request behind a pending free, and memory that small blocks pin. Each raw case has to fail for the figure to mean
 * anything; a driver on which it does not is reported, and the case is left out.
 */
#include "bench/figures.h"

#include <stdlib.h>
#include <string.h>

static const char policy[] = "weir: 1\n"
                             "pools: { p: { devices: [0], release_threshold: all, small_below: 1MiB, on_oom: { deadline: 5s } } }\n";

/* Gives all that the raw pool holds back to the device. Precondition: nothing of it is live, and its frees were seen complete. */
static void empty_raw(cudaMemPool_t pool)
{
    BENCH_CUDA(cudaMemPoolTrimTo(pool, 0));
}

static void empty_weir(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    if (weir_pool_get(w, "p", 0, &error, &pool) != WEIR_OK || weir_pool_trim(pool, 0, &error, NULL) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_pool_trim", error.text);
}

/* Asks for memory raw, where it is expected to fail: true and the time that it took. False if it succeeded; then it is freed again. */
static bool fails_raw(size_t size, cudaMemPool_t pool, cudaStream_t stream, uint64_t *start, uint64_t *end)
{
    void *block;
    *start = bench_now();
    cudaError_t code = cudaMallocFromPoolAsync(&block, size, pool, stream);
    *end = bench_now();
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return true;
    }
    BENCH_CUDA(code);
    BENCH_CUDA(cudaFreeAsync(block, stream));
    BENCH_CUDA(cudaStreamSynchronize(stream));
    return false;
}

/* Pending free ------------------------------------------------------------------------------------------------------------------------- */

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
    { "another pool",
      "weir: 1\n"
      "defaults: { pool: freed }\n"
      "pools: { freed: { devices: [0], on_oom: { deadline: 5s } }, wanted: { devices: [0], on_oom: { deadline: 5s } } }\n",
      false },
    { "same pool, no internal dependencies",
      "weir: 1\n"
      "pools: { freed: { devices: [0], reuse: { internal_dependencies: false }, on_oom: { deadline: 5s } } }\n",
      true },
};

struct pending {
    const struct gpu *gpu;
    cudaStream_t a, b;          /* freed on a, wanted on b */
    cudaMemPool_t freed, wanted; /* raw pools */
    weir *w;
    weir_pool *weir_freed, *weir_wanted;
    size_t size;
};

/* Starts the kernel on a and says when. */
static uint64_t start_kernel(const struct pending *pending)
{
    uint64_t start = bench_now();
    int code = pending->gpu->delay(pending->a, KERNEL);
    if (code)
        bench_die(__FILE__, __LINE__, "delay", pending->gpu->code_text(code));
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
    uint64_t started = start_kernel(pending), asked, refused;
    BENCH_CUDA(cudaFreeAsync(block, pending->a));
    bool fails = fails_raw(pending->size, pending->wanted, pending->b, &asked, &refused);
    BENCH_CUDA(cudaStreamSynchronize(pending->a));
    if (fails) {
        BENCH_CUDA(cudaMallocFromPoolAsync(&block, pending->size, pending->wanted, pending->b));
        *retry = (double)(bench_now() - refused) - kernel_left(started, refused);
        *failed = (double)(refused - asked);
        BENCH_CUDA(cudaFreeAsync(block, pending->b));
        BENCH_CUDA(cudaStreamSynchronize(pending->b));
    }
    empty_raw(pending->freed);
    empty_raw(pending->wanted);
    return fails;
}

static void empty_pool(weir_pool *pool)
{
    weir_error error = WEIR_ERROR_INIT;
    if (weir_pool_trim(pool, 0, &error, NULL) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_pool_trim", error.text);
}

/* The time of the request, less the rest of the kernel at its start. */
static double pending_weir(const struct pending *pending)
{
    void *block;
    figures_check(weir_pool_malloc(pending->weir_freed, &block, pending->size, pending->a), "weir_pool_malloc on an empty device");
    BENCH_CUDA(cudaStreamSynchronize(pending->a));
    uint64_t started = start_kernel(pending);
    figures_check(weir_free(pending->w, block, pending->a), "weir_free");
    uint64_t asked = bench_now();
    weir_status status = weir_pool_malloc(pending->weir_wanted, &block, pending->size, pending->b);
    uint64_t served = bench_now();
    figures_check(status, "weir_pool_malloc behind a pending free");
    figures_check(weir_free(pending->w, block, pending->b), "weir_free");
    BENCH_CUDA(cudaStreamSynchronize(pending->b));
    empty_pool(pending->weir_freed);
    empty_pool(pending->weir_wanted);
    return (double)(served - asked) - kernel_left(started, asked);
}

static void measure_pending(struct figures *figures, const struct pending *pending, const char *case_name)
{
    struct bench_series ours = { .name = "weir, beyond the kernel" }, failed = { .name = "raw failed attempt" };
    struct bench_series retry = { .name = "raw synchronise and retry, beyond the kernel" };
    for (size_t i = 0; i < figures->repetitions; i++) {
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
    struct bench_figure *figure = bench_figure_new(&figures->report, "pending", name);
    *bench_series_new(figure, ours.name) = ours;
    *bench_series_new(figure, failed.name) = failed;
    *bench_series_new(figure, retry.name) = retry;
    figure->value = bench_median(&ours) / (bench_median(&failed) + bench_median(&retry));
    figure->value_unit = "x";
    figure->limit = 1.2;
    bench_print(figure);
}

/* The size that leaves no room for a second one: wanted where the device is large enough for it, else so many hundredths of it. */
static size_t big_size(uint64_t memory, uint64_t wanted, uint64_t hundredths)
{
    uint64_t size = memory >= wanted + 12 * GIB ? wanted : memory / 100 * hundredths;
    return (size_t)(size - size % (32 * MIB));
}

static cudaMemPool_t pending_pool(bool internal_dependencies)
{
    cudaMemPool_t pool = figures_raw_pool(UINT64_MAX);
    int value = internal_dependencies;
    BENCH_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &value));
    return pool;
}

static void pending_one(struct figures *figures, const struct pending_case *one)
{
    struct pending pending = { .gpu = figures->gpu, .a = figures_stream(), .b = figures_stream() };
    pending.freed = pending_pool(!one->same_pool);
    pending.wanted = one->same_pool ? pending.freed : pending_pool(true);
    pending.w = figures_weir(one->policy);
    figures_check(weir_pool_get(pending.w, "freed", 0, NULL, &pending.weir_freed), "weir_pool_get");
    figures_check(weir_pool_get(pending.w, one->same_pool ? "freed" : "wanted", 0, NULL, &pending.weir_wanted), "weir_pool_get");
    pending.size = big_size(figures->memory, 120 * GIB, 85);
    weir_stream *a = figures_open_stream(pending.w, pending.a), *b = figures_open_stream(pending.w, pending.b);
    /* The first delay compiles the kernel. */
    int code = pending.gpu->delay(pending.a, 1000);
    if (code)
        bench_die(__FILE__, __LINE__, "delay", pending.gpu->code_text(code));
    BENCH_CUDA(cudaStreamSynchronize(pending.a));
    measure_pending(figures, &pending, one->name);
    weir_stream_close(a);
    weir_stream_close(b);
    weir_close(pending.w);
    if (pending.wanted != pending.freed)
        BENCH_CUDA(cudaMemPoolDestroy(pending.wanted));
    BENCH_CUDA(cudaMemPoolDestroy(pending.freed));
    BENCH_CUDA(cudaStreamDestroy(pending.a));
    BENCH_CUDA(cudaStreamDestroy(pending.b));
}

void figures_pending(struct figures *figures)
{
    for (size_t i = 0; i < sizeof(pending_cases) / sizeof(pending_cases[0]); i++)
        pending_one(figures, &pending_cases[i]);
}

/* Small blocks ------------------------------------------------------------------------------------------------------------------------- */

#define BLOCKS 2048 /* small ones that stay, and as many large ones between them that go */
#define SMALL_BLOCK (64 * KIB)
#define LARGE_BLOCK (24 * MIB)

/* What one run of the case showed. */
struct outcome {
    double idle_before, idle_after; /* bytes, around the trim */
    double request_ns;              /* the large request after it */
    bool served;
};

struct small {
    cudaStream_t stream;
    size_t blocks;
    size_t request;
    void *live[BLOCKS], *freed[BLOCKS];
};

static double raw_idle(cudaMemPool_t pool)
{
    uint64_t reserved, used;
    BENCH_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    BENCH_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    return (double)(reserved - used);
}

static struct outcome small_raw(struct small *small)
{
    struct outcome outcome;
    cudaMemPool_t pool = figures_raw_pool(UINT64_MAX);
    for (size_t i = 0; i < small->blocks; i++) {
        BENCH_CUDA(cudaMallocFromPoolAsync(&small->live[i], SMALL_BLOCK, pool, small->stream));
        BENCH_CUDA(cudaMallocFromPoolAsync(&small->freed[i], LARGE_BLOCK, pool, small->stream));
    }
    for (size_t i = 0; i < small->blocks; i++)
        BENCH_CUDA(cudaFreeAsync(small->freed[i], small->stream));
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    outcome.idle_before = raw_idle(pool);
    BENCH_CUDA(cudaMemPoolTrimTo(pool, 0));
    outcome.idle_after = raw_idle(pool);
    uint64_t start, end;
    outcome.served = !fails_raw(small->request, pool, small->stream, &start, &end);
    outcome.request_ns = (double)(end - start);
    for (size_t i = 0; i < small->blocks; i++)
        BENCH_CUDA(cudaFreeAsync(small->live[i], small->stream));
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    BENCH_CUDA(cudaMemPoolDestroy(pool));
    return outcome;
}

static double weir_idle(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    if (weir_stats_take(w, &error, &stats) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_stats_take", error.text);
    uint64_t idle = 0;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        idle += weir_stats_pool(stats, i)->idle;
    weir_stats_free(stats);
    return (double)idle;
}

static struct outcome small_weir(struct small *small)
{
    struct outcome outcome;
    weir *w = figures_weir(policy);
    weir_stream *s = figures_open_stream(w, small->stream);
    for (size_t i = 0; i < small->blocks; i++) {
        figures_check(weir_stream_malloc(s, &small->live[i], SMALL_BLOCK), "weir_stream_malloc");
        figures_check(weir_stream_malloc(s, &small->freed[i], LARGE_BLOCK), "weir_stream_malloc");
    }
    for (size_t i = 0; i < small->blocks; i++)
        figures_check(weir_stream_free(s, small->freed[i]), "weir_stream_free");
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    outcome.idle_before = weir_idle(w);
    empty_weir(w);
    outcome.idle_after = weir_idle(w);
    void *block;
    uint64_t start = bench_now();
    weir_status status = weir_stream_malloc(s, &block, small->request);
    outcome.request_ns = (double)(bench_now() - start);
    outcome.served = status == WEIR_OK;
    if (outcome.served)
        figures_check(weir_stream_free(s, block), "weir_stream_free");
    else if (status != WEIR_OUT_OF_MEMORY)
        figures_check(status, "weir_stream_malloc");
    for (size_t i = 0; i < small->blocks; i++)
        figures_check(weir_stream_free(s, small->live[i]), "weir_stream_free");
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    weir_stream_close(s);
    weir_close(w);
    return outcome;
}

void figures_small(struct figures *figures)
{
    struct bench_figure *back = bench_figure_new(&figures->report, "small", "idle memory that a trim gives back");
    struct bench_series *before = bench_series_new(back, "weir before"), *after = bench_series_new(back, "weir after");
    struct bench_series *raw_before = bench_series_new(back, "raw before"), *raw_after = bench_series_new(back, "raw after");
    struct bench_series ours = { .name = "weir" }, raw = { .name = "raw" };
    size_t served = 0, raw_served = 0;
    struct small *small = calloc(1, sizeof(*small));
    if (!small)
        bench_die(__FILE__, __LINE__, "calloc", "out of memory");
    small->stream = figures_stream();
    small->request = big_size(figures->memory, 110 * GIB, 78);
    /* About a third of the device: with it pinned, the request cannot fit. */
    uint64_t third = figures->memory / 100 * 34 / LARGE_BLOCK;
    small->blocks = third < BLOCKS ? (size_t)third : BLOCKS;
    if (small->request == 110 * GIB)
        small->blocks = BLOCKS;
    for (size_t i = 0; i < figures->repetitions; i++) {
        struct outcome outcome = small_raw(small);
        bench_add(raw_before, outcome.idle_before);
        bench_add(raw_after, outcome.idle_after);
        bench_add(&raw, outcome.request_ns);
        raw_served += outcome.served;
        outcome = small_weir(small);
        bench_add(before, outcome.idle_before);
        bench_add(after, outcome.idle_after);
        bench_add(&ours, outcome.request_ns);
        served += outcome.served;
    }
    back->unit = "bytes";
    back->value = 100 * (1 - bench_median(after) / bench_median(before));
    back->value_unit = "%";
    back->at_least = true;
    back->limit = 99;
    bench_print(back);
    char name[80];
    snprintf(name, sizeof(name), "%zu MiB served after it (raw: %zu of %zu times)", small->request / MIB, raw_served, figures->repetitions);
    struct bench_figure *request = bench_figure_new(&figures->report, "small", name);
    *bench_series_new(request, ours.name) = ours;
    *bench_series_new(request, raw.name) = raw;
    request->value = 100.0 * (double)served / (double)figures->repetitions;
    request->value_unit = "%";
    request->at_least = true;
    request->limit = 100;
    bench_print(request);
    BENCH_CUDA(cudaStreamDestroy(small->stream));
    free(small);
}
