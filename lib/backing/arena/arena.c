/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/arena.h"

/* Small requests get pages of the smallest size. Their bins are so narrow that nearly every extent of a bin fits a request for that bin. */
static const struct weir__page_sizes small_sizes = {
    .least = 9, .shift = 4, .most = WEIR__PAGE_UNIT, .step = WEIR__PAGE_UNIT, .alone = UINT64_MAX};
static const struct weir__page_sizes large_sizes = {
    .least = 20, .shift = 0, .most = UINT64_C(64) << 20, .step = UINT64_C(4) << 20, .alone = UINT64_C(3) << 20};

bool weir__arena_init(struct weir__arena *arena, uint64_t base, uint64_t bytes, const struct weir__page_driver *driver, void *data)
{
    uint64_t quarter = bytes / 4;
    bool large = weir__pages_init(&arena->large, base, 3 * quarter, &large_sizes, driver, data);
    bool small = weir__pages_init(&arena->small, base + 3 * quarter, quarter, &small_sizes, driver, data);
    arena->large.other = &arena->small;
    arena->small.other = &arena->large;
    return large && small;
}

void weir__arena_clear(struct weir__arena *arena)
{
    weir__pages_clear(&arena->large);
    weir__pages_clear(&arena->small);
}

int weir__arena_grow(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t bytes, struct weir__extent **extent)
{
    return weir__pages_grow(weir__arena_part(arena, bytes), weir__arena_stream_part(stream, bytes), bytes, extent);
}

void weir__arena_give(struct weir__arena *arena, struct weir__extent *extent, struct weir__arena_stream *stream, uint64_t sequence)
{
    bool is_small = extent->address >= arena->small.extents.base;
    struct weir__extent_stream *part = !stream ? NULL : is_small ? &stream->small : &stream->large;
    weir__extents_give(is_small ? &arena->small.extents : &arena->large.extents, extent, part, sequence);
}

void weir__arena_complete(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t sequence)
{
    weir__extents_complete(&arena->small.extents, &stream->small, sequence);
    weir__extents_complete(&arena->large.extents, &stream->large, sequence);
}

uint64_t weir__arena_pass_on(struct weir__arena *arena, struct weir__arena_stream *stream, uint64_t after, uint64_t sequence,
                             struct weir__arena_stream *to, uint64_t to_sequence)
{
    return weir__extents_pass_on(&arena->small.extents, &stream->small, after, sequence, &to->small, to_sequence) +
           weir__extents_pass_on(&arena->large.extents, &stream->large, after, sequence, &to->large, to_sequence);
}

uint64_t weir__arena_trim(struct weir__arena *arena, uint64_t bytes)
{
    uint64_t released = weir__pages_trim(&arena->large, bytes);
    return released < bytes ? released + weir__pages_trim(&arena->small, bytes - released) : released;
}

struct weir__arena_figures weir__arena_figures(const struct weir__arena *arena)
{
    const struct weir__extents *small = &arena->small.extents, *large = &arena->large.extents;
    return (struct weir__arena_figures){
        .mapped = arena->small.mapped_bytes + arena->large.mapped_bytes,
        .live = small->live_bytes + large->live_bytes,
        .complete = small->complete_bytes + large->complete_bytes,
        .pending = small->pending_bytes + large->pending_bytes,
    };
}

bool weir__arena_is_valid(const struct weir__arena *arena)
{
    return weir__pages_are_valid(&arena->small) && weir__pages_are_valid(&arena->large);
}
