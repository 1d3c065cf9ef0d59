/* SPDX-License-Identifier: MIT */
/*
 * How fast the plain path is: pairs, opening, and the loop in which the release threshold decides.
 */
#include "bench/figures.h"

#include <string.h>

/* Pairs -------------------------------------------------------------------------------------------------------------------------------- */

#define PAIRS 20000 /* about 10 ms for one sample */

struct pairs {
    weir *w;
    weir_stream *opened;
    cudaStream_t opened_handle, plain; /* plain: Weir was not told of it */
    cudaMemPool_t pool;
    size_t size;
};

/* Each runs `count` pairs and says what went wrong, if anything. */
static const char *raw_pairs(const struct pairs *pairs, size_t count)
{
    cudaError_t code = cudaSuccess;
    for (size_t i = 0; i < count && code == cudaSuccess; i++) {
        void *block;
        code = cudaMallocFromPoolAsync(&block, pairs->size, pairs->pool, pairs->plain);
        if (code == cudaSuccess)
            code = cudaFreeAsync(block, pairs->plain);
    }
    return code == cudaSuccess ? NULL : cudaGetErrorString(code);
}

static const char *weir_pairs(const struct pairs *pairs, size_t count, cudaStream_t stream)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        void *block;
        status = weir_malloc(pairs->w, &block, pairs->size, 0, stream);
        if (status == WEIR_OK)
            status = weir_free(pairs->w, block, stream);
    }
    return status == WEIR_OK ? NULL : weir_status_text(status);
}

static const char *opened_pairs(const struct pairs *pairs, size_t count)
{
    return weir_pairs(pairs, count, pairs->opened_handle);
}

static const char *plain_pairs(const struct pairs *pairs, size_t count)
{
    return weir_pairs(pairs, count, pairs->plain);
}

static const char *stream_pairs(const struct pairs *pairs, size_t count)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        void *block;
        status = weir_stream_malloc(pairs->opened, &block, pairs->size);
        if (status == WEIR_OK)
            status = weir_stream_free(pairs->opened, block);
    }
    return status == WEIR_OK ? NULL : weir_status_text(status);
}

static const struct variant {
    const char *name;
    const char *(*run)(const struct pairs *pairs, size_t count);
} variants[] = {
    { "raw", raw_pairs },
    { "weir_malloc, opened stream", opened_pairs },
    { "weir_malloc, other stream", plain_pairs },
    { "weir_stream_malloc", stream_pairs },
};
#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

static double time_pairs(const struct pairs *pairs, const struct variant *variant)
{
    /* One pair outside the clock, so that no sample grows a pool or takes over what another stream freed. */
    const char *wrong = variant->run(pairs, 1);
    BENCH_CUDA(cudaDeviceSynchronize());
    uint64_t start = bench_now();
    if (!wrong)
        wrong = variant->run(pairs, PAIRS);
    uint64_t end = bench_now();
    if (wrong)
        bench_die(__FILE__, __LINE__, variant->name, wrong);
    return (double)(end - start) / PAIRS;
}

static void measure_size(struct figures *figures, struct pairs *pairs, const char *size_name)
{
    struct bench_series series[VARIANT_COUNT];
    memset(series, 0, sizeof(series));
    for (size_t v = 0; v < VARIANT_COUNT; v++) {
        series[v].name = variants[v].name;
        time_pairs(pairs, &variants[v]);
    }
    for (size_t i = 0; i < figures->repetitions; i++) {
        for (size_t v = 0; v < VARIANT_COUNT; v++)
            bench_add(&series[v], time_pairs(pairs, &variants[v]));
    }
    for (size_t v = 1; v < VARIANT_COUNT; v++) {
        char name[80];
        snprintf(name, sizeof(name), "%s, %s", size_name, variants[v].name);
        struct bench_figure *figure = bench_figure_new(&figures->report, "pairs", name);
        *bench_series_new(figure, "weir") = series[v];
        figure->series[0].name = "weir";
        *bench_series_new(figure, "raw") = series[0];
        figure->value = bench_median(&series[v]) / bench_median(&series[0]);
        figure->value_unit = "x";
        figure->limit = 1.2;
        bench_print(figure);
    }
}

void figures_pairs(struct figures *figures)
{
    static const struct {
        const char *name;
        size_t size;
    } sizes[] = {
        { "512 B", 512 },         { "4 KiB", 4 * KIB },   { "64 KiB", 64 * KIB }, { "1 MiB", MIB },
        { "16 MiB", 16 * MIB },   { "64 MiB", 64 * MIB }, { "1 GiB", GIB },
    };
    struct pairs pairs = { .opened_handle = figures_stream(), .plain = figures_stream(), .pool = figures_raw_pool(UINT64_MAX) };
    pairs.w = figures_weir("weir: 1\npools: { p: { devices: [0], release_threshold: all } }\n");
    pairs.opened = figures_open_stream(pairs.w, pairs.opened_handle);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pairs.size = sizes[i].size;
        measure_size(figures, &pairs, sizes[i].name);
    }
    weir_stream_close(pairs.opened);
    weir_close(pairs.w);
    BENCH_CUDA(cudaMemPoolDestroy(pairs.pool));
    BENCH_CUDA(cudaStreamDestroy(pairs.opened_handle));
    BENCH_CUDA(cudaStreamDestroy(pairs.plain));
}

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

/* What CUDA has to be called for to set up and tear down the same pools: facts of each device, a pool and its small twin, all settings. */
static void open_bare(void)
{
    int count, driver, attribute;
    struct cudaDeviceProp properties;
    BENCH_CUDA(cudaGetDeviceCount(&count));
    BENCH_CUDA(cudaDriverGetVersion(&driver));
    for (int device = 0; device < count; device++) {
        BENCH_CUDA(cudaGetDeviceProperties(&properties, device));
        BENCH_CUDA(cudaDeviceGetAttribute(&attribute, cudaDevAttrMemoryPoolsSupported, device));
    }
    cudaMemPool_t pools[2];
    for (size_t i = 0; i < 2; i++) {
        int yes = 1;
        pools[i] = figures_raw_pool(UINT64_MAX);
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseFollowEventDependencies, &yes));
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseAllowOpportunistic, &yes));
        BENCH_CUDA(cudaMemPoolSetAttribute(pools[i], cudaMemPoolReuseAllowInternalDependencies, &yes));
    }
    for (size_t i = 0; i < 2; i++)
        BENCH_CUDA(cudaMemPoolDestroy(pools[i]));
}

static void open_weir(void)
{
    weir_close(figures_weir("weir: 1\n"
                            "defaults: { pool: activations }\n"
                            "pools:\n"
                            "  activations:\n"
                            "    devices: [0]\n"
                            "    release_threshold: all\n"
                            "    small_below: 1MiB\n"
                            "    reuse: { event_dependencies: true, opportunistic: true, internal_dependencies: true }\n"
                            "    on_oom: { steps: [flush, wait, trim, callbacks], deadline: 1s }\n"
                            "streams:\n"
                            "  infer: { pool: activations }\n"));
}

static double time_call(void (*call)(void))
{
    uint64_t start = bench_now();
    call();
    return (double)(bench_now() - start);
}

void figures_open(struct figures *figures)
{
    struct bench_figure *figure = bench_figure_new(&figures->report, "open", "weir_open and weir_close, less bare calls");
    struct bench_series *ours = bench_series_new(figure, "weir");
    struct bench_series *bare = bench_series_new(figure, "bare calls");
    time_call(open_bare);
    time_call(open_weir);
    for (size_t i = 0; i < figures->repetitions; i++) {
        bench_add(bare, time_call(open_bare));
        bench_add(ours, time_call(open_weir));
    }
    figure->value = (bench_median(ours) - bench_median(bare)) / 1e6;
    figure->value_unit = "ms";
    figure->limit = 1;
    bench_print(figure);
}

/* The loop ----------------------------------------------------------------------------------------------------------------------------- */

#define LOOPS 2000     /* a few microseconds each */
#define SLOW_LOOPS 10  /* more than a millisecond each: threshold 0 gives 1 GiB back every time */

static double time_raw_loop(cudaMemPool_t pool, cudaStream_t stream, size_t loops)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < loops; i++) {
        void *block;
        BENCH_CUDA(cudaMallocFromPoolAsync(&block, GIB, pool, stream));
        BENCH_CUDA(cudaFreeAsync(block, stream));
        BENCH_CUDA(cudaStreamSynchronize(stream));
    }
    return (double)(bench_now() - start) / (double)loops;
}

static double time_weir_loop(weir *w, cudaStream_t stream, size_t loops)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < loops; i++) {
        void *block;
        figures_check(weir_malloc(w, &block, GIB, 0, stream), "weir_malloc");
        figures_check(weir_free(w, block, stream), "weir_free");
        BENCH_CUDA(cudaStreamSynchronize(stream));
    }
    return (double)(bench_now() - start) / (double)loops;
}

void figures_loop(struct figures *figures)
{
    struct bench_figure *same = bench_figure_new(&figures->report, "loop", "threshold 2 GiB, against raw with 2 GiB");
    struct bench_series *ours = bench_series_new(same, "weir");
    struct bench_series *raw = bench_series_new(same, "raw");
    struct bench_series none = { .name = "raw, threshold 0" };
    cudaStream_t stream = figures_stream();
    cudaMemPool_t kept = figures_raw_pool(2 * GIB), released = figures_raw_pool(0);
    weir *w = figures_weir("weir: 1\npools: { p: { devices: [0], release_threshold: 2GiB } }\n");
    weir_stream *s = figures_open_stream(w, stream);
    time_weir_loop(w, stream, 2);
    time_raw_loop(kept, stream, 2);
    time_raw_loop(released, stream, 2);
    for (size_t i = 0; i < figures->repetitions; i++) {
        bench_add(ours, time_weir_loop(w, stream, LOOPS));
        bench_add(raw, time_raw_loop(kept, stream, LOOPS));
        bench_add(&none, time_raw_loop(released, stream, SLOW_LOOPS));
    }
    same->value = bench_median(ours) / bench_median(raw);
    same->value_unit = "x";
    same->limit = 1.2;
    bench_print(same);
    struct bench_figure *faster = bench_figure_new(&figures->report, "loop", "times faster than raw with threshold 0");
    *bench_series_new(faster, "weir") = *ours;
    *bench_series_new(faster, none.name) = none;
    faster->value = bench_median(&none) / bench_median(ours);
    faster->value_unit = "x";
    faster->at_least = true;
    faster->limit = 300;
    bench_print(faster);
    weir_stream_close(s);
    weir_close(w);
    BENCH_CUDA(cudaMemPoolDestroy(kept));
    BENCH_CUDA(cudaMemPoolDestroy(released));
    BENCH_CUDA(cudaStreamDestroy(stream));
}
