/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/child.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"

/* Signals that somebody sends to this process and means for the command. Those of the terminal reach it without help. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* From here on the signals that are waited for are blocked. */
static void block_signals(struct child *child)
{
    /* A child that nobody waits for has no exit status. */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&child->waited);
    sigaddset(&child->waited, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(&child->waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, &child->waited, &child->former);
}

int child_start(struct child *child, const char *caller, char *const *command)
{
    posix_spawnattr_t attributes;
    sigset_t standard;
    block_signals(child);
    /* main() ignores it for itself; the command expects what every command finds. */
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    if (posix_spawnattr_init(&attributes) != 0)
        must(NULL);
    posix_spawnattr_setsigmask(&attributes, &child->former);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawnp(&child->pid, command[0], NULL, &attributes, command, environ);
    posix_spawnattr_destroy(&attributes);
    if (code == 0)
        return 0;
    complain("%s: cannot run '%s': %s", caller, command[0], strerror(code));
    return code == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
}

int child_follow(const struct child *child)
{
    int how = 0;
    while (waitpid(child->pid, &how, WNOHANG) == 0) {
        siginfo_t got;
        int number = sigwaitinfo(&child->waited, &got);
        if (number > 0 && number != SIGCHLD && got.si_code <= 0)
            kill(child->pid, number);
    }
    return how;
}

int child_end_as(const struct child *child, int how)
{
    if (!WIFSIGNALED(how))
        return WEXITSTATUS(how);
    /* The command's core dump is enough. */
    sigset_t one;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    signal(WTERMSIG(how), SIG_DFL);
    sigprocmask(SIG_SETMASK, &child->former, NULL);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(how));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(WTERMSIG(how));
    return 128 + WTERMSIG(how);
}
