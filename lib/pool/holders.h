/* SPDX-License-Identifier: MIT */
/* holders.h - who holds memory: the live blocks of a weir, put together by their pool, origin and size. Nothing is kept. */
#ifndef WEIR_LIB_HOLDERS_H
#define WEIR_LIB_HOLDERS_H

#include "lib/pool/weir_internal.h"

struct weir__holder {
    const weir_pool *pool;
    uint32_t origin;
    uint64_t size;   /* bytes that each was asked with */
    uint64_t blocks; /* how many there are */
    const void *ptr; /* one of them */
};

/*
 * *holders: an array to be freed, those with the most bytes first. device: WEIR__EVERY_DEVICE, or one. most: how many live blocks are worth
 * the time; where there are more, *count is 0. Blocks of graphs are left out. false: no host memory.
 */
bool weir__holders_find(weir *w, int device, size_t most, struct weir__holder **holders, size_t *count);

#endif
