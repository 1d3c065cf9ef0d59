/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control socket of a weir with `control: true`: who may ask it for its figures, for memory, and to change.
 *
 * A job of the service thread; no other thread touches it between open and close. It serves this user and root.
 */
#ifndef WEIR_SHARE_CONTROL_H
#define WEIR_SHARE_CONTROL_H

#include "lib/pool/weir_internal.h"

/* Listens, and attaches itself to the weir, whose close closes it. WEIR_REFUSED, WEIR_INVALID (directory), WEIR_NO_HOST_MEMORY, WEIR_BUSY
   (the process exits). */
weir_status share_control_open(weir *w, weir_error *error);

#endif
