/* SPDX-License-Identifier: MIT */
/*
 * verify.h - `weir tune --verify`: replays the chosen policy and its rivals on the GPU, and holds what that took beside what was predicted.
 *
 * The rivals are the next best policy on the front and the one in force. A round has a replay of each, in a process of its own.
 */
#ifndef WEIR_TUNE_VERIFY_H
#define WEIR_TUNE_VERIFY_H

#include "tools/common/json.h"
#include "tools/tune/tune.h"

#define VERIFY_ROUNDS 3

enum { VERIFY_CHOSEN, VERIFY_IN_FORCE, VERIFY_NEXT_BEST, VERIFY_COUNT };

/* What the rounds measured: the median, the least and the most. */
struct verify_range {
    uint64_t median, least, most;
};

struct contender {
    const char *name;
    struct replay replay; /* of the policy in force, with another pool if one was divided */
    struct outcome predicted, measured; /* measured: of the last round; where one failed, that one */
    struct verify_range peak, stall;
};

struct verification {
    struct contender contenders[VERIFY_COUNT];
    size_t count;     /* without a next best: one less */
    bool is_measured; /* each of them, in each round */
    char *next_best;  /* its assignments; NULL: there is none */
    char order[512];  /* in what the measured order differs from the predicted one; "": in nothing */
};

/* Whether the trace can be replayed on the GPU at all. false after a complaint. */
bool verify_can(const struct tune *tune);

void verify_run(const struct tune *tune, struct verification *verification);
void verify_free(struct verification *verification);

/* One sentence or two, without a line's end; the caller's to free(). */
char *verify_summary(const struct verification *verification);
void verify_print(const struct verification *verification);
/* A member "verified" of the object that is open. */
void verify_json(struct json *json, const struct verification *verification);

#endif
