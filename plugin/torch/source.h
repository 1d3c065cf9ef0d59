/* SPDX-License-Identifier: MIT */
/*
 * source.h - allocators beside Weir, as torch's MemPools may have: a reserve can take its chunks from one (weir_torch_source).
 *
 * One is shared by its reserve and by each chunk that came from it: a *foreign* record stands for each of these uses. When the use is over
 * it is in the device's list of what is gone, guarded by reserve_lock. As it is code of others, it is called with no lock held.
 */
#ifndef WEIR_TORCH_SOURCE_H
#define WEIR_TORCH_SOURCE_H

#include "plugin/torch/device.h"

struct torch_source {
    weir_torch_source given;
    _Atomic unsigned uses;
};

struct torch_foreign {
    struct torch_foreign *next;
    struct torch_source *source;
    void *base; /* NULL: the reserve's own use */
    size_t size;
};

/* The record of a first use. NULL: no host memory; then the source is the caller's still. */
struct torch_foreign *torch_source_new(const weir_torch_source *given);

/* A chunk, and the record of its use. NULL: failed, with the error filled. For work on that stream, which may capture. */
struct torch_foreign *torch_source_malloc(struct torch_device *device, struct torch_source *source, size_t size, gpu_stream handle,
                                          weir_error *error);

/* Ends the uses of a list, NULL or not. Chunks go back when the device has done all its work; while something captures they stay gone. */
void torch_source_drop(struct torch_device *device, struct torch_foreign *list);

#endif
