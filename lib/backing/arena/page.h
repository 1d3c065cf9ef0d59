/* SPDX-License-Identifier: MIT */
/*
 * page.h - the pages under one range of extents: physical memory, mapped where the range lacks it and taken away where nobody needs it.
 *
 * A page is mapped and unmapped as a whole. It is moved to another address rather than made anew, and only if all of it is complete.
 *
 * One thread at a time, which is its owner's business, as with extents. But a driver's call takes long, and what it concerns is held
 * meanwhile, so whoever makes it may let others take, give and complete during it. They must not grow or trim: for that the owner has a
 * second lock, which it keeps.
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
    bool (*is_shortage)(int code); /* whether a call that failed with it could succeed with more memory, or for a smaller page */
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
    uint64_t step;         /* bytes: 1/64 of what is mapped is the smallest growth, but no more than this, */
    uint64_t alone;        /* and but for requests of so many bytes: theirs go back with them, whatever lives beside them */
};

struct weir__pages {
    struct weir__extents extents;
    const struct weir__page_sizes *sizes;
    struct weir__page *map;    /* one for each unit of the range */
    struct weir__pages *other; /* the other range of the arena: pages move from one to the other. NULL: there is none */
    const struct weir__page_driver *driver;
    void *data;
    uint64_t mapped_bytes;                               /* of all pages: live, complete, pending, and held meanwhile */
    uint64_t created_count, moved_count, released_count; /* pages, since the beginning */
    uint64_t looked_count;                               /* holes and free extents that were looked at, since then */
};

/* Nothing is mapped. base > 0, bytes: multiples of the unit. false: no host memory; clear it also then. */
bool weir__pages_init(struct weir__pages *pages, uint64_t base, uint64_t bytes, const struct weir__page_sizes *sizes,
                      const struct weir__page_driver *driver, void *data);
/* Unmaps and releases all pages. Precondition: nobody uses their memory any more. */
void weir__pages_clear(struct weir__pages *pages);

/*
 * Brings pages to where the request fits with the fewest, and serves it: complete pages from elsewhere first, then new ones, and at last
 * those of smaller sizes. It fails for lack of memory only where what the device has and the pages that are complete as a whole, rounded
 * down to units, are too little for the request. Returns 0 and sets *extent; a code of the driver or one of the above otherwise. Then pages
 * that were created for it are released again, and what was complete before may have moved or been released.
 */
int weir__pages_grow(struct weir__pages *pages, struct weir__extent_stream *stream, uint64_t bytes, struct weir__extent **extent);

/* Unmaps and releases complete pages, those of the highest addresses first, until it is so many bytes or there are no more. Returns how
   many it was; a call that fails ends it as well. */
uint64_t weir__pages_trim(struct weir__pages *pages, uint64_t bytes);

/* Bytes that are free in pages in which something is live, so that no trim can give them back. false: to know it, more than so many parts
   of extents would have to be looked at. */
bool weir__pages_pinned(const struct weir__pages *pages, size_t most, uint64_t *bytes);

/* Everything that this header and extent.h say is so, while no call of the driver is under way. */
bool weir__pages_are_valid(const struct weir__pages *pages);

#endif
