/* SPDX-License-Identifier: MIT */
/* suite.h - what every test program shares: a TAP main around libcheck, and a census of file descriptors around each test. */
#ifndef WEIR_SUITE_H
#define WEIR_SUITE_H

#include <check.h>

/* A test case with the fd census around each of its tests (not on a real GPU, whose driver opens descriptors when it likes), and a time
   limit (seconds; 0: 30) after which a test is killed. */
TCase *suite_case(Suite *suite, const char *name, double timeout_s);

/* Runs the suite and writes TAP. Returns main()'s exit status. CK_FORK=no runs all tests in one process. */
int suite_run(Suite *suite);

/* Ends the program as skipped, in TAP, with the reason. Returns main()'s exit status. */
int suite_skip(const char *reason);

/* The number of open file descriptors of this process. */
int suite_count_fds(void);

#endif
