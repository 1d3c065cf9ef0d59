/* SPDX-License-Identifier: MIT */
/* place.h - where a request would fit if pages were brought there: neighbours that are holes or may serve it. */
#ifndef WEIR_LIB_PLACE_H
#define WEIR_LIB_PLACE_H

#include "lib/backing/arena/page.h"

/* A row of neighbours that a request would take, some of which are holes. */
struct weir__place {
    struct weir__extent *first; /* the lowest; NULL: there is no such row */
    uint64_t lack;              /* bytes of the row that are in holes */
};

/* Finds the place that lacks the fewest bytes, or the lowest of several. bytes: rounded up to the alignment of extents. */
struct weir__place weir__place_find(struct weir__pages *pages, const struct weir__extent_stream *stream, uint64_t bytes);

#endif
