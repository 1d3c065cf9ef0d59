/* SPDX-License-Identifier: MIT */
/*
 * cuda_event.c - events, of which those that live in a context of the program's own are not touched once it was destroyed.
 *
 * An event lives in the context that was current when it was made, mostly that of its device, which the runtime keeps. A program may
 * destroy one of its own at any time, and the driver then crashes at some questions to its events, on some machines at all of them
 * (measured). So the handle of such an event is that of a record, which knows the context; the lowest bit, which is clear in handles of
 * CUDA's, tells the two apart. Before driver 12.0, where contexts have no numbers, there are no records.
 */
#include "lib/gpu/cuda_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64

struct record {
    cudaEvent_t event;
    struct gpu_context context;
};

/* Numbers of the contexts that the runtime keeps, by the driver's number of the device; 0: not known yet. */
static _Atomic unsigned long long kept[DEVICES_MAX];

/* Whether this context, which is current, is the one that the runtime keeps for its device. It is not made for that question. */
static bool is_kept(const struct cuda_driver *driver, unsigned long long id)
{
    int handle, active = 0;
    unsigned flags;
    void *context = NULL;
    unsigned long long found = 0;
    if (driver->context_device(&handle) || handle < 0 || handle >= DEVICES_MAX)
        return true;
    if (atomic_load_explicit(&kept[handle], memory_order_relaxed) == id)
        return true;
    if (driver->primary_context_state(handle, &flags, &active) || !active || driver->primary_context_retain(&context, handle))
        return false;
    int code = driver->context_id(context, &found);
    driver->primary_context_release(handle);
    if (code)
        return false;
    atomic_store_explicit(&kept[handle], found, memory_order_relaxed);
    return found == id;
}

/* The handle of an event that was just made in the current context. */
static cudaError_t name_event(cudaEvent_t made, gpu_event *event)
{
    const struct cuda_driver *driver = cuda_driver();
    void *context = NULL;
    unsigned long long id = 0;
    *event = made;
    if (!driver || !driver->context_id || !driver->primary_context_retain || !driver->primary_context_release ||
        driver->context_current(&context) || !context || driver->context_id(context, &id) || is_kept(driver, id))
        return cudaSuccess;
    struct record *record = malloc(sizeof *record);
    if (!record) {
        (void)cudaEventDestroy(made);
        return cudaErrorMemoryAllocation;
    }
    *record = (struct record){ .event = made, .context = { .handle = context, .id = id } };
    *event = (gpu_event)((uintptr_t)record | 1);
    /* cppcheck-suppress memleak */
    return cudaSuccess;
}

/* NULL: it lives in a context of the runtime's. */
static struct record *record_of(gpu_event event)
{
    return (uintptr_t)event & 1 ? (struct record *)((uintptr_t)event - 1) : NULL;
}

/* CUDA's handle, or GPU_CONTEXT_DESTROYED. */
static int find_event(gpu_event event, cudaEvent_t *found)
{
    const struct record *record = record_of(event);
    *found = record ? record->event : event;
    return record && !cuda_context_is_alive(&record->context) ? GPU_CONTEXT_DESTROYED : GPU_SUCCESS;
}

/* Makes the call with CUDA's handle, `found`, and is the operation's code. */
#define ON_EVENT(event, call)                                                                                                              \
    ({                                                                                                                                     \
        cudaEvent_t found;                                                                                                                 \
        int answer_ = find_event((event), &found);                                                                                         \
        answer_ ? answer_ : cuda_done((int)(call));                                                                                        \
    })

static cudaError_t create(unsigned flags, gpu_event *event)
{
    cudaEvent_t made;
    cudaError_t code = cudaEventCreateWithFlags(&made, flags);
    return code == cudaSuccess ? name_event(made, event) : code;
}

int cuda_event_create(int device, gpu_event *event)
{
    gpu_event created;
    return CUDA_SET(CUDA_ON_DEVICE(device, create(cudaEventDisableTiming, &created)), event, created);
}

static cudaError_t create_shared(gpu_event *event, cudaIpcEventHandle_t *handle)
{
    cudaEvent_t made;
    cudaError_t code = cudaEventCreateWithFlags(&made, cudaEventInterprocess | cudaEventDisableTiming);
    if (code == cudaSuccess && (code = cudaIpcGetEventHandle(handle, made)) != cudaSuccess)
        (void)cudaEventDestroy(made);
    return code == cudaSuccess ? name_event(made, event) : code;
}

int cuda_event_create_shared(int device, gpu_event *event, struct gpu_shared_event *shared)
{
    gpu_event created = NULL;
    cudaIpcEventHandle_t handle = { 0 };
    int code = CUDA_ON_DEVICE(device, create_shared(&created, &handle));
    if (!code) {
        memcpy(shared->bytes, &handle, sizeof(handle));
        *event = created;
    }
    return code;
}

static cudaError_t open_shared(cudaIpcEventHandle_t handle, gpu_event *event)
{
    cudaEvent_t opened;
    cudaError_t code = cudaIpcOpenEventHandle(&opened, handle);
    return code == cudaSuccess ? name_event(opened, event) : code;
}

int cuda_event_open_shared(int device, const struct gpu_shared_event *shared, gpu_event *event)
{
    gpu_event opened;
    cudaIpcEventHandle_t handle;
    memcpy(&handle, shared->bytes, sizeof(handle));
    return CUDA_SET(CUDA_ON_DEVICE(device, open_shared(handle, &opened)), event, opened);
}

int cuda_event_destroy(gpu_event event)
{
    int code = ON_EVENT(event, cudaEventDestroy(found));
    free(record_of(event));
    return code;
}

int cuda_event_record(gpu_event event, gpu_stream stream)
{
    return ON_EVENT(event, cudaEventRecord(found, stream));
}

int cuda_event_record_device(gpu_event event, int device)
{
    const struct cuda_driver *driver = cuda_driver();
    void *context = NULL;
    cudaEvent_t found;
    int former;
    if (!driver || !driver->context_record)
        return GPU_NOT_SUPPORTED;
    int code = find_event(event, &found);
    if (!code)
        code = cuda_enter_device(device, &former);
    if (code)
        return code;
    code = driver->context_current(&context);
    if (!code)
        code = context ? driver->context_record(context, found) : cudaErrorDeviceUninitialized;
    cuda_leave_device(device, former);
    return cuda_done(code);
}

int cuda_event_query(gpu_event event)
{
    /* Some runtimes keep "not ready" as the last error, though it is the answer to the question. */
    return ON_EVENT(event, cudaEventQuery(found));
}

int cuda_event_synchronize(gpu_event event)
{
    return ON_EVENT(event, cudaEventSynchronize(found));
}

int cuda_stream_wait_event(gpu_stream stream, gpu_event event)
{
    return ON_EVENT(event, cudaStreamWaitEvent(stream, found, 0));
}
