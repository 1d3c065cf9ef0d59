/* SPDX-License-Identifier: MIT */
/*
 * spare.h - CUDA streams that weir_stream_create() made and whose weir_stream is closed. They live until weir_close(), and the next
 * weir_stream_create() takes them first. So the raw handle of a closed stream is never that of a destroyed one, at which CUDA crashes, nor
 * that of a new stream of the program's own: a program may still free on it.
 *
 * Owned by their device, and guarded by w->config, under which CUDA may be called.
 */
#ifndef WEIR_LIB_SPARE_H
#define WEIR_LIB_SPARE_H

#include "lib/alloc/stream.h"

/* Takes the last that came, of those that live in the current context, do not capture, and were not opened by their raw handle meanwhile.
   false: there is none. */
bool weir__spare_take(struct weir__device *device, gpu_stream *handle);

/* Keeps a stream that is idle. false: no host memory; it stays the caller's. */
bool weir__spare_put(struct weir__device *device, gpu_stream handle, const struct gpu_context *context);

/* Waits for them, as the program may have freed on them, and destroys them. Call it in relaxed capture mode. */
void weir__spares_destroy(struct weir__device *device);

#endif
