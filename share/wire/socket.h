/* SPDX-License-Identifier: MIT */
/*
 * socket.h - UNIX sockets of type SOCK_SEQPACKET: one listener for each, and packets with at most one file descriptor.
 *
 * Everything is close-on-exec, and nothing blocks. No state of its own: descriptors belong to whoever got them.
 */
#ifndef WEIR_SHARE_SOCKET_H
#define WEIR_SHARE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "share/wire/place.h"

struct ucred; /* of sys/socket.h, with _GNU_SOURCE */

#define SHARE_LOCK_SUFFIX ".lock" /* of the file beside a socket that its listener holds a lock on */

struct share_listener {
    int fd, lock_fd;
    bool is_guarded; /* the kernel lets its clients send no descriptors */
    dev_t device; /* of the socket at the path, by which it is known from what others may put there */
    ino_t inode;
    char path[SHARE_PATH_SIZE];
};

/*
 * Takes the lock file beside the path, removes what a dead listener left, binds with `mode` and listens. WEIR_BUSY (it is listened to
 * already, by another process or this one, of Weir or not), WEIR_INVALID (something else than a socket is there), WEIR_REFUSED (no permission),
 * WEIR_NO_HOST_MEMORY.
 */
weir_status share_listen(const char *path, mode_t mode, weir_error *error, struct share_listener *listener);
/* The same for this user and root alone, who may send descriptors; elsewhere the kernel refuses them where it can, as one may take long to
   close. */
weir_status share_listen_for_descriptors(const char *path, weir_error *error, struct share_listener *listener);
/* Unlinks the socket, unless another one is there by now, and releases the lock. The child of a fork calls share_listener_forget(), which only closes; until it does, or ends, the
   path cannot be listened to anew. */
void share_listener_close(struct share_listener *listener);
void share_listener_forget(struct share_listener *listener);
/* Whether it still lies at its path: it, or its directory, may have been removed. */
bool share_listener_is_there(const struct share_listener *listener);
/* Removes the socket, if any, and its lock file if that is there and nobody holds it: its listener was killed. */
void share_socket_sweep(const char *path);
/* The next connection, to be ended by share_close_socket(), or -1: none is there (EAGAIN), or none can be had (errno). */
int share_accept(const struct share_listener *listener);

/* One attempt, which waits for nothing: 0, or the errno. EAGAIN: the listener's queue is full, and polling the socket would tell nothing. */
int share_connect_now(const char *path, int *fd);

/* What an errno of a system call on a path or a socket means here; WEIR_INVALID: something else. */
weir_status share_errno_status(int code);

/* Who is at the other end: who connected, or who called listen(), as of then. pid 0: it is in a PID namespace that this one cannot see. */
bool share_peer(int fd, struct ucred *peer);
/* Whoever listens there could hand out any memory as the exporter's, or answer for another process. WEIR_REFUSED: it is
   neither this user nor root nor the owner of the socket's directory.
   *server: who it is, where that is known. */
weir_status share_check_server(int fd, const char *path, weir_error *error, struct ucred *server);

/* Whether the other side has closed it. What it said before is still there to be read. */
bool share_has_hung_up(int fd);

enum share_io {
    SHARE_DONE,
    SHARE_AGAIN,  /* would block */
    SHARE_CLOSED, /* the other side is gone */
    SHARE_BROKEN, /* truncated, more than one descriptor, another kind of ancillary data, or an error: descriptors are closed, elsewhere */
};

/* One packet, of at least one byte. passed: a descriptor to go with it, which stays the caller's, or -1. Never raises SIGPIPE. */
enum share_io share_send(int fd, const void *bytes, size_t len, int passed);
/* One packet. *passed: a descriptor that came, the caller's, or -1. An empty packet cannot be told from a closed socket: it counts as one.
   passed NULL: none is to come, and a packet with one stays where it is, SHARE_BROKEN: to take it may be to wait for its close.
   SHARE_GUARDED: none can come, which saves the look. */
extern int share_guarded;
#define SHARE_GUARDED (&share_guarded)
/* Has the kernel let the other side send no more descriptors. false: it cannot, or something is there to be read already. */
bool share_guard(int fd);
enum share_io share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed);

#endif
