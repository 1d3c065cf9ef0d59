/* SPDX-License-Identifier: MIT */
/*
 * bin.h - bins of free extents: for each range of sizes a tree by address, in which the lowest fitting extent is found in a few steps.
 *
 * The tree is a treap (treap.h) by address, where the rank is a hash of the address. Each node knows the most bytes that an extent below it
 * has.
 */
#ifndef WEIR_LIB_BIN_H
#define WEIR_LIB_BIN_H

#include "lib/backing/arena/extent.h"

/* The bin of so many bytes: 0, which stays empty, below the least request, and from there on `1 << shift` bins for each doubling, as far as
   bins go. What is in a higher bin than another size is larger. */
static inline unsigned weir__bin_of(const struct weir__extents *extents, uint64_t bytes)
{
    uint64_t units = bytes >> extents->least, bin = units;
    unsigned shift = extents->shift;
    if (units >> shift) {
        unsigned log = (unsigned)__builtin_clzll(units) ^ 63;
        bin = ((uint64_t)(log - shift) << shift) + (units >> (log - shift));
    }
    return bin < WEIR__BINS ? (unsigned)bin : WEIR__BINS - 1;
}

/* The extent of a node; NULL of none. */
static inline struct weir__extent *weir__bin_extent(const struct weir__branch *node)
{
    return node ? (struct weir__extent *)(uintptr_t)((const char *)node - offsetof(struct weir__extent, branch)) : NULL;
}

void weir__bin_add(struct weir__bins *bins, unsigned bin, struct weir__extent *extent);
void weir__bin_remove(struct weir__bins *bins, unsigned bin, struct weir__extent *extent);
/* The lowest extent of the first bin, from this one on, that has one of at least so many bytes, of two sets of bins. more: NULL, or the
   second set. NULL: there is none. */
struct weir__extent *weir__bin_find(const struct weir__bins *bins, const struct weir__bins *more, unsigned bin, uint64_t bytes);

/* Calls `use` with each extent of the bins from `bin` on, by bins and addresses, until it returns false. */
bool weir__bin_visit(const struct weir__bins *bins, unsigned bin, bool (*use)(struct weir__extent *extent, void *data), void *data);

#endif
