/* SPDX-License-Identifier: MIT */
/* leaks.h - what is live when a weir is closed. */
#ifndef WEIR_LIB_LEAKS_H
#define WEIR_LIB_LEAKS_H

#include "lib/pool/weir_internal.h"

/* Logs the blocks with the most bytes. */
void weir__leaks_log(weir *w);

#endif
