/* SPDX-License-Identifier: MIT */
/*
 * cuda_cap.h - a cap on a pool of CUDA's that the driver does not enforce: one that was lowered since the pool was made, one on a pool and
 * its small twin together, and any on a driver before 12.2. What the pool has reserved stays below it, to the byte.
 *
 * CUDA says only afterwards by how much a pool grew for a request. As long as there is room for the worst that a request can do, nothing is
 * asked. Beyond that, requests that may take the pool above its cap go one at a time; the block of one that did goes back at once, and the
 * memory with it. On a busy stream that takes until the stream gets there, so such a block is a debt (fence.h), and the next request sees to
 * it. Meanwhile the pool may be above its cap by that block, so that nobody else is refused for it, but by no more: no other request that may
 * take it there is tried on a stream of the program's. Recovery asks on a stream of its own: as that is idle, its growth is undone at once.
 *
 * Part of its pool of CUDA's. `lock` is held over CUDA calls by whoever may take the pool above its cap; `room_lock` is a leaf.
 */
#ifndef WEIR_LIB_BACKING_CUDA_CAP_H
#define WEIR_LIB_BACKING_CUDA_CAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/spin.h"
#include "lib/fence/fence.h"

struct weir__ask;
struct weir__cuda;

struct weir__cap {
    _Atomic uint64_t max_size; /* bytes; 0: nothing is watched. Written under room_lock */
    atomic_bool has_strangers; /* others allocate from the pool, or may, without Weir: no room is ever known */

    pthread_mutex_t lock;
    struct weir__debts undone; /* blocks that went back, by the bytes of steps that nobody can have until then: by so many the pool may be */
    bool is_due;               /* above its cap. Something was on its way back at the last look; guarded by lock, as are the next two, */
    uintptr_t block;           /* which tell of the block that is behind those bytes */
    uint64_t size;

    weir__spin room_lock; /* guards the others */
    bool is_ragged;       /* there were requests for other sizes than whole steps, so that blocks may share steps */
    uint64_t room;        /* bytes that the pool may grow by for certain, whatever becomes of the requests that CUDA is being asked for */
    uint64_t growing;     /* bytes that it may grow by for those, */
    uint64_t begun;       /* and for all requests since it was made */
};

void weir__cap_init(struct weir__cap *cap, struct weir__fences *fences, const void *group);
void weir__cap_destroy(struct weir__cap *cap);
/* From now on so many bytes are watched; 0: none. Called with the pool's lock. */
void weir__cap_set(struct weir__cap *cap, uint64_t max_size);
/* Room is to be found anew, as a request that was not watched takes some. */
void weir__cap_forget_room(struct weir__cap *cap);

/* Serves under the cap, which was `max_size` when the request began: as the operation does (backing.h). */
int weir__cap_serve(struct weir__cuda *cuda, uint64_t max_size, struct weir__ask *ask, uint64_t bytes, void **block);

#endif
