/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - CUDA's pool as the memory of a pool: one, or two when small requests are kept apart in a small twin. Beside an arena there is
 * one as well, for what is allocated while a stream captures.
 *
 * A request that does not fit takes all that the device has left before CUDA refuses the request, and the pool keeps of that memory what
 * its release threshold allows (measured: a whole H100). So an attempt of recovery lowers the threshold to what the pool has reserved for
 * the time of the call: CUDA then gives back what the attempt took (measured), with no trim. Four calls of CUDA, some 160 ns: for attempts
 * of recovery and for growth that no request has asked for, not for a first attempt, which is beside others and whose threshold is theirs
 * too.
 *
 * CUDA promises that a pool with pending frees can be destroyed and goes by itself. Measured (H200, driver 580): it goes, but another thread
 * that allocates meanwhile crashes inside the driver. So a handle is destroyed only once every free was seen complete. CUDA's figures tell:
 * then nothing of the pool is reserved any more. Of an exportable pool they do not: they leave out blocks that other processes may have had,
 * and never come to 0 where such a block keeps a growth step (measured). Each free in such a pool therefore has a mark of lib/fence/ behind
 * it, and the pool's debts tell; a free that can get none keeps the handle for good.
 *
 * Part of its pool. The handle of an exportable pool can be exchanged (lend.h): `exchange` is held for reading by whoever uses the handle
 * without the pool's lock. The exchanging thread holds the lock and only tries for `exchange`, so that a reader may take it before or after
 * the lock.
 */
#ifndef WEIR_LIB_BACKING_CUDA_H
#define WEIR_LIB_BACKING_CUDA_H

#include "lib/backing/backing.h"
#include "lib/backing/cuda_cap.h"

/* The attributes that Weir may write, of which a default pool gets the former values back (former.h). */
#define WEIR__CUDA_ATTRIBUTES 4
extern const enum gpu_pool_attribute weir__cuda_attributes[WEIR__CUDA_ATTRIBUTES] __attribute__((visibility("hidden")));

struct weir__cuda {
    struct weir__backing backing;
    gpu_pool handle; /* fixed after creation, as are the next four, but for an exchange */
    gpu_pool small;  /* the twin, or NULL */
    uint64_t max;    /* the maxSize that the driver enforces on handle; 0: none */
    bool is_host;       /* its memory is not the device's */
    bool is_exportable; /* the pool's debts tell whether its frees are complete, not CUDA's figures */
    gpu_pool former; /* that `handle` has replaced, and that cannot be destroyed yet, or NULL. Under the lock */
    pthread_rwlock_t exchange;
    struct weir__cap cap; /* the one that the driver does not enforce */
    struct weir__recorder *recorder; /* NULL until it records, */
    unsigned record;                 /* as of the pool with that number. Both fixed from then on */

    atomic_bool was_lent; /* some block was shared: what CUDA would let go of serves nothing any more, so all is kept. Under the lock */
    uint64_t written[WEIR__CUDA_ATTRIBUTES]; /* of the handle, by Weir, last. Guarded by the lock */
    _Atomic uint64_t small_share; /* the part of the threshold that the twin has; UINT64_MAX: nothing is shared out. Under the lock */
    _Atomic int64_t small_idle;   /* bytes that the twin may still be asked for before its share is looked at. Any thread */
};

/* The struct is zero, and gets its handles from its owner. fences: those of its device. group: the debts of the pool's device. */
void weir__cuda_init(struct weir__cuda *cuda, struct weir__fences *fences, const void *group, pthread_mutex_t *lock);

/* Whether everything that was freed into a pool has been seen complete, as CUDA's figures say; what is idle in it goes back to the device on
   the way. */
bool weir__cuda_is_complete(const struct gpu *gpu, gpu_pool handle);
/* Destroys the handles, once `is_settled` says that the pool's debts are, and with asks_figures each that is complete besides. What stays
   keeps nothing over a synchronise. Returns the waist's code if a destroy failed. */
int weir__cuda_destroy(struct weir__cuda *cuda, bool is_settled, bool asks_figures);
/* The same of `former` alone, of which nothing is pending but what the program may have taken from a current pool. */
int weir__cuda_destroy_former(struct weir__cuda *cuda, bool asks_figures);
/* Whether none is left. */
static inline bool weir__cuda_is_gone(const struct weir__cuda *cuda)
{
    return !cuda->handle && !cuda->small && !cuda->former;
}

/* The handle stays what it is until weir__cuda_end(). */
static inline void weir__cuda_begin(const struct weir__cuda *cuda)
{
    if (cuda->is_exportable)
        pthread_rwlock_rdlock((pthread_rwlock_t *)(uintptr_t)&cuda->exchange);
}

static inline void weir__cuda_end(const struct weir__cuda *cuda)
{
    if (cuda->is_exportable)
        pthread_rwlock_unlock((pthread_rwlock_t *)(uintptr_t)&cuda->exchange);
}

/* Asks for a block of one of the two handles so that a refusal leaves nothing behind. Call it without the lock, which is held from the
   first to the last call of CUDA, so that a reload waits for the attempt. */
int weir__cuda_malloc_alone(struct weir__cuda *cuda, void **block, size_t size, gpu_pool handle, gpu_stream stream);

/* Writes one attribute of the pool or its twin. Called with the lock, as the others down to the next comment that says otherwise. */
int weir__cuda_write(struct weir__cuda *cuda, gpu_pool handle, enum gpu_pool_attribute attribute, uint64_t value);
/* What Weir wrote last of the handle. */
uint64_t weir__cuda_written(const struct weir__cuda *cuda, enum gpu_pool_attribute attribute);
/* Shares the threshold out between pool and twin by what the twin holds now; UINT64_MAX bytes keep all. */
int weir__cuda_set_threshold(struct weir__cuda *cuda, uint64_t threshold);
/* The same with the present threshold, unless somebody else has set another one since. */
int weir__cuda_reshare(struct weir__cuda *cuda);
/* Writes the threshold that is asked for where an attempt of recovery could not put it back. */
void weir__cuda_mend(struct weir__cuda *cuda);
/* Gives a new handle of an exportable pool what the present one has: reuse attributes, and access of these devices. */
int weir__cuda_copy(const struct weir__cuda *cuda, gpu_pool made, const bool *peers, size_t count);

/* Asks CUDA on that stream, under no cap but the driver's. */
int weir__cuda_ask(struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes, gpu_stream stream, void **block);
/* A refused attempt may have left whole steps for so many bytes with the pool. */
void weir__cuda_note_taken(struct weir__ask *ask, uint64_t bytes);

/* Shares the threshold out anew if the twin has grown beyond its share. Call it without the lock. */
void weir__cuda_rebalance(struct weir__cuda *cuda);

/* After a request that the twin has served. CUDA is asked only once the twin was asked for what it had idle the last time. */
static inline void weir__cuda_small_served(struct weir__cuda *cuda, uint64_t bytes)
{
    if (atomic_load_explicit(&cuda->small_share, memory_order_relaxed) != UINT64_MAX &&
        atomic_fetch_sub_explicit(&cuda->small_idle, (int64_t)bytes, memory_order_relaxed) < (int64_t)bytes)
        weir__cuda_rebalance(cuda);
}

#endif
