/* SPDX-License-Identifier: MIT */
/*
 * pinned.c - counts pinned bytes. A page goes back to the device as a whole, so a live block pins its page: the free bytes of that page
 * cannot go back.
 */
#include "lib/backing/arena/arena.h"

/* The page that the walk over the extents is in. */
struct stay {
    uint64_t end, free; /* end: the address behind the page, 0 before the first page; free: free bytes of the page so far */
    bool is_pinned;
};

/* Begins the page that contains `address`. otherwise: the end to assume if no page is mapped there. */
static void enter_page(struct stay *stay, const struct weir__pages *pages, uint64_t address, uint64_t otherwise)
{
    uint64_t unit = (address - pages->extents.base) / WEIR__PAGE_UNIT;
    const struct weir__page *page = &pages->map[unit];
    uint64_t begin = pages->extents.base + (unit - page->into) * WEIR__PAGE_UNIT;
    /* Another thread may be mapping or unmapping this address; then no page is known here. */
    *stay = (struct stay){.end = page->units ? begin + page->units * WEIR__PAGE_UNIT : otherwise};
}

bool weir__pages_pinned(const struct weir__pages *pages, size_t most, uint64_t *bytes)
{
    struct stay stay = {.end = 0};
    uint64_t sum = 0;
    for (const struct weir__extent *extent = pages->extents.first; extent != &pages->extents.end; extent = extent->after) {
        uint64_t end = weir__extent_end(extent);
        for (uint64_t at = extent->address, next; at < end && extent->state != WEIR__EXTENT_HOLE; at = next) {
            if (!most--)
                return false;
            if (at >= stay.end) {
                sum += stay.is_pinned ? stay.free : 0;
                enter_page(&stay, pages, at, end);
            }
            next = stay.end < end ? stay.end : end;
            stay.is_pinned = stay.is_pinned || extent->state == WEIR__EXTENT_LIVE;
            stay.free += extent->state == WEIR__EXTENT_FREE ? next - at : 0;
        }
    }
    *bytes = sum + (stay.is_pinned ? stay.free : 0);
    return true;
}

bool weir__arena_pinned(const struct weir__arena *arena, size_t most, uint64_t *bytes)
{
    uint64_t small, large;
    if (!weir__pages_pinned(&arena->small, most, &small) || !weir__pages_pinned(&arena->large, most, &large))
        return false;
    *bytes = small + large;
    return true;
}
