/* SPDX-License-Identifier: MIT */
/* open.h - weir_open(), which also connects a weir to other processes: opens its control socket, and lets it ask neighbours for memory. */
#ifndef WEIR_SHARE_OPEN_H
#define WEIR_SHARE_OPEN_H

#include "lib/open.h"

/* Like weir_open(), but only `device` gets pools and is used: a program that uses one GPU of several must not begin to use the others. */
weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w);

#endif
