/* SPDX-License-Identifier: MIT */
/*
 * grant.h - divides a pool's cache.per_device among the caches of its streams. The bytes that a stream's cache may fill are its grant.
 *
 * A grant grows in steps, and stays while the stream works, so that only the slow path touches the shared counter. A stream that finds no
 * room is refused: if busy streams took grants from each other, all would lose their blocks. But a stream that has kept no block for a
 * second is idle. A refused call looks for an idle stream, gives that stream's cached blocks to CUDA, and takes its grant back.
 */
#ifndef WEIR_LIB_GRANT_H
#define WEIR_LIB_GRANT_H

#include "lib/alloc/stream.h"

/* Asks for a larger grant, so that `bytes` more fit into the stream's cache, but for no more than `own` bytes in all. Returns whether they
   fit now; *refused is set if the missing bytes are granted to other streams. This and the next function are called with the cache's
   lock. */
bool weir__grant_ask(weir_pool *pool, struct weir__cache *cache, uint64_t bytes, uint64_t own, bool *refused);

/* Returns the stream's grant beyond `keep` bytes to the pool. */
void weir__grant_return(weir_pool *pool, struct weir__cache *cache, uint64_t keep);

/* Takes back the grant of an idle stream of the pool, if there is one, after `stream` was refused. Call it with no lock held, in any
   capture mode. */
void weir__grant_refused(weir_pool *pool, const weir_stream *stream);

#endif
