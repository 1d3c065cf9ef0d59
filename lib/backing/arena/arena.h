/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that Weir maps itself: one range of addresses, divided into a part for requests below 1 MiB and a part for larger ones.
 * Pages move between the parts. The parts are separate because a live block pins its page: the page can neither be moved nor unmapped. So
 * small blocks pin small pages only.
 *
 * page.h says which calls need which lock, and what may go on during a call of the driver. extent.h says what complete and pending extents,
 * a stream and a sequence are.
 */
#ifndef WEIR_LIB_ARENA_H
#define WEIR_LIB_ARENA_H

#include "lib/backing/arena/page.h"

#define WEIR__ARENA_LARGE (UINT64_C(1) << 20) /* bytes of the smallest request of the large part */

struct weir__arena {
    struct weir__pages small, large; /* `large` has the lower three quarters of the range, `small` the upper one */
};

/* The extents that one stream freed in an arena. To be initialized to zero. The owner keeps it until none of these extents is pending. */
struct weir__arena_stream {
    struct weir__extent_stream small, large;
};

/* Bytes of an arena. live + complete + pending = mapped, apart from extents that are held during a call of the driver. */
struct weir__arena_figures {
    uint64_t mapped, live, complete, pending;
};

/* Initializes an arena without pages. base: above 0, a multiple of WEIR__PAGE_UNIT. bytes: a multiple of four units. Returns false if host
   memory runs out; weir__arena_clear() must be called in that case too. */
bool weir__arena_init(struct weir__arena *arena, uint64_t base, uint64_t bytes, const struct weir__page_driver *driver, void *data);
/* Unmaps everything. No thread may use the arena any more. */
void weir__arena_clear(struct weir__arena *arena);

static inline struct weir__pages *weir__arena_part(struct weir__arena *arena, uint64_t bytes)
{
    return bytes < WEIR__ARENA_LARGE ? &arena->small : &arena->large;
}

static inline struct weir__extent_stream *weir__arena_stream_part(struct weir__arena_stream *stream, uint64_t bytes)
{
    return !stream ? NULL : bytes < WEIR__ARENA_LARGE ? &stream->small : &stream->large;
}

/* Takes `bytes` (above 0) from memory that is mapped and free for the stream. Returns NULL if no free extent is large enough, or host
   memory runs out. */
static inline struct weir__extent *weir__arena_take(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t bytes)
{
    struct weir__extents *extents = &weir__arena_part(arena, bytes)->extents;
    if (!weir__extents_reserve(extents, 1))
        return NULL;
    return weir__extents_take(extents, weir__arena_stream_part(stream, bytes), bytes);
}

/* Takes `bytes` as weir__arena_take() does; if no free extent is large enough, maps pages as weir__pages_grow() does. Returns what that
   returns. */
int weir__arena_grow(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t bytes, struct weir__extent **extent);

/* The user of a live extent frees it on the stream, as for weir__extents_give(). */
void weir__arena_give(struct weir__arena *arena, struct weir__extent *extent, struct weir__arena_stream *stream, uint64_t sequence);
/* The stream has completed all its frees up to that sequence: their extents may serve any stream. */
void weir__arena_complete(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t sequence);

/* As weir__extents_pass_on(). */
uint64_t weir__arena_pass_on(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t after, uint64_t sequence,
                             struct weir__arena_stream *to, uint64_t to_sequence);

/* weir__pages_trim() for the large part, then for the small one. */
uint64_t weir__arena_trim(struct weir__arena *arena, uint64_t bytes);

/* weir__pages_pinned() for both parts: sets *bytes to the sum. */
bool weir__arena_pinned(const struct weir__arena *arena, size_t most, uint64_t *bytes);

struct weir__arena_figures weir__arena_figures(const struct weir__arena *arena);

/* Returns whether everything holds that the headers of this folder promise. Called while no call of the driver is under way. */
bool weir__arena_is_valid(const struct weir__arena *arena);

#endif
