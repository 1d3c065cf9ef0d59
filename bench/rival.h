/* SPDX-License-Identifier: MIT */
/*
 * rival.h - an allocator beside others: CUDA's pool, Weir, one of RMM's resources, or cudaMalloc(). All have streams of their own.
 *
 * Each function ends the program if it fails, but for want of memory. One thread makes and closes a rival.
 */
#ifndef WEIR_BENCH_RIVAL_H
#define WEIR_BENCH_RIVAL_H

#include "bench/rmm/rmm.h"
#include "bench/section.h"
#include "bench/sequence.h"

struct rival {
    const char *name;
    struct side side;              /* its streams; its memory too, unless it is one of the next two */
    bool is_malloc;                /* cudaMalloc() */
    const struct rmm_calls *calls; /* RMM's; else NULL */
    struct rmm_resource *resource;
    size_t failures;
};

/* The rivals that the sections about RMM have, in this order; RMM's are there with --rmm alone. */
enum rival_which { RIVAL_RAW, RIVAL_POOLS, RIVAL_ARENA, RIVAL_RMM, RIVAL_COUNT = RIVAL_RMM + 3 };

/* What --rmm names; NULL: nothing was. */
const struct rmm_calls *rival_load(const char *path);
/* How many of RIVAL_COUNT there are. */
size_t rival_count(const struct bench *bench);

/*
 * Opens one of them. bytes: all that it may have (0: no cap). With a cap Weir has config/inference.yaml, which is told to begin with nothing,
 * and to have `backing: arena` for RIVAL_ARENA. Without a cap RIVAL_POOLS has config/inference.yaml as it is, and RIVAL_ARENA a policy that
 * says no more than `backing: arena` and `release_threshold: all`, so that the arena begins with nothing and grows as it must.
 */
void rival_open(struct bench *bench, const char *section, enum rival_which which, uint64_t bytes, size_t streams, struct rival *rival);
void rival_close(struct rival *rival);

static inline bool rival_try(const struct rival *rival, void **block, size_t size)
{
    if (rival->resource)
        return (*block = rival->calls->allocate(rival->resource, size, rival->side.streams[0])) != NULL;
    return rival->is_malloc ? shared_is_room(cudaMalloc(block, size)) : side_try(&rival->side, block, size);
}

static inline void rival_give(const struct rival *rival, void *block, size_t size)
{
    if (rival->resource)
        rival->calls->deallocate(rival->resource, block, size, rival->side.streams[0]);
    else if (rival->is_malloc)
        BENCH_CUDA(cudaFree(block));
    else
        side_give(&rival->side, 0, block);
}

/* So many pairs on the stream of that number: NULL, or what went wrong. */
const char *rival_pairs(const struct rival *rival, size_t nth, size_t size, size_t count);

/* RANDOM_ALLOCATIONS, replayed --------------------------------------------------------------------------------------------------------- */

struct rival_row {
    size_t count;
    uint64_t largest;
    struct sequence sequence;
    void **blocks; /* one for each slot; all NULL between passes */
    size_t *sizes; /* of the blocks */
};

void rival_row_open(struct rival_row *row, size_t count, uint64_t largest, uint64_t seed);
void rival_row_close(struct rival_row *row);
/* The nanoseconds of a pass. Outside them what it left live is freed. A failed allocation counts, and becomes a free. */
uint64_t rival_pass(struct rival *rival, const struct rival_row *row);

#endif
