/* SPDX-License-Identifier: MIT */
/*
 * neighbourhood.h - processes that have memory which they do not use, and others that run out, on the stage (stage.h). The device has 1 GiB;
 * pools grow and shrink by 32 MiB.
 */
#ifndef WEIR_TESTS_NEIGHBOURHOOD_H
#define WEIR_TESTS_NEIGHBOURHOOD_H

#include "tests/share/stage.h"

#define MIB UINT64_C(1048576)

/* keys: of its pool `p`, as in "keep: 64MiB, "; with the deadline, which is longer than any test has patience for. */
const char *policy_with(const char *top, const char *keys);
struct player *enter_with(const char *name, const char *keys);
struct player *enter(const char *name);
/* With a deadline of 8 s. */
struct player *enter_in_a_hurry(const char *name);
void take(struct player *player, const char *block, unsigned mib);
/* The same, where a neighbour did not answer a moment ago, and is not waited for long. */
void take_in_the_end(struct player *player, const char *block, unsigned mib);
/* It keeps so much, and uses none of it. */
void idle(struct player *player, unsigned mib);
struct player *enter_idle(const char *name, unsigned mib);
/* Asks for more than there is. Returns the report. */
const char *run_out(struct player *player, unsigned mib);
void check_pool_holds(struct player *player, const char *pool, unsigned mib);
void check_holds(struct player *player, unsigned mib);
void check_asked(struct player *player, unsigned times, unsigned mib);
void check_rescued(struct player *player, unsigned asks_sent, unsigned mib);
void check_not_rescued(struct player *player);
void check_silent(struct player *player);

#endif
