/* SPDX-License-Identifier: MIT */
/* wait.h - deadlines, in nanoseconds by the service thread's clock, and waiting on a condition until one. No state. */
#ifndef WEIR_SHARE_WAIT_H
#define WEIR_SHARE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* So many milliseconds from now. */
uint64_t share_deadline(unsigned timeout_ms);

/* A condition for share_cond_wait(), which waits by that clock. */
void share_cond_init(pthread_cond_t *cond);
/* pthread_cond_timedwait(). false: the deadline has passed. */
bool share_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline);

#endif
