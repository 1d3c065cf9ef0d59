/* SPDX-License-Identifier: MIT */
/*
 * socket.h - UNIX sockets of type SOCK_SEQPACKET: a listener at a path, and packets with at most one file descriptor.
 *
 * All descriptors are close-on-exec, and no call blocks. No state of its own: the caller owns the descriptors that it gets.
 */
#ifndef WEIR_SHARE_SOCKET_H
#define WEIR_SHARE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "share/wire/place.h"

struct ucred; /* of sys/socket.h, with _GNU_SOURCE */

#define SHARE_LOCK_SUFFIX ".lock" /* the listener of a socket holds a lock on the file with this suffix beside the socket */

struct share_listener {
    int fd, lock_fd;
    bool is_guarded; /* the kernel lets the listener's clients send no descriptors */
    dev_t device; /* device and inode of the socket file: they tell it from another file that somebody puts at the path */
    ino_t inode;
    char path[SHARE_PATH_SIZE];
};

/*
 * share_listen() takes the lock file beside the path, removes the socket of a dead listener, binds with `mode` and listens. Returns
 * WEIR_BUSY (some process listens there already, possibly this one or a program without Weir), WEIR_INVALID (the path has a file that is no
 * socket), WEIR_REFUSED (no permission) or WEIR_NO_HOST_MEMORY. Its clients cannot send descriptors, if the kernel can forbid that, as the
 * close of a stranger's descriptor may take long.
 */
weir_status share_listen(const char *path, mode_t mode, weir_error *error, struct share_listener *listener);
/* Like share_listen(), but only for this user and root, who may send descriptors. */
weir_status share_listen_for_descriptors(const char *path, weir_error *error, struct share_listener *listener);
/* share_listener_close() unlinks the socket, unless another socket has replaced it, and releases the lock. The child of a fork calls
   share_listener_forget() instead, which only closes the descriptors. Until the child does so, or ends, its copies keep the lock, and no
   process can listen at the path. */
void share_listener_close(struct share_listener *listener);
void share_listener_forget(struct share_listener *listener);
/* Whether the listener's socket file is still at its path: somebody may have removed the file or its directory. */
bool share_listener_is_there(const struct share_listener *listener);
/* Removes the socket, if it exists, and its lock file, if the lock file exists and no process holds the lock, since then the listener was
   killed. */
void share_socket_sweep(const char *path);
/* Accepts the next connection, which the caller ends with share_close_socket(). Returns -1 with errno: EAGAIN if no client waits. */
int share_accept(const struct share_listener *listener);

/* Tries once to connect, without waiting. Returns 0 or the errno. EAGAIN: the queue of the listener is full; poll() cannot tell when it has
   room. */
int share_connect_now(const char *path, int *fd);

/* The status for an errno of a system call on a path or a socket; WEIR_INVALID for any other errno. */
weir_status share_errno_status(int code);

/* Finds the process that connected, or called listen(), at the other end, with its ids as of that call. pid 0: the process is in a PID
   namespace that this process cannot see. Returns false on an error. */
bool share_peer(int fd, struct ucred *peer);
/* Checks the process that listens at `path`, which a client is connected to by fd: a foreign process could hand out any memory as the
   exporter's, or answer for another process. Returns WEIR_REFUSED if its user is neither this user nor root nor the owner of the socket's
   directory. *server gets its ids if they can be known. */
weir_status share_check_server(int fd, const char *path, weir_error *error, struct ucred *server);

/* Whether the other side has closed the connection. Messages that it sent before can still be read. */
bool share_has_hung_up(int fd);

enum share_io {
    SHARE_DONE,
    SHARE_AGAIN,  /* the call would block */
    SHARE_CLOSED, /* the other side is gone */
    /* A truncated packet, too many descriptors, another kind of ancillary data, or an error: another thread closes the descriptors. */
    SHARE_BROKEN,
};

/* Sends one packet of at least one byte. `passed` is a descriptor to send along, which stays the caller's, or -1. Never raises SIGPIPE. */
enum share_io share_send(int fd, const void *bytes, size_t len, int passed);
/* share_receive() receives one packet. An empty packet looks like the end of the connection, and counts as the end. *passed gets the
   descriptor that came, which is then the caller's, or -1. With `passed` NULL no descriptor is expected: a packet with one is left in the
   queue, and the result is SHARE_BROKEN, because closing the descriptor may take long. SHARE_GUARDED for `passed` says that the kernel lets
   no descriptor in, which saves this check. */
extern int share_guarded;
#define SHARE_GUARDED (&share_guarded)
/* Tells the kernel to let no more descriptors in from the other side. Returns false if the kernel cannot do that, or if a packet is in the
   queue already. */
bool share_guard(int fd);
enum share_io share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed);

#endif
