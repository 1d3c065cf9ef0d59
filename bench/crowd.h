/* SPDX-License-Identifier: MIT */
/* crowd.h - threads that begin at once and do the same, for a sample of what it takes each of them. They end before the call returns. */
#ifndef WEIR_BENCH_CROWD_H
#define WEIR_BENCH_CROWD_H

#include "bench/section.h"

#define CROWD_MAX 16
#define CROWD_WARM 16 /* pairs that each thread does before it waits for the others: what its first calls cost is not the question */

/* What thread number `nth` does, `count` times; NULL, or what went wrong. */
typedef const char *crowd_run(const void *data, size_t nth, size_t count);

/* One way to do it, beside others. */
struct crowd_way {
    const char *name;
    crowd_run *run;
    const void *data;
    size_t in_all, by_each; /* how often in a sample: in all threads together, or (else 0) in each */
};

#define CROWD_COUNTS 5
extern const size_t crowd_counts[CROWD_COUNTS]; /* of threads: 1 to CROWD_MAX */

/* Measures each way with each number of threads, interleaved: the mean over the threads of the nanoseconds that one time takes in each. */
void crowd_measure(const struct bench *bench, const struct crowd_way *ways, size_t way_count, struct bench_series series[][CROWD_COUNTS]);

/* Pairs of an allocation and its free, for a crowd_run: NULL, or what went wrong. */
const char *crowd_stream_pairs(weir_stream *s, size_t size, size_t count);
const char *crowd_raw_pairs(cudaMemPool_t pool, cudaStream_t stream, size_t size, size_t count);

#endif
