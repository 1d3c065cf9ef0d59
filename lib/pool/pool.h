/* SPDX-License-Identifier: MIT */
/*
 * pool.h - one policy entry on one device: a CUDA pool, or two when small requests are kept apart in a small twin; or an arena (arena.h).
 *
 * Its device owns the pool, from its creation to weir_close(). If CUDA's handles cannot be destroyed by then, the pool's debts (fence.h)
 * own the struct until they can. A *private* pool serves one stream. `references` counts its users; once its stream is closed and its last
 * block is freed, the pool is *parked*, and it serves the next private stream of its entry: destroying it at once would crash CUDA
 * (cuda.h). The *keeper* is a job of Weir's thread that gives idle memory back (keeper.h). `lock` guards the settings and the order in
 * which they are applied to CUDA. It may be held over CUDA calls, and is taken after every registry lock. Counters, and settings that the
 * fast path reads, are atomic.
 */
#ifndef WEIR_LIB_POOL_H
#define WEIR_LIB_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/backing/cuda.h"
#include "lib/base/table.h"
#include "lib/fence/fence.h"
#include "lib/gpu/gpu.h"
#include "lib/pool/blocks.h"
#include "lib/pool/demand.h"
#include "include/weir_sleep.h"
#include "policy/policy.h"

struct weir__device;

#define WEIR__GROWTH_STEP POLICY_GROWTH_STEP

#define WEIR__NOT_AUTO (UINT64_MAX - 1) /* no number of bytes: the policy does not say `release_threshold: auto` */

#define WEIR__ADAPTED_EPOCHS 8 /* growth counts as caused by memory that was given back in this many last epochs */

/* The state of `release_threshold: auto` for one pool (adapt.h). An epoch is a fixed span of time (demand.h). Only the keeper's thread uses
   these members, except for the audits, which are atomic. */
struct weir__adapted {
    struct weir__demand demand;
    bool is_begun;        /* the keeper has begun to observe the pool, and the members below are set */
    bool is_awake;        /* the keeper is to look at the pool again, even if nothing is freed */
    bool is_giving;       /* the keeper gives memory back in pieces, and another piece follows */
    bool is_done;         /* when the first of these pieces was given back, all earlier frees were complete */
    uint64_t began;       /* the start of the present epoch, by weir__service_now() */
    uint64_t low, high;   /* the least and the most bytes in use that were seen in the present epoch */
    uint64_t peak;        /* the most bytes in use in the previous epoch */
    uint64_t reserved;    /* bytes that the pool had reserved when the last epoch ended, or after the last piece went back */
    uint64_t waste;       /* bytes reserved beyond the most bytes in use, in the last epoch in which the pool grew: fragmentation */
    uint64_t asks, asked; /* the number of requests of neighbours, and the time of the last one */
    uint64_t rent;        /* the cost of the present idle bytes so far, in nanoseconds */
    uint64_t given[WEIR__ADAPTED_EPOCHS]; /* bytes given back in each of the last epochs, the present one first */
    /* Bytes that were used again while idle, that were idle for nothing, and that were given back but needed again; with the nanoseconds of
       calls that these bytes saved or cost. */
    struct weir__audit {
        _Atomic uint64_t bytes, time;
    } used, unused, missed;
};

/* The kinds of pools. A private pool is never a default pool of the driver (policy/check.c). */
enum weir__pool_of {
    WEIR__POOL_OF_ENTRY,  /* serves all streams and requests that name the policy's entry */
    WEIR__POOL_OF_STREAM, /* private: serves one stream at a time */
    WEIR__POOL_OF_DRIVER, /* serves the same as WEIR__POOL_OF_ENTRY, but is the driver's default pool: Weir configures it only */
};

/* What the program has called before a sleep and after a wake. */
struct weir__sleep_hook {
    struct weir__sleep_hook *next;
    unsigned id;
    weir_sleep_fn fn;
    void *data;
};

struct weir_pool {
    weir *w;
    struct weir__device *device;
    weir_pool *next; /* device->pools; guarded by device->lock */
    struct weir__link named; /* in device->named, unless the pool is private; guarded by device->lock */
    char *name;
    _Atomic(const char *) why_no_arena; /* why a pool with `backing: auto` is no arena, until that is logged; else NULL */

    unsigned record; /* the pool's number in the weir's recorder; 0: none. Fixed after creation, as is `kind` */
    struct {
        enum weir__pool_of of;
        uint64_t small_below; /* requests below this number of bytes go to the small twin; 0: the pool has no twin */
        bool is_rounded; /* the policy has an `align` above that of CUDA's blocks */
        uint64_t max_block; /* of an exportable pool: bytes of the largest block that may be shared; else UINT64_MAX */
    } kind;

    struct weir__backing *backing; /* the pool's memory: an arena, or `native`. Fixed after creation */
    struct weir__cuda native;      /* the CUDA pool, and its twin. If `backing` is an arena, `native` serves only captures */

    /* Of former.c: `former` is the pool that was the device's current pool until Weir made this one current, or NULL; `next` is the next
       pool in the list of such pools. Written under the lock of former.c. */
    struct {
        _Atomic(gpu_pool) former;
        weir_pool *next;
    } current;

    /* Of former.c: the attributes of a default pool before Weir configured it, and the next pool of the list. Guarded by the lock of
       former.c. */
    struct {
        uint64_t saved[WEIR__CUDA_ATTRIBUTES];
        weir_pool *next;
    } before;

    pthread_mutex_t lock;

    /* The users of a private pool. */
    struct {
        _Atomic size_t references; /* one for the stream, for each live block and for each call in progress; 0: the pool is parked */
        bool is_parked;            /* guarded by lock */
    } use;

    struct {
        atomic_bool is_shared; /* the pool has an export */
    } sharing;

    /* Of alloc/sleep.c. `lock` is held during a sleep and a wake. It guards the hooks, `flags`, and changes of `state` but for those between
       WEIR__NAP_YIELDED, _COPYING and _WAKING. */
    struct {
        pthread_mutex_t lock; /* refuses a thread that has it: a hook */
        struct weir__sleep_hook *hooks;
        unsigned last_id;
        _Atomic enum weir__nap_state state;
        unsigned flags; /* of weir_pool_yield() */
        uint64_t unclaimed; /* bytes of the process's claims that are given up while the pool sleeps */
        _Atomic uint64_t sleeps, wakes, held_elsewhere; /* figures (weir_pool_stats) */
    } nap;

    /* For the keeper (left.h). */
    struct {
        atomic_bool is_left; /* the keeper is to look at the pool: something was freed into the pool, or its threshold fell */
        bool is_due;         /* the keeper found idle memory above the threshold. Only the keeper uses this member */
    } keeper;

    struct weir__adapted adapted;

    /* The policy's settings of caches. The fast path reads them, so no other member that threads write shares their cache lines. Changed
       under lock. */
    struct {
        _Atomic unsigned classes;       /* blocks of the size classes from 1 to this one are cached; 0: nothing is cached */
        /* the same as `classes` if the recorder does not record cached calls, and requests are not rounded for `align`; else 0 */
        _Atomic unsigned plain_classes;
        _Atomic uint64_t live_step;     /* bytes that a stream may hand out or take back before it tells the pool; 0, fixed: exact_peaks */
        _Atomic uint64_t per_stream, per_device; /* bytes */
        _Atomic uint64_t idle;                   /* nanoseconds */
        atomic_bool capture_check;
    } cache __attribute__((aligned(128)));

    /* The other settings of the policy and of the program (settings.h). Changed under lock. */
    struct {
        /* With `release_threshold: auto`: the keeper sets this number of bytes, and gives back idle memory above it; UINT64_MAX: the keeper
           has not set it yet, so all memory stays. Otherwise WEIR__NOT_AUTO, and backing->threshold is the threshold. */
        _Atomic uint64_t kept;
        _Atomic uint64_t initial;     /* initial_size in bytes: `kept` is at least `initial` and at least `keep` */
        _Atomic uint64_t max_size;    /* the cap that is in force, in bytes; 0: none */
        _Atomic uint64_t keep;        /* bytes that stay reserved when a neighbour asks; UINT64_MAX: all */
        _Atomic uint64_t deadline;    /* nanoseconds that recovery from lack of memory may take */
        _Atomic unsigned steps;       /* bit (1 << rung) is set for each rung (step) of recovery that the policy names */
        _Atomic unsigned sleep;       /* flags of weir_sleep.h */
        atomic_bool scrub;            /* blocks are cleared before the program gets them */
        uint64_t policy_max, limit;   /* the caps of the policy and of weir__pool_set_limit(), in bytes; 0: none */
        uint64_t threshold_before, kept_before; /* backing->threshold and `kept` when the last reload began. Guarded by w->config */
        bool *peers;                  /* for each device: access to the pool is granted */
    } settings __attribute__((aligned(128)));

    /* Counters. They are atomic, except for `counts`: each of these is guarded by the lock of its shard of the block table. */
    struct {
        _Atomic uint64_t taken;   /* bytes of all blocks that Weir has from CUDA: live, cached and orphaned */
        _Atomic uint64_t claimed; /* bytes that requests under a cap are asking CUDA for now, so that together they stay below the cap */
        _Atomic int64_t spare;    /* bytes of `taken` that the program does not have: cached, or added by rounding; streams report late */
        _Atomic uint64_t taken_high, live_high, failures;
        _Atomic uint64_t taken_before; /* the highest value of `taken` before the keeper reset taken_high */
        _Atomic uint64_t live_now;                  /* with exact_peaks: bytes of live blocks */
        _Atomic uint64_t closed_hits, closed_keeps; /* counts of the caches of streams that are closed */
        struct weir__counts counts[WEIR__SHARDS];
    } figures;

    /* Of recorded.c, which notices when CUDA made the pool grow. Atomic. */
    struct {
        _Atomic uint64_t reserved;   /* bytes that the pool had reserved at the last look */
        _Atomic unsigned left, skip; /* slow calls to skip before the next look: how many are left, and how many there were in all */
    } noted;

    /* Of grant.c, which divides cache.per_device among streams. Atomic. */
    struct {
        _Atomic uint64_t granted; /* bytes granted to streams */
        _Atomic uint64_t due;     /* the time from which a refused stream may again look for an idle stream */
    } grants;
};

/* Returns the bytes that the pool keeps when a stream synchronises, or that the keeper lets the pool keep. UINT64_MAX: all bytes. */
static inline uint64_t weir__pool_threshold(const weir_pool *pool)
{
    uint64_t kept = atomic_load_explicit(&pool->settings.kept, memory_order_relaxed);
    return kept != WEIR__NOT_AUTO ? kept : atomic_load_explicit(&pool->backing->threshold, memory_order_relaxed);
}

static inline bool weir__pool_is_auto(const weir_pool *pool)
{
    return atomic_load(&pool->settings.kept) != WEIR__NOT_AUTO;
}

/* Returns true with exact_peaks: figures.live_high is then the highest value of figures.live_now. */
static inline bool weir__pool_is_exact(const weir_pool *pool)
{
    return !atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
}

/* Returns whether the policy has `align`, so that requests are rounded to whole multiples of it; the next function returns these bytes. */
static inline bool weir__pool_rounds(const weir_pool *pool)
{
    return __builtin_expect(pool->kind.is_rounded, false);
}
static inline size_t weir__pool_round(const weir_pool *pool, size_t size)
{
    uint64_t align = pool->backing->align;
    return size > SIZE_MAX - align ? size : (size + align - 1) & -align;
}

/* Returns the free bytes that the device needs, so that the pool can grow by `size` bytes: those, and `leave_free`. */
static inline uint64_t weir__pool_needs(const weir_pool *pool, uint64_t size)
{
    uint64_t leave = atomic_load_explicit(&pool->backing->leave_free, memory_order_relaxed);
    return size > UINT64_MAX - leave ? UINT64_MAX : size + leave;
}

/* Returns true if the pool sleeps, is on the way, or is yielded: it serves no request, and no cache keeps its blocks. */
static inline bool weir__pool_is_shut(const weir_pool *pool)
{
    return atomic_load(&pool->nap.state) != WEIR__NAP_AWAKE;
}

/* Returns true if caches serve requests of that size class now. */
static inline bool weir__pool_caches(const weir_pool *pool, unsigned class)
{
    return class <= atomic_load_explicit(&pool->cache.classes, memory_order_relaxed);
}

/* Returns true if a cache may have a block for a request of that size class. Caches keep blocks of the cached classes, and large blocks
   above these classes, each for a request of exactly its size (recent.h). A pool has no large blocks in caches if its backing does not ask
   the caches before it grows, and it keeps nothing when a stream synchronises. */
static inline bool weir__pool_keeps(const weir_pool *pool, unsigned class)
{
    unsigned classes = atomic_load_explicit(&pool->cache.classes, memory_order_relaxed);
    return class <= classes ||
           (classes && (pool->backing->ops->asks_caches || atomic_load_explicit(&pool->backing->threshold, memory_order_relaxed)));
}

/* Creates the entry's pool on the device, configures it and grows it to initial_size. Errors name the place of the key in the policy. */
weir_status weir__pool_new(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry, bool is_private,
                           weir_error *error, weir_pool **pool);

/* Logs once why a pool with `backing: auto` is no arena. Call it with no lock held. */
void weir__pool_say_backing(weir_pool *pool);

enum weir__pool_end {
    WEIR__POOL_UNMADE, /* its creation failed: the caller has that error and may hold a lock, so nothing is logged */
    WEIR__POOL_EMPTY,
    WEIR__POOL_LIVE, /* the program still has blocks of the pool */
};

/* Restores the settings of CUDA that Weir changed for the pool, destroys the handles that Weir made, and frees the pool. */
void weir__pool_free(weir_pool *pool, enum weir__pool_end end);

static inline bool weir__pool_is_private(const weir_pool *pool)
{
    return pool->kind.of == WEIR__POOL_OF_STREAM;
}

static inline bool weir__pool_is_default(const weir_pool *pool)
{
    return pool->kind.of == WEIR__POOL_OF_DRIVER;
}

/* Begin and end one use of a private pool, which is parked when the last use ends. They do nothing for other pools. */
static inline void weir__pool_hold(weir_pool *pool)
{
    if (weir__pool_is_private(pool))
        atomic_fetch_add_explicit(&pool->use.references, 1, memory_order_relaxed);
}
void weir__pool_release_private(weir_pool *pool);
static inline void weir__pool_release(weir_pool *pool)
{
    if (weir__pool_is_private(pool))
        weir__pool_release_private(pool);
}
/* Returns a parked private pool of that entry, held for the caller and configured as the entry says now; NULL if there is none. */
weir_pool *weir__pool_reuse(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry);

/* Returns true if CUDA moves the pool's idle memory to its other pools on the device when they need it; otherwise Weir has to give the
   memory back first. */
static inline bool weir__pool_lends_idle(const weir_pool *pool)
{
    return pool->backing->ops->lends_idle && !pool->native.is_host;
}

/* Returns the bytes of blocks whose memory a sleep has given back. */
static inline uint64_t weir__pool_asleep(const weir_pool *pool)
{
    return pool->backing->ops->sleeps ? pool->backing->ops->sleeps->asleep(pool->backing) : 0;
}

/* Returns the bytes that the pool has reserved and that are not in use; 0 if the driver has no such figures. */
uint64_t weir__pool_idle(const weir_pool *pool);

/* Returns true if blocks of the pool were shared: its idle memory can go back to the device only when the CUDA pool is replaced. */
bool weir__pool_is_stuck(const weir_pool *pool);

/* Gives idle memory back to the device until the pool has `keep` bytes reserved. *released: the bytes given back. Does not empty caches.
   Returns CUDA's code. Takes pool->lock. */
int weir__pool_trim(weir_pool *pool, uint64_t keep, uint64_t *released);

/* Reads a figure of the pool and its twin together, or of the arena; 0 if the driver has no such figures. Returns CUDA's code. */
int weir__pool_read(const weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t *value);
/* Returns the same figure, and 0 also if CUDA fails to tell it. */
uint64_t weir__pool_figure(const weir_pool *pool, enum gpu_pool_attribute attribute);

#endif
