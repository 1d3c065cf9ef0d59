/* SPDX-License-Identifier: MIT */
/*
 * grant.h - which part of a pool's cache.per_device each of its streams has.
 *
 * A stream is granted its part in steps, and keeps it while it works, so that only the slow path touches the shared counter. A stream that
 * finds no room is refused: if it took the part of streams as busy as itself, all would lose. But a stream that has kept nothing for a second
 * is idle. A refused call looks for such a stream, gives its cached blocks to CUDA, and with them its part back.
 */
#ifndef WEIR_LIB_GRANT_H
#define WEIR_LIB_GRANT_H

#include "lib/alloc/stream.h"

/* Asks for room for `bytes` more in a stream's cache, which may have `own` at most. Returns whether there is room; *refused is set if
   other streams have what is missing. This and the next function are called with the cache's lock. */
bool weir__grant_ask(weir_pool *pool, struct weir__cache *cache, uint64_t bytes, uint64_t own, bool *refused);

/* Returns the part of the stream beyond `keep` bytes to the pool. */
void weir__grant_return(weir_pool *pool, struct weir__cache *cache, uint64_t keep);

/* A stream of the pool was refused: takes back the part of an idle one, if there is any. With no lock held, in any capture mode. */
void weir__grant_refused(weir_pool *pool, const weir_stream *stream);

#endif
