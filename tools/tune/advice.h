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
    struct trial best;
};

/* The policy `base` with what was found in place of its values. comment: lines that stand on top of it, without their marks. */
void advice_write(FILE *out, const struct policy *base, const struct finding *findings, size_t count, const char *comment);

#endif
