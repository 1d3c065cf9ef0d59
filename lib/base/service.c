/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/error.h"
#include "lib/base/fork.h"
#include "lib/base/format.h"
#include "lib/base/list.h"
#include "lib/gpu/clock.h"
#include "lib/gpu/gpu.h"

#define TIMER_SLACK 1000UL /* nanoseconds */

/*
 * The state of the service thread. Adding the first job changes STOPPED to RUNNING. Removing the last job, or exit(), changes RUNNING to
 * STOPPING; the thread that did so joins the service thread and then sets STOPPED. A thread that finds STOPPING waits for STOPPED, so that
 * there are never two service threads, and a job that is added during the stop gets a new one.
 */
enum state { STOPPED, RUNNING, STOPPING };

static struct {
    pthread_mutex_t lock;   /* a leaf; guards the members of this struct, except `polled`, and the members of all jobs */
    pthread_cond_t changed; /* signalled when a run has ended or `state` has become STOPPED */
    enum state state;
    bool has_exit_handler;
    bool exiting;           /* exit() was called: no thread is started any more */
    struct weir__job *jobs; /* the job whose turn is next comes first */
    size_t job_count, watch_count;
    const struct weir__job *running; /* the job that runs, or NULL; a job that is removed during its run is not on the list any more */
    uint64_t changes;  /* counts the changes of the list and of the watched descriptors */
    uint64_t wakes_at; /* the time at which the thread's sleep ends by itself; 0: the thread does not sleep */
    uint64_t wakeups;
    int eventfd; /* writing to it ends the thread's sleep; open while `state` is not STOPPED */
    pthread_t thread;
    /* The thread polls `polled`: first the eventfd, then the descriptors that jobs watch, in the order of the list. Only the thread uses
       `polled`, without the lock. weir__service_add() makes room for one more descriptor, in `larger`, which the thread takes over before
       it polls again; so beginning a watch cannot fail. */
    struct pollfd *polled, *larger;
    size_t room;
} service = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .eventfd = -1 };

static __thread bool is_service_thread; /* this thread runs jobs, as the service thread or by hand */
static const struct gpu *by_hand;       /* by hand: the GPU with the clock; else NULL. Written while no other thread uses this file */

uint64_t weir__service_now(void)
{
    return by_hand ? by_hand->now() : gpu_clock_now();
}

/* Returns when the first job is due. The caller holds the lock. */
static uint64_t first_due(void)
{
    uint64_t due = WEIR__SERVICE_NEVER;
    for (const struct weir__job *job = service.jobs; job; job = job->next)
        due = weir__service_earlier(due, job->due);
    return due;
}

/* The thread --------------------------------------------------------------------------------------------------------------------------- */

struct run {
    struct weir__job *job;
    uint64_t due; /* the time of the next run. It stays 0, which means at once, if the application's log function ends the thread */
};

/* Notes that the run has ended, as a clean-up. It takes the lock and returns with the lock held. */
static void end_run(struct run *run)
{
    pthread_mutex_lock(&service.lock);
    service.running = NULL;
    if (run->due < run->job->due)
        run->job->due = run->due;
    pthread_cond_broadcast(&service.changed);
}

/* Runs one job. The caller holds the lock, which is released during the run. Lines that the job logs reach the log function before the run
   ends: until then nobody can remove the job and close its weir. */
static void run(struct weir__job *job)
{
    service.running = job;
    pthread_mutex_unlock(&service.lock);
    struct run run __attribute__((cleanup(end_run))) = { .job = job };
    WEIR__CALL;
    run.due = job->run(job);
}

static int create_thread(void);

/* Moves the first job that is due to the end of the list, so that each job gets its turn, and runs it. Returns false if no job is due. The
   caller holds the lock, which is released during the run. */
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
    WEIR__APPEND(service.jobs, job, next);
    job->due = WEIR__SERVICE_NEVER;
    run(job);
    return true;
}

/* Fills `polled` with the eventfd and the watched descriptors, and returns their number. The caller holds the lock. */
static size_t gather(void)
{
    if (service.larger) {
        free(service.polled);
        service.polled = service.larger;
        service.larger = NULL;
    }
    size_t count = 0;
    service.polled[count++] = (struct pollfd){ .fd = service.eventfd, .events = POLLIN };
    for (const struct weir__job *job = service.jobs; job; job = job->next)
        if (job->watched >= 0)
            service.polled[count++] = (struct pollfd){ .fd = job->watched, .events = POLLIN };
    return count;
}

/* Makes those jobs due whose descriptors have an event in `polled`. The list has not changed since gather() filled `polled`. */
static void make_due(void)
{
    size_t at = 1;
    for (struct weir__job *job = service.jobs; job; job = job->next)
        if (job->watched >= 0 && service.polled[at++].revents)
            job->due = 0;
}

/* Sleeps until a job is due. If one is due already, polls the descriptors without sleeping, so that jobs which watch them get their turns
   as well. The caller holds the lock, which is released during the poll. */
static void sleep_until_due(void)
{
    uint64_t due = first_due(), now = weir__service_now();
    bool sleeps = due > now;
    const struct timespec left = gpu_clock_timespec(sleeps ? due - now : 0);
    uint64_t changes = service.changes;
    size_t count = gather();
    service.wakes_at = sleeps ? due : 0;
    pthread_mutex_unlock(&service.lock);
    int ready = ppoll(service.polled, count, due == WEIR__SERVICE_NEVER ? NULL : &left, NULL);
    pthread_mutex_lock(&service.lock);
    /* A thread that ended the sleep has set wakes_at to 0 and written to the eventfd. Empty the eventfd under the lock, and even if poll()
       did not report it: a wake-up that was written just after poll() returned must not end the next sleep. */
    eventfd_t wakes;
    if (sleeps && service.wakes_at == 0)
        eventfd_read(service.eventfd, &wakes);
    service.wakes_at = 0;
    service.wakeups += sleeps;
    /* If the list has changed during the poll, the answers may belong to other jobs. Drop them: the next poll reports the same events. */
    if (ready > 0 && changes == service.changes)
        make_due();
}

/* Ends the thread, as a clean-up. It is called with the lock held, and releases the lock. If the application's log function has ended the
   thread while jobs are left, a new thread takes its place. */
static void end_thread(const int *unused)
{
    (void)unused;
    pthread_t self = service.thread;
    if (service.state == RUNNING && create_thread() == 0)
        pthread_detach(self);
    pthread_mutex_unlock(&service.lock);
}

static void *serve(void *unused)
{
    pthread_setname_np(pthread_self(), "weir");
    /* By default the kernel may end a sleep 50 µs late, to wake several threads at once. Waits for memory that is shared between processes
       are often shorter than that. */
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK);
    is_service_thread = true;
    pthread_mutex_lock(&service.lock);
    const int locked __attribute__((cleanup(end_thread), unused)) = 0;
    while (service.state == RUNNING) {
        bool has_run = run_one();
        /* The lock was released during the run: another thread may have begun to stop this one. */
        if (service.state == RUNNING && (!has_run || service.watch_count > 0))
            sleep_until_due();
    }
    return unused;
}

/* Starting and stopping; all with the lock held ---------------------------------------------------------------------------------------- */

static void end_sleep(void)
{
    /* The eventfd's counter cannot overflow, so the write cannot fail: the thread empties the eventfd before it sleeps again. */
    if (service.wakes_at > 0)
        eventfd_write(service.eventfd, 1);
    service.wakes_at = 0;
}

/* Makes room in `larger`, if necessary, for the eventfd and the descriptors of `jobs` jobs. Returns false if host memory runs out. */
static bool reserve(size_t jobs)
{
    if (jobs + 1 <= service.room)
        return true;
    size_t room = 2 * (jobs + 1);
    struct pollfd *larger = calloc(room, sizeof *larger);
    if (!larger)
        return false;
    free(service.larger);
    service.larger = larger;
    service.room = room;
    return true;
}

static void drop_room(void)
{
    free(service.polled);
    free(service.larger);
    service.polled = service.larger = NULL;
    service.room = 0;
}

/* Stops the thread. If another thread is stopping it already, waits for that thread to finish. The lock is released during the wait. */
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
        drop_room();
        service.state = STOPPED;
        pthread_cond_broadcast(&service.changed);
    }
    while (service.state == STOPPING)
        pthread_cond_wait(&service.changed, &service.lock);
}

/*
 * The exit handler of the process. It is a handler and not a destructor, since exit() calls handlers in the reverse order of their
 * registration: this one is registered after CUDA was first called, so it stops the thread before CUDA's own handlers shut CUDA down.
 * Destructors would run after CUDA's handlers. When dlclose() unloads the library, glibc calls the library's handlers as well.
 */
static void on_exit_of_process(void)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    service.exiting = true;
    if (!is_service_thread) /* a job may call exit() on the service thread, which cannot join itself and never returns to its loop */
        stop();
    pthread_mutex_unlock(&service.lock);
}

/* Creates the thread with all signals blocked, since signals are the application's. A thread inherits the mask of its creator, so the
   creator's signals are blocked meanwhile. Returns the code of pthread_create(). */
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
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "the service thread gets no eventfd: %s",
                          WEIR__WHY(errno, "free host memory"));
    service.wakes_at = 0;
    int code = create_thread();
    if (code != 0) {
        close(service.eventfd);
        service.eventfd = -1;
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "the service thread cannot be started: %s",
                          WEIR__WHY(code, "free host memory or raise ulimit -u"));
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
    /* While the process exits nothing may wait here: exit() may be waiting for the very job that makes this call. */
    while (service.state == STOPPING && !service.exiting)
        pthread_cond_wait(&service.changed, &service.lock);
    if (service.exiting)
        status = weir__fail(error, WEIR_BUSY, "the process is exiting, so that no service thread can be had: open weirs before exit()");
    else if (!by_hand && !reserve(service.job_count + 1))
        status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for one more job of the service thread");
    else if (!by_hand && service.state == STOPPED)
        status = start(error);
    if (status == WEIR_OK) {
        job->due = WEIR__SERVICE_NEVER;
        job->watched = -1;
        job->next = service.jobs;
        service.jobs = job;
        service.job_count++;
        service.changes++;
    } else if (service.state == STOPPED) {
        drop_room();
    }
    pthread_mutex_unlock(&service.lock);
    return status;
}

/* Changes the descriptor that the job watches, and ends the thread's sleep, so that the thread polls the new set of descriptors: poll()
   would go on polling the old one, even after it was closed. The caller holds the lock. */
static void watch(struct weir__job *job, int fd)
{
    if (job->watched == fd)
        return;
    service.changes++;
    service.watch_count += (fd >= 0) - (job->watched >= 0);
    job->watched = fd;
    end_sleep();
}

void weir__service_remove(struct weir__job *job)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    WEIR__UNLINK(service.jobs, job, next);
    service.job_count--;
    service.changes++;
    watch(job, -1);
    if (!is_service_thread) {
        while (service.running == job)
            pthread_cond_wait(&service.changed, &service.lock);
        /* Only the remover of a running job waits for the run and stops the thread; another remover may hold a lock that the run needs. */
        if (!service.jobs && !service.running)
            stop();
    }
    pthread_mutex_unlock(&service.lock);
}

void weir__service_wake(struct weir__job *job, uint64_t when)
{
    if (weir__is_forked())
        return;
    WEIR__CALL; /* writing to the eventfd is a cancellation point, and a cached free comes here without a WEIR__CALL of its own */
    pthread_mutex_lock(&service.lock);
    if (when < job->due)
        job->due = when;
    if (when < service.wakes_at)
        end_sleep();
    pthread_mutex_unlock(&service.lock);
}

void weir__service_watch(struct weir__job *job, int fd)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&service.lock);
    watch(job, fd);
    pthread_mutex_unlock(&service.lock);
}

uint64_t weir__service_wakeups(void)
{
    pthread_mutex_lock(&service.lock);
    uint64_t wakeups = service.wakeups;
    pthread_mutex_unlock(&service.lock);
    return wakeups;
}

/* By hand ------------------------------------------------------------------------------------------------------------------------------ */

void weir__service_by_hand(const struct gpu *gpu)
{
    by_hand = gpu;
}

uint64_t weir__service_next(void)
{
    pthread_mutex_lock(&service.lock);
    uint64_t due = first_due();
    pthread_mutex_unlock(&service.lock);
    return due;
}

size_t weir__service_run_due(void)
{
    size_t count = 0;
    pthread_mutex_lock(&service.lock);
    is_service_thread = true;
    /* run_one() moves each job that it runs to the end of the list, so the others get their turns first. */
    for (size_t left = service.job_count; left > 0 && run_one(); left--)
        count++;
    is_service_thread = false;
    pthread_mutex_unlock(&service.lock);
    return count;
}

static void wait_until(uint64_t time)
{
    uint64_t now = by_hand->now();
    if (time > now)
        by_hand->pause(time - now);
}

void weir__service_pass(uint64_t until)
{
    for (uint64_t due; (due = weir__service_next()) <= until && due != WEIR__SERVICE_NEVER;) {
        wait_until(due);
        weir__service_run_due();
    }
    wait_until(until);
}
