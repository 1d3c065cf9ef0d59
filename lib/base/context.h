/* SPDX-License-Identifier: MIT */
/*
 * context.h - the two parts of the calling thread's CUDA state that Weir changes during a call and restores afterwards: the capture mode
 * and the current device.
 */
#ifndef WEIR_LIB_CONTEXT_H
#define WEIR_LIB_CONTEXT_H

#include "lib/gpu/gpu.h"

/* Sets the thread's capture mode to relaxed and returns the former mode, for weir__relaxed_end(). Each call of CUDA that the application
   did not ask for runs in relaxed mode, since in other modes it could invalidate a capture of the application. */
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

/* Returns whether the handle is a fixed one (0, legacy or per-thread). A fixed handle means another stream on each device; any other handle
   means one stream of the process. */
static inline bool weir__handle_is_fixed(gpu_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)GPU_STREAM_PER_THREAD;
}

/* If the stream handle is a fixed one, makes `device` the thread's current device, so that calls on the handle reach the stream of that
   device. Pass the result to weir__current_end(), which restores the former device: -1 means that there is nothing to restore. */
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

/* Sets *id to the driver's id of the stream, which no other stream of the process ever gets (drivers with GPU_FEATURE_STREAM_ID only).
   Returns the GPU code, or GPU_CAPTURE_UNSUPPORTED, without asking for the id, if the stream captures: the question would invalidate the
   capture. */
static inline int weir__stream_identify(const struct gpu *gpu, gpu_stream stream, uint64_t *id)
{
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int code = gpu->stream_capture_status(stream, &capture);
    if (capture != GPU_CAPTURE_STATUS_NONE)
        return GPU_CAPTURE_UNSUPPORTED;
    return code == GPU_SUCCESS ? gpu->stream_id(stream, id) : code;
}

/* weir__current_end() as a clean-up (attribute `cleanup`), for functions during which a callback of the program may throw an exception. */
struct weir__current {
    const struct gpu *gpu;
    int former;
};

static inline void weir__current_restore(struct weir__current *current)
{
    weir__current_end(current->gpu, current->former);
}

#endif
