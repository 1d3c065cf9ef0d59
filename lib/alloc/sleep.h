/* SPDX-License-Identifier: MIT */
/*
 * sleep.h - takes the memory of pools that the program has yielded (weir_sleep.h), for a request, a neighbour or an operator.
 *
 * The functions never wait for a call of the program on the pool: it may be about to wake the pool. Call them in relaxed capture mode, with
 * no lock held.
 */
#ifndef WEIR_LIB_SLEEP_H
#define WEIR_LIB_SLEEP_H

#include "lib/pool/pool.h"

/* Returns whether the program has yielded the pool, wherever its memory is. */
bool weir__yielded_is(const weir_pool *pool);

/* Returns the bytes of the device that would come free if the yielded pool were put to sleep; 0 for a pool that is not yielded. */
uint64_t weir__yielded_bytes(const weir_pool *pool);

/* Puts a yielded pool to sleep, until `deadline` (by gpu->now()) waiting for work. Adds the bytes to *given; a pool that sleeps already adds
   none. Runs the program's hooks on this thread. Returns WEIR_BUSY also if the pool is not yielded; the error names what the program has to
   call. The pool is as before if the status is not WEIR_OK. */
weir_status weir__yielded_take(weir_pool *pool, uint64_t deadline, weir_error *error, uint64_t *given);

/* Gives a yielded pool that was put to sleep its memory back, if the device has it free; the pool stays yielded. Returns WEIR_OK also if
   there is nothing to do. */
weir_status weir__yielded_return(weir_pool *pool, weir_error *error);

#endif
