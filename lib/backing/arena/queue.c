/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/queue.h"

/* Links the extent into the queue of its stream, between its members `earlier` and `later`, which the caller has set. */
static void link_between(struct weir__extent *extent)
{
    struct weir__extent_stream *stream = extent->stream;
    *(extent->earlier ? &extent->earlier->later : &stream->oldest) = extent;
    *(extent->later ? &extent->later->earlier : &stream->newest) = extent;
}

void weir__queue_add(struct weir__extent *extent)
{
    struct weir__extent_stream *stream = extent->stream;
    struct weir__extent *earlier = stream->newest;
    while (earlier && earlier->sequence > extent->sequence)
        earlier = earlier->earlier;
    extent->earlier = earlier;
    extent->later = earlier ? earlier->later : stream->oldest;
    link_between(extent);
}

void weir__queue_remove(struct weir__extent *extent)
{
    struct weir__extent_stream *stream = extent->stream;
    *(extent->earlier ? &extent->earlier->later : &stream->oldest) = extent->later;
    *(extent->later ? &extent->later->earlier : &stream->newest) = extent->earlier;
}

void weir__queue_split(struct weir__extent *part, struct weir__extent *extent)
{
    part->stream = extent->stream;
    if (!part->stream)
        return;
    part->sequence = extent->sequence;
    part->earlier = extent;
    part->later = extent->later;
    link_between(part);
}

void weir__queue_merge(struct weir__extent *stays, struct weir__extent *goes)
{
    if (!stays->stream)
        return;
    if (goes->sequence <= stays->sequence) {
        weir__queue_remove(goes);
        return;
    }
    weir__queue_remove(stays);
    stays->sequence = goes->sequence;
    stays->earlier = goes->earlier;
    stays->later = goes->later;
    link_between(stays);
}
