/* SPDX-License-Identifier: MIT */
/* Descriptors whose close takes as long as their sender chose: whoever gets one goes on at once. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <net/if.h>

#include "lib/base/service.h"
#include "share/wire/closing.h"
#include "share/wire/query.h"
#include "share/wire/server.h"
#include "tests/share/socket_scene.h"

#define LINGER_S 600                  /* beyond the limit of any test */
#define SOON (20 * GPU_SECOND)        /* a program that does not wait for the close is faster, however slow the machine */

static int ends[2];
static int keep[2];     /* the listener, and the other end, which reads nothing */
static uint64_t began;

/* In a network namespace of one's own the loopback may be down. */
static void raise_loopback(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
}

/* A TCP socket with bytes that nobody takes: its last close waits for them. */
static int slow_to_close(void)
{
    static const char bytes[65536];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct linger linger = { 1, LINGER_S };
    socklen_t len = sizeof address;
    int least = 2048, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    keep[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(keep[0], SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    ck_assert_int_eq(bind(keep[0], (const struct sockaddr *)&address, len), 0);
    ck_assert_int_eq(listen(keep[0], 1), 0);
    ck_assert_int_eq(getsockname(keep[0], (struct sockaddr *)&address, &len), 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, len), 0);
    keep[1] = accept4(keep[0], NULL, NULL, SOCK_CLOEXEC);
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    return fd;
}

static bool has_loopback(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is_there = bind(listener, (const struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0 &&
                    getsockname(listener, (struct sockaddr *)&address, &len) == 0 &&
                    connect(fd, (const struct sockaddr *)&address, len) == 0;
    close(listener);
    close(fd);
    return is_there;
}

static void connect_ends(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    began = weir__service_now();
}

/* Sends it so many times in one packet, with no copy left here. */
static void send_slow(int fd, size_t count)
{
    int slow = slow_to_close();
    ck_assert_int_eq(send_fds(fd, "x", 1, slow, count), 1);
    share_close_away(&slow, 1, NULL); /* mostly not the last one, but whoever gets it may be quick */
}

static bool counts(uid_t uid)
{
    return uid == geteuid();
}

static unsigned closing(void)
{
    unsigned of_process = 0, of_user = 0, of_all = 0;
    share_closing_count(getpid(), geteuid(), counts, &of_process, &of_user, &of_all);
    return of_user;
}

/* Ends the wait of whoever closes it. */
static void let_go(void)
{
    ck_assert_msg(weir__service_now() - began < SOON, "it took %.1f s", (double)(weir__service_now() - began) / 1e9);
    close(keep[1]); /* unread bytes: a reset */
    close(keep[0]);
}

static enum share_io receive(int *passed)
{
    char bytes[16];
    size_t len;
    return share_receive(ends[1], bytes, sizeof bytes, &len, passed);
}

static void by_end_of_socket(void)
{
    /* Neither what comes before it nor an empty packet hides it. */
    share_send(ends[0], "before", 6, -1);
    share_send(ends[0], "", 0, -1);
    /* Nobody receives yet, so the copy that was sent is the last one, and this close is quick. Left to a thread it could come last. */
    int slow = slow_to_close();
    ck_assert_int_eq(send_fds(ends[0], "x", 1, slow, 1), 1);
    close(slow);
    share_close_socket(ends[1]);
    ck_assert_uint_eq(closing(), 1);
}

static void by_refusal(void)
{
    send_slow(ends[0], 1);
    ck_assert_int_eq(receive(NULL), SHARE_BROKEN);
    share_close_socket(ends[1]);
}

static void by_surplus(void)
{
    int passed;
    send_slow(ends[0], 64);
    ck_assert_int_eq(receive(&passed), SHARE_BROKEN);
    share_close_socket(ends[1]);
}

static void by_truncation(void)
{
    int slow = slow_to_close(), passed;
    ck_assert_int_eq(send_fds(ends[0], "more than there is room for", 27, slow, 1), 27);
    close(slow);
    ck_assert_int_eq(receive(&passed), SHARE_BROKEN);
    share_close_socket(ends[1]);
}

/* What was never accepted goes with its listener. */
static void by_end_of_listener(void)
{
    weir_error error = WEIR_ERROR_INIT;
    struct share_listener listener;
    ck_assert_int_eq(share_listen_for_descriptors(path, &error, &listener), WEIR_OK);
    int fd = connect_to(path);
    send_slow(fd, 1);
    share_listener_close(&listener);
    close(fd);
    close(ends[1]);
}

static void *answer(void *data)
{
    const struct share_listener *listener = data;
    int fd;
    while ((fd = share_accept(listener)) < 0)
        sched_yield();
    send_slow(fd, 1);
    return (void *)(intptr_t)fd;
}

/* Who asks a hostile socket, as root does all, is answered by one. */
static void by_question(void)
{
    pthread_t thread;
    void *fd;
    weir_error error = WEIR_ERROR_INIT;
    struct share_listener listener;
    struct share_query query = { .path = path, .question.type = WIRE_FIGURES };
    ck_assert_int_eq(share_listen_for_descriptors(path, &error, &listener), WEIR_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, answer, &listener), 0);
    share_queries_run(&query, 1, weir__service_now() + SOON);
    ck_assert_int_eq(query.status, WEIR_PROTOCOL);
    pthread_join(thread, &fd);
    close((int)(intptr_t)fd);
    share_listener_close(&listener);
    close(ends[1]);
}

static const struct {
    const char *name;
    void (*get_rid)(void);
} ways[] = {
    { "a connection is closed", by_end_of_socket },   { "one came that is not to come", by_refusal },
    { "more came than may come", by_surplus },        { "it came with a packet that is too long", by_truncation },
    { "a listener is closed", by_end_of_listener },   { "it is the answer to a question", by_question },
};

START_TEST(slow_close_keeps_nobody_waiting)
{
    ways[_i].get_rid();
    let_go();
    close(ends[0]);
}
END_TEST

START_TEST(connection_takes_its_place_until_it_is_closed)
{
    static const struct share_crowd_limits limits = { .process = 1, .user = 8, .strangers = 8 };
    struct share_crowd crowd = { .pid = getpid(), .uid = geteuid() };
    by_end_of_socket();
    ck_assert(!share_crowd_has_room(&crowd, &limits, WEIR_BUSY, NULL));
    let_go();
    close(ends[0]);
    while (closing())
        sched_yield();
    crowd = (struct share_crowd){ .pid = getpid(), .uid = geteuid() };
    ck_assert(share_crowd_has_room(&crowd, &limits, WEIR_BUSY, NULL));
}
END_TEST

START_TEST(connection_without_descriptors_is_closed_at_once)
{
    share_send(ends[0], "before", 6, -1);
    share_send(ends[0], "", 0, -1);
    share_close_socket(ends[1]);
    ck_assert_uint_eq(closing(), 0);
    char byte;
    ck_assert_int_eq(recv(ends[0], &byte, 1, 0), 0);
    close(ends[0]);
}
END_TEST

int main(void)
{
    raise_loopback();
    if (!has_loopback())
        return suite_skip("there is no loopback network, by which to make descriptors that are slow to close");
    Suite *suite = suite_create("slow");
    TCase *tcase = scene_case(suite, "slow descriptors");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, connect_ends, NULL);
    tcase_add_loop_test(tcase, slow_close_keeps_nobody_waiting, 0, (int)(sizeof ways / sizeof ways[0]));
    suite_add(tcase, connection_takes_its_place_until_it_is_closed, connection_without_descriptors_is_closed_at_once);
    return suite_run(suite);
}
