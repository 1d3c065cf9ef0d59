/* SPDX-License-Identifier: MIT */
/*
 * What Weir rescues: memory that small blocks pin. The raw request after it is expected to fail; the figure says how often it did.
 */
#include "bench/section.h"

#include <stdlib.h>

static const char policy[] = "weir: 1\n"
                             "pools: { p: { devices: [0], release_threshold: all, small_below: 1MiB, on_oom: { deadline: 5s } } }\n";

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
    cudaMemPool_t pool = shared_raw_pool(UINT64_MAX);
    for (size_t i = 0; i < small->blocks; i++) {
        BENCH_CUDA(cudaMallocFromPoolAsync(&small->live[i], SMALL_BLOCK, pool, small->stream));
        BENCH_CUDA(cudaMallocFromPoolAsync(&small->freed[i], LARGE_BLOCK, pool, small->stream));
    }
    for (size_t i = 0; i < small->blocks; i++)
        BENCH_CUDA(cudaFreeAsync(small->freed[i], small->stream));
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    outcome.idle_before = raw_idle(pool);
    shared_empty_raw(pool);
    outcome.idle_after = raw_idle(pool);
    uint64_t start, end;
    outcome.served = !shared_fails_raw(small->request, pool, small->stream, &start, &end);
    outcome.request_ns = (double)(end - start);
    for (size_t i = 0; i < small->blocks; i++)
        BENCH_CUDA(cudaFreeAsync(small->live[i], small->stream));
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    shared_destroy_raw(pool);
    return outcome;
}

static weir_pool *pool_of(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    if (weir_pool_get(w, NULL, 0, &error, &pool) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_pool_get", error.text);
    return pool;
}

static struct outcome small_weir(struct small *small)
{
    struct outcome outcome;
    weir *w = shared_weir("cuda", policy);
    weir_stream *s = shared_open_stream(w, small->stream, NULL);
    for (size_t i = 0; i < small->blocks; i++) {
        shared_check(weir_stream_malloc(s, &small->live[i], SMALL_BLOCK), "weir_stream_malloc");
        shared_check(weir_stream_malloc(s, &small->freed[i], LARGE_BLOCK), "weir_stream_malloc");
    }
    for (size_t i = 0; i < small->blocks; i++)
        shared_check(weir_stream_free(s, small->freed[i]), "weir_stream_free");
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    outcome.idle_before = (double)shared_figures(w).idle;
    shared_empty(pool_of(w));
    outcome.idle_after = (double)shared_figures(w).idle;
    void *block;
    uint64_t start = bench_now();
    weir_status status = weir_stream_malloc(s, &block, small->request);
    outcome.request_ns = (double)(bench_now() - start);
    outcome.served = status == WEIR_OK;
    if (outcome.served)
        shared_check(weir_stream_free(s, block), "weir_stream_free");
    else if (status != WEIR_OUT_OF_MEMORY)
        shared_check(status, "weir_stream_malloc");
    for (size_t i = 0; i < small->blocks; i++)
        shared_check(weir_stream_free(s, small->live[i]), "weir_stream_free");
    BENCH_CUDA(cudaStreamSynchronize(small->stream));
    weir_stream_close(s);
    weir_close(w);
    return outcome;
}

void section_small(struct bench *bench)
{
    shared_policy(bench, "small", policy);
    struct bench_figure *back = bench_figure_new(&bench->report, "small", "idle memory that a trim gives back");
    struct bench_series *before = bench_series_new(back, "weir before"), *after = bench_series_new(back, "weir after");
    struct bench_series *raw_before = bench_series_new(back, "raw before"), *raw_after = bench_series_new(back, "raw after");
    struct bench_series ours = {.name = "weir"}, raw = {.name = "raw"};
    size_t served = 0, raw_served = 0;
    struct small *small = calloc(1, sizeof(*small));
    if (!small)
        bench_die(__FILE__, __LINE__, "calloc", "out of memory");
    small->stream = shared_stream();
    small->request = shared_big_size(bench->memory, 110 * GIB, 78);
    /* About a third of the device: with it pinned, the request cannot fit. */
    uint64_t third = bench->memory / 100 * 34 / LARGE_BLOCK;
    small->blocks = third < BLOCKS ? (size_t)third : BLOCKS;
    if (small->request == 110 * GIB)
        small->blocks = BLOCKS;
    for (size_t i = 0; i < bench->repetitions; i++) {
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
    bench_figure_value(back, 100 * (1 - bench_median(after) / bench_median(before)), "%", BENCH_AT_LEAST, 99);
    bench_print(stdout, back);
    char name[80];
    snprintf(name, sizeof(name), "%zu MiB served after it (raw: %zu of %zu times)", small->request / MIB, raw_served, bench->repetitions);
    struct bench_figure *request = bench_figure_of(&bench->report, "small", name, &ours, &raw);
    bench_figure_value(request, 100.0 * (double)served / (double)bench->repetitions, "%", BENCH_AT_LEAST, 100);
    bench_print(stdout, request);
    BENCH_CUDA(cudaStreamDestroy(small->stream));
    free(small);
}
