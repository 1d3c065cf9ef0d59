/* SPDX-License-Identifier: MIT */
/*
 * lend.h - what share/ needs of an exportable pool: lending its blocks to other processes, a descriptor of the pool, and replacing its CUDA
 * pool once none of its blocks is lent. Any thread may call these functions; each takes the locks that it needs.
 */
#ifndef WEIR_LIB_LEND_H
#define WEIR_LIB_LEND_H

#include "lib/pool/weir_internal.h"

/*
 * Lends the live block at ptr to the caller: its user cannot free it until weir__block_return(); weir_free() fails with WEIR_BUSY and says
 * that the block is published. *size gets the block's bytes. Returns WEIR_NOT_A_BLOCK (no live block is there), WEIR_INVALID (the block is
 * another pool's or a graph's, or the pool is not exportable) or WEIR_BUSY (already lent).
 */
weir_status weir__block_lend(weir_pool *pool, void *ptr, weir_error *error, size_t *size);
/* Ends the loan: the user can free the block again. */
void weir__block_return(weir_pool *pool, void *ptr);

/* Returns the bytes of the largest block that may be shared (ipc_max_block). weir_malloc() refuses larger requests and says so. */
uint64_t weir__pool_max_block(const weir_pool *pool);

/*
 * Creates a new CUDA pool with the same settings, puts it in the place of an exportable pool's CUDA pool, and destroys the old one. The old
 * pool's memory goes back once every importer has destroyed its own handle of it. Requests that come during the call wait. *fd gets a
 * descriptor of the new pool, which the caller closes. Returns false, and changes nothing, if a block of the pool is live or cached, if
 * some of its frees are not complete, or if CUDA refuses the new pool.
 */
bool weir__pool_renew(weir_pool *pool, int *fd);

/* Claims the pool for one export, since only one export may renew it. Returns false if another export has claimed the pool. */
bool weir__pool_claim(weir_pool *pool);
void weir__pool_unclaim(weir_pool *pool);

/* Sets *fd to a new descriptor of the pool, which the caller closes. Returns the GPU's code. */
int weir__pool_export(weir_pool *pool, int *fd);

#endif
