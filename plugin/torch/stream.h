/* SPDX-License-Identifier: MIT */
/*
 * stream.h - a record of each stream that torch has named, and whether the stream lives for ever.
 *
 * There is one record for each handle (for each device too, if the handle is a fixed one such as the default stream). It is made when the
 * handle is first named, never freed, and found without a lock. A stream that lives for ever, as the default streams and those of torch's
 * stream pools do, is opened in Weir and has a cache. Any other stream is known to be alive only during an allocation that names it: CUDA
 * crashes if a destroyed stream is used, and it gives the handle of a destroyed stream to a new one.
 */
#ifndef WEIR_TORCH_STREAM_H
#define WEIR_TORCH_STREAM_H

#include "plugin/torch/device.h"

struct torch_stream {
    struct torch_stream *next; /* in the table; fixed */
    gpu_stream handle;         /* NULL: the default stream of `device` */
    _Atomic int device;        /* fixed for a fixed handle; else the device of the stream's last allocation, -1 before the first one */
    atomic_bool lives;           /* the stream lives for ever */
    atomic_bool is_asked;        /* the function of weir_torch_set_stream_fn() was asked, or need not be asked, whether the stream lives */
    weir_stream *_Atomic opened; /* the weir_stream of a stream that lives for ever; NULL until it could be opened */
    struct weir__line *_Atomic line; /* if the stream lives for ever, but could not be opened when its line was needed: its line */
};

/* Returns the record of the handle, and makes it if there is none. Returns NULL if host memory runs out. */
struct torch_stream *torch_stream_get(int device, gpu_stream handle);

/* The same for a stream that allocates: the first call asks the function of weir_torch_set_stream_fn() whether the stream lives for
   ever. */
struct torch_stream *torch_stream_name(struct torch_device *device, gpu_stream handle);

/* Returns the weir_stream of a stream that lives for ever, and opens it if it is not open. Returns NULL if it does not live for ever or
   cannot be opened now. */
weir_stream *torch_stream_open(struct torch_stream *stream, struct torch_device *device);

/* Returns the weir_stream if the stream is open on that device, else NULL. */
weir_stream *torch_stream_opened(struct torch_stream *stream, const struct torch_device *device);

/* Returns the line (lib/fence/fence.h) of a stream that lives for ever; the caller does not put it. Returns NULL if the stream may be
   destroyed, or if host memory runs out. */
struct weir__line *torch_stream_line(struct torch_stream *stream, struct torch_device *device);

#endif
