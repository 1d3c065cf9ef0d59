/* SPDX-License-Identifier: MIT */
/*
 * arena_internal.h - what the files of an arena know of each other: its pages by the driver, and what one stream freed in it.
 *
 * A stream is owned by its arena, from its first free until it is not open any more and nothing of it is pending. It is made, changed and
 * looked at under mapped->events, but for what mapped->lock guards as well.
 */
#ifndef WEIR_LIB_BACKING_ARENA_INTERNAL_H
#define WEIR_LIB_BACKING_ARENA_INTERNAL_H

#include "lib/backing/arena.h"

/* Pages: made, mapped, unmapped and released, and those that the driver did not take back. Called with mapped->growing, and but for the
   second function with mapped->lock, which is let go of during the driver's calls. */

extern const struct weir__page_driver weir__mapped_pages __attribute__((visibility("hidden")));

/* Releases again what the driver did not take back. */
void weir__mapped_release_left(struct weir__mapped *mapped);

/* Streams. */

/* Bytes of all pages, and of those that the driver did not take back. Called with mapped->lock. */
static inline uint64_t weir__mapped_bytes(const struct weir__mapped *mapped)
{
    return mapped->arena.small.mapped_bytes + mapped->arena.large.mapped_bytes + mapped->left_bytes;
}

/* An event of Weir's own. */
struct weir__mapped_mark {
    gpu_event event; /* NULL until first used */
    uint64_t covers; /* the sequence of the last free before it; 0: it is not in use */
};

struct weir__mapped_stream {
    struct weir__link link; /* in mapped->streams; guarded by mapped->lock too */
    gpu_stream handle; /* good while is_open and its context is alive, and during calls of its user */
    struct gpu_context context; /* since it is open */
    int device;  /* of the stream */
    uint64_t id; /* 0: no other call is on the stream of this one */
    bool is_open;   /* changed under mapped->lock too */
    bool may_capture; /* it captured when it was closed: nobody can ask it whether it still does */
    unsigned users; /* threads that have it in their hands without mapped->events. Guarded by mapped->lock, as are the next three */
    struct weir__arena_stream freed;
    uint64_t sequence;  /* of its last free */
    uint64_t uncovered; /* bytes freed since an event was recorded last */
    /* The one that is looked at, and one behind all later frees, in use only while the first is. The spare is recorded for the next: if
       that fails, the others still say what they said. */
    struct weir__mapped_mark first, later;
    gpu_event spare;
    bool was_asked; /* the request that borrows has asked it already */
};

static inline uint64_t weir__mapped_stream_pending(const struct weir__mapped_stream *stream)
{
    return stream->freed.small.bytes + stream->freed.large.bytes;
}

/* Called with mapped->lock. NULL: there is none. */
struct weir__mapped_stream *weir__mapped_stream_find(const struct weir__mapped *mapped, uint64_t id);
/* The same under mapped->events alone; it makes one where there is none. NULL: no host memory. */
struct weir__mapped_stream *weir__mapped_stream_of(struct weir__mapped *mapped, const struct weir__mapped_user *user);
/* It is not open any more. It may be gone then. */
void weir__mapped_stream_close(struct weir__mapped *mapped, struct weir__mapped_stream *stream);
/* Gives one back whose memory is all complete, unless it is open or in use. */
void weir__mapped_stream_drop(struct weir__mapped *mapped, struct weir__mapped_stream *stream);

/* Records an event behind all work of the stream, which is alive. Returns the waist's code, GPU_CAPTURE_UNSUPPORTED where it captures. */
int weir__mapped_stream_record(struct weir__mapped *mapped, struct weir__mapped_stream *stream);
/* The same behind all work of its device, for a stream that is lost. false: there is no event. */
bool weir__mapped_stream_record_lost(struct weir__mapped *mapped, struct weir__mapped_stream *stream);
/* What was recorded stands for all frees up to this sequence, which were made before. */
void weir__mapped_stream_mark(struct weir__mapped_stream *stream, uint64_t sequence);
/* Both, for all that the stream has freed, if it is open, or is_alive: the caller knows. Returns the last event that there is, if any. */
const struct weir__mapped_mark *weir__mapped_stream_cover(struct weir__mapped *mapped, struct weir__mapped_stream *stream, bool is_alive);

/* Its frees up to the sequence are complete. */
void weir__mapped_stream_complete(struct weir__mapped *mapped, struct weir__mapped_stream *stream, uint64_t sequence);
/* Whether the stream is not open nor may capture, and something that it freed has no event. */
bool weir__mapped_stream_is_lost(struct weir__mapped *mapped, const struct weir__mapped_stream *stream);
/* Asks the stream's events. Returns whether one of them is not complete. */
bool weir__mapped_stream_look(struct weir__mapped *mapped, struct weir__mapped_stream *stream);

/* Calls `use` with each stream, until it returns false. Streams may be dropped meanwhile. */
void weir__mapped_streams_visit(struct weir__mapped *mapped, bool (*use)(struct weir__mapped_stream *stream, void *data), void *data);

#endif
