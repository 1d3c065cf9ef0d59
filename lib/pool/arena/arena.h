/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that Weir maps itself: one range of addresses, in two parts that share what is mapped. Requests below 1 MiB have a part
 * of their own, so that small blocks pin no large pages.
 *
 * Who may call when, and what goes on during a call of the driver: see page.h. extent.h says what a stream and a sequence are.
 */
#ifndef WEIR_LIB_ARENA_H
#define WEIR_LIB_ARENA_H

#include "lib/pool/arena/page.h"

#define WEIR__ARENA_LARGE (UINT64_C(1) << 20) /* bytes of the smallest request of the large part */

struct weir__arena {
    struct weir__pages small, large; /* three quarters of the range are large's, the upper quarter is small's */
};

/* What a stream freed in an arena. Zero-initialise. Its owner keeps it until nothing of it is pending. */
struct weir__arena_stream {
    struct weir__extent_stream small, large;
};

/* live + complete + pending = mapped, but for what is held during a call of the driver. */
struct weir__arena_figures {
    uint64_t mapped, live, complete, pending; /* bytes */
};

/* base > 0, a multiple of the unit of pages; bytes: of four of them. false: no host memory; clear it also then. */
bool weir__arena_init(struct weir__arena *arena, uint64_t base, uint64_t bytes, const struct weir__page_driver *driver, void *data);
/* Unmaps everything. Precondition: nobody uses it any more. */
void weir__arena_clear(struct weir__arena *arena);

static inline struct weir__pages *weir__arena_part(struct weir__arena *arena, uint64_t bytes)
{
    return bytes < WEIR__ARENA_LARGE ? &arena->small : &arena->large;
}

static inline struct weir__extent_stream *weir__arena_stream_part(struct weir__arena_stream *stream, uint64_t bytes)
{
    return !stream ? NULL : bytes < WEIR__ARENA_LARGE ? &stream->small : &stream->large;
}

/* Of what is mapped and free; NULL: there is nothing that fits. bytes > 0. */
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
void weir__arena_pass_on(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t sequence, struct weir__arena_stream *to,
                         uint64_t to_sequence);

/* As weir__pages_trim(), the large part first. */
uint64_t weir__arena_trim(struct weir__arena *arena, uint64_t bytes);

/* As weir__pages_pinned(), of both parts. */
bool weir__arena_pinned(const struct weir__arena *arena, size_t most, uint64_t *bytes);

struct weir__arena_figures weir__arena_figures(const struct weir__arena *arena);

/* Everything that the headers here say is so, while no call of the driver is under way. */
bool weir__arena_is_valid(const struct weir__arena *arena);

#endif
