/* SPDX-License-Identifier: MIT */
/* other_end.h - tells whether a process holds the other end of a UNIX socket. No state. */
#ifndef WEIR_SHARE_OTHER_END_H
#define WEIR_SHARE_OTHER_END_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns true if process `pid` surely does not hold the other end of `socket`: the process lives, its descriptors are visible in /proc,
   and none of them is that end. Returns false if the process holds it or if that cannot be known: only root sees the descriptors of other
   users' processes, and the kernel has no number for the other end before the connection is accepted. */
bool share_lacks_other_end(pid_t pid, int socket);

#endif
