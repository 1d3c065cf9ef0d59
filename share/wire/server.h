/* SPDX-License-Identifier: MIT */
/*
 * server.h - the server side of both kinds of sockets, those of exports and control sockets. A server accepts connections as long as there
 * is room, and sends each connection its messages in order.
 *
 * A server is part of an export or a control socket, and only the service thread uses it. A connection is part of the client (client.h) or
 * asker (control_answer.h) that it belongs to, and guarded by the same lock.
 */
#ifndef WEIR_SHARE_SERVER_H
#define WEIR_SHARE_SERVER_H

#include "lib/base/service.h"
#include "share/base/forked.h"
#include "share/base/wait.h"
#include "share/wire/outbox.h"

#define SHARE_PATIENCE (5 * GPU_SECOND) /* how long a connection that holds nothing may stay silent, or not read its messages */

struct share_server {
    struct share_listener listener;
    int epoll_fd;          /* watches the listener, with the address of the server as epoll data, and the descriptors that the owner adds */
    int fresh_fd;          /* an accepted connection while it is checked; -1: none */
    /* An inotify descriptor that watches the listener's file, with the address of this field as epoll data; -1: there is none, so no
       events. */
    int gone_fd;
    unsigned looks;        /* how many more times to check that the listener's file exists; the next time at look_at */
    uint64_t look_at;      /* nanoseconds; WEIR__SERVICE_NEVER: no check is due */
    /* A descriptor in reserve: if none is left for accept(), it is closed so that a connection can be accepted and refused; -1: none. */
    int spare_fd;
    uint64_t accept_again; /* nanoseconds: when to watch the listener again after a shortage of descriptors; 0: it is watched */
    enum wire_type refusal; /* the message that refuses a connection: REFUSED or DENIED */
    /* Takes the connection over. Returns false, and sets the error, if the connection is refused. */
    bool (*admit)(struct share_server *server, int fd, weir_error *error);
};

/* The initial value, without open descriptors. */
#define SHARE_SERVER_INIT(type, function) \
    (struct share_server){ .listener = { .fd = -1, .lock_fd = -1 }, .epoll_fd = -1, .fresh_fd = -1, .gone_fd = -1, .spare_fd = -1, \
                           .look_at = WEIR__SERVICE_NEVER, .refusal = (type), .admit = (function) }

/* Makes the epoll set and watches the listener, which must be open. Returns false with errno. */
bool share_server_open(struct share_server *server);
/* Closes the listener and all other descriptors that are open, and removes the listener's file. */
void share_server_close(struct share_server *server);
/* Closes all descriptors in the child of a fork, and leaves the listener's file, which is the parent's. */
void share_server_forget(struct share_server *server);
/* Accepts a number of waiting connections, and takes or refuses each. *shortage is set to WEIR_NO_HOST_MEMORY, for the owner's log, if this
   process lacks descriptors or memory for a connection. */
void share_server_accept(struct share_server *server, weir_error *shortage);
/* The owner calls this when epoll reports gone_fd: the listener's file may be gone. */
void share_server_suspect(struct share_server *server);
/* Returns true if a check is due and the listener's file is gone: clients cannot find the server until its owner listens again. A logout
   removes the directory step by step, so more checks follow later. */
bool share_server_is_lost(struct share_server *server, uint64_t now);
/* Closes the listener, whose path is copied to `former`, and listens at the path that `listen` chooses. Tries `listen` a few times, and
   returns its last status. */
typedef weir_status share_listen_fn(void *data, struct share_listener *listener, weir_error *error);
weir_status share_server_listen_again(struct share_server *server, share_listen_fn *listen, void *data, char former[SHARE_PATH_SIZE],
                                      weir_error *error);
/* Watches the listener again if the pause after a shortage is over. Returns when to call this next. */
uint64_t share_server_resume(struct share_server *server, uint64_t now);

/* A message that refuses a request, or with request 0 the connection. A long text is cut, and characters that may not be sent are left
   out. */
struct wire_message share_refusal_of(enum wire_type type, uint32_t request, weir_status status, const char *text);

/*
 * Decides whether there is room for one more connection that holds nothing. Existing connections are counted by process, by user, and over
 * all strangers together (users other than this process's own and root). So no process uses up the places of another process, no user those
 * of another user, and strangers never those of the owner and root.
 */
struct share_crowd {
    /* The process that wants to connect; 0: it is in a PID namespace that this process cannot see, and is not counted by process. */
    pid_t pid;
    uid_t uid;
    unsigned of_process, of_user, of_strangers; /* existing connections */
};

struct share_crowd_limits {
    unsigned process, user, strangers;
};

/* Counts an existing connection, unless the other side has closed it. */
void share_crowd_count(struct share_crowd *crowd, int fd, pid_t pid, uid_t uid);
/* Returns false, and an error with `status` that says whose connections are too many, if there is no room. */
bool share_crowd_has_room(struct share_crowd *crowd, const struct share_crowd_limits *limits, weir_status status, weir_error *error);

struct share_connection {
    int fd; /* -1: the connection is closed */
    int epoll_fd;
    void *data;         /* the epoll data of the connection */
    uint32_t deaf_to;   /* EPOLLIN: the connection is not read while it is blocked; else 0 */
    bool is_blocked;    /* the socket is full; epoll then watches for room in it */
    uint64_t last;      /* nanoseconds: when the other side last sent a message, or last read kept messages */
    struct share_outbox outbox; /* messages that did not fit into the socket; is_blocked is set while there are any */
};

/* Whether the other side was silent, or read nothing, for SHARE_PATIENCE. A message that is in the socket, or room in a full socket, counts
   in its favour: this process may have been stopped itself and have noticed neither. */
bool share_connection_is_late(const struct share_connection *connection, uint64_t now);
/* Adds the socket to the epoll set. Returns false with errno; then the descriptor stays the caller's. */
bool share_connection_open(struct share_connection *connection);
void share_connection_close(struct share_connection *connection);
/* Sends the message now, with the descriptor `passed`, or -1. Returns SHARE_AGAIN if the socket is full or earlier messages are still
   kept. */
enum share_io share_connection_send(struct share_connection *connection, const struct wire_message *message, int passed);
/* Sends the message, or keeps it if it has no descriptor and the outbox holds less than `most` bytes. Returns SHARE_BROKEN if it can do
   neither, and the message is lost. */
enum share_io share_connection_answer(struct share_connection *connection, const struct wire_message *message, int passed, size_t most);
/* The socket has room again: watches it for messages as before. */
void share_connection_unblock(struct share_connection *connection);
/* Sends the kept messages, unless the socket is full. */
enum share_io share_connection_flush(struct share_connection *connection);

#endif
