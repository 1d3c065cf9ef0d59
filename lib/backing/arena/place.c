/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/place.h"

/* The most holes that one search looks at while other threads wait for the lock. Recorded programs have fewer. */
#define HOLES_MOST 256

/* Examines the place that begins with this hole, or with the free extents directly before the hole that the stream may use. *best becomes
   that place if the place is large enough and better than *best. */
static void look_at_hole(const struct weir__extents *extents, struct weir__extent *hole, const struct weir__extent_stream *stream,
                         uint64_t bytes, struct weir__place *best)
{
    struct weir__place place = {.first = hole};
    uint64_t sum = 0;
    while (place.first->before && weir__extent_serves(place.first->before, stream))
        place.first = place.first->before;
    for (const struct weir__extent *extent = place.first; sum < bytes; extent = extent->after) {
        bool is_hole = extent->state == WEIR__EXTENT_HOLE;
        uint64_t part = extent->bytes < bytes - sum ? extent->bytes : bytes - sum;
        sum += part;
        if (is_hole)
            place.lack += weir__page_round(part);
        if ((!is_hole && !weir__extent_serves(extent, stream)) || (extent == &extents->end && sum < bytes))
            return;
    }
    if (!best->first || place.lack < best->lack || (place.lack == best->lack && place.first->address < best->first->address))
        *best = place;
}

/* Looks at more than HOLES_MOST holes only while no place was found at all, since other threads wait for the lock. */
struct weir__place weir__place_find(struct weir__pages *pages, const struct weir__extent_stream *stream, uint64_t bytes)
{
    struct weir__extents *extents = &pages->extents;
    struct weir__place best = {.first = NULL};
    unsigned looked = 0;
    look_at_hole(extents, &extents->end, stream, bytes, &best);
    for (struct weir__extent *hole = extents->holes; hole && (!best.first || looked < HOLES_MOST); hole = hole->later, looked++)
        look_at_hole(extents, hole, stream, bytes, &best);
    pages->looked_count += looked;
    return best;
}
