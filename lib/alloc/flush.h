/* SPDX-License-Identifier: MIT */
/*
 * flush.h - gives cached blocks back to CUDA or to their arena. Each block is freed on the stream in whose cache it was; if that free
 * fails, the block becomes an orphan (orphans.h). Words of stream.h: a stream is *pinned* or *entered* when its close waits for the caller.
 */
#ifndef WEIR_LIB_FLUSH_H
#define WEIR_LIB_FLUSH_H

#include "lib/alloc/stream.h"

/* Call these two before a thread takes blocks out of a cache and after it has given them back: a request waits for such threads before it
   is refused. any: at least one block was given back. */
void weir__flush_begin(struct weir__device *device);
void weir__flush_end(struct weir__device *device, bool any);

/* Gives back the list `victims` (linked by `next`): blocks that were taken out of the stream's cache to make room for another. Then ends
   the flush that began when they were taken, and leaves the stream, which the caller has entered. The call stays in the program's capture
   mode (unless the policy says `capture: relaxed`), since it takes place within a free of the program. */
void weir__flush_victims(weir_stream *stream, struct weir__entry *victims);

/* Gives back a list of blocks (linked by `next`) that were taken out of the cache of a stream that the caller has pinned or entered.
   Returns the bytes given back. */
uint64_t weir__flush_taken(weir_stream *stream, struct weir__entry *entries);

/* Gives back the blocks in a pinned stream's cache whose stamp is below `before` (UINT64_MAX: all blocks). Returns the bytes given back.
   Call it in relaxed capture mode. */
uint64_t weir__flush_stream(weir_stream *stream, uint64_t before);

/* Gives back blocks in the cache of a stream that the caller has pinned or entered: all large blocks (recent.h), and the blocks of the size
   classes from <= class < to. Returns the bytes given back. May be called in any capture mode. */
uint64_t weir__flush_part(weir_stream *stream, unsigned from, unsigned to);

/* Gives back the large blocks in the caches of streams, beginning with the stream opened last, until `bytes` bytes are given back. Returns
   the bytes given back. May be called in any capture mode. */
enum weir__givers {
    WEIR__OF_POOL,    /* the streams of `pool` */
    WEIR__OF_DEVICE,  /* the streams of all pools of the device */
    WEIR__OF_PROCESS, /* the same, and the streams that other weirs of the process have open on this device */
};
uint64_t weir__caches_give(enum weir__givers givers, struct weir__device *device, const weir_pool *pool, uint64_t bytes);

/* Gives back all blocks in the caches of the device's streams (pool: of this pool's streams only; NULL: of all). Once `deadline` (by
   gpu->now()) has passed, the function empties no further cache. seen: puts a mark behind the frees and waits for the marks, for a
   millisecond in all and not beyond the deadline, so that the frees on idle streams become complete. Returns the bytes given back. Call it
   in relaxed capture mode. */
uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool seen, uint64_t deadline);

/* Waits until `deadline` (by gpu->now()) for the frees of this weir's memory on the device: for all frees on opened streams, and for those
   frees on other streams that a mark covers. wants_legacy: also records an event on the legacy stream. Such an event may delay blocking
   streams, so only calls that the program itself makes for this purpose may set it. Returns true if all these marks are complete. */
bool weir__wait_for_frees(struct weir__device *device, uint64_t deadline, bool wants_legacy);

/* Returns the bytes of cached blocks of the pool that a flush would not give back, because their streams capture. May be called in any
   capture mode. */
uint64_t weir__flush_barred(const weir_pool *pool);

/* Frees each entry of the list (linked by `next`) on the stream with that handle. opened: the weir_stream, if the stream is opened, or
   NULL. Each free is counted on `line`; NULL: the caller counts the frees. A block whose free CUDA refuses becomes an orphan. Returns the
   bytes freed. */
uint64_t weir__flush_list(struct weir__device *device, gpu_stream handle, const weir_stream *opened, struct weir__line *line,
                          struct weir__entry *entries);

/* Makes orphans of the blocks in the cache of a stream that must not be used any more, and whose cache is shut. The orphans wait for the
   stream's line. */
void weir__flush_abandoned(weir_stream *stream);

#endif
