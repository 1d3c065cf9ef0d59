/* SPDX-License-Identifier: MIT */
/* peer.c - both sides of a test's other process: what the test calls, and what that process does. */
#include "tests/gpu/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

#define OBJECTS 8
#define ANSWER_MS 30000 /* a first contact with CUDA takes seconds */

/* One message, with at most one descriptor -------------------------------------------------------------------------------------------- */

static bool send_message(int fd, const struct peer_message *message, int passed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct peer_message copy = *message;
    struct iovec part = { &copy, sizeof(copy) };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    if (passed >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *ancillary = CMSG_FIRSTHDR(&header);
        ancillary->cmsg_level = SOL_SOCKET;
        ancillary->cmsg_type = SCM_RIGHTS;
        ancillary->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(ancillary), &passed, sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)sizeof(copy);
}

static bool receive_message(int fd, struct peer_message *message, int *passed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = { message, sizeof(*message) };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes) };
    *passed = -1;
    if (recvmsg(fd, &header, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*message))
        return false;
    struct cmsghdr *ancillary = CMSG_FIRSTHDR(&header);
    if (ancillary && ancillary->cmsg_type == SCM_RIGHTS)
        memcpy(passed, CMSG_DATA(ancillary), sizeof(int));
    return true;
}

/* The peer ----------------------------------------------------------------------------------------------------------------------------- */

static const struct gpu *gpu;
static gpu_pool pools[OBJECTS];
static gpu_event events[OBJECTS];
static gpu_stream streams[2]; /* the first is the one in use */

static void *address_of(const struct peer_message *message)
{
    return (void *)(uintptr_t)message->address;
}

static int make_pool(struct peer_message *message, int *fd)
{
    gpu_pool *pool = &pools[message->object];
    int code = gpu->pool_create(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true }, pool);
    return code ? code : gpu->pool_export(*pool, fd);
}

static int make_own_pool(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &pools[message->object]);
}

static int take(struct peer_message *message, int *fd)
{
    void *ptr;
    (void)fd;
    int code = gpu->malloc_async(&ptr, message->size, pools[message->object], streams[0]);
    if (!code)
        code = gpu->block_export(ptr, &message->block);
    message->address = code ? 0 : (uintptr_t)ptr;
    return code;
}

static int allocate(struct peer_message *message, int *fd)
{
    void *ptr;
    (void)fd;
    int code = gpu->malloc_async(&ptr, message->size, pools[message->object], streams[0]);
    message->address = code ? 0 : (uintptr_t)ptr;
    return code;
}

static int import_pool(struct peer_message *message, int *fd)
{
    int code = gpu->pool_import(0, *fd, &pools[message->object]);
    close(*fd);
    *fd = -1;
    return code;
}

static int destroy_pool(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->pool_destroy(pools[message->object]);
}

static int import_block(struct peer_message *message, int *fd)
{
    void *ptr;
    (void)fd;
    int code = gpu->block_import(pools[message->object], &message->block, &ptr);
    message->address = code ? 0 : (uintptr_t)ptr;
    return code;
}

static int free_block(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->free_async(address_of(message), streams[0]);
}

static int fill(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->set_async(address_of(message), (int)message->value, message->size, streams[0]);
}

static int read_byte(struct peer_message *message, int *fd)
{
    unsigned char byte = 0;
    (void)fd;
    int code = gpu->copy_async(&byte, address_of(message), 1, streams[0]);
    if (!code)
        code = gpu->stream_synchronize(streams[0]);
    message->value = byte;
    return code;
}

static int make_event(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->event_create_shared(0, &events[message->object], &message->event);
}

static int open_event(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->event_open_shared(0, &message->event, &events[message->object]);
}

static int destroy_event(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->event_destroy(events[message->object]);
}

static int record(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->event_record(events[message->object], streams[0]);
}

static int wait_event(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->stream_wait_event(streams[0], events[message->object]);
}

static int query_event(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->event_query(events[message->object]);
}

static int delay(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->delay(streams[0], message->value);
}

static int synchronize(struct peer_message *message, int *fd)
{
    (void)message;
    (void)fd;
    return gpu->stream_synchronize(streams[0]);
}

static int other_stream(struct peer_message *message, int *fd)
{
    gpu_stream former = streams[0];
    (void)message;
    (void)fd;
    streams[0] = streams[1];
    streams[1] = former;
    return 0;
}

static int touch(struct peer_message *message, int *fd)
{
    (void)message;
    (void)fd;
    int code = streams[0] ? 0 : gpu->set_current_device(0);
    for (int i = 0; i < 2 && !streams[i] && !code; i++)
        code = gpu->stream_create(0, &streams[i]);
    return code;
}

static int now(struct peer_message *message, int *fd)
{
    (void)fd;
    message->value = gpu->now();
    return 0;
}

static int get_access(struct peer_message *message, int *fd)
{
    enum gpu_access access = GPU_ACCESS_NONE;
    (void)fd;
    int code = gpu->pool_get_access(pools[message->object], (int)message->size, &access);
    message->value = access;
    return code;
}

static int set_access(struct peer_message *message, int *fd)
{
    (void)fd;
    return gpu->pool_set_access(pools[message->object], (int)message->size, (enum gpu_access)message->value);
}

static int (*const acts[PEER_COUNT])(struct peer_message *message, int *fd) = {
    [PEER_TOUCH] = touch,
    [PEER_NOW] = now,
    [PEER_MAKE_POOL] = make_pool,
    [PEER_MAKE_OWN_POOL] = make_own_pool,
    [PEER_IMPORT_POOL] = import_pool,
    [PEER_DESTROY_POOL] = destroy_pool,
    [PEER_TAKE] = take,
    [PEER_IMPORT_BLOCK] = import_block,
    [PEER_FREE] = free_block,
    [PEER_FILL] = fill,
    [PEER_READ] = read_byte,
    [PEER_MAKE_EVENT] = make_event,
    [PEER_OPEN_EVENT] = open_event,
    [PEER_DESTROY_EVENT] = destroy_event,
    [PEER_RECORD] = record,
    [PEER_WAIT_EVENT] = wait_event,
    [PEER_QUERY_EVENT] = query_event,
    [PEER_DELAY] = delay,
    [PEER_SYNCHRONIZE] = synchronize,
    [PEER_OTHER_STREAM] = other_stream,
    [PEER_ALLOCATE] = allocate,
    [PEER_GET_ACCESS] = get_access,
    [PEER_SET_ACCESS] = set_access,
};

/* Until the test hangs up. */
static void serve(int socket)
{
    struct peer_message message;
    int fd;
    while (receive_message(socket, &message, &fd)) {
        int code = touch(&message, &fd);
        if (!code)
            code = acts[message.what](&message, &fd);
        message.code = code;
        if (!send_message(socket, &message, fd))
            return;
        if (fd >= 0)
            close(fd);
    }
}

bool peer_main(const struct gpu *table, int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "--peer") != 0)
        return false;
    gpu = table;
    serve((int)strtol(argv[2], NULL, 10));
    /* Without the exit handlers of CUDA, which would wait for work that never ends. */
    _exit(0);
}

/* The test's side ---------------------------------------------------------------------------------------------------------------------- */

static void exec_self(int socket)
{
    /* Read first: under valgrind the link itself leads to valgrind. */
    char path[4096], number[16];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len < 0)
        return;
    path[len] = '\0';
    snprintf(number, sizeof(number), "%d", socket);
    fcntl(socket, F_SETFD, 0);
    /* A test that fails stops nobody, and a peer may be in a call that never returns. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(path, path, "--peer", number, (char *)NULL);
}

void peer_start(struct peer *peer)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (!pid) {
        exec_self(ends[1]);
        _exit(127);
    }
    close(ends[1]);
    ck_assert_int_gt(pid, 0);
    *peer = (struct peer){ pid, ends[0] };
}

void peer_kill(struct peer *peer)
{
    if (peer->pid <= 0)
        return;
    kill(peer->pid, SIGKILL);
    waitpid(peer->pid, NULL, 0);
    close(peer->socket);
    peer->pid = 0;
}

void peer_stop(struct peer *peer)
{
    struct pollfd hangup = { .fd = peer->socket, .events = POLLIN };
    if (peer->pid <= 0)
        return;
    shutdown(peer->socket, SHUT_WR);
    poll(&hangup, 1, 5000);
    peer_kill(peer);
}

void peer_tell(struct peer *peer, const struct peer_message *message)
{
    ck_assert_int_gt(peer->pid, 0);
    ck_assert(send_message(peer->socket, message, -1));
}

static int ask(struct peer *peer, struct peer_message *message, int fd, int *answer_fd)
{
    enum peer_what what = message->what;
    struct pollfd answer = { .fd = peer->socket, .events = POLLIN };
    ck_assert_int_gt(peer->pid, 0);
    ck_assert(send_message(peer->socket, message, fd));
    ck_assert_msg(poll(&answer, 1, ANSWER_MS) == 1, "the peer does not answer request %d", (int)what);
    ck_assert_msg(receive_message(peer->socket, message, answer_fd), "the peer died of request %d", (int)what);
    return message->code;
}

int peer_ask(struct peer *peer, struct peer_message *message, int fd)
{
    int unexpected;
    int code = ask(peer, message, fd, &unexpected);
    ck_assert_int_eq(unexpected, -1);
    return code;
}

int peer_ask_fd(struct peer *peer, struct peer_message *message, int *fd)
{
    return ask(peer, message, -1, fd);
}
