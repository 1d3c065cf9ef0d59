/* SPDX-License-Identifier: MIT */
/* cuda_map.c - address ranges, and pages that are mapped into them. The runtime has no such calls, so these call the driver
   (cuda_driver.c). The structs of cuda.h are declared here again, because the runtime's Python wheels, with which Weir can be built, lack
   cuda.h. */
#include "lib/gpu/cuda_internal.h"

#include <stdio.h>
#include <string.h>

/* From cuda.h, where these numbers and structs have been the same since 11.2. */
enum {
    ATTRIBUTE_MAPPING = 102,  /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    ATTRIBUTE_POSIX_FD = 103, /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    ATTRIBUTE_RDMA = 110,     /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    TYPE_PINNED = 1,
    LOCATION_DEVICE = 1,
    HANDLE_POSIX_FD = 1,
    ACCESS_READ_WRITE = 3,
    GRANULARITY_MINIMUM = 0,
};

struct location {
    int type, id;
};

struct cuda_page_props {
    int type, handle_types;
    struct location location;
    void *win32_metadata;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

struct cuda_page_access {
    struct location location;
    int flags;
};

static bool has(const struct cuda_driver *driver, int attribute, int device)
{
    int handle, value = 0;
    return driver->device_get(&handle, device) == GPU_SUCCESS && driver->device_attribute(&value, attribute, handle) == GPU_SUCCESS &&
           value;
}

static const struct cuda_driver *mapping_driver(void)
{
    const struct cuda_driver *driver = cuda_driver();
    return driver && driver->can_map ? driver : NULL;
}

/* Describes the pages of a device. They can be exported and used for RDMA if the device allows that: both are free of cost (measured), and
   cannot be added to a page later. */
static struct cuda_page_props props_of(const struct cuda_driver *driver, int device)
{
    struct cuda_page_props props;
    memset(&props, 0, sizeof(props));
    props.type = TYPE_PINNED;
    props.location = (struct location){LOCATION_DEVICE, device};
    props.handle_types = has(driver, ATTRIBUTE_POSIX_FD, device) ? HANDLE_POSIX_FD : 0;
    props.flags.rdma = has(driver, ATTRIBUTE_RDMA, device);
    return props;
}

bool cuda_can_map(int device, char *why, size_t len)
{
    const struct cuda_driver *driver = mapping_driver();
    size_t granularity = 0;
    if (!driver)
        return cuda_refuse(why, len, "the driver has no calls for it");
    if (!has(driver, ATTRIBUTE_MAPPING, device))
        return cuda_refuse(why, len, "the device does not support virtual memory management");
    struct cuda_page_props props = props_of(driver, device);
    int code = driver->page_granularity(&granularity, &props, GRANULARITY_MINIMUM);
    if (code || granularity == 0 || GPU_PAGE_UNIT % granularity)
        return cuda_refuse(why, len, "the device maps memory in pieces of %zu bytes, and not in those of 2 MiB", granularity);
    return true;
}

/* These calls of the driver need a context; CUDA_ON_DEVICE() has the runtime make one. */

int cuda_range_reserve(int device, uint64_t size, void **range)
{
    const struct cuda_driver *driver = mapping_driver();
    unsigned long long address = 0;
    if (!driver)
        return GPU_NOT_SUPPORTED;
    int code = CUDA_ON_DEVICE(device, (cudaError_t)driver->range_reserve(&address, (size_t)size, (size_t)GPU_PAGE_UNIT, 0, 0));
    if (!code)
        *range = (void *)(uintptr_t)address;
    return code;
}

int cuda_range_free(void *range, uint64_t size)
{
    const struct cuda_driver *driver = mapping_driver();
    return driver ? driver->range_free((unsigned long long)(uintptr_t)range, (size_t)size) : GPU_NOT_SUPPORTED;
}

int cuda_page_create(int device, uint64_t size, gpu_page *page)
{
    const struct cuda_driver *driver = mapping_driver();
    gpu_page created = 0;
    if (!driver)
        return GPU_NOT_SUPPORTED;
    struct cuda_page_props props = props_of(driver, device);
    int code = CUDA_ON_DEVICE(device, (cudaError_t)driver->page_create(&created, (size_t)size, &props, 0));
    if (!code)
        *page = created;
    return code;
}

int cuda_page_release(gpu_page page)
{
    const struct cuda_driver *driver = mapping_driver();
    return driver ? driver->page_release(page) : GPU_NOT_SUPPORTED;
}

int cuda_page_map(void *address, uint64_t size, gpu_page page)
{
    const struct cuda_driver *driver = mapping_driver();
    return driver ? driver->page_map((unsigned long long)(uintptr_t)address, (size_t)size, 0, page, 0) : GPU_NOT_SUPPORTED;
}

int cuda_page_unmap(void *address, uint64_t size)
{
    const struct cuda_driver *driver = mapping_driver();
    return driver ? driver->page_unmap((unsigned long long)(uintptr_t)address, (size_t)size) : GPU_NOT_SUPPORTED;
}

int cuda_page_set_access(void *address, uint64_t size, const int *devices, size_t count)
{
    const struct cuda_driver *driver = mapping_driver();
    struct cuda_page_access access[GPU_PAGE_DEVICES_MAX];
    if (!driver)
        return GPU_NOT_SUPPORTED;
    if (count > GPU_PAGE_DEVICES_MAX)
        return GPU_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        access[i] = (struct cuda_page_access){{LOCATION_DEVICE, devices[i]}, ACCESS_READ_WRITE};
    return driver->page_access((unsigned long long)(uintptr_t)address, (size_t)size, access, count);
}

int cuda_page_export(int device, gpu_page page, int *fd)
{
    const struct cuda_driver *driver = mapping_driver();
    int exported = -1;
    if (!driver)
        return GPU_NOT_SUPPORTED;
    int code = CUDA_ON_DEVICE(device, (cudaError_t)driver->page_export(&exported, page, HANDLE_POSIX_FD, 0));
    return code == GPU_SUCCESS ? cuda_own(exported, fd) : code;
}

/* The driver compares the size with the page's when the page is mapped. */
int cuda_page_import(int device, int fd, uint64_t size, gpu_page *page)
{
    const struct cuda_driver *driver = mapping_driver();
    gpu_page imported = 0;
    (void)size;
    if (!driver)
        return GPU_NOT_SUPPORTED;
    int code = CUDA_ON_DEVICE(device, (cudaError_t)driver->page_import(&imported, (void *)(intptr_t)fd, HANDLE_POSIX_FD));
    if (!code)
        *page = imported;
    return code;
}
