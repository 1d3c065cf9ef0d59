/* SPDX-License-Identifier: MIT */
/* neighbours.h - what the parts of the section `neighbours` have in common. One thread. */
#ifndef WEIR_BENCH_NEIGHBOURS_H
#define WEIR_BENCH_NEIGHBOURS_H

#include "bench/worker.h"

#define NEIGHBOURS_STEP (32 * MIB) /* by which pools grow */

/* Prints the figure that these series make. They are nanoseconds, unless it is wake-ups. */
void neighbours_show(struct bench *bench, const char *name, const struct bench_series *series, size_t count, double value,
                     const char *unit, enum bench_bound bound, double limit);

/* neighbours_rounds.c: two processes that alternate between much and little memory. */
void neighbours_rounds(struct bench *bench);
/* neighbours_costs.c: what it costs to be a neighbour that nobody asks, and to look at them. */
void neighbours_fast_path(struct bench *bench);
void neighbours_ps(struct bench *bench);

#endif
