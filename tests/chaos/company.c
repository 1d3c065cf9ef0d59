/* SPDX-License-Identifier: MIT */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/chaos/company.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/chaos/chaos.h"
#include "tests/chaos/waist.h"

void *company_share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHAOS_EXPECT(memory != MAP_FAILED, "memory for a company: expected some");
    return memory;
}

static void company_directory(pid_t conductor, char path[64])
{
    snprintf(path, 64, "/tmp/weir-chaos-%d", conductor);
}

struct company *company_gather(uint64_t seed, const char *machine)
{
    struct company *company = company_share(sizeof *company);
    company->random.state = seed;
    company_directory(getpid(), company->directory);
    CHAOS_EXPECT(mkdir(company->directory, 0700) == 0, "a directory: expected one, seen %s", strerror(errno));
    snprintf(company->machine, sizeof company->machine, "%s,name=chaos-%d", machine, getpid());
    setenv("WEIR_SIM", company->machine, 1);
    setenv("WEIR_CONTROL_DIR", company->directory, 1);
    setenv("XDG_RUNTIME_DIR", company->directory, 1);
    return company;
}

struct member *company_add(struct company *company, void (*run)(struct member *member), bool is_steady)
{
    struct member *member = &company->members[company->count];
    *member = (struct member){ .number = company->count++, .run = run, .is_steady = is_steady };
    return member;
}

struct company *company_of(const struct member *member)
{
    return (struct company *)(uintptr_t)((const char *)(member - member->number) - offsetof(struct company, members));
}

uint64_t company_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void company_sleep(uint64_t nanoseconds)
{
    struct timespec left = { .tv_sec = (time_t)(nanoseconds / SECOND), .tv_nsec = (long)(nanoseconds % SECOND) };
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

void company_start(struct company *company, struct member *member)
{
    member->seed = random_next(&company->random);
    member->is_stopped = false;
    atomic_store(&member->ready, false);
    fflush(stdout);
    pid_t conductor = getpid();
    pid_t child = fork();
    CHAOS_EXPECT(child >= 0, "fork: expected a child, seen %s", strerror(errno));
    if (child) {
        member->pid = child;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == conductor)
        member->run(member);
    fflush(stdout);
    _exit(0);
}

/* Whether it goes on; what it found it has said itself. */
static void judge_end(struct member *member, int status, bool was_killed)
{
    bool is_good = was_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (is_good || (was_killed && WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        member->pid = 0;
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        _exit(1);
    chaos_find("process %u: expected it to end well, seen %s %d", member->number, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int wait_for(struct member *member, int options)
{
    int status = 0;
    while (waitpid(member->pid, &status, options) < 0)
        CHAOS_EXPECT(errno == EINTR, "waiting for process %u: expected it to be there, seen %s", member->number, strerror(errno));
    return status;
}

void company_stop(struct member *member)
{
    kill(member->pid, SIGSTOP);
    int status = wait_for(member, WUNTRACED);
    if (!WIFSTOPPED(status))
        judge_end(member, status, false);
    member->is_stopped = member->pid != 0;
    chaos_count(&chaos_figures->stops, 1);
}

void company_continue(struct member *member)
{
    if (member->pid)
        kill(member->pid, SIGCONT);
    member->is_stopped = false;
}

void company_kill(struct member *member)
{
    kill(member->pid, SIGKILL);
    judge_end(member, wait_for(member, 0), true);
    chaos_count(&chaos_figures->kills, 1);
}

struct member *company_some(struct company *company)
{
    struct member *member = &company->members[random_below(&company->random, company->count)];
    return member->pid && !member->is_stopped && atomic_load(&member->ready) ? member : NULL;
}

static void remove_directory(const char *path)
{
    char name[512];
    DIR *directory = opendir(path);
    for (struct dirent *entry = directory ? readdir(directory) : NULL; entry; entry = readdir(directory))
        if (entry->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            if (unlink(name) != 0)
                remove_directory(name);
        }
    if (directory)
        closedir(directory);
    rmdir(path);
}

/* Of a process that comes when all others are gone. */
static void judge_machine(struct member *member)
{
    uint64_t free_bytes, total;
    (void)member;
    CHAOS_EXPECT(waist_gpu()->device_memory(0, &free_bytes, &total) == GPU_SUCCESS, "the machine at the end: expected it to answer");
    CHAOS_EXPECT(free_bytes == total, "the machine at the end: expected %llu bytes free, seen %llu", (unsigned long long)total,
                 (unsigned long long)free_bytes);
}

void company_dismiss(struct company *company)
{
    atomic_store(&company->over, true);
    for (unsigned i = 0; i < company->count; i++)
        if (company->members[i].is_stopped)
            company_continue(&company->members[i]);
    for (unsigned i = 0; i < company->count; i++)
        if (company->members[i].pid)
            judge_end(&company->members[i], wait_for(&company->members[i], 0), false);
    struct member *last = company_add(company, judge_machine, true);
    company_start(company, last);
    judge_end(last, wait_for(last, 0), false);
}

void company_forget(pid_t conductor)
{
    char path[64];
    company_directory(conductor, path);
    remove_directory(path);
    snprintf(path, sizeof path, "/dev/shm/weir-sim-%lu-chaos-%d", (unsigned long)geteuid(), conductor);
    unlink(path);
}
