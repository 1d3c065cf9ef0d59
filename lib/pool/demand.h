/* SPDX-License-Identifier: MIT */
/*
 * demand.h - what a program will want of a pool again, from what it had in use so far: for `release_threshold: auto`.
 *
 * Time is cut into epochs, of each of which the least and the most use are known. A program is expected to want the largest swing of a
 * short time again, on top of the highest floor of a long time, but no more than the highest peak of the long time. The length of these
 * times is the patience. For each of several patiences the pool reckons what it would have cost so far, in nanoseconds of calls that wait;
 * keeping idle memory has a price in nanoseconds too. The patience that breaks even is in force, unless another would have been clearly
 * cheaper.
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
    uint64_t grow; /* getting it from the device */
    uint64_t trim; /* giving it back */
    uint64_t rent; /* keeping it idle for an epoch */
};

struct weir__demand {
    struct weir__demand_epoch {
        uint64_t low, high;        /* bytes in use */
    } epochs[WEIR__DEMAND_EPOCHS]; /* a ring: the latest epoch is before `next` */
    unsigned next, count;
    unsigned choice; /* the index of the patience in force */
    struct {
        uint64_t kept; /* bytes that the pool would have now under this patience */
        uint64_t cost; /* nanoseconds that the patience would have cost; old costs fade */
    } choices[WEIR__DEMAND_CHOICES];
};

void weir__demand_begin(struct weir__demand *demand);
/* Adds an epoch that has passed, with the least and the most use in it. */
void weir__demand_add(struct weir__demand *demand, uint64_t low, uint64_t high, const struct weir__demand_costs *costs);
/* Bytes that the program is expected to want again. */
uint64_t weir__demand_wanted(const struct weir__demand *demand);
/* The least use in the time that this expectation looks at. */
uint64_t weir__demand_least(const struct weir__demand *demand);
/* What so many bytes cost, at a cost for a GiB. */
uint64_t weir__demand_cost(uint64_t bytes, uint64_t cost);

#endif
