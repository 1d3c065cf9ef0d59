/* SPDX-License-Identifier: MIT */
/* link.c - the socket between weir-bench and the processes that it starts, and what both sides need. */
#include "config.h"

#include "bench/consumer.h"

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

void link_send(int link, const void *bytes, size_t len, int passed)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &passed, sizeof(int));
    }
    if (sendmsg(link, &message, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die(__FILE__, __LINE__, "another process of weir-bench", "has ended, or does nothing");
}

void link_receive(int link, void *bytes, size_t len, int *passed)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t got;
    *passed = -1;
    /* Where a socket has a time limit a call is not gone on with after SIGCONT. */
    do
        got = recvmsg(link, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)len)
        bench_die(__FILE__, __LINE__, "another process of weir-bench", "has ended, or does nothing");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(passed, CMSG_DATA(header), sizeof(int));
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
        bench_die(__FILE__, __LINE__, "another process of weir-bench", "has ended, or does nothing");
    return time;
}

void link_send_time(int link, uint64_t time)
{
    if (send(link, &time, sizeof(time), MSG_NOSIGNAL) != sizeof(time))
        bench_die(__FILE__, __LINE__, "another process of weir-bench", "has ended, or does nothing");
}

/* Processes ---------------------------------------------------------------------------------------------------------------------------- */

int link_start(const char *option, int *pid)
{
    static char name[] = "weir-bench";
    char *const argv[] = {name, (char *)option, NULL};
    posix_spawn_file_actions_t actions;
    struct timeval patience = {.tv_sec = CONSUMER_PATIENCE / 1000};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        bench_die(__FILE__, __LINE__, "socketpair", strerror(errno));
    /* Who was started may wait for orders as long as there is somebody to give them. */
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], CONSUMER_FD);
    int code = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
    if (code != 0)
        bench_die(__FILE__, __LINE__, "starting /proc/self/exe", strerror(code));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    return ends[0];
}

void link_end(int link, int pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die(__FILE__, __LINE__, "another process of weir-bench", "did not end well");
    close(link);
}

void consumer_start(struct consumer *consumer)
{
    consumer->link = link_start(CONSUMER_OPTION, &consumer->pid);
}

void consumer_tell(const struct consumer *consumer, const struct consumer_order *order, int passed)
{
    link_send(consumer->link, order, sizeof(*order), passed);
}

struct consumer_answer consumer_hear(const struct consumer *consumer)
{
    struct consumer_answer answer;
    int passed;
    link_receive(consumer->link, &answer, sizeof(answer), &passed);
    return answer;
}

void consumer_end(struct consumer *consumer)
{
    struct consumer_order order = {.task = CONSUMER_LEAVE, .cpu = -1};
    consumer_tell(consumer, &order, -1);
    link_end(consumer->link, consumer->pid);
}

/* CPUs and numbers --------------------------------------------------------------------------------------------------------------------- */

void link_pin(int cpu)
{
    static cpu_set_t all;
    static bool knows_all;
    cpu_set_t one;
    if (!knows_all && sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    knows_all = true;
    if (cpu < 0) {
        sched_setaffinity(0, sizeof(all), &all);
        return;
    }
    /* Where there are enough the two CPUs are not the two threads of a core, whether cores are numbered in pairs or in halves. */
    int wanted = CPU_COUNT(&all) >= 8 ? 1 + 2 * cpu : cpu;
    if (wanted >= CPU_COUNT(&all))
        return;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && wanted-- == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double link_quantile(double *values, size_t count, unsigned hundredths)
{
    qsort(values, count, sizeof(values[0]), compare);
    size_t index = count * hundredths / 100;
    return values[index < count ? index : count - 1];
}
