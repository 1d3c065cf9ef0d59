/* SPDX-License-Identifier: MIT */
/*
 * bin.h - bins of free extents: for each range of sizes a tree by address, in which the lowest extent that is large enough is found in a
 * few steps.
 *
 * The tree is a treap (treap.h) ordered by address; an extent's rank is a hash of its address. Each node knows the most bytes that any
 * extent in its subtree has. Bins are parts of struct weir__extents and struct weir__extent_stream, and guarded by the owner of those
 * (extent.h).
 */
#ifndef WEIR_LIB_BIN_H
#define WEIR_LIB_BIN_H

#include "lib/backing/arena/extent.h"

/* Returns the bin for extents of this size. Sizes below the least request have bin 0, which stays empty. Above that there are `1 << shift`
   bins for each doubling of the size, and the last bin takes all larger sizes. All extents of one bin are larger than any extent of a lower
   bin. */
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

/* Returns the extent that contains the node; NULL if node is NULL. */
static inline struct weir__extent *weir__bin_extent(const struct weir__branch *node)
{
    return node ? (struct weir__extent *)(uintptr_t)((const char *)node - offsetof(struct weir__extent, branch)) : NULL;
}

void weir__bin_add(struct weir__bins *bins, unsigned bin, struct weir__extent *extent);
void weir__bin_remove(struct weir__bins *bins, unsigned bin, struct weir__extent *extent);
/* Looks for a free extent of at least `bytes`, in the bins from `bin` on. Returns the one with the lowest address in the first bin that has
   such an extent, or NULL if no bin has one. more: NULL, or a second set of bins in which to look as well. */
struct weir__extent *weir__bin_find(const struct weir__bins *bins, const struct weir__bins *more, unsigned bin, uint64_t bytes);

/* Calls `use` for each extent of the bins from `bin` on, bin by bin and by address within a bin, until `use` returns false. Returns false
   if `use` did. */
bool weir__bin_visit(const struct weir__bins *bins, unsigned bin, bool (*use)(struct weir__extent *extent, void *data), void *data);

#endif
