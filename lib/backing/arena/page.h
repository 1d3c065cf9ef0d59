/* SPDX-License-Identifier: MIT */
/*
 * page.h - the pages under one range of extents: physical memory, mapped where the range lacks it and taken away where nobody needs it.
 *
 * A page is mapped and unmapped as a whole. A page of which all is complete is moved to another address rather than made anew.
 *
 * The owner lets one thread at a time in, as with extents. But a call of the driver takes long, and the extents that it concerns are held
 * meanwhile. So the thread that calls the driver may let others take, give and complete extents during the call. Others must not grow or
 * trim: for these the owner has a second lock, which it keeps.
 */
#ifndef WEIR_LIB_PAGE_H
#define WEIR_LIB_PAGE_H

#include "lib/backing/arena/extent.h"

#define WEIR__PAGE_UNIT (UINT64_C(2) << 20) /* the sizes and addresses of pages are multiples of it */

static inline uint64_t weir__page_round(uint64_t bytes)
{
    return (bytes + WEIR__PAGE_UNIT - 1) & -WEIR__PAGE_UNIT;
}

/* What maps memory. Calls return 0 or, having changed nothing, a code of their own, above 0. `data` is the owner's. */
struct weir__page_driver {
    int (*create)(void *data, uint64_t bytes, uint64_t *handle);
    int (*map)(void *data, uint64_t address, uint64_t bytes, uint64_t handle);
    int (*unmap)(void *data, uint64_t address, uint64_t bytes);
    void (*release)(void *data, uint64_t bytes, uint64_t handle);
    bool (*is_shortage)(int code); /* whether a call that failed with this code could succeed with more memory, or for a smaller page */
};

#define WEIR__PAGE_NO_HOST_MEMORY (-1)
#define WEIR__PAGE_NO_ADDRESSES (-2) /* the range has no room for the request, whatever memory there is */

/* What a unit of the range knows of the page that is mapped there. */
struct weir__page {
    uint64_t handle; /* of the page that begins here */
    uint32_t units;  /* of the page; 0: none is mapped here */
    uint32_t into;   /* units of it that lie below this one */
};

/* What requests of a range are like, and how it grows. */
struct weir__page_sizes {
    unsigned least, shift; /* as in struct weir__extents */
    uint64_t most;         /* bytes of the largest page */
    uint64_t step;         /* bytes: the smallest growth is 1/64 of what is mapped, but no more than this */
    uint64_t alone;        /* but requests of so many bytes or more grow by what they lack alone, so that it can go back with them */
};

struct weir__pages {
    struct weir__extents extents;
    const struct weir__page_sizes *sizes;
    struct weir__page *map;    /* one for each unit of the range */
    struct weir__pages *other; /* the other range of the arena: pages move from one to the other. NULL: there is none */
    const struct weir__page_driver *driver;
    void *data;
    uint64_t mapped_bytes;                               /* of all pages: live, complete, pending and held */
    uint64_t created_count, moved_count, released_count; /* pages, since the beginning */
    uint64_t looked_count;                               /* holes and free extents that were looked at, since the beginning */
};

/* Begins with nothing mapped. base > 0, bytes: multiples of the unit. Returns false without host memory; call clear() also then. */
bool weir__pages_init(struct weir__pages *pages, uint64_t base, uint64_t bytes, const struct weir__page_sizes *sizes,
                      const struct weir__page_driver *driver, void *data);
/* Unmaps and releases all pages. Precondition: nobody uses their memory any more. */
void weir__pages_clear(struct weir__pages *pages);

/*
 * Serves a request at the place where it fits with the fewest more pages. Complete pages from elsewhere come there first, then new ones,
 * and at last new ones of smaller sizes. The request fails for lack of memory only if the free memory of the device and the pages that are
 * complete as a whole, rounded down to units, are too little. Returns 0 and sets *extent; else a code of the driver or one of the above. A
 * failed call has released the pages that it created, and may have moved or released pages that were complete before.
 */
int weir__pages_grow(struct weir__pages *pages, struct weir__extent_stream *stream, uint64_t bytes, struct weir__extent **extent);

/* Unmaps and releases complete pages, those of the highest addresses first, until `bytes` are released, there are no more, or a call of the
   driver fails. Returns how many bytes were released. */
uint64_t weir__pages_trim(struct weir__pages *pages, uint64_t bytes);

/* Bytes that are free in pages with a live extent, so that no trim can give them back. Returns false if more than `most` parts of extents
   would have to be looked at. */
bool weir__pages_pinned(const struct weir__pages *pages, size_t most, uint64_t *bytes);

/* Whether everything that this header and extent.h say is so. Called while no call of the driver is under way. */
bool weir__pages_are_valid(const struct weir__pages *pages);

#endif
