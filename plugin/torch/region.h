/* SPDX-License-Identifier: MIT */
/* region.h - regions: while a thread is in a region, it allocates from a pool of the policy that it chose by name. Regions nest, and belong
   to one thread, so they need no lock. */
#ifndef WEIR_TORCH_REGION_H
#define WEIR_TORCH_REGION_H

#include "plugin/torch/device.h"

#define TORCH_REGIONS_MAX 16 /* nested regions of one thread */

/* The name of the pool of this thread's innermost region; NULL: the thread is in no region. */
extern __thread const char *torch_region __attribute__((visibility("hidden")));

/* Allocates from the pool of this thread's region; without a region as weir_malloc(). */
weir_status torch_region_malloc(struct torch_device *device, void **ptr, size_t size, gpu_stream handle);

#endif
