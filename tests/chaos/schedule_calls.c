/* SPDX-License-Identifier: MIT */
/* schedule_calls.c - the calls of the C library that a schedule takes over (schedule.h): __wrap_X stands for X, __real_X is the library's. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>

#include "lib/gpu/sim_internal.h"
#include "tests/chaos/schedule.h"

#define SECOND UINT64_C(1000000000)
#define BEGIN (1000 * SECOND) /* what the clocks say when the virtual one begins */
#define YIELD_NS 1000         /* what a look at a lock that spins takes */

/* Each with its twin: the linker gives the calls of the program to the one, and the real function the name of the other. */
#define CALL(type, name, parameters) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters

static const char descriptors; /* what a thread in poll() waits for */

static uint64_t nanoseconds_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

static uint64_t after(uint64_t nanoseconds)
{
    uint64_t sum;
    return __builtin_add_overflow(schedule_now(), nanoseconds, &sum) ? SCHEDULE_NEVER : sum;
}

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

int __real_pthread_join(pthread_t thread, void **result);

static int real_join(uintptr_t thread, void **result)
{
    return __real_pthread_join((pthread_t)thread, result);
}

CALL(int, pthread_join, (pthread_t thread, void **result))
{
    return schedule_is_on() ? schedule_task_join((uintptr_t)thread, real_join, result) : real_join((uintptr_t)thread, result);
}

CALL(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *data), void *data))
{
    if (!schedule_is_on())
        return __real_pthread_create(thread, attributes, run, data);
    struct schedule_task *task = schedule_task_add(run, data);
    if (!task)
        return EAGAIN;
    int code = __real_pthread_create(thread, attributes, schedule_task_run, task);
    if (code)
        schedule_task_drop(task);
    else
        schedule_task_started(task, (uintptr_t)*thread);
    return code;
}

/* Locks -------------------------------------------------------------------------------------------------------------------------------- */

CALL(int, pthread_mutex_lock, (pthread_mutex_t * mutex))
{
    /* The simulator's own is never held where another thread gets the turn. */
    if (!schedule_is_on() || mutex == &sim.lock)
        return __real_pthread_mutex_lock(mutex);
    int code;
    schedule_yield();
    while ((code = pthread_mutex_trylock(mutex)) == EBUSY)
        schedule_wait(mutex, SCHEDULE_NEVER);
    return code;
}

CALL(int, pthread_mutex_unlock, (pthread_mutex_t * mutex))
{
    int code = __real_pthread_mutex_unlock(mutex);
    if (schedule_is_on() && mutex != &sim.lock)
        schedule_wake(mutex, true);
    return code;
}

CALL(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock))
{
    int code;
    if (!schedule_is_on())
        return __real_pthread_rwlock_rdlock(lock);
    schedule_yield();
    while ((code = pthread_rwlock_tryrdlock(lock)) == EBUSY)
        schedule_wait(lock, SCHEDULE_NEVER);
    return code;
}

CALL(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock))
{
    int code;
    if (!schedule_is_on())
        return __real_pthread_rwlock_wrlock(lock);
    schedule_yield();
    while ((code = pthread_rwlock_trywrlock(lock)) == EBUSY)
        schedule_wait(lock, SCHEDULE_NEVER);
    return code;
}

CALL(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock))
{
    int code = __real_pthread_rwlock_unlock(lock);
    if (schedule_is_on())
        schedule_wake(lock, true);
    return code;
}

/* Conditions --------------------------------------------------------------------------------------------------------------------------- */

/* ETIMEDOUT if the time came first. Nobody runs between the unlock and the wait. */
static int wait_on(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until)
{
    __wrap_pthread_mutex_unlock(mutex);
    bool woken = schedule_wait(cond, until);
    __wrap_pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

CALL(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex))
{
    return schedule_is_on() ? wait_on(cond, mutex, SCHEDULE_NEVER) : __real_pthread_cond_wait(cond, mutex);
}

CALL(int, pthread_cond_timedwait, (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *time))
{
    if (!schedule_is_on())
        return __real_pthread_cond_timedwait(cond, mutex, time);
    uint64_t until = nanoseconds_of(time);
    return wait_on(cond, mutex, until > BEGIN ? until - BEGIN : 0);
}

CALL(int, pthread_cond_signal, (pthread_cond_t * cond))
{
    if (!schedule_is_on())
        return __real_pthread_cond_signal(cond);
    schedule_wake(cond, false);
    return 0;
}

CALL(int, pthread_cond_broadcast, (pthread_cond_t * cond))
{
    if (!schedule_is_on())
        return __real_pthread_cond_broadcast(cond);
    schedule_wake(cond, true);
    return 0;
}

/* Time --------------------------------------------------------------------------------------------------------------------------------- */

CALL(int, clock_gettime, (clockid_t clock, struct timespec *time))
{
    if (!schedule_is_on())
        return __real_clock_gettime(clock, time);
    uint64_t now = BEGIN + schedule_now();
    *time = (struct timespec){ .tv_sec = (time_t)(now / SECOND), .tv_nsec = (long)(now % SECOND) };
    return 0;
}

CALL(int, nanosleep, (const struct timespec *time, struct timespec *left))
{
    if (!schedule_is_on())
        return __real_nanosleep(time, left);
    schedule_sleep_until(after(nanoseconds_of(time)));
    return 0;
}

/* Who looks at a lock again and again takes time for it, so that others get on. */
CALL(int, sched_yield, (void))
{
    if (!schedule_is_on())
        return __real_sched_yield();
    schedule_sleep_until(after(YIELD_NS));
    return 0;
}

/* Descriptors -------------------------------------------------------------------------------------------------------------------------- */

CALL(int, ppoll, (struct pollfd * polled, nfds_t count, const struct timespec *limit, const sigset_t *mask))
{
    static const struct timespec at_once;
    if (!schedule_is_on())
        return __real_ppoll(polled, count, limit, mask);
    uint64_t until = limit ? after(nanoseconds_of(limit)) : SCHEDULE_NEVER;
    int ready;
    schedule_yield();
    while (!(ready = __real_ppoll(polled, count, &at_once, mask)) && schedule_now() < until)
        schedule_wait(&descriptors, until);
    return ready;
}

CALL(int, eventfd_write, (int fd, eventfd_t value))
{
    int code = __real_eventfd_write(fd, value);
    if (schedule_is_on())
        schedule_wake(&descriptors, true);
    return code;
}
