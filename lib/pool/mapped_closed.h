/* SPDX-License-Identifier: MIT */
/*
 * mapped_closed.h - all arenas of the process: those of open pools, as what is idle in them is nobody's but for Weir, and those that
 * outlive their pool, since blocks of them are live, or a free was never seen complete: CUDA cannot free what Weir has mapped.
 *
 * The lock of the lists is held over the calls that look at events and unmap, and comes before those of the arenas.
 */
#ifndef WEIR_LIB_MAPPED_CLOSED_H
#define WEIR_LIB_MAPPED_CLOSED_H

#include "lib/pool/mapped.h"

/* From now on others may take what is idle in it, until weir__mapped_close(). */
void weir__mapped_list(struct weir__mapped *mapped);

/* Has the open arenas of the device, whosever they are, `but` this one (NULL: all), give so many bytes of what is idle, in whole growth
   steps. Returns the bytes that they gave. */
uint64_t weir__mapped_take(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__mapped *but);

/*
 * After weir__mapped_stream_closed() of each stream that was open. Waits for all frees, and unmaps everything. With blocks still live, or a
 * free that can never be seen complete, the arena lives on until the last block is freed, or for good; with memory that the driver did not
 * take back, until it does. Returns whether it does, and why in *figures. Takes `mapped`. Call it in relaxed capture mode.
 */
bool weir__mapped_close(struct weir__mapped *mapped, struct weir__arena_figures *figures);

/* Frees such a block, on a stream that is alive. false: there is none at that address. *code is that waist's. */
bool weir__mapped_closed_free(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code);

/* Unmaps what has come free. Returns the bytes. */
uint64_t weir__mapped_sweep(void);

#endif
