/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/user.h"
#include "share/wire/closing.h"

#define BACKLOG 64
#define FDS_ROOM 253 /* the most descriptors in a packet (Linux); with less room the kernel would close the rest, on this thread */

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

/* Whether the opened file is still the file at the path. A listener removes its lock file when it closes. */
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
        fchmod(fd, 0600); /* the umask may have taken the owner's bits */
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
        close(fd); /* the owner has just removed this lock file: the next attempt makes a new one */
    }
}

/* Returns WEIR_OK if no process listens at the socket. The lock alone does not show that: its file may have been deleted, and programs
   without Weir take no lock. */
static weir_status check_stale(const char *path, weir_error *error)
{
    int fd = -1, code = share_connect_now(path, &fd);
    if (code == 0)
        share_close_socket(fd);
    if (code == ECONNREFUSED || code == ENOENT)
        return WEIR_OK;
    if (code == 0 || code == EAGAIN || code == EPROTOTYPE)
        return weir__fail(error, WEIR_BUSY, "a process listens at %s already: end it, or choose another share.socket", path);
    return weir__fail(error, share_errno_status(code), "whether a process listens at %s cannot be known: %s", path,
                      WEIR__WHY(code, "choose another share.socket"));
}

/* Removes the socket of a dead listener, if there is one. */
static weir_status remove_stale(const char *path, weir_error *error)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return WEIR_OK; /* the path is free, or bind() will fail and say why */
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

/* The close of a descriptor that a client sends may take long, so the kernel is told, where it can, to refuse such descriptors. Accepted
   connections inherit this. */
static bool forbid_descriptors(int fd)
{
    int no = 0;
    return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no) == 0;
}

/* The mode is set between bind() and listen(), since nobody can connect before listen(); so the process's umask does not matter. */
static weir_status bind_and_listen(const char *path, mode_t mode, bool takes_descriptors, weir_error *error, struct share_listener *listener)
{
    struct sockaddr_un address;
    struct stat info;
    is_address(path, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return weir__fail(error, share_errno_status(errno), "no socket for %s: %s", path, WEIR__WHY(errno, "allow the process UNIX sockets"));
    bool is_guarded = !takes_descriptors && forbid_descriptors(fd);
    bool is_bound = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (is_bound && chmod(path, mode) == 0 && lstat(path, &info) == 0 && listen(fd, BACKLOG) == 0) {
        *listener = (struct share_listener){ .fd = fd, .is_guarded = is_guarded, .device = info.st_dev, .inode = info.st_ino };
        memcpy(listener->path, path, strlen(path) + 1);
        return WEIR_OK;
    }
    int code = errno;
    if (is_bound)
        unlink(path);
    close(fd);
    return weir__fail(error, share_errno_status(code), "the socket %s cannot be %s: %s", path, is_bound ? "listened to" : "made",
                      WEIR__WHY(code, "check its directory, or choose another share.socket"));
}

static void remove_lock(const char *path, int lock_fd)
{
    char lock_path[SHARE_PATH_SIZE + sizeof SHARE_LOCK_SUFFIX];
    lock_path_of(path, lock_path);
    if (is_at(lock_fd, lock_path))
        unlink(lock_path);
}

/* Compares the file with the listener's, since somebody may have deleted the socket and put another one at the path. */
bool share_listener_is_there(const struct share_listener *listener)
{
    struct stat info;
    return lstat(listener->path, &info) == 0 && info.st_dev == listener->device && info.st_ino == listener->inode;
}

static weir_status take_path(const char *path, mode_t mode, bool takes_descriptors, weir_error *error, struct share_listener *listener)
{
    if (strlen(path) >= sizeof listener->path)
        return share_fail_long(error, path);
    int lock_fd = -1;
    weir_status status = take_lock(path, error, &lock_fd);
    if (status != WEIR_OK)
        return status;
    status = remove_stale(path, error);
    if (status == WEIR_OK)
        status = bind_and_listen(path, mode, takes_descriptors, error, listener);
    if (status == WEIR_OK) {
        listener->lock_fd = lock_fd;
    } else {
        remove_lock(path, lock_fd);
        close(lock_fd);
    }
    return status;
}

weir_status share_listen(const char *path, mode_t mode, weir_error *error, struct share_listener *listener)
{
    return take_path(path, mode, false, error, listener);
}

weir_status share_listen_for_descriptors(const char *path, weir_error *error, struct share_listener *listener)
{
    return take_path(path, 0600, true, error, listener);
}

void share_listener_close(struct share_listener *listener)
{
    if (listener->fd < 0)
        return;
    if (share_listener_is_there(listener))
        unlink(listener->path);
    /* Clients that wait to be accepted may have sent descriptors already, so each is accepted and closed with care. */
    shutdown(listener->fd, SHUT_RDWR);
    for (int fd; (fd = share_accept(listener)) >= 0;)
        share_close_socket(fd);
    remove_lock(listener->path, listener->lock_fd);
    share_listener_forget(listener);
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
    /* Without O_CREAT: the lock file of a killed listener is still there, and a listener that is closing has removed its own. */
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
    if (weir__is_self_or_root(server->uid))
        return WEIR_OK;
    share_directory_of(path, directory);
    if (stat(directory, &info) == 0 && weir__is_user(info.st_uid, server->uid))
        return WEIR_OK;
    return weir__fail(error, WEIR_REFUSED,
                      "a process of user %u%s listens at %s, who is neither this user nor root nor the owner of %s: have "
                      "it listen in a directory of its own user",
                      (unsigned)server->uid, weir__user_note(server->uid), path, directory);
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

bool share_has_hung_up(int fd)
{
    struct pollfd look = { .fd = fd };
    return poll(&look, 1, 0) == 1 && (look.revents & POLLHUP);
}

/* Packets ------------------------------------------------------------------------------------------------------------------------------ */

/* A union, so that the bytes are aligned like a control message header. */
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
        return SHARE_DONE; /* a packet is sent whole or not at all */
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

/* Collects the descriptors from the control messages and returns their number. *other is set if another kind of control message came. */
static size_t take_fds(struct msghdr *message, int fds[FDS_ROOM], bool *other)
{
    size_t count = 0;
    *other = false;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            *other = true;
            continue;
        }
        size_t bytes = header->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof(int) <= bytes && count < FDS_ROOM; at += sizeof(int)) {
            memcpy(&fds[count++], CMSG_DATA(header) + at, sizeof(int));
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

int share_guarded;

bool share_guard(int fd)
{
    char byte;
    return forbid_descriptors(fd) && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Whether the next packet has ancillary data. MSG_PEEK without room for control messages sets MSG_CTRUNC and closes no descriptor. */
static bool brings_something(int fd)
{
    char byte;
    struct iovec part = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    return recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) >= 0 && (message.msg_flags & MSG_CTRUNC);
}

enum share_io share_receive(int fd, void *bytes, size_t capacity, size_t *len, int *passed)
{
    union control control;
    struct iovec part = { .iov_base = bytes, .iov_len = capacity };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    if (!passed && brings_something(fd))
        return SHARE_BROKEN;
    if (passed == SHARE_GUARDED)
        passed = NULL;
    ssize_t received = receive_packet(fd, &message);
    /* ECONNRESET is reported once if the other side closed without reading all of its queue. Messages that it sent, such as the reason, can
       still be read. */
    if (received < 0 && errno == ECONNRESET)
        received = receive_packet(fd, &message);
    if (received < 0)
        return errno == EAGAIN ? SHARE_AGAIN : errno == ECONNRESET || errno == ENOTCONN ? SHARE_CLOSED : SHARE_BROKEN;
    int came[FDS_ROOM];
    bool other;
    size_t count = take_fds(&message, came, &other);
    bool is_broken = count > (passed ? 1 : 0) || other || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (is_broken || received == 0)
        share_close_away(came, count, NULL);
    if (is_broken)
        return SHARE_BROKEN;
    if (received == 0)
        return SHARE_CLOSED;
    *len = (size_t)received;
    if (passed)
        *passed = count ? came[0] : -1;
    return SHARE_DONE;
}
