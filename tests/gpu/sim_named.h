/* SPDX-License-Identifier: MIT */
/*
 * sim_named.h - what the tests of machines with a name share: such a machine, which the test is on with a pool and two streams, and two peers
 * that are on it from their first request on.
 */
#ifndef WEIR_SIM_NAMED_H
#define WEIR_SIM_NAMED_H

#include "tests/gpu/peer.h"
#include "tests/gpu/sim_test.h"

#define MILLISECOND UINT64_C(1000000)

extern struct peer peers[2];

#define ask(peer, ...) ck_assert_int_eq(peer_ask(peer, &(struct peer_message){ __VA_ARGS__ }, -1), 0)

/* Of device 0. */
uint64_t free_bytes(void);
/* Waits until so much is free: whoever looks into /proc may hold what is left of a dead process for a moment. */
void await_free_bytes(uint64_t bytes);
/* The peer's event `object`, opened here. */
gpu_event open_event_of(struct peer *peer, int object);
/* The peer records its event 0 behind a kernel. */
void record_behind(struct peer *peer, uint64_t nanoseconds);

TCase *named_case(Suite *suite, const char *title);

/* sim_named_clock.c */
void add_named_clock_tests(Suite *suite);

#endif
