/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/service.h"
#include "lib/base/user.h"
#include "share/base/forked.h"
#include "share/wire/closing.h"

#define ACCEPT_MAX 16           /* connections that one call accepts */
#define REST (GPU_SECOND / 10)  /* pause before the listener is watched again after a shortage of descriptors or memory */

/* Attempts to listen again. The directory may be removed between the check and bind(), and then another directory is the right one. */
#define LISTEN_ATTEMPTS 3

/* Pauses between checks of the listener's file, in nanoseconds, indexed by the number of checks that are left: the last check's comes
   first. */
static const uint64_t looks[] = { WEIR__SERVICE_NEVER, 10 * GPU_SECOND, GPU_SECOND };

/* The listener --------------------------------------------------------------------------------------------------------------------------- */

static bool watch_listener(struct share_server *server, int operation, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = server };
    return epoll_ctl(server->epoll_fd, operation, server->listener.fd, &event) == 0;
}

/* Closes an inotify descriptor on another thread, since the last close waits for a grace period of the kernel, some 10 ms. */
static void close_inotify(int fd)
{
    share_close_away(&fd, 1, NULL);
}

/* Makes an inotify that watches the listener's file. Removing the file's last name changes its attributes, which IN_ATTRIB reports;
   IN_DELETE_SELF comes only once the socket is closed too. */
static void watch_file(struct share_server *server)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->gone_fd };
    if (server->gone_fd >= 0)
        close_inotify(server->gone_fd);
    server->gone_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (server->gone_fd < 0)
        return;
    inotify_add_watch(server->gone_fd, server->listener.path, IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_DONT_FOLLOW);
    epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->gone_fd, &event);
}

void share_server_suspect(struct share_server *server)
{
    char events[512];
    while (read(server->gone_fd, events, sizeof events) > 0)
        continue;
    server->looks = sizeof looks / sizeof looks[0];
    server->look_at = 0;
}

bool share_server_is_lost(struct share_server *server, uint64_t now)
{
    if (now < server->look_at || !server->looks)
        return false;
    bool is_lost = !share_listener_is_there(&server->listener);
    if (is_lost && server->looks == 1) /* checks go on until the server listens at an existing file */
        server->looks++;
    uint64_t pause = looks[--server->looks];
    server->look_at = pause == WEIR__SERVICE_NEVER ? pause : now + pause;
    return is_lost;
}

weir_status share_server_listen_again(struct share_server *server, share_listen_fn *listen, void *data, char former[SHARE_PATH_SIZE],
                                      weir_error *error)
{
    struct share_listener listener;
    weir_status status = WEIR_GONE;
    memcpy(former, server->listener.path, SHARE_PATH_SIZE);
    share_forked_hold();
    if (server->listener.fd >= 0)
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listener.fd, NULL);
    share_listener_close(&server->listener);
    for (int attempt = 0; status != WEIR_OK && attempt < LISTEN_ATTEMPTS; attempt++) {
        weir_error_clear(error);
        status = listen(data, &listener, error);
    }
    if (status == WEIR_OK) {
        server->listener = listener;
        server->accept_again = 0;
        watch_listener(server, EPOLL_CTL_ADD, EPOLLIN);
        watch_file(server);
    }
    share_forked_release();
    return status;
}

bool share_server_open(struct share_server *server)
{
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->spare_fd = fcntl(server->epoll_fd, F_DUPFD_CLOEXEC, 0);
    if (server->epoll_fd < 0 || server->spare_fd < 0 || !watch_listener(server, EPOLL_CTL_ADD, EPOLLIN))
        return false;
    watch_file(server);
    return true;
}

static void close_others(struct share_server *server, void (*close_fresh)(int fd), void (*close_gone)(int fd))
{
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->fresh_fd >= 0)
        close_fresh(server->fresh_fd);
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    if (server->gone_fd >= 0)
        close_gone(server->gone_fd);
    server->gone_fd = server->epoll_fd = server->fresh_fd = server->spare_fd = -1;
}

static void close_copy(int fd)
{
    close(fd);
}

void share_server_close(struct share_server *server)
{
    share_listener_close(&server->listener);
    close_others(server, share_close_socket, close_inotify);
}

void share_server_forget(struct share_server *server)
{
    share_listener_forget(&server->listener);
    close_others(server, close_copy, close_copy);
}

static void hold_spare(struct share_server *server)
{
    if (server->spare_fd < 0)
        server->spare_fd = fcntl(server->epoll_fd, F_DUPFD_CLOEXEC, 0);
}

/* After a shortage of descriptors or memory: a connection that cannot be accepted stays in the queue, and epoll would report it again and
   again. So the listener is not watched for a while. */
static void rest_if_short(struct share_server *server, int code)
{
    if (code != EMFILE && code != ENFILE && code != ENOBUFS && code != ENOMEM)
        return;
    watch_listener(server, EPOLL_CTL_MOD, 0);
    server->accept_again = weir__service_now() + REST;
}

uint64_t share_server_resume(struct share_server *server, uint64_t now)
{
    if (!server->accept_again)
        return WEIR__SERVICE_NEVER;
    if (now < server->accept_again)
        return server->accept_again;
    server->accept_again = 0;
    hold_spare(server);
    watch_listener(server, EPOLL_CTL_MOD, EPOLLIN);
    return 0;
}

struct wire_message share_refusal_of(enum wire_type type, uint32_t request, weir_status status, const char *text)
{
    struct wire_message message = { .type = type, .request = request, .u.refused.status = (uint32_t)status };
    wire_copy_text(message.u.refused.text, text);
    return message;
}

/* Accepts a connection into fresh_fd, where the child of a fork finds and closes it: the process may fork while the connection is checked.
   Returns whether there is one. *code is 0, or the errno for which the connection must be refused or could not be accepted. */
static bool accept_fresh(struct share_server *server, int *code)
{
    share_forked_hold();
    server->fresh_fd = share_accept(&server->listener);
    *code = server->fresh_fd < 0 ? errno : 0;
    if ((*code == EMFILE || *code == ENFILE) && server->spare_fd >= 0) {
        close(server->spare_fd);
        server->spare_fd = -1;
        server->fresh_fd = share_accept(&server->listener);
        if (server->fresh_fd < 0) { /* perhaps no client waits: Linux looks for a free descriptor before it looks into the queue */
            *code = errno;
            hold_spare(server);
        }
    }
    *code = *code == EAGAIN ? 0 : *code;
    if (server->fresh_fd < 0)
        rest_if_short(server, *code);
    share_forked_release();
    return server->fresh_fd >= 0;
}

static void turn_away(struct share_server *server, const weir_error *error)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message = share_refusal_of(server->refusal, 0, error->status, error->text);
    share_forked_hold();
    share_send(server->fresh_fd, bytes, wire_encode(&message, bytes), -1);
    share_close_socket(server->fresh_fd);
    server->fresh_fd = -1;
    hold_spare(server);
    share_forked_release();
}

void share_server_accept(struct share_server *server, weir_error *shortage)
{
    int code = 0;
    for (int count = 0; count < ACCEPT_MAX && accept_fresh(server, &code); count++) {
        weir_error error = WEIR_ERROR_INIT;
        if (code)
            weir__fail(&error, WEIR_NO_HOST_MEMORY, "there is no file descriptor for another connection: %s", WEIR__WHY(code, ""));
        else if (server->admit(server, server->fresh_fd, &error))
            server->fresh_fd = -1;
        if (server->fresh_fd < 0)
            continue;
        turn_away(server, &error);
        if (error.status == WEIR_NO_HOST_MEMORY)
            weir__fail(shortage, error.status, "%s", error.text);
    }
    if (code)
        weir__fail(shortage, WEIR_NO_HOST_MEMORY, "no connection can be taken: %s", WEIR__WHY(code, "free host memory"));
}

/* The crowd ------------------------------------------------------------------------------------------------------------------------------ */

static bool is_stranger(uid_t uid)
{
    return !weir__is_self_or_root(uid);
}

void share_crowd_count(struct share_crowd *crowd, int fd, pid_t pid, uid_t uid)
{
    if (share_has_hung_up(fd))
        return;
    crowd->of_process += pid > 0 && pid == crowd->pid;
    crowd->of_user += uid == crowd->uid;
    crowd->of_strangers += is_stranger(uid);
}

bool share_crowd_has_room(struct share_crowd *crowd, const struct share_crowd_limits *limits, weir_status status, weir_error *error)
{
    /* Connections that are still being closed count too, so that nobody can make this process hold more and more of them. */
    share_closing_count(crowd->pid, crowd->uid, is_stranger, &crowd->of_process, &crowd->of_user, &crowd->of_strangers);
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

/* Connections ---------------------------------------------------------------------------------------------------------------------------- */

static bool watch(const struct share_connection *connection, int operation)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection->data };
    if (connection->is_blocked)
        event.events = (EPOLLIN & ~connection->deaf_to) | EPOLLOUT;
    return epoll_ctl(connection->epoll_fd, operation, connection->fd, &event) == 0;
}

bool share_connection_open(struct share_connection *connection)
{
    connection->last = weir__service_now();
    return watch(connection, EPOLL_CTL_ADD);
}

bool share_connection_is_late(const struct share_connection *connection, uint64_t now)
{
    struct pollfd look = { .fd = connection->fd, .events = connection->is_blocked ? POLLOUT : POLLIN };
    return now >= connection->last + SHARE_PATIENCE && poll(&look, 1, 0) <= 0;
}

void share_connection_close(struct share_connection *connection)
{
    int fd = connection->fd;
    share_outbox_clear(&connection->outbox);
    if (fd < 0)
        return;
    /* The socket leaves the epoll set first: a forked child may have a copy of it, for which epoll would go on reporting events.
       share_close_socket() shuts the connection down for the copies too. */
    epoll_ctl(connection->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    connection->fd = -1;
    share_close_socket(fd);
}

/* SHARE_DONE if a message can be sent now. */
static enum share_io look(const struct share_connection *connection)
{
    return connection->fd < 0 ? SHARE_CLOSED : connection->is_blocked ? SHARE_AGAIN : SHARE_DONE;
}

static enum share_io block_if_full(struct share_connection *connection, enum share_io io)
{
    if (io == SHARE_AGAIN) {
        connection->is_blocked = true;
        watch(connection, EPOLL_CTL_MOD);
    }
    return io;
}

enum share_io share_connection_send(struct share_connection *connection, const struct wire_message *message, int passed)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    enum share_io io = share_outbox_is_empty(&connection->outbox) ? look(connection) : SHARE_AGAIN;
    return io == SHARE_DONE ? block_if_full(connection, share_send(connection->fd, bytes, wire_encode(message, bytes), passed)) : io;
}

enum share_io share_connection_answer(struct share_connection *connection, const struct wire_message *message, int passed, size_t most)
{
    enum share_io io = share_connection_send(connection, message, passed);
    if (io != SHARE_AGAIN)
        return io;
    bool fits = passed < 0 && connection->outbox.len < most && share_outbox_add(&connection->outbox, message);
    return fits ? SHARE_DONE : SHARE_BROKEN;
}

void share_connection_unblock(struct share_connection *connection)
{
    connection->is_blocked = false;
    watch(connection, EPOLL_CTL_MOD);
}

enum share_io share_connection_flush(struct share_connection *connection)
{
    enum share_io io = SHARE_DONE;
    size_t at = connection->outbox.at;
    if (share_outbox_is_empty(&connection->outbox) || (io = look(connection)) != SHARE_DONE)
        return io;
    io = block_if_full(connection, share_outbox_flush(&connection->outbox, connection->fd));
    if (connection->outbox.at != at || share_outbox_is_empty(&connection->outbox))
        connection->last = weir__service_now();
    return io;
}
