/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/service.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/weir_internal.h"

/*
 * STOPPED -> RUNNING by the first job; RUNNING -> STOPPING by the last one or by exit; STOPPING -> STOPPED by the same thread, once it has
 * joined. Whoever meets STOPPING waits, so that there is never a second thread, and a job added meanwhile gets a new one.
 */
enum state { STOPPED, RUNNING, STOPPING };

static struct {
    pthread_mutex_t lock;   /* a leaf; guards everything here and in the jobs */
    pthread_cond_t changed; /* a run has ended, or `state` has changed to STOPPED */
    enum state state;
    bool has_exit_handler;
    bool exiting;           /* no thread is started any more */
    struct weir__job *jobs; /* in the order of their turns */
    uint64_t wakes_at;      /* when the thread will look at the jobs by itself; 0: it is not asleep */
    uint64_t wakeups;
    int eventfd; /* ends the thread's sleep; open while state is not STOPPED */
    pthread_t thread;
} service = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .eventfd = -1 };

static __thread bool is_service_thread;

uint64_t weir__service_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The thread --------------------------------------------------------------------------------------------------------------------------- */

/* Runs the first job that is due, and puts it last, so that no job keeps the others from their turns. false: none is due. */
static bool run_one(void)
{
    uint64_t now = weir__service_now();
    struct weir__job **link = &service.jobs;
    while (*link && (*link)->due > now)
        link = &(*link)->next;
    struct weir__job *job = *link;
    if (!job)
        return false;
    *link = job->next;
    while (*link)
        link = &(*link)->next;
    *link = job;
    job->next = NULL;
    job->due = WEIR__SERVICE_NEVER;
    job->running = true;
    pthread_mutex_unlock(&service.lock);
    uint64_t due = job->run(job);
    pthread_mutex_lock(&service.lock);
    job->running = false;
    if (due < job->due)
        job->due = due;
    pthread_cond_broadcast(&service.changed);
    return true;
}

/* A time limit for poll(), rounded up: waking too early would mean to poll again and again until it is time. */
static int milliseconds_until(uint64_t due)
{
    uint64_t now = weir__service_now();
    if (due == WEIR__SERVICE_NEVER)
        return -1;
    if (due <= now)
        return 0;
    uint64_t milliseconds = (due - now) / 1000000 + 1;
    return milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
}

static void sleep_until_due(void)
{
    service.wakes_at = WEIR__SERVICE_NEVER;
    for (const struct weir__job *job = service.jobs; job; job = job->next)
        if (job->due < service.wakes_at)
            service.wakes_at = job->due;
    struct pollfd wake = { .fd = service.eventfd, .events = POLLIN };
    int limit = milliseconds_until(service.wakes_at);
    pthread_mutex_unlock(&service.lock);
    poll(&wake, 1, limit);
    pthread_mutex_lock(&service.lock);
    service.wakes_at = 0;
    service.wakeups++;
    /* Emptied under the lock, and even if poll() saw nothing: a wake-up that came a moment later must not end the next sleep. */
    eventfd_t count;
    eventfd_read(service.eventfd, &count);
}

static void *serve(void *unused)
{
    pthread_setname_np(pthread_self(), "weir");
    is_service_thread = true;
    pthread_mutex_lock(&service.lock);
    while (service.state == RUNNING)
        if (!run_one())
            sleep_until_due();
    pthread_mutex_unlock(&service.lock);
    return unused;
}

/* Starting and stopping; all with the lock held ---------------------------------------------------------------------------------------- */

static void end_sleep(void)
{
    /* It cannot fail: the counter is emptied before the next write. */
    if (service.wakes_at > 0)
        eventfd_write(service.eventfd, 1);
    service.wakes_at = 0;
}

/* Stops the thread, or waits for whoever is at it. The lock is let go meanwhile. */
static void stop(void)
{
    if (service.state == RUNNING) {
        service.state = STOPPING;
        end_sleep();
        pthread_mutex_unlock(&service.lock);
        pthread_join(service.thread, NULL);
        pthread_mutex_lock(&service.lock);
        close(service.eventfd);
        service.eventfd = -1;
        service.state = STOPPED;
        pthread_cond_broadcast(&service.changed);
    }
    while (service.state == STOPPING)
        pthread_cond_wait(&service.changed, &service.lock);
}

/*
 * An exit handler, and not a destructor: exit() calls handlers in the reverse order of their registration, and this one is registered after
 * CUDA was first called, so that the thread is gone before CUDA takes itself down. Destructors run after all that. When dlclose() unloads
 * the library, glibc calls its handlers as well.
 */
static void on_exit_of_process(void)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    service.exiting = true;
    if (!is_service_thread) /* a job that called exit() cannot be waited for; it never returns to the loop either */
        stop();
    pthread_mutex_unlock(&service.lock);
}

/* The thread inherits its creator's mask, so signals are blocked before it exists: they are the application's. */
static int create_thread(void)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int code = pthread_create(&service.thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return code;
}

static weir_status start(weir_error *error)
{
    if (!service.has_exit_handler && atexit(on_exit_of_process) != 0)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the service thread's exit handler");
    service.has_exit_handler = true;
    service.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service.eventfd < 0)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "the service thread gets no eventfd: %s: close descriptors or raise ulimit -n",
                          strerror(errno));
    service.wakes_at = 0;
    int code = create_thread();
    if (code != 0) {
        close(service.eventfd);
        service.eventfd = -1;
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "the service thread cannot be started: %s: free memory or raise ulimit -u",
                          strerror(code));
    }
    service.state = RUNNING;
    return WEIR_OK;
}

/* Jobs --------------------------------------------------------------------------------------------------------------------------------- */

weir_status weir__service_add(struct weir__job *job, weir_error *error)
{
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&service.lock);
    /* A job that adds one while exit() waits for it must not wait for exit(). */
    while (service.state == STOPPING && !service.exiting)
        pthread_cond_wait(&service.changed, &service.lock);
    if (service.exiting)
        status = weir__fail(error, WEIR_BUSY, "the process is exiting, so that no service thread can be had: open weirs before exit()");
    else if (service.state == STOPPED)
        status = start(error);
    if (status == WEIR_OK) {
        job->due = WEIR__SERVICE_NEVER;
        job->running = false;
        job->next = service.jobs;
        service.jobs = job;
    }
    pthread_mutex_unlock(&service.lock);
    return status;
}

void weir__service_remove(struct weir__job *job)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    struct weir__job **link = &service.jobs;
    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
    if (!is_service_thread) {
        while (job->running)
            pthread_cond_wait(&service.changed, &service.lock);
        if (!service.jobs)
            stop();
    }
    pthread_mutex_unlock(&service.lock);
}

void weir__service_wake(struct weir__job *job, uint64_t when)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    if (when < job->due)
        job->due = when;
    if (when < service.wakes_at)
        end_sleep();
    pthread_mutex_unlock(&service.lock);
}

uint64_t weir__service_wakeups(void)
{
    pthread_mutex_lock(&service.lock);
    uint64_t wakeups = service.wakeups;
    pthread_mutex_unlock(&service.lock);
    return wakeups;
}
