/* SPDX-License-Identifier: MIT */
/* order.h - puts a stream behind an event, or an event behind the work of a stream. A stream that is being captured is refused with
   WEIR_CAPTURING. No state. */
#ifndef WEIR_SHARE_ORDER_H
#define WEIR_SHARE_ORDER_H

#include "lib/gpu/gpu.h"
#include "include/weir.h"

enum share_order {
    SHARE_ORDER_CHECK,  /* does nothing to the stream, and only checks that the stream can be used */
    SHARE_ORDER_RECORD, /* records the event behind the work that is on the stream */
    SHARE_ORDER_WAIT,   /* makes the stream wait for the event */
    SHARE_ORDER_FINISH, /* makes this thread wait for the work that is on the stream */
};

/* Does what `order` says, on `device`. `event` may be NULL for CHECK and FINISH. `what` names the operation in the error text. */
weir_status share_order(enum share_order order, const struct gpu *gpu, int device, gpu_stream stream, gpu_event event, const char *what,
                        weir_error *error);

#endif
