/* SPDX-License-Identifier: MIT */
/*
 * device.h - what a weir keeps for each CUDA device: its pools, its opened streams, its recovery.
 *
 * Owned by its weir, as an array with one entry for each device of the machine, used or not.
 */
#ifndef WEIR_LIB_DEVICE_H
#define WEIR_LIB_DEVICE_H

#include "lib/base/table.h"
#include "lib/fence/fence.h"
#include "lib/pool/asking.h"
#include "lib/pool/pool.h"
#include "lib/pool/quota.h"

/* Streams of Weir's own that are not open (stream.h). Guarded by w->config. */
struct weir__spares {
    struct weir__spare *items; /* the last that came at the end */
    size_t count, room;
};

/* What the neighbours rung remembers of the last request in vain. Only the thread whose recovery runs touches it. */
struct weir__vain {
    uint64_t picture; /* of who had what */
    uint64_t size, until; /* bytes, and weir__service_now() */
};

/* The ladder's (recover.h): one recovery at a time. `lock` guards the flag and the outcome of the last one. */
struct weir__recovery {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* on CLOCK_MONOTONIC */
    bool running;
    uint64_t count;       /* recoveries that ended; the members below tell of the last one */
    bool rescued;
    weir_rung rung;       /* with rescued: the rung that did it */
    uint64_t failed_size; /* else: the size that could not be had (UINT64_MAX: that is not sure, as time ran out), */
    unsigned failed_steps;        /* with which rungs, */
    const weir_pool *failed_pool; /* and for which pool, if it failed at that pool's cap (NULL: at the device) */
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
    weir_pool *default_pool; /* that of defaults.pool, or NULL if it has none here. Fixed after open */

    pthread_rwlock_t lock; /* a registry lock: guards the two lists; never held over a CUDA call */
    weir_pool *pools;      /* all, private ones too */
    struct weir__table named; /* those of the policy, by name. Guarded by lock */
    weir_stream *streams;  /* opened ones */
    /* The same streams by their handles, and those of them that are served by another pool than the default one: all other handles are
       routed without asking CUDA for their id. Changed under lock. */
    struct weir__table listed, routed;

    /* Closed streams, oldest first, whose memory is kept for a while: a call that was on its way when its stream was closed finds it
       closed, not gone. Guarded by lock. */
    weir_stream *closed, **closed_end;
    size_t closed_count;

    struct weir__spares spares;
    struct weir__parked *_Atomic room; /* for an orphan, where host memory lacks */
    _Atomic unsigned cache_classes; /* no cache of the device keeps or ever kept a larger class; UINT_MAX: some keep any size */

    /* How many threads have cached blocks in their hands, to give them to CUDA, and how often one had. */
    _Atomic unsigned flushing;
    _Atomic uint64_t flushes;

    struct weir__asking asking;
    struct weir__fences *fences; /* of the device, the process's. Joined from init to destroy */
    struct weir__recovery recovery;
    struct weir__quota quota; /* as the environment was when the weir was opened. Fixed after open */
};

weir_status weir__device_init(struct weir__device *device, weir *w, int index, weir_error *error);
void weir__device_destroy(struct weir__device *device); /* all of its pools and streams are gone by then */

/* Whether this process has begun to use it. */
bool weir__device_is_used(const struct weir__device *device);

/* Whether the policy's list names this device. */
bool weir__device_is_in(const struct weir__device *device, const struct policy_devices *list);

/* Every device that the list names must exist; the error is placed at `place`. */
weir_status weir__devices_check(const weir *w, const struct policy_devices *list, struct policy_place place, weir_error *error);

/* So must those that the pools of the policy are for; finds which one is local. */
weir_status weir__devices_find(weir *w, const struct policy *policy, weir_error *error);

/* What is to be added to a remedy that names devices: which one is the local one, where a pool says so. */
#define WEIR__LOCAL_TEXT 64
const char *weir__local_text(const weir *w, char text[WEIR__LOCAL_TEXT]);
#define WEIR__LOCAL(w) weir__local_text((w), (char[WEIR__LOCAL_TEXT]){ 0 })

/* Logs which limits of the environment are ignored, and why. */
void weir__device_say_quota(const struct weir__device *device);

/* The policy's pool of that name on the device, or NULL. */
weir_pool *weir__device_find_pool(struct weir__device *device, const char *name);

void weir__device_add_pool(struct weir__device *device, weir_pool *pool);
void weir__device_remove_pool(struct weir__device *device, weir_pool *pool);

/* Bytes that its pools have reserved, that nobody uses, and that could go back. */
uint64_t weir__device_idle(struct weir__device *device);

/* The first pool (after NULL), or the one behind `after`, held; releases `after`. NULL at the end. */
weir_pool *weir__device_next_pool(struct weir__device *device, weir_pool *after);

#endif
