/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - the connections of a socket that hold nothing of it: whether there is room for one more.
 *
 * Counted by process, by user, and of all strangers together, who are neither this process's own user nor root. So no process takes the
 * places of another, no user those of another, and strangers never those of the owner and root. No state between calls.
 */
#ifndef WEIR_SHARE_CROWD_H
#define WEIR_SHARE_CROWD_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/weir.h"

struct share_crowd_limits {
    unsigned process, user, strangers;
};

/* Who wants to join, and how many are there already. */
struct share_crowd {
    pid_t pid; /* 0: in a PID namespace that this process cannot see, and so not counted by process */
    uid_t uid;
    unsigned of_process, of_user, of_strangers;
};

/* Counts one that is there, unless its other end is closed: it is only still to be seen. */
void share_crowd_count(struct share_crowd *crowd, int fd, pid_t pid, uid_t uid);
/* false: the error has the status, and says whose connections are too many. */
bool share_crowd_has_room(const struct share_crowd *crowd, const struct share_crowd_limits *limits, weir_status status, weir_error *error);

#endif
