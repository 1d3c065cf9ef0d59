/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - reserves: the memory of CUDA graphs and of torch's MemPools. Each time a graph runs, it uses the addresses with which it was
 * captured. So an allocation during a capture comes from a *reserve*: chunks, which are blocks that Weir allocated before, divided into
 * parts, and kept for the graph.
 *
 * torch names each reserve by an id. Graphs with the same id share a reserve, and torch promises not to run them at the same time. Each
 * capture that may use a reserve begins one use of it, and the end of each graph releases one. When no use is left, each chunk goes as soon
 * as its parts are freed. A graph may run on any stream, and may still be running then, so the chunks become orphans (lib/alloc/orphans.h).
 */
#ifndef WEIR_TORCH_RESERVE_H
#define WEIR_TORCH_RESERVE_H

#include "plugin/torch/arena.h"
#include "plugin/torch/device.h"

struct torch_source;
struct torch_foreign;

/* All members are guarded by the device's reserve_lock. */
struct torch_reserve {
    struct torch_reserve *next;
    weir_torch_pool_id id;
    unsigned uses;    /* calls of begin and hold, less calls of release */
    unsigned holders; /* begins without their end, and threads that are adding a chunk */
    unsigned growing; /* threads that are adding a chunk; while there are any, the source must not change */
    bool is_captured; /* a graph was captured with it, and may use all of its memory, free parts too */
    bool is_whole;    /* WEIR_TORCH_NO_SPLIT: parts are not split */
    bool on_oom;      /* WEIR_TORCH_USE_ON_OOM: its free parts serve requests that find no other memory */
    struct torch_source *source;   /* the allocator that gives the chunks; NULL: Weir */
    struct torch_foreign *foreign; /* the record of the reserve's own use of the source, or NULL */
    struct torch_arena arena;
};

/* The caller of these four holds the device's reserve_lock; _unlock releases the lock, then gives chunks back to other allocators. _get
   makes the reserve if there is none, and returns NULL if host memory runs out. _shrink does nothing while the reserve is in use; else it
   gives back the chunks without live parts, and ends the reserve with its last chunk. */
struct torch_reserve *torch_reserve_find(const struct torch_device *device, weir_torch_pool_id id);
struct torch_reserve *torch_reserve_get(struct torch_device *device, weir_torch_pool_id id);
void torch_reserve_shrink(struct torch_device *device, struct torch_reserve *reserve);
void torch_reserve_unlock(struct torch_device *device);

/* Allocates a part of the reserve whose begin takes the request. Returns NULL, with the error filled, if that fails. Returns NULL, without
   an error, if no begin takes the request and the stream does not capture any more. */
void *torch_reserve_malloc(struct torch_device *device, gpu_stream handle, size_t size, bool is_capturing, weir_error *error);

/* Allocates a free part of a reserve with on_oom, for a request that found no other memory. Returns NULL if no such reserve has a part that
   fits and belongs to the stream. */
void *torch_reserve_spare(struct torch_device *device, gpu_stream handle, size_t size);

/* Marks a part as freed and waiting: torch's blocks no longer include it. */
void torch_reserve_wait(struct torch_device *device, const void *ptr);

/* Gives back the reserve's chunks without live parts, unless a graph may use them. */
void torch_reserve_trim(struct torch_device *device, weir_torch_pool_id id);

/* torch_reserve_owns() returns whether ptr is a live part of a reserve. torch_reserve_free() frees the part; it returns false if ptr is
   none. */
bool torch_reserve_owns(struct torch_device *device, const void *ptr);
bool torch_reserve_free(struct torch_device *device, const void *ptr);

/* Ends the begins of failed captures, whose end torch does not announce, and tries again to give back chunks that could not become orphans
   because host memory had run out. */
void torch_reserve_tidy(struct torch_device *device);

struct torch_graph_figures torch_reserve_figures(struct torch_device *device);
void torch_reserve_reset_peaks(struct torch_device *device);

/* Calls `use` for each chunk of all reserves, under the reserve_lock. */
struct torch_chunk {
    int device;
    bool is_foreign; /* another allocator than Weir gave the chunk */
    const void *base;
    uint64_t size;
    weir_torch_pool_id id;
    gpu_stream stream;
};
typedef void torch_chunk_fn(const struct torch_chunk *chunk, void *data);
void torch_reserve_each_chunk(struct torch_device *device, torch_chunk_fn *use, void *data);

/* The same for each live part, with the bytes that were requested. */
void torch_reserve_each_live(struct torch_device *device, weir_torch_block_fn use, void *data);

#endif
