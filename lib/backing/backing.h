/* SPDX-License-Identifier: MIT */
/*
 * backing.h - the memory of a pool, which is of one of two kinds: CUDA's pool (cuda.h), or an arena that Weir maps itself (arena.h).
 *
 * Owned by its pool, from the pool's creation until the backing is closed. The first member of either kind is a struct weir__backing, so
 * that whoever serves, trims or looks at a pool needs not know which kind it is.
 */
#ifndef WEIR_LIB_BACKING_H
#define WEIR_LIB_BACKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"

struct weir__backing {
    const struct gpu *gpu; /* fixed, as the next two */
    int device;
    pthread_mutex_t *lock;      /* the pool's, which guards what is set and the order in which CUDA hears of it */
    _Atomic uint64_t threshold; /* bytes that stay reserved when a stream is synchronised. Written under *lock */
};

#endif
