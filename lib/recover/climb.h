/* SPDX-License-Identifier: MIT */
/*
 * climb.h - one climb of the ladder: a request that found no memory, on its way from rung to rung. Only recover/ includes it.
 *
 * Lives on the stack of the requesting thread.
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
    bool is_used_up;   /* CUDA was asked until after the deadline: it is not asked again */
    bool has_more;     /* in this round a callback measurably helped, so another round may help */
    uint64_t number;   /* of this climb, in the process: callbacks that did not help in it are not asked again by it */
    struct weir__rung_report rungs[WEIR_RUNG_COUNT];
    uint64_t left; /* for the report: bytes of CUDA's pools that a trim found idle and could not give back */
    char note[sizeof(((struct weir__plea *)NULL)->note)]; /* of the neighbours rung, for the report */
    const char *why; /* the ladder was not climbed to its end, and why */
};

/* Another error than out-of-memory ends the climb: no rung helps against it. */
bool weir__climb_is_over(const struct weir__climb *climb);
/* The deadline has passed. */
bool weir__climb_is_late(const struct weir__climb *climb);
/* Whether the policy has that rung. */
bool weir__climb_has_step(const struct weir__climb *climb, weir_rung rung);
/* The climb's deadline for a wait on a condition, and a moment from now at least, so that those that are tried can end. */
struct timespec weir__climb_deadline(const struct weir__climb *climb);
/* Waits a while, the first time with *pause 0, as weir__event_pause() does until the deadline. */
bool weir__climb_pause(struct weir__climb *climb, uint64_t *pause);
/* Tries the request once more, alone. */
bool weir__climb_retry(struct weir__climb *climb, void **ptr);
/* The same, where CUDA was not asked since that seemed vain: only it can say that there is no memory. */
bool weir__climb_insist(struct weir__climb *climb, void **ptr);
/*
 * Other threads, whose caches are empty now too, may be faster to take what came free, and keep it in their caches again. While the request
 * is tried alone they cannot: what is free then stays so, and all of it is found, but what is behind work.
 */
bool weir__climb_gather_alone(struct weir__climb *climb, void **ptr);
/* Where there seems to be enough: what others freed since the wait rung began, and have not used since, may be pending. */
bool weir__climb_wait_again(struct weir__climb *climb, void **ptr);

/* By weir_rung. true: the request is served. */
extern bool (*const weir__rungs[WEIR_RUNG_COUNT])(struct weir__climb *climb, void **ptr) __attribute__((visibility("hidden")));

#endif
