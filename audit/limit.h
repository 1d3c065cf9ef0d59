/* SPDX-License-Identifier: MIT */
/*
 * limit.h - how long a call for memory may take when nothing runs on the device; what takes longer has waited.
 *
 * The time of such a call is some fixed part and one that grows with the bytes. If one for n bytes took t, another for m bytes may take
 * t × max(1, m / n). The smallest of these is the limit for m bytes, and calls that take more than four times that are said to be held up:
 * a call varies less, and a kernel that is worth a word lasts longer. Nothing here is a number of some machine's.
 *
 * For device memory the calls that count are those of cudaMalloc, which never waits for a kernel (doc/cuda.md): a free, which gives back what
 * a cudaMalloc fetched, is measured by them, from the first on. A program all of whose frees wait is caught so, which no comparison of frees
 * with each other would do. Only mallocs that fetch memory count, not those that get a piece of what another one fetched: the first piece
 * lies at a multiple of 2 MiB.
 *
 * Page-locked and managed memory is measured by its own calls, which may all have waited. So the first limit is what the process itself takes
 * to get as many pages from the kernel, times four; calls that stay below four times the limit are taken for ones that did not wait, and
 * tighten it.
 *
 * Bounds only ever fall. Any thread may call these functions, which take no lock.
 */
#ifndef WEIR_AUDIT_LIMIT_H
#define WEIR_AUDIT_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LIMIT_CLASSES 64 /* of sizes: powers of two */

struct limit {
    _Atomic uint64_t bounds[LIMIT_CLASSES]; /* nanoseconds for up to so many bytes; UINT64_MAX: nothing is known */
};

void limit_init(struct limit *limit);
/* A call that waited for nothing took so long. */
void limit_learn(struct limit *limit, uint64_t bytes, uint64_t ns);
/* Whether a call took longer than it can have without waiting. false also where nothing is known. */
bool limit_is_exceeded(const struct limit *limit, uint64_t bytes, uint64_t ns);
/* Learns what pages cost of which nobody has asked the driver yet. */
void limit_learn_pages(struct limit *limit);

/* Whether the block at that address was fetched by the call that returned it. */
static inline bool limit_is_fetched(uint64_t address)
{
    return address % (UINT64_C(2) << 20) == 0;
}

#endif
