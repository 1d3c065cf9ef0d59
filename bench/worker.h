/* SPDX-License-Identifier: MIT */
/*
 * worker.h - the other processes of the sections `share` and `neighbours`: weir-bench, started anew, that does what it is told over a
 * socket.
 *
 * A worker carries out one order after another, and answers each; what it sends and gets meanwhile belongs to the order. Whatever fails
 * ends the process that it fails in, and so, by the closed socket, all others. One thread on either side.
 */
#ifndef WEIR_BENCH_WORKER_H
#define WEIR_BENCH_WORKER_H

#include "bench/section.h"

/* weir-bench's only argument where it is a worker. Its socket is descriptor WORKER_FD. */
#define WORKER_CONSUMER "--share-consumer"
#define WORKER_NEIGHBOUR "--neighbour"
#define WORKER_FD 3
#define WORKER_SLOTS_MAX 16
#define WORKER_TIMES_MAX 2000 /* the `count` of an order that answers with a median */
#define WORKER_PATIENCE 120000 /* milliseconds that anything may take before the run is given up */
#define NEIGHBOUR_BLOCKS_MAX 16
#define NEIGHBOUR_POLICY "weir: 1\ncontrol: true\npools: { p: { devices: [0], release_threshold: all, on_oom: { deadline: 60s } } }\n"

enum worker_task {
    WORKER_LEAVE, /* gives everything back and ends. No answer */

    CONSUMER_CONNECT,   /* to the export at `text`, anew if there is a connection; leases the block "known" several times at once, so that
                           every lease that is to come has had its events opened. Answers how long connecting and the first lease took */
    CONSUMER_FIRST,     /* leases block "first" for the first time. Answers how long that took */
    CONSUMER_MESSAGES,  /* takes `count` bare messages, each with the time when it was sent, and acknowledges each */
    CONSUMER_FRAMES,    /* the same as frames of the ring `text`. Answers, as the former: median and 99th percentile of the way */
    CONSUMER_ECHOES,    /* sends `count` bare messages, each after the answer to the one before it */
    CONSUMER_LEASES,    /* leases and releases the block "known" `count` times. Answers, as the former: median and 99th percentile */
    CONSUMER_RING,      /* reads `count` frames of the ring `text`, `bytes` of each. Answers once at the start, then when it was done */
    CONSUMER_RAW_FIRST, /* imports a pool (its descriptor comes along), `block` and `ready`. Answers how long each took, and ends all three
                         */
    CONSUMER_RAW_POOL,  /* imports a pool, for the slots */
    CONSUMER_RAW_SLOT,  /* imports slot number `slot` */
    CONSUMER_RAW_RING,  /* as CONSUMER_RING, with the first `slot` slots in turn, a bare message before each frame and one after it */

    NEIGHBOUR_TAKE,  /* `count` blocks of `bytes`. Answers how many of them there was no memory for */
    NEIGHBOUR_DROP,  /* gives all blocks back, and synchronises: the pool keeps their memory */
    NEIGHBOUR_EMPTY, /* trims the pool to `bytes`. Answers the time */
};

struct worker_order {
    enum worker_task task;
    bool raw; /* a neighbour: without Weir, from a pool with the same threshold */
    unsigned count, slot;
    int cpu; /* on which to do it, counted from 1; 0: any */
    size_t bytes;
    char text[128];
    struct gpu_shared_block block;
    struct gpu_shared_event ready, release;
};

struct worker_answer {
    uint64_t at; /* bench_now(), which is the same clock in all processes */
    double values[3];
};

/* A worker, as its owner has it. */
struct worker {
    int link, pid;
};

/* The owner's side. start() returns before it is there; the first answer tells. */
void worker_start(struct worker *worker, const char *option);
/* passed: a descriptor to be sent along, or -1. */
void worker_tell(const struct worker *worker, const struct worker_order *order, int passed);
struct worker_answer worker_hear(const struct worker *worker);
/* Both. */
struct worker_answer worker_ask(const struct worker *worker, const struct worker_order *order, int passed);
/* Has them all leave, and waits until they have ended; one that was not well ends the program. */
void worker_end(const struct worker *workers, size_t count);

/* The worker's side. take() returns false once it is to leave; *passed: the worker's own. */
bool worker_take(struct worker_order *order, int *passed);
void worker_answer(const struct worker_answer *answer);

/* Both sides. A bare message is a time. */
uint64_t link_receive_time(int link);
void link_send_time(int link, uint64_t time);
/* Keeps the calling thread on a CPU of its own, the second from the first; 0 frees it again. Nothing happens where there is one CPU. */
void link_pin(int cpu);
/* Each a worker's whole main(). */
int consumer_main(void);
int neighbour_main(void);

#endif
