/* SPDX-License-Identifier: MIT */
/*
 * plain.c - what a pluggable allocator of one page does: every request goes to a pool that keeps all it has, and nothing else is done about
 * it. The yardstick beside which Weir's plug-in is measured, and the allocator whose faults its tests show.
 *
 * Compiled by allocators.py, where torch is, against the CUDA runtime that torch has loaded. What it needs of that is declared here, since
 * a machine that runs torch may lack CUDA's headers. Compiles as C and as C++.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *stream_handle;
typedef struct CUmemPoolHandle_st *pool_handle;
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaDeviceGetDefaultMemPool(pool_handle *pool, int device);
int cudaMemPoolSetAttribute(pool_handle pool, int attribute, void *value);
int cudaMallocFromPoolAsync(void **ptr, size_t size, pool_handle pool, stream_handle stream);
int cudaFreeAsync(void *ptr, stream_handle stream);

enum { devices = 64, release_threshold = 4 };
static pool_handle pools[devices];

/* Two threads that both find none write the same handle. */
static pool_handle pool_of(int device)
{
    pool_handle pool = __atomic_load_n(&pools[device], __ATOMIC_ACQUIRE);
    uint64_t all = UINT64_MAX;
    if (pool == NULL && cudaDeviceGetDefaultMemPool(&pool, device) == 0) {
        cudaMemPoolSetAttribute(pool, release_threshold, &all);
        __atomic_store_n(&pools[device], pool, __ATOMIC_RELEASE);
    }
    return pool;
}

void *plain_malloc(ssize_t size, int device, stream_handle stream)
{
    void *ptr = NULL;
    int current = device;
    if (size == 0 || device < 0 || device >= devices)
        return NULL;
    /* The default stream is that of the current device. */
    cudaGetDevice(&current);
    if (current != device)
        cudaSetDevice(device);
    if (cudaMallocFromPoolAsync(&ptr, (size_t)size, pool_of(device), stream) != 0)
        ptr = NULL;
    if (current != device)
        cudaSetDevice(current);
    return ptr;
}

void plain_free(void *ptr, ssize_t size, int device, stream_handle stream)
{
    int current = device;
    (void)size;
    cudaGetDevice(&current);
    if (current != device)
        cudaSetDevice(device);
    if (ptr != NULL)
        cudaFreeAsync(ptr, stream);
    if (current != device)
        cudaSetDevice(current);
}

#ifdef __cplusplus
}
#endif
