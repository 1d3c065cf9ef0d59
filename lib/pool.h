/* SPDX-License-Identifier: MIT */
/*
 * pool.h - one policy entry on one device: a CUDA pool, or two when small requests are kept apart in a small twin.
 *
 * Owned by its device, from its creation to weir_close(). A private pool whose stream is closed and whose last block is freed (counted in
 * `references`) is parked and serves the next private stream of its entry: destroying it there and then crashes CUDA (retired.h).
 * `lock` guards the settings and their order of application to CUDA; it may be held over CUDA calls and is taken after every registry lock.
 * Counters and settings that the fast path reads are atomic.
 */
#ifndef WEIR_LIB_POOL_H
#define WEIR_LIB_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/blocks.h"
#include "lib/gpu/gpu.h"
#include "lib/weir.h"
#include "policy/policy.h"

struct weir__device;
struct weir__retired;

#define WEIR__GROWTH_STEP POLICY_GROWTH_STEP

/* What a default pool was before Weir configured it, in the order of the attributes that are put back. */
#define WEIR__SAVED_COUNT 4

struct weir_pool {
    weir *w;
    struct weir__device *device;
    weir_pool *next;     /* device->pools; guarded by device->lock */
    char *name;
    gpu_pool handle; /* that of an exportable pool can be exchanged (attach.h) */
    /* Of exportable pools: held for reading by whoever uses the handle without `lock`. Who exchanges it has `lock` and only tries for this
       one, so that it may be taken for reading before and after `lock` alike. */
    pthread_rwlock_t exchange;
    gpu_pool small; /* the twin, or NULL */
    uint64_t small_below;
    uint64_t native_max; /* the maxSize that the driver enforces on handle; 0: none */
    atomic_bool is_left; /* the keeper is to look at it: something was freed into it, or its threshold fell */
    bool is_due;         /* the keeper's own: it found idle memory above the threshold */
    bool is_default;     /* the driver's own pool: configured, not created */
    bool is_host;
    bool is_private;
    bool is_exportable; /* CUDA's figures cannot tell whether its frees are complete, so each is noted (retired.h) */
    bool is_silent;                /* its creation failed: the caller has that error and may hold a lock, so nothing is logged */
    struct weir__retired *retired; /* room for it in the list of pools that cannot be destroyed yet; it changes with the handle */
    uint64_t max_block;            /* of an exportable pool: bytes of the largest block that may be shared; else UINT64_MAX */
    bool is_current;       /* we made it the device's current pool, and `former` was that before; guarded by the list of current pools */
    gpu_pool former;
    weir_pool *next_current;
    uint64_t saved[WEIR__SAVED_COUNT];
    uint64_t written[WEIR__SAVED_COUNT]; /* what we made of them */

    pthread_mutex_t lock;
    bool *peers;               /* by device: access granted. Guarded by lock */
    bool is_parked;            /* a private pool that nobody uses. Guarded by lock */
    atomic_bool is_shared;     /* there is an export of it */
    atomic_bool was_lent;      /* some block was shared: what CUDA would let go of serves nothing any more, so all is kept. Changed under lock */
    uint64_t policy_max, limit; /* the policy's max_size, and weir__pool_set_limit()'s; 0: none. Guarded by lock */
    uint64_t threshold_before; /* release_threshold when the last reload began. Guarded by w->config */

    /* What the policy says of caches; the fast path reads it and nothing that others write stands beside it. */
    struct {
        _Atomic unsigned classes;       /* size classes from 1 to this one are kept; 0: nothing is cached */
        _Atomic unsigned plain_classes; /* the same where no capture has to be asked for; else 0 */
        _Atomic uint64_t live_step; /* how many bytes a stream may hand out or take back before the pool is told */
        _Atomic uint64_t per_stream, per_device;
        _Atomic uint64_t idle; /* nanoseconds */
        atomic_bool capture_check;
    } cache __attribute__((aligned(128)));

    _Atomic uint64_t release_threshold __attribute__((aligned(128)));
    _Atomic uint64_t max_size;   /* 0: none */
    _Atomic uint64_t keep;       /* bytes that stay reserved when a neighbour asks; UINT64_MAX: all */
    _Atomic uint64_t deadline;   /* of the ladder, in nanoseconds */
    _Atomic unsigned steps;      /* bit (1 << rung) for each rung of the ladder */
    atomic_bool scrub; /* blocks are cleared before the program gets them */
    _Atomic uint64_t small_share; /* the part of the threshold that the twin has; UINT64_MAX: there is nothing to share out */

    _Atomic size_t references; /* private pools: the stream, each live block, each call in flight; 0: parked */

    _Atomic uint64_t taken; /* bytes of the blocks that Weir has from CUDA, in whichever hands they are */
    _Atomic uint64_t claimed; /* bytes that CUDA is being asked for within max_size */
    _Atomic int64_t spare;  /* of these, bytes that no user has: cached, or the rounding of a class; as far as the streams have told yet */
    _Atomic uint64_t taken_high, live_high, failures;
    bool is_exact;             /* exact_peaks: live_high is the highest value of the following. Fixed after open */
    _Atomic uint64_t live_now; /* bytes in users' hands */
    _Atomic uint64_t cache_granted; /* of cache.per_device, to streams */
    _Atomic uint64_t refusals;      /* of more of it: the clock of grant.c, */
    _Atomic uint64_t looked_below;  /* where its next look begins, */
    _Atomic unsigned mistakes;      /* and streams that it took for idle and that were not */
    _Atomic uint64_t closed_hits, closed_keeps; /* of the caches of streams that are closed */
    struct weir__counts counts[WEIR__SHARDS]; /* each guarded by the lock of its shard of the block table */
};

/* The handle stays what it is until weir__pool_handle_end(). */
static inline void weir__pool_handle_begin(const weir_pool *pool)
{
    if (pool->is_exportable)
        pthread_rwlock_rdlock((pthread_rwlock_t *)(uintptr_t)&pool->exchange);
}

static inline void weir__pool_handle_end(const weir_pool *pool)
{
    if (pool->is_exportable)
        pthread_rwlock_unlock((pthread_rwlock_t *)(uintptr_t)&pool->exchange);
}

/* Bytes in users' hands and in caches, as of one moment of each cache. */
struct weir__held {
    uint64_t live, cached, hits, keeps;
};
struct weir__held weir__pool_held(weir_pool *pool);

uint64_t weir__pool_live_blocks(weir_pool *pool);

/* Raises the highest values: `taken` has risen to so much, or `spare` has changed. */
void weir__pool_raise_high(weir_pool *pool, uint64_t taken);
/* A block that no user had went back to CUDA. */
static inline void weir__pool_count_spare_gone(weir_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->taken, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pool->spare, (int64_t)bytes, memory_order_relaxed);
}
/* A stream tells that users have so many bytes more, or less, of what Weir has from CUDA. */
void weir__pool_count_live(weir_pool *pool, int64_t bytes);
/* Users have so many bytes more, or less, of those that `taken` has: for exact_peaks. Part of the one before. */
void weir__pool_count_exactly(weir_pool *pool, int64_t bytes);
/* The highest figures start anew. */
int weir__pool_reset_peaks(weir_pool *pool);

/* Whether caches serve requests of that size class now. */
static inline bool weir__pool_caches(const weir_pool *pool, unsigned class)
{
    return class <= atomic_load_explicit(&pool->cache.classes, memory_order_relaxed);
}

/* While nobody calls, and without opened streams: what the pool has counted is what the table of blocks has, and nothing is granted or
   asked for any more. */
bool weir__pool_is_valid(weir_pool *pool);

/* Creates the entry's pool on the device, configures it and grows it to initial_size. Places errors at the entry's keys. */
weir_status weir__pool_new(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry, bool is_private,
                           weir_error *error, weir_pool **pool);

/* Restores what Weir changed and destroys what it made. Blocks still live are logged. */
void weir__pool_free(weir_pool *pool);

/* Counts who uses a private pool; for other pools these do nothing. With the last release the pool is parked. */
void weir__pool_hold(weir_pool *pool);
void weir__pool_release(weir_pool *pool);
/* A private pool of that entry that nobody uses any more, held and set up as the entry says now; NULL if there is none. */
weir_pool *weir__pool_reuse(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry);

/* Whether nothing of the pool is live, but some of its frees have not been seen complete. Gives back what is idle. */
bool weir__pool_has_pending_frees(weir_pool *pool);

/* Bytes that are reserved and that nobody uses; 0 also where the driver has no such figures. */
uint64_t weir__pool_idle(const weir_pool *pool);

/* Whether what is idle can go back to the device only once the pool is made anew: blocks of it were shared. */
bool weir__pool_is_stuck(const weir_pool *pool);

/* weir_pool_trim() without its checks of arguments. */
int weir__pool_trim(weir_pool *pool, uint64_t keep, uint64_t *released);

/* CUDA's figure of pool and twin together; 0 where the driver has no such figures. */
int weir__pool_read(const weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t *value);
/* The same for whoever can do without: 0 also where the call fails. */
uint64_t weir__pool_figure(const weir_pool *pool, enum gpu_pool_attribute attribute);

#endif
