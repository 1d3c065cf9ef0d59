/* SPDX-License-Identifier: MIT */
/*
 * adapt.h - `release_threshold: auto`: the keeper sets what a pool keeps while the program runs.
 *
 * CUDA itself, or the arena, keeps everything over a synchronise, so that no call of the program pays for a threshold that is late. The
 * keeper looks once in an epoch while the program frees memory: it reads figures that the pool has anyway, reckons what is wanted again
 * (demand.h), and gives back what is above that, in small pieces with pauses in between, as growth and trims hold up all other threads.
 * Once nothing more can go back by itself it sleeps until the next free.
 *
 * All of it belongs to the keeper's job; the counts of what it did are atomic, for the figures of the pool.
 */
#ifndef WEIR_LIB_ADAPT_H
#define WEIR_LIB_ADAPT_H

#include "lib/pool/weir_internal.h"

/* Looks at the device's pools whose threshold is automatic. Returns when to look again, or WEIR__SERVICE_NEVER. Call it in relaxed capture
   mode, on the keeper's job. */
uint64_t weir__adapt_look(struct weir__device *device, uint64_t now);

#endif
