/* SPDX-License-Identifier: MIT */
/*
 * climb.h - one climb of the recovery ladder: a request that found no memory tries one *rung* after the other (flush, wait, trim,
 * callbacks, neighbours), and the allocation again after each. Only recover/ includes this file.
 *
 * A request is *at a cap* if it failed at its pool's max_size (request->at_cap); then only the memory of that pool can help. Otherwise it
 * failed at the device, and all pools of the device can help. The comments call these the pools that *count*.
 *
 * The struct lives on the stack of the requesting thread, which alone uses it.
 */
#ifndef WEIR_LIB_CLIMB_H
#define WEIR_LIB_CLIMB_H

#include <time.h>

#include "lib/recover/recover.h"
#include "lib/recover/report.h"

struct weir__climb {
    struct weir__request *request;
    struct weir__device *device;
    const struct gpu *gpu;
    uint64_t deadline; /* by gpu->now() */
    uint64_t patience; /* nanoseconds until the deadline when the climb began */
    bool is_used_up;   /* a call of CUDA ended after the deadline: do not call CUDA for this request again */
    bool has_more;     /* a callback has measurably helped in this round, so another round may help */
    uint64_t number;   /* of this climb, unique in the process; a callback that did not help in this climb is not called again by it */
    struct weir__rung_report rungs[WEIR_RUNG_COUNT];
    uint64_t left; /* for the report: idle bytes of CUDA's pools that a trim could not give back */
    char note[sizeof(((struct weir__plea *)NULL)->note)]; /* for the report: the note of the neighbours rung */
    const char *why; /* why the ladder was not climbed to its end; NULL: it was */
};

/* Returns whether the last attempt failed with another error than out-of-memory, against which no rung helps. */
bool weir__climb_is_over(const struct weir__climb *climb);
/* Returns whether the deadline has passed. */
bool weir__climb_is_late(const struct weir__climb *climb);
/* Returns whether the policy has that rung. */
bool weir__climb_has_step(const struct weir__climb *climb, weir_rung rung);
/* Returns the climb's deadline as a time for pthread_cond_timedwait(), but at least a millisecond from now, so that attempts in progress
   can end. */
struct timespec weir__climb_deadline(const struct weir__climb *climb);
/* Waits for a short, growing time, as weir__event_pause() does; *pause is 0 before the first call. Returns false after the deadline. */
bool weir__climb_pause(struct weir__climb *climb, uint64_t *pause);
/* Tries the request once more, while no other request of the device is tried. Returns whether it is served. */
bool weir__climb_retry(struct weir__climb *climb, void **ptr);
/* The same if the last attempt did not call CUDA because there seemed to be no memory: only CUDA can tell for certain. */
bool weir__climb_insist(struct weir__climb *climb, void **ptr);
/* Flushes, looks at pending frees and tries again, while no other request of the device is tried. Returns whether the request is served.
   Outside of this function other threads, whose caches are empty now too, may be faster to take memory that came free, and keep it in their
   caches again. Here they cannot, so all free memory is found, except what is still behind work. */
bool weir__climb_gather_alone(struct weir__climb *climb, void **ptr);
/* Climbs the wait rung again, as long as large frees are pending and there seems to be enough memory: other threads may have freed memory
   since the wait rung began. Returns whether the request is served. */
bool weir__climb_wait_again(struct weir__climb *climb, void **ptr);

/* Returns the bytes that the request may have of this weir's yielded pools on the device, beside their idle memory. */
uint64_t weir__climb_yielded(const struct weir__climb *climb);
/* Puts pools of this weir that the program has yielded to sleep, one after the other, and tries again after each: the last source of memory.
   Returns whether the request is served. */
bool weir__climb_spend(struct weir__climb *climb, void **ptr);

/* The functions of the rungs, indexed by weir_rung. Each returns whether the request is served. */
extern bool (*const weir__rungs[WEIR_RUNG_COUNT])(struct weir__climb *climb, void **ptr) __attribute__((visibility("hidden")));

#endif
