/* SPDX-License-Identifier: MIT */
/*
 * context.h - what Weir changes of the calling thread's CUDA state for the time of a call, and puts back: its capture mode and its current
 * device.
 */
#ifndef WEIR_LIB_CONTEXT_H
#define WEIR_LIB_CONTEXT_H

#include "lib/gpu/gpu.h"

/* Everything that CUDA is asked without the application having asked runs in relaxed mode, so that no capture is disturbed. */
static inline enum gpu_capture_mode weir__relaxed_begin(const struct gpu *gpu)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    return gpu->exchange_capture_mode(&mode) == GPU_SUCCESS ? mode : GPU_CAPTURE_MODE_RELAXED;
}

static inline void weir__relaxed_end(const struct gpu *gpu, enum gpu_capture_mode former)
{
    if (former != GPU_CAPTURE_MODE_RELAXED)
        gpu->exchange_capture_mode(&former);
}

/* A fixed handle means another stream on each device; any other is one stream of the process. */
static inline bool weir__handle_is_fixed(gpu_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)GPU_STREAM_PER_THREAD;
}

/* Makes `device` current for calls on a fixed stream handle; the result goes to weir__current_end(). */
static inline int weir__current_begin(const struct gpu *gpu, int device, gpu_stream stream)
{
    int current;
    if (!weir__handle_is_fixed(stream) || gpu->get_current_device(&current) != GPU_SUCCESS || current == device)
        return -1;
    return gpu->set_current_device(device) == GPU_SUCCESS ? current : -1;
}

static inline void weir__current_end(const struct gpu *gpu, int former)
{
    if (former >= 0)
        gpu->set_current_device(former);
}

/* An id that no other stream of the process ever has, where the driver has such ids (GPU_FEATURE_STREAM_ID). Returns the waist's code,
   GPU_CAPTURE_UNSUPPORTED where the stream captures, as it must not be asked then. */
static inline int weir__stream_identify(const struct gpu *gpu, gpu_stream stream, uint64_t *id)
{
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int code = gpu->stream_capture_status(stream, &capture);
    if (capture != GPU_CAPTURE_STATUS_NONE)
        return GPU_CAPTURE_UNSUPPORTED;
    return code == GPU_SUCCESS ? gpu->stream_id(stream, id) : code;
}

/* The same as a clean-up, for where a callback may run meanwhile. */
struct weir__current {
    const struct gpu *gpu;
    int former;
};

static inline void weir__current_restore(struct weir__current *current)
{
    weir__current_end(current->gpu, current->former);
}

#endif
