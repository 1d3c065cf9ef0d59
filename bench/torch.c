/* SPDX-License-Identifier: MIT */
/*
 * The pair that PyTorch's tensors cost: through the entry points of libweir-torch, beside the same stream's weir_stream_malloc() and
 * weir_stream_free(), and beside the raw calls. From 1 to 16 threads, each with a stream of its own. Starts threads for every sample.
 *
 * Runs on the simulator too. The weir of the plug-in stays open until the program ends, so this section comes last.
 */
#include "bench/crowd.h"

#include <string.h>

#include "plugin/torch/weir_torch.h"

#define SIZE (64 * KIB)
#define RAW_PAIRS 8000     /* in all: 33 us each at 16 threads */
#define CACHED_PAIRS 50000 /* by each thread */

static const char policy[] = "weir: 1\npools: { p: { devices: [0] } }\n";

enum { ENTRY_POINTS, WEIR_STREAM, RAW, WAY_COUNT };

/* Each way has streams of its own, so that none finds what another one freed. */
static struct crowd {
    const struct gpu *gpu;
    weir *w;
    gpu_pool pool;
    gpu_stream streams[WAY_COUNT][CROWD_MAX];
    weir_stream *opened[CROWD_MAX];
} crowd;

static const char *torch_pairs(const void *data, size_t nth, size_t count)
{
    (void)data;
    gpu_stream stream = crowd.streams[ENTRY_POINTS][nth];
    void *block = &crowd;
    for (size_t i = 0; i < count && block; i++) {
        block = weir_torch_pool_malloc((ssize_t)SIZE, 0, stream);
        weir_torch_free(block, (ssize_t)SIZE, 0, stream);
    }
    return block ? NULL : "weir_torch_pool_malloc gave nothing";
}

static const char *stream_pairs(const void *data, size_t nth, size_t count)
{
    (void)data;
    return crowd_stream_pairs(crowd.opened[nth], SIZE, count);
}

static const char *raw_pairs(const void *data, size_t nth, size_t count)
{
    (void)data;
    gpu_stream stream = crowd.streams[RAW][nth];
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < count && code == GPU_SUCCESS; i++) {
        void *block;
        code = crowd.gpu->malloc_async(&block, SIZE, crowd.pool, stream);
        if (code == GPU_SUCCESS)
            code = crowd.gpu->free_async(block, stream);
    }
    return code == GPU_SUCCESS ? NULL : crowd.gpu->code_text(code);
}

static const struct crowd_way ways[WAY_COUNT] = {
    [ENTRY_POINTS] = {.name = "torch", .run = torch_pairs, .by_each = CACHED_PAIRS},
    [WEIR_STREAM] = {.name = "weir_stream", .run = stream_pairs, .by_each = CACHED_PAIRS},
    [RAW] = {.name = "raw", .run = raw_pairs, .in_all = RAW_PAIRS},
};

static void set_up(const struct bench *bench)
{
    const struct gpu_pool_spec spec = {.device = 0, .location = GPU_LOCATION_DEVICE};
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    crowd.gpu = bench->gpu;
    options.gpu = bench->gpu->name;
    options.policy_text = policy;
    if (weir_torch_configure(&options, &error) != WEIR_OK || weir_torch_get(0, &error, &crowd.w) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "opening the plug-in's weir", error.text);
    BENCH_GPU(crowd.gpu, pool_create(&spec, &crowd.pool));
    BENCH_GPU(crowd.gpu, pool_set(crowd.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX));
    for (size_t way = 0; way < WAY_COUNT; way++)
        for (size_t i = 0; i < CROWD_MAX; i++)
            BENCH_GPU(crowd.gpu, stream_create(0, &crowd.streams[way][i]));
    for (size_t i = 0; i < CROWD_MAX; i++) {
        weir_torch_stream_lives(0, crowd.streams[ENTRY_POINTS][i]);
        if (weir_stream_open(crowd.w, 0, crowd.streams[WEIR_STREAM][i], NULL, &error, &crowd.opened[i]) != WEIR_OK)
            bench_die(__FILE__, __LINE__, "weir_stream_open", error.text);
    }
}

/* The streams that were told to live for ever do so. */
static void take_down(void)
{
    for (size_t i = 0; i < CROWD_MAX; i++) {
        weir_stream_close(crowd.opened[i]);
        BENCH_GPU(crowd.gpu, stream_destroy(crowd.streams[WEIR_STREAM][i]));
        BENCH_GPU(crowd.gpu, stream_destroy(crowd.streams[RAW][i]));
    }
    BENCH_GPU(crowd.gpu, device_synchronize(0));
    BENCH_GPU(crowd.gpu, pool_destroy(crowd.pool));
    weir_torch_reset();
}

void section_torch(struct bench *bench)
{
    struct bench_series series[WAY_COUNT][CROWD_COUNTS];
    shared_policy(bench, "torch", policy);
    set_up(bench);
    crowd_measure(bench, ways, WAY_COUNT, series);
    for (size_t c = 0; c < CROWD_COUNTS; c++) {
        size_t threads = crowd_counts[c];
        char name[64];
        snprintf(name, sizeof(name), "%zu thread%s, a tensor and its end, each", threads, threads == 1 ? "" : "s");
        struct bench_figure *figure =
            bench_figure_of(&bench->report, "torch", name, &series[ENTRY_POINTS][c], &series[WEIR_STREAM][c], &series[RAW][c]);
        bench_figure_in(figure, "torch", (double)threads);
        bool is_asked = strcmp(bench->gpu->name, "cuda") == 0 && (threads == 1 || threads == CROWD_MAX);
        enum bench_bound bound = is_asked ? BENCH_AT_MOST : BENCH_SHOWN;
        bench_show(figure, bench_median(&series[ENTRY_POINTS][c]), "ns", bound, threads == 1 ? 120 : 150);
    }
    take_down();
}
