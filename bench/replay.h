/* SPDX-License-Identifier: MIT */
/*
 * replay.h - a trace served by an arena whose pages are numbers: what it would map, and what its own code takes.
 *
 * A table leads from the address of each live block to its extent, as the table of blocks does in the library. Pure, for one thread.
 */
#ifndef WEIR_BENCH_REPLAY_H
#define WEIR_BENCH_REPLAY_H

#include "bench/trace.h"

#define REPLAY_STREAMS_MAX 64

/* Who frees what, and when that is complete. */
struct replay_streams {
    size_t count; /* the block with id n is of stream n modulo count */
    size_t delay; /* steps after which a free is seen to be complete */
    bool waits;   /* before the arena grows, the requester's stream waits for the frees of all others */
    bool recent;  /* each stream keeps the last blocks of 1 MiB and more that it freed, until the arena would grow (recent.h) */
};

struct replay_result {
    uint64_t mapped_peak, live_peak; /* bytes; live: rounded up to 512 for each block */
    uint64_t created, moved;         /* pages */
    uint64_t waits;                  /* of a stream for another one */
    uint64_t large, hits;            /* requests of 1 MiB and more; of these, what such blocks served */
};

/* streams: NULL if every free is complete at once. false: no host memory. */
bool replay(const struct trace *trace, const struct replay_streams *streams, struct replay_result *result);

#endif
