/* SPDX-License-Identifier: MIT */
/* number.h - of two numbers the smaller, the larger, and by how much one is above the other. Pure. */
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

/* 0, if a is not above b. */
static inline uint64_t weir__less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

#endif
