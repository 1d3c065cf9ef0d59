/* SPDX-License-Identifier: MIT */
/* replay.h - a script replayed under several policies, and held beside its recording. */
#ifndef WEIR_REPLAY_REPLAY_H
#define WEIR_REPLAY_REPLAY_H

#include "tools/replay/report.h"

/*
 * Replays under the policy that was recorded, which is called "as recorded", and then under the others: `texts`, with their names. Without any
 * policy at all it is the built-in one. machine: NULL is the GPU of this machine. The report is for replay_end().
 */
struct report replay_under(const struct script *script, const struct machine *machine, const char *const *names, char *const *texts, size_t count);

/* Frees what the report has. EXIT_GOOD, or EXIT_FAILED if one of its policies could not be replayed. */
int replay_end(const struct report *report);

#endif
