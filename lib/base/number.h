/* SPDX-License-Identifier: MIT */
/* number.h - minimum, maximum and saturating difference of two numbers. Pure functions. */
#ifndef WEIR_LIB_NUMBER_H
#define WEIR_LIB_NUMBER_H

#include <stdint.h>

static inline uint64_t weir__smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t weir__larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns a - b, or 0 if b is larger than a. */
static inline uint64_t weir__less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

#endif
