/* SPDX-License-Identifier: MIT */
/*
 * asking.h - counts the threads that are asking CUDA for memory of a device, and lets one thread ask alone.
 *
 * A request that fails while other threads ask may fail because of them: below a cap, the others have claimed the rest; on the device, CUDA
 * takes all memory that is left before it refuses one of the requests. So a request that failed beside others asks once more, alone, and
 * only that second answer counts.
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
    _Atomic uint64_t begun, ended; /* how often any thread began to ask, and how often one ended; equal: no thread asks */
    atomic_bool is_closed;         /* A thread asks alone, or waits for the others to end: no other thread begins. */
    pthread_mutex_t lock;          /* guards `waiting` and writing is_closed */
    unsigned waiting;              /* threads that wait to begin; they all begin before the next thread asks alone */
    pthread_cond_t changed;        /* signalled when the members change; waits are by CLOCK_MONOTONIC */
};

void weir__asking_init(struct weir__asking *asking);
void weir__asking_destroy(struct weir__asking *asking);

/* One call of CUDA for memory, from weir__asking_begin() to weir__asking_end(). */
struct weir__asker {
    uint64_t number; /* the value of `begun` before this thread began */
    bool was_beside; /* another thread was asking when this one began */
};

/* The slow paths of begin and end, for when a thread asks alone or wants to. weir__asking_wait() blocks until the caller may begin, and
   returns the value of `begun` before that. */
uint64_t weir__asking_wait(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited);
void weir__asking_wake(struct weir__asking *asking);

/* Begins to ask; weir__asking_end() must follow. While another thread asks alone this waits, and adds the nanoseconds waited to *waited. */
static inline struct weir__asker weir__asking_begin(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited)
{
    uint64_t number = atomic_fetch_add(&asking->begun, 1);
    if (atomic_load(&asking->is_closed))
        number = weir__asking_wait(asking, gpu, waited);
    return (struct weir__asker){ .number = number, .was_beside = atomic_load(&asking->ended) != number };
}

/* Returns whether another thread was asking at any time since this thread began. */
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

/* Waits until no other thread asks, and lets none begin until weir__asking_alone_end(). Returns false, and lets threads begin again, if
   others still ask at the time `until`. Adds the nanoseconds waited to *waited. */
bool weir__asking_alone_begin(struct weir__asking *asking, const struct timespec *until, const struct gpu *gpu, uint64_t *waited);
void weir__asking_alone_end(struct weir__asking *asking);

#endif
