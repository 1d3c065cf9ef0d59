/* SPDX-License-Identifier: MIT */
/* neighbours.h - the last rung of the ladder: other processes on the same GPU are asked for what they do not use. */
#ifndef WEIR_SHARE_NEIGHBOURS_H
#define WEIR_SHARE_NEIGHBOURS_H

#include "lib/weir_internal.h"

/* A weir__rescue_fn. */
void share_neighbours_rescue(struct weir__plea *plea);

#endif
