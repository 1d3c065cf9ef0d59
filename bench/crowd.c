/* SPDX-License-Identifier: MIT */
#include "bench/crowd.h"

#include <pthread.h>

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    const struct gpu *gpu;
    const struct crowd_way *way;
    size_t nth, count;
    /* Written by the thread, read after it was joined. */
    double ns;
    const char *wrong;
};

static void *work(void *data)
{
    struct worker *worker = data;
    int code = worker->gpu->set_current_device(0);
    worker->wrong = code ? worker->gpu->code_text(code) : worker->way->run(worker->way->data, worker->nth, CROWD_WARM);
    pthread_barrier_wait(worker->barrier);
    uint64_t start = bench_now();
    if (!worker->wrong)
        worker->wrong = worker->way->run(worker->way->data, worker->nth, worker->count);
    worker->ns = (double)(bench_now() - start) / (double)worker->count;
    return NULL;
}

static double time_crowd(const struct gpu *gpu, const struct crowd_way *way, size_t threads, size_t count)
{
    struct worker workers[CROWD_MAX];
    pthread_barrier_t barrier;
    double sum = 0;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads))
        bench_die(__FILE__, __LINE__, "pthread_barrier_init", "no resources");
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){.barrier = &barrier, .gpu = gpu, .way = way, .nth = i, .count = count};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            bench_die(__FILE__, __LINE__, "pthread_create", "no resources");
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].wrong)
            bench_die(__FILE__, __LINE__, way->name, workers[i].wrong);
        sum += workers[i].ns;
    }
    pthread_barrier_destroy(&barrier);
    BENCH_GPU(gpu, device_synchronize(0));
    return sum / (double)threads;
}

const size_t crowd_counts[CROWD_COUNTS] = {1, 2, 4, 8, CROWD_MAX};

void crowd_measure(const struct bench *bench, const struct crowd_way *ways, size_t way_count, struct bench_series series[][CROWD_COUNTS])
{
    for (size_t w = 0; w < way_count; w++) {
        /* Every stream and pool once, outside the figures. */
        time_crowd(bench->gpu, &ways[w], CROWD_MAX, CROWD_WARM);
        for (size_t c = 0; c < CROWD_COUNTS; c++)
            series[w][c] = (struct bench_series){.name = ways[w].name};
    }
    for (size_t i = 0; i < bench->repetitions; i++)
        for (size_t c = 0; c < CROWD_COUNTS; c++)
            for (size_t w = 0; w < way_count; w++) {
                size_t count = ways[w].by_each ? ways[w].by_each : ways[w].in_all / crowd_counts[c];
                bench_add(&series[w][c], time_crowd(bench->gpu, &ways[w], crowd_counts[c], bench->quick ? count / 5 : count));
            }
}

const char *crowd_stream_pairs(weir_stream *s, size_t size, size_t count)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        void *block;
        status = weir_stream_malloc(s, &block, size);
        if (status == WEIR_OK)
            status = weir_stream_free(s, block);
    }
    return shared_weir_text(status);
}

const char *crowd_raw_pairs(cudaMemPool_t pool, cudaStream_t stream, size_t size, size_t count)
{
    cudaError_t code = cudaSuccess;
    for (size_t i = 0; i < count && code == cudaSuccess; i++) {
        void *block;
        code = cudaMallocFromPoolAsync(&block, size, pool, stream);
        if (code == cudaSuccess)
            code = cudaFreeAsync(block, stream);
    }
    return shared_cuda_text(code);
}
