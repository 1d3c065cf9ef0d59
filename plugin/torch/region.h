/* SPDX-License-Identifier: MIT */
/*
 * region.h - the pool of the policy that a thread chose for what it allocates meanwhile: regions, one in the other, of that thread alone.
 */
#ifndef WEIR_TORCH_REGION_H
#define WEIR_TORCH_REGION_H

#include "plugin/torch/device.h"

#define TORCH_REGIONS_MAX 16 /* of a thread, one in the other */

/* The name of the pool of this thread's innermost region; NULL: it is in none. */
extern __thread const char *torch_region __attribute__((visibility("hidden")));

/* As weir_malloc(), from the pool of the region, if there is one. */
weir_status torch_region_malloc(struct torch_device *device, void **ptr, size_t size, gpu_stream handle);

#endif
