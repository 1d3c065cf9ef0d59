/* SPDX-License-Identifier: MIT */
/*
 * backing.h - the memory of a pool, which is of one of two kinds: CUDA's pool (cuda.h), or an arena that Weir maps itself (arena.h).
 *
 * Owned by its pool, from the pool's creation until the backing is closed. Each kind begins with a struct weir__backing and has a table of
 * operations, so that whoever serves, trims or looks at a pool need not know which kind it is. What differs by kind, and is no operation,
 * is a constant of the table.
 *
 * A backing knows neither pools nor weirs: what it needs of them it is told. Where nothing else is said, operations are called in relaxed
 * capture mode, and any thread may call them at any time.
 */
#ifndef WEIR_LIB_BACKING_H
#define WEIR_LIB_BACKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/backing/arena/page.h"
#include "lib/fence/fence.h"
#include "lib/gpu/gpu.h"

struct weir__backing;
struct weir__extent;
struct weir__recorder;

/* A stream as a call names it. It is alive for the time of the call. Without names_streams only the handle is set, and the device of a free. */
struct weir__user {
    gpu_stream handle;
    int device;              /* of the stream of a free, as far as the caller knows */
    struct weir__line *line; /* the caller uses it. NULL for a request: no host memory */
    struct weir__debt *debt; /* the backing's own on that line; NULL: it has to be found */
    bool may_capture; /* whether it captures is to be asked before a free, as a capture cannot free what is older */
};

/* How far a backing is to go for a request; CUDA's pool makes no such difference. */
enum weir__serve {
    WEIR__SERVE_KNOWN, /* only what is known to be free for its stream */
    WEIR__SERVE_LOOK,  /* after a look at the events, by which more may be known */
    WEIR__SERVE_GROW,  /* by mapping more, or by making the stream wait for what others freed */
};

#define WEIR__SERVE_FURTHER 0x10001 /* a code, none of CUDA's: nothing fits, and a later value of enum weir__serve may help */
#define WEIR__LACK_CAP 0x10000      /* what a request may lack, like the codes of page.h: max_size, */
#define WEIR__LACK_TURN 0x10002     /* or that what another request took above max_size is back */

/* One request to a backing. Part of the request (alloc/request.h), of one thread. */
struct weir__ask {
    struct weir__user user;
    enum weir__serve how;
    bool small;    /* the twin is asked, and not the pool itself */
    bool is_alone; /* nobody else asks, as in recovery: a refusal is to leave nothing behind */

    struct weir__extent *extent; /* what an arena gave */
    int lack;                    /* which want made GPU_OUT_OF_MEMORY: WEIR__LACK_…, or a code of page.h; 0: of the device's memory */
    uint64_t waited;   /* nanoseconds that the request had to wait for others or for frees since the last event about that */
    uint64_t taken[2]; /* bytes at most that refused attempts have left with the pool, and with its twin */
    uint64_t before;   /* bytes reserved without the twin before the first attempt; 0: nobody had a reason to ask */
};

/* Bytes of one moment. */
struct weir__backing_figures {
    uint64_t reserved;
    uint64_t idle; /* of these: nobody uses them, no work is behind their frees as far as is known, and they can go back to the device */
};

/* How a backing ended. */
struct weir__closing {
    uint64_t pending; /* bytes that were never seen complete, and stay out of use for good */
    bool is_left;     /* the driver did not take back what nobody uses: */
    uint64_t left;    /* so many bytes, or only addresses */
};

struct weir__backing_ops {
    bool is_arena;           /* for creation, statistics and the recorder's flags; elsewhere the rest of this table says what matters */
    bool lends_idle;         /* the driver takes what is idle here for any other pool of CUDA's; else only Weir can */
    bool records_growth;     /* it writes down itself what it maps; each does so for what it gives back on its own account */
    bool names_streams;      /* requests and frees say more of their stream than its handle, and it counts its frees by itself */
    bool asks_caches;        /* before it grows it answers WEIR__SERVE_FURTHER, and what caches give up then costs no call of the driver */
    uint64_t large;          /* bytes from which on a block is apart from smaller ones, which leave no room for it; 0: nowhere */
    uint64_t step;           /* bytes that go back at a time */
    uint64_t grow, trim;     /* nanoseconds for a GiB (measured on an H200) */
    const char *call_to_free; /* what frees a block that has outlived its pool */

    /* Serves so many bytes. Returns the waist's code, or WEIR__SERVE_FURTHER; GPU_OUT_OF_MEMORY sets ask->lack. In any capture mode. */
    int (*serve)(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block);
    /* A request was refused that asked beside others: whether it may have left memory behind. *keep: bytes that are to stay reserved. */
    bool (*was_refused)(struct weir__backing *backing, struct weir__ask *ask, uint64_t *keep);
    /* Takes a block back, in the order of the stream. Returns the waist's code, or WEIR__PAGE_NO_HOST_MEMORY; nothing was done then. In any
       capture mode. */
    int (*give)(struct weir__backing *backing, void *block, struct weir__extent *extent, struct weir__user *user);
    /* Makes so many bytes idle. */
    int (*extend)(struct weir__backing *backing, uint64_t bytes);
    /* Gives back what is idle until `keep` bytes are reserved. is_patient: idle streams get a moment to come to their last frees. Called
       with the pool's lock. */
    int (*give_back)(struct weir__backing *backing, uint64_t keep, bool is_patient);
    /* Bytes that were to go back, and that the driver has not taken so far. */
    uint64_t (*left)(struct weir__backing *backing);
    /* Ends it, but for CUDA's handles (weir__cuda_destroy()). The struct of an arena lives on while blocks of it are live. Whoever calls it
       alone knows the pool. */
    void (*close)(struct weir__backing *backing, struct weir__closing *closing);

    /* A stream was synchronised: what is idle above the threshold, or the cap, goes back, unless CUDA has seen to that. */
    void (*synchronised)(struct weir__backing *backing);

    /* One attribute of CUDA's, as the policy says it; the peak of what is reserved starts anew with 0. Called with the pool's lock, but for
       the peak, as are the next two. Returns the waist's code. */
    int (*set)(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t value);
    /* Gives a device access, or takes it back. After a failure all is as before. */
    int (*set_peer)(struct weir__backing *backing, int peer, bool grant);
    /* From now on no more than so many bytes are reserved; 0: no bound. An arena gives back at once what is idle above that, and CUDA's pool
       for the next request that would grow it. */
    void (*set_cap)(struct weir__backing *backing, uint64_t max_size);

    /* One figure of CUDA's; 0 where the driver does not have it. Returns the waist's code. */
    int (*read)(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t *value);
    /* Bytes that a request may find at the first look; *reserved is 0 where nobody knows. In any capture mode. */
    uint64_t (*idle)(struct weir__backing *backing, uint64_t *reserved);
    void (*figures)(struct weir__backing *backing, struct weir__backing_figures *figures);
    /* Bytes that were freed and not seen complete. 0 of CUDA's pool, of which the pool's debts know. */
    uint64_t (*pending)(struct weir__backing *backing);
    /* Whether some of it was freed and not seen complete, so that it cannot be closed yet. Not of an exportable pool, whose debts tell. */
    bool (*has_pending)(struct weir__backing *backing);
    /* Bytes of `idle` that cannot go back, as something lives in the same page. false: nobody knows. */
    bool (*pinned)(struct weir__backing *backing, uint64_t *bytes);

    /* From now on it records what it maps, or gives back on its own account, as of the pool with that number. */
    void (*record)(struct weir__backing *backing, struct weir__recorder *recorder, unsigned pool);
    /* Until the second, nothing is mapped nor unmapped that is recorded, so that figures stand on the right side of such events. false:
       something is right now, and there is no second. */
    bool (*hold)(struct weir__backing *backing);
    void (*release)(struct weir__backing *backing);
};

struct weir__backing {
    const struct weir__backing_ops *ops; /* fixed, as the next three */
    const struct gpu *gpu;
    int device;
    struct weir__debts debts; /* what was freed of it and is not known to be complete. Its group is the device of the weir */
    pthread_mutex_t *lock;      /* the pool's, which guards what is set and the order in which CUDA hears of it */
    _Atomic uint64_t threshold; /* bytes that stay reserved when a stream is synchronised. Written under *lock, as the next */
    /* Bytes that others may have pending before a stream rather waits for them than lets this grow; UINT64_MAX: any */
    _Atomic uint64_t pending_max;
#define WEIR__PENDING_AUTO (UINT64_MAX - 1) /* what leaves no more reserved than was in use at most, and a little */
};

#endif
