/* SPDX-License-Identifier: MIT */
/*
 * device.h - the data that the plug-in keeps for each CUDA device: the device's weir, which the first allocation there opens, and the
 * memory of graphs. A *reserve* is memory for the graphs of torch, taken from Weir in *chunks* and handed out in *parts* (reserve.h).
 *
 * The struct is made once and never freed, as torch frees tensors until the process ends. A member that names no lock is fixed.
 *
 * doc/thread-safety.md has the order of locks. `reserve_lock` and the locks of notes are leaves: no call of CUDA is
 * made under them, and none of Weir's but weir__block_orphan() and weir__blocks_return() under reserve_lock, which take leaves of Weir's.
 */
#ifndef WEIR_TORCH_DEVICE_H
#define WEIR_TORCH_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/alloc/free.h"
#include "lib/alloc/quiet.h"
#include "lib/base/table.h"
#include "plugin/torch/weir_torch.h"
#include "share/open.h"

#define TORCH_DEVICES_MAX 64

struct torch_note;
struct torch_reserve;
struct torch_begin;
struct torch_foreign;

/* Figures of the memory of graphs. */
struct torch_graph_figures {
    uint64_t chunk_bytes, chunk_bytes_low; /* bytes of all chunks now, and their lowest value since the peaks were reset */
    uint64_t live_bytes, live_bytes_high;  /* bytes of live parts now, and their highest value since the peaks were reset */
    uint64_t chunk_count, chunk_mallocs, mallocs; /* the chunks now; all chunks ever taken; all parts ever handed out */
    uint64_t live_count;                          /* live parts; set only by torch_reserve_figures() */
    uint64_t foreign_bytes;                       /* bytes of chunks of other allocators, which the figures above leave out */
};

struct torch_device {
    int index;
    weir *w;
    weir_pool *pool; /* the default pool of the device */
    const struct gpu *gpu;
    struct weir__device *device; /* the weir's data of this device */
    uint64_t memory;             /* bytes of memory that the device has */

    gpu_stream _Atomic fill; /* Weir's own stream, on which chunks are allocated; NULL until torch_device_fill() makes it */

    _Atomic unsigned begun;  /* captures that torch has announced (begin.c) and not ended: a stream may capture while this is not 0 */
    _Atomic unsigned routes; /* routes that torch has begun and not ended: a filter says which allocations go to a reserve */

    _Atomic size_t late_count; /* parts that were freed and still wait for streams */

    pthread_mutex_t reserve_lock;
    struct torch_reserve *reserves; /* guarded by reserve_lock, as are the members below */
    struct torch_begin *begins;     /* the captures counted in `begun` and the routes, the newest first */
    struct torch_foreign *gone;     /* memory to be given back to other allocators as soon as reserve_lock is free */
    struct weir__table parts;       /* live parts of all reserves, by address */
    struct torch_graph_figures graphs;
    _Atomic size_t graph_live; /* live parts; changed under reserve_lock */
    weir_torch_stats totals;   /* the values of the totals when they were last reset */
};

/* Held while a device or a stream is opened. Taken before all other locks. */
extern pthread_mutex_t torch_opening __attribute__((visibility("hidden")));

/* The number of reasons why calls must leave the fast path: captures and routes that have begun, parts that wait for streams, and the end
   of the process. Nearly always 0. */
extern _Atomic unsigned torch_busy __attribute__((visibility("hidden")));
static inline bool torch_is_busy(void)
{
    return atomic_load_explicit(&torch_busy, memory_order_relaxed) != 0;
}

/* Returns true if the process is ending (exit handlers run) or is the child of a fork: CUDA must not be called any more. */
bool torch_is_over(void);

/* Returns the device if it is open, else NULL. */
struct torch_device *torch_device_find(int index);

/* Returns the device, and opens it if it is not open. Returns NULL, with the error filled, if that fails. */
struct torch_device *torch_device_open(int index, weir_error *error);

/* Returns the first open device whose index is above `after` (-1: the first of all), or NULL. */
struct torch_device *torch_device_next(int after);

/* Returns the number of devices that torch has passed to weir_torch_init(); 0 before that call. */
int torch_device_count(void);

/* Returns the stream `fill`, and makes it if there is none. Returns NULL, with CUDA's code in *code, if CUDA refuses. Call it in relaxed
   capture mode. */
gpu_stream torch_device_fill(struct torch_device *device, int *code);

#endif
