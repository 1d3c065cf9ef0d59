/* SPDX-License-Identifier: MIT */
/*
 * connect.h - how tests speak the protocol themselves: they connect again and again while the listener's queue is full, and say and hear
 * one message after the other, each with so much time that no working program comes near. No state.
 */
#ifndef WEIR_TESTS_SHARE_CONNECT_H
#define WEIR_TESTS_SHARE_CONNECT_H

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "share/wire/query.h"
#include "share/base/wait.h"
#include "tests/support/suite.h"

#define HEAR_WITHIN_MS 60000

/* As share_connect(), which says what comes of it; WEIR_TIMEOUT: the queue was full all that time. */
static inline weir_status connect_within(const char *path, unsigned timeout_ms, weir_error *error, int *fd)
{
    uint64_t deadline = share_deadline(timeout_ms);
    struct ucred server;
    for (;;) {
        weir_error last = WEIR_ERROR_INIT;
        weir_status status = share_connect(path, WIRE_ROLE_IMPORTER, &last, fd, &server);
        if (error)
            *error = last;
        if (status != WEIR_TIMEOUT || share_deadline(0) >= deadline)
            return status;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static inline void say_bytes(int fd, const void *bytes, size_t len)
{
    ck_assert_int_eq(share_send(fd, bytes, len, -1), SHARE_DONE);
}

static inline void say(int fd, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    say_bytes(fd, bytes, wire_encode(message, bytes));
}

/* Where the other side may have closed the connection, or does not read. */
static inline enum share_io try_to_say(int fd, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    return share_send(fd, bytes, wire_encode(message, bytes), -1);
}

/* As sendmsg(), with that descriptor so many times. */
static inline ssize_t send_fds(int fd, const void *bytes, size_t len, int passed, size_t count)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(64 * sizeof(int))];
    } control = { .room = { 0 } };
    struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control };
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &passed, sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Says the message with so many descriptors. false: this kernel lets the other side have none sent. */
static inline bool say_with_fds(int fd, const struct wire_message *message, size_t count)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(message, bytes);
    ssize_t sent = send_fds(fd, bytes, len, STDERR_FILENO, count);
    ck_assert(sent == (ssize_t)len || (sent < 0 && errno == EPERM));
    return sent > 0;
}

/* The next message; a descriptor comes with WELCOME alone. false: the connection was closed. */
static inline bool hear(int fd, struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    size_t len;
    int passed = -1;
    ck_assert_msg(poll(&readable, 1, HEAR_WITHIN_MS) == 1, "the other side says nothing");
    if (share_receive(fd, bytes, sizeof bytes, &len, &passed) != SHARE_DONE)
        return false;
    ck_assert_int_eq(wire_decode(bytes, len, message, NULL), WIRE_GOOD);
    if (passed >= 0)
        close(passed);
    ck_assert(passed < 0 || message->type == WIRE_WELCOME);
    return true;
}

/* The next message, which has to be of that type. */
static inline struct wire_message hear_a(enum wire_type type, int fd)
{
    struct wire_message message;
    ck_assert_msg(hear(fd, &message), "the connection was closed instead of %s", wire_type_name(type));
    ck_assert_str_eq(wire_type_name(message.type), wire_type_name(type));
    return message;
}

/* Whether nothing comes but the end; closes it. */
static inline bool is_closed(int fd)
{
    struct wire_message message;
    bool closed = !hear(fd, &message);
    close(fd);
    return closed;
}

/* Returns the exit status of the child, or -1 if a signal ended it. */
static inline int wait_for(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
