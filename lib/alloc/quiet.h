/* SPDX-License-Identifier: MIT */
/*
 * quiet.h - whether anything in this process captures, as far as can be known. What looks at all work of a device at once destroys captures
 * there, whatever the mode; so nothing does so but between weir__quiet_begin() and weir__quiet_end().
 *
 * Process-wide, since a capture may span devices, and the work that an orphan waits for may be on devices that its weir does not use. Asked
 * are the streams that any weir has open, and the legacy stream of each device in use, which tells of blocking streams that capture. Hosts
 * tell of captures on streams that no weir knows. A non-blocking stream that nobody told of cannot be seen.
 */
#ifndef WEIR_LIB_QUIET_H
#define WEIR_LIB_QUIET_H

#include "lib/pool/weir_internal.h"

/* From join to leave the weir's open streams are asked. Leaving twice, or without having joined, does nothing. */
void weir__quiet_join(weir *w);
void weir__quiet_leave(weir *w);
/* The weir is about to close: nobody visits it any more. Its streams are asked on. Waits for the end of a visit. */
void weir__quiet_close(weir *w);

/* true: nothing captures, and no host begins to before weir__quiet_end(). false: something does, and there is nothing to end. Call it in
   relaxed capture mode. */
bool weir__quiet_begin(const struct gpu *gpu);
void weir__quiet_end(void);

/* Calls `use` for that device of each open weir that is not about to close, unless the lock is taken for more than a moment: requests do so,
   under locks that come later in the order. `use` must call none of these functions but the next one, which then says whether nothing captures. */
void weir__quiet_visit(const struct gpu *gpu, int device, void (*use)(struct weir__device *device, void *data), void *data);
bool weir__quiet_is(const struct gpu *gpu);

/* Captures on streams that no weir was told of: while there are any, nothing is done that looks at a whole device, which would destroy them
   (quiet.h). A begin waits for the end of what it is too late for. */
void weir__captures_begin(void);
void weir__captures_end(void);
/* Whether other threads told of some, so that waiting for their end may help this one. */
bool weir__captures_are_others(void);

#endif
