/* SPDX-License-Identifier: MIT */
/* give.h - gives idle memory of this weir back to the device, when a neighbour (another process) has run out of memory or an operator
   asks. */
#ifndef WEIR_LIB_GIVE_H
#define WEIR_LIB_GIVE_H

#include "lib/pool/weir_internal.h"

/* One request to give memory back to the device. One thread works on it in steps, none of which waits. The steps flush caches, record
   events behind pending frees, and, once these events are complete or the deadline has passed, trim one pool after the other until `wanted`
   bytes are given. Pools of streams that capture are left alone. If is_neighbour is set, the device's figures count the request. */
struct weir__give;
struct weir__give_request {
    int device;          /* -1: every device */
    const char *pool;    /* only the pool of that name; NULL: every pool */
    uint64_t keep;       /* bytes that each pool keeps reserved; WEIR__GIVE_POLICY_KEEP: its policy's `keep` */
    uint64_t wanted;     /* bytes; UINT64_MAX: all idle ones. At most what is reserved at the beginning */
    uint64_t deadline;   /* by weir__service_now(): later frees are not waited for */
    bool is_neighbour;
    bool takes_yielded; /* when no more is idle, pools that the program has yielded are put to sleep (alloc/sleep.h), one in each step */
};
#define WEIR__GIVE_POLICY_KEEP (UINT64_MAX - 1)
/* Begins a request; weir__give_end() ends it. Returns NULL if host memory runs out. */
struct weir__give *weir__give_begin(weir *w, const struct weir__give_request *request);
/* Does the next step. Returns the time at which the following step is due (weir__service_now()), or WEIR__GIVE_DONE after the last one. */
#define WEIR__GIVE_DONE UINT64_MAX
uint64_t weir__give_step(struct weir__give *give);
/* Returns the bytes given so far. */
uint64_t weir__give_bytes(const struct weir__give *give);
void weir__give_end(struct weir__give *give);

/* Returns how many bytes of the device could be given to a neighbour: reserved bytes that are not live, without those that policies keep,
   those in arenas' pages that also have live blocks, and in CUDA's pools parts of steps. Adds to *yielded (may be NULL) the bytes that come
   beside them if all yielded pools go to sleep. Calls CUDA, but does not wait. */
uint64_t weir__give_offer(weir *w, int device, uint64_t *yielded);

#endif
