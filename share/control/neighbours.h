/* SPDX-License-Identifier: MIT */
/*
 * neighbours.h - the last rung of the ladder: other processes on the same GPU are asked for what they do not use.
 *
 * Runs on the requesting thread, which holds no lock. What the process remembers of those that did not answer has a lock of its own, a leaf.
 */
#ifndef WEIR_SHARE_NEIGHBOURS_H
#define WEIR_SHARE_NEIGHBOURS_H

#include "lib/recover/recover.h"

/* A weir__rescue_fn. */
void share_neighbours_rescue(struct weir__plea *plea);

#endif
