/* SPDX-License-Identifier: MIT */
/*
 * cuda_driver.c - the functions of the CUDA driver that Weir calls directly.
 *
 * Some are missing in the runtime: loading a kernel from PTX, the right UUID on MIG, events behind a whole device, the device of a stream
 * (before 12.8), and whether a device is in use. Others are called for each request or free, and are faster than the runtime's:
 * cuStreamIsCapturing takes 14 ns where the runtime's wrapper takes 48, and cuMemAllocFromPoolAsync and cuMemFreeAsync together take 23 to
 * 30 ns less (H200, driver 580).
 *
 * The driver's library is opened by name, not linked, so that a program with Weir starts on a machine without a driver and can report what
 * is missing.
 */
#include "lib/gpu/cuda_internal.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cuda_driver driver; /* written by load(), which runs once */
const struct cuda_driver *_Atomic cuda_driver_loaded;

static void load(void)
{
    /* The library stays open: the runtime uses it too, and the driver cannot be unloaded and loaded again. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    /* The names include the version suffix that the macros of cuda.h would choose. */
    const struct {
        const char *symbol;
        void **slot;
        bool required;
    } symbols[] = {
        { "cuStreamGetCtx", (void **)&driver.stream_context, true },
        { "cuCtxPushCurrent_v2", (void **)&driver.context_push, true },
        { "cuCtxPopCurrent_v2", (void **)&driver.context_pop, true },
        { "cuModuleLoadData", (void **)&driver.module_load, true },
        { "cuModuleGetFunction", (void **)&driver.module_function, true },
        { "cuLaunchKernel", (void **)&driver.launch, true },
        { "cuDeviceGet", (void **)&driver.device_get, true },
        { "cuDeviceGetUuid_v2", (void **)&driver.device_uuid, false },
        { "cuStreamIsCapturing", (void **)&driver.stream_is_capturing, true },
        { "cuMemAllocFromPoolAsync", (void **)&driver.malloc_async, true },
        { "cuMemFreeAsync", (void **)&driver.free_async, true },
        { "cuStreamGetId", (void **)&driver.stream_id, false },
        { "cuCtxGetCurrent", (void **)&driver.context_current, true },
        { "cuCtxGetId", (void **)&driver.context_id, false },
        { "cuCtxGetDevice", (void **)&driver.context_device, true },
        { "cuCtxRecordEvent", (void **)&driver.context_record, false },
        { "cuDevicePrimaryCtxGetState", (void **)&driver.primary_context_state, true },
        { "cuDevicePrimaryCtxRetain", (void **)&driver.primary_context_retain, false },
        { "cuDevicePrimaryCtxRelease_v2", (void **)&driver.primary_context_release, false },
        { "cuDeviceGetAttribute", (void **)&driver.device_attribute, true },
        { "cuMemGetAllocationGranularity", (void **)&driver.page_granularity, false },
        { "cuMemAddressReserve", (void **)&driver.range_reserve, false },
        { "cuMemAddressFree", (void **)&driver.range_free, false },
        { "cuMemCreate", (void **)&driver.page_create, false },
        { "cuMemRelease", (void **)&driver.page_release, false },
        { "cuMemMap", (void **)&driver.page_map, false },
        { "cuMemUnmap", (void **)&driver.page_unmap, false },
        { "cuMemSetAccess", (void **)&driver.page_access, false },
        { "cuMemExportToShareableHandle", (void **)&driver.page_export, false },
        { "cuMemImportFromShareableHandle", (void **)&driver.page_import, false },
    };
    bool complete = true;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        *symbols[i].slot = dlsym(library, symbols[i].symbol);
        complete = complete && (*symbols[i].slot || !symbols[i].required);
    }
    driver.can_map = driver.page_granularity && driver.range_reserve && driver.range_free && driver.page_create && driver.page_release &&
                     driver.page_map && driver.page_unmap && driver.page_access && driver.page_export && driver.page_import;
    if (complete)
        atomic_store_explicit(&cuda_driver_loaded, &driver, memory_order_release);
}

const struct cuda_driver *cuda_driver_load(void)
{
    pthread_once(&once, load);
    return atomic_load_explicit(&cuda_driver_loaded, memory_order_acquire);
}
