/* SPDX-License-Identifier: MIT */
/*
 * weir_internal.h - struct weir: everything opened from one policy.
 *
 * Owned by the application, from weir_open() to weir_close().
 *
 * Lock order, outermost first; a thread takes them in this order only and may skip any:
 *   weir.attached_lock    what is attached to the weir; held while that is told of a change of the policy, which may take long
 *   weir.config           the policy: reload, opening of streams
 *   recovery              not a mutex held over work: a flag with a condition (recover.h); no lock is held while a recovery runs
 *   asking                who asks CUDA for memory of a device, many or one alone (asking.h): CUDA calls are made between begin and end
 *   what a forked child closes   of share/: held over fork(), and while a descriptor of an export or control socket is opened or closed;
 *                         CUDA calls are made under it
 *   quiet.c's lock        CUDA is asked and events are recorded under it, or devices synchronised
 *   device.lock           a registry lock: no CUDA call under it
 *   pool.exchange         of exportable pools, for reading: CUDA calls are made under it. Who writes has pool.lock and only tries
 *   pool.lock             settings of one pool: CUDA calls are made under it
 *   shards                of the block table
 *   import->mapping_lock  of share/: CUDA calls are made under it
 *   export->serving       of share/: release events are asked under it
 *   export->lock, import->lock   of share/: no CUDA call under them
 *   leaves                the streams' caches, device.orphans.lock, pending.lock, callbacks.lock, weir.log.lock, the process's lists of
 *                         current and retired pools and what was noted of each of the latter, the service thread's jobs, which may be
 *                         woken under any of the others, what share/neighbours.c remembers
 * The log function and the application's callbacks are called with none of them held.
 */
#ifndef WEIR_LIB_WEIR_INTERNAL_H
#define WEIR_LIB_WEIR_INTERNAL_H

#include "lib/blocks.h"
#include "lib/callbacks.h"
#include "lib/device.h"
#include "lib/error.h"
#include "lib/keeper.h"
#include "lib/log.h"
#include "lib/recover.h"

#define WEIR__EVERY_DEVICE (-1)

struct weir {
    struct weir__blocks blocks;
    const struct gpu *gpu;
    struct weir__log log;
    pthread_mutex_t config;
    struct policy *policy; /* guarded by config */
    bool relaxed;          /* plain calls run in relaxed capture mode. Fixed after open */
    bool refuses_graphs;   /* weir__captures_refuse(). Fixed before the first request */
    size_t device_count;
    struct weir__device *devices;
    int only_device; /* the one that may have pools; WEIR__EVERY_DEVICE: each. Fixed after open */
    struct weir__callbacks callbacks;
    struct weir__keeper keeper;
    weir *next_joined; /* quiet.c's */
    pthread_mutex_t attached_lock;
    struct weir__attached *attached; /* the latest first (attach.h) */
    weir__rescue_fn neighbours;      /* NULL: there is nobody who could ask any. Fixed after open */
    bool is_controlled;              /* `control: true` */
    const char *control_path;        /* of its control socket; NULL: it has none. Fixed after open */
    char *policy_file;               /* of weir_options or $WEIR_POLICY, to be read again; NULL: to be searched for. Fixed after open */
    bool has_policy_text;            /* there is nothing to be read again */
};

/* weir_open() but for what the folders above lib/ add. device: the only one to get pools, or WEIR__EVERY_DEVICE. */
weir_status weir__open(const weir_options *options, int device, weir_error *error, weir **w);

/* True in the child of a fork of a process that had a weir open: CUDA is dead there, and locks may be held for ever. */
extern atomic_bool weir__forked __attribute__((visibility("hidden")));
static inline bool weir__is_forked(void)
{
    return atomic_load_explicit(&weir__forked, memory_order_relaxed);
}
/* The same as a status, with the error filled. */
weir_status weir__check_fork(weir_error *error);

static inline bool weir__keeper_is_on(const weir *w)
{
    return atomic_load_explicit(&w->keeper.is_on, memory_order_relaxed);
}

/* Something was freed into the pool, or its threshold fell: the keeper is to look whether idle memory can go back to the device. */
static inline void weir__pool_left(weir_pool *pool)
{
    if (weir__keeper_is_on(pool->w) && !atomic_load_explicit(&pool->is_left, memory_order_relaxed) &&
        !atomic_exchange(&pool->is_left, true))
        weir__keeper_wake(pool->w);
}

/* Puts a place of the policy before the message of a new error. */
__attribute__((format(printf, 4, 5))) weir_status weir__fail_at(weir_error *error, weir_status status, struct policy_place place,
                                                                const char *format, ...);

/* Everything that CUDA is asked without the application having asked runs in relaxed mode, so that no capture is disturbed. */
enum gpu_capture_mode weir__relaxed_begin(const struct gpu *gpu);
void weir__relaxed_end(const struct gpu *gpu, enum gpu_capture_mode former);

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

/* Makes `device` current for calls on a fixed stream handle; the result goes to weir__current_end(). */
static inline int weir__current_begin(const struct gpu *gpu, int device, gpu_stream stream)
{
    int current;
    if ((uintptr_t)stream > (uintptr_t)GPU_STREAM_PER_THREAD || gpu->get_current_device(&current) != GPU_SUCCESS || current == device)
        return -1;
    return gpu->set_current_device(device) == GPU_SUCCESS ? current : -1;
}

static inline void weir__current_end(const struct gpu *gpu, int former)
{
    if (former >= 0)
        gpu->set_current_device(former);
}

#endif
