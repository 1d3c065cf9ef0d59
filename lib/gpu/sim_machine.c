/* SPDX-License-Identifier: MIT */
/* sim_machine.c - the shared part of a simulated machine as a file: joining, leaving, its lock, and which processes are alive. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/clock.h"
#include "lib/gpu/sim_machine.h"
#include "lib/gpu/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELDS 16    /* attempts to take the lock before a nap */
#define NAP_NS 50000 /* a nap, since the owner of the lock may not be running */

/* The lock ----------------------------------------------------------------------------------------------------------------------------- */

static int init_lock(struct sim_machine *shared)
{
    pthread_mutexattr_t attributes;
    int code = pthread_mutexattr_init(&attributes);
    if (code)
        return code;
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    code = pthread_mutex_init(&shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return code;
}

/* No thread sleeps in the mutex. If a process were killed after it released the mutex and before it woke a sleeper, and another process
   took the mutex in between, the sleepers would never wake (the kernel wakes them only if it finds the mutex free). The mutex is held for
   microseconds. */
static int take_lock(pthread_mutex_t *lock)
{
    int code;
    for (unsigned tries = 1; (code = pthread_mutex_trylock(lock)) == EBUSY; tries++)
        if (tries % YIELDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    return code;
}

struct sim_machine *sim_machine_lock(void)
{
    if (take_lock(&sim.machine.shared->lock) == EOWNERDEAD) {
        sim_ledger_recover(sim.machine.shared);
        pthread_mutex_consistent(&sim.machine.shared->lock);
    }
    return sim.machine.shared;
}

void sim_machine_unlock(void)
{
    pthread_mutex_unlock(&sim.machine.shared->lock);
}

void sim_machine_wake(int process)
{
    uint32_t *word = &sim.machine.shared->processes[process].wake;
    if (sim.machine.fd < 0)
        return;
    __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Life and death of processes ---------------------------------------------------------------------------------------------------------- */

static bool is_anybody_alive(int fd)
{
    return gpu_slots_are_taken(fd, 0, SIM_PROCESSES_MAX);
}

void sim_machine_reap(struct sim_machine *shared)
{
    if (sim.machine.fd < 0)
        return;
    for (int process = 0; process < SIM_PROCESSES_MAX; process++) {
        if (!shared->processes[process].used || process == sim.machine.self)
            continue;
        if (!gpu_slots_are_taken(sim.machine.fd, process, 1))
            sim_ledger_forget(shared, process);
    }
}

/* The file ----------------------------------------------------------------------------------------------------------------------------- */

static void path_of(const char *name, char *path, size_t len)
{
    snprintf(path, len, "/dev/shm/weir-sim-%lu-%s", (unsigned long)geteuid(), name);
}

__attribute__((format(printf, 4, 5))) static int refuse(const struct sim_settings *settings, char *why, size_t len, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(why, len, "simulator setting 'name=%s': %s", settings->name, text);
    return -1;
}

static int refuse_other_build(const struct sim_settings *settings, char *why, size_t len)
{
    return refuse(settings, why, len, "another build of Weir runs a machine of that name: choose another name");
}

/* Opens the file and takes its flock(), and tries again if another process removed or replaced the file meanwhile. flags: O_CREAT or 0.
   Returns -1 with errno; EPERM: the file is not this user's alone. */
static int open_file(const char *path, int flags)
{
    for (;;) {
        struct stat status, named;
        int fd = gpu_slots_open(path, flags, geteuid());
        if (fd < 0)
            return -1;
        int error = flock(fd, LOCK_EX) != 0 ? errno : 0;
        if (!error && fstat(fd, &status) == 0 && stat(path, &named) == 0 && named.st_ino == status.st_ino && named.st_dev == status.st_dev)
            return fd;
        close(fd);
        if (error && error != EINTR) {
            errno = error;
            return -1;
        }
    }
}

static struct sim_machine *map(int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *address = mmap(NULL, sizeof(struct sim_machine), PROT_READ | PROT_WRITE, flags, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* Initialises an empty machine. */
static int make(struct sim_machine *shared, const struct sim_settings *settings)
{
    shared->settings = *settings;
    memset(shared->settings.faults, 0, sizeof(shared->settings.faults));
    shared->id = gpu_clock_now() << 16 ^ (uint64_t)getpid();
    int code = init_lock(shared);
    shared->layout = sizeof(*shared);
    return code;
}

/* Checks that the machine in the file is of this build and has these settings. Returns 0; or -1 with the reason in `why`. */
static int check(const struct sim_machine *shared, const struct sim_settings *settings, char *why, size_t len)
{
    if (shared->layout != sizeof(*shared))
        return refuse_other_build(settings, why, len);
    const char *key = sim_settings_difference(&shared->settings, settings);
    if (!key)
        return 0;
    return refuse(settings, why, len, "that machine runs in another process with another %s=: write the same settings in every process, "
                  "or choose another name", key);
}

/* Maps the machine in a file whose flock() is held, and starts a new one if no process of it is alive. Returns NULL, with the reason in
   `why`, if that fails. */
static struct sim_machine *enter(int fd, const struct sim_settings *settings, char *why, size_t len)
{
    struct stat status;
    bool runs = is_anybody_alive(fd);
    bool is_whole = fstat(fd, &status) == 0 && status.st_size == (off_t)sizeof(struct sim_machine);
    if (runs && !is_whole) {
        refuse_other_build(settings, why, len);
        return NULL;
    }
    /* Allocate all pages of the file now: a page that is missing later would kill the process that touches it. */
    int code = runs || ftruncate(fd, 0) == 0 ? 0 : errno;
    if (!runs && !code)
        code = posix_fallocate(fd, 0, (off_t)sizeof(struct sim_machine));
    struct sim_machine *shared = code ? NULL : map(fd);
    if (!shared) {
        refuse(settings, why, len, "its file cannot have %zu KiB of /dev/shm: %s: make room there", sizeof(struct sim_machine) >> 10,
               strerror(code ? code : errno));
        return NULL;
    }
    snprintf(why, len, "the simulator found no host memory to start");
    if (runs ? check(shared, settings, why, len) != 0 : make(shared, settings) != 0) {
        munmap(shared, sizeof(*shared));
        return NULL;
    }
    return shared;
}

static int join(int fd, const struct sim_settings *settings, char *why, size_t len)
{
    struct sim_machine *shared = enter(fd, settings, why, len);
    if (!shared)
        return -1;
    int self = gpu_slots_take_any(fd, SIM_PROCESSES_MAX);
    if (self < 0) {
        munmap(shared, sizeof(*shared));
        return refuse(settings, why, len, "64 processes are there already, the most there can be");
    }
    sim.machine.shared = shared;
    sim.machine.fd = fd;
    sim.machine.self = self;
    sim_machine_lock();
    sim_ledger_forget(shared, self); /* what a dead process left in the slot */
    shared->processes[self].used = true;
    shared->processes[self].pid = (int)getpid();
    sim_machine_unlock();
    return 0;
}

static int open_own(const struct sim_settings *settings, char *why, size_t len)
{
    struct sim_machine *shared = map(-1);
    if (!shared || make(shared, settings)) {
        if (shared)
            munmap(shared, sizeof(*shared));
        snprintf(why, len, "the simulator found no host memory to start");
        return -1;
    }
    sim.machine.shared = shared;
    sim.machine.shared->processes[0].used = true;
    sim.machine.shared->processes[0].pid = (int)getpid();
    sim.machine.self = 0;
    return 0;
}

int sim_machine_open(const struct sim_settings *settings, char *why, size_t len)
{
    if (!*settings->name)
        return open_own(settings, why, len);
    path_of(settings->name, sim.machine.path, sizeof(sim.machine.path));
    int fd = open_file(sim.machine.path, O_CREAT);
    if (fd < 0)
        return refuse(settings, why, len, errno == EPERM ? "%s is not this user's alone (mode 0600): remove it, or choose another name"
                                                         : "%s cannot be opened: %s", sim.machine.path, strerror(errno));
    int code = join(fd, settings, why, len);
    flock(fd, LOCK_UN);
    if (code)
        close(fd);
    return code;
}

int sim_machine_check(const struct sim_settings *settings, char *why, size_t len)
{
    char path[sizeof(sim.machine.path)];
    int code = 0;
    if (!*settings->name)
        return 0;
    path_of(settings->name, path, sizeof(path));
    int fd = open_file(path, 0);
    if (fd < 0)
        return 0; /* there is no such file, or joining it will report the error */
    struct stat status;
    if (is_anybody_alive(fd) && fstat(fd, &status) == 0 && status.st_size == (off_t)sizeof(struct sim_machine)) {
        struct sim_machine *shared = map(fd);
        if (shared) {
            code = check(shared, settings, why, len);
            munmap(shared, sizeof(*shared));
        }
    }
    close(fd);
    return code;
}

/* The slot's lock is released last, since without it the process counts as dead. */
static void leave_file(void)
{
    sim_machine_lock();
    sim_ledger_forget(sim.machine.shared, sim.machine.self);
    sim_machine_unlock();
    flock(sim.machine.fd, LOCK_EX);
    gpu_slots_release(sim.machine.fd, sim.machine.self, 1);
    if (!is_anybody_alive(sim.machine.fd))
        unlink(sim.machine.path);
    close(sim.machine.fd);
    sim.machine.fd = -1;
}

void sim_machine_close(void)
{
    if (!sim.machine.shared)
        return;
    if (sim.machine.fd >= 0)
        leave_file();
    munmap(sim.machine.shared, sizeof(*sim.machine.shared));
    sim.machine.shared = NULL;
}

/* Maps private memory in place of the shared memory, so that other processes do not see what this process still does there. Zeros are a
   valid free mutex and empty tables. */
static void replace_by_own(void)
{
    /* If this fails, no remedy is left. */
    (void)mmap(sim.machine.shared, sizeof(*sim.machine.shared), PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void sim_machine_leave(void)
{
    if (sim.machine.fd < 0)
        return;
    leave_file();
    replace_by_own();
}

void sim_machine_after_fork(void)
{
    if (sim.machine.fd < 0)
        return;
    close(sim.machine.fd);
    sim.machine.fd = -1;
    replace_by_own();
}
