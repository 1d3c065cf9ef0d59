/* SPDX-License-Identifier: MIT */
/*
 * neighbours.h - the last rung of the ladder that a request climbs when memory runs out: asks other processes on the same GPU to give back
 * memory that they do not use.
 *
 * Runs on the requesting thread, which holds no lock. The list of processes that did not answer is shared by the whole process and has a
 * leaf lock of its own.
 */
#ifndef WEIR_SHARE_NEIGHBOURS_H
#define WEIR_SHARE_NEIGHBOURS_H

#include "lib/recover/recover.h"

/* Asks the neighbours for memory and retries the request, as lib/recover/recover.h says for a plea. Writes the outcome to plea->note. */
void share_neighbours_rescue(struct weir__plea *plea);

#endif
