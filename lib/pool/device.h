/* SPDX-License-Identifier: MIT */
/*
 * device.h - the data that a weir keeps for each CUDA device: its pools, its opened streams, its recovery from lack of memory.
 *
 * The weir owns an array of these, with one entry for each device of the machine, whether it is used or not.
 */
#ifndef WEIR_LIB_DEVICE_H
#define WEIR_LIB_DEVICE_H

#include "lib/base/table.h"
#include "lib/fence/fence.h"
#include "lib/pool/asking.h"
#include "lib/pool/pool.h"
#include "lib/pool/quota.h"

/* The spare streams of the device (stream.h). Guarded by w->config. */
struct weir__spares {
    struct weir__spare *items; /* the newest one is the last */
    size_t count, room;
};

/* The last request for which the neighbours (other processes) gave no memory. Only the thread whose recovery runs uses these members. */
struct weir__vain {
    uint64_t picture; /* a hash of the memory that was available, that this process had yielded, and that each neighbour offered */
    uint64_t size, until; /* the bytes of the request; and the time up to which this counts, by weir__service_now() */
    uint64_t patience; /* nanoseconds that the request had: neighbours may give more to one that has longer */
};

/* The state of recovery (recover.h), which tries its steps, the *rungs*, in turn; one recovery runs at a time. `lock` guards the members
   from `running` to `failed_pool`. */
struct weir__recovery {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* on CLOCK_MONOTONIC */
    bool running;
    uint64_t count;       /* recoveries that have ended; the members down to `failed_pool` describe the last one */
    bool rescued;         /* the last recovery found memory */
    weir_rung rung;       /* if rescued: the rung that found the memory */
    uint64_t failed_size; /* if not rescued: the bytes that were not found, leave_free included; UINT64_MAX: memory may exist, as time ran
                             out, or the request failed for another reason than lack of memory */
    uint64_t failed_patience;     /* if not rescued: nanoseconds that the request had */
    unsigned failed_steps;        /* if not rescued: the rungs that were tried, bit (1 << rung) for each */
    const weir_pool *failed_pool; /* if not rescued: the only pool concerned, as it was at its cap; NULL: the device had no memory */
    _Atomic uint64_t recoveries;
    _Atomic uint64_t rescues[WEIR_RUNG_COUNT];
    _Atomic uint64_t asks_sent, bytes_got, asks_received, bytes_given; /* as in weir_device_stats */
    struct weir__vain vain;
};

struct weir__device {
    weir *w;
    int index;
    struct gpu_device_info info;
    bool has_stream_ids;
    weir_pool *default_pool; /* the pool that defaults.pool names, or NULL if that pool is not on this device. Fixed after open */

    pthread_rwlock_t lock; /* a registry lock: guards the two lists; never held over a CUDA call */
    weir_pool *pools;      /* all pools, also private ones */
    struct weir__table named; /* the pools of the policy's entries, by name. Guarded by lock */
    weir_stream *streams;  /* the opened streams, the newest first */
    /* The opened streams by their handles; `routed` has only those whose pool is not the default pool. CUDA need not be asked for the id of
       a handle that is not in `routed`, to find the handle's pool. Changed under lock. */
    struct weir__table listed, routed;

    /* Closed streams, oldest first, whose memory is not freed or reused for a while. So a call that began before its stream was closed
       still reads valid memory, and sees that the stream is closed. Guarded by lock. */
    weir_stream *closed, **closed_end;
    size_t closed_count;

    struct weir__spares spares;
    struct weir__parked *_Atomic room; /* a spare object to park an orphan in (orphans.h) if host memory runs out, or NULL */
    _Atomic unsigned cache_classes; /* the largest class that a cache of the device keeps or ever kept; UINT_MAX: blocks of any size */

    /* The number of threads that have taken blocks out of caches and are giving them to CUDA, and how often a thread has done so. */
    _Atomic unsigned flushing;
    _Atomic uint64_t flushes;

    struct weir__asking asking;
    struct weir__fences *fences; /* the device's fences (fence.h), which all weirs of the process share. Fixed */
    struct weir__recovery recovery;
    struct weir__quota quota; /* the limits that the environment set when the weir was opened. Fixed after open */
};

weir_status weir__device_init(struct weir__device *device, weir *w, int index, weir_error *error);
void weir__device_destroy(struct weir__device *device); /* all pools and streams of the device must be destroyed before */

/* Returns true if this process has begun to use the device, or if CUDA cannot tell. */
bool weir__device_is_used(const struct weir__device *device);

/* Returns true if the policy's list names this device. */
bool weir__device_is_in(const struct weir__device *device, const struct policy_devices *list);

/* Returns an error, with `place` as its place in the policy, if the list names a device that does not exist. */
weir_status weir__devices_check(const weir *w, const struct policy_devices *list, struct policy_place place, weir_error *error);

/* Does the same for the device lists of all pools of the policy. If a list says `local`, also finds the local device of this process, and
   sets w->local_device. */
weir_status weir__devices_find(weir *w, const struct policy *policy, weir_error *error);

/* Writes the end of an error message that names the local device of this process; an empty string if no pool is for the local device.
   Returns `text`. */
#define WEIR__LOCAL_TEXT 64
const char *weir__local_text(const weir *w, char text[WEIR__LOCAL_TEXT]);
#define WEIR__LOCAL(w) weir__local_text((w), (char[WEIR__LOCAL_TEXT]){ 0 })

/* Logs each limit of the environment that is ignored, and why. */
void weir__device_say_quota(const struct weir__device *device);

/* Returns the pool of the policy's entry with that name on the device, or NULL. Takes device->lock. */
weir_pool *weir__device_find_pool(struct weir__device *device, const char *name);

void weir__device_add_pool(struct weir__device *device, weir_pool *pool);
void weir__device_remove_pool(struct weir__device *device, weir_pool *pool);

/* Returns the bytes that the device's pools have reserved, do not use, and could give back to the device. */
uint64_t weir__device_idle(struct weir__device *device);

/* Walks through the device's pools: returns the pool after `after` (NULL: the first pool), held for the caller, and releases `after`.
   Returns NULL at the end. Takes device->lock. */
weir_pool *weir__device_next_pool(struct weir__device *device, weir_pool *after);

#endif
