/* SPDX-License-Identifier: MIT */
/*
 * waits.h - what there is to wait for before freed memory of a device can serve others: events of Weir's own behind the opened streams, and
 * the large frees noted on other streams (pending.h).
 *
 * An array of waits belongs to the thread that collected it. Call these in relaxed capture mode.
 */
#ifndef WEIR_LIB_WAITS_H
#define WEIR_LIB_WAITS_H

#include "lib/stream.h"

#define WEIR__WAITS_STREAMS 256 /* opened streams that are looked at, most freed bytes first */
#define WEIR__WAITS_MAX (WEIR__WAITS_STREAMS + WEIR__PENDING_MAX + 1)

/* An event behind the frees of one stream. */
struct weir__wait {
    gpu_event event;
    struct weir__pending_entry *entry; /* the event is this entry's; NULL: it is ours to destroy */
    const weir_stream *stream;         /* the opened stream of the event, by name only: it may be closed meanwhile. Or NULL */
    uint64_t bytes;                    /* freed before it, as far as Weir knows */
};

/* Puts an event behind each opened stream, and behind *extra (NULL: there is none), if that is not one of them. Streams that capture have
   none. Returns how many. */
size_t weir__waits_collect(struct weir__device *device, const gpu_stream *extra, struct weir__wait waits[static WEIR__WAITS_STREAMS + 1]);

/* The wait is over. done: its event was seen complete. */
void weir__wait_release(struct weir__device *device, const struct weir__wait *wait, bool done);

/* Looks once at each noted free on streams that are not open, and waits for it only with a deadline of UINT64_MAX. None is kept from a
   recovery. Returns how many of them are not complete; *seen: whether one was. */
size_t weir__waits_look_at_pending(struct weir__device *device, uint64_t deadline, bool *seen);

#endif
