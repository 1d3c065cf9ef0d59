/* SPDX-License-Identifier: MIT */
/*
 * arena.h - an arena as the memory of a pool (`backing: arena`): memory that Weir maps itself (arena/arena.h), with the locks and the
 * fences that make it safe for several streams and threads.
 *
 * Memory that a stream frees serves that stream at once. It serves other streams once the free was seen complete, or once the other stream
 * was made to wait for the free (fence.h). Each pending extent belongs to the arena's debt on the line of its stream. The sequence number
 * of the extent is the step of its free.
 *
 * Each arena has a pool of CUDA's beside it, for memory that is allocated while a stream captures. Attributes that are set on the arena are
 * set on that pool too, and both are closed together.
 *
 * A closed arena moves to the list of closed arenas, and stays there while blocks of it are live or a free was not seen complete: CUDA
 * cannot free memory that Weir has mapped. One lock guards the list of open arenas and that of closed ones. That lock is held over calls
 * that query events and unmap memory, and is taken before the locks of arenas.
 */
#ifndef WEIR_LIB_BACKING_ARENA_H
#define WEIR_LIB_BACKING_ARENA_H

#include "lib/backing/backing.h"

/* an arena reserves 4 times the addresses of the device's memory, or half of that and so on, down to 1 time */
#define WEIR__ARENA_RANGE_SHARE 4

/* Makes an arena: reserves its addresses, and maps no memory. Returns the GPU code, WEIR__PAGE_NO_ADDRESSES if the process may not reserve
   that many addresses, or WEIR__PAGE_NO_HOST_MEMORY. memory: bytes of the device. group: the group of the arena's debts. captures: CUDA's
   pool beside the arena, whose handles may be made later. */
int weir__arena_create(uint64_t memory, const void *group, struct weir__backing *captures, struct weir__backing **backing);

/* Makes the open arenas of the device, of all weirs, give `bytes` of idle memory back to the device, in whole growth steps. Leaves out the
   arena `but`. Returns the bytes that went back. The thread may be in any capture mode. */
uint64_t weir__arena_take_idle(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__backing *but);

/* Frees a block of a closed arena, on a stream that is alive. Returns false if no closed arena has a live block at that address. Otherwise
   sets *code to the code of the free, and *gpu to the GPU interface of that arena. */
bool weir__arena_free_closed(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code);

/* Unmaps the memory of closed arenas that has become idle. Returns its bytes. */
uint64_t weir__arena_sweep(void);

#endif
