/* SPDX-License-Identifier: MIT */
/* place.h - where a request would fit if pages were brought there: neighbours that are holes or may serve it. */
#ifndef WEIR_LIB_PLACE_H
#define WEIR_LIB_PLACE_H

#include "lib/pool/arena/page.h"

/* From an extent on, with so many bytes of it in holes. */
struct weir__place {
    struct weir__extent *first; /* NULL: nowhere */
    uint64_t lack;
};

/* The place that lacks the fewest bytes, of those the lowest. bytes: rounded up to the alignment of extents. */
struct weir__place weir__place_find(struct weir__pages *pages, const struct weir__extent_stream *stream, uint64_t bytes);

#endif
