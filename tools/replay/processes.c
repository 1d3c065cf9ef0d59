/* SPDX-License-Identifier: MIT */
/* processes.c - replays in processes of their own, as a simulated machine is one for each process. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/replay/run.h"

#define AT_ONCE_MAX 64

/* One process. */
struct job {
    pid_t pid;
    int fd; /* what it writes its outcome to */
    size_t number, got;
};

static void fail(struct outcome *outcome, const char *what, int why)
{
    outcome->is_done = false;
    snprintf(outcome->why, sizeof outcome->why, "%s: %s", what, strerror(why));
}

/* In the new process. */
_Noreturn static void work(const struct replay *replay, int fd, pid_t parent)
{
    struct outcome outcome;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    replay_run(replay, &outcome);
    const char *at = (const char *)&outcome;
    size_t left = sizeof outcome;
    while (left) {
        ssize_t written = write(fd, at, left);
        if (written < 0 && errno != EINTR)
            _exit(EXIT_FAILURE);
        if (written > 0) {
            at += written;
            left -= (size_t)written;
        }
    }
    _exit(EXIT_SUCCESS);
}

static bool start(const struct replay *replay, struct job *job, struct outcome *outcome)
{
    int fds[2];
    pid_t parent = getpid();
    if (pipe(fds) != 0) {
        fail(outcome, "no pipe to a replay", errno);
        return false;
    }
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) {
        close(fds[0]);
        work(replay, fds[1], parent);
    }
    int why = errno;
    close(fds[1]);
    if (job->pid < 0) {
        close(fds[0]);
        fail(outcome, "no process for a replay", why);
        return false;
    }
    job->fd = fds[0];
    job->got = 0;
    return true;
}

/* The process has closed its pipe. */
static void end(struct job *job, struct outcome *outcome)
{
    int status = 0;
    close(job->fd);
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (job->got == sizeof *outcome && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    *outcome = (struct outcome){.is_done = false};
    if (WIFSIGNALED(status))
        snprintf(outcome->why, sizeof outcome->why, "the process of the replay was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(outcome->why, sizeof outcome->why, "the process of the replay ended with status %d", WEXITSTATUS(status));
}

/* true: the process has no more to say. */
static bool listen_to(struct job *job, struct outcome *outcome)
{
    char spare;
    size_t left = sizeof *outcome - job->got;
    ssize_t got = left ? read(job->fd, (char *)outcome + job->got, left) : read(job->fd, &spare, 1);
    if (got < 0)
        return errno != EINTR && errno != EAGAIN;
    job->got += left ? (size_t)got : 0;
    return got == 0;
}

static size_t at_once(const struct replay *replays)
{
    long cores = replays->machine ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    return cores < 1 ? 1 : cores > AT_ONCE_MAX ? AT_ONCE_MAX : (size_t)cores;
}

void replay_run_all(const struct replay *replays, struct outcome *outcomes, size_t count, void (*done)(size_t number, size_t count))
{
    struct job jobs[AT_ONCE_MAX];
    struct pollfd polled[AT_ONCE_MAX];
    size_t running = 0, begun = 0, ended = 0, most = at_once(replays);
    memset(outcomes, 0, count * sizeof *outcomes);
    while (ended < count) {
        for (; running < most && begun < count; begun++) {
            jobs[running].number = begun;
            if (start(&replays[begun], &jobs[running], &outcomes[begun]))
                running++;
            else
                ended++;
        }
        for (size_t i = 0; i < running; i++)
            polled[i] = (struct pollfd){.fd = jobs[i].fd, .events = POLLIN};
        if (running == 0 || poll(polled, running, -1) < 0)
            continue;
        for (size_t i = running; i-- > 0;) {
            if (!polled[i].revents || !listen_to(&jobs[i], &outcomes[jobs[i].number]))
                continue;
            end(&jobs[i], &outcomes[jobs[i].number]);
            jobs[i] = jobs[--running];
            ended++;
            if (done)
                done(ended, count);
        }
    }
}
