/* SPDX-License-Identifier: MIT */
/*
 * retired.h - CUDA pools that are closed but cannot be destroyed yet.
 *
 * CUDA promises that a pool with pending frees can be destroyed and goes by itself. Measured (H200, driver 580): it goes, but another
 * thread that allocates meanwhile crashes inside the driver. So Weir destroys a pool only once nothing of it is reserved any more, which is
 * when every free of it was seen complete; until then it stays here, with a threshold of 0, so that its memory goes back by itself at the
 * program's own synchronises. Only the empty handle waits for the next sweep.
 *
 * Process-wide, since a pool may outlive its weir. The list's lock is a leaf and is not held over CUDA calls.
 */
#ifndef WEIR_LIB_RETIRED_H
#define WEIR_LIB_RETIRED_H

#include <stdbool.h>

#include "lib/gpu/gpu.h"

struct weir__retired;

/* Room in the list for one pool and its twin, taken when they are created, so that retiring them cannot fail. NULL: no host memory. free()
   it if it is not needed. */
struct weir__retired *weir__retired_reserve(void);

/*
 * A block of an exportable pool was just freed on the stream. CUDA's figures leave out blocks that other processes may have had, and never
 * come to 0 where such a block keeps a growth step (measured), so the pool that has this room is destroyed once events behind all of its
 * frees were seen complete; where one cannot be had, it never is. Call it in relaxed capture mode. `device` is that of the stream, as far
 * as the caller knows.
 */
void weir__retired_note(struct weir__retired *retired, const struct gpu *gpu, int device, gpu_stream stream);
/* The program has freed such a block behind Weir's back, nobody knows where. */
void weir__retired_note_unknown(struct weir__retired *retired);
/* Whether all frees that were noted are complete. */
bool weir__retired_is_free(struct weir__retired *retired, const struct gpu *gpu);

/* Destroys the pool and its twin (either may be NULL) now if that is safe, else retires them. Takes `retired`. Returns the GPU's code if a
   destroy failed. are_noted: every free was noted, and none is to come, so that CUDA's figures are not asked. Call it in relaxed capture
   mode. */
int weir__retired_add(struct weir__retired *retired, const struct gpu *gpu, gpu_pool handle, gpu_pool small, bool are_noted);

/* Destroys what has become empty. Cheap when there is nothing. */
void weir__retired_sweep(const struct gpu *gpu);

/* Whether everything that was freed into the pool has been seen complete; what is idle in it goes back to the device on the way. */
bool weir__retired_is_complete(const struct gpu *gpu, gpu_pool handle);

#endif
