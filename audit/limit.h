/* SPDX-License-Identifier: MIT */
/*
 * limit.h - estimates how long a call for memory may take while nothing runs on the device. A call that takes longer has waited for a
 * kernel, and is reported as held up.
 *
 * The time of such a call has a fixed part and a part that grows with the bytes. If a call for n bytes took t, a call for m bytes may take
 * t × max(1, m / n). The smallest of these values is the limit for m bytes. A call that takes more than four times its limit was held up:
 * calls vary by less, and a kernel that is worth reporting runs for longer. No value is specific to a machine.
 *
 * The limit for device memory is learned from calls of cudaMalloc, which never waits for a kernel (doc/cuda.md). A free gives back what a
 * cudaMalloc fetched from the device, so frees are judged by the same limit, from the first one on. In this way a program all of whose
 * frees wait is noticed too, which comparing frees with each other would not do. Only those mallocs count that fetched memory from the
 * device, not those that got a piece of memory fetched before. A first piece lies at a multiple of 2 MiB.
 *
 * The limit for page-locked and managed memory is learned from the calls for such memory, all of which may have waited. So the first limit
 * is four times what the process itself needs to get as many pages from the kernel. A call that stays below four times the limit is assumed
 * not to have waited, and lowers the limit.
 *
 * Bounds only fall. Any thread may call these functions, which take no lock.
 */
#ifndef WEIR_AUDIT_LIMIT_H
#define WEIR_AUDIT_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LIMIT_CLASSES 64 /* size classes: powers of two */

struct limit {
    _Atomic uint64_t bounds[LIMIT_CLASSES]; /* nanoseconds for calls of up to 1 << index bytes; UINT64_MAX: nothing is known */
};

void limit_init(struct limit *limit);
/* Lowers the bounds by a call that waited for nothing: it was for `bytes` and took `ns`. */
void limit_learn(struct limit *limit, uint64_t bytes, uint64_t ns);
/* Returns whether a call for `bytes` that took `ns` was held up. Returns false also if nothing is known yet. */
bool limit_is_exceeded(const struct limit *limit, uint64_t bytes, uint64_t ns);
/* Measures what fresh pages of host memory cost, to set the first bounds for page-locked and managed memory. */
void limit_learn_pages(struct limit *limit);

/* Returns whether the cudaMalloc that returned this address fetched memory from the device. */
static inline bool limit_is_fetched(uint64_t address)
{
    return address % (UINT64_C(2) << 20) == 0;
}

#endif
