/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - the memory of graphs and of torch's MemPools. A graph uses the addresses that it was captured with each time it runs, so what
 * is allocated during a capture comes from a *reserve*: chunks that are Weir's blocks, ready before they are used, handed out in parts, and
 * kept.
 *
 * torch gives a reserve its id; graphs that share an id share it, and promise not to run at the same time. It is begun by every capture
 * that may use it and released for every graph that is gone; then its chunks go as their parts are freed. As a graph may run on any stream,
 * and may be running still, they become orphans.
 */
#ifndef WEIR_TORCH_RESERVE_H
#define WEIR_TORCH_RESERVE_H

#include "plugin/torch/arena.h"
#include "plugin/torch/device.h"

struct torch_source;
struct torch_foreign;

/* Guarded by the device's reserve_lock. */
struct torch_reserve {
    struct torch_reserve *next;
    weir_torch_pool_id id;
    unsigned uses;    /* begins and holds less releases */
    unsigned holders; /* begins without their end, and threads that are taking a chunk for it */
    unsigned growing; /* threads that are taking a chunk for it: its source stays as it is */
    bool is_captured; /* graphs may use its chunks, free parts or not */
    bool is_whole;    /* parts are not split */
    bool on_oom;      /* its free parts serve whoever finds no other memory */
    struct torch_source *source;   /* where chunks come from; NULL: Weir */
    struct torch_foreign *foreign; /* the reserve's own use of the source; NULL: it has none. Each chunk's is its `data` */
    struct torch_arena arena;
};

/* These four with the device's reserve_lock, which the last one gives up. _get makes the reserve if there is none, NULL: no host memory.
   _shrink lets go of what the reserve has that nobody needs any more, and of the reserve itself with the last of it. */
struct torch_reserve *torch_reserve_find(const struct torch_device *device, weir_torch_pool_id id);
struct torch_reserve *torch_reserve_get(struct torch_device *device, weir_torch_pool_id id);
void torch_reserve_shrink(struct torch_device *device, struct torch_reserve *reserve);
void torch_reserve_unlock(struct torch_device *device);

/* A part for a request that a begin wants. NULL: failed, with the error filled; with WEIR_OK: none wants it, and the stream does not
   capture, or no more. */
void *torch_reserve_malloc(struct torch_device *device, gpu_stream handle, size_t size, bool is_capturing, weir_error *error);

/* A free part of a reserve that serves where there is no other memory; NULL: none has one that fits, of that stream. */
void *torch_reserve_spare(struct torch_device *device, gpu_stream handle, size_t size);

/* That part was freed, and waits: it is no block of torch's any more. */
void torch_reserve_wait(struct torch_device *device, const void *ptr);

/* Gives back what no block uses of the reserve of that id, unless a graph may. */
void torch_reserve_trim(struct torch_device *device, weir_torch_pool_id id);

/* false: it is no part of any reserve. */
bool torch_reserve_owns(struct torch_device *device, const void *ptr);
bool torch_reserve_free(struct torch_device *device, const void *ptr);

/* Captures that were spoilt, of which torch tells no end, are over; chunks that could not become orphans for want of host memory are tried
   again. */
void torch_reserve_tidy(struct torch_device *device);

struct torch_graph_figures torch_reserve_figures(struct torch_device *device);
void torch_reserve_reset_peaks(struct torch_device *device);

/* Calls `use` for each chunk of all reserves, under their lock. */
struct torch_chunk {
    int device;
    bool is_foreign; /* of another allocator than Weir */
    const void *base;
    uint64_t size;
    weir_torch_pool_id id;
    gpu_stream stream;
};
typedef void torch_chunk_fn(const struct torch_chunk *chunk, void *data);
void torch_reserve_each_chunk(struct torch_device *device, torch_chunk_fn *use, void *data);

/* The same for each live part, with the bytes asked for. */
void torch_reserve_each_live(struct torch_device *device, weir_torch_block_fn use, void *data);

#endif
