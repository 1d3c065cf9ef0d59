/* SPDX-License-Identifier: MIT */
/* suite.h - what every test program shares: a TAP main around libcheck, and a census of file descriptors around each test. */
#ifndef WEIR_SUITE_H
#define WEIR_SUITE_H

#include <check.h>

/* libcheck writes the place of every assertion into a file, to name it if the test is killed. Loops make millions of them: after the first
   thousand of a thread, only each thousandth is written. */
void suite_note_place(const char *file, int line);
#define _mark_point suite_note_place

/* A test case with the fd census around each of its tests (not on a real GPU, whose driver opens descriptors when it likes), and a time
   limit (seconds; 0: 30) after which a test is killed. */
TCase *suite_case(Suite *suite, const char *name, double timeout_s);

/* Adds tests to a test case. */
#define suite_add(tcase, ...) suite_add_tests((tcase), (const TTest *const[]){__VA_ARGS__, NULL})
void suite_add_tests(TCase *tcase, const TTest *const *tests);

/* Runs the suite and writes TAP. Returns main()'s exit status. CK_FORK=no runs all tests in one process. */
int suite_run(Suite *suite);

/* Ends the program as skipped, in TAP, with the reason. Returns main()'s exit status. */
int suite_skip(const char *reason);

/* How often a test repeats itself: `nightly` times where $WEIR_TEST_NIGHTLY is set, else `daily` times. Each time costs many times as much
   under a sanitizer or valgrind ($WEIR_TEST_SLOW), and the first ones show most of what they can: under a sanitizer it is a quarter, by
   night a tenth, and under valgrind `daily` times also by night. */
unsigned suite_rounds(unsigned daily, unsigned nightly);

/* The step from one point of a sweep to the next, which runs processes or maps files for each: 1, but by day 5 under the address and 7 under the
   thread sanitizer, since the plain run of the suite has all points. */
unsigned suite_stride(void);

/* The same for what only one thread at a time does: 1, but by day 4 under the thread sanitizer, which sees no more there than the other
   runs of the suite, 2 under the address sanitizer, and 31 under valgrind ($WEIR_TEST_SLOW), where each point takes long. */
unsigned suite_lone_stride(void);

/* The number of open file descriptors of this process. */
int suite_count_fds(void);
/* The same, once it is `wanted`; what strangers sent is closed by another thread. After some seconds whatever it is. */
int suite_await_fds(int wanted);

#endif
