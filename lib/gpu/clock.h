/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the host's clock, CLOCK_MONOTONIC, in nanoseconds, and how many of these other units have. For every folder that may include
 * lib/gpu. The clock of a GPU is `now` of struct gpu: on the simulator that is another one.
 */
#ifndef WEIR_GPU_CLOCK_H
#define WEIR_GPU_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GPU_SECOND UINT64_C(1000000000)
#define GPU_MILLISECOND UINT64_C(1000000)

static inline struct timespec gpu_clock_timespec(uint64_t nanoseconds)
{
    return (struct timespec){.tv_sec = (time_t)(nanoseconds / GPU_SECOND), .tv_nsec = (long)(nanoseconds % GPU_SECOND)};
}

static inline uint64_t gpu_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * GPU_SECOND + (uint64_t)now.tv_nsec;
}

/* The same, as of the last tick of the system: up to 4 ms late, and cheaper. */
static inline uint64_t gpu_clock_coarse(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * GPU_SECOND + (uint64_t)now.tv_nsec;
}

/* The cheapest clock: the processor's counter where that has a fixed pace of GHz, else the same clock as above. */
static inline uint64_t gpu_clock_ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return gpu_clock_now();
#endif
}

#endif
