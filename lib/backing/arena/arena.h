/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that Weir maps itself: one range of addresses, in two parts that share what is mapped. Requests below 1 MiB have a part
 * of their own, so that small blocks pin no large pages.
 *
 * page.h says which calls need which lock, and what may go on during a call of the driver. extent.h says what a stream and a sequence are.
 */
#ifndef WEIR_LIB_ARENA_H
#define WEIR_LIB_ARENA_H

#include "lib/backing/arena/page.h"

#define WEIR__ARENA_LARGE (UINT64_C(1) << 20) /* bytes of the smallest request of the large part */

struct weir__arena {
    struct weir__pages small, large; /* `large` has the lower three quarters of the range, `small` the upper one */
};

/* The extents that one stream freed in an arena. Zero-initialise. Its owner keeps it until none of them is pending. */
struct weir__arena_stream {
    struct weir__extent_stream small, large;
};

/* live + complete + pending = mapped, but for what is held during a call of the driver. */
struct weir__arena_figures {
    uint64_t mapped, live, complete, pending; /* bytes */
};

/* base > 0: a multiple of the unit of pages. bytes: a multiple of four units. Returns false without host memory; call clear() also then. */
bool weir__arena_init(struct weir__arena *arena, uint64_t base, uint64_t bytes, const struct weir__page_driver *driver, void *data);
/* Unmaps everything. Precondition: nobody uses the arena any more. */
void weir__arena_clear(struct weir__arena *arena);

static inline struct weir__pages *weir__arena_part(struct weir__arena *arena, uint64_t bytes)
{
    return bytes < WEIR__ARENA_LARGE ? &arena->small : &arena->large;
}

static inline struct weir__extent_stream *weir__arena_stream_part(struct weir__arena_stream *stream, uint64_t bytes)
{
    return !stream ? NULL : bytes < WEIR__ARENA_LARGE ? &stream->small : &stream->large;
}

/* Takes an extent out of memory that is mapped and free. NULL: nothing fits, or no host memory. bytes > 0. */
static inline struct weir__extent *weir__arena_take(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t bytes)
{
    struct weir__extents *extents = &weir__arena_part(arena, bytes)->extents;
    if (!weir__extents_reserve(extents, 1))
        return NULL;
    return weir__extents_take(extents, weir__arena_stream_part(stream, bytes), bytes);
}

/* As weir__arena_take(), and where nothing fits, as weir__pages_grow(). */
int weir__arena_grow(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t bytes, struct weir__extent **extent);

void weir__arena_give(struct weir__arena *arena, struct weir__extent *extent, struct weir__arena_stream *stream, uint64_t sequence);
/* The stream has completed all frees up to the sequence. */
void weir__arena_complete(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t sequence);

/* As weir__extents_pass_on(). */
uint64_t weir__arena_pass_on(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t after, uint64_t sequence,
                             struct weir__arena_stream *to, uint64_t to_sequence);

/* As weir__pages_trim(), the large part first. */
uint64_t weir__arena_trim(struct weir__arena *arena, uint64_t bytes);

/* As weir__pages_pinned(), of both parts. */
bool weir__arena_pinned(const struct weir__arena *arena, size_t most, uint64_t *bytes);

struct weir__arena_figures weir__arena_figures(const struct weir__arena *arena);

/* Whether everything that the headers of this folder say is so. Called while no call of the driver is under way. */
bool weir__arena_is_valid(const struct weir__arena *arena);

#endif
