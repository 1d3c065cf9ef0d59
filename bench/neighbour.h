/* SPDX-License-Identifier: MIT */
/*
 * neighbour.h - the other processes of the section `neighbours`: weir-bench, started anew, that takes memory and gives it back as it is
 * told.
 *
 * A neighbour carries out one order after another, and answers each. One thread on either side.
 */
#ifndef WEIR_BENCH_NEIGHBOUR_H
#define WEIR_BENCH_NEIGHBOUR_H

#include "bench/consumer.h"

#define NEIGHBOUR_OPTION "--neighbour" /* weir-bench's only argument where it is one; the socket is descriptor CONSUMER_FD */
#define NEIGHBOUR_BLOCKS_MAX 16
#define NEIGHBOUR_POLICY "weir: 1\ncontrol: true\npools: { p: { devices: [0], release_threshold: all, on_oom: { deadline: 60s } } }\n"

enum neighbour_task {
    NEIGHBOUR_TAKE,  /* `count` blocks of `bytes`. Answers how many of them there was no memory for */
    NEIGHBOUR_DROP,  /* gives all blocks back, and synchronises: the pool keeps their memory */
    NEIGHBOUR_EMPTY, /* trims the pool to `bytes`. Answers the time */
    NEIGHBOUR_LEAVE, /* gives everything back and ends. No answer */
};

struct neighbour_order {
    enum neighbour_task task;
    bool raw; /* without Weir, from a pool with the same threshold */
    unsigned count;
    uint64_t bytes;
};

struct neighbour_answer {
    unsigned failed;
    double ns; /* that it took */
};

struct neighbour {
    int link, pid;
};

/* The owner's side. start() returns before it is there; the first answer tells. */
void neighbour_start(struct neighbour *neighbour);
void neighbour_tell(const struct neighbour *neighbour, struct neighbour_order order);
struct neighbour_answer neighbour_hear(const struct neighbour *neighbour);
/* Both. */
struct neighbour_answer neighbour_ask(const struct neighbour *neighbour, struct neighbour_order order);
void neighbour_end(const struct neighbour *neighbour);

/* The neighbour's side: its whole main(). */
int neighbour_main(void);

#endif
