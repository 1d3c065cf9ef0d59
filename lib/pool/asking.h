/* SPDX-License-Identifier: MIT */
/*
 * asking.h - which requests CUDA is being asked for on a device at this moment.
 *
 * A request that fails beside others may fail because of them: at a cap since they have claimed the rest, on the device since CUDA takes
 * all memory that is left before it gives up on one of them. So a request that failed beside others asks once more alone, and only that
 * answer counts.
 *
 * Owned by its device. Asking costs two atomic additions; `lock` is taken only while a thread asks alone or wants to. Between begin and end
 * a thread takes no lock of Weir's but pool.exchange and pool.lock.
 */
#ifndef WEIR_LIB_ASKING_H
#define WEIR_LIB_ASKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "lib/gpu/gpu.h"

struct weir__asking {
    _Atomic uint64_t begun, ended; /* how often a thread began to ask, and ended */
    atomic_bool is_closed;         /* a thread asks alone, or waits for the others to end: no other begins */
    pthread_mutex_t lock;          /* guards the setting of is_closed, and `waiting` */
    unsigned waiting;              /* threads that wait to begin, which they do before another asks alone */
    pthread_cond_t changed;        /* on CLOCK_MONOTONIC */
};

void weir__asking_init(struct weir__asking *asking);
void weir__asking_destroy(struct weir__asking *asking);

/* One call of CUDA for memory. */
struct weir__asker {
    uint64_t number; /* how often a thread had begun before */
    bool was_beside; /* another thread was asking already */
};

/* The rare cases: another thread asks alone. weir__asking_wait() returns what `begun` was when the caller could begin. */
uint64_t weir__asking_wait(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited);
void weir__asking_wake(struct weir__asking *asking);

/* Called before CUDA is asked; weir__asking_end() follows. Waits while another thread asks alone, and adds the nanoseconds to *waited. */
static inline struct weir__asker weir__asking_begin(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited)
{
    uint64_t number = atomic_fetch_add(&asking->begun, 1);
    if (atomic_load(&asking->is_closed))
        number = weir__asking_wait(asking, gpu, waited);
    return (struct weir__asker){ .number = number, .was_beside = atomic_load(&asking->ended) != number };
}

/* Whether another thread has been asking since the begin. */
static inline bool weir__asking_is_beside(struct weir__asking *asking, struct weir__asker asker)
{
    return asker.was_beside || atomic_load(&asking->begun) != asker.number + 1;
}

static inline void weir__asking_end(struct weir__asking *asking)
{
    atomic_fetch_add(&asking->ended, 1);
    if (atomic_load(&asking->is_closed))
        weir__asking_wake(asking);
}

/* Waits until no other thread asks, and lets none begin until weir__asking_alone_end(). Returns false if others still asked at `until`.
   Adds the nanoseconds to *waited. */
bool weir__asking_alone_begin(struct weir__asking *asking, const struct timespec *until, const struct gpu *gpu, uint64_t *waited);
void weir__asking_alone_end(struct weir__asking *asking);

#endif
