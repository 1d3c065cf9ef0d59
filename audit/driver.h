/* SPDX-License-Identifier: MIT */
/*
 * driver.h - declares what the recorder needs of NVIDIA's driver: the functions that it wraps, the functions that it calls itself, and the
 * few types in their parameters.
 *
 * The driver's ABI is stable: a function whose parameters change gets a new name. So no header of a CUDA toolkit is needed here. A test
 * compares the types with the toolkit's where one is installed.
 */
#ifndef WEIR_AUDIT_DRIVER_H
#define WEIR_AUDIT_DRIVER_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRIVER_SUCCESS = 0, DRIVER_OUT_OF_MEMORY = 2, DRIVER_WRONG_THREAD = 908, DRIVER_FIRST_OF_CAPTURES = 900 };
enum { DRIVER_THRESHOLD = 4, DRIVER_RESERVED = 5, DRIVER_USED = 7 }; /* attributes of a pool */
enum { DRIVER_AT_DEVICE = 1 };                                       /* the type of a location */
enum { DRIVER_RELAXED = 2 };                                         /* a capture mode */
/* a flag of cuGetProcAddress, which asks for the functions that end in _ptsz */
enum { DRIVER_PER_THREAD_STREAMS = 2 };
#define DRIVER_PER_THREAD_STREAM ((void *)2)

struct driver_location {
    int type, id;
};
struct driver_pool_props {
    int allocation, handles;
    struct driver_location location;
    void *security;
    size_t max_size; /* the pool's cap; 0: none, also if the program's toolkit is too old to know caps */
};
struct driver_memory_props {
    int type, handles;
    struct driver_location location;
};
struct driver_uuid {
    unsigned char bytes[16];
};

/*
 * Each wrapped function: its exported name without "cu", the name that cuGetProcAddress() takes, and the first version of CUDA that has the
 * function in this form. Of several forms with the same name, those for the per-thread default stream (_ptsz) come first, and older forms
 * come before newer ones.
 */
#define DRIVER_FUNCTIONS(X)                                                                                                                \
    X(GetProcAddress, "cuGetProcAddress", 11030)                                                                                           \
    X(GetProcAddress_v2, "cuGetProcAddress", 12000)                                                                                        \
    X(MemAlloc_v2, "cuMemAlloc", 3020)                                                                                                     \
    X(MemAllocPitch_v2, "cuMemAllocPitch", 3020)                                                                                           \
    X(MemAllocManaged, "cuMemAllocManaged", 6000)                                                                                          \
    X(MemAllocHost_v2, "cuMemAllocHost", 3020)                                                                                             \
    X(MemHostAlloc, "cuMemHostAlloc", 2020)                                                                                                \
    X(MemFree_v2, "cuMemFree", 3020)                                                                                                       \
    X(MemFreeHost, "cuMemFreeHost", 2000)                                                                                                  \
    X(MemAllocAsync_ptsz, "cuMemAllocAsync", 11020)                                                                                        \
    X(MemAllocAsync, "cuMemAllocAsync", 11020)                                                                                             \
    X(MemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020)                                                                        \
    X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020)                                                                             \
    X(MemFreeAsync_ptsz, "cuMemFreeAsync", 11020)                                                                                          \
    X(MemFreeAsync, "cuMemFreeAsync", 11020)                                                                                               \
    X(MemPoolCreate, "cuMemPoolCreate", 11020)                                                                                             \
    X(MemPoolDestroy, "cuMemPoolDestroy", 11020)                                                                                           \
    X(MemPoolSetAttribute, "cuMemPoolSetAttribute", 11020)                                                                                 \
    X(MemPoolTrimTo, "cuMemPoolTrimTo", 11020)                                                                                             \
    X(MemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020)                                                           \
    X(DeviceSetMemPool, "cuDeviceSetMemPool", 11020)                                                                                       \
    X(MemSetMemPool, "cuMemSetMemPool", 13000)                                                                                             \
    X(MemCreate, "cuMemCreate", 10020)                                                                                                     \
    X(MemRelease, "cuMemRelease", 10020)                                                                                                   \
    X(MemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000)                                                                     \
    X(MemMap, "cuMemMap", 10020)                                                                                                           \
    X(MemUnmap, "cuMemUnmap", 10020)                                                                                                       \
    X(StreamCreate, "cuStreamCreate", 2000)                                                                                                \
    X(StreamCreateWithPriority, "cuStreamCreateWithPriority", 5050)                                                                        \
    X(GreenCtxStreamCreate, "cuGreenCtxStreamCreate", 12050)                                                                               \
    X(StreamDestroy, "cuStreamDestroy", 2000)                                                                                              \
    X(StreamDestroy_v2, "cuStreamDestroy", 4000)                                                                                           \
    X(StreamSynchronize_ptsz, "cuStreamSynchronize", 7000)                                                                                 \
    X(StreamSynchronize, "cuStreamSynchronize", 2000)                                                                                      \
    X(EventSynchronize, "cuEventSynchronize", 2000)                                                                                        \
    X(CtxSynchronize, "cuCtxSynchronize", 2000)                                                                                            \
    X(CtxSynchronize_v2, "cuCtxSynchronize", 13000)                                                                                        \
    X(StreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000)                                                                              \
    X(StreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010)                                                                           \
    X(StreamBeginCapture, "cuStreamBeginCapture", 10000)                                                                                   \
    X(StreamBeginCapture_v2, "cuStreamBeginCapture", 10010)                                                                                \
    X(StreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030)                                                                \
    X(StreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030)                                                                     \
    X(StreamEndCapture_ptsz, "cuStreamEndCapture", 10000)                                                                                  \
    X(StreamEndCapture, "cuStreamEndCapture", 10000)                                                                                       \
    X(CtxCreate_v2, "cuCtxCreate", 3020)                                                                                                   \
    X(CtxCreate_v3, "cuCtxCreate", 11040)                                                                                                  \
    X(CtxCreate_v4, "cuCtxCreate", 12050)                                                                                                  \
    X(CtxDestroy, "cuCtxDestroy", 2000)                                                                                                    \
    X(CtxDestroy_v2, "cuCtxDestroy", 4000)                                                                                                 \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)                                                                            \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000)                                                                          \
    X(DevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000)                                                                      \
    X(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000)                                                                              \
    X(DevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000)

enum driver_function {
#define X(id, name, version) DRIVER_##id,
    DRIVER_FUNCTIONS(X)
#undef X
        DRIVER_FUNCTION_COUNT,
};

/* The driver's own functions, which the wrappers call: for each, the address that the program would have got last. Written when a symbol is
   bound or looked up. */
extern void *_Atomic driver_real[DRIVER_FUNCTION_COUNT];
/* The wrappers (calls.c), which the program gets instead. */
extern void *const driver_wrapper[DRIVER_FUNCTION_COUNT];

/* The program looked up a function by this name with cuGetProcAddress(), and the driver answered `found`. Returns what the program is to
   get: a wrapper, or `found` itself if the function is not wrapped. is_per_thread: the program asked for the functions of the per-thread
   default stream. `ask` asks the same driver for another version of the function, and returns NULL if there is none. */
void *driver_looked_up(const char *name, void *found, bool is_per_thread, void *(*ask)(void *to, const char *name, int version), void *to);

/* Functions of the driver that the recorder calls itself. A member is NULL if the driver is too old to have the function. */
#define DRIVER_QUESTIONS(X)                                                                                                                \
    X(context_device, "cuCtxGetDevice", (int *device))                                                                                     \
    X(context_current, "cuCtxGetCurrent", (void **context))                                                                                \
    X(primary_state, "cuDevicePrimaryCtxGetState", (int device, unsigned *flags, int *is_active))                                          \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                                      \
    X(device_name, "cuDeviceGetName", (char *name, int len, int device))                                                                   \
    X(device_uuid, "cuDeviceGetUuid", (struct driver_uuid *uuid, int device))                                                              \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, int device))                                                                   \
    X(version, "cuDriverGetVersion", (int *version))                                                                                       \
    X(default_pool, "cuDeviceGetDefaultMemPool", (void **pool, int device))                                                                \
    X(pool_attribute, "cuMemPoolGetAttribute", (void *pool, int attribute, void *value))                                                   \
    X(is_capturing, "cuStreamIsCapturing", (void *stream, int *status))                                                                    \
    X(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))

struct driver_questions {
#define X(member, name, parameters) int(*member) parameters;
    DRIVER_QUESTIONS(X)
#undef X
};

/* Finds these functions in the driver, which stays loaded from then on. Must not be called from within the loader. Returns false if no
   driver is loaded. */
bool driver_find_questions(struct driver_questions *questions);

#endif
