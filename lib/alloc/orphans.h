/* SPDX-License-Identifier: MIT */
/*
 * orphans.h - an orphan is a freed block that no single stream can give back to CUDA: the stream on which the program freed the block is
 * destroyed, several streams use the block, or Weir does not know which streams do.
 *
 * An orphan is parked (fence.h): it has a point on each line on which the block may still be in use. A line of a whole device gets its
 * event when a thread next looks for memory while no stream captures (quiet.h); after that a look only queries the event. Drivers before
 * 12.5 have no such events. On these drivers Weir synchronises the device instead, but only in calls that may wait without bound. Once all
 * points of an orphan are reached, Weir frees the orphan on a stream that it creates for that purpose, or on the stream of a request.
 *
 * The device owns its orphans, and is the group (fence.h) under which they are parked.
 */
#ifndef WEIR_LIB_ORPHANS_H
#define WEIR_LIB_ORPHANS_H

#include "lib/alloc/stream.h"

/* Allocates the spare object device->room, with which a block can become an orphan when host memory runs out. */
void weir__orphans_init(struct weir__device *device);
/* Forgets the orphans of a device that is about to be destroyed, without freeing their blocks: these stay in their pools. */
void weir__orphans_destroy(struct weir__device *device);

/* Makes an orphan of a block's entry that the caller has claimed. lines: the lines on which the block may be in use, as for weir__park();
   NULL: the block may be in use on any stream of any device. Returns false, with nothing done, if host memory runs out and device->room is
   used up. */
bool weir__orphans_add(struct weir__device *device, struct weir__entry *entry, struct weir__line *const *lines, size_t count);
/* Parks a list of such entries (linked by `next`) as one orphan. Takes `room`, which needs room for `count` points; cannot fail. */
void weir__orphans_park(struct weir__device *device, struct weir__parked *room, struct weir__entry *entries,
                        struct weir__line *const *lines, size_t count);

/* Returns the bytes of the pool's blocks among the device's orphans. pool NULL: the bytes of the orphans of all pools that wait for at
   least one stream, without those that wait only for all work of devices. */
uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool);

/* Frees the orphans whose points are reached before `deadline` (by gpu->now()); looks at least once. With WEIR__NO_DEADLINE the function
   waits for all orphans, except those whose events a capture prevents, and may synchronise devices. Returns the bytes freed. Call it in
   relaxed capture mode. */
#define WEIR__NO_DEADLINE UINT64_MAX
uint64_t weir__orphans_free(struct weir__device *device, uint64_t deadline);

/* Frees the orphans whose points are reached now, and does not wait. *left: another look may free more: an event is not complete yet, or
   cannot be recorded before the captures of other threads end. Returns the bytes freed. Call it in relaxed capture mode. */
uint64_t weir__orphans_look(struct weir__device *device, bool *left);
/* The same for a caller within weir__quiet_visit(), which holds the lock of quiet.c. */
uint64_t weir__orphans_visit(struct weir__device *device);

/* Frees, on the stream that the present call of the program names, the orphans that wait for nothing but that stream's own earlier work.
   The stream must not capture. opened: the weir_stream, if the stream is opened and the caller has it, else NULL. */
void weir__orphans_give(struct weir__device *device, gpu_stream stream, const weir_stream *opened);

/* Makes the stream, whose line is `line`, wait on the GPU for the points of one orphan after the other, and frees each on that stream,
   until `bytes` bytes are freed or no orphan is left that waits for streams only. Returns the bytes freed. Call it in relaxed capture mode.
   */
uint64_t weir__orphans_order(struct weir__device *device, gpu_stream stream, const weir_stream *opened, struct weir__line *line, uint64_t bytes);

/* Puts an event behind all work of each device that orphans wait for, and of all devices if an arena has memory that was freed on a closed
   stream. may_synchronise: devices whose driver has no such events are synchronised instead. Does nothing while a stream captures. Call it
   in relaxed capture mode. */
void weir__orphans_cover(struct weir__device *device, bool may_synchronise);

#endif
