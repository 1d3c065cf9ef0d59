/* SPDX-License-Identifier: MIT */
/*
 * bracket.h - asking CUDA's pool for memory so that a refusal leaves nothing behind.
 *
 * A request that does not fit takes all that the device has left before CUDA refuses the request, and the pool keeps of that memory what
 * its release threshold allows (measured: a whole H100). So the threshold is lowered to what the pool has reserved for the time of the
 * call: CUDA then gives back what the attempt took (measured), with no trim. Four calls of CUDA, some 160 ns: for attempts of recovery and
 * for growth that no request has asked for, not for a first attempt.
 *
 * pool->lock is held from the first to the last of these calls, so a reload waits for the attempt.
 */
#ifndef WEIR_LIB_BRACKET_H
#define WEIR_LIB_BRACKET_H

#include "lib/pool/pool.h"

/* Asks CUDA for a block of one of the pool's two handles. Call it without pool->lock. */
int weir__bracket_malloc(weir_pool *pool, void **block, size_t size, gpu_pool handle, gpu_stream stream);

/* Writes the threshold that the settings ask for where a bracket could not put it back. Called with pool->lock. */
void weir__bracket_mend(weir_pool *pool);

/* Gives back in small pieces what the pool has reserved above `keep` bytes and above what is in use now. */
void weir__bracket_give_back(weir_pool *pool, uint64_t keep);

#endif
