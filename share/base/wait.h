/* SPDX-License-Identifier: MIT */
/* wait.h - deadlines, and locks and conditions for waiting until a deadline. A deadline is a moment in nanoseconds of the service thread's
   clock, weir__service_now(). No state. */
#ifndef WEIR_SHARE_WAIT_H
#define WEIR_SHARE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/gpu/clock.h"

/* The deadline that is `timeout_ms` milliseconds from now. */
uint64_t share_deadline(unsigned timeout_ms);
/* The time from now to the deadline, for ppoll(); 0 if the deadline has passed. */
struct timespec share_time_left(uint64_t deadline);
/* Sleeps for that many nanoseconds, less than a second, or until the deadline if that comes first. Returns false, at once, if it has passed. */
bool share_pause(uint64_t deadline, uint64_t ns);

/* For how many nanoseconds a thread that waits for another process polls before it sleeps. Most waits are shorter than a sleep takes.
   Returns 0 if this thread may run on one CPU only, where polling would keep the other process from running. */
uint64_t share_spin_time(void);
/* Initialises a lock that is held only for a few memory accesses or one send(): a thread that waits for the lock spins before it sleeps. */
void share_mutex_init(pthread_mutex_t *mutex);
/* Initialises a condition for share_cond_wait(), with CLOCK_MONOTONIC as its clock. */
void share_cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait() with a deadline. Returns false if the deadline has passed. */
bool share_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline);

#endif
