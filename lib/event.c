/* SPDX-License-Identifier: MIT */
#include "lib/event.h"

#include "lib/weir_internal.h"

#define POLL_FIRST (UINT64_C(20) * 1000)     /* nanoseconds between polls of an event: from 20 µs, doubling */
#define POLL_LONGEST (UINT64_C(1000) * 1000) /* up to 1 ms */

void weir__event_destroy(const struct gpu *gpu, gpu_event event)
{
    int code = gpu->event_destroy(event);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
}

bool weir__event_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event)
{
    gpu_event made;
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int code = gpu->event_create(device, &made);
    if (code == GPU_SUCCESS) {
        int former = weir__current_begin(gpu, device, stream);
        code = gpu->event_record(made, stream);
        if (code == GPU_SUCCESS)
            code = gpu->stream_capture_status(stream, &capture);
        weir__current_end(gpu, former);
        if (code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE)
            weir__event_destroy(gpu, made);
    }
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    if (code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE)
        return false;
    *event = made;
    return true;
}

int weir__event_device(const struct gpu *gpu, int device, gpu_stream stream)
{
    bool is_fixed = (uintptr_t)stream <= (uintptr_t)GPU_STREAM_PER_THREAD;
    int code = is_fixed ? GPU_SUCCESS : gpu->stream_device(stream, &device);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return device;
}

bool weir__event_pause(const struct gpu *gpu, uint64_t *pause, uint64_t deadline)
{
    uint64_t now = gpu->now(), next = *pause ? *pause * 2 : POLL_FIRST;
    if (now >= deadline)
        return false;
    *pause = next < POLL_LONGEST ? next : POLL_LONGEST;
    gpu->pause(*pause < deadline - now ? *pause : deadline - now);
    return true;
}

enum weir__event_state weir__event_look(const struct gpu *gpu, gpu_event event)
{
    int code = gpu->event_query(event);
    if (code == GPU_SUCCESS)
        code = gpu->event_synchronize(event);
    if (code == GPU_SUCCESS)
        return WEIR__EVENT_COMPLETE;
    gpu->forget_error(code);
    return code == GPU_NOT_READY ? WEIR__EVENT_PENDING : WEIR__EVENT_BROKEN;
}

bool weir__event_wait(const struct gpu *gpu, gpu_event event, uint64_t deadline)
{
    uint64_t pause = 0;
    enum weir__event_state state;
    do
        state = weir__event_look(gpu, event);
    while (state == WEIR__EVENT_PENDING && weir__event_pause(gpu, &pause, deadline));
    return state == WEIR__EVENT_COMPLETE;
}
