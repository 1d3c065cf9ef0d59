/* SPDX-License-Identifier: MIT */
/*
 * shim_cuda.c - in the place of CUDA's runtime, for a real torch without a GPU: as much of it as torch calls when it makes and drops
 * tensors that nobody writes to. Preloaded, so that it comes before the runtime that torch has. Streams are those of Weir's simulator,
 * so that Weir knows them.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "weir.h"

#define ANSWER __attribute__((visibility("default"))) cudaError_t
#define GIB (1UL << 30)

static __thread int current;

/* One, or as many as the variable says; WEIR_SIM has to have them too. */
ANSWER cudaGetDeviceCount(int *count)
{
    const char *devices = getenv("SHIM_DEVICES");
    *count = devices ? atoi(devices) : 1;
    return cudaSuccess;
}

ANSWER cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

ANSWER cudaSetDevice(int device)
{
    current = device;
    return cudaSuccess;
}

ANSWER cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

ANSWER cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* A macro gives it another name in toolkits of version 12. */
ANSWER cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "simulated %d", device);
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->totalGlobalMem = 8 * GIB;
    return cudaSuccess;
}

ANSWER cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 0;
    return cudaSuccess;
}

ANSWER cudaMemGetInfo(size_t *free_bytes, size_t *bytes)
{
    *free_bytes = *bytes = 8 * GIB;
    return cudaSuccess;
}

ANSWER cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

ANSWER cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

ANSWER cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    (void)stream;
    *priority = 0;
    return cudaSuccess;
}

ANSWER cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

ANSWER cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

ANSWER cudaStreamQuery(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

ANSWER cudaGetLastError(void)
{
    return cudaSuccess;
}

ANSWER cudaPeekAtLastError(void)
{
    return cudaSuccess;
}

#define FIND(name) ((__typeof__(&(name)))dlsym(library, #name))

/* A stream of another weir on the same simulated machine. */
ANSWER cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    static weir *w;
    void *library = dlopen(getenv("WEIR_TORCH_LIBRARY"), RTLD_NOW);
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir_stream *made;
    (void)flags;
    (void)priority;
    options.policy_text = "weir: 1\npools: { streams: {} }\n";
    if ((!w && FIND(weir_open)(&options, &error, &w) != WEIR_OK) || FIND(weir_stream_create)(w, current, NULL, &error, &made) != WEIR_OK) {
        fprintf(stderr, "shim_cuda: %s\n", error.text);
        return cudaErrorUnknown;
    }
    *stream = FIND(weir_stream_handle)(made);
    return cudaSuccess;
}

ANSWER cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

/* Of the driver, which torch loads by its name. */
ANSWER cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return cudaSuccess;
}

/* Memory of CUDA's own is the host's. */
ANSWER cudaMalloc(void **ptr, size_t size)
{
    return posix_memalign(ptr, 512, size) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}

ANSWER cudaFree(void *ptr)
{
    free(ptr);
    return cudaSuccess;
}

/* An allocator for a MemPool of its own: memory of the host, that nobody touches. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED atomic_int shim_own_blocks;
EXPORTED void *shim_own_malloc(size_t size, int device, cudaStream_t stream);
EXPORTED void shim_own_free(void *ptr, size_t size, int device, cudaStream_t stream);

void *shim_own_malloc(size_t size, int device, cudaStream_t stream)
{
    void *ptr = NULL;
    (void)device;
    (void)stream;
    if (size > GIB || posix_memalign(&ptr, 512, size) != 0)
        return NULL;
    shim_own_blocks++;
    return ptr;
}

void shim_own_free(void *ptr, size_t size, int device, cudaStream_t stream)
{
    (void)size;
    (void)device;
    (void)stream;
    shim_own_blocks--;
    free(ptr);
}

/* Of how many bytes one piece of CUDA's memory is; 0: nobody knows. Of the driver, which the shim asks by this name. */
EXPORTED size_t shim_piece;
EXPORTED int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long address);

int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long address)
{
    *base = address;
    *size = shim_piece;
    return shim_piece ? cudaSuccess : cudaErrorInvalidValue;
}

/* Events, also of other processes: nothing runs, so each is complete. */
ANSWER cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)malloc(1);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

ANSWER cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

ANSWER cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    return cudaSuccess;
}

ANSWER cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    (void)event;
    memset(handle, 0, sizeof *handle);
    return cudaSuccess;
}

ANSWER cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    (void)handle;
    return cudaEventCreateWithFlags(event, 0);
}

ANSWER cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return cudaSuccess;
}
