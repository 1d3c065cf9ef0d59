/* SPDX-License-Identifier: MIT */
/*
 * cuda_cap.h - a cap on a pool of CUDA's that the driver does not enforce: a cap that was lowered since the pool was made, a cap on a pool
 * and its twin together, and any cap on a driver before 12.2. Weir keeps the reserved bytes of the pool within the cap, to the byte.
 *
 * CUDA tells only after a request by how much the pool has grown. As long as there is *room*, which means that the worst growth of the
 * request stays within the cap, the request goes to CUDA with no further question. Requests without room go one at a time. If such a
 * request takes the pool above its cap, its block is freed at once, and the pool is trimmed. The memory comes back when the stream reaches
 * that free. Until then the block is a debt (fence.h) in `undone`, and the next request looks at that debt. During that time the pool may
 * be above its cap by that block, so that other requests are not refused for it, but by no more: no other request without room goes to CUDA
 * on a stream of the program. Recovery uses a stream of its own for its request: that stream is idle, so the growth is undone at once.
 *
 * A pool with `leave_free` is served in the same way: no request has room, as the free memory of the device is anybody's. A request by which
 * the pool grew is undone if the device then has less than that.
 *
 * The struct is part of its pool of CUDA's. A request without room holds `lock` over its calls of CUDA. No lock is taken below `room_lock`.
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
    _Atomic uint64_t max_size; /* the cap in bytes; 0: no cap. Written under room_lock */
    atomic_bool has_strangers; /* code other than Weir allocates from the pool, or may do so: no request has room then */

    pthread_mutex_t lock;
    /* blocks that were freed because they took the pool above its cap, and whose frees are pending. They count with the bytes of the growth
       steps that no other block shares: by that much the pool may be above its cap */
    struct weir__debts undone;
    bool is_due;               /* `undone` had pending bytes at the last look. `lock` guards this member and the next three */
    uintptr_t block;           /* the address of the block behind these bytes, and `size` its size */
    uint64_t size;
    uint64_t before;           /* the bytes that were reserved before that block was asked for, with `leave_free` */

    weir__spin room_lock; /* guards the members below */
    bool is_ragged;       /* some request was not for whole growth steps, so blocks may share steps */
    uint64_t room;        /* bytes by which the pool may grow within the cap, whatever the requests that CUDA is serving now do */
    uint64_t growing;     /* the worst growth, in bytes, of the requests that CUDA is serving now */
    uint64_t begun;       /* the worst growth of all requests that began since the pool was made */
};

void weir__cap_init(struct weir__cap *cap, struct weir__fences *fences, const void *group);
void weir__cap_destroy(struct weir__cap *cap);
/* Sets the cap to max_size bytes; 0: no cap. The caller holds the pool's lock. */
void weir__cap_set(struct weir__cap *cap, uint64_t max_size);
/* Sets the room to 0, so that the next request computes it anew: a request that did not count itself may have used some. */
void weir__cap_forget_room(struct weir__cap *cap);

/* Serves a request under the cap, like the operation serve() of backing.h. max_size: the cap at the time when the request began; UINT64_MAX:
   none, but the pool has `leave_free`. */
int weir__cap_serve(struct weir__cuda *cuda, uint64_t max_size, struct weir__ask *ask, uint64_t bytes, void **block);

#endif
