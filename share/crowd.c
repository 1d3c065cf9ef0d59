/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/crowd.h"

#include <poll.h>
#include <unistd.h>

#include "lib/error.h"

static bool is_stranger(uid_t uid)
{
    return uid != geteuid() && uid != 0;
}

static bool has_hung_up(int fd)
{
    struct pollfd look = { .fd = fd };
    return poll(&look, 1, 0) == 1 && (look.revents & POLLHUP);
}

void share_crowd_count(struct share_crowd *crowd, int fd, pid_t pid, uid_t uid)
{
    if (has_hung_up(fd))
        return;
    crowd->of_process += pid > 0 && pid == crowd->pid;
    crowd->of_user += uid == crowd->uid;
    crowd->of_strangers += is_stranger(uid);
}

bool share_crowd_has_room(const struct share_crowd *crowd, const struct share_crowd_limits *limits, weir_status status, weir_error *error)
{
    if (crowd->of_process >= limits->process)
        weir__fail(error, status, "process %ld has %u connections to this socket already: close some, or try again later",
                   (long)crowd->pid, crowd->of_process);
    else if (crowd->of_user >= limits->user)
        weir__fail(error, status, "user %u has %u connections to this socket already: close some, or try again later",
                   (unsigned)crowd->uid, crowd->of_user);
    else if (is_stranger(crowd->uid) && crowd->of_strangers >= limits->strangers)
        weir__fail(error, status, "other users have %u connections to this socket already: try again later", crowd->of_strangers);
    else
        return true;
    return false;
}
