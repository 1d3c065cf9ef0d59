/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/format.h"
#include "share/safe.h"

#define BACKLOG 64
#define FDS_ROOM 8 /* descriptors that a packet may bring before the kernel drops some; all but one are surplus */

/* Where sockets lie -------------------------------------------------------------------------------------------------------------------- */

static weir_status too_long(weir_error *error, const char *socket)
{
    return weir__fail(error, WEIR_INVALID, "the socket '%s' has a path of more than %zu bytes, which is the most that the system allows: "
                                           "choose a shorter share.socket",
                      socket, SHARE_PATH_SIZE - 1);
}

/* DIRECTORY/NAME into path, or false: too long. */
static bool join(char path[SHARE_PATH_SIZE], const char *directory, const char *name)
{
    int len = snprintf(path, SHARE_PATH_SIZE, "%s/%s", directory, name);
    return len > 0 && (size_t)len < SHARE_PATH_SIZE;
}

/* The directory that a path lies in. */
static void directory_of(const char *path, char directory[SHARE_PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    memcpy(directory, path, len);
    directory[len] = '\0';
}

/*
 * Whether it is safe to listen there. Where others may write they could put a socket of their own in place of this one, unless the sticky
 * bit keeps them from touching what is not theirs; taking a name first remains possible then, and is found by the client, who looks at
 * whose process it is.
 */
static weir_status check_directory(const char *path, weir_error *error)
{
    char directory[SHARE_PATH_SIZE];
    struct stat info;
    directory_of(path, directory);
    if (stat(directory, &info) != 0)
        return weir__fail(error, WEIR_INVALID, "the directory %s of the socket %s: %s", directory, path,
                          WEIR__WHY(errno, "make it, with mode 0700 or 0711"));
    if (!S_ISDIR(info.st_mode))
        return weir__fail(error, WEIR_INVALID, "%s is not a directory, so the socket %s cannot lie there", directory, path);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return weir__fail(error, WEIR_REFUSED, "the directory %s belongs to user %u, who could replace the socket: use one of your own or "
                                               "root's",
                          directory, (unsigned)info.st_uid);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) && !(info.st_mode & S_ISVTX))
        return weir__fail(error, WEIR_REFUSED, "others may write to the directory %s (mode %04o) and replace the socket: chmod go-w it",
                          directory, (unsigned)info.st_mode & 07777);
    return WEIR_OK;
}

/* The user's own directory of sockets, which is to be of nobody else. make: what is missing of it is made. */
static weir_status find_user_directory(const char *runtime, bool make, const char *socket, weir_error *error,
                                       char directory[SHARE_PATH_SIZE])
{
    static const char *const steps[] = { "weir", "weir/share" };
    char problem[SHARE_PROBLEM_SIZE];
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (!join(directory, runtime, steps[i]))
            return too_long(error, socket);
        if (make && mkdir(directory, 0700) != 0 && errno != EEXIST)
            return weir__fail(error, WEIR_INVALID, "the directory %s for the socket '%s' cannot be made: %s", directory, socket,
                              WEIR__WHY(errno, "check XDG_RUNTIME_DIR"));
        if (!share_is_safe(directory, geteuid(), "XDG_RUNTIME_DIR", problem))
            return weir__fail(error, WEIR_REFUSED, "the socket '%s' cannot lie in %s, which %s", socket, directory, problem);
    }
    return WEIR_OK;
}

static weir_status path_to_listen(const char *socket, bool others, weir_error *error, char path[SHARE_PATH_SIZE])
{
    const char *runtime = share_runtime_directory();
    char directory[SHARE_PATH_SIZE] = SHARE_SYSTEM_DIRECTORY;
    weir_status status = WEIR_OK;
    if (others && access(directory, F_OK) != 0)
        status = weir__fail(error, WEIR_INVALID,
                            "%s, where a socket lies that other users may connect to, does not exist: make it with mode "
                            "0711, or write an absolute path as share.socket",
                            directory);
    else if (!others && runtime)
        status = find_user_directory(runtime, true, socket, error, directory);
    else if (!others && access(directory, W_OK) != 0)
        status = weir__fail(error, WEIR_INVALID,
                            "there is no directory for the socket '%s': set XDG_RUNTIME_DIR, write an absolute path as "
                            "share.socket, or make %s, which this user can write to",
                            socket, directory);
    if (status == WEIR_OK && !join(path, directory, socket))
        status = too_long(error, socket);
    return status;
}

static weir_status path_to_connect(const char *socket, weir_error *error, char path[SHARE_PATH_SIZE])
{
    const char *runtime = share_runtime_directory();
    char directory[SHARE_PATH_SIZE];
    if (runtime) {
        if (!join(directory, runtime, "weir/share") || !join(path, directory, socket))
            return too_long(error, socket);
        if (access(path, F_OK) == 0)
            return find_user_directory(runtime, false, socket, error, directory);
    }
    /* Where neither is there the error of the connection is to name the user's own. */
    if (!join(directory, SHARE_SYSTEM_DIRECTORY, socket))
        return too_long(error, socket);
    if (!runtime || access(directory, F_OK) == 0)
        memcpy(path, directory, sizeof directory);
    return WEIR_OK;
}

weir_status share_path(const char *socket, bool listen, bool others, weir_error *error, char path[SHARE_PATH_SIZE])
{
    char found[SHARE_PATH_SIZE];
    weir_status status = WEIR_OK;
    if (!socket[0] || strcmp(socket, ".") == 0 || strcmp(socket, "..") == 0 || (socket[0] != '/' && strchr(socket, '/')))
        return weir__fail(error, WEIR_INVALID,
                          "'%s' is neither the name of a socket nor an absolute path: write frames, or /run/app/frames", socket);
    if (socket[0] != '/')
        status = listen ? path_to_listen(socket, others, error, found) : path_to_connect(socket, error, found);
    else if (strlen(socket) >= sizeof found)
        status = too_long(error, socket);
    else
        memcpy(found, socket, strlen(socket) + 1);
    if (status == WEIR_OK && listen)
        status = check_directory(found, error);
    if (status == WEIR_OK)
        memcpy(path, found, strlen(found) + 1);
    return status;
}

/* Failing ------------------------------------------------------------------------------------------------------------------------------ */

weir_status share_errno_status(int code)
{
    static const struct {
        int code;
        weir_status status;
    } table[] = {
        { EACCES, WEIR_REFUSED },       { EPERM, WEIR_REFUSED },        { EROFS, WEIR_REFUSED },         { ELOOP, WEIR_REFUSED },
        { ENOENT, WEIR_GONE },          { ECONNREFUSED, WEIR_GONE },    { ENOTDIR, WEIR_GONE },          { ECONNRESET, WEIR_GONE },
        { EPROTOTYPE, WEIR_PROTOCOL },  { EAGAIN, WEIR_TIMEOUT },       { EADDRINUSE, WEIR_BUSY },       { EMFILE, WEIR_NO_HOST_MEMORY },
        { ENFILE, WEIR_NO_HOST_MEMORY }, { ENOMEM, WEIR_NO_HOST_MEMORY }, { ENOBUFS, WEIR_NO_HOST_MEMORY }, { ENOSPC, WEIR_NO_HOST_MEMORY },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].code == code)
            return table[i].status;
    return WEIR_INVALID;
}

static bool is_address(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

/* Listening ---------------------------------------------------------------------------------------------------------------------------- */

static void lock_path_of(const char *path, char lock_path[SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX])
{
    snprintf(lock_path, SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX, "%s%s", path, SHARE_LOCK_SUFFIX);
}

/* Whether the file is still the one at the path: whoever closes a listener removes its lock file. */
static bool is_at(int fd, const char *path)
{
    struct stat opened, found;
    return fstat(fd, &opened) == 0 && lstat(path, &found) == 0 && opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

static weir_status take_lock(const char *path, weir_error *error, int *lock_fd)
{
    char lock_path[SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX];
    lock_path_of(path, lock_path);
    for (;;) {
        int fd = open(lock_path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (fd < 0) {
            weir_status status = share_errno_status(errno) == WEIR_GONE ? WEIR_INVALID : share_errno_status(errno);
            return weir__fail(error, status, "the lock file %s cannot be opened: %s", lock_path,
                              WEIR__WHY(errno, "check the directory's owner and mode"));
        }
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int code = errno;
            close(fd);
            if (code == EWOULDBLOCK)
                return weir__fail(error, WEIR_BUSY, "another export listens at %s already: end it, or choose another share.socket", path);
            return weir__fail(error, share_errno_status(code), "the lock file %s cannot be locked: %s", lock_path,
                              WEIR__WHY(code, "choose another share.socket"));
        }
        if (is_at(fd, lock_path)) {
            *lock_fd = fd;
            return WEIR_OK;
        }
        close(fd); /* its owner was closing it: the next attempt makes a new one */
    }
}

/* Whether nobody listens at the socket. The lock alone does not say so: its file may have been deleted, and others have none. */
static weir_status check_stale(const char *path, weir_error *error)
{
    int fd = -1, code = share_connect_now(path, &fd);
    if (code == 0)
        close(fd);
    if (code == ECONNREFUSED || code == ENOENT)
        return WEIR_OK;
    if (code == 0 || code == EAGAIN || code == EPROTOTYPE)
        return weir__fail(error, WEIR_BUSY, "a process listens at %s already: end it, or choose another share.socket", path);
    return weir__fail(error, share_errno_status(code), "whether a process listens at %s cannot be known: %s", path,
                      WEIR__WHY(code, "choose another share.socket"));
}

/* What a listener that died has left. */
static weir_status remove_stale(const char *path, weir_error *error)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return WEIR_OK; /* nothing is there, or bind() will say what is wrong */
    if (!S_ISSOCK(info.st_mode))
        return weir__fail(error, WEIR_INVALID, "%s exists and is not a socket: remove it, or choose another share.socket", path);
    weir_status status = check_stale(path, error);
    if (status != WEIR_OK)
        return status;
    if (unlink(path) != 0 && errno != ENOENT)
        return weir__fail(error, share_errno_status(errno), "the former socket %s cannot be removed: %s", path,
                          WEIR__WHY(errno, "remove it, or choose another share.socket"));
    return WEIR_OK;
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* A descriptor that a client sends may take long to close. Where the kernel can, it refuses to send one; connections inherit that. */
static void forbid_descriptors(int fd)
{
    int no = 0;
    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
}

/* Nobody can connect before listen(), so that the mode is right by then, whatever the process's umask. */
static weir_status bind_and_listen(const char *path, mode_t mode, weir_error *error, int *listening, struct stat *info)
{
    struct sockaddr_un address;
    is_address(path, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return weir__fail(error, share_errno_status(errno), "no socket for %s: %s", path, WEIR__WHY(errno, "allow the process UNIX sockets"));
    forbid_descriptors(fd);
    bool is_bound = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (is_bound && chmod(path, mode) == 0 && lstat(path, info) == 0 && listen(fd, BACKLOG) == 0) {
        *listening = fd;
        return WEIR_OK;
    }
    int code = errno;
    if (is_bound)
        unlink(path);
    close(fd);
    return weir__fail(error, share_errno_status(code), "the socket %s cannot be %s: %s", path, is_bound ? "listened to" : "made",
                      WEIR__WHY(code, "check its directory, or choose another share.socket"));
}

static void release_lock(const char *path, int lock_fd)
{
    char lock_path[SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX];
    lock_path_of(path, lock_path);
    if (is_at(lock_fd, lock_path))
        unlink(lock_path);
    close(lock_fd);
}

/* Somebody may have deleted the socket, and another one be there. */
static bool is_own(const struct share_listener *listener)
{
    struct stat info;
    return lstat(listener->path, &info) == 0 && info.st_dev == listener->device && info.st_ino == listener->inode;
}

weir_status share_listen(const char *path, mode_t mode, weir_error *error, struct share_listener *listener)
{
    if (strlen(path) >= sizeof listener->path)
        return too_long(error, path);
    int fd = -1, lock_fd = -1;
    struct stat info = { 0 };
    weir_status status = take_lock(path, error, &lock_fd);
    if (status != WEIR_OK)
        return status;
    status = remove_stale(path, error);
    if (status == WEIR_OK)
        status = bind_and_listen(path, mode, error, &fd, &info);
    if (status != WEIR_OK) {
        release_lock(path, lock_fd);
        return status;
    }
    listener->fd = fd;
    listener->lock_fd = lock_fd;
    listener->device = info.st_dev;
    listener->inode = info.st_ino;
    memcpy(listener->path, path, strlen(path) + 1);
    return WEIR_OK;
}

void share_listener_close(struct share_listener *listener)
{
    if (listener->fd < 0)
        return;
    if (is_own(listener))
        unlink(listener->path);
    release_lock(listener->path, listener->lock_fd);
    close(listener->fd);
    listener->fd = listener->lock_fd = -1;
}

void share_listener_forget(struct share_listener *listener)
{
    if (listener->fd < 0)
        return;
    close(listener->fd);
    close(listener->lock_fd);
    listener->fd = listener->lock_fd = -1;
}

void share_socket_sweep(const char *path)
{
    char lock_path[SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX];
    lock_path_of(path, lock_path);
    /* Without O_CREAT: who is just leaving has removed it, and who was killed has not. */
    int fd = open(lock_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, lock_path) && remove_stale(path, NULL) == WEIR_OK)
        unlink(lock_path);
    close(fd);
}

int share_accept(const struct share_listener *listener)
{
    int fd;
    do
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    return fd;
}

/* Connecting --------------------------------------------------------------------------------------------------------------------------- */

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/*
 * Waits where the listener's queue is full. A UNIX socket that does not block fails with EAGAIN there, and polling it tells nothing, so
 * the socket blocks, up to its sending time limit. Returns 0, or the errno.
 */
static int connect_within(int fd, const struct sockaddr_un *address, unsigned timeout_ms)
{
    uint64_t deadline = now_us() + (uint64_t)timeout_ms * 1000;
    for (;;) {
        uint64_t now = now_us();
        uint64_t left = now < deadline ? deadline - now : 1; /* 0 would be for ever */
        struct timeval limit = { .tv_sec = (time_t)(left / 1000000), .tv_usec = (suseconds_t)(left % 1000000) };
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
            return errno;
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
        if (errno != EINTR)
            return errno;
        if (now >= deadline)
            return EAGAIN;
    }
}

static weir_status fail_to_connect(weir_error *error, const char *path, int code, unsigned timeout_ms)
{
    weir_status status = share_errno_status(code);
    if (status == WEIR_GONE)
        return weir__fail(error, status, "nobody listens at %s (%s): start the exporter, or check its share.socket", path, strerror(code));
    if (status == WEIR_REFUSED)
        return weir__fail(error, status, "%s may not be connected to: %s: have share.allow of the exporter name this user or a group of it",
                          path, strerror(code));
    if (status == WEIR_TIMEOUT)
        return weir__fail(error, status, "the listener at %s took no connection within %u ms", path, timeout_ms);
    if (status == WEIR_PROTOCOL)
        return weir__fail(error, status, "the socket %s is of another type, so it is not that of an export: check share.socket", path);
    return weir__fail(error, status, "%s cannot be connected to: %s", path, WEIR__WHY(code, "check share.socket"));
}

bool share_peer(int fd, struct ucred *peer)
{
    socklen_t len = sizeof *peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) == 0;
}

weir_status share_check_server(int fd, const char *path, weir_error *error, struct ucred *server)
{
    struct stat info;
    char directory[SHARE_PATH_SIZE];
    if (!share_peer(fd, server))
        return weir__fail(error, WEIR_REFUSED, "the process that listens at %s cannot be known: %s", path, strerror(errno));
    if (server->uid == geteuid() || server->uid == 0)
        return WEIR_OK;
    directory_of(path, directory);
    if (stat(directory, &info) == 0 && info.st_uid == server->uid)
        return WEIR_OK;
    return weir__fail(error, WEIR_REFUSED,
                      "a process of user %u listens at %s, who is neither this user nor root nor the owner of %s: have "
                      "it listen in a directory of its own user",
                      (unsigned)server->uid, path, directory);
}

int share_connect_now(const char *path, int *fd)
{
    struct sockaddr_un address;
    if (!is_address(path, &address))
        return ENAMETOOLONG;
    int connecting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connecting < 0)
        return errno;
    if (connect(connecting, (const struct sockaddr *)&address, sizeof address) == 0) {
        *fd = connecting;
        return 0;
    }
    int code = errno;
    close(connecting);
    return code == EINTR ? EAGAIN : code;
}

weir_status share_connect(const char *path, unsigned timeout_ms, weir_error *error, int *fd)
{
    struct sockaddr_un address;
    if (path[0] != '/' || !is_address(path, &address))
        return weir__fail(error, WEIR_INVALID, "'%s' is no absolute path of at most %zu bytes", path, SHARE_PATH_SIZE - 1);
    int connected = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connected < 0)
        return fail_to_connect(error, path, errno, timeout_ms);
    weir_status status = WEIR_OK;
    struct ucred server;
    int code = connect_within(connected, &address, timeout_ms);
    if (code == 0 && fcntl(connected, F_SETFL, O_NONBLOCK) != 0)
        code = errno;
    if (code != 0)
        status = fail_to_connect(error, path, code, timeout_ms);
    else
        status = share_check_server(connected, path, error, &server);
    if (status != WEIR_OK) {
        close(connected);
        return status;
    }
    *fd = connected;
    return WEIR_OK;
}

/* Packets ------------------------------------------------------------------------------------------------------------------------------ */

/* Aligned as control messages have to be. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(FDS_ROOM * sizeof(int)) + CMSG_SPACE(64)];
};

enum share_io share_send(int fd, const void *bytes, size_t len, int passed)
{
    union control control;
    struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (passed >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof passed);
        control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return SHARE_DONE; /* a packet goes whole or not at all */
    switch (errno) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        return SHARE_AGAIN;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return SHARE_CLOSED;
    default:
        return SHARE_BROKEN;
    }
}

/* Collects the descriptors that came, at most `room`; the others are closed. *other: something else came. Returns how many came. */
static size_t take_fds(struct msghdr *message, int *fd, bool *other)
{
    size_t count = 0;
    *other = false;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            *other = true;
            continue;
        }
        size_t bytes = header->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int came;
            memcpy(&came, CMSG_DATA(header) + at, sizeof came);
            if (count++ == 0)
                *fd = came;
            else
                close(came);
        }
    }
    return count;
}

static ssize_t receive_packet(int fd, struct msghdr *message)
{
    ssize_t received;
    do
        received = recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    return received;
}

enum share_io share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed)
{
    union control control;
    struct iovec part = { .iov_base = bytes, .iov_len = capacity };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t received = receive_packet(fd, &message);
    /* Told once where the other side closed without reading all that it was sent. What it had sent itself, such as why, is still there. */
    if (received < 0 && errno == ECONNRESET)
        received = receive_packet(fd, &message);
    if (received < 0)
        return errno == EAGAIN ? SHARE_AGAIN : errno == ECONNRESET || errno == ENOTCONN ? SHARE_CLOSED : SHARE_BROKEN;
    int came = -1;
    bool other;
    size_t count = take_fds(&message, &came, &other);
    bool is_broken = count > 1 || other || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if ((is_broken || received == 0) && came >= 0)
        close(came);
    if (is_broken)
        return SHARE_BROKEN;
    if (received == 0)
        return SHARE_CLOSED;
    *len = (size_t)received;
    *passed = came;
    return SHARE_DONE;
}
