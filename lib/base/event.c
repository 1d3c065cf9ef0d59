/* SPDX-License-Identifier: MIT */
#include "lib/base/event.h"

#include "lib/base/context.h"

#define POLL_FIRST (UINT64_C(20) * 1000)     /* nanoseconds before the second poll of an event: 20 µs, then twice as long each time */
#define POLL_LONGEST (UINT64_C(1000) * 1000) /* the longest pause between two polls, in nanoseconds: 1 ms */

int weir__event_record(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event)
{
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int former = weir__current_begin(gpu, device, stream), code = GPU_SUCCESS;
    /* The legacy stream never captures, but recording an event on it invalidates the capture of a blocking stream. Asking for its capture
       status is harmless, and fails with GPU_CAPTURE_IMPLICIT while such a capture runs: so ask before recording, not after. */
    bool is_legacy = !stream || stream == GPU_STREAM_LEGACY;
    if (is_legacy)
        code = gpu->stream_capture_status(stream, &capture);
    if (code == GPU_SUCCESS)
        code = gpu->event_record(event, stream);
    if (code == GPU_SUCCESS && !is_legacy)
        code = gpu->stream_capture_status(stream, &capture);
    weir__current_end(gpu, former);
    return capture == GPU_CAPTURE_STATUS_NONE ? code : GPU_CAPTURE_UNSUPPORTED;
}

void weir__event_destroy(const struct gpu *gpu, gpu_event event)
{
    int code = gpu->event_destroy(event);
    if (code != GPU_SUCCESS && code != GPU_CONTEXT_DESTROYED)
        gpu->event_destroy(event);
}

bool weir__event_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event)
{
    *event = NULL;
    if (gpu->event_create(device, event) != GPU_SUCCESS)
        return false;
    if (weir__event_record(gpu, device, stream, *event) == GPU_SUCCESS)
        return true;
    weir__event_destroy(gpu, *event);
    *event = NULL;
    return false;
}

int weir__event_device(const struct gpu *gpu, int device, gpu_stream stream)
{
    if (!weir__handle_is_fixed(stream))
        gpu->stream_device(stream, &device);
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

int weir__event_ask(const struct gpu *gpu, gpu_event event)
{
    int code = gpu->event_query(event);
    return code == GPU_SUCCESS ? gpu->event_synchronize(event) : code;
}

enum weir__event_state weir__event_state_of(int code)
{
    if (code == GPU_SUCCESS || code == GPU_CONTEXT_DESTROYED)
        return WEIR__EVENT_COMPLETE;
    return code == GPU_NOT_READY ? WEIR__EVENT_PENDING : WEIR__EVENT_BROKEN;
}

enum weir__event_state weir__event_look(const struct gpu *gpu, gpu_event event)
{
    return weir__event_state_of(weir__event_ask(gpu, event));
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
