/* SPDX-License-Identifier: MIT */
/*
 * others.h - takes unused memory of a device from the other weirs of this process: a C library and a plug-in may each have opened a weir.
 *
 * These functions visit the other weirs under the lock of quiet.c (weir__quiet_visit()), so that no weir can close during the visit; they
 * do nothing if that lock is not free within a millisecond. They do not run the out-of-memory callbacks of other weirs, since a callback
 * expects to run in a thread of its own part of the program. Call these functions in relaxed capture mode, with no lock held.
 */
#ifndef WEIR_LIB_OTHERS_H
#define WEIR_LIB_OTHERS_H

#include "lib/pool/device.h"

/* Empties the caches of the other weirs, and frees their orphans (orphans.h) whose work is complete. Once `deadline` (by gpu->now()) has
   passed, no further cache is emptied. Returns the bytes given back. */
uint64_t weir__others_flush(const struct weir__device *own, uint64_t deadline);

/* Returns the number of blocks of the device that were ever freed in the other weirs. */
uint64_t weir__others_frees(const struct weir__device *own);

/* Gives the idle memory of the other weirs' CUDA pools back to the device. CUDA moves idle memory between its own pools by itself, but not
   to an arena. Returns the bytes given back. */
uint64_t weir__others_trim(const struct weir__device *own, uint64_t deadline);

#endif
