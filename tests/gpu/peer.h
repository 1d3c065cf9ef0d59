/* SPDX-License-Identifier: MIT */
/*
 * peer.h - another process of a test, which does with its GPU what the test asks.
 *
 * It is this test program once more, started by fork() and exec(), since neither CUDA nor the simulator survives a bare fork. It asks the
 * GPU nothing before it is asked something itself. Each request is answered, with the code that the operation of struct gpu returned. A
 * peer that does not answer in time fails the test, and no peer outlives its test. Work is on one stream of device 0 until
 * PEER_OTHER_STREAM.
 */
#ifndef WEIR_PEER_H
#define WEIR_PEER_H

#include <sys/types.h>

#include "lib/gpu/gpu.h"

enum peer_what {
    PEER_TOUCH,         /* first contact: makes the streams */
    PEER_NOW,           /* value: its clock */
    PEER_MAKE_POOL,     /* object: its number from now on; *fd */
    PEER_MAKE_OWN_POOL, /* object: its number from now on; one that cannot be exported */
    PEER_IMPORT_POOL,   /* object: its number from now on; fd */
    PEER_DESTROY_POOL,  /* object */
    PEER_TAKE,          /* object, size; address, block */
    PEER_IMPORT_BLOCK,  /* object, block; address */
    PEER_FREE,          /* address */
    PEER_FILL,          /* address, size, value */
    PEER_READ,          /* address; value: the byte there, once the stream has come to it */
    PEER_MAKE_EVENT,    /* object: its number from now on; event */
    PEER_OPEN_EVENT,    /* object: its number from now on; event */
    PEER_DESTROY_EVENT, /* object */
    PEER_RECORD,        /* object */
    PEER_WAIT_EVENT,    /* object */
    PEER_QUERY_EVENT,   /* object */
    PEER_DELAY,         /* value: nanoseconds */
    PEER_SYNCHRONIZE,
    PEER_OTHER_STREAM,  /* what follows is on the other of its two streams */
    PEER_ALLOCATE,      /* object, size: malloc_async of a pool that may refuse; address */
    PEER_GET_ACCESS,    /* object, size: a device; value */
    PEER_SET_ACCESS,    /* object, size: a device, value */
    PEER_COUNT
};

/* A request and its answer. */
struct peer_message {
    enum peer_what what;
    int object; /* below 8 */
    int code;   /* of the answer */
    uint64_t address, size, value;
    struct gpu_shared_block block;
    struct gpu_shared_event event;
};

struct peer {
    pid_t pid;
    int socket;
};

/* The main() of a peer: called with the arguments of main(), it returns false if this process is none, and does not return otherwise. */
bool peer_main(const struct gpu *gpu, int argc, char **argv);

/* Fails the test if it cannot be started. */
void peer_start(struct peer *peer);
/* Lets it end by itself, or kills it if it does not do so at once. */
void peer_stop(struct peer *peer);
/* SIGKILL, and waits until it is dead. */
void peer_kill(struct peer *peer);

/* Sends the request and returns the answer's code; what else it says is in *message then. fd goes with the request; -1: none. */
int peer_ask(struct peer *peer, struct peer_message *message, int fd);
/* The same for a request whose answer has a descriptor. */
int peer_ask_fd(struct peer *peer, struct peer_message *message, int *fd);
/* Without an answer: it is not known when there will be one, if ever. */
void peer_tell(struct peer *peer, const struct peer_message *message);

#endif
