/* SPDX-License-Identifier: MIT */
/* floods.c - clients that connect, ask, or do not read more than anybody should: nobody else suffers. */
#include "config.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "tests/share/stranger_scene.h"

#define FLOOD 500
#define CLOG 600 /* frames: more than a socket takes */

START_TEST(flood_of_connections_stops_nobody_who_is_in)
{
    static int fds[FLOOD];
    unsigned long long before = stage_number(stage_say(exporter, "counts"), "fds");
    struct rlimit limit = { FLOOD + 100, FLOOD + 100 }, former;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &former), 0);
    if (former.rlim_cur < limit.rlim_cur)
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = stage_connect();
        if (i % 50 == 0)
            serve_friend();
    }
    serve_friend();
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    char wanted[32];
    snprintf(wanted, sizeof wanted, " fds=%llu", before);
    stage_until(exporter, wanted, "counts");
    leave(connect_as(WIRE_ROLE_IMPORTER));
}
END_TEST

START_TEST(connection_that_says_nothing_is_refused_where_there_are_too_many)
{
    int fds[40];
    unsigned refused = 0;
    for (unsigned i = 0; i < 40; i++)
        fds[i] = stage_connect();
    for (unsigned i = 0; i < 40; i++) {
        struct pollfd readable = { .fd = fds[i], .events = POLLIN };
        if (poll(&readable, 1, i >= 8 ? 30000 : 0) == 1) {
            ck_assert_uint_eq(hear_a(WIRE_REFUSED, fds[i]).u.refused.status, WEIR_REFUSED);
            refused++;
        }
    }
    ck_assert_uint_eq(refused, 32); /* of one process there may be 8 */
    for (unsigned i = 0; i < 40; i++)
        close(fds[i]);
}
END_TEST

/* An observer may have more to say, but not at any time. */
START_TEST(observer_that_asks_nothing_is_cut_off)
{
    uint64_t begun = weir__service_now();
    ck_assert(is_closed(connect_as(WIRE_ROLE_OBSERVER)));
    ck_assert_uint_ge(weir__service_now() - begun, UINT64_C(4900000000));
}
END_TEST

START_TEST(observers_of_a_process_are_refused_where_there_are_too_many)
{
    struct wire_message message = { .type = WIRE_WELCOME };
    int fds[100];
    unsigned count = 0;
    /* Of one process there may be 8; more are let in only while the first ones are being closed. */
    while (message.type == WIRE_WELCOME) {
        ck_assert_uint_lt(count, sizeof fds / sizeof fds[0]);
        try_to_say(fds[count++] = stage_connect(), hello(WIRE_ROLE_OBSERVER));
        ck_assert(hear(fds[count - 1], &message));
    }
    ck_assert_uint_gt(count, 8);
    ck_assert_uint_eq(message.type, WIRE_REFUSED);
    ck_assert_ptr_nonnull(strstr(message.u.refused.text, "8 connections"));
    while (count)
        close(fds[--count]);
}
END_TEST

/* Asks and asks, and reads no answer, until the exporter has had enough of it. */
START_TEST(client_that_asks_without_reading_is_cut_off)
{
    pid_t child = fork();
    if (child == 0) {
        struct wire_message acquire = { .type = WIRE_ACQUIRE, .request = 2, .u.acquire.name = "nothing" };
        struct pollfd writable = { .events = POLLOUT };
        int fd = writable.fd = connect_as(WIRE_ROLE_IMPORTER);
        enum share_io io;
        while ((io = try_to_say(fd, &acquire)) == SHARE_DONE || io == SHARE_AGAIN)
            if (poll(&writable, 1, 30000) != 1)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < 20; i++)
        serve_friend();
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

START_TEST(reader_that_reads_no_message_stops_no_ring)
{
    struct wire_message subscribe = { .type = WIRE_SUBSCRIBE, .request = 2, .u.subscribe = { 0, "r" } };
    stage_say(exporter, "ring r 64KiB 4 drop_oldest s");
    int fd = connect_as(WIRE_ROLE_IMPORTER);
    say(fd, &subscribe);
    stage_until(exporter, " readers=1", "readers r");
    stage_say(friend, "reader i q r 1");
    for (unsigned frame = 1; frame <= 100; frame++) {
        char held[32];
        snprintf(held, sizeof held, " leases=%u ", frame < 3 ? frame : 3); /* the stranger's, which are all that it may have */
        stage_say(exporter, "take r slot 64KiB 0 s; fill slot %u s; push r slot s", frame);
        stage_say(friend, "next q f 20000 s; check f %u s; release f s", frame);
        stage_until(exporter, held, "info");
    }
    ck_assert_uint_eq(hear_a(WIRE_SUBSCRIBED, fd).u.subscribed.leases, 3);
    leave(fd);
    stage_say(friend, "reader_close q");
    stage_say(exporter, "ring_close r");
}
END_TEST

/* Fills the stranger's socket with frames of ring r, which it does not read. */
static int connect_and_clog(void)
{
    struct wire_message subscribe = { .type = WIRE_SUBSCRIBE, .request = 2, .u.subscribe = { 0, "r" } };
    stage_say(exporter, "ring r 4096 %d drop_oldest s", CLOG);
    int fd = connect_as(WIRE_ROLE_IMPORTER);
    say(fd, &subscribe);
    stage_until(exporter, " readers=1", "readers r");
    stage_say(exporter, "write r 1 %d 4096 s", CLOG - 1);
    return fd;
}

START_TEST(block_that_is_withdrawn_before_there_is_room_to_say_so_is_not_found)
{
    struct wire_message message = { 0 }, acquire = { .type = WIRE_ACQUIRE, .request = 3, .u.acquire.name = "b" };
    stage_say(exporter, "malloc b 64KiB s; publish b b s; forget b");
    int fd = connect_and_clog();
    say(fd, &acquire);
    serve_friend(); /* asks later, so the exporter has seen the stranger's question by now */
    stage_say(exporter, "withdraw b");
    while (message.request != acquire.request)
        ck_assert(hear(fd, &message));
    ck_assert_int_eq(message.type, WIRE_REFUSED);
    ck_assert_int_eq(message.u.refused.status, WEIR_NOT_FOUND);
    leave(fd);
    stage_say(exporter, "ring_close r");
}
END_TEST

static void say_often(int fd, const struct wire_message *message, int times)
{
    for (int i = 0; i < times; i++)
        say(fd, message);
}

START_TEST(farewell_is_heard_before_the_same_process_comes_again)
{
    struct wire_message unmapped = { .type = WIRE_UNMAPPED, .u.block.block = 999999 }, goodbye = { .type = WIRE_GOODBYE };
    int fd = connect_as(WIRE_ROLE_IMPORTER);
    stage_signal(exporter, SIGSTOP);
    say_often(fd, &unmapped, 150);
    say(fd, &goodbye);
    close(fd);
    fd = stage_connect();
    say(fd, hello(WIRE_ROLE_IMPORTER));
    stage_signal(exporter, SIGCONT);
    hear_a(WIRE_WELCOME, fd);
    leave(fd);
}
END_TEST

/* It has said so much before, which the exporter has not read yet, that a frame for it fails before the farewell is read. */
START_TEST(farewell_counts_although_a_frame_came_too_late_for_the_stranger)
{
    struct wire_message unmapped = { .type = WIRE_UNMAPPED, .u.block.block = 999999 }, goodbye = { .type = WIRE_GOODBYE };
    struct wire_message subscribe = { .type = WIRE_SUBSCRIBE, .request = 2, .u.subscribe = { 0, "r" } };
    stage_say(exporter, "ring r 4096 4 drop_oldest s");
    int fd = connect_as(WIRE_ROLE_IMPORTER);
    say(fd, &subscribe);
    hear_a(WIRE_SUBSCRIBED, fd);
    stage_signal(exporter, SIGSTOP);
    say_often(fd, &unmapped, 100);
    say(fd, &goodbye);
    close(fd);
    stage_tell(exporter, "write r 1 4 4096 s");
    stage_signal(exporter, SIGCONT);
    stage_hear(exporter);
    stage_until(exporter, " importers=1 ", "info");
    stage_say(exporter, "ring_close r");
}
END_TEST

START_TEST(many_ask_at_once_and_all_are_answered)
{
    struct wire_message message, acquire = { .type = WIRE_ACQUIRE, .request = 1, .u.acquire.name = "a" };
    int fd = connect_as(WIRE_ROLE_IMPORTER);
    for (unsigned i = 0; i < 50; i++) {
        acquire.request = i + 1;
        say(fd, &acquire);
    }
    for (unsigned i = 0; i < 50; i++) {
        message = hear_a(WIRE_LEASE, fd);
        ck_assert_uint_eq(message.request, i + 1);
        ck_assert_uint_eq(message.u.lease.flags & WIRE_HAS_BLOCK, i == 0 ? WIRE_HAS_BLOCK : 0);
    }
    ck_assert_uint_eq(stage_number(stage_say(exporter, "info"), "leases"), 50);
    leave(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("floods");
    TCase *floods = stranger_case(suite, "floods");
    suite_add(floods, flood_of_connections_stops_nobody_who_is_in, connection_that_says_nothing_is_refused_where_there_are_too_many,
              observer_that_asks_nothing_is_cut_off, observers_of_a_process_are_refused_where_there_are_too_many,
              client_that_asks_without_reading_is_cut_off, reader_that_reads_no_message_stops_no_ring,
              many_ask_at_once_and_all_are_answered, block_that_is_withdrawn_before_there_is_room_to_say_so_is_not_found,
              farewell_is_heard_before_the_same_process_comes_again);
    tcase_add_loop_test(floods, farewell_counts_although_a_frame_came_too_late_for_the_stranger, 0, 5);
    return suite_run(suite);
}
