/* SPDX-License-Identifier: MIT */
/*
 * give.h - memory for a neighbour that ran out, or for an operator: what this weir has reserved and nobody uses.
 */
#ifndef WEIR_LIB_GIVE_H
#define WEIR_LIB_GIVE_H

#include "lib/pool/weir_internal.h"

/*
 * One request to give memory back to the device, done in steps by one thread, so that none of them waits: caches are flushed, what is freed
 * and pending is noted by events, and once these are complete, or time is up, the idle memory of the pools is trimmed, one after the other,
 * until `wanted` bytes are given. Pools that serve a stream which captures are left alone. Counted in the device's figures if is_neighbour.
 */
struct weir__give;
struct weir__give_request {
    int device;          /* -1: every device */
    const char *pool;    /* of that name only; NULL: every pool */
    uint64_t keep;       /* bytes that stay reserved of each pool; UINT64_MAX - 1: what its policy says */
    uint64_t wanted;     /* bytes; UINT64_MAX: all that is idle. Never more than is reserved when it begins */
    uint64_t deadline;   /* weir__service_now(): what is pending longer is not waited for */
    bool is_neighbour;
};
#define WEIR__GIVE_POLICY_KEEP (UINT64_MAX - 1)
/* NULL: no host memory. */
struct weir__give *weir__give_begin(weir *w, const struct weir__give_request *request);
/* Goes on. Returns when it wants to be called next (weir__service_now()); WEIR__GIVE_DONE: it has ended. */
#define WEIR__GIVE_DONE UINT64_MAX
uint64_t weir__give_step(struct weir__give *give);
/* Bytes given so far. */
uint64_t weir__give_bytes(const struct weir__give *give);
void weir__give_end(struct weir__give *give);

/* What could be given of the device to a neighbour: what is reserved and not live, less what is to be kept, less what live blocks pin in
   arenas, and of CUDA's pools in whole steps. Calls CUDA, waits for
   nothing. */
uint64_t weir__give_offer(weir *w, int device);

#endif
