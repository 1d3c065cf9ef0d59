/* SPDX-License-Identifier: MIT */
/*
 * stream.h - the streams that torch has named: which of them live for ever, and what waits for the others to be named again.
 *
 * A record for each handle (and device, where the handle is a fixed one), made when it is first named, and kept for ever; found without a
 * lock. A stream that lives for ever, as those of torch's pools and the default streams do, is opened in Weir and has a cache. Of any other
 * nothing is known but at an allocation that names it: CUDA crashes where a stream is touched that was destroyed, and it hands out the same
 * handle again.
 */
#ifndef WEIR_TORCH_STREAM_H
#define WEIR_TORCH_STREAM_H

#include "plugin/torch/device.h"

struct torch_stream {
    struct torch_stream *next; /* in the table; fixed */
    gpu_stream handle;         /* NULL: the default stream of `device` */
    _Atomic int device;        /* fixed for a fixed handle; else that of its last allocation, -1 before */
    atomic_bool lives;
    atomic_bool is_asked;        /* the function that tells has been called for it */
    weir_stream *_Atomic opened; /* of a living one, once it allocated outside of a capture */
    weir__spin lock;             /* a leaf */
    struct torch_note *waiting;  /* blocks that were freed, until the stream is named again; guarded by lock */
};

/* The record of a handle, made now if it is a new one. NULL: no host memory. */
struct torch_stream *torch_stream_get(int device, gpu_stream handle);

/* As above, for a stream that allocates: whoever set a function for that is asked whether it lives. */
struct torch_stream *torch_stream_name(struct torch_device *device, gpu_stream handle);

/* The weir_stream of a living one, opened now if it is not; NULL: it cannot be now, or does not live. */
weir_stream *torch_stream_open(struct torch_stream *stream, struct torch_device *device);

/* The same if it is open on that device. */
weir_stream *torch_stream_opened(struct torch_stream *stream, const struct torch_device *device);

/* Every record, one after the other; NULL before the first, and at the end. */
struct torch_stream *torch_stream_next(struct torch_stream *after);

#endif
