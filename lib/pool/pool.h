/* SPDX-License-Identifier: MIT */
/*
 * pool.h - one policy entry on one device: a CUDA pool, or two when small requests are kept apart in a small twin; or an arena (arena.h).
 *
 * Owned by its device, from its creation to weir_close(); after that by its debts, as far as its handles cannot be destroyed yet. A private pool whose stream is closed and whose last block is freed (counted in
 * `references`) is parked and serves the next private stream of its entry: destroying it there and then crashes CUDA (cuda.h).
 * `lock` guards the settings and their order of application to CUDA; it may be held over CUDA calls and is taken after every registry lock.
 * Counters and settings that the fast path reads are atomic.
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
#include "include/weir.h"
#include "policy/policy.h"

struct weir__device;

#define WEIR__GROWTH_STEP POLICY_GROWTH_STEP

#define WEIR__NOT_AUTO (UINT64_MAX - 1) /* more bytes than there are, and no policy's word for all */

#define WEIR__ADAPTED_EPOCHS 8 /* in which growth is laid to what was given back */

/* What the keeper knows of a pool whose threshold it sets. Its own, but for the counts, which are atomic. */
struct weir__adapted {
    struct weir__demand demand;
    bool is_begun;
    bool is_awake;      /* it is to look again although nothing was freed */
    bool is_giving;     /* another piece follows the last one. All frees before the first piece were */
    bool is_done;       /* complete */
    uint64_t began;     /* when the present epoch did, by the service's clock */
    uint64_t low, high; /* the least and the most bytes in use in it, as far as it was seen */
    uint64_t peak;      /* the most in use in the epoch before */
    uint64_t reserved;  /* when it looked last, and gave back */
    uint64_t waste;     /* bytes beyond those in use that were needed when the pool grew last */
    uint64_t asks, asked; /* of neighbours, and when the last one came */
    uint64_t rent;        /* nanoseconds that the present idle bytes have cost by lying idle */
    uint64_t given[WEIR__ADAPTED_EPOCHS]; /* bytes given back in the last epochs, the present one first */
    /* Bytes, and nanoseconds of calls that they saved or cost. */
    struct weir__audit {
        _Atomic uint64_t bytes, time;
    } used, unused, missed;
};

/* What a pool is there for. Streams cannot have default pools of their own (policy/check.c). */
enum weir__pool_of {
    WEIR__POOL_OF_ENTRY,  /* all that the entry's name leads to */
    WEIR__POOL_OF_STREAM, /* one stream at a time: private */
    WEIR__POOL_OF_DRIVER, /* the same as the first, and the driver's own pool: configured, not created */
};

struct weir_pool {
    weir *w;
    struct weir__device *device;
    weir_pool *next; /* device->pools; guarded by device->lock */
    struct weir__link named; /* device->named, unless it is private; guarded by device->lock */
    char *name;
    _Atomic(const char *) why_no_arena; /* with `backing: auto`, until it is logged. NULL: there is nothing to say */

    unsigned record; /* its number in the weir's recorder; 0: none. Fixed after creation, as is what it is */
    struct {
        enum weir__pool_of of;
        uint64_t small_below;
        uint64_t max_block; /* of an exportable pool: bytes of the largest block that may be shared; else UINT64_MAX */
    } kind;

    struct weir__backing *backing; /* its memory: an arena, or `native`. Fixed after creation */
    struct weir__cuda native;      /* CUDA's pool: beside an arena it serves captures alone */

    /* Of former.c: the pool that was the device's current one before Weir made this one that, or NULL, and the next such pool. Written under
       the lock of former.c. */
    struct {
        _Atomic(gpu_pool) former;
        weir_pool *next;
    } current;

    /* Of former.c: what a default pool had before Weir configured it, and the next pool of the list. Guarded by the lock of former.c. */
    struct {
        uint64_t saved[WEIR__CUDA_ATTRIBUTES];
        weir_pool *next;
    } before;


    pthread_mutex_t lock;

    /* Who uses a private pool. */
    struct {
        _Atomic size_t references; /* the stream, each live block, each call in flight; 0: parked */
        bool is_parked;            /* guarded by lock */
    } use;

    /* Who else has to do with its memory. */
    struct {
        atomic_bool is_shared; /* there is an export of it */
    } sharing;

    /* The keeper's (left.h). */
    struct {
        atomic_bool is_left; /* it is to look at the pool: something was freed into it, or its threshold fell */
        bool is_due;         /* its own: it found idle memory above the threshold */
    } keeper;

    /* Of `release_threshold: auto`, the keeper's own (adapt.h). */
    struct weir__adapted adapted;

    /* What the policy says of caches; the fast path reads it and nothing that others write stands beside it. Changed under lock. */
    struct {
        _Atomic unsigned classes;       /* size classes from 1 to this one are kept; 0: nothing is cached */
        _Atomic unsigned plain_classes; /* the same while the recorder wants to know nothing of cached calls; else 0 */
        _Atomic uint64_t live_step;     /* how many bytes a stream may hand out or take back before the pool is told; 0, for good: none */
        _Atomic uint64_t per_stream, per_device;
        _Atomic uint64_t idle; /* nanoseconds */
        atomic_bool capture_check;
    } cache __attribute__((aligned(128)));

    /* What else a policy or the program sets (settings.h). Changed under lock. */
    struct {
        /* `release_threshold: auto`: the keeper gives back what is above so many bytes, which it sets; UINT64_MAX: all stay until it knows.
           WEIR__NOT_AUTO: backing->threshold counts. */
        _Atomic uint64_t kept;
        _Atomic uint64_t initial;     /* initial_size: `kept` is never below it, nor below `keep` */
        _Atomic uint64_t max_size;    /* 0: none */
        _Atomic uint64_t keep;        /* bytes that stay reserved when a neighbour asks; UINT64_MAX: all */
        _Atomic uint64_t deadline;    /* of the ladder, in nanoseconds */
        _Atomic unsigned steps;       /* bit (1 << rung) for each rung of the ladder */
        atomic_bool scrub;            /* blocks are cleared before the program gets them */
        uint64_t policy_max, limit;   /* the policy's max_size, and weir__pool_set_limit()'s; 0: none */
        uint64_t threshold_before, kept_before; /* backing->threshold and `kept` when the last reload began. Guarded by w->config */
        bool *peers;                  /* by device: access granted */
    } settings __attribute__((aligned(128)));

    /* What is counted. Atomic, but for `counts`, each of which is guarded by the lock of its shard of the block table. */
    struct {
        _Atomic uint64_t taken;   /* bytes of the blocks that Weir has from CUDA, in whichever hands they are */
        _Atomic uint64_t claimed; /* bytes that CUDA is being asked for under a cap: no two requests pass where one fits */
        _Atomic int64_t spare;    /* of these, bytes that no user has: cached, or rounding of a class; as far as streams have told yet */
        _Atomic uint64_t taken_high, live_high, failures;
        _Atomic uint64_t taken_before; /* what taken_high was before the keeper made it start anew */
        _Atomic uint64_t live_now;                  /* bytes in users' hands */
        _Atomic uint64_t closed_hits, closed_keeps; /* of the caches of streams that are closed */
        struct weir__counts counts[WEIR__SHARDS];
    } figures;

    /* Of recorded.c: growth that CUDA does without a word. Atomic. */
    struct {
        _Atomic uint64_t reserved;  /* bytes when it was last asked */
        _Atomic unsigned left, skip; /* slow calls that are not looked at, as so many looks were in vain */
    } noted;

    /* Of grant.c: what streams have of cache.per_device. Atomic. */
    struct {
        _Atomic uint64_t granted;
        _Atomic uint64_t due; /* when refused streams may next look for an idle one */
    } grants;
};

/* Bytes that the pool keeps over a synchronise, or that the keeper lets it keep. UINT64_MAX: all. */
static inline uint64_t weir__pool_threshold(const weir_pool *pool)
{
    uint64_t kept = atomic_load_explicit(&pool->settings.kept, memory_order_relaxed);
    return kept != WEIR__NOT_AUTO ? kept : atomic_load_explicit(&pool->backing->threshold, memory_order_relaxed);
}

static inline bool weir__pool_is_auto(const weir_pool *pool)
{
    return atomic_load(&pool->settings.kept) != WEIR__NOT_AUTO;
}

/* exact_peaks: figures.live_high is the highest value of figures.live_now. */
static inline bool weir__pool_is_exact(const weir_pool *pool)
{
    return !atomic_load_explicit(&pool->cache.live_step, memory_order_relaxed);
}

/* Whether caches serve requests of that size class now. */
static inline bool weir__pool_caches(const weir_pool *pool, unsigned class)
{
    return class <= atomic_load_explicit(&pool->cache.classes, memory_order_relaxed);
}

/* Whether a cache may have a block for a request of that size class: by the class, or, above those that are cached, for requests of exactly
   its size (recent.h). A pool that does not ask its caches before it grows, and keeps nothing over a synchronise, has no such blocks. */
static inline bool weir__pool_keeps(const weir_pool *pool, unsigned class)
{
    unsigned classes = atomic_load_explicit(&pool->cache.classes, memory_order_relaxed);
    return class <= classes ||
           (classes && (pool->backing->ops->asks_caches || atomic_load_explicit(&pool->backing->threshold, memory_order_relaxed)));
}

/* Creates the entry's pool on the device, configures it and grows it to initial_size. Places errors at the entry's keys. */
weir_status weir__pool_new(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry, bool is_private,
                           weir_error *error, weir_pool **pool);

/* Logs once why a pool with `backing: auto` is no arena. Call it with no lock held. */
void weir__pool_say_backing(weir_pool *pool);

enum weir__pool_end {
    WEIR__POOL_UNMADE, /* its creation failed: the caller has that error and may hold a lock, so nothing is logged */
    WEIR__POOL_EMPTY,
    WEIR__POOL_LIVE, /* blocks of it live on */
};

/* Restores what Weir changed and destroys what it made. */
void weir__pool_free(weir_pool *pool, enum weir__pool_end end);

static inline bool weir__pool_is_private(const weir_pool *pool)
{
    return pool->kind.of == WEIR__POOL_OF_STREAM;
}

static inline bool weir__pool_is_default(const weir_pool *pool)
{
    return pool->kind.of == WEIR__POOL_OF_DRIVER;
}

/* Counts who uses a private pool; for other pools these do nothing. With the last release the pool is parked. */
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
/* A private pool of that entry that nobody uses any more, held and set up as the entry says now; NULL if there is none. */
weir_pool *weir__pool_reuse(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry);

/* Whether the driver takes what is idle in the pool for any other of CUDA's pools on the device; else Weir has to give it back first. */
static inline bool weir__pool_lends_idle(const weir_pool *pool)
{
    return pool->backing->ops->lends_idle && !pool->native.is_host;
}

/* Bytes that are reserved and that nobody uses; 0 also where the driver has no such figures. */
uint64_t weir__pool_idle(const weir_pool *pool);

/* Whether what is idle can go back to the device only once the pool is made anew: blocks of it were shared. */
bool weir__pool_is_stuck(const weir_pool *pool);

/* weir_pool_trim() without its checks of arguments. */
int weir__pool_trim(weir_pool *pool, uint64_t keep, uint64_t *released);

/* CUDA's figure of pool and twin together, or the arena's; 0 where the driver has no such figures. */
int weir__pool_read(const weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t *value);
/* The same for whoever can do without: 0 also where the call fails. */
uint64_t weir__pool_figure(const weir_pool *pool, enum gpu_pool_attribute attribute);

#endif
