/* SPDX-License-Identifier: MIT */
/*
 * unaware_runtime.c - what examples/unaware use of CUDA's runtime, on the driver that the loader finds: in a test that is tests/audit/standin.c.
 *
 * As in the static runtime, functions of the driver are looked up when the first one is called. The stand-in has no functions that fill memory: a
 * fill begins a kernel that runs for $RUNTIME_MS.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static cudaError_t last;

static void *find(const char *name)
{
    static void *driver;
    driver = driver ? driver : dlopen("libcuda.so.1", RTLD_NOW);
    void *function = driver ? dlsym(driver, name) : NULL;
    if (!function) {
        fprintf(stderr, "runtime: libcuda.so.1 has no %s: %s\n", name, dlerror());
        exit(99);
    }
    return function;
}

#define CALL(name, types, ...) ((int (*) types)find(#name))(__VA_ARGS__)

static void begin(void)
{
    static void *context;
    if (!context && (CALL(cuInit, (unsigned), 0) || CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0)))
        exit(99);
}

/* Codes of the driver and the runtime are the same since CUDA 10.1. */
static cudaError_t keep(int code)
{
    last = code ? (cudaError_t)code : last;
    return (cudaError_t)code;
}

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    uint64_t address = 0;
    begin();
    int code = CALL(cuMemAlloc_v2, (uint64_t *, size_t), &address, bytes);
    *ptr = (void *)(uintptr_t)address;
    return keep(code);
}

cudaError_t cudaFree(void *ptr)
{
    return keep(CALL(cuMemFree_v2, (uint64_t), (uint64_t)(uintptr_t)ptr));
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream)
{
    const char *ms = getenv("RUNTIME_MS");
    (void)ptr, (void)value, (void)bytes, (void)stream;
    return keep(CALL(standin_run, (unsigned), (unsigned)strtoul(ms ? ms : "1", NULL, 10)));
}

cudaError_t cudaDeviceSynchronize(void)
{
    return keep(CALL(cuCtxSynchronize, (void)));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *all)
{
    begin();
    int code = CALL(cuDeviceTotalMem_v2, (size_t *, int), all, 0);
    *available = *all;
    return keep(code);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;
    last = cudaSuccess;
    return code;
}

const char *cudaGetErrorString(cudaError_t code)
{
    static char text[32];
    snprintf(text, sizeof text, "code %d", (int)code);
    return text;
}
