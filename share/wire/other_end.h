/* SPDX-License-Identifier: MIT */
/* other_end.h - whether a process has the other end of a UNIX socket. No state. */
#ifndef WEIR_SHARE_OTHER_END_H
#define WEIR_SHARE_OTHER_END_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether it surely has not: it lives, its descriptors can be seen, and none is that socket. Neither this process nor the kernel may know:
   those of other users are seen by root alone, and the other end of a connection that is not accepted yet has no number. */
bool share_lacks_other_end(pid_t pid, int socket);

#endif
