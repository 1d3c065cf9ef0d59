/* SPDX-License-Identifier: MIT */
/* open.h - weir_open() with the ties to other processes: its control socket, its neighbours. */
#ifndef WEIR_SHARE_OPEN_H
#define WEIR_SHARE_OPEN_H

#include "lib/open.h"

/* weir_open(), but only this device gets pools and is touched: a host that uses one GPU of several must not begin to use the others. */
weir_status weir__open_on(const weir_options *options, int device, weir_error *error, weir **w);

#endif
