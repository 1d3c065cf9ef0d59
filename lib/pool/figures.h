/* SPDX-License-Identifier: MIT */
/*
 * figures.h - counting what a pool has from CUDA, what of that users have, and what requests claim under a cap: its part `figures`. No lock is
 * needed.
 */
#ifndef WEIR_LIB_FIGURES_H
#define WEIR_LIB_FIGURES_H

#include "lib/pool/pool.h"

/* Before CUDA is asked for so many bytes under a cap; WEIR__CLAIM_GO is followed by weir__claim_end(). */
enum weir__claim {
    WEIR__CLAIM_GO,
    WEIR__CLAIM_FULL,    /* they do not fit below the cap */
    WEIR__CLAIM_CROWDED, /* they would, but for what others claim and may not get */
};
enum weir__claim weir__claim_begin(weir_pool *pool, uint64_t bytes, uint64_t max_size);
/* What CUDA gave is in the pool's figures. */
static inline void weir__claim_end(weir_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.claimed, bytes, memory_order_release);
}

/* CUDA gave so many bytes for a request that asked for `asked`. */
void weir__pool_count_malloc(weir_pool *pool, uint64_t bytes, uint64_t asked);
/* A live block went back to CUDA. */
void weir__pool_count_free(const struct weir__block *block);

/* A block that no user had went back to CUDA. */
static inline void weir__pool_count_spare_gone(weir_pool *pool, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&pool->figures.taken, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pool->figures.spare, (int64_t)bytes, memory_order_relaxed);
}
/* The most that `taken` was since this was asked last; weir_stats_reset_peaks() makes it start anew, too. */
uint64_t weir__pool_take_high(weir_pool *pool);
/* A stream tells that users have so many bytes more, or less, of what Weir has from CUDA. */
void weir__pool_count_live(weir_pool *pool, int64_t bytes);

#endif
