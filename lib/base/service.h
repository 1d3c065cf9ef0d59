/* SPDX-License-Identifier: MIT */
/*
 * service.h - the process's one service thread: what Weir does now and then on its own account, as jobs.
 *
 * The thread belongs to this file and lives from the first job added to the last one removed, or to exit(): it is named "weir", blocks all
 * signals, and sleeps until a job is due or woken; when none has a time set, for ever. Jobs are run one at a time, in turns, with no lock
 * held; they belong to whoever adds them. One lock guards the list and every job in it. It is a leaf, and is never held over a run.
 *
 * Or there is no thread, and jobs run by hand, in a thread of the program and by the clock of the waist: so a simulation has one clock.
 *
 * Every function may be called from any thread. In the child of a fork, where the thread does not exist, they do nothing.
 */
#ifndef WEIR_LIB_SERVICE_H
#define WEIR_LIB_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"

#define WEIR__SERVICE_NEVER UINT64_MAX /* when woken, and not before */

/* Something the service thread does now and then; embedded in its owner, who sets `run` and leaves the rest alone. */
struct weir__job {
    struct weir__job *next;
    uint64_t due; /* by weir__service_now(), or WEIR__SERVICE_NEVER */
    int watched; /* a descriptor, or -1 */
    /* Called on the service thread. Returns when it wants to run next, by the same clock: 0 is at once, WEIR__SERVICE_NEVER when woken. It
       may add and wake jobs and remove others, but not itself, and nothing that it waits for may wait for the removal of a job. */
    uint64_t (*run)(struct weir__job *job);
};

/* The clock that jobs are due by: CLOCK_MONOTONIC in nanoseconds; by hand that of the waist. */
uint64_t weir__service_now(void);
static inline uint64_t weir__service_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Adds a job, due when woken; the first one starts the thread. Waits for a thread that is being stopped. A job that calls CUDA is added
 * after CUDA was first called, so that at exit the thread is gone before CUDA is.
 * WEIR_NO_HOST_MEMORY (the thread cannot be started), WEIR_BUSY (the process is exiting), WEIR_FORKED; nothing is left behind then.
 */
weir_status weir__service_add(struct weir__job *job, weir_error *error);

/*
 * Removes a job that was added. Once it returned, the job neither runs nor will run. Waits for a run of it in progress; the last removal
 * stops and joins the thread. A job may remove others, which do not run while it does: there is nothing to wait for. It may not remove
 * itself, whose run the thread is to come back from; but code that runs because a job called exit() may remove any.
 */
void weir__service_remove(struct weir__job *job);

/*
 * The job shall run at `when`, unless it is due earlier; 0: at once. One that is running runs again, at the earlier of `when` and what the
 * run returns. Takes the lock, and makes a system call only if the thread would sleep too long; never waits for a run.
 */
void weir__service_wake(struct weir__job *job, uint64_t when);

/*
 * The job is due whenever `fd` is readable, or the other side has hung up; -1: it watches nothing any more, as at first. The descriptor
 * stays the caller's, who ends the watch before closing it, or removes the job. An epoll descriptor stands for any number of others. While
 * the job runs it is not looked at. Takes effect at once, also on a thread that sleeps; from within the job itself it needs no system call.
 */
void weir__service_watch(struct weir__job *job, int fd);

/* How often the thread has woken up since the process began. A process in which nothing is due adds none. */
uint64_t weir__service_wakeups(void);

/* By hand ------------------------------------------------------------------------------------------------------------------------------ */

struct gpu;

/*
 * From now on jobs are due by gpu->now() and run in weir__service_run_due() and weir__service_pass() only; no thread is started. NULL: the
 * thread again. Called while no job exists, and no other thread uses this file. What jobs watch is not looked at: sharing between processes
 * needs the thread. What a job waits for, or what its calls cost, passes on the one clock like everything else.
 */
void weir__service_by_hand(const struct gpu *gpu);

/* By hand: when the first job is due. WEIR__SERVICE_NEVER: none is. */
uint64_t weir__service_next(void);
/* By hand: runs what is due now in the calling thread, in turns; no more runs than there are jobs, so that it ends. Returns how many. Never
   called by a job. */
size_t weir__service_run_due(void);
/* By hand: lets time pass until `until`, and each job run at the moment it is due. Jobs that take longer make it end later. */
void weir__service_pass(uint64_t until);

#endif
