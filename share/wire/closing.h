/* SPDX-License-Identifier: MIT */
/*
 * closing.h - closes descriptors that another process sent. The last close of such a descriptor takes as long as its sender likes
 * (SO_LINGER, a file on FUSE). Closing a socket also closes the descriptors that wait in its queue. So a thread that must not wait hands
 * them over: each batch of descriptors is closed by a thread of its own, which then ends.
 *
 * The process has one list of batches, guarded by a leaf lock. Any thread may call these functions, and none of them waits. The child of a
 * fork must not call them.
 */
#ifndef WEIR_SHARE_CLOSING_H
#define WEIR_SHARE_CLOSING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ucred; /* of sys/socket.h, with _GNU_SOURCE */

/* Closes the descriptors on another thread. share_closing_count() counts the batch for `sender` until then; NULL: for nobody. */
void share_close_away(const int *fds, size_t count, const struct ucred *sender);
/* Shuts the connection down for both sides and closes the socket: on this thread, or, if descriptors wait in its queue, on another one. */
void share_close_socket(int fd);

/* Counts the batches that are not closed yet: adds the batches from process `pid` to *of_process, those from user `uid` to *of_user, and
   those from users for whom is_counted() is true to *of_counted. */
void share_closing_count(pid_t pid, uid_t uid, bool (*is_counted)(uid_t uid), unsigned *of_process, unsigned *of_user, unsigned *of_counted);

#endif
