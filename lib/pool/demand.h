/* SPDX-License-Identifier: MIT */
/*
 * demand.h - what a program will want of a pool again, from what it had in use so far: for `release_threshold: auto`.
 *
 * Time is cut into epochs. Of each, the least and the most that was in use are known. What is wanted again is the largest swing of a short
 * time on top of the highest floor of a long time, under the highest peak of the long time. How long these times are, the patience, is
 * weighed: what each of several would have cost so far is reckoned along, in the time of calls that wait. Keeping memory has its price in
 * that coin, too. The one that breaks even is taken, unless another would have been clearly cheaper.
 *
 * Pure reckoning. Owned by its pool; only the keeper uses it.
 */
#ifndef WEIR_LIB_DEMAND_H
#define WEIR_LIB_DEMAND_H

#include <stdint.h>

#define WEIR__DEMAND_EPOCH UINT64_C(500000000) /* nanoseconds */
#define WEIR__DEMAND_EPOCHS 32                 /* the longest patience */
#define WEIR__DEMAND_CHOICES 6                 /* a patience of 1, 2, 4, … epochs */

/* Nanoseconds for a GiB. */
struct weir__demand_costs {
    uint64_t grow; /* having it from the device, */
    uint64_t trim; /* giving it back, */
    uint64_t rent; /* and keeping it for an epoch while nobody uses it */
};

struct weir__demand {
    struct weir__demand_epoch {
        uint64_t low, high;        /* bytes in use */
    } epochs[WEIR__DEMAND_EPOCHS]; /* the latest stands before `next` */
    unsigned next, count;
    unsigned choice; /* of the patience in force */
    struct {
        uint64_t kept; /* bytes that the pool would have now, */
        uint64_t cost; /* and the nanoseconds that it would have cost. Old ones fade */
    } choices[WEIR__DEMAND_CHOICES];
};

void weir__demand_begin(struct weir__demand *demand);
/* One more epoch has passed. */
void weir__demand_add(struct weir__demand *demand, uint64_t low, uint64_t high, const struct weir__demand_costs *costs);
/* Bytes that will be wanted again. */
uint64_t weir__demand_wanted(const struct weir__demand *demand);
/* The least that was in use in the time that counts for that. */
uint64_t weir__demand_least(const struct weir__demand *demand);
/* What so many bytes cost, at a cost for a GiB. */
uint64_t weir__demand_cost(uint64_t bytes, uint64_t cost);

#endif
