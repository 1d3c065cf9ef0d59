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

/* Gives back what a stream that the caller has pinned or entered has in its cache: large blocks (recent.h), and those of the classes from one
   to before another. Returns the bytes. In any capture mode. */
uint64_t weir__flush_part(weir_stream *stream, unsigned from, unsigned to);

/* Gives back the large blocks of streams, the newest first, until that makes so many bytes. Returns the bytes. In any capture mode. */
enum weir__givers {
    WEIR__OF_POOL,    /* those of `pool` */
    WEIR__OF_DEVICE,  /* of each pool of the device */
    WEIR__OF_PROCESS, /* those on the device that any weir of the process has open, too */
};
uint64_t weir__caches_give(enum weir__givers givers, struct weir__device *device, const weir_pool *pool, uint64_t bytes);

/* Gives back all that the caches of the device's streams hold (pool: only those of that pool's streams), but begins with no stream after
   `deadline`, by gpu->now(). seen: waits up to a millisecond for the streams that gave something, all together, and no longer than to
   the deadline, so that CUDA sees the frees of those that have nothing else to do. Returns the bytes. Call it in relaxed capture mode. */
uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool seen, uint64_t deadline);

/* Waits until `deadline`, by gpu->now(), for what this weir freed on the device's memory and an event tells of: on opened streams all of it.
   wants_legacy: with an event behind the legacy stream where something was freed there, which may hold up blocking streams: only in calls of
   the program's own. Whether all of it is complete. */
bool weir__wait_for_frees(struct weir__device *device, uint64_t deadline, bool wants_legacy);

/* Bytes that a flush of the pool's caches leaves there, as their streams capture. In any capture mode. */
uint64_t weir__flush_barred(const weir_pool *pool);

/* Frees each entry of the list on the stream with that handle. opened: that stream, if it is an opened one, or NULL. Each free is counted on
   `line`; NULL: the caller counts them. A block whose free CUDA refuses becomes an orphan. Returns the bytes that were freed. */
uint64_t weir__flush_list(struct weir__device *device, gpu_stream handle, const weir_stream *opened, struct weir__line *line,
                          struct weir__entry *entries);

/* Makes orphans of the blocks in the cache of a stream that may not be used any more, and whose cache is shut. They wait for its line. */
void weir__flush_abandoned(weir_stream *stream);

#endif
