/* SPDX-License-Identifier: MIT */
/* refusal.h - the parts of the suite about what a refused request leaves behind. */
#ifndef WEIR_TESTS_REFUSAL_H
#define WEIR_TESTS_REFUSAL_H

#include <check.h>

void add_refusal_sim_cases(Suite *suite); /* refusal_sim.c: injected failures, other weirs, streams that nobody opened */

#endif
