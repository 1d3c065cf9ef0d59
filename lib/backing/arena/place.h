/* SPDX-License-Identifier: MIT */
/*
 * place.h - finds the place where a request would fit if missing pages were mapped: a row of neighbouring extents, each of which is a hole
 * or is free for the request's stream. The arena's lock is held (arena.h).
 */
#ifndef WEIR_LIB_PLACE_H
#define WEIR_LIB_PLACE_H

#include "lib/backing/arena/page.h"

/* A row of neighbouring extents that a request would take. */
struct weir__place {
    struct weir__extent *first; /* the extent with the lowest address; NULL: there is no such row */
    uint64_t lack;              /* bytes of the row in holes, rounded up to page units */
};

/* Returns the place for which the fewest bytes have to be mapped; of several such places, the lowest. bytes: rounded up to the alignment of
   extents. */
struct weir__place weir__place_find(struct weir__pages *pages, const struct weir__extent_stream *stream, uint64_t bytes);

#endif
