/* SPDX-License-Identifier: MIT */
/* recovery.h - the parts of the recovery suite; each adds its cases. */
#ifndef WEIR_TESTS_RECOVERY_H
#define WEIR_TESTS_RECOVERY_H

#include <check.h>

void add_callback_cases(Suite *suite);  /* recovery_callbacks.c */
void add_crowd_cases(Suite *suite);     /* recovery_crowd.c */
void add_deadline_cases(Suite *suite);  /* recovery_deadline.c: recoveries that have to end in time */
void add_growth_cases(Suite *suite);    /* recovery_growth.c: pools whose cap Weir watches */
void add_report_cases(Suite *suite);    /* recovery_report.c: what the report of a refusal concludes */
void add_simulator_cases(Suite *suite); /* recovery_sim.c: exact times, injected failures, counted calls */

#endif
