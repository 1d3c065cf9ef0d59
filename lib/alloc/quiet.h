/* SPDX-License-Identifier: MIT */
/*
 * quiet.h - finds out whether any stream of this process captures, as far as Weir can know. A call that looks at all work of a device at
 * once (an event behind the whole device, a device synchronise) destroys captures on that device, in every capture mode. Therefore such
 * calls are made only between weir__quiet_begin() and weir__quiet_end(), or within weir__quiet_visit() after a yes of weir__quiet_is().
 *
 * The question is asked for the whole process, since one capture may span devices, and since an orphan (orphans.h) may wait for work on
 * devices that its weir does not use. Asked are the streams that any weir has open, and the legacy stream of each device in use, which also
 * tells of blocking streams that capture. Of captures on other streams the host tells Weir; a host is a library that allocates for a
 * program by Weir, as the plug-in for PyTorch does. A capture on a non-blocking stream that nobody told of cannot be seen.
 */
#ifndef WEIR_LIB_QUIET_H
#define WEIR_LIB_QUIET_H

#include "lib/pool/weir_internal.h"

/* Joins the weir to those whose open streams are asked, until weir__quiet_leave(). Leaving twice, or without having joined, does
   nothing. */
void weir__quiet_join(weir *w);
void weir__quiet_leave(weir *w);
/* Called before the weir closes: weir__quiet_visit() leaves it out from now on, but its streams are still asked. Waits until a visit that
   is under way has ended. */
void weir__quiet_close(weir *w);

/* Returns true if nothing captures, and takes the lock of quiet.c, so that no host can begin a capture until weir__quiet_end(). Returns
   false, without the lock, if something captures; weir__quiet_end() must not follow then. Call it in relaxed capture mode. */
bool weir__quiet_begin(const struct gpu *gpu);
void weir__quiet_end(void);

/* Calls `use` for that device of each open weir that is not about to close. Tries for the lock for a millisecond only, and does nothing if
   the lock is not free by then: its callers are requests, which may hold locks that come later in the order. `use` must call none of these
   functions except weir__quiet_is(), which returns whether nothing captures. */
void weir__quiet_visit(const struct gpu *gpu, int device, void (*use)(struct weir__device *device, void *data), void *data);
bool weir__quiet_is(const struct gpu *gpu);

/* A host tells of a capture on a stream that no weir has open. While there is such a capture nothing is done that looks at a whole device.
   weir__captures_begin() waits until a call that looks at a whole device has ended. */
void weir__captures_begin(void);
void weir__captures_end(void);
/* Returns whether threads other than the caller have told of captures, so that waiting for their end may help the caller. */
bool weir__captures_are_others(void);

#endif
