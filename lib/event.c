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

bool weir__event_wait(const struct gpu *gpu, gpu_event event, uint64_t deadline)
{
    uint64_t pause = POLL_FIRST;
    int code;
    while ((code = gpu->event_query(event)) == GPU_NOT_READY) {
        gpu->forget_error(code);
        uint64_t now = gpu->now();
        if (now >= deadline)
            return false;
        gpu->pause(pause < deadline - now ? pause : deadline - now);
        pause = pause * 2 < POLL_LONGEST ? pause * 2 : POLL_LONGEST;
    }
    if (code == GPU_SUCCESS)
        code = gpu->event_synchronize(event);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code == GPU_SUCCESS;
}
