/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - the memory of graphs. A graph uses the addresses that it was captured with each time it runs, so what is allocated during a
 * capture comes from a *reserve*: chunks that are Weir's blocks, ready before they are used, handed out in parts, and kept.
 *
 * torch gives a reserve its id; graphs that share an id share it, and promise not to run at the same time. It is begun by every capture
 * that may use it and released for every graph that is gone; then its chunks go as their parts are freed. As a graph may run on any stream,
 * and may be running still, they become orphans.
 */
#ifndef WEIR_TORCH_RESERVE_H
#define WEIR_TORCH_RESERVE_H

#include "plugin/torch/arena.h"
#include "plugin/torch/device.h"

/* A part for work on a stream that captures. NULL: failed, with the error filled; with WEIR_OK: the stream captures no more. */
void *torch_reserve_malloc(struct torch_device *device, gpu_stream handle, size_t size, weir_error *error);

/* false: it is no part of any reserve. */
bool torch_reserve_owns(struct torch_device *device, const void *ptr);
bool torch_reserve_free(struct torch_device *device, const void *ptr);

/* Captures that were spoilt, of which torch tells no end, are over; chunks that could not become orphans for want of host memory are tried
   again. */
void torch_reserve_tidy(struct torch_device *device);

struct torch_graph_figures torch_reserve_figures(struct torch_device *device);
void torch_reserve_reset_peaks(struct torch_device *device);

/* Calls `use` for each chunk of all reserves with its id and stream, under their lock. */
void torch_reserve_each_chunk(struct torch_device *device, void (*use)(const void *base, weir_torch_pool_id id, gpu_stream stream));

/* Does torch_arena_each_chunk() or torch_arena_each_live() for all reserves, under their lock. */
void torch_reserve_each(struct torch_device *device,
                        void (*each)(const struct torch_arena *arena, weir_torch_block_fn use, void *data), weir_torch_block_fn use,
                        void *data);

#endif
