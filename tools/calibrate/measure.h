/* SPDX-License-Identifier: MIT */
/*
 * measure.h - measures what calls of a GPU cost the calling thread, by the clock of the waist: on the simulator the virtual one, so that what
 * was set comes out. One thread.
 */
#ifndef WEIR_CALIBRATE_MEASURE_H
#define WEIR_CALIBRATE_MEASURE_H

#include "lib/gpu/gpu.h"
#include "tools/common/costs.h"

/* Whose costs they are: the GPU, its driver and its uuid, and nothing else. Complains and returns false if a call failed. */
bool measure_describe(const struct gpu *gpu, int device, struct costs *costs);

/* Measures all that the device can do; what it cannot is left as it was. Complains and returns false if a call failed, or the device has less
   than 256 MiB free. Takes up to a GiB and a half of its memory meanwhile, and a GiB of the host's. */
bool measure_all(const struct gpu *gpu, int device, struct costs *costs);

/* The part of it that is Weir's own code, by a weir of its own, where the device can have an arena. */
bool measure_arena(const struct gpu *gpu, int device, struct costs *costs);

#endif
