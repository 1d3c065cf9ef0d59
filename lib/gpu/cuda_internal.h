/* SPDX-License-Identifier: MIT */
/*
 * cuda_internal.h - what the cuda*.c files share. Nobody else includes it.
 *
 * No state but what cuda_driver.c and cuda_delay.c load once, each behind its own lock. CUDA keeps the last error of each thread until
 * somebody reads it; no operation leaves one behind.
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

/* Of the operations, those that cannot fail. */
bool cuda_context_is_alive(const struct gpu_context *context);
bool cuda_supports(int device, enum gpu_feature feature, char *why, size_t len);

/* Writes why there is no such feature. Returns false. */
__attribute__((format(printf, 3, 4))) bool cuda_refuse(char *why, size_t len, const char *format, ...);

/* CUDA's name of a pool attribute, and whether CUDA keeps it as an int instead of 64 bits. False if this toolkit has no such attribute. */
bool cuda_pool_attribute(enum gpu_pool_attribute attribute, enum cudaMemPoolAttr *name, bool *is_int);

/* Fills in what pools are created from. GPU_NOT_SUPPORTED if this toolkit cannot express it. */
int cuda_pool_props(const struct gpu_pool_spec *spec, struct cudaMemPoolProps *props);

/* The driver (cuda_driver.c): the few entry points that the runtime does not offer, or wraps at a price -------------------------------- */

struct cuda_page_props;  /* CUmemAllocationProp, and */
struct cuda_page_access; /* CUmemAccessDesc, in cuda_map.c */

/* Error numbers are those of the runtime: since CUDA 10.1 both count alike. Contexts, modules and functions are opaque. */
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
    /* Ranges and pages (cuda_map.c); used only where can_map. */
    bool can_map;
    int (*page_granularity)(size_t *granularity, const struct cuda_page_props *props, int option);
    int (*range_reserve)(unsigned long long *address, size_t size, size_t alignment, unsigned long long wanted, unsigned long long flags);
    int (*range_free)(unsigned long long address, size_t size);
    int (*page_create)(gpu_page *page, size_t size, const struct cuda_page_props *props, unsigned long long flags);
    int (*page_release)(gpu_page page);
    int (*page_map)(unsigned long long address, size_t size, size_t offset, gpu_page page, unsigned long long flags);
    int (*page_unmap)(unsigned long long address, size_t size);
    int (*page_access)(unsigned long long address, size_t size, const struct cuda_page_access *access, size_t count);
};

/* Whether the driver failed because the calling thread has no context yet. The runtime makes one when it is asked the same. */
static inline bool cuda_lacks_context(int code)
{
    return code == cudaErrorDeviceUninitialized || code == cudaErrorInitializationError;
}

/* Finds the driver's functions. NULL: the machine has no CUDA driver, or one that lacks a function which may not be NULL. */
const struct cuda_driver *cuda_driver_load(void);
extern const struct cuda_driver *_Atomic cuda_driver_loaded; /* what cuda_driver_load() found */

/* The driver's functions, without a call if they were found before. */
static inline const struct cuda_driver *cuda_driver(void)
{
    const struct cuda_driver *driver = atomic_load_explicit(&cuda_driver_loaded, memory_order_acquire);
    return driver ? driver : cuda_driver_load();
}

/* The driver, for what works on the memory of a stream; NULL: the runtime has to do it. Before CUDA 12 cudaSetDevice() leaves the context of
   the device before in place until the runtime's next call, and with it what a null stream means. */
static inline const struct cuda_driver *cuda_driver_of_streams(void)
{
    return CUDART_VERSION >= 12000 ? cuda_driver() : NULL;
}

/* Ranges and pages (cuda_map.c) -------------------------------------------------------------------------------------------------------- */

/* Whether driver and device can; else why not. */
bool cuda_can_map(int device, char *why, size_t len);

/* Errors and devices (cuda.c) ---------------------------------------------------------------------------------------------------------- */

/* Clears CUDA's last error if it is `code`, and leaves any other to the application. */
void cuda_forget_error(int code);

/* What each operation ends with: an error that it returns does not stay behind as the thread's last one. */
static inline int cuda_done(int code)
{
    if (code != GPU_SUCCESS)
        cuda_forget_error(code);
    return code;
}

/*
 * Makes device current for the calls up to cuda_leave_device(), which gets *former. The switch is left out where it would change nothing:
 * it costs time, and from CUDA 12 on cudaSetDevice() creates the device's context. For that reason coming back to a device that the thread
 * never used, as device 0 can be, creates its context too: CUDA has no way back to "none chosen yet".
 */
int cuda_enter_device(int device, int *former);
void cuda_leave_device(int device, int former);

/* Makes the call, and sets the operation's output if that succeeds, which CUDA may write to in any case; is the operation's code. */
#define CUDA_SET(call, output, value)                                                                                                      \
    ({                                                                                                                                     \
        int code_ = (int)(call);                                                                                                           \
        if (!code_)                                                                                                                        \
            *(output) = (value);                                                                                                           \
        cuda_done(code_);                                                                                                                  \
    })

/* Makes the call with the device current, and is the operation's code. */
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
