/* SPDX-License-Identifier: MIT */
/*
 * ring.h - a ring is a number of slots, which are blocks of equal size. The producer takes a free slot, writes a frame and pushes it; each
 * reader gets a lease on the frame; and the slot is free again when all readers have released it.
 *
 * The application owns the ring until it closes it, then the export does. export->lock guards it.
 */
#ifndef WEIR_SHARE_RING_H
#define WEIR_SHARE_RING_H

#include "share/export/client.h"

struct weir_ring {
    weir_ring *next; /* in export->rings */
    weir_export *e;
    char name[WIRE_NAME_SIZE];
    uint32_t id;
    unsigned depth;
    size_t slot_size;
    weir_overflow overflow;
    weir_late late; /* never WEIR_LATE_DEFAULT */
    bool is_closed; /* the application has closed it: it is freed once every reader has got all queued frames */
    uint64_t sequence;          /* number of the last frame */
    /* The slot of the last frame, queued or free, for readers that join late; NULL: late readers get the next frame, or the slot was
       taken again. */
    struct share_block *newest;
    struct share_figures figures;
    struct share_block *oldest; /* queued frames, linked by `later` */
    struct share_block **latest;
    struct share_reader *readers[SHARE_READERS_MAX];
    struct share_block *slots[]; /* `depth` slots; in a closed ring, withdrawn slots are NULL */
};

/* For all functions here the caller holds export->lock. share_ring_find() finds the open ring of that name, or returns NULL. */
weir_ring *share_ring_find(weir_export *e, const char *name);
/* Adds a reader. Returns false if the ring has SHARE_READERS_MAX readers. */
bool share_ring_join(weir_ring *ring, struct share_reader *reader);
void share_ring_leave(struct share_reader *reader);
/* Ends closed rings whose readers have got everything. With at_once, ends all rings, whatever is queued. */
void share_rings_wind_up(weir_export *e, bool at_once);
/* How many frames the slowest reader is behind. */
uint64_t share_ring_lag(const weir_ring *ring);
/* Leases queued frames to the reader, up to its limit. */
void share_ring_feed(struct share_reader *reader);
/* The reader no longer waits for any queued frame; frees slots that waited only for it. */
void share_reader_skip(struct share_reader *reader);
/* Appends the slot to the queued frames. */
void share_ring_queue(weir_ring *ring, struct share_block *slot);
/* Removes the slot from the queued frames. */
void share_ring_unqueue(weir_ring *ring, struct share_block *slot);
/* Frees the slot of a queued frame that no reader waits for or leases; else does nothing. */
void share_slot_reclaim(weir_ring *ring, struct share_block *slot);

#endif
