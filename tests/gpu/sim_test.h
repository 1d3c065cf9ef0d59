/* SPDX-License-Identifier: MIT */
/*
 * sim_test.h - what the files of the simulator's own tests share. Each test starts with two devices, a pool and two streams on the first.
 */
#ifndef WEIR_SIM_TEST_H
#define WEIR_SIM_TEST_H

#include "lib/gpu/gpu.h"
#include "lib/gpu/sim.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

extern const struct gpu *g;
extern gpu_pool pool;
extern gpu_stream a, b;

/* Starts anew with these settings, and makes the pool and the streams. */
void configure(const char *settings);
/* A block of the pool. */
void *take(uint64_t size, gpu_stream stream);
uint64_t figure(enum gpu_pool_attribute attribute);
/* Runs act in a child process and returns its result. */
int in_child(int (*act)(void));
/* What main() answers to the argument in a process of its own under that $WEIR_SIM. */
int ask_fresh_process(const char *argument, const char *setting);
/* A test case with a fresh simulator for each of its tests. */
TCase *sim_case(Suite *suite, const char *name);

/* sim_work.c: the clock, memory, capture and threads. */
void add_work_tests(Suite *suite);
/* sim_costs.c: what calls cost. */
void add_cost_tests(Suite *suite);
/* sim_pages.c: ranges and pages. */
void add_page_tests(Suite *suite);
/* sim_named.c: machines that several processes share; what main() does in a process of such a test. */
void add_named_tests(Suite *suite);
int act_named(const char *role, int socket);

#endif
