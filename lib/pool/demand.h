/* SPDX-License-Identifier: MIT */
/*
 * demand.h - predicts how many bytes of a pool a program will want again, from the bytes it had in use so far. The keeper asks this for
 * pools with `release_threshold: auto`.
 *
 * Time is divided into epochs. For each epoch the lowest and the highest use are known; their difference is called the swing. The program
 * is expected to want the highest low of the last epochs (the floor) plus the largest swing among the latest of these epochs, but no more
 * than the highest use of all of them. The number of epochs that count is called the patience.
 *
 * Six patiences compete. For each of them the code computes what it would have cost so far, in nanoseconds of calls that wait; idle memory
 * that is kept has a price in nanoseconds too. The patience that breaks even is in force, unless another would have been clearly cheaper.
 *
 * The code only computes. A struct weir__demand is owned by its pool and used by the keeper alone, so it needs no lock.
 */
#ifndef WEIR_LIB_DEMAND_H
#define WEIR_LIB_DEMAND_H

#include <stdint.h>

#define WEIR__DEMAND_EPOCH UINT64_C(500000000) /* nanoseconds */
#define WEIR__DEMAND_EPOCHS 32                 /* the longest patience, in epochs */
#define WEIR__DEMAND_CHOICES 6                 /* patiences of 1, 2, 4, … 32 epochs */

/* What a GiB costs, in nanoseconds. */
struct weir__demand_costs {
    uint64_t grow; /* getting the GiB from the device */
    uint64_t trim; /* giving the GiB back */
    uint64_t rent; /* keeping the GiB idle for an epoch */
};

struct weir__demand {
    struct weir__demand_epoch {
        uint64_t low, high;        /* bytes in use */
    } epochs[WEIR__DEMAND_EPOCHS]; /* a ring: the latest epoch is before `next` */
    unsigned next, count;
    unsigned choice; /* the index of the patience in force */
    struct {
        uint64_t kept; /* bytes that the pool would keep now under this patience */
        uint64_t cost; /* nanoseconds that the patience would have cost; old costs fade */
    } choices[WEIR__DEMAND_CHOICES];
};

void weir__demand_begin(struct weir__demand *demand);
/* Adds an epoch that has ended, with its lowest and its highest use, and chooses the patience again. */
void weir__demand_add(struct weir__demand *demand, uint64_t low, uint64_t high, const struct weir__demand_costs *costs);
/* Returns the bytes that the program is expected to want again. */
uint64_t weir__demand_wanted(const struct weir__demand *demand);
/* Returns the lowest use in the epochs that count for the patience in force. */
uint64_t weir__demand_least(const struct weir__demand *demand);
/* Returns the cost of `bytes`, if a GiB costs `cost`. */
uint64_t weir__demand_cost(uint64_t bytes, uint64_t cost);

#endif
