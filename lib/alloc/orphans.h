/* SPDX-License-Identifier: MIT */
/*
 * orphans.h - freed blocks that no stream can give back: the stream that they were freed on is gone, or nobody knows which streams use
 * them.
 *
 * An orphan is parked (fence.h): its points are on the lines on which it may still be in use. Those of whole devices get an event when
 * somebody next looks for memory and nothing captures (quiet.h); from then on looking is a question that waits for nothing. Where the driver
 * has no such events (before 12.5) the devices are synchronised instead, and only by calls that may wait without bound. Once all of its
 * points are reached the orphan is freed on a stream made for that.
 *
 * Owned by its device, which is the group that the fences know it by.
 */
#ifndef WEIR_LIB_ORPHANS_H
#define WEIR_LIB_ORPHANS_H

#include "lib/alloc/stream.h"

void weir__orphans_init(struct weir__device *device);
/* The device goes, and what is still there stays with its pool. */
void weir__orphans_destroy(struct weir__device *device);

/* Makes an orphan of a claimed entry. lines: those on which the block may be in use, as for weir__park(); NULL: any of any device. false: no
   host memory, twice in a row. */
bool weir__orphans_add(struct weir__device *device, struct weir__entry *entry, struct weir__line *const *lines, size_t count);
/* The same for a list of such entries; takes the room. */
void weir__orphans_park(struct weir__device *device, struct weir__parked *room, struct weir__entry *entries,
                        struct weir__line *const *lines, size_t count);

/* Bytes of the pool's blocks among the device's orphans; pool NULL: of those that wait for streams, and not for all work of devices alone. */
uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool);

/* Gives those back whose work is done by `deadline`, by gpu->now(); looks once at least. With WEIR__NO_DEADLINE it waits for all of them,
   as far as nothing captures, and may synchronise devices. Returns the bytes. Call it in relaxed capture mode. */
#define WEIR__NO_DEADLINE UINT64_MAX
uint64_t weir__orphans_free(struct weir__device *device, uint64_t deadline);

/* Looks once. *left: whether an event will tell of more, or will once the captures of other threads are over. */
uint64_t weir__orphans_look(struct weir__device *device, bool *left);
/* The same within a visit of quiet.h. */
uint64_t weir__orphans_visit(struct weir__device *device);

/* Within a call on a stream that does not capture: gives those whose work is done to that stream. opened: if it is open for the call. */
void weir__orphans_give(struct weir__device *device, gpu_stream stream, const weir_stream *opened);

/* The same for those that wait for streams: the stream of that line waits for them on the GPU, until it has so many bytes. Returns the bytes.
   Call it in relaxed capture mode. */
uint64_t weir__orphans_order(struct weir__device *device, gpu_stream stream, const weir_stream *opened, struct weir__line *line, uint64_t bytes);

/* Sees to what was freed on streams that nobody can name any more: orphans, and memory of arenas. may_synchronise: devices that have no
   events of their own. Call it in relaxed capture mode. */
void weir__orphans_cover(struct weir__device *device, bool may_synchronise);

#endif
