/* SPDX-License-Identifier: MIT */
/*
 * recover.h - the ladder that a request climbs when there is no memory left.
 *
 * One recovery per device at a time. `lock` guards the flag and the outcome of the last recovery; it is held only to look at and change
 * them, so that no lock of Weir's is held while a rung runs.
 */
#ifndef WEIR_LIB_RECOVER_H
#define WEIR_LIB_RECOVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/gpu/gpu.h"
#include "lib/weir.h"

struct weir__device;

/* What the neighbours rung remembers of the last request in vain. Only the thread whose recovery runs touches it. */
struct weir__vain {
    uint64_t picture; /* of who had what */
    uint64_t size, until; /* bytes, and weir__service_now() */
};

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

/*
 * What the neighbours rung asks of whoever knows other processes (share/): `rescue` in weir.neighbours, set once before weir_open() returns.
 * It runs on the requesting thread with no lock held, until a retry succeeds or it has asked everybody who could help.
 */
struct weir__plea {
    struct weir__device *device;
    uint64_t size;        /* bytes that the request needs */
    uint64_t time_left;   /* nanoseconds */
    uint64_t gave;        /* bytes that neighbours gave: the rung's to fill */
    char note[256];       /* what there is to say of it in the report; "" */
    void (*prepare)(struct weir__plea *plea); /* to be called before each retry, best while somebody gives: it can take long */
    bool (*retry)(struct weir__plea *plea); /* true: the request is served or cannot be: ask nobody else */
};
typedef void (*weir__rescue_fn)(struct weir__plea *plea);

void weir__recovery_init(struct weir__recovery *recovery);
void weir__recovery_destroy(struct weir__recovery *recovery);

/* One request on its way: what was asked, and what the last attempt said. */
struct weir__request {
    weir_pool *pool;
    size_t asked;      /* bytes */
    size_t rounded;    /* those of the size class, if a cache may keep the block later; else the same */
    gpu_stream stream; /* not capturing */
    bool small;        /* for the small twin, if there is room */
    bool insist;       /* CUDA is to be asked even where that seems vain */
    uint64_t waited;   /* nanoseconds that the first attempt had to wait for others */
    uint64_t deadline; /* by gpu->now(): an attempt asks CUDA for nothing more after it. 0: none yet */
    bool untried;      /* at the last attempt it was not asked for that reason */
    bool was_asked;    /* it was */
    bool at_cap;       /* the last attempt failed at the pool's max_size, not at the device */
    bool is_crowded;   /* it failed beside other requests, and perhaps because of them: it says nothing */
    size_t got;        /* bytes that CUDA gave: one of the two sizes */
    int code;
};

/*
 * Whether CUDA would be asked for so many bytes in vain: for a part of the device that is worth a look, where all that the device has free and
 * this weir's pools have idle is less. Measured, such an attempt takes up to 0.36 s, and a pool with a release threshold keeps what the
 * device had left. CUDA may still know better, as of idle memory of pools that are not Weir's: recovery insists once its cheap means are
 * used up, and at its end.
 */
bool weir__request_is_vain(const struct weir__request *request, uint64_t size);

/* Asks CUDA within the cap, unless that is vain, for each size and of each pool that can serve the request. The caller is one who asks, beside
   others or alone (asking.h). On success the pool's counters have
   the block; else the members of the request say why not. */
bool weir__attempt(struct weir__request *request, void **ptr);

/* After an attempt that found no memory: climbs the ladder. On failure the thread's last error has the report. */
weir_status weir__recover(struct weir__request *request, void **ptr);

#endif
