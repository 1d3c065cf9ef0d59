/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - CUDA's pool as the memory of a pool of Weir's. It has one handle of CUDA's, or two if small requests are kept apart: the second
 * one is the *twin*. An arena has such a pool beside it as well, for memory that is allocated while a stream captures.
 *
 * A request that does not fit takes all memory that the device has left before CUDA refuses the request. The pool then keeps of that memory
 * what its release threshold allows (measured: a whole H100). So recovery, which asks again after a refusal, first lowers the threshold to
 * the bytes that the pool has reserved, for the time of its call: CUDA then gives back what the refused attempt took (measured), with no
 * trim. This costs four calls of CUDA, some 160 ns. It is done for attempts of recovery and for growth without a request, but not for the
 * first attempt of a request: other requests run at the same time, and the lower threshold would apply to them too.
 *
 * CUDA promises that a pool with pending frees may be destroyed and disappears once they are complete. Measured (H200, driver 580): another
 * thread that allocates during that time crashes inside the driver. So Weir destroys a handle only once every free was seen complete.
 * CUDA's figures tell that: no memory of the pool is reserved any more. The figures of an exportable pool do not tell it. They leave out
 * blocks that other processes may have had, and do not fall to 0 while such a block keeps a growth step (measured). So each free in an
 * exportable pool has a mark of lib/fence/ behind it, and the pool's debts tell when all frees are complete. If no mark can be recorded for
 * a free, the handle is kept for good.
 *
 * The struct is part of its pool. "The lock" below is the pool's lock. An *exchange* replaces the handle of an exportable pool by a new one
 * (lend.h). A thread that uses the handle without the pool's lock holds `exchange` for reading. The thread that replaces the handle holds
 * the lock and only tries to lock `exchange`, so that readers may take `exchange` before or after the lock.
 */
#ifndef WEIR_LIB_BACKING_CUDA_H
#define WEIR_LIB_BACKING_CUDA_H

#include "lib/backing/backing.h"
#include "lib/backing/cuda_cap.h"

/* The attributes that Weir may write. A default pool gets the former values of these attributes back (former.h). */
#define WEIR__CUDA_ATTRIBUTES 4
extern const enum gpu_pool_attribute weir__cuda_attributes[WEIR__CUDA_ATTRIBUTES] __attribute__((visibility("hidden")));

struct weir__cuda {
    struct weir__backing backing;
    gpu_pool handle; /* this member and the next four never change after creation, except in an exchange */
    gpu_pool small;  /* the handle of the twin, or NULL */
    uint64_t max;    /* the maxSize that the driver enforces on handle; 0: none */
    bool is_host;       /* the pool's memory is host memory */
    bool is_exportable; /* the pool's debts tell whether its frees are complete, not CUDA's figures */
    gpu_pool former; /* the handle that `handle` has replaced and that cannot be destroyed yet, or NULL. Guarded by the lock */
    pthread_rwlock_t exchange;
    struct weir__cap cap; /* the cap that the driver does not enforce (cuda_cap.h) */
    struct weir__recorder *recorder; /* the recorder, or NULL until record() is called. This member and the next are fixed after that */
    unsigned record;                 /* the number of the pool in the recorder */

    /* a block was shared with another process. Memory that CUDA gives up then could not be used again, so the pool keeps all. Written under
       the lock */
    atomic_bool was_lent;
    uint64_t written[WEIR__CUDA_ATTRIBUTES]; /* the values that Weir wrote last for `handle`. Guarded by the lock */
    _Atomic uint64_t small_share; /* the twin's part of the threshold; UINT64_MAX: the threshold is not divided. Written under the lock */
    /* bytes that the twin may still serve before Weir reads its figures again. Any thread may write this member */
    _Atomic int64_t small_idle;
};

/* Initialises the backing. The struct is zero, and its owner sets the handles. fences: those of the pool's device. group: the group of the
   pool's debts. */
void weir__cuda_init(struct weir__cuda *cuda, struct weir__fences *fences, const void *group, pthread_mutex_t *lock);

/* Returns whether all frees in the pool are complete by CUDA's figures. Gives idle memory of the pool back to the device for that. */
bool weir__cuda_is_complete(const struct gpu *gpu, gpu_pool handle);
/* Destroys the handles if `is_settled`, which says that the pool's debts are settled. If `asks_figures`, destroys only the handles whose
   frees are complete by CUDA's figures. Sets the threshold of each remaining handle to 0. Returns the GPU code of a destroy that failed, or
   GPU_SUCCESS. */
int weir__cuda_destroy(struct weir__cuda *cuda, bool is_settled, bool asks_figures);
/* weir__cuda_destroy() for the handle `former` alone. No free in it is pending, except of blocks that the program may have taken from a
   current pool. */
int weir__cuda_destroy_former(struct weir__cuda *cuda, bool asks_figures);
/* Returns whether all handles are destroyed. */
static inline bool weir__cuda_is_gone(const struct weir__cuda *cuda)
{
    return !cuda->handle && !cuda->small && !cuda->former;
}

/* Keeps the handle from being exchanged until weir__cuda_end(). */
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

/* Allocates a block from the handle in such a way that a refusal leaves no memory with the pool. Returns the GPU code. Call it without the
   lock: the function takes the lock for all its calls of CUDA, so that a reload of the policy waits for the attempt. */
int weir__cuda_malloc_alone(struct weir__cuda *cuda, void **block, size_t size, gpu_pool handle, gpu_stream stream);

/* Writes one attribute of the pool or of its twin. Returns the GPU code. The caller of this function and of the next five holds the lock.
   */
int weir__cuda_write(struct weir__cuda *cuda, gpu_pool handle, enum gpu_pool_attribute attribute, uint64_t value);
/* Returns the value that Weir wrote last for that attribute of `handle`. */
uint64_t weir__cuda_written(const struct weir__cuda *cuda, enum gpu_pool_attribute attribute);
/* Divides the threshold between pool and twin by the bytes that the twin has reserved now. A threshold of UINT64_MAX keeps all memory of
   both. Returns the GPU code. */
int weir__cuda_set_threshold(struct weir__cuda *cuda, uint64_t threshold);
/* Divides the present threshold anew, unless the program has written another one to the handle since. Returns the GPU code. */
int weir__cuda_reshare(struct weir__cuda *cuda);
/* Writes the threshold of the policy again, if an attempt of recovery could not restore it. */
void weir__cuda_mend(struct weir__cuda *cuda);
/* Copies the reuse attributes of `handle` to `made`, a new handle of an exportable pool, and gives the devices in `peers` access. Returns
   the GPU code. */
int weir__cuda_copy(const struct weir__cuda *cuda, gpu_pool made, const bool *peers, size_t count);

/* Returns the bytes to ask CUDA for, so that `bytes` from a multiple of the pool's alignment on lie within the block, wherever CUDA puts
   it. The next function returns the first multiple in a block. */
static inline uint64_t weir__cuda_wide(const struct weir__backing *backing, uint64_t bytes)
{
    uint64_t more = backing->align - WEIR__ALIGN_LEAST;
    return bytes > UINT64_MAX - more ? bytes : bytes + more;
}

static inline void *weir__cuda_aligned(const struct weir__backing *backing, const void *base)
{
    return (void *)(((uintptr_t)base + backing->align - 1) & -backing->align);
}

/* Allocates a block on that stream, under no cap but the driver's. Returns the GPU code. */
int weir__cuda_ask(struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes, gpu_stream stream, void **block);
/* Adds to ask->taken the growth steps that a refused attempt for `bytes` may have left with the pool. */
void weir__cuda_note_taken(struct weir__ask *ask, uint64_t bytes);

/* Divides the threshold anew if the twin has reserved more than its part. Call it without the lock. */
void weir__cuda_rebalance(struct weir__cuda *cuda);

/* Called after the twin has served a request. Reads CUDA's figures only once the twin has served as many bytes as it had idle at the last
   reading. */
static inline void weir__cuda_small_served(struct weir__cuda *cuda, uint64_t bytes)
{
    if (atomic_load_explicit(&cuda->small_share, memory_order_relaxed) != UINT64_MAX &&
        atomic_fetch_sub_explicit(&cuda->small_idle, (int64_t)bytes, memory_order_relaxed) < (int64_t)bytes)
        weir__cuda_rebalance(cuda);
}

#endif
