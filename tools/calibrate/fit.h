/* SPDX-License-Identifier: MIT */
/* fit.h - the cost of a call out of what it took at several sizes. Pure. */
#ifndef WEIR_CALIBRATE_FIT_H
#define WEIR_CALIBRATE_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/cost.h"

/* What a call took, in nanoseconds, that handled so many bytes. */
struct sample {
    uint64_t size, time;
};

/* The middle one of the numbers, which are put in order. count > 0. */
uint64_t median(uint64_t *numbers, size_t count);

/* The cost that is nearest to all samples, each counted by its relative error; if some cost gives exactly the samples, that one, and of several
   such the one that is the shortest to write. Two samples of different sizes at least, else all is the call's. */
struct gpu_cost fit_cost(const struct sample *samples, size_t count);

#endif
