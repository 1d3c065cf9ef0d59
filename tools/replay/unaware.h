/* SPDX-License-Identifier: MIT */
/*
 * unaware.h - replays of a program that called CUDA by itself (TRACE_POOL_UNAWARE): what of its memory a pool could have served, what its calls
 * waited, and what a replay assumes.
 *
 * Part of a script, whose maker counts; never changes afterwards.
 */
#ifndef WEIR_REPLAY_UNAWARE_H
#define WEIR_REPLAY_UNAWARE_H

#include "tools/common/json.h"
#include "tools/replay/outcome.h"
#include "trace/model.h"

struct script;

enum { UNAWARE_HOST, UNAWARE_MANAGED, UNAWARE_MAPPED, UNAWARE_LEFT };

struct script_unaware {
    bool is_so; /* all that is replayed is such a program's */
    uint64_t frees, free_time;  /* of memory that is replayed, and held a thread up; ns */
    uint64_t stall;             /* ns, of all calls for such memory */
    uint64_t kept, kept_time;   /* calls for other memory that held a thread up, as they do whatever serves the rest; ns */
    uint64_t homeless;          /* requests whose stream is not known: they are of stream 0 */
    uint64_t left[UNAWARE_LEFT]; /* requests of memory that no pool of a device serves */
    uint64_t large, small;      /* bytes that cudaMalloc took now, while the script is made: in granules of their own, in shared ones */
};

/* Blocks of cudaMalloc: no stream is known of them as a rule, and a free is of none. */
bool unaware_is_malloc(const struct trace_pool *pool);
/* Whether a pool of a device could have served the pool's memory. Memory that a program maps has addresses of the program's choice, which no pool
   gives. */
bool unaware_is_replayed(const struct trace_pool *pool);

/* An event of a pool. false: it is none for a replay. */
bool unaware_look(struct script_unaware *unaware, const struct trace_event *event);
/* Before the event is applied to the model, and behind it: cudaMalloc takes granules of 2 MiB, and blocks below one share theirs. */
void unaware_count(struct script_unaware *unaware, const struct model *model, const struct trace_event *event, bool is_behind);
/* Once all events were looked at: whether the script is such a program's. All its calls that allocate and free are in the trace then, so that
   caches can be replayed. */
void unaware_settle(struct script *script);
/* What cudaMalloc took, bytes. */
uint64_t unaware_taken(const struct script_unaware *unaware);

/* "4.1 s of 212 frees that waited: none under config/default.yaml; peak reserved 3.1 GiB instead of 4.4 GiB." outcome: NULL leaves memory out.
   These three say nothing of other programs: "", or null. Texts are the caller's to free(). */
char *unaware_gain(const struct script *script, const char *name, const struct outcome *outcome);
/* What replays assume and leave out: lines with their ends. */
char *unaware_assumptions(const struct script *script, const char *indent);
/* The same as member "unaware". */
void unaware_json(struct json *json, const struct script *script);

#endif
