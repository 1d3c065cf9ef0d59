/* SPDX-License-Identifier: MIT */
/*
 * others.h - what the other weirs of this process have of a device, and nobody uses: a C library and a plug-in may each have opened one.
 *
 * Their caches and frees are looked at under the lock of quiet.h, so none of them can close meanwhile; they are left alone where that lock
 * is taken for more than a moment. Their callbacks are not run: a callback expects the locks of its own program in its own thread alone.
 * Call these in relaxed capture mode, with no lock held.
 */
#ifndef WEIR_LIB_OTHERS_H
#define WEIR_LIB_OTHERS_H

#include "lib/pool/device.h"

/* Empties their caches, and frees what is complete of their orphans. Begins with no stream after `deadline`, by gpu->now(). Returns the
   bytes. */
uint64_t weir__others_flush(const struct weir__device *own, uint64_t deadline);

/* How many blocks of the device were ever freed in them. */
uint64_t weir__others_frees(const struct weir__device *own);

/* Gives back what their pools of CUDA's have idle, which CUDA does by itself for its own pools, but not for an arena. Returns the bytes. */
uint64_t weir__others_trim(const struct weir__device *own, uint64_t deadline);

#endif
