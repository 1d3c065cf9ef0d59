/* SPDX-License-Identifier: MIT */
/*
 * orphans.h - freed blocks that no stream can give back: the stream that they were freed on is gone, or nobody knows which streams use
 * them.
 *
 * An orphan is freed once all work was seen complete that may still use it. Where that work may be is its reach. For all of it events are
 * recorded, when somebody first looks for memory and nothing captures (quiet.h); from then on looking is a question that waits for nothing.
 * Where the driver has no such events (before 12.5) the devices are synchronised instead, and only by calls that may wait without bound.
 *
 * Owned by its device. `lock` is a leaf.
 */
#ifndef WEIR_LIB_ORPHANS_H
#define WEIR_LIB_ORPHANS_H

#include "lib/pool/device.h"

void weir__orphans_init(struct weir__orphans *orphans);
/* The device goes, and what is still there stays with its pool. */
void weir__orphans_destroy(struct weir__device *device);

/* Makes an orphan of a block that was taken out of the table, and that no user has. false: no host memory. */
bool weir__orphans_add(struct weir__device *device, const struct weir__block *block, enum weir__reach reach);
/* The same for a list of entries of the table. */
void weir__orphans_add_list(struct weir__device *device, struct weir__entry *entries, enum weir__reach reach);

/* weir_close() has begun: nothing captures any more, so those that waited for that are as the others. */
void weir__orphans_release(struct weir__device *device);

/* Bytes of the pool's blocks among the device's orphans. */
uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool);

/* Whether there are any that an event will tell of, or will once the captures of other threads are over. */
bool weir__orphans_are_due(struct weir__device *device);

/* Gives those back whose work is done by `deadline`, by gpu->now(); looks once at least. With WEIR__NO_DEADLINE it waits for all of them,
   as far as nothing captures, and may synchronise devices. Returns the bytes. Call it in relaxed capture mode. */
#define WEIR__NO_DEADLINE UINT64_MAX
uint64_t weir__orphans_free(struct weir__device *device, uint64_t deadline);

/* The same without waiting, within a visit of quiet.h. *left: whether a later look may find more. */
uint64_t weir__orphans_look(struct weir__device *device, bool *left);

/* Sees to what was freed in arenas on streams that nobody can name any more. may_synchronise: devices that have no events of their own.
   Call it in relaxed capture mode. */
void weir__orphans_cover(struct weir__device *device, bool may_synchronise);

#endif
