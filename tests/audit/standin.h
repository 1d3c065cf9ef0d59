/* SPDX-License-Identifier: MIT */
/*
 * standin.h - a libcuda.so.1 of our own, with the functions of the real one that matter here: what it exports beside those of CUDA.
 *
 * It gives addresses that lead nowhere, the last freed one first, and keeps count. Its memory is STANDIN_MEMORY bytes of each device. A thread
 * may have its next call fail, or begin a kernel that runs for a while, which frees and host allocations wait for as on a real device.
 */
#ifndef WEIR_TESTS_STANDIN_H
#define WEIR_TESTS_STANDIN_H

#include <stdint.h>

typedef int standin_fail_fn(int code);         /* of the calling thread's next call */
typedef int standin_run_fn(unsigned ms);       /* a kernel begins, and runs so long */
typedef uint64_t standin_waited_fn(void);      /* nanoseconds that calls have waited for kernels */
typedef uint64_t standin_calls_fn(void);       /* of functions that take or give memory, streams, pools, or wait */

#endif
