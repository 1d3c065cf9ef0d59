/* SPDX-License-Identifier: MIT */
/*
 * arena.h - an arena as the memory of a pool (`backing: arena`): memory that Weir maps itself (arena/arena.h), with what makes it safe on
 * streams and threads.
 *
 * What a stream freed serves that stream at once, and others once the free was seen complete, or once their stream was made to wait for it:
 * fence.h has both, and each extent that is pending is part of the arena's debt on the line of its stream. Its sequence is the step of its
 * free.
 *
 * Beside an arena there is a pool of CUDA's, for what is allocated while a stream captures: what is set of the arena is set of that one,
 * and both are closed together.
 *
 * An arena lives until it is closed, and from then on in the list of closed arenas, while blocks of it are live or a free was never seen
 * complete: CUDA cannot free what Weir has mapped. The lock of the two lists, of open arenas and closed ones, is held over calls that look
 * at events and unmap, and comes before the locks of arenas.
 */
#ifndef WEIR_LIB_BACKING_ARENA_H
#define WEIR_LIB_BACKING_ARENA_H

#include "lib/backing/backing.h"

#define WEIR__ARENA_RANGE_SHARE 4 /* its range is so many times the device's memory, or a half of that and so on, down to one time */

/* Reserves addresses, and maps nothing. Returns the waist's code, WEIR__PAGE_NO_ADDRESSES where the process may not have so many, or
   WEIR__PAGE_NO_HOST_MEMORY. memory: bytes of the device. group: of its debts. captures: CUDA's pool beside it, whose handles may come
   later. */
int weir__arena_create(uint64_t memory, const void *group, struct weir__backing *captures, struct weir__backing **backing);

/* Has the open arenas of the device, whosever they are, `but` this one, give so many bytes of what is idle, in whole growth steps. Returns
   the bytes that they gave. In any capture mode. */
uint64_t weir__arena_take_idle(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__backing *but);

/* Frees a block of a closed arena, on a stream that is alive. false: there is none at that address. *code is that waist's. */
bool weir__arena_free_closed(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code);

/* Unmaps what has come free in closed arenas. Returns the bytes. */
uint64_t weir__arena_sweep(void);

#endif
