/* SPDX-License-Identifier: MIT */
/*
 * device.h - what the plug-in keeps for each CUDA device: its weir, opened by the first allocation there, and what waits there.
 *
 * Made once and kept for ever, as torch frees tensors until the process ends. Members say what guards them; those without a word are fixed.
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

/* Of the memory of graphs: chunks that are taken from Weir, and their parts that are handed out. */
struct torch_graph_figures {
    uint64_t chunk_bytes, chunk_bytes_low; /* the lowest, and the highest below, since the peaks were reset */
    uint64_t live_bytes, live_bytes_high;
    uint64_t chunk_count, chunk_mallocs, mallocs; /* chunks there are, and chunks and parts that were taken, ever */
    uint64_t live_count;                          /* of parts; torch_reserve_figures() fills it in */
    uint64_t foreign_bytes;                       /* chunks of other allocators, which are not among those above */
};

struct torch_device {
    int index;
    weir *w;
    weir_pool *pool; /* the default one */
    const struct gpu *gpu;
    struct weir__device *device; /* its part of w */
    uint64_t memory;             /* bytes in all */

    gpu_stream _Atomic fill; /* of Weir's own, made when it is first needed: where chunks of reserves are allocated, and synchronised */

    _Atomic unsigned begun;  /* begins of torch without their end: something may capture */
    _Atomic unsigned routes; /* the same of those that say by a filter what they want */

    _Atomic size_t late_count; /* parts of reserves that were freed, and wait for streams */

    pthread_mutex_t reserve_lock;
    struct torch_reserve *reserves; /* guarded by reserve_lock, as is what follows */
    struct torch_begin *begins;     /* the latest first */
    struct torch_foreign *gone;     /* what other allocators shall have back, once the lock is not held */
    struct weir__table parts;       /* live parts of all reserves, by address */
    struct torch_graph_figures graphs;
    _Atomic size_t graph_live; /* live parts; changed under reserve_lock */
    weir_torch_stats totals;   /* what the totals were at their last reset */
};

/* One thread at a time opens a device or a stream. Before all other locks. */
extern pthread_mutex_t torch_opening __attribute__((visibility("hidden")));

/* How many things there are that make calls look twice: begins without an end, parts that wait, the end of the process. Nearly
   always 0. */
extern _Atomic unsigned torch_busy __attribute__((visibility("hidden")));
static inline bool torch_is_busy(void)
{
    return atomic_load_explicit(&torch_busy, memory_order_relaxed) != 0;
}

/* main() has returned, or this is the child of a fork: CUDA must not be called any more. */
bool torch_is_over(void);

/* The device if it is open, else NULL. */
struct torch_device *torch_device_find(int index);

/* Opens it if it is not. NULL: failed, with the error filled. */
struct torch_device *torch_device_open(int index, weir_error *error);

/* The first open device after the number (-1: of all); NULL at the end. */
struct torch_device *torch_device_next(int after);

/* How many devices torch said there are; 0: it did not yet. */
int torch_device_count(void);

/* The stream `fill`, made now if there is none. NULL: CUDA refused, with its code in *code. In relaxed capture mode. */
gpu_stream torch_device_fill(struct torch_device *device, int *code);

#endif
