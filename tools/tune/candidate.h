/* SPDX-License-Identifier: MIT */
/*
 * candidate.h - one choice of what `weir tune` looks for in one pool, and what its replay came to.
 *
 * Plain values, the owner's.
 */
#ifndef WEIR_TUNE_CANDIDATE_H
#define WEIR_TUNE_CANDIDATE_H

#include "policy/policy.h"
#include "tools/replay/outcome.h"

/* Thresholds that are words. */
#define CANDIDATE_ALL UINT64_MAX        /* everything is kept */
#define CANDIDATE_AUTO (UINT64_MAX - 1) /* the keeper sets it, which the policy then has to have */

struct candidate {
    uint64_t threshold;   /* bytes */
    uint64_t largest;     /* of the caches, bytes; 0: they are off */
    uint64_t per_stream;
    uint64_t small_below; /* bytes */
    uint64_t initial;
    uint64_t max_size; /* bytes; 0: as the policy has it */
    bool is_arena;
};

/* What was tried, and what it came to. */
struct trial {
    struct candidate candidate;
    struct outcome outcome;
};

bool candidate_equals(const struct candidate *a, const struct candidate *b);

/* Assignments as in $WEIR_CONF: these (NULL: none), and those that make the pool so. The caller's to free. */
char *candidate_assignments(const struct candidate *candidate, const char *pool, const char *before);

/* The threshold as a policy has it: bytes without loss, "all" or "auto". */
const char *candidate_threshold(char text[static 32], uint64_t threshold);
/* The same of a number of bytes: "1536MiB". */
const char *candidate_bytes(char text[static 32], uint64_t bytes);

/* As many steps of growth as these bytes need. */
static inline uint64_t candidate_steps(uint64_t bytes)
{
    return (bytes + POLICY_GROWTH_STEP - 1) / POLICY_GROWTH_STEP * POLICY_GROWTH_STEP;
}

#define GAIN_MAX 160
/* "64 MiB less at the peak, 4 ms more of stalls". */
const char *gain_text(char text[static GAIN_MAX], const struct outcome *now, const struct outcome *before);

/* Whether a is as good as b in memory and in time, and better in one of them. */
bool trial_beats(const struct trial *a, const struct trial *b);

#endif
