/* SPDX-License-Identifier: MIT */
/*
 * control.h - the control socket of a weir with `control: true`. Tools and neighbours use it to ask for figures or memory, and to change
 * the policy; receivers of tensors use it to ask for pages (lib/backing/window.h). A weir without `control: true` that shares tensors has a
 * socket as well, which answers only the question for a page, and which nobody finds listed.
 *
 * A job of the service thread serves the socket; no other thread touches it between open and close. Only this user and root may connect.
 */
#ifndef WEIR_SHARE_CONTROL_H
#define WEIR_SHARE_CONTROL_H

#include "lib/pool/weir_internal.h"

/* Opens the control socket (for_pages: the one that only hands out pages) and attaches it to the weir, which closes it in weir_close(). Returns WEIR_REFUSED or WEIR_INVALID (the
   directory is unsafe or cannot be made), WEIR_NO_HOST_MEMORY, or WEIR_BUSY (the process exits). */
weir_status share_control_open(weir *w, bool for_pages, weir_error *error);

#endif
