/* SPDX-License-Identifier: MIT */
/*
 * try.h - `weir try`: one run, from an opened policy to the figures of its report.
 *
 * The main thread owns the run. It opens everything (setup.c), lets the workers loose on their own streams while it takes statistics
 * (work.c), plays the steps that run out of memory alone (recover.c), and reports (report.c). A worker's fields are
 * its thread's until it was joined, but for the atomic ones.
 */
#ifndef WEIR_TRY_H
#define WEIR_TRY_H

#include "lib/gpu/gpu.h"
#include "include/weir.h"
#include "policy/keys.h"
#include "policy/policy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TRY_SLOTS 48      /* blocks that one worker holds in one pool at most */
#define TRY_STREAMS_MAX 4 /* streams that one worker has on one pool */
#define TRY_SMALLEST 512  /* bytes of the smallest request */
#define TRY_LARGEST (64 << 20)
#define TRY_POOL_STEP (UINT64_C(32) << 20) /* pools grow by it (measured on an H200, driver 580) */

/* One pool of the policy on one device. */
struct try_pool {
    const struct policy_pool *policy;
    weir_pool *pool;
    int device;
    uint64_t max_size; /* bytes; 0: no cap */
    uint64_t largest;  /* bytes of a block at most, by ipc_max_block */
    uint64_t budget;   /* bytes that one worker holds at most */
    unsigned workers;  /* how many of them use it: fewer than all if the cap is tiny */
    bool is_reachable; /* by streams that the policy does not name: the device has a default pool for them to be opened with */
};

struct try_stream {
    weir_stream *opened; /* NULL: a bare CUDA stream, ours */
    gpu_stream handle;
    gpu_event event; /* for ordering a free on another stream */
    bool is_routed;  /* the policy sends this stream to the pool; else the pool is named in each request */
};

/* A block of a worker. Its first bytes are `low`, then `high`; its last bytes repeat them. */
struct try_slot {
    unsigned char *ptr; /* NULL: free */
    size_t size;
    unsigned stream;
    unsigned char low, high;
};

/* What one worker has in one pool. */
struct try_berth {
    const struct try_pool *pool;
    unsigned stream_count;
    struct try_stream streams[TRY_STREAMS_MAX];
    struct try_slot slots[TRY_SLOTS];
    uint64_t live;
};

struct try_run;

struct try_worker {
    struct try_run *run;
    pthread_t thread;
    uint64_t random;
    size_t berth_count;
    struct try_berth *berths;
    uint64_t served, frees, failures, crossed, verified, corrupt;
    char reason[sizeof(((weir_error *)0)->text) + 256]; /* why it ended early, or what was corrupt first; "" */
    const struct try_pool *blamed;                      /* the pool that the reason is about */
    _Atomic bool has_ended;
};

enum try_outcome {
    TRY_RESCUED, /* by the ladder */
    TRY_SERVED,  /* without it */
    TRY_SKIPPED,
    TRY_UNRESCUED,
};

struct try_step {
    const char *name; /* "wait" or "callbacks": the rung that is expected to help */
    const struct try_pool *pool;
    enum try_outcome outcome;
    uint64_t bytes;       /* of the request */
    uint64_t nanoseconds; /* that it took, on the GPU's clock */
    int rung;             /* a weir_rung, or -1 */
    char text[1024];      /* what happened, in sentences */
    char *report;         /* Weir's own, of a request that failed; or NULL */
};

struct try_run {
    /* settings */
    double seconds;
    unsigned threads;
    uint64_t seed;
    bool as_json;

    /* what is opened */
    const struct gpu *gpu;
    struct policy *policy;
    weir *weir;
    size_t pool_count;
    struct try_pool *pools;
    struct try_worker *workers;
    _Atomic bool stop;

    /* what came out */
    double workload_seconds; /* of the host's clock; 0: there was none */
    struct try_worker total; /* the workers' figures together */
    size_t step_count, step_room;
    struct try_step *steps;
    uint64_t leaked_blocks, leaked_bytes;
    size_t reason_count, reason_room;
    char **reasons; /* why the run failed; none: it passed */
};

/* Adds a reason for which the run failed. */
void try_fail(struct try_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The statistics now. NULL after try_fail(). */
weir_stats *try_stats(struct try_run *run);

/* setup.c: opens pools' views, workers and streams; false after try_fail(). Closing takes what was opened, all or part. */
bool try_open(struct try_run *run);
void try_close(struct try_run *run);
/* A stream that is good for requests of that pool. name: an entry of the policy's streams, or NULL. False after try_fail(). */
bool try_stream_open(struct try_run *run, const struct try_pool *pool, const char *name, struct try_stream *stream);
/* The names of the policy's streams of that pool that are, or are not, private. Returns how many they are. */
size_t try_stream_names(const struct try_run *run, const struct try_pool *pool, bool is_private, const char *names[POLICY_STREAMS_MAX]);
void try_stream_close(struct try_run *run, struct try_stream *stream);

/* Requests and frees as the stream was opened. */
weir_status try_malloc(const struct try_pool *pool, const struct try_stream *stream, void **ptr, size_t size);
weir_status try_free(struct try_run *run, const struct try_stream *stream, void *ptr);

/* work.c: runs the workers to the end of the time, then fills `total`, with which Weir's figures have to agree. */
void try_work(struct try_run *run);

/* recover.c: adds the steps. */
void try_recover(struct try_run *run);

/* report.c */
void try_report(const struct try_run *run);
void try_report_json(const struct try_run *run);

#endif
