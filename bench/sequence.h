/* SPDX-License-Identifier: MIT */
/*
 * sequence.h - one recorded run of random allocations and frees, to be replayed against every allocator alike.
 *
 * The rules are those of RMM's benchmark RANDOM_ALLOCATIONS. There are 2N steps. A step allocates a size uniform in [1, max] with 73 %, as
 * long as fewer than N blocks are live and SEQUENCE_LIVE_MAX bytes are not exceeded; any other step frees a random live block. Where
 * nothing is live a step allocates. What is live at the end is for whoever replays the sequence to give back.
 *
 * Pure: the generator is our own, so that a seed means the same sequence on every machine. One thread.
 */
#ifndef WEIR_BENCH_SEQUENCE_H
#define WEIR_BENCH_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQUENCE_LIVE_MAX (UINT64_C(16000) << 20) /* bytes */
#define SEQUENCE_CHANCE 73                        /* per cent */

/* A generator of 64-bit numbers; any state will do. */
uint64_t sequence_random(uint64_t *state);
/* Uniform in [0, bound); bound > 0. */
uint64_t sequence_below(uint64_t *state, uint64_t bound);

/* size > 0: allocate so many bytes into the slot, which is empty. 0: free the slot's block. */
struct sequence_step {
    uint64_t size;
    uint32_t slot;
};

struct sequence {
    size_t step_count;
    struct sequence_step *steps;
    size_t slot_count;       /* slots are 0 … slot_count-1 */
    size_t live_blocks_high; /* most blocks at a time */
    uint64_t live_high;      /* most bytes at a time */
};

/* false: out of memory. *sequence: for sequence_clear(). n, max > 0, and max at most SEQUENCE_LIVE_MAX. */
bool sequence_record(struct sequence *sequence, size_t n, uint64_t max, uint64_t seed);
void sequence_clear(struct sequence *sequence);

/*
 * The step, after `step`, at which a block that is live now is freed, for an allocator that has no room at `step`: "a failed allocation
 * becomes a free". blocks: one pointer for each slot, NULL where there is none. step_count if no live block is freed later.
 */
size_t sequence_next_free(const struct sequence *sequence, size_t step, void *const *blocks);

#endif
