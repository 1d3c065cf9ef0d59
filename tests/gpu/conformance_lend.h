/* SPDX-License-Identifier: MIT */
/*
 * conformance_lend.h - what the tests of sharing have beyond the rig: two peers, and blocks that one process lends the other. The test is one
 * of the processes. A stream that may wait for ever belongs to a peer, which is killed in the end.
 */
#ifndef WEIR_CONFORMANCE_LEND_H
#define WEIR_CONFORMANCE_LEND_H

#include "tests/gpu/conformance.h"
#include "tests/gpu/peer.h"

#define LARGE (1024 * MIB) /* of which other processes' bookkeeping on the device is no part worth mention */
#define FILLED (64 * MIB)  /* at most so much of a block: memory of the simulator is memory of this machine */
#define LONG_NS (UINT64_C(20) * 1000000000) /* a kernel whose process does not live to see its end */

extern struct peer first, second;

#define ck_assert_peer_code(peer, expected, ...) \
    ck_assert_gpu_code(peer_ask(peer, &(struct peer_message){ __VA_ARGS__ }, -1), expected)
#define ck_assert_peer(peer, ...) ck_assert_peer_code(peer, GPU_SUCCESS, __VA_ARGS__)

/* A pool of this process whose handle was exported. */
gpu_pool make_shared_pool(int *fd);
/* A block in which every byte, up to FILLED, is `byte` already, and what a peer imports it with. */
void *make_shared_block(gpu_pool pool, uint64_t size, int byte, struct gpu_shared_block *shared);
int read_byte(const void *ptr);

/* The peer imports the pool, as its pool 0, and a block; the descriptor is closed. */
void give_pool_to(struct peer *peer, int fd);
uint64_t give_block_to(struct peer *peer, const struct gpu_shared_block *shared);
int read_at(struct peer *peer, uint64_t address);

struct lent {
    gpu_pool pool; /* of this process */
    void *ptr;
    struct gpu_shared_block shared;
    uint64_t there; /* its address in the peer */
};

/* A block of this process, every byte `byte`, that the first peer maps. */
struct lent lend(uint64_t size, int byte);
/* A block of the first peer that the test maps, and must give back. */
struct lent borrow(uint64_t size, int byte);
void give_back(const struct lent *lent);

/* A test case with the rig and the peers. */
TCase *share_case(Suite *suite, const char *name);

/* conformance_events.c */
void add_shared_event_tests(Suite *suite);

#endif
