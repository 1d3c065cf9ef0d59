/* SPDX-License-Identifier: MIT */
/*
 * valid.c - checks that extents, bins, queues and pages are consistent. Each check looks at everything, so it is for tests and for finding
 * faults.
 */
#include "lib/backing/arena/bin.h"
#include "lib/backing/arena/rest.h"

/* Sums over all extents of a range. */
struct sums {
    uint64_t live, complete, pending, mapped;
    size_t live_count, hole_count, complete_count; /* complete_count: complete extents that are in a bin */
};

/* Trees ------------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether a free extent belongs in a bin: it is neither the last extent of the range nor smaller than the least request. */
static bool is_in_bin(const struct weir__extents *extents, const struct weir__extent *extent)
{
    return extent->after != &extents->end && extent->bytes >> extents->least;
}

/* Checks the tree of one bin: its extents belong to this bin and stream, lie between two addresses and are in order. Adds the number of
   extents to *count. */
static bool is_tree_valid(const struct weir__extents *extents, const struct weir__branch *node, unsigned bin,
                          const struct weir__extent_stream *stream, uint64_t low, uint64_t high, size_t *count)
{
    if (!node)
        return true;
    const struct weir__extent *root = weir__bin_extent(node);
    const struct weir__extent *left = weir__bin_extent(node->left), *right = weir__bin_extent(node->right);
    uint64_t most = root->bytes;
    if (left && left->most > most)
        most = left->most;
    if (right && right->most > most)
        most = right->most;
    ++*count;
    return root->state == WEIR__EXTENT_FREE && root->stream == stream && is_in_bin(extents, root) && root->address >= low &&
           root->address < high && weir__bin_of(extents, root->bytes) == bin && root->most == most &&
           (!left || left->branch.rank <= node->rank) && (!right || right->branch.rank <= node->rank) &&
           is_tree_valid(extents, node->left, bin, stream, low, root->address, count) &&
           is_tree_valid(extents, node->right, bin, stream, root->address + 1, high, count);
}

static bool are_bins_valid(const struct weir__extents *extents, const struct weir__bins *bins, const struct weir__extent_stream *stream,
                           size_t *count)
{
    for (unsigned bin = 0; bin < WEIR__BINS; bin++) {
        bool is_filled = bins->filled[bin / 64] >> bin % 64 & 1;
        if (is_filled != (bins->roots[bin] != NULL) ||
            !is_tree_valid(extents, bins->roots[bin], bin, stream, extents->base, extents->base + extents->bytes, count))
            return false;
    }
    return true;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

/* Checks that the queue has the stream's pending extents in the order of their sequences, and that the bins have the same extents, apart
   from those that are held or belong in no bin. */
bool weir__extent_stream_is_valid(const struct weir__extents *extents, const struct weir__extent_stream *stream)
{
    const struct weir__extent *earlier = NULL;
    uint64_t bytes = 0;
    size_t binned = 0, found = 0;
    for (const struct weir__extent *extent = stream->oldest; extent; earlier = extent, extent = extent->later) {
        bool is_free = extent->state == WEIR__EXTENT_FREE;
        if (extent->stream != stream || extent->earlier != earlier || extent->sequence <= stream->completed ||
            (earlier && earlier->sequence > extent->sequence) ||
            !(is_free || (extent->state == WEIR__EXTENT_HELD && extent->former == WEIR__EXTENT_FREE)))
            return false;
        bytes += is_free ? extent->bytes : 0;
        binned += is_free && is_in_bin(extents, extent);
    }
    return stream->newest == earlier && stream->bytes == bytes && are_bins_valid(extents, &stream->bins, stream, &found) && found == binned;
}

/* Extents ------------------------------------------------------------------------------------------------------------------------------ */

static bool is_extent_valid(const struct weir__extents *extents, const struct weir__extent *extent, struct sums *sums)
{
    const struct weir__extent *after = extent->after;
    if (extent->bytes == 0 || extent->bytes % WEIR__EXTENT_ALIGNMENT || after->before != extent ||
        after->address != weir__extent_end(extent))
        return false;
    switch (extent->state) {
    case WEIR__EXTENT_HOLE:
        sums->hole_count++;
        return after->state != WEIR__EXTENT_HOLE;
    case WEIR__EXTENT_FREE:
        *(extent->stream ? &sums->pending : &sums->complete) += extent->bytes;
        sums->complete_count += !extent->stream && is_in_bin(extents, extent);
        /* Where a stream has kept steps apart, neighbours of different sequences are there. */
        return after->state != WEIR__EXTENT_FREE || after->stream != extent->stream ||
               (extent->stream && after->sequence != extent->sequence);
    case WEIR__EXTENT_LIVE:
        sums->live += extent->bytes;
        sums->live_count++;
        return true;
    default:
        return extent->state == WEIR__EXTENT_HELD && (extent->former == WEIR__EXTENT_HOLE || extent->former == WEIR__EXTENT_FREE);
    }
}

static bool are_holes_valid(const struct weir__extents *extents, size_t count)
{
    const struct weir__extent *earlier = NULL;
    for (const struct weir__extent *hole = extents->holes; hole; earlier = hole, hole = hole->later)
        if (hole->state != WEIR__EXTENT_HOLE || hole->earlier != earlier || count-- == 0)
            return false;
    return count == 0;
}

static bool are_extents_valid(const struct weir__extents *extents, struct sums *sums)
{
    size_t complete = 0;
    const struct weir__extent *extent = extents->first;
    if (extent->before || extent->address != extents->base || extents->end.state != WEIR__EXTENT_HOLE ||
        weir__extent_end(&extents->end) != extents->base + extents->bytes)
        return false;
    for (; extent != &extents->end; extent = extent->after)
        if (!is_extent_valid(extents, extent, sums))
            return false;
    return sums->live == extents->live_bytes && sums->live_count == extents->live_count && sums->complete == extents->complete_bytes &&
           sums->pending == extents->pending_bytes && are_holes_valid(extents, sums->hole_count) &&
           are_bins_valid(extents, &extents->complete, NULL, &complete) && complete == sums->complete_count;
}

bool weir__extents_are_valid(const struct weir__extents *extents)
{
    struct sums sums = {.live = 0};
    return are_extents_valid(extents, &sums);
}

/* Pages -------------------------------------------------------------------------------------------------------------------------------- */

/* The units of the page that was found last: begin <= unit < end. */
struct found {
    uint64_t begin, end;
};

/* Checks that no page lies under a hole, and that pages without a gap lie under any other extent. Two neighbours may share the page where
   they meet. */
static bool are_pages_under(const struct weir__pages *pages, const struct weir__extent *extent, struct found *found)
{
    uint64_t base = pages->extents.base, end = (weir__extent_end(extent) - base + WEIR__PAGE_UNIT - 1) / WEIR__PAGE_UNIT;
    bool is_hole = extent->state == WEIR__EXTENT_HOLE;
    for (uint64_t unit = (extent->address - base) / WEIR__PAGE_UNIT; unit < end; unit++) {
        const struct weir__page *page = &pages->map[unit];
        if (unit >= found->end && page->units > 0)
            *found = (struct found){.begin = unit, .end = unit + page->units};
        if (is_hole ? page->units + page->into > 0 : page->into != unit - found->begin || page->units != found->end - found->begin)
            return false;
        if (page->units > pages->sizes->most / WEIR__PAGE_UNIT || (!is_hole && unit >= found->end))
            return false;
    }
    return !is_hole || (extent->address - base) % WEIR__PAGE_UNIT == 0;
}

bool weir__pages_are_valid(const struct weir__pages *pages)
{
    struct sums sums = {.live = 0};
    struct found found = {.end = 0};
    uint64_t calm_most = pages->extents.taken_count + 2 * WEIR__REST_MISSES * WEIR__REST_REQUESTS;
    if (pages->calm_at > calm_most || pages->extents.taken_count < pages->extents.live_count)
        return false;
    if (!are_extents_valid(&pages->extents, &sums) || sums.live + sums.complete + sums.pending != pages->mapped_bytes)
        return false;
    for (const struct weir__extent *extent = pages->extents.first;; extent = extent->after) {
        if (extent->state == WEIR__EXTENT_HELD || (extent->bytes > 0 && !are_pages_under(pages, extent, &found)))
            return false;
        if (extent == &pages->extents.end)
            return true;
    }
}
