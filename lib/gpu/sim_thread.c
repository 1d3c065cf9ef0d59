/* SPDX-License-Identifier: MIT */
/* sim_thread.c - the clock of a named machine, and a thread in each of its processes that runs due work, as a GPU would. On a machine
   without a name there is no thread, and a wait moves the virtual clock. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/clock.h"
#include "lib/gpu/sim_machine.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS UINT64_C(5000000) /* the thread looks at fences of other processes this often, without being woken */

/* Guarded by sim.lock. */
static struct {
    bool runs;
    pthread_t thread;
    uint64_t asleep_until; /* the time at which it wakes by itself */
    pthread_cond_t progress; /* signalled when unknown times have become known */
} ticker;

void sim_catch_up(void)
{
    if (!sim_machine_is_named())
        return;
    if (sim_gates_settle())
        pthread_cond_broadcast(&ticker.progress);
    sim_advance_to(gpu_clock_now());
}

/* The thread --------------------------------------------------------------------------------------------------------------------------- */

static uint64_t next_work(void)
{
    uint64_t due = sim.actions ? sim.actions->due : SIM_NEVER, sweep = sim_pools_next_sweep();
    return due < sweep ? due : sweep;
}

/* The next time at which the thread must look. While a fence of another process is open, it looks every LOOK_NS: that process may be killed
   after the fence is done and before it has woken us. */
static uint64_t next_look(void)
{
    uint64_t next = next_work(), look = sim.now + LOOK_NS;
    return next > look && sim_gates_are_closed() ? look : next;
}

/* Sleeps until the time, or until the process's futex differs from `seen`. */
static void sleep_until(uint64_t time, uint32_t *word, uint32_t seen)
{
    struct timespec end = gpu_clock_timespec(time);
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, sim_time_is_open(time) ? NULL : &end, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void *run(void *data)
{
    uint32_t *word = data;
    pthread_mutex_lock(&sim.lock);
    while (ticker.runs) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        sim_catch_up();
        sim_pools_sweep();
        uint64_t next = next_look();
        ticker.asleep_until = next;
        pthread_mutex_unlock(&sim.lock);
        sleep_until(next, word, seen);
        pthread_mutex_lock(&sim.lock);
    }
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

int sim_thread_start(void)
{
    pthread_condattr_t attributes;
    sigset_t all, former;
    if (!sim_machine_is_named())
        return 0;
    if (pthread_condattr_init(&attributes))
        return GPU_OUT_OF_MEMORY;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ticker.progress, &attributes);
    pthread_condattr_destroy(&attributes);
    sim.now = gpu_clock_now();
    /* Block all signals in the thread: they are the application's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int code = pthread_create(&ticker.thread, NULL, run, &sim.machine.shared->processes[sim.machine.self].wake);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (code)
        return GPU_OUT_OF_MEMORY;
    pthread_setname_np(ticker.thread, "weir-sim");
    ticker.runs = true;
    return 0;
}

void sim_thread_stop(void)
{
    if (!ticker.runs)
        return;
    ticker.runs = false;
    pthread_cond_broadcast(&ticker.progress);
    pthread_mutex_unlock(&sim.lock);
    sim_machine_wake(sim.machine.self);
    pthread_join(ticker.thread, NULL);
    pthread_mutex_lock(&sim.lock);
}

void sim_thread_after_fork(void)
{
    ticker.runs = false;
}

void sim_thread_notify(void)
{
    if (!ticker.runs)
        return;
    /* Most actions that a call queues are due at once: run them here, and do not wait for the thread. */
    if (sim.actions && sim.actions->due <= sim.now)
        sim_advance_to(sim.now);
    if (next_look() < ticker.asleep_until)
        sim_machine_wake(sim.machine.self);
}

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

static void wait_really(struct sim_sleeper *sleeper)
{
    sim_thread_notify();
    while (!sim.sticky && !sim.gone && sleeper->until > sim.now) {
        struct timespec end = gpu_clock_timespec(sleeper->until);
        if (sim_time_is_open(sleeper->until))
            pthread_cond_wait(&ticker.progress, &sim.lock);
        else
            pthread_cond_timedwait(&ticker.progress, &sim.lock, &end);
        sim_catch_up();
    }
}

void sim_wait_until(uint64_t time)
{
    struct sim_sleeper sleeper = { sim.sleepers, time };
    if (!sim_machine_is_named()) {
        sim_advance_to(time);
        return;
    }
    sim.sleepers = &sleeper;
    wait_really(&sleeper);
    struct sim_sleeper **place = &sim.sleepers;
    while (*place != &sleeper)
        place = &(*place)->next;
    *place = sleeper.next;
}

void sim_sleep(uint64_t nanoseconds)
{
    struct timespec end = gpu_clock_timespec(sim_time_add(gpu_clock_now(), nanoseconds));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}
