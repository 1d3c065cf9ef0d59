/* SPDX-License-Identifier: MIT */
/*
 * The pair that PyTorch's tensors cost: through the entry points of libweir-torch, beside the same stream's weir_stream_malloc() and
 * weir_stream_free(), and beside the raw calls. From 1 to 16 threads, each with a stream of its own. Starts threads for every sample.
 *
 * Runs on the simulator too. The weir of the plug-in stays open until the program ends, so this section comes last.
 */
#include "bench/section.h"

#include <pthread.h>
#include <string.h>

#include "bench/consumer.h"
#include "plugin/torch/weir_torch.h"

#define THREADS_MAX 16
#define SIZE (64 * KIB)
#define RAW_PAIRS 8000     /* in all: 33 us each at 16 threads */
#define CACHED_PAIRS 50000 /* by each thread */
#define WARM_PAIRS 16

static const char policy[] = "weir: 1\npools: { p: { devices: [0] } }\n";

static const size_t thread_counts[] = { 1, 2, 4, 8, 16 };
#define COUNT_COUNT COUNT_OF(thread_counts)

enum way { ENTRY_POINTS, WEIR_STREAM, RAW, WAY_COUNT };
static const char *const way_names[WAY_COUNT] = { "torch", "weir_stream", "raw" };

/* Each way has streams of its own, so that none finds what another one freed. */
static struct crowd {
    const struct gpu *gpu;
    weir *w;
    gpu_pool pool;
    gpu_stream streams[WAY_COUNT][THREADS_MAX];
    weir_stream *opened[THREADS_MAX];
} crowd;

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    enum way way;
    size_t index, count;
    /* Written by the thread, read after it was joined. */
    double ns;
    const char *wrong;
};

static const char *torch_pairs(size_t index, size_t count)
{
    gpu_stream stream = crowd.streams[ENTRY_POINTS][index];
    void *block = &crowd;
    for (size_t i = 0; i < count && block; i++) {
        block = weir_torch_pool_malloc((ssize_t)SIZE, 0, stream);
        weir_torch_free(block, (ssize_t)SIZE, 0, stream);
    }
    return block ? NULL : "weir_torch_pool_malloc gave nothing";
}

static const char *stream_pairs(size_t index, size_t count)
{
    weir_stream *s = crowd.opened[index];
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        void *block;
        status = weir_stream_malloc(s, &block, SIZE);
        if (status == WEIR_OK)
            status = weir_stream_free(s, block);
    }
    return shared_weir_text(status);
}

static const char *raw_pairs(size_t index, size_t count)
{
    gpu_stream stream = crowd.streams[RAW][index];
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < count && code == GPU_SUCCESS; i++) {
        void *block;
        code = crowd.gpu->malloc_async(&block, SIZE, crowd.pool, stream);
        if (code == GPU_SUCCESS)
            code = crowd.gpu->free_async(block, stream);
    }
    return code == GPU_SUCCESS ? NULL : crowd.gpu->code_text(code);
}

static const char *(*const runs[WAY_COUNT])(size_t index, size_t count) = { torch_pairs, stream_pairs, raw_pairs };

static void *work(void *data)
{
    struct worker *worker = data;
    int code = crowd.gpu->set_current_device(0);
    worker->wrong = code == GPU_SUCCESS ? runs[worker->way](worker->index, WARM_PAIRS) : crowd.gpu->code_text(code);
    pthread_barrier_wait(worker->barrier);
    uint64_t start = bench_now();
    if (!worker->wrong)
        worker->wrong = runs[worker->way](worker->index, worker->count);
    worker->ns = (double)(bench_now() - start) / (double)worker->count;
    return NULL;
}

/* The mean over the threads of the time that a pair takes in each. */
static double time_crowd(enum way way, size_t threads, size_t count)
{
    struct worker workers[THREADS_MAX];
    pthread_barrier_t barrier;
    double sum = 0;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads))
        bench_die(__FILE__, __LINE__, "pthread_barrier_init", "no resources");
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .barrier = &barrier, .way = way, .index = i, .count = count };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            bench_die(__FILE__, __LINE__, "pthread_create", "no resources");
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].wrong)
            bench_die(__FILE__, __LINE__, way_names[way], workers[i].wrong);
        sum += workers[i].ns;
    }
    pthread_barrier_destroy(&barrier);
    BENCH_GPU(crowd.gpu, device_synchronize(0));
    return sum / (double)threads;
}

static void set_up(const struct bench *bench)
{
    const struct gpu_pool_spec spec = { .device = 0, .location = GPU_LOCATION_DEVICE };
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
        for (size_t i = 0; i < THREADS_MAX; i++)
            BENCH_GPU(crowd.gpu, stream_create(0, &crowd.streams[way][i]));
    for (size_t i = 0; i < THREADS_MAX; i++) {
        weir_torch_stream_lives(0, crowd.streams[ENTRY_POINTS][i]);
        if (weir_stream_open(crowd.w, 0, crowd.streams[WEIR_STREAM][i], NULL, &error, &crowd.opened[i]) != WEIR_OK)
            bench_die(__FILE__, __LINE__, "weir_stream_open", error.text);
    }
}

/* The streams that were told to live for ever do so. */
static void take_down(void)
{
    for (size_t i = 0; i < THREADS_MAX; i++) {
        weir_stream_close(crowd.opened[i]);
        BENCH_GPU(crowd.gpu, stream_destroy(crowd.streams[WEIR_STREAM][i]));
        BENCH_GPU(crowd.gpu, stream_destroy(crowd.streams[RAW][i]));
    }
    BENCH_GPU(crowd.gpu, device_synchronize(0));
    BENCH_GPU(crowd.gpu, pool_destroy(crowd.pool));
    weir_torch_reset();
}

static void report(struct bench *bench, size_t threads, const struct bench_series series[static WAY_COUNT])
{
    char name[64];
    snprintf(name, sizeof(name), "%zu thread%s, a tensor and its end, each", threads, threads == 1 ? "" : "s");
    struct bench_figure *figure = bench_figure_new(&bench->report, "torch", name);
    for (size_t way = 0; way < WAY_COUNT; way++)
        *bench_series_new(figure, way_names[way]) = series[way];
    bench_figure_in(figure, "torch", (double)threads);
    figure->value = bench_median(&series[ENTRY_POINTS]);
    figure->value_unit = "ns";
    if (strcmp(bench->gpu->name, "cuda") == 0 && (threads == 1 || threads == THREADS_MAX)) {
        figure->bound = BENCH_AT_MOST;
        figure->limit = threads == 1 ? 120 : 150;
    }
    bench_print(stdout, figure);
}

void section_torch(struct bench *bench)
{
    struct bench_series series[COUNT_COUNT][WAY_COUNT];
    size_t part = bench->quick ? 5 : 1;
    memset(series, 0, sizeof(series));
    shared_policy(bench, "torch", policy);
    set_up(bench);
    for (size_t way = 0; way < WAY_COUNT; way++) {
        time_crowd((enum way)way, THREADS_MAX, WARM_PAIRS);
        for (size_t c = 0; c < COUNT_COUNT; c++)
            series[c][way].name = way_names[way];
    }
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t c = 0; c < COUNT_COUNT; c++)
            for (size_t way = 0; way < WAY_COUNT; way++) {
                size_t count = (way == RAW ? RAW_PAIRS / thread_counts[c] : CACHED_PAIRS) / part;
                bench_add(&series[c][way], time_crowd((enum way)way, thread_counts[c], count));
            }
    for (size_t c = 0; c < COUNT_COUNT; c++)
        report(bench, thread_counts[c], series[c]);
    take_down();
}
