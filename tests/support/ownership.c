/* SPDX-License-Identifier: MIT */
#include "tests/support/ownership.h"

#include <stdatomic.h>
#include <stdint.h>

#define GRANULE 9 /* bits of an address within what one bit stands for */
#define REGION 21 /* bits of an address within a region */
#define WORDS (1 << (REGION - GRANULE - 6))
#define REGIONS (1 << 18) /* a power of two: 512 GiB of addresses, since a pool that grows again may do so elsewhere */

static struct region {
    _Atomic uintptr_t key; /* the address of the region, or 0 */
    _Atomic uint64_t words[WORDS];
} regions[REGIONS];

static atomic_bool is_full;

/* The region with that address, added if there is none yet. NULL: there is no room. */
static struct region *find(uintptr_t key)
{
    size_t at = (size_t)((key >> REGION) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    for (size_t tries = 0; tries < REGIONS; tries++) {
        struct region *region = &regions[(at + tries) % REGIONS];
        uintptr_t seen = atomic_load_explicit(&region->key, memory_order_acquire);
        if (seen == key || (!seen && (atomic_compare_exchange_strong(&region->key, &seen, key) || seen == key)))
            return region;
    }
    atomic_store(&is_full, true);
    return NULL;
}

/* The bits from `first` to before `end` that are in word `at`. */
static uint64_t mask(size_t first, size_t end, size_t at)
{
    size_t from = first > at * 64 ? first - at * 64 : 0, to = end < at * 64 + 64 ? end - at * 64 : 64;
    return (to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1) & ~((UINT64_C(1) << from) - 1);
}

/* Makes all bits of a block `claimed`; false if some were so before. */
static bool change(const void *ptr, size_t size, bool claimed)
{
    uintptr_t begin = (uintptr_t)ptr >> GRANULE, end = ((uintptr_t)ptr + size + (1 << GRANULE) - 1) >> GRANULE;
    bool right = true;
    while (begin < end) {
        uintptr_t base = begin >> (REGION - GRANULE) << (REGION - GRANULE);
        uintptr_t stop = base + (UINT64_C(1) << (REGION - GRANULE));
        size_t first = (size_t)(begin - base), last = (size_t)((end < stop ? end : stop) - base);
        struct region *region = find(base << GRANULE);
        if (!region)
            return true;
        for (size_t at = first / 64; at * 64 < last; at++) {
            uint64_t bits = mask(first, last, at);
            uint64_t before = claimed ? atomic_fetch_or(&region->words[at], bits) : atomic_fetch_and(&region->words[at], ~bits);
            right = right && (before & bits) == (claimed ? 0 : bits);
        }
        begin = base + last;
    }
    return right;
}

bool ownership_claim(const void *ptr, size_t size)
{
    return change(ptr, size, true);
}

bool ownership_give_up(const void *ptr, size_t size)
{
    return change(ptr, size, false);
}

bool ownership_is_full(void)
{
    return atomic_load(&is_full);
}
