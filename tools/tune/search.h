/* SPDX-License-Identifier: MIT */
/*
 * search.h - the search for the values of one pool: candidates, which are plain values, and what the replay of each came to.
 *
 * First a coarse grid; then, around the best so far, each value alone, until nothing better shows itself. Nothing in it is random, so the
 * same trace gives the same answer.
 */
#ifndef WEIR_TUNE_SEARCH_H
#define WEIR_TUNE_SEARCH_H

#include "policy/policy.h"
#include "tools/replay/run.h"

/* Thresholds that are words. */
#define CANDIDATE_ALL UINT64_MAX        /* everything is kept */
#define CANDIDATE_AUTO (UINT64_MAX - 1) /* the keeper sets it, which the policy then has to have */

/* One choice of what is searched in one pool. */
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

enum goal { GOAL_TIME, GOAL_MEMORY, GOAL_BALANCE };

/* For GOAL_BALANCE: stalls of 1 % of the run weigh as much as so many parts of the least peak memory. */
#define GOAL_MEMORY_PER_PERCENT 0.1

struct search {
    /* The caller's. */
    struct replay base; /* what all trials have in common; `until` ends what is searched on */
    const char *fixed; /* assignments that hold in all trials; NULL: none */
    const char *pool;
    uint64_t max_size; /* bytes that the pool may have at most; 0: as the policy has it */
    bool may_be_arena;
    enum goal goal;
    void (*progress)(size_t done, size_t count);
    /* The search's own. */
    struct trial *trials; /* those that could be replayed */
    size_t count, room;
    const char *why; /* nothing could be replayed; the first reason */
    char why_text[1024];
};

/* What CUDA does without a policy. */
extern const struct candidate candidate_of_cuda;

/* NULL: nothing could be replayed, and `why` says why. The search's. */
const struct trial *search_run(struct search *search);
/* The trial of that candidate, which is run unless it was already; NULL: it cannot be replayed. Valid until the next one is run. */
const struct trial *search_try(struct search *search, const struct candidate *candidate);
/* Of those that no other one beats the one that the goal likes best, but for that candidate; NULL: there is no other. */
const struct trial *search_next_best(const struct search *search, const struct candidate *but);
/* Whether the goal likes `a` better than `b`, by the rule by which the search chooses, and by that share (0: by anything). */
bool search_prefers(const struct search *search, const struct outcome *a, const struct outcome *b, double share);
/* The initial size of the candidate, or 0: no policy may have more than its threshold. */
uint64_t search_initial(const struct candidate *candidate);
/* Trials that no other one beats, those with the least memory first; the caller's to free(). */
const struct trial **search_front(const struct search *search, size_t *count);
void search_free(struct search *search);

#endif
