/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - the waist filled by the CUDA runtime. Only builds with a CUDA toolkit have it; gpu_find() hands it out.
 *
 * CUDA keeps the last error of each thread until somebody reads it. No operation leaves one behind.
 */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "lib/gpu/gpu.h"

extern const struct gpu gpu_cuda;

#endif
