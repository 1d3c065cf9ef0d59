/* SPDX-License-Identifier: MIT */
/* open.h - weir_open(), which also connects a weir to other processes: opens its control socket, lets it ask neighbours for memory, and knows its
   claims. */
#ifndef WEIR_SHARE_OPEN_H
#define WEIR_SHARE_OPEN_H

#include "lib/open.h"

/* Like weir_open(), but only `device` gets pools and is used: a program that uses one GPU of several must not begin to use the others. */
weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w);

/* Returns the bytes of the device that this process has claimed (weir_reserve()) or inherited as a claim of `weir run --reserve`; *left: those
   of them that the weir's pools have not reserved. */
uint64_t weir__claimed(struct weir__device *device, uint64_t *left);

#endif
