/* SPDX-License-Identifier: MIT */
/*
 * quiet.h - whether anything in this process captures, as far as can be known. What looks at all work of a device at once destroys captures
 * there, whatever the mode; so nothing does so but between weir__quiet_begin() and weir__quiet_end().
 *
 * Process-wide, since a capture may span devices, and the work that an orphan waits for may be on devices that its weir does not use. Asked
 * are the streams that any weir has open, and the legacy stream of each device in use, which tells of blocking streams that capture. Hosts
 * tell of captures on streams that no weir knows (attach.h). A non-blocking stream that nobody told of cannot be seen.
 */
#ifndef WEIR_LIB_QUIET_H
#define WEIR_LIB_QUIET_H

#include "lib/weir_internal.h"

/* From join to leave the weir's open streams are asked. Leaving twice, or without having joined, does nothing. */
void weir__quiet_join(weir *w);
void weir__quiet_leave(weir *w);

/* true: nothing captures, and no host begins to before weir__quiet_end(). false: something does, and there is nothing to end. Call it in
   relaxed capture mode. */
bool weir__quiet_begin(const struct gpu *gpu);
void weir__quiet_end(void);

/* How many captures a host has told of changes by so many. A begin waits for weir__quiet_end(). */
void weir__quiet_count(int captures);

#endif
