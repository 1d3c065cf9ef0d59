/* SPDX-License-Identifier: MIT */
/* order.h - putting a stream behind an event, and an event behind a stream, on streams that the user names. */
#ifndef WEIR_SHARE_ORDER_H
#define WEIR_SHARE_ORDER_H

#include "lib/gpu/gpu.h"
#include "lib/weir.h"

/* WEIR_CAPTURING if the stream captures. */
weir_status share_order_check(const struct gpu *gpu, int device, gpu_stream stream, const char *what, weir_error *error);

/* All refuse a stream that captures with WEIR_CAPTURING, and leave the capture alone. what: for the error, "publishing 'frames'". The first
   two do not wait on the host; the third does so until the stream has come to this point. */
weir_status share_order_record(const struct gpu *gpu, int device, gpu_event event, gpu_stream stream, const char *what, weir_error *error);
weir_status share_order_wait(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what, weir_error *error);
weir_status share_order_finish(const struct gpu *gpu, int device, gpu_stream stream, const char *what, weir_error *error);

#endif
