/* SPDX-License-Identifier: MIT */
/*
 * rest.h - tells whether a range has come to rest, or should grow rather than keep moving pages. The arena's lock is held (arena.h).
 *
 * To move pages takes calls of the driver each time; to map more takes memory, once: rent and purchase. A *miss* is a growth for a request
 * that would fit in complete memory, were that in one place, at a time when no more is live than at an earlier growth. So the program does
 * not need more; its free memory is in the wrong places. A range with few misses moves pages and stays small. A *restless* one has more
 * than WEIR__REST_MISSES: it creates pages instead, and some more at its end, until misses are rare.
 */
#ifndef WEIR_LIB_REST_H
#define WEIR_LIB_REST_H

#include "lib/backing/arena/page.h"

#define WEIR__REST_REQUESTS UINT64_C(1000) /* one miss is forgotten in so many requests */
#define WEIR__REST_MISSES 8

/* Notes that a growth for `bytes` begins. Returns whether the range shall create pages rather than move any: it is restless, and no more
   than half of the memory is free. */
bool weir__rest_note(struct weir__pages *pages, uint64_t bytes);

/* Forgets all misses and what was live: a page went back to the device. */
static inline void weir__rest_forget(struct weir__pages *pages)
{
    pages->live_high = pages->extents.live_bytes;
    pages->calm_at = 0;
}

/* Returns the bytes to create at the end of a restless range once a request is served. */
static inline uint64_t weir__rest_ahead(const struct weir__pages *pages)
{
    return weir__page_round(pages->mapped_bytes / 32);
}

#endif
