/* SPDX-License-Identifier: MIT */
/*
 * weir_internal.h - struct weir: everything opened from one policy.
 *
 * Owned by the application, from weir_open() to weir_close().
 *
 * doc/thread-safety.md has the list of all locks, and the order in which a thread may take them.
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

/* The application's out-of-memory callbacks (callbacks.h). `lock` is a leaf. */
struct weir__callbacks {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* a call ended */
    unsigned last_id;
    struct weir__callback *first; /* in order of registration; guarded by lock */
};

#define WEIR__KEEPER_LOOKS 4 /* of the keeper at a cache, while its cache.idle passes */

/* The job of `keeper: true` (keeper.h). */
struct weir__keeper {
    struct weir__job job;
    atomic_bool is_on; /* the job is added. Changed under w->config, or while nobody else knows the weir */
};

struct weir {
    struct weir__blocks blocks;
    const struct gpu *gpu;
    struct weir__log log;
    pthread_mutex_t config;
    struct policy *policy; /* guarded by config, as the next two */
    enum weir__level record_least; /* what is to be recorded whatever the policy says (open.h) */
    bool record_wants_stacks;
    bool relaxed;          /* plain calls run in relaxed capture mode. Fixed before the first request */
    bool refuses_graphs;   /* requests on a stream that captures fail, as the plug-in has other memory for these. Fixed as `relaxed` is */
    size_t device_count;
    struct weir__device *devices;
    bool has_arenas; /* some pool is one. Fixed after open, as the next */
    int local_device; /* that of `devices: local`, found at open where a pool says so; else WEIR__NO_DEVICE. Fixed after open, as the next */
    int only_device; /* the one that may have pools; WEIR__EVERY_DEVICE: each */
    struct weir__callbacks callbacks;
    struct weir__keeper keeper;
    struct weir__recorder recorder;
    atomic_bool are_tags_noted; /* each pool knows that there are tags. Set under config */
    weir *next_joined; /* quiet.c's, as the next */
    bool is_closing;   /* its pools may go at any moment: it is not visited */
    pthread_mutex_t attached_lock;
    struct weir__attached *attached; /* the latest first (attached.h) */
    /* What is done for a request that found no memory: the ladder. Fixed after open, as is the next. */
    weir_status (*out_of_memory)(struct weir__request *request, void **ptr);
    /* Asks other processes (recover.h). NULL: there is nobody who knows any. */
    void (*neighbours)(struct weir__plea *plea);
    struct weir__trace_files *trace_files; /* that the policy asks for (trace/file.h). Fixed after open */
    void (*dump)(weir *w);                 /* writes a trace of an out-of-memory (trace/file.h) */
    _Atomic(const char *) control_path; /* of its control socket, good until close; NULL: it has none */
    struct weir__about *about;          /* what it tells of itself (about.h). Fixed after open */
    char *policy_text, *policy_file;    /* what was opened (source.h): one of them. Fixed after open */
};

/* As weir__current_begin(), for a plain call. Where there is one device, no other can be current. */
static inline int weir__device_begin(const weir *w, int device, gpu_stream stream)
{
    return w->device_count > 1 ? weir__current_begin(w->gpu, device, stream) : -1;
}

/* `capture: relaxed` runs plain calls in relaxed mode too; the default leaves the caller's mode, since the switch costs 60 ns. */
static inline enum gpu_capture_mode weir__plain_begin(const weir *w)
{
    return w->relaxed ? weir__relaxed_begin(w->gpu) : GPU_CAPTURE_MODE_RELAXED;
}

static inline void weir__plain_end(const weir *w, enum gpu_capture_mode former)
{
    if (w->relaxed)
        weir__relaxed_end(w->gpu, former);
}

/* The same as a clean-up, for where a callback may run meanwhile. */
struct weir__plain {
    const weir *w;
    enum gpu_capture_mode former;
};

static inline void weir__plain_restore(struct weir__plain *plain)
{
    weir__plain_end(plain->w, plain->former);
}

#endif
