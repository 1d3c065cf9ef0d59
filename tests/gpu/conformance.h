/* SPDX-License-Identifier: MIT */
/*
 * conformance.h - what the files of the conformance suite share. The suite states what Weir relies on, as one test for each fact, through
 * struct gpu alone, so that it holds on real devices and on the simulator alike (WEIR_GPU). Sizes are fractions of the device's memory.
 *
 * Every test has a rig: two streams, an event and a pool with release threshold 0 on device 0. What it makes beyond that with
 * the functions below is given back after it, also if it failed.
 */
#ifndef WEIR_CONFORMANCE_H
#define WEIR_CONFORMANCE_H

#include "lib/gpu/gpu.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)
#define STEP (32 * MIB)
#define KERNEL_NS UINT64_C(100000000) /* long enough to be still running when the host has made a few calls */

extern const struct gpu *g;

struct rig {
    gpu_pool pool;
    gpu_stream a, b;
    gpu_event event;
    uint64_t free_bytes; /* of device 0 before the test */
};
extern struct rig rig;

/* What the probe found in a process of its own: the suite's parent must not touch the GPU before it forks. */
struct probe {
    int code; /* of device_count */
    int devices;
    bool peers; /* device 1 can reach the memory of device 0 */
    bool supports[GPU_FEATURE_COUNT];
    char why[GPU_FEATURE_COUNT][160];
};

#define ck_assert_gpu_code(call, code) \
    do { \
        int code_ = (call); \
        ck_assert_msg(code_ == (code), "%s: %s instead of %s", #call, g->code_name(code_), g->code_name(code)); \
    } while (0)
#define ck_assert_gpu(call) ck_assert_gpu_code(call, GPU_SUCCESS)

/* So many percent of the memory that was free before the test, in whole steps. */
uint64_t percent_of_device(unsigned percent);

gpu_pool make_pool(const struct gpu_pool_spec *spec);
gpu_stream make_stream(int device);
gpu_event make_event(int device);
/* A block, freed after the test unless give() did it before. */
void *take(gpu_pool pool, uint64_t size, gpu_stream stream);
/* The answer of malloc_async where the test expects none or any; a block that came of it is freed after the test. */
int try_take(gpu_pool pool, uint64_t size, gpu_stream stream);
void give(void *ptr, gpu_stream stream);
/* A block that the test frees by itself, or that is gone with its graph. */
void forget_block(void *ptr);
void forget_pool(gpu_pool pool);
/* A block of the rig's pool, freed on stream a behind a running kernel; where it was. The event stands behind the free. */
void *free_behind_kernel(uint64_t size);
uint64_t figure(gpu_pool pool, enum gpu_pool_attribute attribute);
void set_figure(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value);
uint64_t device_free(void);
/* Polls the event until its work has ended. */
void poll_until_done(gpu_event event);

/* Calls act in a thread of its own, in that capture mode, and returns what it returned. */
int in_other_thread(enum gpu_capture_mode mode, int (*act)(void *data), void *data);

void add_map_tests(Suite *suite, const struct probe *probe);
void add_memory_tests(Suite *suite);
void add_pool_tests(Suite *suite, const struct probe *probe);
void add_stream_tests(Suite *suite, const struct probe *probe);
void add_context_tests(Suite *suite, const struct probe *probe);
void add_capture_tests(Suite *suite, const struct probe *probe);
void add_share_tests(Suite *suite, const struct probe *probe);

/* A test case with the rig around each of its tests. */
TCase *rig_case(Suite *suite, const char *name);
/* The same, with something else done before the rig is there and after it is gone. */
TCase *rig_case_within(Suite *suite, const char *name, void (*before)(void), void (*after)(void));
/* Adds the test if the device has the feature, else says in a TAP comment what is left out and why. */
void add_if(TCase *tcase, const struct probe *probe, enum gpu_feature feature, const TTest *test);

#endif
