/* SPDX-License-Identifier: MIT */
/*
 * backing.h - the memory of a pool, which is of one of two kinds: CUDA's pool (cuda.h), or an arena that Weir maps itself (arena.h).
 *
 * A pool owns its backing, from the pool's creation until the backing is closed. The struct of each kind begins with a struct weir__backing
 * and has a table of operations, so that the code that serves, trims or reports a pool need not know the kind. Constants of the table state
 * the other differences between the kinds.
 *
 * A pool of CUDA's may have a *twin*, a second pool of CUDA's that serves only small requests (cuda.h). Memory of a pool is *reserved* if
 * the pool has got the memory from the device, and *idle* if it is reserved, no block uses it and its frees are complete. A *cap* (the
 * policy's max_size) bounds the reserved bytes. Codes are those of the GPU interface (lib/gpu/gpu.h) unless a comment names others.
 *
 * A backing knows neither pools nor weirs: the caller passes in what it needs. The caller is in relaxed capture mode unless a comment says
 * "in any capture mode". Any thread may call an operation at any time, unless the comment asks for the pool's lock.
 */
#ifndef WEIR_LIB_BACKING_H
#define WEIR_LIB_BACKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/backing/arena/page.h"
#include "lib/base/context.h"
#include "lib/base/number.h"
#include "lib/fence/fence.h"
#include "lib/gpu/gpu.h"

struct weir__backing;
struct weir__extent;
struct weir__recorder;

/* A stream that the present call of the program names, and which is alive during that call. For a backing without `names_streams` the
   caller sets only `handle`, and `device` for a free. */
struct weir__user {
    gpu_stream handle;
    int device;              /* for a free: the device of the stream, as far as the caller knows */
    struct weir__line *line; /* the line of the stream, which the caller uses. NULL in a request if host memory ran out */
    struct weir__debt *debt; /* the backing's debt on that line. NULL: the backing has to find the debt */
};

/* What a backing may do to serve a request. The caller goes on to the next value if nothing fits. CUDA's pool ignores the value. */
enum weir__serve {
    WEIR__SERVE_KNOWN, /* use memory that is known to be free for the stream */
    WEIR__SERVE_LOOK,  /* query the events first, after which more memory may be known to be complete */
    WEIR__SERVE_GROW,  /* map more memory, or make the stream wait for frees of other streams */
};

#define WEIR__SERVE_FURTHER 0x10001 /* a code that no GPU call returns: nothing fits, and a later value of enum weir__serve may help */
#define WEIR__SERVE_ASLEEP 0x10004  /* the same: the pool sleeps, and serves nothing */
#define WEIR__SLEEP_RECALLED 0x10005 /* the same: the pool is to wake instead */
#define WEIR__LACK_CAP 0x10000      /* ask->lack: the pool's cap stopped the request */
#define WEIR__LACK_FREE 0x10003     /* ask->lack: the device has memory left, but no more than `leave_free` */
#define WEIR__LACK_TURN 0x10002     /* ask->lack: another request has taken the pool above its cap, and that memory must come back first */

/* One request to a backing: a member of struct weir__request (alloc/request.h), used by one thread. */
struct weir__ask {
    struct weir__user user;
    enum weir__serve how;
    bool small;    /* the request goes to the twin, not to the pool itself */
    bool is_alone; /* no other thread asks the pool at this time, as in recovery: a refused request must leave no memory with the pool */

    union {
        struct weir__extent *extent; /* the extent that an arena gave to the request */
        void *from; /* that extent; or the pointer that CUDA gave, if the block begins above it for the sake of `align`, else NULL */
    };
    /* the reason for GPU_OUT_OF_MEMORY: a WEIR__LACK code or one of page.h. 0: the device has no memory left */
    int lack;
    /* nanoseconds that the request has waited for other threads or for frees, and that no recorded event has reported yet */
    uint64_t waited;
    uint64_t taken[2]; /* an upper bound of the bytes that refused attempts have left with the pool, [0], and with its twin, [1] */
    uint64_t before;   /* bytes that the pool without its twin had reserved before the first attempt; 0: not read */
};

/* A backing's bytes at one moment. */
struct weir__backing_figures {
    uint64_t reserved;
    /* the part of `reserved` that no block uses, that has no pending frees as far as is known, and that can go back to the device */
    uint64_t idle;
};

/* The result of closing a backing. */
struct weir__closing {
    uint64_t pending; /* bytes whose frees were never seen complete. They stay out of use for good */
    bool is_left;     /* the driver refused to take back memory or addresses that no block uses */
    uint64_t left;    /* the bytes of that memory; 0 if only addresses are left */
};

/* The state of a pool. Only an awake pool serves requests. *Yielded* is a pool whose memory nothing uses until it is woken: others may have it
   put to sleep. */
enum weir__nap_state {
    WEIR__NAP_AWAKE,
    WEIR__NAP_YIELDED,
    WEIR__NAP_COPYING, /* yielded, and another thread is putting it to sleep */
    WEIR__NAP_WAKING,  /* yielded, and the program is about to wake it: a thread that is putting it to sleep gives that up if it still can */
    WEIR__NAP_TAKEN,   /* yielded, and asleep for somebody else */
    WEIR__NAP_ASLEEP,  /* put to sleep by the program, or on the way */
};

#define WEIR__NAP_KEEPS 1U   /* the contents go to host memory, and come back */
#define WEIR__NAP_RETAINS 2U /* that host memory stays for the next time */
#define WEIR__NAP_ZEROES 4U  /* contents that were given up come back as zeros */

/* What a pool's memory does when the pool sleeps and wakes (alloc/sleep.c). One thread at a time calls these, in relaxed capture mode. */
struct weir__sleep_ops {
    /* From now on requests fail with WEIR__SERVE_ASLEEP, or no longer. */
    void (*shut)(struct weir__backing *backing, bool is_shut);
    /* Gives all memory back to the device, once that is shut and no work uses it. how: of the WEIR__NAP bits. Sets *given to the bytes that
       went, and *held to those of them that did not become free on the device. Returns the code, WEIR__PAGE_NO_HOST_MEMORY, or
       WEIR__SLEEP_RECALLED if *state became WEIR__NAP_WAKING in time: nothing has changed then. */
    int (*sleep)(struct weir__backing *backing, unsigned how, const _Atomic enum weir__nap_state *state, uint64_t *given, uint64_t *held);
    /* Takes all memory that wake() needs from the device, or none of it. Sets *lack to the bytes, and ask->lack. Returns the code. */
    int (*take)(struct weir__backing *backing, struct weir__ask *ask, uint64_t *lack);
    /* Puts that memory at its addresses and fills it. Sets *kept to whether the contents are as before. Returns the code. After a failure it
       sleeps, and both functions may be called again. */
    int (*wake)(struct weir__backing *backing, bool *kept);
    /* Returns the bytes that blocks have and the device has not. */
    uint64_t (*asleep)(struct weir__backing *backing);
};

/* The page at an address of a backing. */
struct weir__page_at {
    uint64_t address, bytes;
    gpu_page handle;
    bool is_shut; /* the pool sleeps, or is on the way */
};

struct weir__backing_ops {
    /* the kind. Only creation, statistics and the recorder's flags ask for it; other code uses the members below */
    bool is_arena;
    /* the driver gives idle memory of this pool to any other pool of CUDA's that needs some. Otherwise only Weir can do so */
    bool lends_idle;
    /* the backing records itself when it maps memory. Backings of both kinds record what they give back on their own account */
    bool records_growth;
    bool names_streams;      /* callers fill all of struct weir__user, not just the handle, and the backing counts its frees itself */
    /* before it maps memory, the backing returns WEIR__SERVE_FURTHER: memory that caches give up then costs no call of the driver */
    bool asks_caches;
    uint64_t large;          /* blocks of this size or more lie apart from smaller ones. 0: no block does */
    uint64_t step;           /* the unit, in bytes, in which memory goes back to the device */
    uint64_t grain;          /* the unit, in bytes, in which the pool grows */
    uint64_t grow, trim;     /* nanoseconds to map and to give back one GiB (measured on an H200) */
    const struct weir__sleep_ops *sleeps; /* NULL: the memory cannot sleep */
    const char *call_to_free; /* the call, for messages, by which the program frees a block that has outlived its pool */

    /* Serves a request of `bytes`. Returns the code, or WEIR__SERVE_FURTHER. Sets ask->lack if the code is GPU_OUT_OF_MEMORY. In any
       capture mode. */
    int (*serve)(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block);
    /* Called after a refused request that other threads' requests ran beside. Returns whether that request may have left memory with the
       pool, and sets *keep to the bytes that are to stay reserved. */
    bool (*was_refused)(struct weir__backing *backing, struct weir__ask *ask, uint64_t *keep);
    /* Frees a block in stream order. from: the value of ask->from when the block was served. Returns the code, or
       WEIR__PAGE_NO_HOST_MEMORY. After a failure the block is still live. In any capture mode. */
    int (*give)(struct weir__backing *backing, void *block, void *from, struct weir__user *user);
    /* Allocates and frees `bytes`, so that the backing has that memory idle afterwards. Returns the code. */
    int (*extend)(struct weir__backing *backing, uint64_t bytes);
    /* Gives idle memory back to the device until `keep` bytes are reserved. is_patient: first waits a moment for the last frees of idle
       streams to complete. Returns the code. Called with the pool's lock. */
    int (*give_back)(struct weir__backing *backing, uint64_t keep, bool is_patient);
    /* Returns the bytes that the driver has refused to take back so far. */
    uint64_t (*left)(struct weir__backing *backing);
    /* Closes the backing, except for the handles of CUDA, which weir__cuda_destroy() destroys. The struct of an arena lives on while blocks
       of the arena are live. No other thread knows the pool at this time. */
    void (*close)(struct weir__backing *backing, struct weir__closing *closing);

    /* Called after a stream was synchronised. Gives idle memory above the threshold, or above the cap, back to the device. Does nothing
       where CUDA does that itself. */
    void (*synchronised)(struct weir__backing *backing);

    /* Sets an attribute of CUDA's pools as the policy says. Setting the peak of reserved bytes to 0 starts the peak anew. Returns the code.
       Called with the pool's lock, except for that peak. */
    int (*set)(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t value);
    /* Gives a device access to the memory, or withdraws it. After a failure the access is as before. Returns the code. Called with the
       pool's lock. */
    int (*set_peer)(struct weir__backing *backing, int peer, bool grant);
    /* Sets the cap to max_size bytes; 0: no cap. An arena at once gives back idle memory above the cap. CUDA's pool does so when the next
       request would make it grow. Called with the pool's lock. */
    void (*set_cap)(struct weir__backing *backing, uint64_t max_size);

    /* Reads a figure of CUDA's pools, or 0 if the driver does not have the figure. Returns the code. */
    int (*read)(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t *value);
    /* Returns the bytes that no block uses: a request may find them free. Sets *reserved to the reserved bytes, or 0 if they are not known.
       In any capture mode. */
    uint64_t (*idle)(struct weir__backing *backing, uint64_t *reserved);
    void (*figures)(struct weir__backing *backing, struct weir__backing_figures *figures);
    /* Returns the pending bytes. Always 0 for CUDA's pool, whose debts have that number. */
    uint64_t (*pending)(struct weir__backing *backing);
    /* Returns whether frees are pending, so that the pool cannot be destroyed yet. Not called for an exportable pool, whose debts tell
       that. */
    bool (*has_pending)(struct weir__backing *backing);
    /* Sets *bytes to the bytes of `idle` that cannot go back to the device, since a live block lies in the same page. Returns false if that
       is not known. */
    bool (*pinned)(struct weir__backing *backing, uint64_t *bytes);

    /* Finds the page that has this address. Returns false if there is none. NULL: the memory has no pages that other processes could map. In
       any capture mode. */
    bool (*page_at)(struct weir__backing *backing, uint64_t address, struct weir__page_at *page);

    /* From now on the backing records the memory that it maps, or gives back on its own account, under the number `pool`. */
    void (*record)(struct weir__backing *backing, struct weir__recorder *recorder, unsigned pool);
    /* Between hold() and release() the backing maps and unmaps no memory that it records, so that figures recorded in that time are in the
       right order with such events. hold() returns false if another thread is mapping or unmapping now: the caller then does not call
       release(). */
    bool (*hold)(struct weir__backing *backing);
    void (*release)(struct weir__backing *backing);
};

struct weir__backing {
    const struct weir__backing_ops *ops; /* this member and the next two never change */
    const struct gpu *gpu;
    int device;
    /* each block begins at a multiple of this many bytes. Above WEIR__ALIGN_LEAST callers ask for whole multiples only. Fixed after
       creation */
    uint64_t align;
    struct weir__debts debts; /* the memory that was freed and is not known to be complete. The group is the device of the weir */
    pthread_mutex_t *lock;      /* the pool's lock. It guards the attributes, and the order in which they are written to CUDA */
    /* bytes that stay reserved when a stream is synchronised. This member and the next are written under *lock */
    _Atomic uint64_t threshold;
    /* If other streams have more bytes pending than this limit, a stream waits for their frees instead of letting the backing grow. With
       UINT64_MAX no stream waits */
    _Atomic uint64_t pending_max;
#define WEIR__ALIGN_LEAST 512 /* the alignment of CUDA's blocks */
#define WEIR__PENDING_AUTO (UINT64_MAX - 1) /* a limit by which the reserved bytes stay at the peak of the bytes in use, plus a little */
    _Atomic uint64_t leave_free; /* bytes of the device that the backing leaves free when it grows. Written under *lock */
};

/* Returns the bytes that the device lacks for `bytes` free bytes beside `leave_free`. Asks the device, which takes 4 us, only if `leave_free`
   is set; otherwise returns 0. In any capture mode. */
static inline uint64_t weir__backing_lack(const struct weir__backing *backing, uint64_t bytes)
{
    uint64_t leave = atomic_load_explicit(&backing->leave_free, memory_order_relaxed), room = UINT64_MAX, total;
    if (!leave)
        return 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(backing->gpu);
    backing->gpu->device_memory(backing->device, &room, &total);
    weir__relaxed_end(backing->gpu, mode);
    return weir__less(bytes > UINT64_MAX - leave ? UINT64_MAX : bytes + leave, room);
}

#endif
