/* SPDX-License-Identifier: MIT */
/*
 * scene.h - what the tests of recovery, capture and threads stand on: the GPU of $WEIR_GPU, one weir on it, and streams.
 *
 * One scene at a time, set up and torn down around each test; only the test's own thread changes it. Sizes are shares of the memory that
 * device 0 has free at the start, so that the same tests fill a small simulator and a large GPU.
 */
#ifndef WEIR_TESTS_SCENE_H
#define WEIR_TESTS_SCENE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "include/weir.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MILLISECOND (UINT64_C(1) * 1000000)

/* A key of a pool: CUDA makes no stream wait for another one's free, so that a free behind a kernel is a case for the ladder. */
#define ALONE "reuse: { internal_dependencies: false }"

struct scene {
    const struct gpu *gpu;
    weir *w;
    weir_pool *pool; /* defaults.pool on device 0 */
    uint64_t memory; /* bytes free on device 0 before anything was taken */
    atomic_uint log_lines;
};
extern struct scene scene;

/* Whether $WEIR_GPU names the simulator; asks the environment only, so that no GPU is touched before libcheck forks. */
bool scene_is_sim(void);
/* Why the suite cannot run and is to be skipped; NULL: it can. */
const char *scene_why_not(void);

/* Checked fixtures of every test case. The simulator starts with one device of 8 GiB. After a test nothing may be left. */
void scene_begin(void);
void scene_end(void);
/* The same, with a service thread that goes by hand, on the simulator's clock: its jobs run in scene_pass() alone. */
void scene_begin_by_hand(void);
void scene_end_by_hand(void);
/* So many nanoseconds pass. */
void scene_pass(uint64_t time);
/* Replaces the simulator's settings, before scene_open(). */
void scene_simulate(const char *settings);

/* Opens the weir from a policy's text. */
void scene_open(const char *policy_text);
/* Gives it another policy, from a file. */
void scene_reload(const char *policy_text);
void scene_close(void);

/* So many percent of scene.memory, in whole growth steps of 32 MiB. */
uint64_t scene_share(unsigned percent);

/* A CUDA stream that Weir was not told of; scene_end() destroys it. Or scene_drop_stream(), at once. */
gpu_stream scene_stream(int device);
void scene_drop_stream(gpu_stream stream);
/* An opened stream on device 0, made by weir_stream_create(). */
weir_stream *scene_create(const char *name);
void scene_delay(gpu_stream stream, uint64_t milliseconds);
void scene_sync(gpu_stream stream);

/* These fail the test with Weir's own words unless they succeed. */
void *scene_malloc(weir_stream *s, uint64_t size);
void *scene_malloc_on(gpu_stream stream, uint64_t size);
void *scene_pool_malloc(weir_pool *pool, uint64_t size, gpu_stream stream);
void scene_free(weir_stream *s, void *ptr);
void scene_free_on(gpu_stream stream, void *ptr);
void scene_ok(weir_status status, const char *what);

/* Asserts that CUDA alone has no room for this request now. */
void scene_fails_raw(weir_pool *pool, uint64_t size, gpu_stream stream);

/* One snapshot's figures; every identity that weir.h promises is asserted on the way. */
weir_pool_stats scene_pool_stats(const char *name); /* names of `name` are not borrowed: .name is NULL */
weir_device_stats scene_device_stats(int device);
/* Asserts which rung rescued how often on device 0 (all other rungs: never), and how often the ladder ran. */
void scene_rescues(weir_rung rung, uint64_t times, uint64_t recoveries);

#endif
