/* SPDX-License-Identifier: MIT */
/*
 * flush.h - giving cached blocks back to CUDA, in the order of the stream whose cache they were in.
 *
 * Orphans are cached blocks whose stream cannot take their free: it captured when it was closed, or it was destroyed while it was open and
 * its handle has become another stream. They are kept in device->orphans until nothing on the device captures: then the device is
 * synchronised and they are freed.
 */
#ifndef WEIR_LIB_FLUSH_H
#define WEIR_LIB_FLUSH_H

#include "lib/stream.h"

/* Gives back what had to make room in the stream's cache, a list by `next`, and unpins the stream. In the caller's capture mode: it stands for the caller's own free. */
void weir__flush_victims(weir_stream *stream, struct weir__entry *victims);

/* Gives back what a pinned stream's cache holds with a stamp below `before` (UINT64_MAX: all). Returns the bytes. Call it in relaxed capture
   mode. */
uint64_t weir__flush_stream(weir_stream *stream, uint64_t before);

/* Gives back all that the caches of the device's streams hold (pool: only those of that pool's streams), and the orphans. settled: waits up to
   a millisecond for each stream that gave something, so that CUDA sees the frees if the stream has nothing else to do; never for one that
   captures. Returns the bytes. */
uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool settled);

/* Empties the cache of a stream that is closed and no longer pinned. Call it in relaxed capture mode. */
void weir__flush_closed(weir_stream *stream);

/* Bytes of the pool's blocks among the device's orphans. */
uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool);

#endif
