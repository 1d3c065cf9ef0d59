/* SPDX-License-Identifier: MIT */
/*
 * cuda_event.c - events. An event in a context that the program has destroyed must not be used any more.
 *
 * An event lives in the context that was current when the event was made. Mostly that is the device's primary context, which the runtime
 * keeps. But a program may have contexts of its own and may destroy them at any time; then the driver crashes on some calls with the
 * context's events, on some machines on all of them (measured). So the handle of an event in such a context points to a record, which knows
 * the context. The lowest bit of the handle is set if it points to a record; it is clear in CUDA's own handles. Before driver 12.0 contexts
 * have no ids, and there are no records.
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

/* Ids of the devices' primary contexts, by the driver's number of the device; 0: not known yet. */
static _Atomic unsigned long long kept[DEVICES_MAX];

/* Returns whether the current context, with this id, is the primary context of its device. Does not create that primary context. */
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

/* Makes the handle of an event that was just made in the current context. If that fails, destroys the event. */
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

/* Returns the record of an event, or NULL if the event lives in a primary context. */
static struct record *record_of(gpu_event event)
{
    return (uintptr_t)event & 1 ? (struct record *)((uintptr_t)event - 1) : NULL;
}

/* Sets *found to CUDA's handle of the event. Returns GPU_CONTEXT_DESTROYED if the event's context was destroyed. */
static int find_event(gpu_event event, cudaEvent_t *found)
{
    const struct record *record = record_of(event);
    *found = record ? record->event : event;
    return record && !cuda_context_is_alive(&record->context) ? GPU_CONTEXT_DESTROYED : GPU_SUCCESS;
}

/* Makes the call, in which `found` is CUDA's handle of the event, and returns the operation's code. */
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
    if (code == GPU_SUCCESS || code == GPU_CONTEXT_DESTROYED)
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
    /* Some runtimes record "not ready" as the thread's last error, so the call goes through cuda_done() too. */
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
