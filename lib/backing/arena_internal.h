/* SPDX-License-Identifier: MIT */
/*
 * arena_internal.h - what the files of an arena know of it and of each other.
 *
 * Three locks, and the GPU is waited for under none of them but in weir__mapped_wait(): `growing`, of the thread that maps or unmaps;
 * `events`, held over the calls that record and ask events; `lock`, a spin lock that guards extents and the table of streams. No thread has
 * the first two at once, and `lock` is a leaf under both. The driver's calls on pages are made without `lock`.
 */
#ifndef WEIR_LIB_BACKING_ARENA_INTERNAL_H
#define WEIR_LIB_BACKING_ARENA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/backing/arena.h"
#include "lib/backing/arena/arena.h"
#include "lib/base/spin.h"
#include "lib/base/table.h"

#define WEIR__MAPPED_PATIENCE (UINT64_C(1000) * 1000) /* nanoseconds that idle streams may take to come to their last frees */

/* What the driver is doing to one page, call by call, so that the recorder has it as one event. */
struct weir__mapped_turn {
    uint64_t begun;   /* gpu->now() */
    uint64_t created; /* bytes of a page that was made and is not mapped yet; 0: there is none */
};

/* A page that the driver did not take back when it was released. */
struct weir__mapped_left {
    struct weir__mapped_left *next;
    gpu_page handle;
    uint64_t bytes;
    bool was_mapped; /* and is so for the recorder */
};

struct weir__mapped {
    struct weir__backing backing;
    struct weir__backing *captures; /* CUDA's pool beside it, until the arena is closed */
    void *range;                    /* fixed, as the next two */
    uint64_t range_bytes;
    bool has_stream_ids; /* the driver tells streams apart by more than their handles */
    _Atomic uint64_t max_size; /* bytes that may be mapped; 0: no bound. Written under the pool's lock, as the next */
    atomic_bool waits;         /* a stream may be made to wait for another one's free */

    pthread_mutex_t growing;
    int devices[GPU_PAGE_DEVICES_MAX]; /* that have access: its own first. Guarded by growing, like the next four */
    size_t device_count;
    struct weir__recorder *recorder; /* of its weir, until that is closed */
    unsigned record;                 /* its pool's number there */
    struct weir__mapped_turn turn;
    struct weir__mapped_left *left; /* each is released again at the next trim, and before the arena ends */

    pthread_mutex_t events;

    weir__spin lock; /* guards the rest */
    struct weir__arena arena;
    uint64_t mapped_high;
    uint64_t left_bytes; /* of the pages in `left`; the figures have them as mapped and in use by nobody */
    struct weir__table streams; /* by id */
    struct weir__mapped *next_listed; /* of the list of open arenas, or of closed ones; guarded by the lock of arena.c */
};

static inline struct weir__mapped *weir__mapped_of(struct weir__backing *backing)
{
    return (struct weir__mapped *)backing;
}

/* The whole (arena.c) ------------------------------------------------------------------------------------------------------------------ */

/* Waits for all frees that have an event. Call it in relaxed capture mode. */
void weir__mapped_wait(struct weir__mapped *mapped);
/* Unmaps what is complete and idle until `keep` bytes are mapped. patience: nanoseconds that idle streams may take to come to their last
   frees. Returns the bytes. Call it in relaxed capture mode. */
uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience);

/* mapped: with what the driver did not take back. */
struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped);

/* Finds the id of the user's stream, if there can be one. Returns the waist's code, GPU_CAPTURE_UNSUPPORTED where the stream captures. */
int weir__mapped_identify(struct weir__mapped *mapped, struct weir__user *user);

/* As of the table. */
int weir__mapped_serve(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block);
int weir__mapped_extend(struct weir__backing *backing, uint64_t bytes);
int weir__mapped_give(struct weir__backing *backing, void *block, struct weir__extent *extent, struct weir__user *user);

/* Pages (arena_serve.c) ---------------------------------------------------------------------------------------------------------------- */

/* Called with mapped->growing, and but for the second with mapped->lock, which is let go of during the driver's calls. */
extern const struct weir__page_driver weir__mapped_pages __attribute__((visibility("hidden")));

/* Releases again what the driver did not take back. */
void weir__mapped_release_left(struct weir__mapped *mapped);

/* Streams (arena_stream.c) ------------------------------------------------------------------------------------------------------------- */

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

/* What one stream freed, and the events behind that: one that is looked at, and one behind all later frees, which is recorded anew. Owned
   by its arena, from its first free until it is not open any more and nothing of it is pending. Made, changed and looked at under
   mapped->events, but for what mapped->lock guards as well. */
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
struct weir__mapped_stream *weir__mapped_stream_of(struct weir__mapped *mapped, const struct weir__user *user);
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

/* WEIR__TELL_COVER of all open streams, and WEIR__TELL_LOOK. Call them in relaxed capture mode. */
void weir__mapped_cover_all(struct weir__mapped *mapped);
bool weir__mapped_look(struct weir__mapped *mapped);
bool weir__mapped_tell(struct weir__backing *backing, enum weir__tell what, uint64_t id);

#endif
