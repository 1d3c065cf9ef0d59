/* SPDX-License-Identifier: MIT */
/*
 * marks.h - patterns in blocks, written and checked by the device in the order of a stream: whoever else writes into the block between the
 * two is found, and so is a block that was given to another stream too early.
 *
 * On a GPU two kernels do it, PTX text that the driver compiles, so that the build needs no nvcc. On the simulator copies do. Process-wide;
 * marks_open() and marks_close() are for one thread while no other uses the rest.
 */
#ifndef WEIR_TESTS_MARKS_H
#define WEIR_TESTS_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"

#define MARKS_SMALLEST 512 /* bytes of the smallest block that can be marked */

/* These return the GPU's code. `checks`: how often marks_check() will be called at most. `stream`: any of device 0. */
int marks_open(const struct gpu *gpu, gpu_stream stream, size_t checks);
/* Each thread that writes or checks calls it first. */
int marks_enter(gpu_stream stream);
int marks_write(gpu_stream stream, void *ptr, size_t size, uint64_t tag);
int marks_check(gpu_stream stream, const void *ptr, size_t size, uint64_t tag);
/* How many words of checked blocks were not as they had been written. Every stream that checked is synchronised. */
int marks_count_wrong(gpu_stream stream, uint64_t *wrong);
void marks_close(gpu_stream stream);

#endif
