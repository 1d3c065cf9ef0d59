/* SPDX-License-Identifier: MIT */
/*
 * outcome.h - what one replay came to: figures alone, so that a process can hand them to another one in one piece.
 *
 * Times are in ns of the replayed program, bytes are of the devices.
 */
#ifndef WEIR_REPLAY_OUTCOME_H
#define WEIR_REPLAY_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "include/weir.h"

/* How long each request and free took: eight parts to each power of two. */
#define OUTCOME_TIMES (64 * 8)

/* Parts of the recorded time, of each of which the most bytes are kept. */
#define OUTCOME_SLICES 240

struct outcome {
    bool is_done; /* else `why` says what went wrong */
    char why[1024];
    uint64_t calls, requests, hits;
    uint64_t refused;        /* requests that found no memory, and were served when they were recorded */
    uint64_t newly_served;   /* requests that found no memory when they were recorded, and are served here */
    bool is_last_served;     /* the last of those is */
    uint64_t lost;           /* frees of blocks that were refused before */
    uint64_t stall, worst;   /* all calls together; the longest */
    uint64_t slow_stall;  /* part of it: of calls that took longer than some 16 us, and of trims, but not of synchronises, since
                             a recording does not tell what these waited for; so this is what compares with one */
    uint64_t elapsed;
    uint64_t peak_reserved, peak_live, end_reserved;
    double area; /* bytes reserved x ns */
    uint64_t growths, grown; /* times, and bytes */
    uint64_t trims, trimmed; /* times that memory went back, whyever */
    uint64_t recoveries, rescues[WEIR_RUNG_COUNT];
    uint64_t other_pools; /* operations on pools that the policy does not have: its default pool served them */
    uint32_t times[OUTCOME_TIMES];
    uint64_t reserved[OUTCOME_SLICES], live[OUTCOME_SLICES]; /* the most bytes in each slice */
};

void outcome_add_time(struct outcome *outcome, uint64_t ns);
/* The time that `share` (0 to 1) of the calls do not exceed, to 1/8. */
uint64_t outcome_time(const struct outcome *outcome, double share);
static inline uint64_t outcome_mean_reserved(const struct outcome *outcome)
{
    double mean = outcome->elapsed ? outcome->area / (double)outcome->elapsed : (double)outcome->end_reserved;
    /* The area is a sum of rounded products. */
    return mean < (double)outcome->peak_reserved ? (uint64_t)mean : outcome->peak_reserved;
}

#endif
