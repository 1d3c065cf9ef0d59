/* SPDX-License-Identifier: MIT */
/*
 * figures.h - the counters pool->figures: the bytes that a pool has from CUDA, the bytes of live blocks, and the bytes that requests claim
 * under a cap. All functions use atomic operations only, and need no lock.
 */
#ifndef WEIR_LIB_FIGURES_H
#define WEIR_LIB_FIGURES_H

#include "lib/pool/pool.h"

/* Call weir__claim_begin() before CUDA is asked for `bytes` bytes for a pool with a cap: claims the bytes, so that other requests leave
   room for them. */
enum weir__claim {
    WEIR__CLAIM_GO,      /* the bytes are claimed; weir__claim_end() must follow */
    WEIR__CLAIM_FULL,    /* the bytes do not fit below the cap */
    WEIR__CLAIM_CROWDED, /* the bytes do not fit beside the claims of other requests, some of which may fail */
};
enum weir__claim weir__claim_begin(weir_pool *pool, uint64_t bytes, uint64_t max_size);
/* Ends the claim, once a block that CUDA gave is counted by weir__pool_count_malloc(). */
static inline void weir__claim_end(weir_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.claimed, bytes, memory_order_release);
}

/* Counts a block of `bytes` bytes that CUDA gave for a request of `asked` bytes. */
void weir__pool_count_malloc(weir_pool *pool, uint64_t bytes, uint64_t asked);
/* Counts a live block that went back to CUDA. */
void weir__pool_count_free(const struct weir__block *block);

/* Counts a cached block or an orphan that went back to CUDA. */
static inline void weir__pool_count_spare_gone(weir_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.taken, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pool->figures.spare, (int64_t)bytes, memory_order_relaxed);
}
/* Returns the highest value of `taken` since the last call of this function or of weir_stats_reset_peaks(), and begins anew. */
uint64_t weir__pool_take_high(weir_pool *pool);
/* Counts that the program has `bytes` bytes more of the blocks that Weir has from CUDA (less, if negative); streams report this. */
void weir__pool_count_live(weir_pool *pool, int64_t bytes);

#endif
