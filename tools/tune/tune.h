/* SPDX-License-Identifier: MIT */
/*
 * tune.h - one call of `weir tune`: what it looks for, what it searched on, and what it found.
 *
 * The command's own; what shows and measures it only reads it.
 */
#ifndef WEIR_TUNE_TUNE_H
#define WEIR_TUNE_TUNE_H

#include "tools/replay/machine.h"
#include "tools/tune/division.h"

#define TUNE_POOLS_MAX 3 /* pools that are searched, those with the most memory */

struct tune {
    struct script script;
    struct machine machine;
    const char *base_name;
    char *base_text, *text; /* the policy to begin with; the same with devices by their numbers */
    struct policy *base;
    struct replay base_replay; /* of the whole trace under it, on the machine */
    uint64_t memory;
    enum goal goal;
    size_t split;      /* operations that are searched on; the rest is kept aside */
    uint64_t searched; /* requests among them */
    struct search searches[TUNE_POOLS_MAX];
    struct finding findings[TUNE_POOLS_MAX + 1]; /* behind `count`: the pool that a part of the first one has, if it is divided */
    char *fixed[TUNE_POOLS_MAX + 1]; /* what was found for the pools before */
    size_t count;                    /* of pools that were searched */
    struct division division;        /* of the first of them */
    struct trial one;                /* what was found for it without that, */
    struct outcome undivided;        /* and what that comes to with the other pools */
    struct outcome in_force, chosen;             /* on what was searched on */
    struct trial cuda; /* what CUDA does without a policy */
    bool has_cuda;     /* that could be replayed, and compares with what was found */
    struct outcome aside_in_force, aside_chosen; /* and on what was kept aside */
};

/* The replay of the policy that was found. */
struct replay tune_chosen(const struct tune *tune);

/* Writes the policy that was found. */
void tune_write(const struct tune *tune, FILE *out, const char *comment);

/* Words of --for. */
extern const char *const tune_goals[GOAL_BALANCE + 1];

#endif
