/* SPDX-License-Identifier: MIT */
/*
 * server.h - the server of both kinds of sockets, those of exports and control sockets: it lets in who may connect, as many as there is room
 * for, and sends what they are to get in order.
 *
 * A server is part of an export or a control socket, and the service thread's alone. A connection is part of what its owner knows of who
 * connected (client.h, control_answer.h), and guarded as that is.
 */
#ifndef WEIR_SHARE_SERVER_H
#define WEIR_SHARE_SERVER_H

#include "lib/base/service.h"
#include "share/base/forked.h"
#include "share/base/wait.h"
#include "share/wire/outbox.h"

#define SHARE_PATIENCE (5 * GPU_SECOND) /* that a connection which holds nothing may be silent, or read nothing */

struct share_server {
    struct share_listener listener;
    int epoll_fd;          /* tells of the listener, with the server as data, and of what its owner adds */
    int fresh_fd;          /* a connection that is being judged; -1: none */
    int gone_fd;           /* an inotify that tells of the listener's file, with its own place here as data; -1: none can be had, and nothing is told */
    unsigned looks;        /* left to take at the file, the next at look_at */
    uint64_t look_at;      /* nanoseconds; WEIR__SERVICE_NEVER: no look is due */
    int spare_fd;          /* given up for the moment that it takes to refuse who comes when no other is left; -1: none */
    uint64_t accept_again; /* nanoseconds; 0: the listener is watched */
    enum wire_type refusal; /* of who is turned away: REFUSED or DENIED */
    /* Takes the connection; false: the error says why not. */
    bool (*admit)(struct share_server *server, int fd, weir_error *error);
};

/* No descriptor is open. */
#define SHARE_SERVER_INIT(type, function) \
    (struct share_server){ .listener = { .fd = -1, .lock_fd = -1 }, .epoll_fd = -1, .fresh_fd = -1, .gone_fd = -1, .spare_fd = -1, \
                           .look_at = WEIR__SERVICE_NEVER, .refusal = (type), .admit = (function) }

/* Watches the listener, which is there. false: errno. */
bool share_server_open(struct share_server *server);
/* Closes what is open. */
void share_server_close(struct share_server *server);
/* The same in the child of a fork, where the socket stays the parent's. */
void share_server_forget(struct share_server *server);
/* Takes or turns away those who knock, some of them. shortage: set, for the owner's log, where this process has no descriptor or memory for
   them: WEIR_NO_HOST_MEMORY. */
void share_server_accept(struct share_server *server, weir_error *shortage);
/* The epoll told of the listener's file: it may be gone. */
void share_server_suspect(struct share_server *server);
/* Whether a look is due, and the listener's file is gone: nobody finds the server any more, until its owner has it listen elsewhere. After a
   logout the directory is not gone all at once, so more looks follow. */
bool share_server_is_lost(struct share_server *server, uint64_t now);
/* Gives up where it listened, which is copied to `former`, and its lock, and listens where `listen` makes a listener, which is tried a few
   times. The statuses of `listen`. */
typedef weir_status share_listen_fn(void *data, struct share_listener *listener, weir_error *error);
weir_status share_server_listen_again(struct share_server *server, share_listen_fn *listen, void *data, char former[SHARE_PATH_SIZE],
                                      weir_error *error);
/* Accepts again, if it is time to. Returns when to look. */
uint64_t share_server_resume(struct share_server *server, uint64_t now);

/* The refusal of a request, or with request 0 of the connection, with as much of the text as fits and may be sent. */
struct wire_message share_refusal_of(enum wire_type type, uint32_t request, weir_status status, const char *text);

/*
 * Whether there is room for one more connection that holds nothing. Those that are there are counted by process, by user, and of all
 * strangers together, who are neither this process's own user nor root. So no process takes the places of another, no user those of another,
 * and strangers never those of the owner and root.
 */
struct share_crowd {
    pid_t pid; /* who wants to join; 0: in a PID namespace that this process cannot see, and so not counted by process */
    uid_t uid;
    unsigned of_process, of_user, of_strangers; /* are there already */
};

struct share_crowd_limits {
    unsigned process, user, strangers;
};

/* Counts one that is there, unless its other end is closed: it is only still to be seen. */
void share_crowd_count(struct share_crowd *crowd, int fd, pid_t pid, uid_t uid);
/* false: the error has the status, and says whose connections are too many. */
bool share_crowd_has_room(struct share_crowd *crowd, const struct share_crowd_limits *limits, weir_status status, weir_error *error);

struct share_connection {
    int fd; /* -1: closed */
    int epoll_fd;
    void *data;         /* what that epoll tells of it with */
    uint32_t deaf_to;   /* EPOLLIN: nothing is read of it while it is blocked; else 0 */
    bool is_blocked;    /* its socket is full: epoll tells when it is not */
    uint64_t last;      /* nanoseconds: when it was last heard, or read what had been kept for it */
    struct share_outbox outbox; /* what did not fit; while there is any, it is blocked */
};

/* Whether it was silent, or read nothing, for SHARE_PATIENCE. What lies in its socket was said in time, and what there is room for can be
   sent, however late this process comes to it: it may have been stopped. */
bool share_connection_is_late(const struct share_connection *connection, uint64_t now);
/* Watches it. false: errno; the descriptor stays the caller's. */
bool share_connection_open(struct share_connection *connection);
void share_connection_close(struct share_connection *connection);
/* Sends the message now. SHARE_AGAIN: it does not fit behind what there is. */
enum share_io share_connection_send(struct share_connection *connection, const struct wire_message *message, int passed);
/* Sends it, or keeps it if nothing is passed and less than `most` bytes are kept. SHARE_BROKEN: it is lost. */
enum share_io share_connection_answer(struct share_connection *connection, const struct wire_message *message, int passed, size_t most);
/* Its socket has room again: watches it as before. */
void share_connection_unblock(struct share_connection *connection);
/* Sends what is kept, unless it is blocked. */
enum share_io share_connection_flush(struct share_connection *connection);

#endif
