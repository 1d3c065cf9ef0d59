/* SPDX-License-Identifier: MIT */
/*
 * ahead.h - `release_threshold: auto`: the keeper grows a pool ahead of demand.
 *
 * What a pool was grown for and gave back, it will need again when its program comes back to the same step. So while the keeper sleeps, a
 * request that takes the use above its floor wakes a second job of the service thread. That one grows the pool in small pieces with pauses,
 * as growth holds up all other threads, towards the highest use of late; but no further beyond the present use than that has risen already,
 * so that a wrong guess costs no more than what the program did by itself. Once it is ahead it sleeps until the use comes near.
 *
 * What nobody has used within a quarter of the time for which idle memory is kept goes back like all other (adapt.h), and less is expected
 * from then on. For a program that cannot be guessed the keeper has a credit in bytes: what is grown is taken from it; what comes to be
 * used is added to it, and a quarter more, and a part of what requests had to grow by themselves. Nothing is grown where a neighbour asked
 * for memory of late, beyond `keep`; where the device has little left; and for a while after a failure, of which nobody hears.
 *
 * All of it belongs to the service thread; the counts of what it did are atomic, for the figures of the pool.
 */
#ifndef WEIR_LIB_AHEAD_H
#define WEIR_LIB_AHEAD_H

#include "lib/pool/weir_internal.h"

/* Adds the job, beside the keeper's; only that can fail. Or removes it. */
weir_status weir__ahead_set(weir *w, bool on, weir_error *error);

/* The keeper has looked at the pool, and nobody is to be told before the use rises. */
void weir__ahead_watch(weir_pool *pool);
/* The threshold is not automatic any more, or is so from now on. */
void weir__ahead_forget(weir_pool *pool);
/* So many bytes are reserved, and so many have been in use, for the present epoch at most. */
void weir__ahead_note(weir_pool *pool, uint64_t reserved, uint64_t high);
/* Epochs have passed, the demand has them, and requests have grown the pool by so many bytes. */
void weir__ahead_pass(weir_pool *pool, uint64_t now, uint64_t missed);

#endif
