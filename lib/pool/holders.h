/* SPDX-License-Identifier: MIT */
/*
 * holders.h - finds out what holds a weir's memory: groups the live blocks by pool, origin and size. Nothing is stored between calls.
 */
#ifndef WEIR_LIB_HOLDERS_H
#define WEIR_LIB_HOLDERS_H

#include "lib/pool/weir_internal.h"

/* A group of live blocks with the same pool, origin and size. */
struct weir__holder {
    const weir_pool *pool;
    uint32_t origin;
    uint64_t size;   /* bytes that each block was requested with */
    uint64_t blocks; /* the number of blocks */
    const void *ptr; /* one of them */
};

/*
 * Sets *holders to an array of *count groups, those with the most bytes first; the caller frees it. device: only blocks of that device
 * count, or WEIR__EVERY_DEVICE. most: if there are this many live blocks or more, *holders is NULL and *count is 0, as that would take too
 * long. Blocks of graphs are left out. Returns false if host memory runs out.
 */
bool weir__holders_find(weir *w, int device, size_t most, struct weir__holder **holders, size_t *count);

#endif
