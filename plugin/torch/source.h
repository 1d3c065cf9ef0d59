/* SPDX-License-Identifier: MIT */
/*
 * source.h - allocators other than Weir, as torch's MemPools may have one: a reserve can take its chunks from it (weir_torch_source).
 *
 * The reserve and each chunk that came from the allocator use the source. A *foreign* record stands for each of these uses. When a use is
 * over, its record goes into the device's list `gone`, which the reserve_lock guards. The allocator is foreign code, so Weir calls it with
 * no lock held.
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
    void *base; /* the chunk; NULL: this is the reserve's own use */
    size_t size;
};

/* Makes a source, and returns the record of its first use. Returns NULL if host memory runs out; the allocator then stays the caller's. */
struct torch_foreign *torch_source_new(const weir_torch_source *given);

/* Allocates a chunk for work on the stream, which may capture, and returns the record of its use. Returns NULL, with the error filled, if
   that fails. */
struct torch_foreign *torch_source_malloc(struct torch_device *device, struct torch_source *source, size_t size, gpu_stream handle,
                                          weir_error *error);

/* Ends the uses of a list, which may be NULL. Chunks go back to their allocator once the device has done all its work. While a capture is
   in progress, the list goes back to `gone`. */
void torch_source_drop(struct torch_device *device, struct torch_foreign *list);

#endif
