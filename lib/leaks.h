/* SPDX-License-Identifier: MIT */
/* leaks.h - the blocks that are still live when a weir is closed. */
#ifndef WEIR_LIB_LEAKS_H
#define WEIR_LIB_LEAKS_H

#include "lib/pool/weir_internal.h"

/* Logs which live blocks hold the most bytes, with their pool, device and tag. */
void weir__leaks_log(weir *w);

#endif
