/* SPDX-License-Identifier: MIT */
/* wait.h - deadlines, in nanoseconds by the service thread's clock, waiting on a condition until one, and waiting for a moment. No state. */
#ifndef WEIR_SHARE_WAIT_H
#define WEIR_SHARE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/gpu/clock.h"

/* So many milliseconds from now. */
uint64_t share_deadline(unsigned timeout_ms);
/* How long it is until then, for ppoll(). */
struct timespec share_time_left(uint64_t deadline);

/* Nanoseconds for which a thread that waits for another process looks again and again before it sleeps, which takes longer than what is
   mostly waited for. 0 where this thread has but one CPU. */
uint64_t share_spin_time(void);
/* A lock that is held for a few cache lines' worth of work, or a send: whoever waits for it does not sleep at once. */
void share_mutex_init(pthread_mutex_t *mutex);
/* A condition for share_cond_wait(), which waits by that clock. */
void share_cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait(). false: the deadline has passed. */
bool share_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline);

#endif
