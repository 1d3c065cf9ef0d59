/* SPDX-License-Identifier: MIT */
/*
 * flush.h - giving cached blocks back to CUDA, in the order of the stream whose cache they were in.
 *
 * Orphans are cached blocks whose stream cannot take their free. Its work is done only when the device as a whole has been synchronised,
 * which destroys captures; so they are kept until a flush finds that nothing on the device captures, as far as can be known. Of a stream
 * that was destroyed while it was open, which shows when another one of its handle is opened, that is all. One that captured when it was
 * closed may go on capturing, and must not be asked any more: its blocks wait for weir_close(), which no capture may outlast. Blocks of which
 * a host knows no stream (attach.h) are orphans too.
 */
#ifndef WEIR_LIB_FLUSH_H
#define WEIR_LIB_FLUSH_H

#include "lib/stream.h"

/* Gives back what had to make room in the stream's cache, a list by `next`, and leaves the stream. In the caller's capture mode: it stands
   for the caller's own free. */
void weir__flush_victims(weir_stream *stream, struct weir__entry *victims);

/* Gives back blocks that were taken out of the cache of a stream that is pinned, or entered: a list by `next`. Returns the bytes. */
uint64_t weir__flush_taken(weir_stream *stream, struct weir__entry *entries);

/* Gives back what a pinned stream's cache holds with a stamp below `before` (UINT64_MAX: all). Returns the bytes. Call it in relaxed capture
   mode. */
uint64_t weir__flush_stream(weir_stream *stream, uint64_t before);

/* Gives back all that the caches of the device's streams hold (pool: only those of that pool's streams). settled: waits up to a millisecond
   for each stream that gave something, so that CUDA sees the frees if the stream has nothing else to do; never for one that captures.
   In relaxed capture mode. Returns the bytes. */
uint64_t weir__flush_caches(struct weir__device *device, const weir_pool *pool, bool settled);

/* The same and the orphans, in any capture mode. */
uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool settled);

/* Empties the cache of a stream that is closed and no longer pinned. Call it in relaxed capture mode. */
void weir__flush_closed(weir_stream *stream);

/* Makes an orphan of a block that was taken out of the table, and that no user has. false: no host memory. */
bool weir__orphans_add(struct weir__device *device, const struct weir__block *block);

/* weir_close() has begun: nothing captures any more, so the next flush can free all orphans. */
void weir__orphans_release(struct weir__device *device);

/* Bytes of the pool's blocks among the device's orphans. */
uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool);

#endif
