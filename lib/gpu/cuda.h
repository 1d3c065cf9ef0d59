/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - the waist filled by the CUDA runtime. Only builds with a CUDA toolkit have it; gpu_find() hands it out.
 *
 * CUDA keeps the last error of each thread until somebody reads it. Here as there an operation that fails leaves its own code behind as
 * the last error, and forget_error() takes that one away; codes of calls that an operation makes on its way and tolerates are cleared by
 * the operation itself, as is cudaErrorNotReady, which is an answer and no failure.
 */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "lib/gpu/gpu.h"

extern const struct gpu gpu_cuda;

#endif
