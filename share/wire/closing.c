/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/closing.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "share/wire/socket.h"

struct batch {
    struct batch *next;
    struct ucred sender; /* pid 0: share_closing_count() counts the batch for nobody */
    bool has_thread;     /* false: pthread_create() failed so far */
    size_t count;
    int fds[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct batch *first; /* guarded by `lock` */

static void *close_batch(void *data)
{
    struct batch *batch = data;
    pthread_setname_np(pthread_self(), "weir-close");
    for (size_t i = 0; i < batch->count; i++)
        close(batch->fds[i]);
    pthread_mutex_lock(&lock);
    WEIR__UNLINK(first, batch, next);
    pthread_mutex_unlock(&lock);
    free(batch);
    return NULL;
}

/* Starts a thread for each batch that has none, with all signals blocked, since the signals are the application's. The caller holds
   `lock`. */
static void start_threads(void)
{
    sigset_t all, former;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    for (struct batch *batch = first; batch; batch = batch->next)
        if (!batch->has_thread)
            batch->has_thread = pthread_create(&thread, &detached, close_batch, batch) == 0;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&detached);
}

void share_close_away(const int *fds, size_t count, const struct ucred *sender)
{
    struct batch *batch = count ? malloc(sizeof *batch + count * sizeof *fds) : NULL;
    if (!batch) { /* without host memory this thread closes them itself: a wait is better than a leak */
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        return;
    }
    *batch = (struct batch){ .sender = sender ? *sender : (struct ucred){ 0 }, .count = count };
    memcpy(batch->fds, fds, count * sizeof *fds);
    pthread_mutex_lock(&lock);
    batch->next = first;
    first = batch;
    start_threads();
    pthread_mutex_unlock(&lock);
}

/* Empties the queue of a socket that was shut down, by reading packets that came without descriptors. Returns true once the queue is empty,
   and false if a packet with descriptors is in the way. An empty packet looks like the end of the queue, so the kernel is asked to add the
   sender's credentials to each packet. */
static bool empty_queue(int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    for (;;) {
        char byte;
        struct iovec part = { .iov_base = &byte, .iov_len = 1 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
        ssize_t seen = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
        if (seen < 0 && (errno == ECONNRESET || errno == EINTR)) /* recvmsg() reports ECONNRESET only once */
            continue;
        if (seen < 0 || (message.msg_flags & MSG_CTRUNC))
            return false;
        if (!message.msg_controllen)
            return true;
        recv(fd, &byte, 1, MSG_DONTWAIT);
    }
}

void share_close_socket(int fd)
{
    struct ucred sender;
    shutdown(fd, SHUT_RDWR);
    if (empty_queue(fd))
        close(fd);
    else
        share_close_away(&fd, 1, share_peer(fd, &sender) ? &sender : NULL);
}

void share_closing_count(pid_t pid, uid_t uid, bool (*is_counted)(uid_t uid), unsigned *of_process, unsigned *of_user, unsigned *of_counted)
{
    pthread_mutex_lock(&lock);
    for (const struct batch *batch = first; batch; batch = batch->next) {
        if (!batch->sender.pid && !batch->sender.uid)
            continue;
        *of_process += batch->sender.pid > 0 && batch->sender.pid == pid;
        *of_user += batch->sender.uid == uid;
        *of_counted += is_counted(batch->sender.uid);
    }
    pthread_mutex_unlock(&lock);
}
