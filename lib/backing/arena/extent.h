/* SPDX-License-Identifier: MIT */
/*
 * extent.h - the extents of one range of addresses: which addresses are live, which are free and for which stream, and where no memory is
 * mapped.
 *
 * The code only computes: it calls no driver, does not wait, and does not access the memory in the range. The owner, an arena, holds its
 * lock during each call. The extents divide the range without a gap, and are linked in the order of their addresses. Neighbours of the same
 * sort are merged: holes, complete extents, and extents that one stream freed. Extents that one stream freed get the later of their
 * sequences when they merge, so the memory of the earlier free serves other streams later than it could. A stream with `keeps_steps` merges
 * only extents of the same sequence.
 *
 * A free extent is *pending* until the stream that freed it was seen to have completed the free: until then the extent serves that stream
 * alone. After that the extent is *complete*, and serves any stream. A stream is identified by its struct weir__extent_stream. The sequence
 * of a free is any number that never falls on one stream. A *held* extent is one in which a caller maps or unmaps memory.
 *
 * A *node* is a struct weir__extent, in use or not. Only weir__extents_reserve() allocates nodes, so that no operation fails half-way for
 * lack of host memory.
 */
#ifndef WEIR_LIB_EXTENT_H
#define WEIR_LIB_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/treap.h"

#define WEIR__EXTENT_ALIGNMENT UINT64_C(512) /* of every address and size, except the sizes that callers ask for */
#define WEIR__BINS 129

enum weir__extent_state {
    WEIR__EXTENT_HOLE, /* nothing is mapped there */
    WEIR__EXTENT_FREE,
    WEIR__EXTENT_LIVE,
    WEIR__EXTENT_HELD, /* a caller maps or unmaps memory there. No other code may touch the extent, and no neighbour merges with it */
};

struct weir__extent_stream;

struct weir__extent {
    uint64_t address, bytes;
    struct weir__branch branch;          /* the entry in the tree of its bin, as is `most` (bin.h) */
    uint64_t most;
    struct weir__extent *before, *after; /* the neighbours by address. Unused nodes are linked by `after` */
    uint8_t state;                       /* enum weir__extent_state */
    /* HELD: the state, HOLE or FREE, that weir__extents_put() gives the extent; at first the state before the hold */
    uint8_t former;
    bool is_new;                         /* HELD: its page was created for the growth under way */
    /* FREE, or HELD and FREE before: the stream whose free is pending, or NULL if the free is complete */
    struct weir__extent_stream *stream;
    uint64_t sequence;                    /* with a stream: the sequence of the free */
    /* with a stream: the neighbours in the queue of that stream. HOLE: the neighbours in the list of holes */
    struct weir__extent *earlier, *later;
} __attribute__((aligned(64)));

/* Free extents by size and address: the pending ones of one stream, or all complete ones. Zero-initialise. */
struct weir__bins {
    uint64_t filled[WEIR__BINS / 64 + 1]; /* a bit for each bin that has extents */
    struct weir__branch *roots[WEIR__BINS];
};

/* The pending extents of one range that one stream freed. Zero-initialise. The owner keeps the struct until `oldest` is NULL. */
struct weir__extent_stream {
    struct weir__bins bins;
    struct weir__extent *oldest, *newest; /* the ends of the queue of these extents, in the order of their sequences */
    uint64_t completed;                   /* the highest sequence that was seen complete */
    uint64_t bytes;
    bool keeps_steps; /* from now on neighbours merge only if they have the same sequence */
};

struct weir__extents {
    struct weir__bins complete;
    uint64_t base, bytes;       /* the range */
    unsigned least;             /* the log2 of the smallest request. Smaller free extents are in no bin */
    unsigned shift;             /* the log2 of the number of bins for each doubling of the size */
    struct weir__extent end;    /* the last extent of the range, a hole, which may be empty. A free extent just before `end` is in no bin */
    struct weir__extent *first; /* the extent with the lowest address */
    struct weir__extent *holes; /* all holes but `end` */
    struct weir__extent *unused;
    size_t unused_count;
    size_t kept_count; /* unused nodes that are set aside for a growth: weir__extents_take() and weir__extents_reserve() leave them alone */
    struct weir__extent_slab *slabs;
    uint64_t live_bytes, complete_bytes, pending_bytes; /* pending: free and not complete */
    size_t live_count;
    uint64_t taken_count; /* requests served so far */
};

/* Initialises the range as one hole. base, bytes: multiples of the alignment, with a sum of at most 2^63. */
void weir__extents_init(struct weir__extents *extents, uint64_t base, uint64_t bytes, unsigned least, unsigned shift);
/* Frees all nodes. After that no pointer to an extent may be used, in any struct. */
void weir__extents_clear(struct weir__extents *extents);

/* Makes sure that there are `count` unused nodes. Returns false if host memory runs out. */
bool weir__extents_reserve_slow(struct weir__extents *extents, size_t count) __attribute__((cold));
static inline bool weir__extents_reserve(struct weir__extents *extents, size_t count)
{
    return extents->unused_count >= extents->kept_count + count || weir__extents_reserve_slow(extents, count);
}

static inline uint64_t weir__extent_round(uint64_t bytes)
{
    return (bytes + WEIR__EXTENT_ALIGNMENT - 1) & -WEIR__EXTENT_ALIGNMENT;
}

/* Takes `bytes` for a request on the stream (NULL: an unknown stream), from complete extents or pending ones of that stream. Takes the
   lowest address in the first bin that has a fitting extent; else the last free extent of the range; else several neighbours together.
   Returns the extent, which is live, or NULL if nothing fits or no unused node is left: nothing has changed then. bytes: above 0; the
   function rounds them up to the alignment. Needs 1 unused node. */
struct weir__extent *weir__extents_take(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t bytes);
/* Frees a live extent on the stream, with that sequence. If `stream` is NULL, the free is complete already. After the call the node may
   describe another extent. */
void weir__extents_give(struct weir__extents *extents, struct weir__extent *extent, struct weir__extent_stream *stream, uint64_t sequence);
/* Makes all extents complete that the stream freed up to that sequence. */
void weir__extents_complete(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t sequence);

/* Moves the pending extents that `stream` freed above the sequence `after` and up to `sequence` to the stream `to`, as if `to` had freed
   them with the sequence `to_sequence`. Call it once `to` waits for these frees. Returns the bytes of the extents. */
uint64_t weir__extents_pass_on(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t after, uint64_t sequence,
                               struct weir__extent_stream *to, uint64_t to_sequence);

/* Returns whether the extent is free and may serve a request on the stream. */
static inline bool weir__extent_serves(const struct weir__extent *extent, const struct weir__extent_stream *stream)
{
    return extent->state == WEIR__EXTENT_FREE && (!extent->stream || extent->stream == stream);
}

static inline uint64_t weir__extent_end(const struct weir__extent *extent)
{
    return extent->address + extent->bytes;
}

/* Holds [address, address + bytes) of an extent that is free or a hole. The parts below and above keep their state. Returns the held
   extent. Needs 2 unused nodes. */
struct weir__extent *weir__extents_hold(struct weir__extents *extents, struct weir__extent *extent, uint64_t address, uint64_t bytes);
/* Cuts a held extent in two, of which the first has `bytes`; both are held. Returns the second. Needs 1 unused node. */
struct weir__extent *weir__extents_cut(struct weir__extents *extents, struct weir__extent *held, uint64_t bytes);
/* Ends the hold: the extent gets the state in `former`, and merges with its neighbours. A caller that has mapped memory into a hole sets
   `former` to FREE before; a caller that has unmapped a complete extent sets `former` to HOLE. */
void weir__extents_put(struct weir__extents *extents, struct weir__extent *held);
/* Joins the neighbours from `first` to `last`, all held, to one live extent. Returns that extent. */
struct weir__extent *weir__extents_join(struct weir__extents *extents, struct weir__extent *first, struct weir__extent *last);

/* Return whether all statements of this header hold. Both functions look at all extents. */
bool weir__extents_are_valid(const struct weir__extents *extents);
bool weir__extent_stream_is_valid(const struct weir__extents *extents, const struct weir__extent_stream *stream);

#endif
