/* SPDX-License-Identifier: MIT */
/* Packets with descriptors, between two real sockets. */
#include "config.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/share/socket_scene.h"

/* Packets ------------------------------------------------------------------------------------------------------------------------------ */

static int ends[2];

static void connect_ends(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_end(int end)
{
    if (ends[end] >= 0)
        close(ends[end]);
    ends[end] = -1;
}

static void close_ends(void)
{
    close_end(0);
    close_end(1);
}

static enum share_io receive(void)
{
    unsigned char bytes[16];
    size_t len = 0;
    int passed = -1;
    enum share_io io = share_receive(ends[1], bytes, sizeof bytes, &len, &passed);
    ck_assert_int_eq(passed, -1);
    return io;
}

START_TEST(packet_arrives_whole_with_its_length)
{
    unsigned char bytes[16];
    size_t len;
    int passed;
    ck_assert_int_eq(share_send(ends[0], "one", 3, -1), SHARE_DONE);
    ck_assert_int_eq(share_send(ends[0], "three", 5, -1), SHARE_DONE);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, &passed), SHARE_DONE);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(passed, -1);
    ck_assert_mem_eq(bytes, "one", 3);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, &passed), SHARE_DONE);
    ck_assert_uint_eq(len, 5);
    ck_assert_mem_eq(bytes, "three", 5);
}
END_TEST

START_TEST(descriptor_arrives_with_its_packet_and_is_closed_by_exec)
{
    unsigned char bytes[16];
    size_t len;
    int passed, tube[2];
    char byte;
    ck_assert_int_eq(pipe(tube), 0);
    ck_assert_int_eq(share_send(ends[0], "fd", 2, tube[1]), SHARE_DONE);
    close(tube[1]);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, &passed), SHARE_DONE);
    ck_assert_int_ge(passed, 0);
    ck_assert_int_eq(fcntl(passed, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(write(passed, "x", 1), 1);
    ck_assert_int_eq(read(tube[0], &byte, 1), 1);
    close(passed);
    close(tube[0]);
}
END_TEST

START_TEST(nothing_to_receive_is_again)
{
    ck_assert_int_eq(receive(), SHARE_AGAIN);
}
END_TEST

START_TEST(full_socket_is_again_and_takes_more_once_it_was_read)
{
    static unsigned char bytes[1024];
    enum share_io io;
    size_t len, sent = 0;
    int passed;
    while ((io = share_send(ends[0], bytes, sizeof bytes, -1)) == SHARE_DONE)
        sent++;
    ck_assert_int_eq(io, SHARE_AGAIN);
    ck_assert_uint_gt(sent, 0);
    while (sent > 0 && share_receive(ends[1], bytes, sizeof bytes, &len, &passed) == SHARE_DONE)
        sent--;
    ck_assert_uint_eq(sent, 0);
    ck_assert_int_eq(share_send(ends[0], bytes, sizeof bytes, -1), SHARE_DONE);
}
END_TEST

START_TEST(closed_peer_is_seen_by_both_calls_and_raises_no_signal)
{
    close_end(0);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    ck_assert_int_eq(share_send(ends[1], "x", 1, -1), SHARE_CLOSED);
}
END_TEST

START_TEST(packets_sent_before_the_peer_closed_arrive)
{
    ck_assert_int_eq(share_send(ends[0], "x", 1, -1), SHARE_DONE);
    close_end(0);
    ck_assert_int_eq(receive(), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
}
END_TEST

/* Linux tells of the reset first, and once: what was sent before it is still there. */
START_TEST(packets_of_a_peer_that_closed_without_reading_arrive)
{
    ck_assert_int_eq(share_send(ends[1], "asked", 5, -1), SHARE_DONE);
    ck_assert_int_eq(share_send(ends[0], "refused", 7, -1), SHARE_DONE);
    close_end(0);
    ck_assert_int_eq(receive(), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
}
END_TEST

START_TEST(truncated_packet_is_refused_and_its_descriptor_closed)
{
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "seventeen bytes..", 17, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_BROKEN);
    ck_assert_int_eq(suite_await_fds(fds), fds);
}
END_TEST

START_TEST(surplus_descriptors_are_refused_and_closed)
{
    static const size_t counts[] = { 2, 3, 8, 9, 20, 64 };
    int fds = suite_count_fds();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ck_assert_int_eq(send_fds(ends[0], "fds", 3, ends[0], counts[i]), 3);
        ck_assert_msg(receive() == SHARE_BROKEN, "%zu descriptors", counts[i]);
        ck_assert_int_eq(suite_await_fds(fds), fds);
    }
}
END_TEST

START_TEST(descriptor_where_none_is_to_come_is_refused_and_not_taken)
{
    char bytes[8];
    size_t len;
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "x", 1, -1), SHARE_DONE);
    ck_assert_int_eq(share_send(ends[0], "y", 1, ends[0]), SHARE_DONE);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, NULL), SHARE_DONE);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, NULL), SHARE_BROKEN);
        ck_assert_int_eq(suite_count_fds(), fds);
    }
}
END_TEST

START_TEST(other_ancillary_data_is_refused_and_a_descriptor_beside_it_closed)
{
    int on = 1;
    ck_assert_int_eq(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "x", 1, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_BROKEN);
    ck_assert_int_eq(suite_await_fds(fds), fds);
}
END_TEST

START_TEST(empty_packet_counts_as_closed_and_its_descriptor_is_closed)
{
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "", 0, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    ck_assert_int_eq(suite_await_fds(fds), fds);
}
END_TEST

START_TEST(descriptor_that_is_not_open_is_broken)
{
    int closed = dup(ends[0]);
    close(closed);
    ck_assert_int_eq(share_send(ends[0], "x", 1, closed), SHARE_BROKEN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packet");
    TCase *packets = suite_case(suite, "packets", 0);
    tcase_add_checked_fixture(packets, connect_ends, close_ends);
    suite_add(packets, packet_arrives_whole_with_its_length, descriptor_arrives_with_its_packet_and_is_closed_by_exec,
              nothing_to_receive_is_again, full_socket_is_again_and_takes_more_once_it_was_read,
              closed_peer_is_seen_by_both_calls_and_raises_no_signal, packets_sent_before_the_peer_closed_arrive,
              packets_of_a_peer_that_closed_without_reading_arrive, truncated_packet_is_refused_and_its_descriptor_closed,
              surplus_descriptors_are_refused_and_closed, descriptor_where_none_is_to_come_is_refused_and_not_taken,
              other_ancillary_data_is_refused_and_a_descriptor_beside_it_closed, empty_packet_counts_as_closed_and_its_descriptor_is_closed,
              descriptor_that_is_not_open_is_broken);
    return suite_run(suite);
}
