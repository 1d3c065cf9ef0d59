/* SPDX-License-Identifier: MIT */
/*
 * stream.h - an opened stream: a CUDA stream that Weir was told of and may therefore touch until it is closed.
 *
 * Owned by the application, from open to close. Listed in its device under device->lock. The members below `next` are fixed after open;
 * `pins` is guarded by device->lock: whoever works on a stream found in the list (recovery) pins it, and close waits for the pins.
 */
#ifndef WEIR_LIB_STREAM_H
#define WEIR_LIB_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/weir_internal.h"

struct weir_stream {
    weir_stream *next; /* device->streams; guarded by device->lock */
    _Atomic unsigned pins;
    weir *w;
    struct weir__device *device;
    gpu_stream handle;
    uint64_t id; /* with device->has_stream_ids */
    bool is_own; /* made by weir_stream_create() */
    weir_pool *pool;
    _Atomic uint64_t freed; /* bytes freed here since recovery last saw the stream idle: the order in which it waits */
};

/*
 * The pool that serves a raw stream handle: that of the opened stream with its id, else the default pool of the device. Held for the
 * caller, who must weir__pool_release() it. NULL: no such pool on this device. Takes device->lock only where an opened stream with this
 * handle may have a pool of its own.
 */
weir_pool *weir__stream_route(struct weir__device *device, gpu_stream stream);

/* Pins up to `max` streams of the device, those that freed most if there are more, and writes them to `streams`. Returns how many. */
size_t weir__streams_pin(struct weir__device *device, weir_stream **streams, size_t max);
/* Pins the opened stream with the id of this handle; NULL if there is none. */
weir_stream *weir__stream_pin(struct weir__device *device, gpu_stream handle);
void weir__stream_unpin(weir_stream *stream);
/* So many freed bytes of the stream, if it is still open, were seen complete. */
void weir__stream_settle(struct weir__device *device, const weir_stream *stream, uint64_t bytes);

#endif
