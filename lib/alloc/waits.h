/* SPDX-License-Identifier: MIT */
/*
 * waits.h - what there is to wait for before freed memory of a device can serve others: events of Weir's own behind the opened streams, and
 * the large frees noted on other streams (pending.h).
 *
 * An array of waits belongs to the thread that collected it. Call these in relaxed capture mode.
 */
#ifndef WEIR_LIB_WAITS_H
#define WEIR_LIB_WAITS_H

#include "lib/alloc/stream.h"

#define WEIR__WAITS_STREAMS 256 /* opened streams that are looked at, most freed bytes first */
#define WEIR__WAITS_MAX (2 * WEIR__WAITS_STREAMS + WEIR__PENDING_MAX + 1) /* those of other weirs, too (others.h) */

/* An event behind the frees of one stream. */
struct weir__wait {
    gpu_event event;
    struct weir__pending_entry *entry; /* the event is this entry's; NULL: it is ours to destroy */
    weir_stream *stream;               /* the opened stream of the event, or NULL. It may be closed meanwhile, but is never gone */
    uint64_t bytes;                    /* freed before it, as far as Weir knows, and not yet seen complete */
    uint64_t freed;                    /* of that stream, when the event was recorded */
};

/* What looks have found. */
struct weir__seen {
    bool any;       /* some wait is over, */
    uint64_t bytes; /* and so much was freed before those that are, as far as Weir knows */
};

/* Puts an event behind a pinned stream. false: there is none, as where the stream captures. */
bool weir__wait_begin(weir_stream *stream, struct weir__wait *wait);

/* Puts an event behind each opened stream, and behind *extra (NULL: there is none), if that is not one of them, but none after `deadline`,
   by gpu->now(). Returns how many. */
size_t weir__waits_collect(struct weir__device *device, const gpu_stream *extra, uint64_t deadline,
                           struct weir__wait waits[static WEIR__WAITS_STREAMS + 1]);

/* Looks once at each wait, but at none after the deadline. Those that are over end; the others move up, in order. Returns how many. */
size_t weir__waits_look(struct weir__device *device, struct weir__wait *waits, size_t count, uint64_t deadline, struct weir__seen *seen);

/* Ends what is left, unseen. */
void weir__waits_end(struct weir__device *device, const struct weir__wait *waits, size_t count);

/* Looks until all are over or the deadline has passed, and ends what is left. */
void weir__waits_finish(struct weir__device *device, struct weir__wait *waits, size_t count, uint64_t deadline);

/* Looks at each noted free on streams that are not open, until `deadline` by gpu->now(), once at least, and at those on the legacy stream
   that no event stands behind, by a query. None is kept from a recovery. Returns how many of them are left. */
size_t weir__waits_look_at_pending(struct weir__device *device, uint64_t deadline, struct weir__seen *seen);

/* Waits until `deadline`, by gpu->now(), for all that was freed on opened streams. wants_legacy: and for the frees noted on others, with an
   event behind the legacy stream where something was freed there, which may hold up blocking streams: only in calls of the program's own.
   Whether all of it is complete. */
bool weir__wait_for_frees(struct weir__device *device, uint64_t deadline, bool wants_legacy);

#endif
