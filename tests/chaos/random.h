/* SPDX-License-Identifier: MIT */
/* random.h - numbers that a seed decides. Owned by one thread each. */
#ifndef WEIR_TESTS_CHAOS_RANDOM_H
#define WEIR_TESTS_CHAOS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct chaos_random {
    uint64_t state;
};

/* splitmix64: any seed is good, 0 too. */
static inline uint64_t random_next(struct chaos_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline uint64_t random_below(struct chaos_random *random, uint64_t bound)
{
    return random_next(random) % bound;
}

/* Once in `times` on average. */
static inline bool random_once_in(struct chaos_random *random, uint64_t times)
{
    return random_next(random) % times == 0;
}

#endif
