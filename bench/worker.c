/* SPDX-License-Identifier: MIT */
/* worker.c - the socket between weir-bench and the processes that it starts, and what both sides need. */
#include "config.h"

#include "bench/worker.h"

#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Packets ------------------------------------------------------------------------------------------------------------------------------ */

static _Noreturn void die(void)
{
    bench_die(__FILE__, __LINE__, "another process of weir-bench", "has ended, or does nothing");
}

/* Where a socket has a time limit a call is not gone on with after SIGCONT. */
static void receive(int link, struct msghdr *message)
{
    ssize_t got;
    do
        got = recvmsg(link, message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)message->msg_iov->iov_len)
        die();
}

/* Room for one descriptor beside a message. */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

void worker_tell(const struct worker *worker, const struct worker_order *order, int passed)
{
    union control control = {.space = {0}};
    struct iovec part = {.iov_base = (void *)order, .iov_len = sizeof(*order)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &passed, sizeof(int));
    }
    if (sendmsg(worker->link, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(*order))
        die();
}

bool worker_take(struct worker_order *order, int *passed)
{
    union control control;
    struct iovec part = {.iov_base = order, .iov_len = sizeof(*order)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    receive(WORKER_FD, &message);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *passed = -1;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(passed, CMSG_DATA(header), sizeof(int));
    return order->task != WORKER_LEAVE;
}

void worker_answer(const struct worker_answer *answer)
{
    if (send(WORKER_FD, answer, sizeof(*answer), MSG_NOSIGNAL) != (ssize_t)sizeof(*answer))
        die();
}

struct worker_answer worker_hear(const struct worker *worker)
{
    struct worker_answer answer;
    struct iovec part = {.iov_base = &answer, .iov_len = sizeof(answer)};
    receive(worker->link, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1});
    return answer;
}

struct worker_answer worker_ask(const struct worker *worker, const struct worker_order *order, int passed)
{
    worker_tell(worker, order, passed);
    return worker_hear(worker);
}

/* As bare as messages are. */
uint64_t link_receive_time(int link)
{
    uint64_t time;
    ssize_t got;
    do
        got = recv(link, &time, sizeof(time), 0);
    while (got < 0 && errno == EINTR);
    if (got != sizeof(time))
        die();
    return time;
}

void link_send_time(int link, uint64_t time)
{
    if (send(link, &time, sizeof(time), MSG_NOSIGNAL) != sizeof(time))
        die();
}

/* Processes ---------------------------------------------------------------------------------------------------------------------------- */

void worker_start(struct worker *worker, const char *option)
{
    static char name[] = "weir-bench";
    char *const argv[] = {name, (char *)option, NULL};
    posix_spawn_file_actions_t actions;
    struct timeval patience = {.tv_sec = WORKER_PATIENCE / 1000};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        bench_die(__FILE__, __LINE__, "socketpair", strerror(errno));
    /* Who was started may wait for orders as long as there is somebody to give them. */
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], WORKER_FD);
    int code = posix_spawn(&worker->pid, "/proc/self/exe", &actions, NULL, argv, environ);
    if (code != 0)
        bench_die(__FILE__, __LINE__, "starting /proc/self/exe", strerror(code));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    worker->link = ends[0];
}

void worker_end(const struct worker *workers, size_t count)
{
    static const struct worker_order leave = {.task = WORKER_LEAVE};
    /* All at once, as each of them takes its time. */
    for (size_t i = 0; i < count; i++)
        worker_tell(&workers[i], &leave, -1);
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        if (waitpid(workers[i].pid, &status, 0) != workers[i].pid || status != 0)
            bench_die(__FILE__, __LINE__, "another process of weir-bench", "did not end well");
        close(workers[i].link);
    }
}

/* CPUs --------------------------------------------------------------------------------------------------------------------------------- */

void link_pin(int cpu)
{
    static cpu_set_t all;
    static bool knows_all;
    cpu_set_t one;
    if (!knows_all && sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    knows_all = true;
    if (cpu == 0) {
        sched_setaffinity(0, sizeof(all), &all);
        return;
    }
    /* Where there are enough the two CPUs are not the two threads of a core, whether cores are numbered in pairs or in halves. */
    int wanted = CPU_COUNT(&all) >= 8 ? 2 * cpu - 1 : cpu - 1;
    if (wanted >= CPU_COUNT(&all))
        return;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && wanted-- == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof(one), &one);
}
