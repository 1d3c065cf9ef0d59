/* SPDX-License-Identifier: MIT */
/*
 * extent.h - the extents of one range of addresses: which part of it is live, which is free and for whom, and where nothing is mapped.
 *
 * Pure: it touches none of the memory, calls no driver and waits for nothing. One thread at a time: its owner, an arena, has the lock. The
 * range is divided into extents without a gap, linked in the order of their addresses. Neighbours that do not differ are
 * merged: holes, complete extents, and extents that one stream freed. Of the sequences of those the later one counts, so the earlier free
 * serves others later than it could; a stream that keeps steps apart has neighbours of different sequences unmerged instead.
 *
 * A free extent is its stream's until that stream was seen to have completed the free: until then it serves that stream alone, behind the
 * free. After that it is complete, and serves anybody. Streams are told apart by their struct alone; the sequence of a free is any number
 * that does not fall on one stream.
 *
 * Host memory is asked for in weir__extents_reserve() and nowhere else, so that no operation fails half-way.
 */
#ifndef WEIR_LIB_EXTENT_H
#define WEIR_LIB_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/treap.h"

#define WEIR__EXTENT_ALIGNMENT UINT64_C(512) /* of every address and size but those asked for */
#define WEIR__BINS 129

enum weir__extent_state {
    WEIR__EXTENT_HOLE, /* nothing is mapped there */
    WEIR__EXTENT_FREE,
    WEIR__EXTENT_LIVE,
    WEIR__EXTENT_HELD, /* a caller maps or unmaps there: nobody else may touch it, and no neighbour merges with it */
};

struct weir__extent_stream;

struct weir__extent {
    uint64_t address, bytes;
    struct weir__branch branch;          /* in the tree of its bin (bin.h), as is `most` */
    uint64_t most;
    struct weir__extent *before, *after; /* the neighbours; unused nodes are linked by `after` */
    uint8_t state;                       /* enum weir__extent_state */
    uint8_t former;                      /* HELD: the state before, HOLE or FREE, which returns if the caller fails */
    bool is_new;                         /* HELD: its page was created for the growth under way */
    struct weir__extent_stream *stream;   /* FREE, or HELD and FREE before: whose free is not complete; NULL: complete */
    uint64_t sequence;                    /* with a stream: that of its free */
    struct weir__extent *earlier, *later; /* with a stream: in that stream's queue. HOLE: in the list of holes */
} __attribute__((aligned(64)));

/* Free extents by size and address, those of one stream or the complete ones. Zero-initialise. */
struct weir__bins {
    uint64_t filled[WEIR__BINS / 64 + 1]; /* a bit for each bin that has extents */
    struct weir__branch *roots[WEIR__BINS];
};

/* The extents of one range that one stream freed and has not been seen to complete. Zero-initialise. Its owner keeps it until `oldest` is
   NULL. */
struct weir__extent_stream {
    struct weir__bins bins;
    struct weir__extent *oldest, *newest; /* the queue of these extents, in the order of the sequences */
    uint64_t completed;                   /* the highest sequence that was seen complete */
    uint64_t bytes;
    bool keeps_steps; /* from now on neighbours merge only if they have the same sequence */
};

struct weir__extents {
    struct weir__bins complete;
    uint64_t base, bytes;       /* the range */
    unsigned least;             /* no request is below 2 to this power; smaller free extents are in no bin */
    unsigned shift;             /* each doubling has 2 to the power of `shift` bins */
    struct weir__extent end;    /* the last extent of the range: a hole, which may be empty. A free one before it is in no bin */
    struct weir__extent *first; /* the lowest */
    struct weir__extent *holes; /* all holes but `end` */
    struct weir__extent *unused;
    size_t unused_count;
    size_t kept_count; /* unused nodes that are set aside for a growth: not for weir__extents_take() and weir__extents_reserve() */
    struct weir__extent_slab *slabs;
    uint64_t live_bytes, complete_bytes, pending_bytes; /* pending: free and not complete */
    size_t live_count;
};

/* Begins with one hole. base, bytes: multiples of the alignment, and their sum at most 2^63. */
void weir__extents_init(struct weir__extents *extents, uint64_t base, uint64_t bytes, unsigned least, unsigned shift);
/* Frees the nodes. No pointer to one of the extents, in whichever struct, may be used any more. */
void weir__extents_clear(struct weir__extents *extents);

/* Makes sure that there are so many unused nodes. Returns false if there is no host memory. */
bool weir__extents_reserve_slow(struct weir__extents *extents, size_t count) __attribute__((cold));
static inline bool weir__extents_reserve(struct weir__extents *extents, size_t count)
{
    return extents->unused_count >= extents->kept_count + count || weir__extents_reserve_slow(extents, count);
}

static inline uint64_t weir__extent_round(uint64_t bytes)
{
    return (bytes + WEIR__EXTENT_ALIGNMENT - 1) & -WEIR__EXTENT_ALIGNMENT;
}

/*
 * Takes `bytes` for a user on the stream (NULL: on none that is known), from what is complete or the stream's own: the lowest address in
 * the first bin that has a fitting one; else the last free extent of the range; else several that are neighbours. NULL: nothing fits, and
 * nothing changed. bytes: > 0, rounded up to the alignment. Needs 1 node, without which nothing fits.
 */
struct weir__extent *weir__extents_take(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t bytes);
/* The user of a live extent frees it on the stream, with that sequence; stream NULL: the free is complete already. Afterwards the node may
   describe another extent. */
void weir__extents_give(struct weir__extents *extents, struct weir__extent *extent, struct weir__extent_stream *stream, uint64_t sequence);
/* The stream has completed all frees up to the sequence. */
void weir__extents_complete(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t sequence);

/* The stream `to` was made to wait for the frees of `stream` behind `after` and up to `sequence`, and gets there before its own
   `to_sequence`. The pending extents of these frees become `to`'s, as if it had freed them then. Returns their bytes. */
uint64_t weir__extents_pass_on(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t after, uint64_t sequence,
                               struct weir__extent_stream *to, uint64_t to_sequence);

/* Whether the extent is free and may serve a request on the stream. */
static inline bool weir__extent_serves(const struct weir__extent *extent, const struct weir__extent_stream *stream)
{
    return extent->state == WEIR__EXTENT_FREE && (!extent->stream || extent->stream == stream);
}

static inline uint64_t weir__extent_end(const struct weir__extent *extent)
{
    return extent->address + extent->bytes;
}

/* Holds [address, address + bytes) of an extent that is free or a hole; the parts on either side stay what they were. Returns the node of
   the held part. Needs 2 nodes. */
struct weir__extent *weir__extents_hold(struct weir__extents *extents, struct weir__extent *extent, uint64_t address, uint64_t bytes);
/* Cuts a held extent in two behind so many bytes; both are held. Returns the second. Needs 1 node. */
struct weir__extent *weir__extents_cut(struct weir__extents *extents, struct weir__extent *held, uint64_t bytes);
/* A held extent gets the state in `former`, and merges with its neighbours. A caller that mapped memory into a hole has set `former` to
   FREE; one that unmapped a complete extent has set it to HOLE. */
void weir__extents_put(struct weir__extents *extents, struct weir__extent *held);
/* Neighbours, all of them held, become one live extent, which is returned. */
struct weir__extent *weir__extents_join(struct weir__extents *extents, struct weir__extent *first, struct weir__extent *last);

/* Whether everything that this header says is so. Both look at all extents. */
bool weir__extents_are_valid(const struct weir__extents *extents);
bool weir__extent_stream_is_valid(const struct weir__extents *extents, const struct weir__extent_stream *stream);

#endif
