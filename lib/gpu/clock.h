/* SPDX-License-Identifier: MIT */
/* clock.h - the host's clock, CLOCK_MONOTONIC, in nanoseconds, and units of time as numbers of nanoseconds. Every folder that may include
   lib/gpu may use it. The clock of a GPU is another one: `now` of struct gpu, which is virtual on the simulator. */
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

/* The same clock at the last tick of the system: up to 4 ms late, but cheaper to read. */
static inline uint64_t gpu_clock_coarse(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * GPU_SECOND + (uint64_t)now.tv_nsec;
}

/* The cheapest clock: the processor's time-stamp counter on x86-64, where its rate is fixed; else gpu_clock_now(). */
static inline uint64_t gpu_clock_ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return gpu_clock_now();
#endif
}

#endif
