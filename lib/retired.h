/* SPDX-License-Identifier: MIT */
/*
 * retired.h - CUDA pools that are closed but cannot be destroyed yet.
 *
 * CUDA promises that a pool with pending frees can be destroyed and goes by itself. Measured (H200, driver 580): it goes, but another thread
 * that allocates meanwhile crashes inside the driver. So Weir destroys a pool only once nothing of it is reserved any more, which is when
 * every free of it was seen complete; until then it stays here, with a threshold of 0, so that its memory goes back by itself at the
 * program's own synchronises. Only the empty handle waits for the next sweep.
 *
 * Process-wide, since a pool may outlive its weir. The list's lock is a leaf and is not held over CUDA calls.
 */
#ifndef WEIR_LIB_RETIRED_H
#define WEIR_LIB_RETIRED_H

#include "lib/gpu/gpu.h"

struct weir__retired;

/* Room in the list for one pool and its twin, taken when they are created, so that retiring them cannot fail. NULL: no host memory. free()
   it if it is not needed. */
struct weir__retired *weir__retired_reserve(void);

/* Destroys the pool and its twin (either may be NULL) now if that is safe, else retires them. Takes `retired`. Returns the GPU's code if a
   destroy failed. Call it in relaxed capture mode. */
int weir__retired_add(struct weir__retired *retired, const struct gpu *gpu, gpu_pool handle, gpu_pool small);

/* Destroys what has become empty. Cheap when there is nothing. */
void weir__retired_sweep(const struct gpu *gpu);

/* Whether everything that was freed into the pool has been seen complete; what is idle in it goes back to the device on the way. */
bool weir__retired_is_settled(const struct gpu *gpu, gpu_pool handle);

#endif
