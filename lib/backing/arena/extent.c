/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/extent.h"

#include <stdlib.h>
#include <string.h>

#include "lib/backing/arena/bin.h"
#include "lib/backing/arena/queue.h"

#define SLAB_LEN 64

struct weir__extent_slab {
    struct weir__extent_slab *next;
    struct weir__extent nodes[SLAB_LEN];
};

/* Nodes ------------------------------------------------------------------------------------------------------------------------------- */

static void add_unused(struct weir__extents *extents, struct weir__extent *node)
{
    node->after = extents->unused;
    extents->unused = node;
    extents->unused_count++;
}

bool weir__extents_reserve_slow(struct weir__extents *extents, size_t count)
{
    while (extents->unused_count < extents->kept_count + count) {
        struct weir__extent_slab *slab = aligned_alloc(_Alignof(struct weir__extent_slab), sizeof *slab);
        if (!slab)
            return false;
        memset(slab, 0, sizeof *slab);
        slab->next = extents->slabs;
        extents->slabs = slab;
        for (size_t i = SLAB_LEN; i > 0; i--)
            add_unused(extents, &slab->nodes[i - 1]);
    }
    return true;
}

/* Inserts an unused node below `extent` and returns it. The caller has reserved the node, and fills in its address, bytes and state. */
static struct weir__extent *insert_before(struct weir__extents *extents, struct weir__extent *extent)
{
    struct weir__extent *node = extents->unused, *before = extent->before;
    extents->unused = node->after;
    extents->unused_count--;
    node->before = before;
    node->after = extent;
    *(before ? &before->after : &extents->first) = node;
    extent->before = node;
    node->stream = NULL;
    node->is_new = false;
    return node;
}

/* Removes a node, which is not `end`, from the range, and adds it to the unused ones. */
static void unlink_node(struct weir__extents *extents, struct weir__extent *node)
{
    *(node->before ? &node->before->after : &extents->first) = node->after;
    node->after->before = node->before;
    add_unused(extents, node);
}

void weir__extents_init(struct weir__extents *extents, uint64_t base, uint64_t bytes, unsigned least, unsigned shift)
{
    memset(extents, 0, sizeof *extents);
    extents->base = base;
    extents->bytes = bytes;
    extents->least = least;
    extents->shift = shift;
    extents->end.address = base;
    extents->end.bytes = bytes;
    extents->end.state = WEIR__EXTENT_HOLE;
    extents->first = &extents->end;
}

void weir__extents_clear(struct weir__extents *extents)
{
    while (extents->slabs) {
        struct weir__extent_slab *slab = extents->slabs;
        extents->slabs = slab->next;
        free(slab);
    }
    extents->unused = NULL;
    extents->unused_count = 0;
}

/* What an extent is part of ------------------------------------------------------------------------------------------------------------ */

/* Returns whether the extent is the last one before `end`. Such an extent is kept out of the bins, since it is used only if nothing else
   fits. */
static bool is_last(const struct weir__extents *extents, const struct weir__extent *extent)
{
    return extent->after == &extents->end;
}

/* Returns whether a free extent belongs in a bin. Extents too small for any request do not. */
static bool is_in_bin(const struct weir__extents *extents, const struct weir__extent *extent)
{
    return !is_last(extents, extent) && extent->bytes >> extents->least;
}

static struct weir__bins *bins_of(struct weir__extents *extents, const struct weir__extent *extent)
{
    return extent->stream ? &extent->stream->bins : &extents->complete;
}

static void add_to_bin(struct weir__extents *extents, struct weir__extent *extent)
{
    if (is_in_bin(extents, extent))
        weir__bin_add(bins_of(extents, extent), weir__bin_of(extents, extent->bytes), extent);
}

static void remove_from_bin(struct weir__extents *extents, struct weir__extent *extent)
{
    if (is_in_bin(extents, extent))
        weir__bin_remove(bins_of(extents, extent), weir__bin_of(extents, extent->bytes), extent);
}

/* Adds `bytes` to the pending bytes of the stream or, if `stream` is NULL, to the complete bytes. A negated value subtracts. */
static void count_free(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t bytes)
{
    if (stream) {
        stream->bytes += bytes;
        extents->pending_bytes += bytes;
    } else {
        extents->complete_bytes += bytes;
    }
}

static void add_hole(struct weir__extents *extents, struct weir__extent *extent)
{
    extent->earlier = NULL;
    extent->later = extents->holes;
    if (extents->holes)
        extents->holes->earlier = extent;
    extents->holes = extent;
}

static void remove_hole(struct weir__extents *extents, struct weir__extent *extent)
{
    *(extent->earlier ? &extent->earlier->later : &extents->holes) = extent->later;
    if (extent->later)
        extent->later->earlier = extent->earlier;
}

/* Merging ------------------------------------------------------------------------------------------------------------------------------ */

/* Returns whether the two neighbours are free extents of the same sort, which are to be merged. */
static bool merges(const struct weir__extent *one, const struct weir__extent *other)
{
    return one->state == WEIR__EXTENT_FREE && other->state == WEIR__EXTENT_FREE && one->stream == other->stream &&
           (!one->stream || !one->stream->keeps_steps || one->sequence == other->sequence);
}

/* Merges the extent into `after`, its upper neighbour. */
static void grow_down(struct weir__extents *extents, struct weir__extent *extent, struct weir__extent *after)
{
    remove_from_bin(extents, after);
    weir__queue_merge(after, extent);
    after->address = extent->address;
    after->bytes += extent->bytes;
    unlink_node(extents, extent);
    add_to_bin(extents, after);
}

/* Merges the extent into `before`, its lower neighbour, together with the upper neighbour if that merges too. */
static void grow_up(struct weir__extents *extents, struct weir__extent *before, struct weir__extent *extent)
{
    struct weir__extent *after = extent->after;
    remove_from_bin(extents, before);
    weir__queue_merge(before, extent);
    before->bytes += extent->bytes;
    if (merges(extent, after)) {
        remove_from_bin(extents, after);
        weir__queue_merge(before, after);
        before->bytes += after->bytes;
        unlink_node(extents, after);
    }
    unlink_node(extents, extent);
    add_to_bin(extents, before);
}

/* Merges a free extent with its neighbours, or adds it to its bin. The extent is in no bin yet, but in the queue of its stream. */
static void settle_free(struct weir__extents *extents, struct weir__extent *extent)
{
    struct weir__extent *before = extent->before;
    if (before && merges(before, extent))
        grow_up(extents, before, extent);
    else if (merges(extent, extent->after))
        grow_down(extents, extent, extent->after);
    else
        add_to_bin(extents, extent);
}

/* Merges a hole with its neighbours, or adds it to the list of holes. The hole is not in the list yet. */
static void settle_hole(struct weir__extents *extents, struct weir__extent *extent)
{
    struct weir__extent *before = extent->before, *after = extent->after;
    if (before && before->state == WEIR__EXTENT_HOLE) {
        remove_hole(extents, before);
        before->bytes += extent->bytes;
        unlink_node(extents, extent);
        extent = before;
    }
    if (after == &extents->end) {
        /* A free extent before the hole now becomes the last one before `end`, which is in no bin. */
        before = extent->before;
        if (before && before->state == WEIR__EXTENT_FREE)
            remove_from_bin(extents, before);
        after->address = extent->address;
        after->bytes += extent->bytes;
        unlink_node(extents, extent);
        return;
    }
    if (after->state == WEIR__EXTENT_HOLE) {
        remove_hole(extents, after);
        extent->bytes += after->bytes;
        unlink_node(extents, after);
    }
    add_hole(extents, extent);
}

/* Taking and giving -------------------------------------------------------------------------------------------------------------------- */

static void make_live(struct weir__extents *extents, struct weir__extent *extent)
{
    extent->state = WEIR__EXTENT_LIVE;
    extents->live_bytes += extent->bytes;
    extents->live_count++;
    extents->taken_count++;
}

/* Takes the lower `bytes` of a free extent, and returns them as a live extent. */
static struct weir__extent *take_from(struct weir__extents *extents, struct weir__extent *extent, uint64_t bytes)
{
    struct weir__extent *taken = extent;
    remove_from_bin(extents, extent);
    count_free(extents, extent->stream, -bytes);
    if (extent->bytes > bytes) {
        taken = insert_before(extents, extent);
        taken->address = extent->address;
        taken->bytes = bytes;
        extent->address += bytes;
        extent->bytes -= bytes;
        add_to_bin(extents, extent);
    } else if (extent->stream) {
        weir__queue_remove(extent);
    }
    make_live(extents, taken);
    return taken;
}

/* Takes the lower `bytes` of several free neighbours, and returns them as one live extent. */
static struct weir__extent *take_run(struct weir__extents *extents, struct weir__extent *first, uint64_t bytes)
{
    uint64_t missing = bytes;
    for (struct weir__extent *extent = first; missing > 0;) {
        struct weir__extent *after = extent->after;
        uint64_t part = extent->bytes < missing ? extent->bytes : missing;
        remove_from_bin(extents, extent);
        count_free(extents, extent->stream, -part);
        missing -= part;
        if (extent != first && part < extent->bytes) {
            extent->address += part;
            extent->bytes -= part;
            add_to_bin(extents, extent);
        } else {
            if (extent->stream)
                weir__queue_remove(extent);
            if (extent != first)
                unlink_node(extents, extent);
        }
        extent = after;
    }
    first->bytes = bytes;
    make_live(extents, first);
    return first;
}

/* Returns the lowest of the neighbours that can serve the stream together with `extent`, a free extent of that stream. Returns NULL if an
   extent of the stream lies below among these neighbours: the search from that one finds the same neighbours. */
static struct weir__extent *run_of(struct weir__extent *extent)
{
    struct weir__extent *before = extent->before;
    if (!before || !weir__extent_serves(before, extent->stream))
        return extent;
    if (before->stream)
        return NULL;
    /* `before` is complete. A complete extent below it would have been merged with it. */
    return before->before && weir__extent_serves(before->before, extent->stream) ? NULL : before;
}

/* Returns the lowest extent from which on free neighbours, at least one of them pending on the stream, have `bytes` for the stream
   together. Returns NULL if there is none. */
static struct weir__extent *find_run(const struct weir__extents *extents, const struct weir__extent_stream *stream, uint64_t bytes)
{
    struct weir__extent *found = NULL;
    if (!stream || stream->bytes + extents->complete_bytes < bytes)
        return NULL;
    for (struct weir__extent *own = stream->oldest; own; own = own->later) {
        struct weir__extent *first = own->state == WEIR__EXTENT_FREE ? run_of(own) : NULL;
        uint64_t sum = 0;
        for (struct weir__extent *extent = first; extent && sum < bytes && weir__extent_serves(extent, stream); extent = extent->after)
            sum += extent->bytes;
        if (first && sum >= bytes && (!found || first->address < found->address))
            found = first;
    }
    return found;
}

struct weir__extent *weir__extents_take(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t bytes)
{
    if (bytes == 0 || bytes > extents->bytes || extents->unused_count <= extents->kept_count)
        return NULL;
    bytes = weir__extent_round(bytes);
    struct weir__extent *found = weir__bin_find(&extents->complete, stream ? &stream->bins : NULL, weir__bin_of(extents, bytes), bytes);
    if (found)
        return take_from(extents, found, bytes);
    struct weir__extent *last = extents->end.before;
    if (last && weir__extent_serves(last, stream) && last->bytes >= bytes)
        return take_from(extents, last, bytes);
    found = find_run(extents, stream, bytes);
    return found ? take_run(extents, found, bytes) : NULL;
}

void weir__extents_give(struct weir__extents *extents, struct weir__extent *extent, struct weir__extent_stream *stream, uint64_t sequence)
{
    extents->live_bytes -= extent->bytes;
    extents->live_count--;
    extent->state = WEIR__EXTENT_FREE;
    extent->stream = stream && sequence > stream->completed ? stream : NULL;
    extent->sequence = sequence;
    count_free(extents, extent->stream, extent->bytes);
    if (extent->stream)
        weir__queue_add(extent);
    settle_free(extents, extent);
}

/* Moves an extent from the queue of its stream to the queue of `to`, as freed with that sequence. If `to` is NULL, the free is complete. */
static void change_stream(struct weir__extents *extents, struct weir__extent *extent, struct weir__extent_stream *to, uint64_t sequence)
{
    bool is_free = extent->state == WEIR__EXTENT_FREE; /* otherwise the extent is HELD: it is in no bin, and its bytes are not counted */
    weir__queue_remove(extent);
    if (is_free) {
        remove_from_bin(extents, extent);
        count_free(extents, extent->stream, -extent->bytes);
        count_free(extents, to, extent->bytes);
    }
    extent->stream = to;
    extent->sequence = sequence;
    if (to)
        weir__queue_add(extent);
    if (is_free)
        settle_free(extents, extent);
}

void weir__extents_complete(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t sequence)
{
    if (sequence > stream->completed)
        stream->completed = sequence;
    while (stream->oldest && stream->oldest->sequence <= sequence)
        change_stream(extents, stream->oldest, NULL, 0);
}

uint64_t weir__extents_pass_on(struct weir__extents *extents, struct weir__extent_stream *stream, uint64_t after, uint64_t sequence,
                               struct weir__extent_stream *to, uint64_t to_sequence)
{
    uint64_t bytes = 0;
    if (to == stream)
        return 0;
    if (to_sequence <= to->completed)
        to = NULL;
    for (struct weir__extent *extent = stream->oldest, *later; extent && extent->sequence <= sequence; extent = later) {
        later = extent->later;
        if (extent->sequence <= after)
            continue;
        bytes += extent->bytes;
        change_stream(extents, extent, to, to_sequence);
    }
    return bytes;
}

/* Holding ------------------------------------------------------------------------------------------------------------------------------ */

/* Splits off the part of the extent above `bytes`, and returns that part. The extent is in no bin and not in the list of holes. If the
   extent is in the queue of a stream, both parts are. */
static struct weir__extent *split(struct weir__extents *extents, struct weir__extent *extent, uint64_t bytes)
{
    struct weir__extent *upper = insert_before(extents, extent->after);
    upper->address = extent->address + bytes;
    upper->bytes = extent->bytes - bytes;
    upper->state = extent->state;
    upper->former = extent->former;
    extent->bytes = bytes;
    weir__queue_split(upper, extent);
    return upper;
}

/* Holds the lowest `bytes` of `end`: `end` then begins above them. */
static struct weir__extent *hold_end(struct weir__extents *extents, uint64_t bytes)
{
    struct weir__extent *end = &extents->end, *last = end->before, *held = insert_before(extents, end);
    held->address = end->address;
    held->bytes = bytes;
    held->state = WEIR__EXTENT_HELD;
    held->former = WEIR__EXTENT_HOLE;
    end->address += bytes;
    end->bytes -= bytes;
    if (last && last->state == WEIR__EXTENT_FREE)
        add_to_bin(extents, last);
    return held;
}

struct weir__extent *weir__extents_hold(struct weir__extents *extents, struct weir__extent *extent, uint64_t address, uint64_t bytes)
{
    if (extent == &extents->end)
        return hold_end(extents, bytes);
    uint8_t former = extent->state;
    struct weir__extent *low = NULL, *high = NULL;
    if (former == WEIR__EXTENT_FREE) {
        remove_from_bin(extents, extent);
        count_free(extents, extent->stream, -bytes);
    } else {
        remove_hole(extents, extent);
        extent->stream = NULL;
    }
    if (address > extent->address) {
        low = extent;
        extent = split(extents, extent, address - extent->address);
    }
    if (extent->bytes > bytes)
        high = split(extents, extent, bytes);
    extent->state = WEIR__EXTENT_HELD;
    extent->former = former;
    extent->is_new = false;
    if (former == WEIR__EXTENT_FREE) {
        if (low)
            add_to_bin(extents, low);
        if (high)
            add_to_bin(extents, high);
    } else {
        if (low)
            add_hole(extents, low);
        if (high)
            add_hole(extents, high);
    }
    return extent;
}

struct weir__extent *weir__extents_cut(struct weir__extents *extents, struct weir__extent *held, uint64_t bytes)
{
    return split(extents, held, bytes);
}

void weir__extents_put(struct weir__extents *extents, struct weir__extent *held)
{
    held->state = held->former;
    if (held->state == WEIR__EXTENT_FREE) {
        count_free(extents, held->stream, held->bytes);
        settle_free(extents, held);
    } else {
        settle_hole(extents, held);
    }
}

struct weir__extent *weir__extents_join(struct weir__extents *extents, struct weir__extent *first, struct weir__extent *last)
{
    for (struct weir__extent *extent = first;;) {
        struct weir__extent *after = extent->after;
        bool is_done = extent == last;
        if (extent->stream)
            weir__queue_remove(extent);
        if (extent != first) {
            first->bytes += extent->bytes;
            unlink_node(extents, extent);
        }
        if (is_done)
            break;
        extent = after;
    }
    make_live(extents, first);
    return first;
}
