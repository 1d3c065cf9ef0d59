/* SPDX-License-Identifier: MIT */
/*
 * service.h - the service thread, one for the whole process. It runs jobs: work that Weir does outside of the program's calls, such as
 * keeping memory ready or serving the importers of a pool.
 *
 * The thread is started when the first job is added and stopped when the last one is removed, or at exit(). It is named "weir", blocks all
 * signals, and sleeps until a job is due or woken. Jobs run one at a time, in turns, with no lock held. A job's memory belongs to the code
 * that added the job. One lock guards the list and the members of every job; it is a leaf, and is never held while a job runs.
 *
 * In the mode "by hand", which simulations use, there is no service thread: a thread of the program runs the jobs, and the GPU's clock
 * (gpu->now()) says which are due, so that everything follows one clock.
 *
 * Every function may be called from any thread. In the child of a fork, where the thread does not exist, the functions do nothing.
 */
#ifndef WEIR_LIB_SERVICE_H
#define WEIR_LIB_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"

#define WEIR__SERVICE_NEVER UINT64_MAX /* the due time of a job that runs only when woken */

/* One job, embedded in the struct that it works for. The owner sets `run`; all other members belong to service.c. */
struct weir__job {
    struct weir__job *next;
    uint64_t due; /* the time of the next run, by weir__service_now(), or WEIR__SERVICE_NEVER */
    int watched;  /* the descriptor that makes the job due, see weir__service_watch(), or -1 */
    /* Does the work, on the service thread. Returns the time of the next run by the same clock: 0 means at once, WEIR__SERVICE_NEVER when
       woken. The function may add and wake jobs and may remove other jobs, but not its own. It must not wait for a thread that waits for
       the removal of a job. */
    uint64_t (*run)(struct weir__job *job);
};

/* The clock of the due times, in nanoseconds: CLOCK_MONOTONIC, or gpu->now() by hand. */
uint64_t weir__service_now(void);
static inline uint64_t weir__service_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Adds a job, which first runs when woken. The first job starts the thread; while an old thread is being stopped, the call waits for its
 * end. Call CUDA once before you add a job that calls CUDA: only then does exit() stop the thread before it shuts CUDA down. Returns
 * WEIR_NO_HOST_MEMORY if the thread cannot be started, WEIR_BUSY if the process is exiting, or WEIR_FORKED; the job is not added in these
 * cases.
 */
weir_status weir__service_add(struct weir__job *job, weir_error *error);

/*
 * Removes a job that was added. The function waits if the job is running, so after it has returned the job does not run any more. Removing
 * the last job stops and joins the thread. A job may remove other jobs, without a wait, since only one runs at a time. A job must not
 * remove itself; only if the job has called exit(), code that exit() runs may remove any job.
 */
void weir__service_remove(struct weir__job *job);

/*
 * Makes the job run at the time `when` (0: at once), unless it is due earlier. A job that is running runs again, at the earlier of `when`
 * and the time that its run returns. The function takes the lock, makes a system call only if the thread would sleep beyond `when`, and
 * never waits for a run.
 */
void weir__service_wake(struct weir__job *job, uint64_t when);

/*
 * Makes the job due whenever `fd` is readable or its other side has hung up. With -1 the job watches no descriptor any more. A job watches
 * one descriptor; to watch several, pass an epoll set. The descriptor remains the caller's: end the watch, or remove the job, before you
 * close it. It is not polled while the job runs. The function takes effect at once even if the thread sleeps; called from the job itself it
 * needs no system call.
 */
void weir__service_watch(struct weir__job *job, int fd);

/* Returns how often the thread has woken up since the process began. While no job is due the thread does not wake up. */
uint64_t weir__service_wakeups(void);

/* By hand ------------------------------------------------------------------------------------------------------------------------------ */

struct gpu;

/*
 * Begins the mode "by hand" with the clock gpu->now(): jobs run only within weir__service_run_due() and weir__service_pass(), and no thread
 * is started. NULL ends the mode. Call it while no job exists and no other thread uses this file. By hand, watched descriptors are not
 * polled, so sharing between processes needs the thread. The time that a job waits, or that its GPU calls take, passes on the same clock.
 */
void weir__service_by_hand(const struct gpu *gpu);

/* By hand: returns the time at which the first job is due, or WEIR__SERVICE_NEVER. */
uint64_t weir__service_next(void);
/* By hand: runs the jobs that are due, in turns, on the calling thread. To be sure to end, it makes no more runs than there are jobs.
   Returns the number of runs. A job must not call it. */
size_t weir__service_run_due(void);
/* By hand: advances the clock to `until`, and runs each job when it is due. It ends later if the last jobs take longer. */
void weir__service_pass(uint64_t until);

#endif
