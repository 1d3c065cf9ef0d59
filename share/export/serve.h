/* SPDX-License-Identifier: MIT */
/*
 * serve.h - who reads the sockets of an export's importers, and asks for their releases: a thread that waits for a slot, or else the service
 * thread.
 *
 * Whoever serves holds export->serving, which is taken before export->lock. The service thread is told of sockets through a gate: a producer
 * closes it when it takes a slot, and serves by itself, so that no two threads get into each other's way while frames flow. The service
 * thread opens it again when nobody has taken a slot for a while.
 */
#ifndef WEIR_SHARE_SERVE_H
#define WEIR_SHARE_SERVE_H

#include "share/export/export.h"

#define SHARE_SERVE_AGAIN UINT64_C(100000) /* nanoseconds after which a producer serves in passing */

/* Makes the descriptors, all -1 before; the listener is there. false: errno. */
bool share_serve_open(weir_export *e);
void share_serve_close(weir_export *e);

/* Reads what has come, and ends the leases whose release has come to pass. everything: until nothing is left to read, and asking each
   release; whoever is to be judged after that has been heard. Without the locks. */
void share_serve(weir_export *e, bool everything);

/* The service thread's part of it. Returns when it is to look again. Without the locks. */
uint64_t share_serve_turn(weir_export *e);

/* With the lock. */

/* A producer is here: from now on it serves. Returns whether it is time to do so in passing. */
bool share_serve_begin(weir_export *e);
/* Serves, once there is something to do; until the deadline at most, the lock let go meanwhile. since: when the waiting began. */
void share_serve_wait(weir_export *e, uint64_t since, uint64_t deadline);

#endif
