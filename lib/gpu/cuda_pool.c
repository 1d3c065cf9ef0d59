/* SPDX-License-Identifier: MIT */
/* cuda_pool.c - operations on memory pools and on their blocks. */
#include "lib/gpu/cuda_internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct cudaMemLocation device_location(int device)
{
    struct cudaMemLocation location;
    memset(&location, 0, sizeof(location));
    location.type = cudaMemLocationTypeDevice;
    location.id = device;
    return location;
}

int cuda_pool_set_access(gpu_pool pool, int device, enum gpu_access access)
{
    struct cudaMemAccessDesc descriptor;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.location = device_location(device);
    descriptor.flags = access == GPU_ACCESS_READ_WRITE ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return cuda_done(cudaMemPoolSetAccess(pool, &descriptor, 1));
}

int cuda_pool_get_access(gpu_pool pool, int device, enum gpu_access *access)
{
    struct cudaMemLocation location = device_location(device);
    enum cudaMemAccessFlags flags;
    return CUDA_SET(cudaMemPoolGetAccess(&flags, pool, &location), access,
                    flags == cudaMemAccessFlagsProtReadWrite ? GPU_ACCESS_READ_WRITE : GPU_ACCESS_NONE);
}

static int create_pool(const struct gpu_pool_spec *spec, gpu_pool *pool)
{
    struct cudaMemPoolProps props;
    int code = cuda_pool_props(spec, &props);
    if (code)
        return code;
    gpu_pool created;
    code = (int)cudaMemPoolCreate(&created, &props);
    if (code)
        return code;
    if (spec->location != GPU_LOCATION_DEVICE) {
        /* At first only the host has access to a pool on host memory. */
        code = cuda_pool_set_access(created, spec->device, GPU_ACCESS_READ_WRITE);
        if (code) {
            (void)cudaMemPoolDestroy(created);
            return code;
        }
    }
    *pool = created;
    return GPU_SUCCESS;
}

int cuda_pool_create(const struct gpu_pool_spec *spec, gpu_pool *pool)
{
    /* If the thread has no context yet, the runtime makes one for the current device: that should be the device of the pool. */
    return CUDA_ON_DEVICE(spec->device, create_pool(spec, pool));
}

int cuda_pool_destroy(gpu_pool pool)
{
    return cuda_done(cudaMemPoolDestroy(pool));
}

int cuda_pool_get_default(int device, gpu_pool *pool)
{
    gpu_pool found;
    return CUDA_SET(cudaDeviceGetDefaultMemPool(&found, device), pool, found);
}

int cuda_pool_get_current(int device, gpu_pool *pool)
{
    gpu_pool found;
    return CUDA_SET(cudaDeviceGetMemPool(&found, device), pool, found);
}

int cuda_pool_set_current(int device, gpu_pool pool)
{
    return cuda_done(cudaDeviceSetMemPool(device, pool));
}

int cuda_pool_get(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t *value)
{
    enum cudaMemPoolAttr name;
    bool is_int;
    if (!cuda_pool_attribute(attribute, &name, &is_int))
        return GPU_NOT_SUPPORTED;
    int number = 0;
    uint64_t bytes = 0;
    return CUDA_SET(cudaMemPoolGetAttribute(pool, name, is_int ? (void *)&number : (void *)&bytes), value,
                    is_int ? (uint64_t)number : bytes);
}

int cuda_pool_set(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value)
{
    enum cudaMemPoolAttr name;
    bool is_int;
    if (!cuda_pool_attribute(attribute, &name, &is_int))
        return GPU_NOT_SUPPORTED;
    int number = value != 0;
    return cuda_done(cudaMemPoolSetAttribute(pool, name, is_int ? (void *)&number : (void *)&value));
}

int cuda_pool_trim(gpu_pool pool, uint64_t keep)
{
    return cuda_done(cudaMemPoolTrimTo(pool, (size_t)keep));
}

int cuda_own(int exported, int *fd)
{
    if (fcntl(exported, F_SETFD, FD_CLOEXEC) != 0) {
        close(exported);
        return GPU_UNKNOWN;
    }
    *fd = exported;
    return GPU_SUCCESS;
}

int cuda_pool_export(gpu_pool pool, int *fd)
{
    int exported = -1;
    cudaError_t code = cudaMemPoolExportToShareableHandle(&exported, pool, cudaMemHandleTypePosixFileDescriptor, 0);
    return code == cudaSuccess ? cuda_own(exported, fd) : cuda_done(code);
}

int cuda_pool_import(int device, int fd, gpu_pool *pool)
{
    /* The pool gets addresses in the context of the current device. */
    gpu_pool imported;
    void *handle = (void *)(intptr_t)fd; /* CUDA takes the descriptor as a pointer */
    return CUDA_SET(
        CUDA_ON_DEVICE(device, cudaMemPoolImportFromShareableHandle(&imported, handle, cudaMemHandleTypePosixFileDescriptor, 0)), pool,
        imported);
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

/* Every request and every free calls these two, so they call the driver, which is faster than the runtime. */

int cuda_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    const struct cuda_driver *driver = cuda_driver_of_streams();
    unsigned long long quick;
    int code = driver ? driver->malloc_async(&quick, size, pool, stream) : cudaErrorDeviceUninitialized;
    if (!cuda_lacks_context(code)) {
        if (code == GPU_SUCCESS)
            *ptr = (void *)(uintptr_t)quick;
        return code;
    }
    void *block;
    return CUDA_SET(cudaMallocFromPoolAsync(&block, size, pool, stream), ptr, block);
}

int cuda_free_async(void *ptr, gpu_stream stream)
{
    const struct cuda_driver *driver = cuda_driver_of_streams();
    int code = driver ? driver->free_async((uintptr_t)ptr, stream) : cudaErrorDeviceUninitialized;
    return cuda_lacks_context(code) ? cuda_done(cudaFreeAsync(ptr, stream)) : code;
}

int cuda_block_export(void *ptr, struct gpu_shared_block *shared)
{
    struct cudaMemPoolPtrExportData data;
    cudaError_t code = cudaMemPoolExportPointer(&data, ptr);
    if (code == cudaSuccess)
        memcpy(shared->bytes, &data, sizeof(data));
    return cuda_done(code);
}

int cuda_block_import(gpu_pool pool, const struct gpu_shared_block *shared, void **ptr)
{
    struct cudaMemPoolPtrExportData data;
    memcpy(&data, shared->bytes, sizeof(data));
    void *block;
    return CUDA_SET(cudaMemPoolImportPointer(&block, pool, &data), ptr, block);
}

int cuda_host_alloc(int device, uint64_t size, void **ptr)
{
    void *made = NULL;
    int code = CUDA_ON_DEVICE(device, cudaHostAlloc(&made, (size_t)size, cudaHostAllocPortable));
    if (!code)
        *ptr = made;
    return code;
}

int cuda_host_free(void *ptr)
{
    return cuda_done(cudaFreeHost(ptr));
}

int cuda_copy_async(void *dst, const void *src, size_t size, gpu_stream stream)
{
    return cuda_done(cudaMemcpyAsync(dst, src, size, cudaMemcpyDefault, stream));
}

int cuda_set_async(void *dst, int byte, size_t size, gpu_stream stream)
{
    return cuda_done(cudaMemsetAsync(dst, byte, size, stream));
}
