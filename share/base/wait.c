/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/base/wait.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "lib/base/number.h"
#include "lib/base/service.h"

#define SPIN UINT64_C(50000)

uint64_t share_deadline(unsigned timeout_ms)
{
    return weir__service_now() + timeout_ms * GPU_MILLISECOND;
}

struct timespec share_time_left(uint64_t deadline)
{
    uint64_t now = weir__service_now();
    return gpu_clock_timespec(deadline > now ? deadline - now : 0);
}

bool share_pause(uint64_t deadline, uint64_t ns)
{
    uint64_t now = weir__service_now();
    if (now >= deadline)
        return false;
    nanosleep(&(struct timespec){ .tv_nsec = (long)weir__smaller(ns, deadline - now) }, NULL);
    return true;
}

uint64_t share_spin_time(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1 ? SPIN : 0;
}

void share_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(mutex, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
}

void share_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool share_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline)
{
    const struct timespec until = gpu_clock_timespec(deadline);
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
