/* SPDX-License-Identifier: MIT */
/* order.h - streams behind events, and events behind streams. Streams that capture are refused: WEIR_CAPTURING. No state. */
#ifndef WEIR_SHARE_ORDER_H
#define WEIR_SHARE_ORDER_H

#include "lib/gpu/gpu.h"
#include "include/weir.h"

enum share_order {
    SHARE_ORDER_CHECK,  /* nothing: whether the stream could be used */
    SHARE_ORDER_RECORD, /* the event behind what is on the stream */
    SHARE_ORDER_WAIT,   /* the stream behind the event */
    SHARE_ORDER_FINISH, /* this thread behind what is on the stream */
};

/* what: for the error. event: NULL where it is not needed. */
weir_status share_order(enum share_order order, const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what,
                        weir_error *error);

#endif
