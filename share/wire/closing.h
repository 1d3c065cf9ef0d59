/* SPDX-License-Identifier: MIT */
/*
 * closing.h - closing what strangers sent. The last close of a descriptor may take as long as its sender likes (SO_LINGER, a FUSE file), and
 * to close a socket closes the descriptors in its queue. So neither is done on a thread that must not wait: each batch has a thread of its
 * own, which ends with it.
 *
 * One list for the process, with a lock of its own, a leaf. Any thread may call; none waits. Not in the child of a fork.
 */
#ifndef WEIR_SHARE_CLOSING_H
#define WEIR_SHARE_CLOSING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ucred; /* of sys/socket.h, with _GNU_SOURCE */

/* Closes the descriptors, elsewhere. sender: who is to be counted for them meanwhile; NULL: nobody. */
void share_close_away(const int *fds, size_t count, const struct ucred *sender);
/* Ends the connection at once, for both sides, and closes it: here, unless descriptors lie in its queue. */
void share_close_socket(int fd);

/* How many batches are being closed still, of that process, of that user, and of those for whom is_counted holds. Adds to the counts. */
void share_closing_count(pid_t pid, uid_t uid, bool (*is_counted)(uid_t uid), unsigned *of_process, unsigned *of_user, unsigned *of_counted);

#endif
