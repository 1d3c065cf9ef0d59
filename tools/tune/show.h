/* SPDX-License-Identifier: MIT */
/* show.h - what `weir tune` found, as text and as JSON. */
#ifndef WEIR_TUNE_SHOW_H
#define WEIR_TUNE_SHOW_H

#include "tools/tune/tune.h"
#include "tools/tune/verify.h"

/* What stands on top of the policy, and is printed; verification: NULL if nothing was measured. The caller's to free(). */
char *show_summary(const struct tune *tune, const struct verification *verification);

/* The list of what no other policy beats, for each pool. */
void show_fronts(const struct tune *tune);

void show_json(const struct tune *tune, const struct verification *verification, const char *summary);

#endif
