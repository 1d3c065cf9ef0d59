/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"

/* Signals that somebody sends to this process and means for the command. Those of the terminal reach it without help. */
static const int passed_on[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGTERM, SIGUSR1,  SIGUSR2, SIGALRM,
                                SIGPROF, SIGVTALRM, SIGXCPU, SIGIO,   SIGWINCH, SIGTSTP, SIGCONT};

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

/* Of the child of a fork: becomes the command, or writes why it cannot. */
static _Noreturn void become(const struct child *child, pid_t parent, int told, char *const *command)
{
    /* SIGKILL cannot be passed on, and who sends it means the command. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_RUN);
    /* main() ignores them for itself; the command expects what every command finds. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &child->former, NULL);
    execvp(command[0], command);
    int code = errno;
    if (write(told, &code, sizeof code) < 0)
        _exit(EXIT_TROUBLE);
    _exit(EXIT_CANNOT_RUN);
}

/* 0, or an error number. */
static int start(struct child *child, char *const *command)
{
    int ends[2], code = 0;
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    child->pid = fork();
    if (child->pid == 0)
        become(child, self, ends[1], command);
    if (child->pid < 0)
        code = errno;
    close(ends[1]);
    while (code == 0 && read(ends[0], &code, sizeof code) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (child->pid > 0 && code != 0)
        waitpid(child->pid, NULL, 0);
    return code;
}

int child_start(struct child *child, const char *caller, char *const *command)
{
    block_signals(child);
    int code = start(child, command);
    if (code == 0)
        return 0;
    complain("%s: cannot run '%s': %s", caller, command[0], strerror(code));
    return code == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
}

/* Where the terminal, or a signal that was passed on, has stopped the command, the shell shall see this process stopped too. One that
   somebody stopped by SIGSTOP is left alone: nobody would tell this process to go on. */
static void stop_too(int how)
{
    if (WIFSTOPPED(how) && WSTOPSIG(how) != SIGSTOP)
        raise(SIGSTOP);
}

int child_follow(const struct child *child)
{
    int how = 0;
    pid_t changed;
    while ((changed = waitpid(child->pid, &how, WNOHANG | WUNTRACED)) == 0 || (changed > 0 && WIFSTOPPED(how))) {
        siginfo_t got;
        if (changed > 0) {
            stop_too(how);
            continue;
        }
        int number = sigwaitinfo(&child->waited, &got);
        if (number > 0 && number != SIGCHLD && got.si_code <= 0 && got.si_pid != child->pid)
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
