/* SPDX-License-Identifier: MIT */
/*
 * waist.h - what stands between the program and the simulator: the linker gives gpu_find() of all code to waist.c.
 *
 * Each call of the waist is a place where another thread may get its turn, or the processor for a moment where there is no schedule. Calls that
 * wait for a stream wait in the schedule, so that time does not jump for everybody. A request that the simulator refuses can take as long
 * as CUDA was measured to, and calls that Weir makes can be made to fail.
 */
#ifndef WEIR_TESTS_CHAOS_WAIST_H
#define WEIR_TESTS_CHAOS_WAIST_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"

#define WAIST_SLOWEST_NS UINT64_C(30000000) /* what a request takes at most that is refused */

struct waist_settings {
    uint64_t seed;
    bool slow_refusals;
    unsigned fault_once_in; /* of the calls that can fail without harm; 0: none */
    bool stumbles;          /* without a schedule: threads let go of the processor now and then */
};

void waist_set(const struct waist_settings *settings);
/* The simulator with all of that. */
const struct gpu *waist_gpu(void);
/* Faults are for what Weir calls on this thread from here on, and not for the program's own calls. */
void waist_enter_weir(bool inside);
/* How many calls were made to fail so far, on any thread. */
uint64_t waist_faults(void);
/* When all that was given to the stream until now will have ended. */
uint64_t waist_stream_due(gpu_stream stream);
/* What stands for a device's legacy stream there. */
gpu_stream waist_legacy(int device);

#endif
