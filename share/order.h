/* SPDX-License-Identifier: MIT */
/* order.h - putting a stream behind an event, and an event behind a stream, on streams that the user names. Neither waits on the host. */
#ifndef WEIR_SHARE_ORDER_H
#define WEIR_SHARE_ORDER_H

#include "lib/gpu/gpu.h"
#include "lib/weir.h"

/* WEIR_CAPTURING if the stream captures. */
weir_status share_order_check(const struct gpu *gpu, int device, gpu_stream stream, const char *what, weir_error *error);

/* Both refuse a stream that captures with WEIR_CAPTURING, and leave the capture alone. what: for the error, "publishing 'frames'". */
weir_status share_order_record(const struct gpu *gpu, int device, gpu_event event, gpu_stream stream, const char *what, weir_error *error);
weir_status share_order_wait(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what, weir_error *error);

#endif
