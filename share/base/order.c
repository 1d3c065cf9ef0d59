/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/base/order.h"

#include "lib/pool/weir_internal.h"

static int put(enum share_order order, const struct gpu *gpu, gpu_stream stream, gpu_event event)
{
    switch (order) {
    case SHARE_ORDER_RECORD:
        return gpu->event_record(event, stream);
    case SHARE_ORDER_WAIT:
        return gpu->stream_wait_event(stream, event);
    case SHARE_ORDER_FINISH:
        return gpu->stream_synchronize(stream);
    default:
        return GPU_SUCCESS;
    }
}

weir_status share_order(enum share_order order, const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what,
                        weir_error *error)
{
    enum gpu_capture_status capture;
    enum gpu_capture_mode mode = order == SHARE_ORDER_FINISH ? weir__relaxed_begin(gpu) : 0;
    int former = weir__current_begin(gpu, device, stream); /* a fixed handle (legacy, per-thread) means the stream of the current device */
    int code = gpu->stream_capture_status(stream, &capture);
    bool captures = code == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE;
    if (code == GPU_SUCCESS && !captures)
        code = put(order, gpu, stream, event);
    weir__current_end(gpu, former);
    if (order == SHARE_ORDER_FINISH)
        weir__relaxed_end(gpu, mode);
    if (captures)
        return weir__fail(error, WEIR_CAPTURING, "%s: the stream is being captured: do it before the capture, or after", what);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, gpu, code, "%s", what);
}
