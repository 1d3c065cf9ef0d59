/* SPDX-License-Identifier: MIT */
/* processes.c - replays in processes of their own, as a simulated machine is one for each process. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/replay/run.h"

#define AT_ONCE_MAX 64

/* One process, and the place of its outcome in memory that it shares with this one. */
struct job {
    pid_t pid;
    struct outcome *outcome;
};

/* In the new process. */
_Noreturn static void work(const struct replay *replay, struct outcome *outcome, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    replay_run(replay, outcome);
    _exit(EXIT_SUCCESS);
}

static bool start(const struct replay *replay, struct job *job)
{
    pid_t parent = getpid();
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0)
        work(replay, job->outcome, parent);
    if (job->pid < 0)
        snprintf(job->outcome->why, sizeof job->outcome->why, "no process for a replay: %s", strerror(errno));
    return job->pid > 0;
}

/* What a process that did not end by itself has left is no outcome. */
static void judge(struct outcome *outcome, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    *outcome = (struct outcome){.is_done = false};
    if (WIFSIGNALED(status))
        snprintf(outcome->why, sizeof outcome->why, "the process of the replay was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(outcome->why, sizeof outcome->why, "the process of the replay ended with status %d", WEXITSTATUS(status));
}

/* Waits for one of them to end, and takes it out. false: it was interrupted, or a child that is none of them ended. */
static bool wait_for_one(struct job *jobs, size_t *running)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (size_t i = 0; i < *running; i++) {
        if (jobs[i].pid != pid)
            continue;
        judge(jobs[i].outcome, status);
        jobs[i] = jobs[--*running];
        return true;
    }
    return false;
}

static size_t at_once(const struct replay *replays)
{
    long cores = replays->machine ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    return cores < 1 ? 1 : cores > AT_ONCE_MAX ? AT_ONCE_MAX : (size_t)cores;
}

void replay_run_all(const struct replay *replays, struct outcome *outcomes, size_t count, void (*done)(size_t number, size_t count))
{
    struct job jobs[AT_ONCE_MAX];
    size_t running = 0, begun = 0, ended = 0, most = count ? at_once(replays) : 0, size = (count + 1) * sizeof *outcomes;
    struct outcome *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        shared = must(NULL);
    while (ended < count) {
        for (; running < most && begun < count; begun++) {
            jobs[running].outcome = &shared[begun];
            if (start(&replays[begun], &jobs[running]))
                running++;
            else
                ended++;
        }
        if (running == 0 || !wait_for_one(jobs, &running))
            continue;
        ended++;
        if (done)
            done(ended, count);
    }
    memcpy(outcomes, shared, count * sizeof *outcomes);
    munmap(shared, size);
}
