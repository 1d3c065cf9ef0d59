/* SPDX-License-Identifier: MIT */
/*
 * asking.h - which requests CUDA is being asked for on a device at this moment.
 *
 * A request that fails beside others may fail because of them: at a cap for what they may get, on the device because CUDA takes all that is
 * left before it gives up on one of them. So whoever failed beside others asks once more alone, and only that answer counts.
 *
 * Owned by its device. To ask costs two atomic additions; `lock` is taken only while somebody asks alone or wants to. No other lock of
 * Weir's but pool.exchange and pool.lock is taken between begin and end.
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
    _Atomic uint64_t begun, ended; /* how often somebody began to ask, and ended */
    atomic_bool is_closed;         /* somebody asks alone, or waits for the others to end: nobody begins */
    pthread_mutex_t lock;          /* of who sets is_closed, and of */
    unsigned waiting;              /* who wait to begin: they do before anybody else asks alone */
    pthread_cond_t changed;        /* on CLOCK_MONOTONIC */
};

void weir__asking_init(struct weir__asking *asking);
void weir__asking_destroy(struct weir__asking *asking);

/* One who asks. */
struct weir__asker {
    uint64_t number; /* how often somebody began before */
    bool was_beside; /* somebody was asking already */
};

/* The rare cases: somebody asks alone. The first returns what `begun` was at the begin that came of it. */
uint64_t weir__asking_wait(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited);
void weir__asking_wake(struct weir__asking *asking);

/* weir__asking_end() follows. Waits while somebody asks alone; *waited grows by the nanoseconds. */
static inline struct weir__asker weir__asking_begin(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited)
{
    uint64_t number = atomic_fetch_add(&asking->begun, 1);
    if (atomic_load(&asking->is_closed))
        number = weir__asking_wait(asking, gpu, waited);
    return (struct weir__asker){ .number = number, .was_beside = atomic_load(&asking->ended) != number };
}

/* Whether anybody else has been asking since the begin. */
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

/* Waits until nobody asks, and lets nobody begin until weir__asking_alone_end(). false: that took until `until`. *waited grows by the
   nanoseconds. */
bool weir__asking_alone_begin(struct weir__asking *asking, const struct timespec *until, const struct gpu *gpu, uint64_t *waited);
void weir__asking_alone_end(struct weir__asking *asking);

#endif
