/* SPDX-License-Identifier: MIT */
/*
 * refusal.h - a request of a trace that found no memory: what the process had then, and what arithmetic on that says of it.
 *
 * Its maker's; points into the trace, which has to outlive it.
 */
#ifndef WEIR_REPLAY_REFUSAL_H
#define WEIR_REPLAY_REFUSAL_H

#include "tools/trace/view.h"

#define REFUSAL_LINES 4
#define REFUSAL_LINE_LEN 640

struct refusal {
    struct model model;       /* right behind the refusal */
    struct trace_event event; /* the refusal: of `a` bytes, at the cap if `b` is 1 */
    uint64_t events;          /* of the trace, up to it and with it */
    size_t number, count;     /* which it is, from 1, of how many */
    uint64_t memory;          /* bytes of its device; 0: the trace does not tell */
    uint64_t others;          /* of these, so many at least were not the pools', or the request would have been served */
};

/* Finds that of the moment (of the last refusal; nearest to a time; behind a mark). false, after a complaint: there is none. */
bool refusal_find(struct refusal *refusal, const struct view *view, struct view_file *file);
void refusal_free(struct refusal *refusal);

/* Bytes that the request's pool had in users' hands; those of all pools of the device. */
uint64_t refusal_live(const struct refusal *refusal, bool of_device);
/* The cap of the pool; 0: none, or not known. */
uint64_t refusal_cap(const struct refusal *refusal);

/* Whole sentences. Returns how many. */
size_t refusal_conclude(const struct refusal *refusal, char lines[static REFUSAL_LINES][REFUSAL_LINE_LEN]);

#endif
