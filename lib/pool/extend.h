/* SPDX-License-Identifier: MIT */
/*
 * extend.h - growing a pool by a piece that no request has asked for.
 *
 * An arena maps idle pages. A pool of CUDA's grows only for a request: what is idle in it is taken in pieces, until one makes it grow, and
 * all of them go back at once. Measured, 64 MiB of growth take 60 to 110 us, in which the pool calls of other threads wait, and each piece
 * that is idle some 10 more; then blocks of any size come out of them as out of any idle memory. A request that fails meanwhile was beside
 * others (asking.h), so it is asked once more.
 */
#ifndef WEIR_LIB_EXTEND_H
#define WEIR_LIB_EXTEND_H

#include "lib/pool/pool.h"

#define WEIR__EXTEND_IDLE (UINT64_C(256) << 20) /* a pool of CUDA's that has more bytes idle is not extended */

/* Grows the pool by so many bytes at most, a multiple of WEIR__GROWTH_STEP. `stream`: of the pool's device, and nobody else's. Returns the
   bytes; 0: it could not be, and the pool is as it was. Call it in relaxed capture mode. */
uint64_t weir__pool_extend(weir_pool *pool, uint64_t bytes, gpu_stream stream);

#endif
