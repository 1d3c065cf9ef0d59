/* SPDX-License-Identifier: MIT */
/*
 * give.h - giving memory that this weir has reserved and nobody uses back to the device, for a neighbour that ran out or for an operator.
 */
#ifndef WEIR_LIB_GIVE_H
#define WEIR_LIB_GIVE_H

#include "lib/pool/weir_internal.h"

/*
 * One request to give memory back to the device. One thread does it in steps, none of which waits: it flushes caches, records events behind
 * pending frees, and once these are complete, or the time is up, trims the idle memory of one pool after the other until `wanted` bytes are
 * given. Pools that serve a stream which captures are left alone. The device's figures count the request if is_neighbour.
 */
struct weir__give;
struct weir__give_request {
    int device;          /* -1: every device */
    const char *pool;    /* only the pool of that name; NULL: every pool */
    uint64_t keep;       /* bytes that each pool keeps reserved; WEIR__GIVE_POLICY_KEEP: what its policy says */
    uint64_t wanted;     /* bytes; UINT64_MAX: all that is idle. Never more than is reserved when it begins */
    uint64_t deadline;   /* by weir__service_now(): frees that are pending longer are not waited for */
    bool is_neighbour;
};
#define WEIR__GIVE_POLICY_KEEP (UINT64_MAX - 1)
/* NULL: no host memory. */
struct weir__give *weir__give_begin(weir *w, const struct weir__give_request *request);
/* Does the next step. Returns when the step behind it is due (weir__service_now()), or WEIR__GIVE_DONE after the last one. */
#define WEIR__GIVE_DONE UINT64_MAX
uint64_t weir__give_step(struct weir__give *give);
/* Bytes given so far. */
uint64_t weir__give_bytes(const struct weir__give *give);
void weir__give_end(struct weir__give *give);

/* Bytes of the device that could be given to a neighbour: reserved and not live, without those that policies keep and those that live
   blocks pin in arenas; of CUDA's pools only whole steps. Calls CUDA, waits for nothing. */
uint64_t weir__give_offer(weir *w, int device);

#endif
