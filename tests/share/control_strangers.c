/* SPDX-License-Identifier: MIT */
/* control_strangers.c - what becomes of those who ask a control socket too much, or nothing, or what is no question, or are others. */
#include "config.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/pool/weir_internal.h"
#include "share/base/wait.h"
#include "tests/share/control_scene.h"
#include "tests/support/suite.h"

#define STRANGER 12345 /* a user that nobody is */
#define CONNECTIONS_MAX 16 /* of a process */

/* What is no question ------------------------------------------------------------------------------------------------------------------ */

START_TEST(other_version_is_denied_with_the_remedy)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message, question = scene_offer(GPU_0);
    question.request = 1;
    size_t len = wire_encode(&question, bytes);
    bytes[4] = WIRE_CONTROL_VERSION - 1;
    int fd = scene_connect();
    for (unsigned times = 0; times < 3; times++) {
        say_bytes(fd, bytes, len);
        message = hear_a(WIRE_DENIED, fd);
        ck_assert_uint_eq(message.request, 0);
        ck_assert_uint_eq(message.u.refused.status, WEIR_REFUSED);
        ck_assert_ptr_nonnull(strstr(message.u.refused.text, "version 1 of the protocol is not spoken here, only 2: use the same release"));
    }
    close(fd);
}
END_TEST

START_TEST(question_is_cut_off_at_whatever_place_it_is_cut)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message question = scene_give(1, GPU_0, 0);
    size_t len = wire_encode(&question, bytes);
    for (size_t cut = 1; cut < len; cut += cut < WIRE_HEADER_SIZE + 2 ? 1 : 7) {
        int fd = scene_connect();
        say_bytes(fd, bytes, cut);
        ck_assert_msg(is_closed(fd), "cut at %zu", cut);
    }
    scene_expect_no_harm();
}
END_TEST

START_TEST(packet_that_is_too_long_is_cut_off)
{
    static const unsigned char bytes[8 * WIRE_SIZE_MAX] = "WEIR\1\0\100";
    int fd = scene_connect();
    say_bytes(fd, bytes, sizeof bytes);
    ck_assert(is_closed(fd));
    scene_expect_no_harm();
}
END_TEST

static const struct wire_message no_questions[] = {
    { .type = WIRE_HELLO, .request = 1, .u.hello = { WIRE_ROLE_OBSERVER, "" } },
    { .type = WIRE_DONE, .request = 1 },
    { .type = WIRE_READY, .request = 1 },
    { .type = WIRE_OFFERED, .request = 1 },
    { .type = WIRE_DENIED, .request = 1, .u.refused = { WEIR_BUSY, "" } },
};

START_TEST(message_of_another_sender_is_cut_off)
{
    int fd = scene_connect();
    say(fd, &no_questions[_i]);
    ck_assert(is_closed(fd));
    weir_close(scene.w); /* after which nobody logs */
    scene.w = NULL;
    ck_assert_ptr_nonnull(strstr(fixture_log(), wire_type_name(no_questions[_i].type)));
}
END_TEST

START_TEST(descriptors_are_closed_and_who_sent_them_is_cut_off)
{
    int before = suite_count_fds();
    for (unsigned count = 1; count <= 8; count++) {
        int fd = scene_connect();
        if (say_with_fds(fd, &(struct wire_message){ .type = WIRE_FIGURES, .request = 1 }, count))
            ck_assert_msg(is_closed(fd), "%u descriptors", count);
        else
            close(fd);
    }
    while (suite_count_fds() != before)
        scene_nap();
}
END_TEST

/* Too much, and nothing ---------------------------------------------------------------------------------------------------------------- */

START_TEST(connection_beyond_the_limit_is_denied)
{
    int fds[CONNECTIONS_MAX], before = suite_count_fds();
    struct answers answers;
    struct wire_message question = scene_offer(GPU_0), message;
    question.request = 1;
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        say(fds[i] = scene_connect(), &question);
        ck_assert(hear(fds[i], &message));
    }
    struct share_query query = scene_ask(scene_offer(GPU_0), &answers);
    ck_assert_int_eq(query.status, WEIR_BUSY);
    ck_assert_ptr_nonnull(strstr(query.text, "16 connections"));
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        close(fds[i]);
    while (suite_count_fds() != before)
        scene_nap();
    scene_expect_no_harm();
}
END_TEST

START_TEST(flood_of_connections_does_no_harm)
{
    int before = suite_count_fds();
    for (unsigned i = 0; i < 500; i++)
        close(scene_connect());
    scene_expect_no_harm();
    while (suite_count_fds() != before)
        scene_nap();
}
END_TEST

START_TEST(connection_that_asks_nothing_is_closed)
{
    uint64_t begun = weir__service_now();
    ck_assert(is_closed(scene_connect()));
    ck_assert_uint_ge(weir__service_now() - begun, UINT64_C(4900000000));
}
END_TEST

/* Asks until nothing more fits. What was sent so far is answered if it is read, and then there is room again. */
static unsigned ask_until_full(int fd)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message question = { .type = WIRE_FIGURES, .request = 1 };
    size_t len = wire_encode(&question, bytes);
    struct pollfd writable = { .fd = fd, .events = POLLOUT };
    unsigned asked = 0;
    do {
        while (share_send(fd, bytes, len, -1) == SHARE_DONE)
            asked++;
    } while (poll(&writable, 1, 300) == 1 && !(writable.revents & (POLLHUP | POLLERR)));
    return asked;
}

START_TEST(who_asks_without_reading_is_kept_waiting_and_gets_all_answers)
{
    struct wire_message message;
    int fd = scene_connect();
    unsigned asked = ask_until_full(fd), answered = 0;
    scene_expect_no_harm();
    while (answered < asked) {
        ck_assert(hear(fd, &message));
        answered += message.type == WIRE_READY;
    }
    close(fd);
}
END_TEST

START_TEST(who_does_not_read_its_answers_is_closed)
{
    struct pollfd end = { .events = 0 };
    end.fd = scene_connect();
    ask_until_full(end.fd);
    ck_assert_int_eq(poll(&end, 1, PATIENCE_MS), 1);
    ck_assert(end.revents & POLLHUP);
    close(end.fd);
}
END_TEST

START_TEST(nothing_wakes_up_while_nobody_asks)
{
    struct timespec while_nobody_asks = { .tv_nsec = 300000000 };
    uint64_t before;
    int fds = suite_count_fds();
    scene_expect_no_harm();
    while (suite_count_fds() != fds)
        scene_nap();
    /* Once it has closed the connection it looks no more. */
    do {
        before = weir__service_wakeups();
        nanosleep(&while_nobody_asks, NULL);
    } while (weir__service_wakeups() != before);
    nanosleep(&while_nobody_asks, NULL);
    ck_assert_uint_eq(weir__service_wakeups(), before);
}
END_TEST

/* Who comes meanwhile is told so. */
START_TEST(want_of_descriptors_is_survived)
{
    struct rlimit limit, former;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &former), 0);
    int fd = scene_connect();
    struct wire_message question = scene_offer(GPU_0), message;
    question.request = 1;
    say(fd, &question);
    ck_assert(hear(fd, &message));
    int last = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    limit = (struct rlimit){ (rlim_t)last + 1, former.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, scene_path(1), strlen(scene_path(1)));
    ck_assert_int_eq(connect(last, (const struct sockaddr *)&address, sizeof address), 0);
    say(fd, &question);
    ck_assert(hear(fd, &message));
    message = hear_a(WIRE_DENIED, last);
    ck_assert_uint_eq(message.u.refused.status, WEIR_NO_HOST_MEMORY);
    close(last);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &former), 0);
    close(fd);
    scene_expect_no_harm();
}
END_TEST

/* Where it is, and whom it serves ------------------------------------------------------------------------------------------------------ */

START_TEST(each_weir_of_a_process_has_a_socket_of_its_own)
{
    weir *second = fixture_open(scene_policy);
    struct stat info;
    ck_assert_int_eq(stat(scene_path(1), &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0600);
    ck_assert_int_eq(stat(scene_path(2), &info), 0);
    weir_close(second);
    ck_assert_int_ne(stat(scene_path(2), &info), 0);
    scene_expect_no_harm();
}
END_TEST

START_TEST(weir_without_control_has_none)
{
    weir *second = fixture_open("weir: 1\npools: { main: {} }\n");
    ck_assert_int_ne(access(scene_path(2), F_OK), 0);
    weir_close(second);
}
END_TEST

static void keep_line(void *line, weir_log_level level, const char *text)
{
    (void)level;
    snprintf(line, 1024, "%s", text);
}

START_TEST(in_a_directory_that_is_not_safe_no_socket_is_made_and_the_log_says_why)
{
    char line[1024] = "";
    char directory[80];
    snprintf(directory, sizeof directory, "%s/weir/control", scene.runtime);
    ck_assert_int_eq(chmod(directory, 0777), 0);
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *second = NULL;
    options.policy_text = scene_policy;
    options.gpu = "sim";
    options.log = keep_line;
    options.log_data = line;
    ck_assert_msg(weir_open(&options, &error, &second) == WEIR_OK, "%s", error.text);
    ck_assert_msg(strstr(line, "chmod 0700") != NULL, "%s", line);
    ck_assert_ptr_null(second->control_path);
    weir_close(second);
}
END_TEST

START_TEST(what_killed_processes_left_is_swept_when_a_weir_opens)
{
    char path[128];
    snprintf(path, sizeof path, "%s/weir/control/7.1", scene.runtime);
    pid_t child = fork();
    if (child == 0) {
        struct share_listener listener;
        share_listen(path, 0600, NULL, &listener);
        raise(SIGKILL);
    }
    wait_for(child);
    ck_assert_int_eq(access(path, F_OK), 0);
    weir_close(fixture_open(scene_policy));
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* Of this process: sockets, and files of the scene, which are locks. */
static unsigned char count_held(void)
{
    unsigned char count = 0;
    char link[64], target[PATH_MAX];
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        count += strncmp(target, "socket:", 7) == 0 || strstr(target, scene.runtime);
    }
    return count;
}

/* The child neither answers nor keeps what is the parent's from ending; if that is killed, nothing of it seems to live on. */
START_TEST(child_of_a_fork_holds_nothing_of_it)
{
    int ready[2];
    unsigned char held;
    int fd = scene_connect();
    scene_expect_no_harm();
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        held = count_held();
        if (write(ready[1], &held, 1) != 1)
            _exit(1);
        pause();
    }
    ck_assert_int_eq(read(ready[0], &held, 1), 1);
    weir_close(scene.w);
    scene.w = NULL;
    ck_assert(is_closed(fd));
    ck_assert_uint_eq(held, count_held());
    ck_assert_int_ne(access(scene_path(1), F_OK), 0);
    scene.w = fixture_open(scene_policy);
    scene_expect_no_harm();
    kill(child, SIGKILL);
    wait_for(child);
    close(ready[0]);
    close(ready[1]);
}
END_TEST

/* The mode of the socket keeps others away; who gets past it is asked for its user. */
START_TEST(other_user_is_denied)
{
    char path[SHARE_PATH_SIZE], directory[SHARE_PATH_SIZE];
    snprintf(path, sizeof path, "%s", scene_path(1));
    for (unsigned up = 0; up < 3; up++) {
        snprintf(directory, sizeof directory, "%s%s", scene.runtime, up == 0 ? "" : up == 1 ? "/weir" : "/weir/control");
        ck_assert_int_eq(chmod(directory, 0755), 0);
    }
    ck_assert_int_eq(chmod(path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        struct share_query query = { .path = path, .question = scene_offer(GPU_0) };
        if (setgid(STRANGER) != 0 || setuid(STRANGER) != 0)
            _exit(100);
        share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
        _exit(strstr(query.text, "not user 12345") ? (int)query.status : 101);
    }
    ck_assert_int_eq(wait_for(child), WEIR_REFUSED);
    scene_expect_no_harm();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_strangers");
    TCase *packets = suite_case(suite, "packets", 60);
    tcase_add_checked_fixture(packets, scene_open, scene_close);
    suite_add(packets, other_version_is_denied_with_the_remedy, question_is_cut_off_at_whatever_place_it_is_cut,
              packet_that_is_too_long_is_cut_off);
    tcase_add_loop_test(packets, message_of_another_sender_is_cut_off, 0, sizeof no_questions / sizeof no_questions[0]);
    suite_add(packets, descriptors_are_closed_and_who_sent_them_is_cut_off);
    TCase *floods = suite_case(suite, "floods", 60);
    tcase_add_checked_fixture(floods, scene_open, scene_close);
    suite_add(floods, connection_beyond_the_limit_is_denied, flood_of_connections_does_no_harm, connection_that_asks_nothing_is_closed,
              who_asks_without_reading_is_kept_waiting_and_gets_all_answers, who_does_not_read_its_answers_is_closed,
              nothing_wakes_up_while_nobody_asks);
    /* valgrind keeps the limit itself: it accepts the connection, and closes it. */
    if (!getenv("WEIR_TEST_SLOW"))
        suite_add(floods, want_of_descriptors_is_survived);
    TCase *places = suite_case(suite, "places", 60);
    tcase_add_checked_fixture(places, scene_open, scene_close);
    suite_add(places, each_weir_of_a_process_has_a_socket_of_its_own, weir_without_control_has_none,
              in_a_directory_that_is_not_safe_no_socket_is_made_and_the_log_says_why, what_killed_processes_left_is_swept_when_a_weir_opens,
              child_of_a_fork_holds_nothing_of_it);
    if (geteuid() == 0)
        suite_add(places, other_user_is_denied);
    else
        printf("# users: not tried: only root can become another user\n");
    return suite_run(suite);
}
