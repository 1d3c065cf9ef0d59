/* SPDX-License-Identifier: MIT */
/* threads.c - a block taken and given back by several threads at once, each on a stream of its own, all from one pool. */
#include "tools/calibrate/bench.h"
#include "tools/calibrate/fit.h"
#include "tools/common/complain.h"

#include <pthread.h>

#define THREADS_MAX 16
#define WARM 50
#define PAIRS 1000
#define ROUNDS 5

struct worker {
    struct bench *bench;
    gpu_stream stream;
    int code;
    pthread_barrier_t *barrier;
    pthread_t thread;
};

static void run_pairs(struct worker *worker, unsigned count)
{
    const struct gpu *gpu = worker->bench->gpu;
    for (unsigned i = 0; i < count && !worker->code; i++) {
        void *ptr;
        worker->code = gpu->malloc_async(&ptr, SMALL, worker->bench->pool, worker->stream);
        if (!worker->code)
            worker->code = gpu->free_async(ptr, worker->stream);
    }
}

/* All meet when they are warm, when the time has been read, and when all have done. */
static void *work(void *data)
{
    struct worker *worker = data;
    run_pairs(worker, WARM);
    pthread_barrier_wait(worker->barrier);
    pthread_barrier_wait(worker->barrier);
    run_pairs(worker, PAIRS);
    pthread_barrier_wait(worker->barrier);
    return NULL;
}

static uint64_t time_round(const struct bench *bench, pthread_barrier_t *barrier)
{
    pthread_barrier_wait(barrier);
    uint64_t begun = bench->gpu->now();
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return (bench->gpu->now() - begun) / PAIRS;
}

/* Returns the code of a call that failed. A thread less than was asked for would wait for ever, so there is no way back. */
static int run_round(struct bench *bench, struct worker *workers, unsigned count, uint64_t *time)
{
    pthread_barrier_t barrier;
    int code = GPU_SUCCESS;
    if (pthread_barrier_init(&barrier, NULL, count + 1) != 0)
        must(NULL);
    for (unsigned i = 0; i < count; i++) {
        workers[i].barrier = &barrier;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            must(NULL);
    }
    *time = time_round(bench, &barrier);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        code = code ? code : workers[i].code;
    }
    pthread_barrier_destroy(&barrier);
    return code;
}

static bool measure_row(struct bench *bench, struct worker *workers, size_t row)
{
    uint64_t times[ROUNDS];
    enum cost_id id = (enum cost_id)(COST_pair_2 + row);
    for (unsigned i = 0; i < ROUNDS; i++)
        if (!bench_is_good(bench, run_round(bench, workers, cost_threads[row], &times[i]), cost_rows[id].key))
            return false;
    bench_found(bench, id, (struct gpu_cost){ .call = median(times, ROUNDS) });
    return true;
}

bool measure_threads(struct bench *bench)
{
    struct worker workers[THREADS_MAX];
    unsigned made = 0;
    int code = GPU_SUCCESS;
    for (; made < THREADS_MAX && !code; made++) {
        workers[made] = (struct worker){ .bench = bench };
        code = bench->gpu->stream_create(bench->device, &workers[made].stream);
    }
    bool good = bench_is_good(bench, code, "streams");
    made -= !good;
    for (size_t row = 0; good && row < COSTS_THREAD_ROWS; row++)
        good = measure_row(bench, workers, row);
    while (made > 0)
        bench->gpu->stream_destroy(workers[--made].stream);
    return good;
}
