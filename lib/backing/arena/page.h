/* SPDX-License-Identifier: MIT */
/*
 * page.h - the pages under one range of extents: physical memory that is mapped where a request needs it and unmapped when nobody does.
 *
 * A page is mapped and unmapped as a whole. A page is complete if all its bytes lie in complete extents (extent.h): it is free, and no work
 * that may still run uses it. Rather than create a new page, growth moves a complete one to another address. A page with a live extent is
 * pinned: it can be neither moved nor unmapped.
 *
 * The owner's lock is held in all calls, as for extents. But a call of the driver takes long. The thread that makes such a call holds the
 * extents concerned (WEIR__EXTENT_HELD) and may release the lock for the time of the call, so that other threads can take, give and
 * complete other extents. Other threads must not grow or trim meanwhile: for these the owner has a second lock, which the thread keeps.
 */
#ifndef WEIR_LIB_PAGE_H
#define WEIR_LIB_PAGE_H

#include "lib/backing/arena/extent.h"

#define WEIR__PAGE_UNIT (UINT64_C(2) << 20) /* sizes and addresses of pages are multiples of a unit, 2 MiB */

static inline uint64_t weir__page_round(uint64_t bytes)
{
    return (bytes + WEIR__PAGE_UNIT - 1) & -WEIR__PAGE_UNIT;
}

/* The functions that map memory. Each returns 0, or a code of its own above 0 if it failed; after a failure nothing has changed. `data`
   belongs to the owner of the pages. */
struct weir__page_driver {
    int (*create)(void *data, uint64_t bytes, uint64_t *handle);
    int (*map)(void *data, uint64_t address, uint64_t bytes, uint64_t handle);
    int (*unmap)(void *data, uint64_t address, uint64_t bytes);
    void (*release)(void *data, uint64_t bytes, uint64_t handle);
    bool (*is_shortage)(int code); /* whether a call that failed with this code could succeed with more memory or a smaller page */
};

#define WEIR__PAGE_NO_HOST_MEMORY (-1)
#define WEIR__PAGE_NO_ADDRESSES (-2) /* the range of addresses has no room for the request, no matter how much memory there is */

/* What the map knows of one unit of the range: the page that is mapped there. */
struct weir__page {
    uint64_t handle; /* the driver's handle, set in the page's first unit only */
    uint32_t units;  /* the page's size in units; 0: no page is mapped here */
    uint32_t into;   /* how many units of the page lie below this one */
};

/* How a range is divided into bins, and how it grows. */
struct weir__page_sizes {
    unsigned least, shift; /* as in struct weir__extents */
    uint64_t most;         /* bytes of the largest page */
    uint64_t step;         /* the smallest growth, in bytes, is 1/64 of what is mapped, but at most this */
    /* Requests of this many bytes or more are served alone: they grow the range only by the bytes that they lack, so that these can go back
       with the block. */
    uint64_t alone;
};

struct weir__pages {
    struct weir__extents extents;
    const struct weir__page_sizes *sizes;
    struct weir__page *map;    /* an element for each unit of the range */
    struct weir__pages *other; /* the other part of the arena, with which pages are exchanged; NULL: there is none */
    const struct weir__page_driver *driver;
    void *data;
    /* The most bytes that were live when a growth began, its request included, since a page was last released. Tells misses (rest.h) from
       the growth of what the program needs. */
    uint64_t live_high;
    uint64_t calm_at;                                    /* the extents.taken_count at which all misses so far are forgotten */
    uint64_t mapped_bytes;                               /* bytes of all pages, whether live, complete, pending or held */
    uint64_t created_count, moved_count, released_count; /* pages created, moved and released so far */
    uint64_t looked_count;                               /* holes and free extents that searches have looked at so far */
};

/* Initializes a range without pages. base (above 0) and bytes: multiples of WEIR__PAGE_UNIT. Returns false if host memory runs out;
   weir__pages_clear() must be called in that case too. */
bool weir__pages_init(struct weir__pages *pages, uint64_t base, uint64_t bytes, const struct weir__page_sizes *sizes,
                      const struct weir__page_driver *driver, void *data);
/* Unmaps and releases all pages. No thread may use their memory any more. */
void weir__pages_clear(struct weir__pages *pages);

/*
 * Serves a request, and maps pages if no free extent is large enough. The request gets the place for which the fewest bytes have to be
 * mapped. Complete pages from other addresses are moved there first, then new pages are created, in the end smaller ones. A range that
 * keeps moving pages (rest.h) creates pages at once, and some more at its end, as long as the device has memory. The request fails for lack
 * of memory only if the free memory of the device and all complete pages, rounded down to units, are too little.
 *
 * Returns 0 and sets *extent, or returns a code of the driver or one of the two above. A call that fails has released the pages that it
 * created, and may have moved or released pages that were complete before.
 */
int weir__pages_grow(struct weir__pages *pages, struct weir__extent_stream *stream, uint64_t bytes, struct weir__extent **extent);

/* Unmaps and releases complete pages, from the highest address down, until `bytes` are released, no complete page is left, or a call of the
   driver fails. Returns the bytes that were released. */
uint64_t weir__pages_trim(struct weir__pages *pages, uint64_t bytes);

/* Sets *bytes to the free bytes in pinned pages, which no trim can give back. Returns false if the walk would have to look at more than
   `most` pieces (the part of one extent in one page). */
bool weir__pages_pinned(const struct weir__pages *pages, size_t most, uint64_t *bytes);

/* Returns whether everything holds that this header and extent.h promise. Called while no call of the driver is under way. */
bool weir__pages_are_valid(const struct weir__pages *pages);

#endif
