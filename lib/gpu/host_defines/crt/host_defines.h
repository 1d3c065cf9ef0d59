/* SPDX-License-Identifier: MIT */
/*
 * crt/host_defines.h - stands in for the toolkit's header of that name, which NVIDIA's wheels of the CUDA runtime leave out although
 * cuda_runtime_api.h includes it. Compilers look here last, so a toolkit that has its own is not disturbed.
 *
 * The words that CUDA's headers put before declarations, as a compiler of C or C++ for the host needs them: most of them are nothing.
 */
#ifndef WEIR_CRT_HOST_DEFINES_H
#define WEIR_CRT_HOST_DEFINES_H

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __annotate__(text)
#define __location__(text)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define CUDARTAPI
#define CUDARTAPI_CDECL

#endif
