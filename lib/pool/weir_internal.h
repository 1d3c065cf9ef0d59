/* SPDX-License-Identifier: MIT */
/*
 * weir_internal.h - struct weir: everything opened from one policy.
 *
 * Owned by the application, from weir_open() to weir_close().
 *
 * doc/thread-safety.md has the list of all locks, and the order in which a thread may take them. A lock that a comment calls a leaf is the
 * last in that order: a thread that holds it takes no other.
 */
#ifndef WEIR_LIB_WEIR_INTERNAL_H
#define WEIR_LIB_WEIR_INTERNAL_H

#include "lib/base/context.h"
#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "lib/base/service.h"
#include "lib/pool/blocks.h"
#include "lib/pool/device.h"
#include "lib/pool/log.h"
#include "lib/record/recorder.h"

struct weir__about;
struct weir__plea;
struct weir__trace_files;
struct weir__request;

#define WEIR__EVERY_DEVICE (-1)
#define WEIR__NO_DEVICE (-1)

/* The application's out-of-memory callbacks (callbacks.h). Guarded by w->leaf. */
struct weir__callbacks {
    pthread_cond_t idle; /* a call ended */
    unsigned last_id;
    struct weir__callback *first; /* in order of registration */
};

#define WEIR__KEEPER_LOOKS 4 /* how often the keeper looks at a cache while cache.idle passes */

/* The keeper (`keeper: true`, keeper.h): a job of the service thread that gives back memory which a quiet program no longer uses. */
struct weir__keeper {
    struct weir__job job;
    atomic_bool is_on; /* The job is in the service's list. Written under w->config, or while no other thread knows the weir. */
};

/*
 * Everything of one weir. `config` guards the policy and whatever a reload changes. A member is called fixed if weir_open() alone writes
 * it, before the first request; any thread may read such a member.
 */
struct weir {
    struct weir__blocks blocks;
    const struct gpu *gpu;
    pthread_mutex_t leaf; /* guards what is seldom touched: the log's table, callbacks, the policy in force, and the traces that it asks for */
    struct weir__log log;
    pthread_mutex_t config;
    struct policy *policy; /* guarded by config, as are the next two members */
    /* What is recorded at least, whatever the policy says: the level, and whether events have stacks. Set by weir__record_at_least(). */
    enum weir__level record_least;
    bool record_wants_stacks;
    /* `capture: relaxed`: plain calls, those in which Weir passes one request or free of the program on to CUDA, run in relaxed capture
       mode. Fixed. */
    bool relaxed;
    bool refuses_graphs;   /* Requests on a stream that captures fail, since the plug-in for PyTorch has other memory for graphs. Fixed. */
    size_t device_count;
    struct weir__device *devices;
    bool has_arenas; /* the memory of at least one pool is an arena. Fixed */
    int local_device; /* the device that `devices: local` means, if a pool of the policy says so; else WEIR__NO_DEVICE. Fixed */
    int only_device; /* the one device that may have pools; WEIR__EVERY_DEVICE: each may. Fixed */
    struct weir__callbacks callbacks;
    struct weir__keeper keeper;
    struct weir__recorder recorder;
    atomic_bool are_tags_noted; /* The program has pushed a tag, so every pool has its cached calls counted by tag. Written under config. */
    weir *next_joined; /* the next weir in the process's list of open weirs; guarded by the lock of quiet.c, as is the next member */
    bool is_closing;   /* weir_close() has begun and destroys pools: weir__quiet_visit() leaves the weir out */
    pthread_mutex_t attached_lock;
    struct weir__attached *attached; /* exports, imports and the control socket, the latest first (attached.h); guarded by attached_lock */
    /* Serves a request that found no memory, by trying one means of recovery after the other (lib/recover), or returns the error. Fixed. */
    weir_status (*out_of_memory)(struct weir__request *request, void **ptr);
    /* Asks other processes on the GPU to give memory back (recover.h). NULL: the weir was opened without such a function. Fixed. */
    void (*neighbours)(struct weir__plea *plea);
    /* Changes how much of the claims of this process on the device is given up for pools that sleep, from *asleep to `wanted` bytes, for one
       of them (weir_reserve.h). Taking bytes back waits for room for that many nanoseconds. NULL: the weir was opened without it. Fixed. */
    weir_status (*claims)(struct weir__device *device, uint64_t wanted, uint64_t patience, weir_error *error, uint64_t *asleep);
    struct weir__trace_files *trace_files; /* the trace files that the policy asks for (trace/file.h). Fixed */
    void (*dump)(weir *w);                 /* writes a trace after a request failed for want of memory (trace/file.h) */
    /* the path of the weir's control socket; the string lives until weir_close(). NULL: the weir has no control socket */
    _Atomic(const char *) control_path;
    struct weir__about *about;          /* what statistics, traces and the control socket tell of the weir (about.h). Fixed */
    /* What weir_open() was given, for reloads (source.h): one of the two is set, the other is NULL. Fixed. */
    char *policy_text, *policy_file;
};

/* Makes the device current for a plain call, if the stream's handle is a fixed one (context.h). Returns the value for weir__current_end().
   With a single device nothing need be done, as no other device can be current. */
static inline int weir__device_begin(const weir *w, int device, gpu_stream stream)
{
    return w->device_count > 1 ? weir__current_begin(w->gpu, device, stream) : -1;
}

/* Begins a plain call: with `capture: relaxed` the thread enters relaxed capture mode. By default the caller's mode stays, as the switch
   costs 60 ns. Returns the mode that weir__plain_end() restores. */
static inline enum gpu_capture_mode weir__plain_begin(const weir *w)
{
    return w->relaxed ? weir__relaxed_begin(w->gpu) : GPU_CAPTURE_MODE_RELAXED;
}

static inline void weir__plain_end(const weir *w, enum gpu_capture_mode former)
{
    if (w->relaxed)
        weir__relaxed_end(w->gpu, former);
}

/* weir__plain_end() as a clean-up handler, for calls during which a callback of the application may throw or end its thread. */
struct weir__plain {
    const weir *w;
    enum gpu_capture_mode former;
};

static inline void weir__plain_restore(struct weir__plain *plain)
{
    weir__plain_end(plain->w, plain->former);
}

#endif
