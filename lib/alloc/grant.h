/* SPDX-License-Identifier: MIT */
/*
 * grant.h - which part of a pool's cache.per_device each of its streams has.
 *
 * A stream is granted its part in steps, and keeps it while it works, so that the shared counter is met on the slow path only. Who finds no
 * room is refused; it does not rob streams that are as busy as itself, or all would lose. But a stream that has freed nothing into its
 * cache while others were refused often is idle: its blocks go to CUDA, some at a time, and its part to who needs it. If it comes back soon
 * and is refused in its turn, it was not idle but slow: from then on twice as many refusals are waited for.
 */
#ifndef WEIR_LIB_GRANT_H
#define WEIR_LIB_GRANT_H

#include "lib/alloc/stream.h"

/* Asks for room for `bytes` more in a cache that may hold `own` at most. Called with the cache's lock, as is the next. *refused is set if
   other streams have it. */
bool weir__grant_ask(weir_pool *pool, struct weir__cache *cache, uint64_t bytes, uint64_t own, bool *refused);

/* Gives back what was granted beyond `keep` bytes. */
void weir__grant_return(weir_pool *pool, struct weir__cache *cache, uint64_t keep);

/* A stream of the pool was refused: counts that, and once in a while takes something back from an idle stream. With no lock held. */
void weir__grant_refused(weir_pool *pool, weir_stream *stream);

#endif
