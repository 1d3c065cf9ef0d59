/* SPDX-License-Identifier: MIT */
/* cuda.c - the table of operations (gpu.h) for the CUDA runtime: devices, streams and captures. Operations that a program calls all the
   time are one call of the runtime. CUDA may write to an output even if the call fails, so outputs go through a local variable and
   CUDA_SET(). */
#include "lib/gpu/clock.h"
#include "lib/gpu/cuda_internal.h"
#include "lib/gpu/nvml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* gpu.h promises CUDA's own error numbers; these lines check that. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)
SAME(GPU_SUCCESS, cudaSuccess);
SAME(GPU_INVALID_VALUE, cudaErrorInvalidValue);
SAME(GPU_OUT_OF_MEMORY, cudaErrorMemoryAllocation);
SAME(GPU_INSUFFICIENT_DRIVER, cudaErrorInsufficientDriver);
SAME(GPU_NO_DEVICE, cudaErrorNoDevice);
SAME(GPU_INVALID_DEVICE, cudaErrorInvalidDevice);
SAME(GPU_INVALID_HANDLE, cudaErrorInvalidResourceHandle);
SAME(GPU_NOT_READY, cudaErrorNotReady);
SAME(GPU_ILLEGAL_ADDRESS, cudaErrorIllegalAddress);
SAME(GPU_CONTEXT_DESTROYED, cudaErrorContextIsDestroyed);
SAME(GPU_PEER_ACCESS_UNSUPPORTED, cudaErrorPeerAccessUnsupported);
SAME(GPU_NOT_PERMITTED, cudaErrorNotPermitted);
SAME(GPU_NOT_SUPPORTED, cudaErrorNotSupported);
SAME(GPU_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported);
SAME(GPU_CAPTURE_INVALIDATED, cudaErrorStreamCaptureInvalidated);
SAME(GPU_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit);
SAME(GPU_UNKNOWN, cudaErrorUnknown);
SAME(GPU_CAPTURE_MODE_GLOBAL, cudaStreamCaptureModeGlobal);
SAME(GPU_CAPTURE_MODE_THREAD_LOCAL, cudaStreamCaptureModeThreadLocal);
SAME(GPU_CAPTURE_MODE_RELAXED, cudaStreamCaptureModeRelaxed);
SAME(GPU_CAPTURE_STATUS_NONE, cudaStreamCaptureStatusNone);
SAME(GPU_CAPTURE_STATUS_ACTIVE, cudaStreamCaptureStatusActive);
SAME(GPU_CAPTURE_STATUS_INVALID, cudaStreamCaptureStatusInvalidated);

/* gpu.h has its own structs for the bytes that processes send each other, of the same sizes as CUDA's. */
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours " has not the size of " #theirs)
SAME_SIZE(struct gpu_shared_block, struct cudaMemPoolPtrExportData);
SAME_SIZE(struct gpu_shared_event, cudaIpcEventHandle_t);

/* Errors ------------------------------------------------------------------------------------------------------------------------------- */

void cuda_forget_error(int code)
{
    if ((int)cudaPeekAtLastError() == code)
        (void)cudaGetLastError();
}

static const char *remedy(void)
{
    return "check nvidia-smi, or set WEIR_GPU=sim to run on the simulator";
}

static const char *code_name(int code)
{
    return cudaGetErrorName((cudaError_t)code);
}

static const char *code_text(int code)
{
    return cudaGetErrorString((cudaError_t)code);
}

/* Devices ------------------------------------------------------------------------------------------------------------------------------ */

int cuda_enter_device(int device, int *former)
{
    int current;
    cudaError_t code = cudaGetDevice(&current);
    if (code == cudaSuccess && current != device)
        code = cudaSetDevice(device);
    if (code == cudaSuccess)
        *former = current;
    return cuda_done(code);
}

void cuda_leave_device(int device, int former)
{
    if (former != device)
        (void)cudaSetDevice(former);
}

int cuda_device_count(int *count)
{
    int found;
    return CUDA_SET(cudaGetDeviceCount(&found), count, found);
}

/* Reads the UUID of a device. For a MIG slice of a GPU the runtime may return the UUID of the whole GPU; cuDeviceGetUuid_v2() returns that
   of the slice. */
static void read_uuid(int device, const struct cudaDeviceProp *properties, unsigned char uuid[16])
{
    memcpy(uuid, properties->uuid.bytes, 16);
    const struct cuda_driver *driver = cuda_driver();
    unsigned char precise[16];
    int handle;
    if (driver && driver->device_uuid && driver->device_get(&handle, device) == 0 && driver->device_uuid(precise, handle) == 0)
        memcpy(uuid, precise, sizeof(precise));
}

int cuda_device_info(int device, struct gpu_device_info *info)
{
    struct cudaDeviceProp properties;
    cudaError_t code = cudaGetDeviceProperties(&properties, device);
    if (code != cudaSuccess)
        return cuda_done(code);
    memset(info, 0, sizeof(*info));
    snprintf(info->name, sizeof(info->name), "%s", properties.name);
    info->memory = properties.totalGlobalMem;
    /* CUDA has no attribute for MIG. The driver appends the MIG profile to the name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
    info->mig = strstr(properties.name, " MIG ") != NULL;
    info->os_managed = properties.integrated || properties.pageableMemoryAccessUsesHostPageTables;
    unsigned char uuid[16];
    read_uuid(device, &properties, uuid);
    int len = snprintf(info->uuid, sizeof(info->uuid), "%s", info->mig ? "MIG" : "GPU");
    for (size_t i = 0; i < sizeof(uuid); i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        len += snprintf(info->uuid + len, sizeof(info->uuid) - (size_t)len, "%s%02x", dash ? "-" : "", uuid[i]);
    }
    return GPU_SUCCESS;
}

int cuda_can_access_peer(int device, int peer, bool *can)
{
    /* The first device of CUDA's call is the one that accesses the other. */
    int answer;
    return CUDA_SET(cudaDeviceCanAccessPeer(&answer, peer, device), can, answer != 0);
}

int cuda_device_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t free_size = 0, total_size = 0;
    int code = CUDA_ON_DEVICE(device, cudaMemGetInfo(&free_size, &total_size));
    if (!code) {
        *free_bytes = free_size;
        *total_bytes = total_size;
    }
    return code;
}

int cuda_device_processes(int device, struct gpu_process *processes, size_t room, size_t *count)
{
    struct gpu_device_info info;
    int code = cuda_device_info(device, &info);
    return code ? code : nvml_processes(info.uuid, processes, room, count);
}

int cuda_device_synchronize(int device)
{
    return CUDA_ON_DEVICE(device, cudaDeviceSynchronize());
}

int cuda_get_current_device(int *device)
{
    int current;
    return CUDA_SET(cudaGetDevice(&current), device, current);
}

int cuda_set_current_device(int device)
{
    return cuda_done(cudaSetDevice(device));
}

int cuda_device_is_used(int device, bool *used)
{
    const struct cuda_driver *driver = cuda_driver();
    int handle, active = 0;
    unsigned flags;
    if (!driver)
        return GPU_INSUFFICIENT_DRIVER;
    int code = driver->device_get(&handle, device);
    if (!code)
        code = driver->primary_context_state(handle, &flags, &active);
    if (!code)
        *used = active;
    return code;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

int cuda_stream_create(int device, gpu_stream *stream)
{
    gpu_stream created;
    return CUDA_SET(CUDA_ON_DEVICE(device, cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking)), stream, created);
}

int cuda_stream_destroy(gpu_stream stream)
{
    return cuda_done(cudaStreamDestroy(stream));
}

int cuda_stream_synchronize(gpu_stream stream)
{
    return cuda_done(cudaStreamSynchronize(stream));
}

int cuda_stream_query(gpu_stream stream)
{
    return cuda_done(cudaStreamQuery(stream));
}

int cuda_stream_capture_status(gpu_stream stream, enum gpu_capture_status *status)
{
    /* Every request asks for this, so it calls the driver, which is faster than the runtime and returns the same numbers. */
    const struct cuda_driver *driver = cuda_driver();
    int quick = 0;
    int code = driver ? driver->stream_is_capturing(stream, &quick) : cudaErrorDeviceUninitialized;
    enum cudaStreamCaptureStatus answer = (enum cudaStreamCaptureStatus)quick;
    if (cuda_lacks_context(code))
        code = cuda_done(cudaStreamIsCapturing(stream, &answer));
    if (!code)
        *status = (enum gpu_capture_status)answer;
    return code;
}

/* Finds the runtime's number of the device with this driver handle. */
static int find_device(const struct cuda_driver *driver, int wanted, int *device)
{
    int count = 0, handle;
    int code = cuda_done(cudaGetDeviceCount(&count));
    for (int i = 0; i < count && !code; i++) {
        code = driver->device_get(&handle, i);
        if (!code && handle == wanted) {
            *device = i;
            return GPU_SUCCESS;
        }
    }
    return code ? code : GPU_INVALID_DEVICE;
}

int cuda_stream_device(gpu_stream stream, int *device)
{
    const struct cuda_driver *driver = cuda_driver();
    void *context = NULL;
    int handle = 0;
    int code = driver ? driver->stream_context(stream, &context) : GPU_INSUFFICIENT_DRIVER;
    if (!code)
        code = driver->context_push(context);
    if (code)
        return code;
    code = driver->context_device(&handle);
    void *popped = NULL;
    driver->context_pop(&popped);
    return code ? code : find_device(driver, handle, device);
}

int cuda_stream_context(gpu_stream stream, struct gpu_context *context)
{
    const struct cuda_driver *driver = cuda_driver();
    struct gpu_context found = { .handle = NULL };
    unsigned long long id = 0;
    int code = driver ? driver->stream_context(stream, &found.handle) : GPU_INSUFFICIENT_DRIVER;
    if (!code && driver->context_id && !(code = driver->context_id(found.handle, &id)))
        found.id = id;
    if (!code)
        *context = found;
    return code;
}

/* Only cuCtxGetId() is safe for a context that was destroyed, even if another context has its handle now. */
bool cuda_context_is_alive(const struct gpu_context *context)
{
    const struct cuda_driver *driver = cuda_driver();
    unsigned long long id = 0;
    if (!driver || !context->handle || !context->id)
        return true;
    return driver->context_id(context->handle, &id) == GPU_SUCCESS && id == context->id;
}

/* Capture ------------------------------------------------------------------------------------------------------------------------------ */

int cuda_exchange_capture_mode(enum gpu_capture_mode *mode)
{
    enum cudaStreamCaptureMode exchanged = (enum cudaStreamCaptureMode)*mode;
    return CUDA_SET(cudaThreadExchangeStreamCaptureMode(&exchanged), mode, (enum gpu_capture_mode)exchanged);
}

int cuda_capture_begin(gpu_stream stream, enum gpu_capture_mode mode)
{
    return cuda_done(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode));
}

int cuda_capture_end(gpu_stream stream, size_t *nodes)
{
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (code != cudaSuccess)
        return cuda_done(code);
    size_t count = 0;
    code = cudaGraphGetNodes(graph, NULL, &count);
    cudaError_t destroyed = cudaGraphDestroy(graph);
    if (code == cudaSuccess)
        code = destroyed;
    if (code == cudaSuccess)
        *nodes = count;
    return cuda_done(code);
}

/* Time --------------------------------------------------------------------------------------------------------------------------------- */

static void pause_for(uint64_t nanoseconds)
{
    /* Sleep until a fixed time, so that a signal does not make the sleep longer. */
    uint64_t end = gpu_clock_now();
    if (__builtin_add_overflow(end, nanoseconds, &end))
        end = UINT64_MAX;
    const struct timespec time = gpu_clock_timespec(end);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
}

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

const struct gpu gpu_cuda = {
    .name = "cuda",
#define CUDA_OPERATION_ENTRY(name, check, parameters, arguments) .name = cuda_##name,
    GPU_OPERATIONS(CUDA_OPERATION_ENTRY)
#undef CUDA_OPERATION_ENTRY
        .supports = cuda_supports,
    .context_is_alive = cuda_context_is_alive,
    .now = gpu_clock_now,
    .now_coarse = gpu_clock_coarse,
    .ticks = gpu_clock_ticks,
    .pause = pause_for,
    .remedy = remedy,
    .code_name = code_name,
    .code_text = code_text,
};
