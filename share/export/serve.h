/* SPDX-License-Identifier: MIT */
/*
 * serve.h - decides which thread *serves*, which means: reads the sockets of an export's importers and queries their release events. A
 * producer that waits for a slot serves; if none waits, the service thread serves.
 *
 * The thread that serves holds export->serving, which is taken before export->lock. The service thread learns of readable sockets through
 * an epoll set called the *gate*. A producer that takes a slot closes the gate and serves by itself, so that the two threads do not disturb
 * each other while frames flow. The service thread opens the gate again when no producer has taken a slot for a while.
 */
#ifndef WEIR_SHARE_SERVE_H
#define WEIR_SHARE_SERVE_H

#include "share/export/export.h"

/* If no thread has served for this many nanoseconds, a producer that takes a slot serves first. */
#define SHARE_SERVE_AGAIN UINT64_C(100000)

/* Makes the epoll sets and the eventfd; the listener is open already. Returns false with errno. */
bool share_serve_open(weir_export *e);
void share_serve_close(weir_export *e);

/* Serves once: reads the messages in the sockets and ends the leases whose release is complete. With `everything` it reads until the
   sockets are empty, and queries each release event, so that afterwards each client can be judged by all that it has sent. The caller
   holds neither lock. */
void share_serve(weir_export *e, bool everything);

/* Serves on the service thread, unless a producer does. Returns when to call it again. The caller holds neither lock. */
uint64_t share_serve_turn(weir_export *e);

/* For the next two functions the caller holds export->lock. */

/* A producer takes or pushes: closes the gate, so that producers serve from now on. Returns whether this producer should serve now. */
bool share_serve_begin(weir_export *e);
/* Waits until something has changed, or until the deadline, and serves if no other producer does. Releases e->lock while it waits.
   `since` is when the producer began to wait: the producer polls for e->spin from then on, and afterwards sleeps. */
void share_serve_wait(weir_export *e, uint64_t since, uint64_t deadline);

#endif
