/* SPDX-License-Identifier: MIT */
/*
 * ring.h - a ring: slots that are taken, written, pushed, leased by readers, and free again once every reader is done with them.
 *
 * Owned by the application until it closes it, then by the export; guarded by export->lock.
 */
#ifndef WEIR_SHARE_RING_H
#define WEIR_SHARE_RING_H

#include "share/export/client.h"

struct weir_ring {
    weir_ring *next; /* export->rings */
    weir_export *e;
    char name[WIRE_NAME_SIZE];
    uint32_t id;
    unsigned depth;
    size_t slot_size;
    weir_overflow overflow;
    weir_late late; /* never WEIR_LATE_DEFAULT */
    bool is_closed; /* the application has done with it: it goes once every reader has got what is queued */
    uint64_t sequence;          /* of the last frame */
    struct share_block *newest; /* the slot of that frame, queued or free, for readers that come late; NULL: they get the next one, or the slot
                                   was taken since */
    struct share_figures figures;
    struct share_block *oldest; /* queued frames, a list by `later` */
    struct share_block **latest;
    struct share_reader *readers[SHARE_READERS_MAX];
    struct share_block *slots[]; /* depth; of a closed ring NULL where the slot is withdrawn */
};

/* With the lock. */
weir_ring *share_ring_find(weir_export *e, const char *name);
/* false: the ring has as many readers as it can have. */
bool share_ring_join(weir_ring *ring, struct share_reader *reader);
void share_ring_leave(struct share_reader *reader);
/* Goes on with the rings that are closed; at_once: ends all, whatever is queued. */
void share_rings_wind_up(weir_export *e, bool at_once);
/* How many frames the slowest reader is behind. */
uint64_t share_ring_lag(const weir_ring *ring);
/* Gives the reader what it may lease. */
void share_ring_feed(struct share_reader *reader);
/* The reader waits for nothing that is queued. */
void share_reader_skip(struct share_reader *reader);
/* The slot is the last of those that are queued. */
void share_ring_queue(weir_ring *ring, struct share_block *slot);
/* The slot is no frame any more. */
void share_ring_unqueue(weir_ring *ring, struct share_block *slot);
/* A queued frame that nobody needs any more becomes a free slot. */
void share_slot_reclaim(weir_ring *ring, struct share_block *slot);

#endif
