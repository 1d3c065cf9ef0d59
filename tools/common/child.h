/* SPDX-License-Identifier: MIT */
/*
 * child.h - a command that another one runs to its end: it has the terminal, the signals that are meant for it, and how it ended is how this
 * process ends. It stops and goes on with this process, and is killed with it.
 */
#ifndef WEIR_CHILD_H
#define WEIR_CHILD_H

#include <signal.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    sigset_t waited, former; /* signals that are waited for, which are blocked, and the mask before */
};

/* Starts the command, which is ended by NULL. 0, or after a complaint the exit status for that it cannot be run. */
int child_start(struct child *child, const char *caller, char *const *command);

/* Passes signals on until the command has ended; how, as of waitpid(). */
int child_follow(const struct child *child);

/* Returns the exit status of a command that ended so, or ends by the signal that ended it. */
int child_end_as(const struct child *child, int how);

#endif
