/* SPDX-License-Identifier: MIT */
/*
 * lend.h - what share/ needs of an exportable pool: lending its blocks to other processes, a descriptor of the pool, and a new CUDA pool in
 * place of the old one once nothing is lent.
 */
#ifndef WEIR_LIB_LEND_H
#define WEIR_LIB_LEND_H

#include "lib/pool/weir_internal.h"

/*
 * Lends the live block at ptr, of this pool, to the caller: its user can no longer free it (WEIR_BUSY, "is published: withdraw it").
 * *size: its bytes. WEIR_NOT_A_BLOCK, WEIR_INVALID (another pool's, or a graph's; the pool is not exportable), WEIR_BUSY (lent already).
 */
weir_status weir__block_lend(weir_pool *pool, void *ptr, weir_error *error, size_t *size);
/* Gives a lent block back to its user. */
void weir__block_return(weir_pool *pool, void *ptr);

/* Bytes of the largest block that may be shared (ipc_max_block); requests above it are refused by weir_malloc() with the reason. */
uint64_t weir__pool_max_block(const weir_pool *pool);

/*
 * Destroys the CUDA pool of an exportable pool and makes a new one in its place, with the same settings: so its memory goes back, once
 * every importer has destroyed its own. false: nothing was done, since something of it is live, has frees pending, or CUDA refused.
 * Requests meanwhile wait. *fd: a descriptor of the new pool, the caller's.
 */
bool weir__pool_renew(weir_pool *pool, int *fd);

/* Claims the pool for an export, since only one may renew it. Returns false if another export has the pool. */
bool weir__pool_claim(weir_pool *pool);
void weir__pool_unclaim(weir_pool *pool);

/* A new descriptor of the pool (the caller's). */
int weir__pool_export(weir_pool *pool, int *fd);

#endif
