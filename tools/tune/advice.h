/* SPDX-License-Identifier: MIT */
/* advice.h - the policy that a search found, as a file for people: only what differs from the defaults, with the reason of each value. */
#ifndef WEIR_TUNE_ADVICE_H
#define WEIR_TUNE_ADVICE_H

#include <stdio.h>

#include "policy/policy.h"
#include "tools/tune/search.h"

/* What was found for one pool. The search has to be there still. */
struct finding {
    const struct search *search;
    const char *pool;
    struct trial best;
    struct candidate written; /* what the policy gets: that of best, but for what a pool shares with a part of it */
    const char *why;          /* the pool serves a part of another one, and has its settings: the reason. NULL: each value has its own */
};

/*
 * The policy `base` with what was found in place of its values. divided: the same with the pool of a part; NULL: there is none. comment:
 * lines that stand on top of it, without their marks.
 */
void advice_write(FILE *out, const struct policy *base, const struct policy *divided, const struct finding *findings, size_t count,
                  const char *comment);

#endif
