/* SPDX-License-Identifier: MIT */
/*
 * part.h - what of a pool's blocks could have a pool of its own: those of one tag, or of the streams of one name.
 *
 * A part is worth a trial if its blocks live much longer than the rest, or much shorter: a block that stays pins the memory around it.
 * Plain values, the owner's; names are the script's. Pure.
 */
#ifndef WEIR_TUNE_PART_H
#define WEIR_TUNE_PART_H

#include "policy/policy.h"
#include "tools/replay/script.h"

#define PARTS_MAX 3  /* that are looked at further, those that mix least */
#define PART_RATIO 2 /* between mean lifetimes: those that are nearer mix */

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

#endif
