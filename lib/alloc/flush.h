/* SPDX-License-Identifier: MIT */
/*
 * flush.h - giving cached blocks back to CUDA, in the order of the stream whose cache they were in.
 * A block that its stream cannot take becomes an orphan (orphans.h).
 */
#ifndef WEIR_LIB_FLUSH_H
#define WEIR_LIB_FLUSH_H

#include "lib/alloc/stream.h"

/* Called around taking blocks out of a cache and giving them back: before a request is refused, it waits for blocks that other threads are
   giving back. any: some block went back. */
void weir__flush_begin(struct weir__device *device);
void weir__flush_end(struct weir__device *device, bool any);

/* Gives back the blocks that had to make room in the stream's cache (a list by `next`), ends the flush that began when they were taken, and
   leaves the stream. In the caller's capture mode, as it stands for the caller's own free. */
void weir__flush_victims(weir_stream *stream, struct weir__entry *victims);

/* Gives back blocks that were taken out of the cache of a stream that is pinned, or entered: a list by `next`. Returns the bytes. */
uint64_t weir__flush_taken(weir_stream *stream, struct weir__entry *entries);

/* Gives back what a pinned stream's cache holds with a stamp below `before` (UINT64_MAX: all). Returns the bytes. Call it in relaxed
   capture mode. */
uint64_t weir__flush_stream(weir_stream *stream, uint64_t before);

/* Gives back blocks of the cache of the caller's own stream: the recent ones, and those of the classes `from` to before `to`. Returns
   whether there were any. In any capture mode. */
bool weir__flush_own(weir_stream *stream, unsigned from, unsigned to);

/* Gives back the recent blocks of an arena (recent.h): those of a stream that the caller has pinned or entered, or of all streams of the
   device (pool: only those of that pool's). Return whether there were any. In any capture mode. */
bool weir__flush_recent(weir_stream *stream);
bool weir__flush_recent_of(struct weir__device *device, const weir_pool *pool);
/* Those of all streams of the device that this or any other weir of the process has open. */
void weir__flush_recent_everywhere(struct weir__device *device);

/* Gives back all that the caches of the device's streams hold (pool: only those of that pool's streams), but begins with no stream after
   `deadline`, by gpu->now(). seen: waits up to a millisecond for the streams that gave something, all together, and no longer than to
   the deadline, so that CUDA sees the frees of those that have nothing else to do. Returns the bytes. Call it in relaxed capture mode. */
uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool seen, uint64_t deadline);

/* Bytes that a flush of the pool's caches leaves there, as their streams capture. In any capture mode. */
uint64_t weir__flush_barred(const weir_pool *pool);

/* Frees each entry of the list on the stream with that handle. opened: that stream, if it is an opened one, or NULL. A block whose free
   CUDA refuses becomes an orphan. Returns the bytes that were freed. */
uint64_t weir__flush_list(struct weir__device *device, gpu_stream handle, const weir_stream *opened, struct weir__entry *entries);

/* Makes orphans of the blocks in the cache of a stream that may not be used any more. */
void weir__flush_abandoned(weir_stream *stream, enum weir__reach reach);

#endif
