/* SPDX-License-Identifier: MIT */
/*
 * How long an allocation and its free take on one thread, when the memory is there: the raw calls, Weir passing them through, and Weir's
 * stream caches, with and without the question whether the stream captures.
 */
#include "bench/crowd.h"

#include <string.h>

#define PAIRS 20000       /* of a few hundred nanoseconds: about 10 ms for one sample */
#define SLOW_PAIRS 50     /* cudaMalloc and cudaFree: 50 to 300 us each */
#define CACHE_LARGEST MIB /* the default of cache.largest */
#define LONE (64 * MIB)   /* the largest block that a stream keeps alone, above that */

/* The policies under test. Every weir has an opened stream of its own. */
enum which { OFF, SHIPPED, DEFAULT, UNCHECKED, LARGE, LARGE_UNCHECKED, WEIR_COUNT };

static const char *const policies[WEIR_COUNT] = {
    [OFF] = "weir: 1\npools: { p: { devices: [0], cache: off } }\n",
    [SHIPPED] = "config/default.yaml",
    [DEFAULT] = "weir: 1\npools: { p: { devices: [0] } }\n",
    [UNCHECKED] = "weir: 1\npools: { p: { devices: [0], cache: { capture_check: false } } }\n",
    [LARGE] = "weir: 1\npools: { p: { devices: [0], cache: { per_stream: 4GiB, per_device: 8GiB, largest: 1GiB } } }\n",
    [LARGE_UNCHECKED] =
        "weir: 1\npools: { p: { devices: [0], cache: { per_stream: 4GiB, per_device: 8GiB, largest: 1GiB, capture_check: false } } }\n",
};

struct pairs {
    struct side weirs[WEIR_COUNT];
    struct side raw; /* no weir was told of its stream */
    size_t size;
};

/* Each runs `count` pairs and says what went wrong, if anything. ----------------------------------------------------------------------- */

static const char *malloc_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    (void)which;
    cudaError_t code = cudaSuccess;
    for (size_t i = 0; i < count && code == cudaSuccess; i++) {
        void *block;
        code = cudaMalloc(&block, pairs->size);
        if (code == cudaSuccess)
            code = cudaFree(block);
    }
    return shared_cuda_text(code);
}

static const char *async_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    (void)which;
    return crowd_raw_pairs(pairs->raw.pool, pairs->raw.streams[0], pairs->size, count);
}

static const char *handle_pairs(weir *w, cudaStream_t stream, size_t size, size_t count)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        void *block;
        status = weir_malloc(w, &block, size, 0, stream);
        if (status == WEIR_OK)
            status = weir_free(w, block, stream);
    }
    return shared_weir_text(status);
}

static const char *opened_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    return handle_pairs(pairs->weirs[which].w, pairs->weirs[which].streams[0], pairs->size, count);
}

static const char *plain_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    return handle_pairs(pairs->weirs[which].w, pairs->raw.streams[0], pairs->size, count);
}

static const char *stream_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    return crowd_stream_pairs(pairs->weirs[which].opened[0], pairs->size, count);
}

/* The size of the pair of that number, where sizes never repeat as far as a stream remembers: up to 2 MiB below the size measured. */
#define DRIFT_SIZES 4096
#define DRIFT_STEP 512
static size_t drifting(const struct pairs *pairs, size_t i)
{
    return pairs->size - i % DRIFT_SIZES * DRIFT_STEP;
}

static const char *drifting_raw_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    const char *wrong = NULL;
    (void)which;
    for (size_t i = 0; i < count && !wrong; i++)
        wrong = crowd_raw_pairs(pairs->raw.pool, pairs->raw.streams[0], drifting(pairs, i), 1);
    return wrong;
}

static const char *drifting_pairs(const struct pairs *pairs, enum which which, size_t count)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < count && !wrong; i++)
        wrong = crowd_stream_pairs(pairs->weirs[which].opened[0], drifting(pairs, i), 1);
    return wrong;
}

/* What is measured --------------------------------------------------------------------------------------------------------------------- */

enum asked { NOTHING, TIMES_RAW, NANOSECONDS };

/* A variant is measured at sizes from `above` (not included) to `most`. The first one is what the others stand beside, and the second what
   those with sizes that never repeat do. */
#define DRIFTING_RAW 1
static const struct variant {
    const char *name;
    const char *(*run)(const struct pairs *pairs, enum which which, size_t count);
    enum which which;
    uint64_t above, most;
    enum asked asked;
    double limit;
} variants[] = {
    {"raw async", async_pairs, OFF, 0, UINT64_MAX, NOTHING, 0},
    {"raw async, sizes that never repeat", drifting_raw_pairs, OFF, 4 * MIB, UINT64_MAX, NOTHING, 0},
    {"raw cudaMalloc", malloc_pairs, OFF, 0, UINT64_MAX, NOTHING, 0},
    {"weir_stream_malloc, cache off", stream_pairs, OFF, 0, UINT64_MAX, TIMES_RAW, 1.2},
    {"weir_malloc on an opened stream, cache off", opened_pairs, OFF, 0, UINT64_MAX, TIMES_RAW, 1.2},
    {"weir_malloc on another stream, cache off", plain_pairs, OFF, 0, UINT64_MAX, TIMES_RAW, 1.2},
    {"weir_stream_malloc, config/default.yaml", stream_pairs, SHIPPED, LONE, UINT64_MAX, TIMES_RAW, 1.15},
    {"weir_malloc on an opened stream, config/default.yaml", opened_pairs, SHIPPED, LONE, UINT64_MAX, TIMES_RAW, 1.15},
    {"weir_malloc on another stream, config/default.yaml", plain_pairs, SHIPPED, 0, UINT64_MAX, TIMES_RAW, 1.15},
    {"sizes that never repeat, cache off", drifting_pairs, OFF, 4 * MIB, UINT64_MAX, TIMES_RAW, 1.2},
    {"sizes that never repeat, config/default.yaml", drifting_pairs, SHIPPED, 4 * MIB, 256 * MIB, TIMES_RAW, 1.2},
    {"sizes that never repeat, the largest, config/default.yaml", drifting_pairs, SHIPPED, 256 * MIB, UINT64_MAX, TIMES_RAW, 1.25},
    {"cached, no capture check", stream_pairs, UNCHECKED, 0, CACHE_LARGEST, NANOSECONDS, 25},
    {"cached, config/default.yaml", stream_pairs, SHIPPED, 0, CACHE_LARGEST, NANOSECONDS, 70},
    {"cached, capture check", stream_pairs, DEFAULT, 0, CACHE_LARGEST, NANOSECONDS, 55},
    {"cached, weir_malloc on an opened stream", opened_pairs, DEFAULT, 0, CACHE_LARGEST, NANOSECONDS, 110},
    {"kept above cache.largest, no capture check", stream_pairs, UNCHECKED, CACHE_LARGEST, LONE, NANOSECONDS, 50},
    {"kept above cache.largest, config/default.yaml", stream_pairs, SHIPPED, CACHE_LARGEST, LONE, NANOSECONDS, 100},
    {"kept above cache.largest, weir_malloc on an opened stream", opened_pairs, DEFAULT, CACHE_LARGEST, LONE, NANOSECONDS, 160},
    {"too large to be kept, no capture check", stream_pairs, UNCHECKED, LONE, UINT64_MAX, TIMES_RAW, 1.2},
    {"too large to be kept, capture check", stream_pairs, DEFAULT, LONE, UINT64_MAX, TIMES_RAW, 1.2},
    {"too large to be kept, weir_malloc on an opened stream", opened_pairs, DEFAULT, LONE, UINT64_MAX, TIMES_RAW, 1.2},
    {"large cache, no capture check", stream_pairs, LARGE_UNCHECKED, CACHE_LARGEST, UINT64_MAX, NANOSECONDS, 25},
    {"large cache, capture check", stream_pairs, LARGE, CACHE_LARGEST, UINT64_MAX, NANOSECONDS, 55},
    {"large cache, weir_malloc on an opened stream", opened_pairs, LARGE, CACHE_LARGEST, UINT64_MAX, NANOSECONDS, 110},
};
#define VARIANT_COUNT COUNT_OF(variants)

static double time_pairs(const struct pairs *pairs, const struct variant *variant, size_t count)
{
    /* One pair outside the clock, so that no sample grows a pool or takes over what another stream freed. */
    const char *wrong = variant->run(pairs, variant->which, 1);
    BENCH_CUDA(cudaDeviceSynchronize());
    uint64_t start = bench_now();
    if (!wrong)
        wrong = variant->run(pairs, variant->which, count);
    uint64_t end = bench_now();
    if (wrong)
        bench_die(__FILE__, __LINE__, variant->name, wrong);
    return (double)(end - start) / (double)count;
}

static void report_variant(struct bench *bench, const struct pairs *pairs, size_t v, const struct bench_series *series)
{
    char name[96], size[32];
    snprintf(name, sizeof(name), "%s, %s", bench_size_name(pairs->size, size), variants[v].name);
    const struct bench_series *raw = &series[variants[v].run == drifting_pairs ? DRIFTING_RAW : 0];
    struct bench_figure *figure = bench_figure_of(&bench->report, "pairs", name, &series[v], raw);
    bench_figure_in(figure, variants[v].name, (double)pairs->size);
    bool is_raw = variants[v].run == malloc_pairs || variants[v].run == drifting_raw_pairs;
    figure->series[0].name = is_raw ? variants[v].name : "weir";
    figure->series[1].name = raw->name;
    if (variants[v].asked == NANOSECONDS)
        bench_show(figure, bench_median(&series[v]), "ns", BENCH_AT_MOST, variants[v].limit);
    else
        bench_show_ratio(figure, &series[v], raw, variants[v].asked == TIMES_RAW ? BENCH_AT_MOST : BENCH_SHOWN, variants[v].limit);
}

static void measure_size(struct bench *bench, struct pairs *pairs)
{
    struct bench_series series[VARIANT_COUNT];
    bool fits[VARIANT_COUNT];
    size_t counts[VARIANT_COUNT];
    memset(series, 0, sizeof(series));
    for (size_t v = 0; v < VARIANT_COUNT; v++) {
        series[v].name = variants[v].name;
        fits[v] = pairs->size > variants[v].above && pairs->size <= variants[v].most;
        counts[v] = (variants[v].run == malloc_pairs ? SLOW_PAIRS : PAIRS) / (bench->quick ? 5 : 1);
        if (fits[v])
            time_pairs(pairs, &variants[v], 10);
    }
    for (size_t i = 0; i < bench->repetitions; i++) {
        for (size_t v = 0; v < VARIANT_COUNT; v++) {
            if (fits[v])
                bench_add(&series[v], time_pairs(pairs, &variants[v], counts[v]));
        }
    }
    for (size_t v = 1; v < VARIANT_COUNT; v++) {
        if (fits[v])
            report_variant(bench, pairs, v, series);
    }
}

void section_pairs(struct bench *bench)
{
    static const size_t sizes[] = {512, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB};
    struct pairs pairs = {.raw = side_raw(1, UINT64_MAX)};
    for (size_t i = 0; i < WEIR_COUNT; i++)
        pairs.weirs[i] = side_weir(bench, "pairs", policies[i], 1);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        pairs.size = sizes[i];
        measure_size(bench, &pairs);
    }
    for (size_t i = 0; i < WEIR_COUNT; i++)
        side_close(&pairs.weirs[i]);
    side_close(&pairs.raw);
}
