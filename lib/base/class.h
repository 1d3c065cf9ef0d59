/* SPDX-License-Identifier: MIT */
/*
 * class.h - size classes. A block that a cache may keep is rounded up to the size of its class, so that a later request of a similar size
 * can have it.
 *
 * The classes are multiples of 512 bytes, CUDA's alignment, up to 4 KiB. Above 4 KiB there are eight classes for each doubling, so that a
 * block is less than 12.5 % larger than the request. Class 0 means that the block has no class: it has exactly the bytes of the request.
 */
#ifndef WEIR_LIB_CLASS_H
#define WEIR_LIB_CLASS_H

#include <stdint.h>

#define WEIR__CLASS_NONE 0
#define WEIR__CLASS_LARGEST (UINT64_C(64) << 30) /* bytes of the last class */
#define WEIR__CLASS_COUNT 201                    /* including class 0 */

/* Returns the smallest class of at least `size` bytes. If `size` is 0 or above WEIR__CLASS_LARGEST, the result is WEIR__CLASS_COUNT or
   more. */
static inline unsigned weir__class_of(uint64_t size)
{
    uint64_t last = size - 1;
    if (last < 4096)
        return (unsigned)(last >> 9) + 1;
    unsigned log = (unsigned)__builtin_clzll(last) ^ 63;
    return (log - 12) * 8 + (unsigned)(last >> (log - 3)) + 1;
}

/* The size of each class in bytes; 0 for class 0. */
extern const uint64_t weir__class_bytes[WEIR__CLASS_COUNT] __attribute__((visibility("hidden")));
/* Returns the bytes that CUDA gave for a block of that class: the size of the class, or `size` if the block has no class. */
static inline uint64_t weir__class_given(unsigned class, uint64_t size)
{
    return class == WEIR__CLASS_NONE ? size : weir__class_bytes[class];
}

#endif
