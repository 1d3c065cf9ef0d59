/* SPDX-License-Identifier: MIT */
/*
 * section.h - the measurements of weir-bench: Weir beside the raw calls of CUDA, in the same run, interleaved.
 *
 * Device 0. Each section makes its streams, pools and weirs, and gives everything back before it returns. Sections run one after another on
 * one thread; those that start threads say so.
 */
#ifndef WEIR_BENCH_SECTION_H
#define WEIR_BENCH_SECTION_H

#include "bench/bench.h"
#include "lib/gpu/gpu.h"
#include "include/weir.h"

#include <cuda_runtime_api.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What a run is, for all its sections. */
struct bench {
    const struct gpu *gpu; /* the waist, for its delay kernel, and for sections that run on the simulator as well */
    size_t repetitions;
    bool quick;                /* fewer rows and shorter samples */
    size_t row_seconds;        /* rows of `random` that would take longer are left out; 0: none is */
    size_t rounds;             /* of the two workers of `neighbours` */
    const char *only;          /* of the rows of rmm-random and rmm-pairs those alone whose names begin so; NULL: all */
    const char *const *traces; /* files for `arena` */
    size_t trace_count;
    const struct rmm_calls *rmm; /* what --rmm names; else NULL */
    uint64_t memory;             /* bytes of the device that were free at the start */
    struct bench_report report;
};

/* Each in the file of its name. */
void section_arena(struct bench *bench);
void section_aside(struct bench *bench);
void section_auto(struct bench *bench);
void section_pairs(struct bench *bench);
void section_threads(struct bench *bench);
void section_live(struct bench *bench);
void section_random(struct bench *bench);
void section_rmm_random(struct bench *bench);
void section_rmm_pairs(struct bench *bench);
void section_rmm_threads(struct bench *bench);
void section_grow(struct bench *bench);
void section_full(struct bench *bench);
void section_pages(struct bench *bench);
void section_claims(struct bench *bench);
void section_comb(struct bench *bench);
void section_pinned(struct bench *bench);
void section_multi(struct bench *bench);
void section_handover(struct bench *bench);
void section_handles(struct bench *bench);
void section_loop(struct bench *bench);
void section_keeper(struct bench *bench);
void section_open(struct bench *bench);
void section_sleep(struct bench *bench);
void section_small(struct bench *bench);
void section_pending(struct bench *bench);
void section_share(struct bench *bench);
void section_neighbours(struct bench *bench);
void section_record(struct bench *bench);
void section_stacks(struct bench *bench);
void section_torch(struct bench *bench);

/* shared.c: what the sections have in common. Each ends the program if it fails. ------------------------------------------------------- */

/* The side of the waist that $WEIR_GPU names. */
const struct gpu *shared_gpu(void);
/* Opens a weir with this policy on that side: "cuda", or the name of a struct gpu. */
weir *shared_weir(const char *gpu, const char *policy);
/* Says in the report and on standard output, once, that the section uses this policy. */
void shared_policy(struct bench *bench, const char *section, const char *policy);
/*
 * Both. A policy of one line is a shipped file, below $top_srcdir or where weir-bench runs, and, after a space, what $WEIR_CONF would
 * say: "config/default.yaml pools.default.max_size=4GiB". One thread: the environment changes meanwhile.
 */
weir *shared_weir_for(struct bench *bench, const char *section, const char *policy);
gpu_pool shared_raw_pool(uint64_t release_threshold);
/* Waits for the device first: CUDA may crash where a pool with frees pending is destroyed. */
void shared_destroy_raw(gpu_pool pool);
gpu_stream shared_stream(void);
/* name: the policy's stream; NULL: none. */
weir_stream *shared_open_stream(weir *w, cudaStream_t stream, const char *name);
/* Ends the program with weir_last_error()'s report if status is not WEIR_OK. */
void shared_check(weir_status status, const char *what);
/* Gives all that the pool holds back to the device. Precondition: nothing of it is live, and its frees were seen complete. */
void shared_empty(weir_pool *pool);
/* What CUDA said of a request for memory. False: there is none. */
bool shared_is_room(cudaError_t code);
/* The size that leaves no room for a second one: wanted where the device is large enough for it, else so many hundredths of it. */
size_t shared_big_size(uint64_t memory, uint64_t wanted, uint64_t hundredths);
/* Starts a kernel of so many nanoseconds. The first one in a process compiles it. */
void shared_delay(const struct bench *bench, cudaStream_t stream, uint64_t nanoseconds);

void shared_sleep(unsigned milliseconds);

/* What went wrong in a run of calls, NULL if nothing: loops under the clock look at their status only at the end. */
const char *shared_cuda_text(cudaError_t code);
const char *shared_weir_text(weir_status status);

/* For calls that return a cudaError_t and must not fail. */
#define BENCH_CUDA(call)                                                                                                                   \
    do {                                                                                                                                   \
        cudaError_t bench_code_ = (call);                                                                                                  \
        if (bench_code_ != cudaSuccess)                                                                                                    \
            bench_die(__FILE__, __LINE__, #call, cudaGetErrorString(bench_code_));                                                         \
    } while (0)

/* For calls of the waist that must not fail. */
#define BENCH_GPU(gpu, call)                                                                                                               \
    do {                                                                                                                                   \
        int bench_code_ = (gpu)->call;                                                                                                     \
        if (bench_code_)                                                                                                                   \
            bench_die(__FILE__, __LINE__, #call, (gpu)->code_text(bench_code_));                                                           \
    } while (0)

/* For calls of weir.h that take an error record, here called `error`. */
#define BENCH_WEIR(call)                                                                                                                   \
    do {                                                                                                                                   \
        weir_error error = WEIR_ERROR_INIT;                                                                                                \
        if ((call) != WEIR_OK)                                                                                                             \
            bench_die(__FILE__, __LINE__, #call, error.text);                                                                              \
    } while (0)

/* Sides: one way to get memory, the raw calls' or Weir's. Each has streams of its own, so that none finds what another one freed. ------ */

#define SIDE_STREAMS_MAX 16

struct side {
    const struct gpu *gpu;
    size_t stream_count;
    gpu_stream streams[SIDE_STREAMS_MAX];
    gpu_pool pool; /* raw; NULL: Weir's side */
    weir *w;
    weir_stream *opened[SIDE_STREAMS_MAX];
    struct bench_series series; /* "raw" or "weir" */
};

struct side side_raw(size_t stream_count, uint64_t release_threshold);
/* max_size: of its pool; 0 is none. */
struct side side_raw_capped(size_t stream_count, uint64_t release_threshold, uint64_t max_size);
/* policy: as of shared_weir_for(). */
struct side side_weir(struct bench *bench, const char *section, const char *policy, size_t stream_count);
void side_close(struct side *side);

/* Both on the stream of that number. */
static inline void *side_take(const struct side *side, size_t nth, size_t size)
{
    void *block;
    if (side->pool)
        BENCH_GPU(side->gpu, malloc_async(&block, size, side->pool, side->streams[nth]));
    else
        shared_check(weir_stream_malloc(side->opened[nth], &block, size), "weir_stream_malloc");
    return block;
}
static inline void side_give(const struct side *side, size_t nth, void *block)
{
    if (side->pool)
        BENCH_GPU(side->gpu, free_async(block, side->streams[nth]));
    else
        shared_check(weir_stream_free(side->opened[nth], block), "weir_stream_free");
}
/* Takes memory on the first stream. False: there is none. */
bool side_try(const struct side *side, void **block, size_t size);
/* Waits for all its streams. */
void side_wait(const struct side *side);
/* Gives what nobody uses back to the device, as far as CUDA has seen it complete. */
void side_trim(const struct side *side);

/* Bytes of all its pools. */
struct side_figures {
    uint64_t cached, idle, reserved;
};
struct side_figures side_figures(const struct side *side);

#endif
