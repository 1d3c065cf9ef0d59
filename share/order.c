/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/order.h"

#include "lib/weir_internal.h"

typedef int order_fn(const struct gpu *gpu, gpu_stream stream, gpu_event event);

static int record(const struct gpu *gpu, gpu_stream stream, gpu_event event)
{
    return gpu->event_record(event, stream);
}

static int wait(const struct gpu *gpu, gpu_stream stream, gpu_event event)
{
    return gpu->stream_wait_event(stream, event);
}

/* A fixed handle means the stream of the current device. */
static weir_status on_stream(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, order_fn *order, const char *what,
                             weir_error *error)
{
    enum gpu_capture_status capture;
    int former = weir__current_begin(gpu, device, stream);
    int code = gpu->stream_capture_status(stream, &capture);
    bool captures = code == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE;
    if (code == GPU_SUCCESS && !captures)
        code = order(gpu, stream, event);
    weir__current_end(gpu, former);
    if (captures)
        return weir__fail(error, WEIR_CAPTURING, "%s: the stream is being captured: do it before the capture, or after", what);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return weir__fail_gpu(error, gpu, code, "%s", what);
    }
    return WEIR_OK;
}

static int nothing(const struct gpu *gpu, gpu_stream stream, gpu_event event)
{
    (void)gpu, (void)stream, (void)event;
    return GPU_SUCCESS;
}

static int finish(const struct gpu *gpu, gpu_stream stream, gpu_event event)
{
    (void)event;
    return gpu->stream_synchronize(stream);
}

weir_status share_order_check(const struct gpu *gpu, int device, gpu_stream stream, const char *what, weir_error *error)
{
    return on_stream(gpu, device, stream, NULL, nothing, what, error);
}

weir_status share_order_record(const struct gpu *gpu, int device, gpu_event event, gpu_stream stream, const char *what, weir_error *error)
{
    return on_stream(gpu, device, stream, event, record, what, error);
}

weir_status share_order_wait(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what, weir_error *error)
{
    return on_stream(gpu, device, stream, event, wait, what, error);
}

weir_status share_order_finish(const struct gpu *gpu, int device, gpu_stream stream, const char *what, weir_error *error)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir_status status = on_stream(gpu, device, stream, NULL, finish, what, error);
    weir__relaxed_end(gpu, mode);
    return status;
}
