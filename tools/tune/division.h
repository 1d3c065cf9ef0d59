/* SPDX-License-Identifier: MIT */
/*
 * division.h - one pool in two: the parts of the pool that serves most, each tried in a pool of its own with the same settings.
 *
 * At first with those that were found; then the part that gains most with others that no policy of one pool beats.
 * Streams of a name get there by the policy. No policy routes tags, so a tag's requests ask for its pool in the replay, as the program will
 * have to. Bounds and initial size are divided, as both pools together shall have what the one had.
 */
#ifndef WEIR_TUNE_DIVISION_H
#define WEIR_TUNE_DIVISION_H

#include "policy/keys.h"
#include "policy/policy.h"
#include "tools/replay/run.h"
#include "tools/replay/script.h"
#include "tools/tune/advice.h"

#define PARTS_MAX 3  /* that are looked at further, those that mix least */
#define PART_RATIO 2 /* between mean lifetimes: those that are nearer mix */

/*
 * What of a pool's blocks could have a pool of its own: those of one tag, or of the streams of one name. It is worth a trial if its blocks live
 * much longer than the rest, or much shorter: a block that stays pins the memory around it.
 */

/* Blocks of one pool, in what is searched on. */
struct part_sum {
    uint64_t blocks, life; /* life: on average, ns */
    uint64_t peak;         /* live bytes at most */
};

struct part {
    uint16_t label; /* 1 + the place among the labels of the script */
    const char *name;
    bool is_stream; /* else a tag */
    struct part_sum own, rest;
};

/* Those of the pool that mix least with the rest of it, the best first; `until`: operations of the script. Returns how many. */
size_t parts_find(const struct script *script, size_t until, const struct policy *policy, const char *pool,
                  struct part parts[static PARTS_MAX]);

#define DIVISION_LEAST_GAIN 0.01 /* by the goal: a pool more is one more to look after */
#define DIVISION_MORE 8          /* settings that the best part is tried with, beside those that were found */

struct division_trial {
    struct part part;
    struct trial with;      /* of one pool: the settings of both */
    struct replay_part own; /* of a tag */
    char pool[POLICY_NAME_MAX + 1];
    char *values, *text; /* the policy with that pool: as it is, and with devices by their numbers */
    char *assignments;
    struct candidate candidates[2]; /* of the pool that had all, and of the part's */
    struct outcome outcome;
};

struct division {
    struct division_trial trials[PARTS_MAX + DIVISION_MORE];
    size_t count;
    const struct division_trial *chosen; /* NULL: none is better than the one pool */
    struct policy *policy;               /* the chosen one's */
    char *why;                           /* it was chosen, as a comment of several lines without marks */
};

struct tune;

/* What is replayed of it. */
struct replay division_replay(const struct division_trial *trial, const struct tune *tune);

/* The best of those with that part (NULL: of all); NULL: none could be replayed. */
const struct division_trial *division_best(const struct division *division, const struct tune *tune, const struct part *part);

/* Tries the parts of the pool that serves most, once the values of all pools are found; tune->undivided: what they come to together. */
void division_find(struct division *division, const struct tune *tune, void (*progress)(size_t done, size_t count));
void division_free(struct division *division);

/* "stream 'keep'", as people see it. */
struct division_name {
    char chars[288];
};
struct division_name division_name_of(const struct part *part);

#endif
