/* SPDX-License-Identifier: MIT */
/*
 * cuda_internal.h - declarations that the cuda*.c files share. No other file includes it.
 *
 * cuda_driver.c, cuda_delay.c and cuda_event.c keep what they have found once; there is no other state. CUDA remembers the last error of
 * each thread until somebody reads it; no operation leaves one behind.
 */
#ifndef WEIR_CUDA_INTERNAL_H
#define WEIR_CUDA_INTERNAL_H

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#error "build Weir without CUDA_API_PER_THREAD_DEFAULT_STREAM: a null stream has to mean the legacy stream here; weir.h maps it for callers"
#endif

#include "lib/gpu/gpu_tables.h"

#include <stdatomic.h>

#include <cuda_runtime_api.h>

/* The operations of struct gpu. */
#define CUDA_OPERATION_DECLARE(name, check, parameters, arguments) int cuda_##name parameters;
GPU_OPERATIONS(CUDA_OPERATION_DECLARE)
#undef CUDA_OPERATION_DECLARE

/* Features (cuda_features.c): the one place that knows which toolkit has what ---------------------------------------------------------- */

/* The operations that cannot fail. */
bool cuda_context_is_alive(const struct gpu_context *context);
bool cuda_supports(int device, enum gpu_feature feature, char *why, size_t len);

/* Writes the reason why there is no such feature, and returns false. */
__attribute__((format(printf, 3, 4))) bool cuda_refuse(char *why, size_t len, const char *format, ...);

/* Sets *name to CUDA's name of a pool attribute, and *is_int to whether CUDA keeps it as an int instead of 64 bits. Returns false if this
   toolkit has no such attribute. */
bool cuda_pool_attribute(enum gpu_pool_attribute attribute, enum cudaMemPoolAttr *name, bool *is_int);

/* Converts the description of a pool to CUDA's. Returns GPU_NOT_SUPPORTED if this toolkit cannot express it. */
int cuda_pool_props(const struct gpu_pool_spec *spec, struct cudaMemPoolProps *props);

/* The driver (cuda_driver.c): functions that the runtime lacks or wraps at a price ----------------------------------------------------- */

struct cuda_page_props;  /* CUmemAllocationProp and */
struct cuda_page_access; /* CUmemAccessDesc, defined in cuda_map.c */

/* The driver's functions. They return the runtime's error numbers: since CUDA 10.1 driver and runtime have the same. Contexts, modules and
   functions are opaque pointers. */
struct cuda_driver {
    int (*stream_context)(gpu_stream stream, void **context);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*module_load)(void **module, const void *image);
    int (*module_function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned shared_bytes, gpu_stream stream, void **parameters, void **extra);
    int (*device_get)(int *handle, int ordinal);
    int (*device_uuid)(unsigned char *uuid, int handle); /* 16 bytes; NULL before driver 11.4 */
    int (*stream_is_capturing)(gpu_stream stream, int *status);
    int (*malloc_async)(unsigned long long *address, size_t size, gpu_pool pool, gpu_stream stream);
    int (*free_async)(unsigned long long address, gpu_stream stream);
    int (*stream_id)(gpu_stream stream, unsigned long long *id); /* NULL before driver 12.0 */
    int (*context_current)(void **context);
    int (*context_id)(void *context, unsigned long long *id); /* NULL before driver 12.0 */
    int (*context_device)(int *handle); /* of the current context */
    int (*context_record)(void *context, gpu_event event); /* NULL before driver 12.5 */
    int (*primary_context_state)(int handle, unsigned *flags, int *active);
    int (*primary_context_retain)(void **context, int handle);
    int (*primary_context_release)(int handle);
    int (*device_attribute)(int *value, int attribute, int handle);
    /* Ranges and pages (cuda_map.c); used only if can_map is set. */
    bool can_map;
    int (*page_granularity)(size_t *granularity, const struct cuda_page_props *props, int option);
    int (*range_reserve)(unsigned long long *address, size_t size, size_t alignment, unsigned long long wanted, unsigned long long flags);
    int (*range_free)(unsigned long long address, size_t size);
    int (*page_create)(gpu_page *page, size_t size, const struct cuda_page_props *props, unsigned long long flags);
    int (*page_release)(gpu_page page);
    int (*page_map)(unsigned long long address, size_t size, size_t offset, gpu_page page, unsigned long long flags);
    int (*page_unmap)(unsigned long long address, size_t size);
    int (*page_access)(unsigned long long address, size_t size, const struct cuda_page_access *access, size_t count);
    int (*page_export)(void *handle, gpu_page page, int type, unsigned long long flags);
    int (*page_import)(gpu_page *page, void *handle, int type);
};

/* Returns whether the driver failed because the calling thread has no context yet. The same call of the runtime makes a context first. */
static inline bool cuda_lacks_context(int code)
{
    return code == cudaErrorDeviceUninitialized || code == cudaErrorInitializationError;
}

/* Looks up the driver's functions, and returns them. Returns NULL if the machine has no CUDA driver, or one that lacks a function without
   which Weir cannot work. */
const struct cuda_driver *cuda_driver_load(void);
extern const struct cuda_driver *_Atomic cuda_driver_loaded; /* NULL until cuda_driver_load() has found the functions */

/* Returns the driver's functions, without a call if they were found before. */
static inline const struct cuda_driver *cuda_driver(void)
{
    const struct cuda_driver *driver = atomic_load_explicit(&cuda_driver_loaded, memory_order_acquire);
    return driver ? driver : cuda_driver_load();
}

/* Returns the driver for operations on the memory of a stream, or NULL if the runtime must do them. Before CUDA 12, cudaSetDevice()
   leaves the context of the former device current until the next call of the runtime, so to the driver a null stream would mean the
   former device. */
static inline const struct cuda_driver *cuda_driver_of_streams(void)
{
    return CUDART_VERSION >= 12000 ? cuda_driver() : NULL;
}

/* Makes a descriptor of CUDA's close-on-exec, and sets *fd to it (cuda_pool.c). Returns the code. */
int cuda_own(int exported, int *fd);

/* Ranges and pages (cuda_map.c) -------------------------------------------------------------------------------------------------------- */

/* Returns whether the driver and the device can map pages; if not, `why` gets the reason. */
bool cuda_can_map(int device, char *why, size_t len);

/* Errors and devices (cuda.c) ---------------------------------------------------------------------------------------------------------- */

/* Clears CUDA's last error if it is `code`; any other error is the application's and stays. */
void cuda_forget_error(int code);

/* Ends an operation with CUDA's code `code`: an error that the operation returns does not stay behind as the thread's last error. Returns
   `code`. */
static inline int cuda_done(int code)
{
    if (code != GPU_SUCCESS)
        cuda_forget_error(code);
    return code;
}

/* Makes the device current until cuda_leave_device(), which gets *former. Both leave out cudaSetDevice() if nothing would change: the call
   costs time, and from CUDA 12 on it creates the device's context. That also means: to go back to a device that the thread has never used,
   as device 0 can be, creates that device's context, since CUDA has no way back to "no device chosen yet". */
int cuda_enter_device(int device, int *former);
void cuda_leave_device(int device, int former);

/* Makes the call and returns its code; sets the output only if the call succeeds, since CUDA may write to outputs of a call that fails. */
#define CUDA_SET(call, output, value)                                                                                                      \
    ({                                                                                                                                     \
        int code_ = (int)(call);                                                                                                           \
        if (!code_)                                                                                                                        \
            *(output) = (value);                                                                                                           \
        cuda_done(code_);                                                                                                                  \
    })

/* Makes the call with the device current, and returns its code. */
#define CUDA_ON_DEVICE(device, call)                                                                                                       \
    ({                                                                                                                                     \
        int former_, made_ = cuda_enter_device((device), &former_);                                                                        \
        if (!made_) {                                                                                                                      \
            made_ = (int)(call);                                                                                                           \
            cuda_leave_device((device), former_);                                                                                          \
        }                                                                                                                                  \
        cuda_done(made_);                                                                                                                  \
    })

#endif
