/* SPDX-License-Identifier: MIT */
/*
 * consumer.h - the other processes of the section `share`: weir-bench, started anew, that does what it is told over a socket.
 *
 * A consumer carries out one order after another, and answers each; what it sends and gets meanwhile belongs to the order. Whatever fails
 * ends the process that it fails in, and so, by the closed socket, all others. One thread on either side.
 */
#ifndef WEIR_BENCH_CONSUMER_H
#define WEIR_BENCH_CONSUMER_H

#include "bench/section.h"

#define CONSUMER_OPTION "--share-consumer" /* weir-bench's first argument where it is one; the socket is descriptor CONSUMER_FD */
#define CONSUMER_FD 3
#define CONSUMER_SLOTS_MAX 16
#define CONSUMER_PATIENCE 120000 /* milliseconds that anything may take before the run is given up */

enum consumer_task {
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
    CONSUMER_LEAVE,     /* gives everything back and ends */
};

struct consumer_order {
    enum consumer_task task;
    unsigned count, slot;
    int cpu; /* on which to do it; -1: any */
    size_t bytes;
    char text[128];
    struct gpu_shared_block block;
    struct gpu_shared_event ready, release;
};

struct consumer_answer {
    uint64_t at; /* bench_now(), which is the same clock in all processes */
    double values[3];
};

/* A consumer, as its owner has it. */
struct consumer {
    int link;
    int pid;
};

/* The owner's side, in link.c. Descriptors are sent if they are not -1; *passed is the receiver's. */
void consumer_start(struct consumer *consumer);
void consumer_tell(const struct consumer *consumer, const struct consumer_order *order, int passed);
struct consumer_answer consumer_hear(const struct consumer *consumer);
/* Waits until it has ended; one that was not well ends the program. */
void consumer_end(struct consumer *consumer);

/* Starts weir-bench anew with that option alone; returns the socket to it, which is its descriptor CONSUMER_FD. */
int link_start(const char *option, int *pid);
/* Waits until it has ended; one that was not well ends the program. */
void link_end(int link, int pid);
/* Both sides. A bare message is a time. */
void link_send(int link, const void *bytes, size_t len, int passed);
void link_receive(int link, void *bytes, size_t len, int *passed);
uint64_t link_receive_time(int link);
void link_send_time(int link, uint64_t time);
/* Keeps the calling thread on a CPU of its own, the second from the first; -1 frees it again. Nothing happens where there is one CPU. */
void link_pin(int cpu);
/* The value below which so many hundredths of them are. Sorts them. */
double link_quantile(double *values, size_t count, unsigned hundredths);

/* The consumer's side: its whole main(). */
int consumer_main(void);

#endif
