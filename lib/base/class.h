/* SPDX-License-Identifier: MIT */
/*
 * class.h - size classes: the sizes in which blocks are asked for that a cache may keep, so that requests of like size can share them.
 *
 * Multiples of 512 bytes, CUDA's alignment, up to 4 KiB; above, eight classes for each doubling, so that a block is less than 12.5 % larger
 * than what was asked for. Class 0 is no class: a block of exactly the bytes asked for.
 */
#ifndef WEIR_LIB_CLASS_H
#define WEIR_LIB_CLASS_H

#include <stdint.h>

#define WEIR__CLASS_NONE 0
#define WEIR__CLASS_LARGEST (UINT64_C(64) << 30) /* bytes of the last class */
#define WEIR__CLASS_COUNT 201                    /* with class 0 */

/* The smallest class of at least `size` bytes; WEIR__CLASS_COUNT or more for 0 and for what is above WEIR__CLASS_LARGEST. */
static inline unsigned weir__class_of(uint64_t size)
{
    uint64_t last = size - 1;
    if (last < 4096)
        return (unsigned)(last >> 9) + 1;
    unsigned log = (unsigned)__builtin_clzll(last) ^ 63;
    return (log - 12) * 8 + (unsigned)(last >> (log - 3)) + 1;
}

/* Bytes of each class; 0 of class 0. */
extern const uint64_t weir__class_bytes[WEIR__CLASS_COUNT] __attribute__((visibility("hidden")));
/* What CUDA gave for a block of that class and size: the bytes of the class, or the size where there is none. */
static inline uint64_t weir__class_given(unsigned class, uint64_t size)
{
    return class == WEIR__CLASS_NONE ? size : weir__class_bytes[class];
}

#endif
