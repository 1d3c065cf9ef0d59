/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "audit/limit.h"

#include <sys/mman.h>

#include "lib/base/number.h"
#include "lib/gpu/clock.h"

#define FACTOR 4
#define PAGES_BYTES (UINT64_C(256) << 10)
#define PAGES_TRIALS 3

/* Returns the exponent of the smallest power of two that is at least `bytes`. */
static unsigned class_of(uint64_t bytes)
{
    return bytes <= 1 ? 0 : (unsigned)(64 - __builtin_clzll(bytes - 1)) % LIMIT_CLASSES;
}

void limit_init(struct limit *limit)
{
    for (unsigned i = 0; i < LIMIT_CLASSES; i++)
        atomic_init(&limit->bounds[i], UINT64_MAX);
}

void limit_learn(struct limit *limit, uint64_t bytes, uint64_t ns)
{
    unsigned class = class_of(bytes);
    for (unsigned i = 0; i < LIMIT_CLASSES; i++) {
        unsigned doublings = i > class ? i - class : 0;
        uint64_t bound = ns >> (63 - doublings) ? UINT64_MAX : ns << doublings, before = atomic_load(&limit->bounds[i]);
        while (bound < before && !atomic_compare_exchange_weak(&limit->bounds[i], &before, bound))
            continue;
    }
}

bool limit_is_exceeded(const struct limit *limit, uint64_t bytes, uint64_t ns)
{
    return ns / FACTOR > atomic_load_explicit(&limit->bounds[class_of(bytes)], memory_order_relaxed);
}

void limit_learn_pages(struct limit *limit)
{
    uint64_t best = UINT64_MAX;
    for (unsigned i = 0; i < PAGES_TRIALS; i++) {
        uint64_t begun = gpu_clock_now();
        void *pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (pages == MAP_FAILED)
            return;
        best = weir__smaller(best, gpu_clock_now() - begun);
        munmap(pages, PAGES_BYTES);
    }
    limit_learn(limit, PAGES_BYTES, FACTOR * best);
}
