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
    size_t job_count, watch_count;
    const struct weir__job *running; /* or NULL; one that is being removed is on the list no more */
    uint64_t changes;  /* of the list of jobs and of what they watch */
    uint64_t wakes_at; /* when the thread will look at the jobs by itself; 0: it is not asleep */
    uint64_t wakeups;
    int eventfd; /* ends the thread's sleep; open while state is not STOPPED */
    pthread_t thread;
    /* What the thread sleeps on: the eventfd, then what jobs watch, in their order. `polled` is the thread's own, which it uses without the
       lock; there is always room for all jobs, in `larger` if that is not NULL, so that to watch cannot fail. */
    struct pollfd *polled, *larger;
    size_t room;
} service = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .eventfd = -1 };

static __thread bool is_service_thread; /* or one that runs jobs by hand */
static const struct gpu *by_hand;       /* whose clock counts; NULL: there is a thread. Set while nobody else is here */

uint64_t weir__service_now(void)
{
    return by_hand ? by_hand->now() : gpu_clock_now();
}

/* With the lock held. */
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
    uint64_t due; /* when it is due again: at once, where the application's log function ends the thread */
};

/* Takes the lock. */
static void end_run(struct run *run)
{
    pthread_mutex_lock(&service.lock);
    service.running = NULL;
    if (run->due < run->job->due)
        run->job->due = run->due;
    pthread_cond_broadcast(&service.changed);
}

/* With the lock, which is let go of meanwhile. What the job has logged is said within the run: its weir lives as long. */
static void run(struct weir__job *job)
{
    service.running = job;
    pthread_mutex_unlock(&service.lock);
    struct run run __attribute__((cleanup(end_run))) = { .job = job };
    WEIR__CALL;
    run.due = job->run(job);
}

static int create_thread(void);

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
    WEIR__APPEND(service.jobs, job, next);
    job->due = WEIR__SERVICE_NEVER;
    run(job);
    return true;
}

/* Fills `polled`. Returns how many descriptors there are. */
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

/* The jobs whose descriptors have something are due. Nothing of the list has changed since gather(). */
static void make_due(void)
{
    size_t at = 1;
    for (struct weir__job *job = service.jobs; job; job = job->next)
        if (job->watched >= 0 && service.polled[at++].revents)
            job->due = 0;
}

/* Sleeps until a job is due. Where one is already, what the others watch is looked at all the same, so that they get their turns. */
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
    /* Whoever ended the sleep has set wakes_at to 0. The eventfd is emptied under the lock, and even if poll() saw nothing of it: a wake-up
       that came a moment later must not end the next sleep. */
    eventfd_t wakes;
    if (sleeps && service.wakes_at == 0)
        eventfd_read(service.eventfd, &wakes);
    service.wakes_at = 0;
    service.wakeups += sleeps;
    /* After a change the answers may be of other jobs' descriptors. What is there still is seen at the next look. */
    if (ready > 0 && changes == service.changes)
        make_due();
}

/* Called with the lock, and releases it. If the application's log function ended the thread in the middle of its work, a new thread takes
   its place. */
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
    /* The kernel may let sleepers lie for 50 us longer, to wake several at a time; shared memory is waited for in less. */
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK);
    is_service_thread = true;
    pthread_mutex_lock(&service.lock);
    const int locked __attribute__((cleanup(end_thread), unused)) = 0;
    while (service.state == RUNNING) {
        bool has_run = run_one();
        /* A run lets go of the lock, so that the thread may have been stopped meanwhile. */
        if (service.state == RUNNING && (!has_run || service.watch_count > 0))
            sleep_until_due();
    }
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

/* Makes room for the descriptors of so many jobs. */
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
        drop_room();
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
    /* A job that adds one while exit() waits for it must not wait for exit(). */
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

/* With the lock held. A thread that sleeps holds on to what it sleeps on, even if that is closed meanwhile, so it is made to begin anew. */
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
    WEIR__CALL; /* a free that a cache keeps comes here as well, and to write to the eventfd is a cancellation point */
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
    /* Each that runs goes to the end of the list. */
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
