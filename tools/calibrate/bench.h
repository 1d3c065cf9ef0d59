/* SPDX-License-Identifier: MIT */
/* bench.h - what the measurements of one device stand on: a pool, a stream, an event, and the clock. Owned by measure_all(). */
#ifndef WEIR_CALIBRATE_BENCH_H
#define WEIR_CALIBRATE_BENCH_H

#include "tools/calibrate/measure.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define STEP (32 * MIB) /* by which CUDA's pools grow */
#define SMALL (64 * KIB)
#define SAMPLES_MAX 1024

struct bench {
    const struct gpu *gpu;
    int device;
    uint64_t block;   /* bytes that growth is measured with: a GiB, or less on a small device */
    uint64_t reading; /* nanoseconds that two looks at the clock take */
    uint64_t begun;   /* and the first growth of all */
    gpu_pool pool;    /* has `block` bytes of memory and keeps them */
    gpu_stream stream;
    gpu_event event;
    struct costs *result;
    /* What calls hand on to the next. */
    void *ptr;
    gpu_pool other;
    enum gpu_capture_mode mode;
    void *range;
    gpu_page page;
    uint64_t page_size;
};

/* A call of the GPU. Returns its code. */
typedef int bench_call(struct bench *bench);

/* Defines one: do_NAME() makes that call of bench->gpu. */
#define BENCH_CALL(name, ...)                                                                                                              \
    static int do_##name(struct bench *bench)                                                                                              \
    {                                                                                                                                      \
        return bench->gpu->__VA_ARGS__;                                                                                                    \
    }

/* Whether the code is of success; complains if not. */
bool bench_is_good(const struct bench *bench, int code, const char *what);

/* What the call took, in nanoseconds, without the looks at the clock. *code: what it returned. */
uint64_t bench_time(struct bench *bench, bench_call *call, int *code);

static inline void bench_found(struct bench *bench, enum cost_id id, struct gpu_cost cost)
{
    bench->result->values[id] = cost;
    bench->result->is_measured[id] = true;
}

/* The parts of a measurement. Each complains and returns false if a call failed, and leaves nothing behind. */
bool measure_calls(struct bench *bench);   /* what costs the same whatever its size; first, as the others take it off theirs */
bool measure_growth(struct bench *bench);  /* pools that grow and shrink */
bool measure_pages(struct bench *bench);
bool measure_arena(struct bench *bench); /* Weir's own code, by a weir of its own, where the device can have an arena */

#endif
