/* SPDX-License-Identifier: MIT */
/*
 * fixture.h - what the tests of libweir on the simulator share: a machine, weirs opened from a text, figures, and the census at the end.
 *
 * The simulator is process-wide, so a test that uses these functions runs alone in its process.
 */
#ifndef WEIR_TESTS_API_FIXTURE_H
#define WEIR_TESTS_API_FIXTURE_H

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "include/weir.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* The simulator's operations, for what a test does without Weir. */
const struct gpu *fixture_gpu(void);

/* A fresh simulated machine with these settings (NULL: the defaults), and devices of 1 GiB unless they say otherwise. */
void fixture_machine(const char *settings);

/* Opens a policy text, which must be good. What Weir logs is kept for fixture_log(). */
weir *fixture_open(const char *policy);

/* Opens a policy text that must be refused with this status; afterwards the machine must have nothing that it had not before. */
weir_error fixture_refuse(const char *policy, weir_status status);

/* The last line logged with at least the severity of a warning; "" if there was none since the last call. */
const char *fixture_log(void);

/* The policy's pool of that name; it must exist. */
weir_pool *fixture_pool(weir *w, const char *name, int device);

/* The figures of a pool (its first entry in the snapshot, so not a private one's), whose identities must hold. */
weir_pool_stats fixture_figures(weir *w, const char *name, int device);

/* Asserts the identities that every snapshot keeps. */
void fixture_check_identities(const weir_pool_stats *figures);

/* A new stream of Weir's own; it must succeed. */
weir_stream *fixture_stream(weir *w, int device, const char *name);

/* A block; it must succeed. */
void *fixture_malloc(weir_stream *stream, size_t size);

/* Waits for the stream; it must succeed. */
void fixture_synchronize(weir_stream *stream);

/* Waits for all devices, after which pools that were closed with frees pending can be destroyed, and destroys them. */
void fixture_sweep(void);

/* Does so, then asserts that nothing that Weir made is left on the machine. */
void fixture_expect_empty(void);

/* One attribute of a CUDA pool. */
uint64_t fixture_attribute(gpu_pool pool, enum gpu_pool_attribute attribute);

#endif
