/* SPDX-License-Identifier: MIT */
/*
 * query.c - what becomes of questions to those who answer well, badly, or not at all.
 *
 * The test's own process listens and answers, from a thread that plays a script.
 */
#include "config.h"

#include "share/wire/query.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "share/base/wait.h"
#include "tests/share/runtime_scene.h"

#define PATIENCE_MS 20000

/* Somebody who answers ----------------------------------------------------------------------------------------------------------------- */

/* What a server does with its one connection, on a thread of its own. */
struct server {
    struct share_listener listener;
    pthread_t thread;
    void (*play)(int fd);
};

static void *play(void *data)
{
    struct server *server = data;
    struct pollfd arrival = { .fd = server->listener.fd, .events = POLLIN };
    int fd = poll(&arrival, 1, PATIENCE_MS) == 1 ? share_accept(&server->listener) : -1;
    if (fd >= 0) {
        server->play(fd);
        close(fd);
    }
    return NULL;
}

static struct server *serve(const char *name, void (*script)(int fd))
{
    struct server *server = calloc(1, sizeof *server);
    ck_assert_ptr_nonnull(server);
    server->play = script;
    server->listener = listen_at(name);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, play, server), 0);
    return server;
}

static void end_server(struct server *server)
{
    pthread_join(server->thread, NULL);
    share_listener_close(&server->listener);
    free(server);
}

/* Waits for the question. 0: there is none. */
static uint32_t hear_question(int fd)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    struct wire_message message;
    size_t len;
    int passed;
    bool came = poll(&readable, 1, PATIENCE_MS) == 1 && share_receive(fd, bytes, sizeof bytes, &len, &passed) == SHARE_DONE;
    return came && wire_decode(bytes, len, &message, NULL) == WIRE_GOOD ? message.request : 0;
}

static void wait_for_end(int fd)
{
    while (hear_question(fd))
        continue;
}

static void answer_offer(int fd)
{
    try_to_say(fd, &(struct wire_message){ .type = WIRE_OFFERED, .request = hear_question(fd), .u.offered.bytes = 123 });
    wait_for_end(fd);
}

static void answer_figures(int fd)
{
    struct wire_message message = { .type = WIRE_TEXT, .request = hear_question(fd), .u.piece.text = "{}" };
    try_to_say(fd, &message);
    try_to_say(fd, &(struct wire_message){ .type = WIRE_READY, .request = message.request });
    wait_for_end(fd);
}

static void say_nothing(int fd)
{
    hear_question(fd);
    wait_for_end(fd);
}

static void close_at_once(int fd)
{
    hear_question(fd);
}

/* As a server does that refuses who connects: the question is never read. */
static void deny_unread(int fd)
{
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    poll(&readable, 1, PATIENCE_MS);
    try_to_say(fd, &(struct wire_message){ .type = WIRE_DENIED, .u.refused = { WEIR_BUSY, "too many" } });
}

static void deny(int fd)
{
    const struct wire_message denied = { .type = WIRE_DENIED, .request = hear_question(fd), .u.refused = { WEIR_NOT_FOUND, "no such thing" } };
    try_to_say(fd, &denied);
    wait_for_end(fd);
}

static void answer_another_question(int fd)
{
    try_to_say(fd, &(struct wire_message){ .type = WIRE_OFFERED, .request = hear_question(fd) + 1 });
    wait_for_end(fd);
}

static void answer_with_what_belongs_elsewhere(int fd)
{
    try_to_say(fd, &(struct wire_message){ .type = WIRE_GAVE, .request = hear_question(fd) });
    wait_for_end(fd);
}

static void answer_with_an_export_s_message(int fd)
{
    try_to_say(fd, &(struct wire_message){ .type = WIRE_DONE, .request = hear_question(fd) });
    wait_for_end(fd);
}

static void answer_in_another_version(int fd)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(&(struct wire_message){ .type = WIRE_READY, .request = hear_question(fd) }, bytes);
    bytes[4] = 9;
    share_send(fd, bytes, len, -1);
    wait_for_end(fd);
}

static void answer_nonsense(int fd)
{
    hear_question(fd);
    share_send(fd, "nonsense", 8, -1);
    wait_for_end(fd);
}

static void answer_with_a_descriptor(int fd)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(&(struct wire_message){ .type = WIRE_OFFERED, .request = hear_question(fd) }, bytes);
    share_send(fd, bytes, len, STDERR_FILENO);
    wait_for_end(fd);
}

static bool take_offer(struct share_query *query, const struct wire_message *answer)
{
    *(uint64_t *)query->data += answer->u.offered.bytes;
    return true;
}

static bool count(struct share_query *query, const struct wire_message *answer)
{
    (void)answer;
    ++*(unsigned *)query->data;
    return true;
}

static bool take_none(struct share_query *query, const struct wire_message *answer)
{
    (void)query;
    (void)answer;
    return false;
}

static struct share_query query_of(const char *path)
{
    return (struct share_query){ .path = path, .question = { .type = WIRE_OFFER, .u.offer.uuid = "GPU-1" } };
}

/* Asks the one server, which is given all the time it needs. */
static struct share_query ask(const struct server *server)
{
    struct share_query query = query_of(server->listener.path);
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert(query.status == WEIR_OK || query.text[0]);
    return query;
}

/* Questions ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(answer_is_taken_and_who_gave_it_is_known)
{
    uint64_t bytes = 0;
    struct server *server = serve("9.1", answer_offer);
    struct share_query query = query_of(server->listener.path);
    query.take = take_offer;
    query.data = &bytes;
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert_msg(query.status == WEIR_OK, "%s", query.text);
    ck_assert_str_eq(query.text, "");
    ck_assert_uint_eq(bytes, 123);
    ck_assert_int_eq(query.pid, getpid());
    ck_assert_uint_eq(query.uid, geteuid());
    end_server(server);
}
END_TEST

START_TEST(parts_and_the_last_answer_are_taken)
{
    unsigned answers = 0;
    struct server *server = serve("9.1", answer_figures);
    struct share_query query = query_of(server->listener.path);
    query.question.type = WIRE_FIGURES;
    query.take = count;
    query.data = &answers;
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert_msg(query.status == WEIR_OK, "%s", query.text);
    ck_assert_uint_eq(answers, 2);
    end_server(server);
}
END_TEST

START_TEST(answer_that_is_not_wanted_ends_the_query)
{
    struct server *server = serve("9.1", answer_offer);
    struct share_query query = query_of(server->listener.path);
    query.take = take_none;
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert_int_eq(query.status, WEIR_PROTOCOL);
    end_server(server);
}
END_TEST

static const struct {
    void (*play)(int fd);
    weir_status status;
    const char *text;
} ends[] = {
    { deny, WEIR_NOT_FOUND, "no such thing" },
    { deny_unread, WEIR_BUSY, "too many" },
    { close_at_once, WEIR_GONE, "closed the connection" },
    { answer_another_question, WEIR_PROTOCOL, "OFFERED" },
    { answer_with_what_belongs_elsewhere, WEIR_PROTOCOL, "OFFER with GAVE" },
    { answer_with_an_export_s_message, WEIR_PROTOCOL, "does not keep to the protocol" },
    { answer_nonsense, WEIR_PROTOCOL, "does not keep to the protocol" },
    { answer_in_another_version, WEIR_REFUSED, "version 9 of the protocol, this one version 2" },
    { answer_with_a_descriptor, WEIR_PROTOCOL, "no message of Weir" },
};

START_TEST(query_ends_with_what_the_process_made_of_it)
{
    struct server *server = serve("9.1", ends[_i].play);
    struct share_query query = ask(server);
    ck_assert_msg(query.status == ends[_i].status, "%s: %s", weir_status_name(query.status), query.text);
    ck_assert_msg(strstr(query.text, ends[_i].text), "'%s' without '%s'", query.text, ends[_i].text);
    end_server(server);
}
END_TEST

START_TEST(process_that_says_nothing_costs_the_deadline_and_no_more)
{
    struct server *server = serve("9.1", say_nothing);
    struct share_query query = query_of(server->listener.path);
    share_queries_run(&query, 1, share_deadline(20));
    ck_assert_int_eq(query.status, WEIR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(query.text, query.path));
    end_server(server);
}
END_TEST

START_TEST(socket_that_nobody_listens_at_is_told_so)
{
    char path[2 * SHARE_PATH_SIZE];
    leave_dead("9.1");
    snprintf(path, sizeof path, "%s/9.1", directory);
    struct share_query queries[] = { query_of(path), query_of("/nowhere/9.1") };
    share_queries_run(queries, 2, share_deadline(PATIENCE_MS));
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(queries[i].status, WEIR_GONE);
        ck_assert_ptr_nonnull(strstr(queries[i].text, queries[i].path));
    }
}
END_TEST

/* What the good one's answer sets free. */
static int go_ahead[2];

static bool let_the_late_one_answer(struct share_query *query, const struct wire_message *answer)
{
    return take_offer(query, answer) && write(go_ahead[1], "", 1) == 1;
}

static void answer_late(int fd)
{
    char byte;
    if (read(go_ahead[0], &byte, 1) == 1)
        answer_offer(fd);
}

/* The first answers only once the second was heard. */
START_TEST(nobody_waits_for_another)
{
    uint64_t bytes = 0;
    ck_assert_int_eq(pipe(go_ahead), 0);
    struct server *late = serve("9.1", answer_late), *good = serve("9.2", answer_offer), *closing = serve("9.3", close_at_once);
    struct share_query queries[] = { query_of(late->listener.path), query_of(good->listener.path), query_of(closing->listener.path) };
    queries[1].take = let_the_late_one_answer;
    queries[1].data = &bytes;
    share_queries_run(queries, 3, share_deadline(PATIENCE_MS));
    ck_assert_msg(queries[0].status == WEIR_OK, "%s", queries[0].text);
    ck_assert_msg(queries[1].status == WEIR_OK, "%s", queries[1].text);
    ck_assert_int_eq(queries[2].status, WEIR_GONE);
    end_server(late);
    end_server(good);
    end_server(closing);
    close(go_ahead[0]);
    close(go_ahead[1]);
}
END_TEST

/* A process that is stopped: connections that nobody takes fill its queue. */
struct stopped {
    struct share_listener listener;
    int fds[128];
    unsigned filled;
    pthread_t thread;
};

static void stop(struct stopped *stopped, const char *name)
{
    stopped->listener = listen_at(name);
    for (stopped->filled = 0; share_connect_now(stopped->listener.path, &stopped->fds[stopped->filled]) == 0; stopped->filled++)
        ck_assert_uint_lt(stopped->filled, 127);
}

/* Takes what fills the queue first, and the question behind it then. */
static void *wake_up(void *data)
{
    const struct share_listener *listener = data;
    for (;;) {
        struct pollfd arrival = { .fd = listener->fd, .events = POLLIN };
        int fd = poll(&arrival, 1, PATIENCE_MS) == 1 ? share_accept(listener) : -1;
        if (fd < 0)
            return NULL;
        uint32_t request = hear_question(fd);
        if (request) {
            try_to_say(fd, &(struct wire_message){ .type = WIRE_OFFERED, .request = request });
            wait_for_end(fd);
        }
        close(fd);
        if (request)
            return NULL;
    }
}

static bool go_on(struct stopped *stopped)
{
    while (stopped->filled)
        close(stopped->fds[--stopped->filled]);
    return pthread_create(&stopped->thread, NULL, wake_up, &stopped->listener) == 0;
}

static void end_stopped(struct stopped *stopped)
{
    pthread_join(stopped->thread, NULL);
    share_listener_close(&stopped->listener);
}

static bool let_it_go_on(struct share_query *query, const struct wire_message *answer)
{
    (void)answer;
    return go_on(query->data);
}

/* The first takes no connection before the second was heard. */
START_TEST(full_queue_of_one_keeps_no_other_waiting)
{
    struct stopped stopped;
    struct server *good = serve("9.2", answer_offer);
    stop(&stopped, "9.1");
    struct share_query queries[] = { query_of(stopped.listener.path), query_of(good->listener.path) };
    queries[1].take = let_it_go_on;
    queries[1].data = &stopped;
    share_queries_run(queries, 2, share_deadline(PATIENCE_MS));
    for (size_t i = 0; i < 2; i++)
        ck_assert_msg(queries[i].status == WEIR_OK, "%s", queries[i].text);
    end_stopped(&stopped);
    end_server(good);
}
END_TEST

START_TEST(listener_whose_queue_is_full_is_asked_once_there_is_room)
{
    struct stopped stopped;
    stop(&stopped, "9.1");
    struct share_query query = query_of(stopped.listener.path);
    share_queries_run(&query, 1, share_deadline(20));
    ck_assert_int_eq(query.status, WEIR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(query.text, "took no connection"));
    ck_assert(go_on(&stopped));
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert_msg(query.status == WEIR_OK, "%s", query.text);
    end_stopped(&stopped);
}
END_TEST

START_TEST(want_of_descriptors_is_told_with_the_remedy)
{
    struct share_listener listener = listen_at("9.1");
    struct rlimit limit = { 0, 0 }, former;
    struct share_query query = query_of(listener.path);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &former), 0);
    limit.rlim_max = former.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &former), 0);
    ck_assert_int_eq(query.status, WEIR_NO_HOST_MEMORY);
    ck_assert_ptr_nonnull(strstr(query.text, "ulimit -n"));
    share_listener_close(&listener);
}
END_TEST

/* A process of another user that listens in a directory of ours could tell us anything. */
START_TEST(process_of_another_user_is_not_asked)
{
    char path[2 * SHARE_PATH_SIZE];
    int ready[2];
    char byte, number[16];
    snprintf(path, sizeof path, "%s/9.1", runtime);
    snprintf(number, sizeof number, "%u", (unsigned)stranger);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(chmod(runtime, 0777), 0);
    pid_t child = fork();
    if (child == 0) {
        struct share_listener listener;
        if (setuid(stranger) != 0 || share_listen(path, 0666, NULL, &listener) != WEIR_OK || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    struct share_query query = query_of(path);
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    kill(child, SIGKILL);
    wait_for(child);
    close(ready[0]);
    close(ready[1]);
    ck_assert_int_eq(query.status, WEIR_REFUSED);
    ck_assert_uint_eq(query.uid, stranger);
    ck_assert_ptr_nonnull(strstr(query.text, number));
}
END_TEST

START_TEST(no_queries_are_over_at_once)
{
    share_queries_run(NULL, 0, share_deadline(PATIENCE_MS));
}
END_TEST

static void set_up_questions(void)
{
    set_up();
    make_directory();
}

int main(void)
{
    Suite *suite = suite_create("query");
    TCase *questions = suite_case(suite, "questions", 60);
    tcase_add_checked_fixture(questions, set_up_questions, tear_down);
    suite_add(questions, answer_is_taken_and_who_gave_it_is_known, parts_and_the_last_answer_are_taken,
              answer_that_is_not_wanted_ends_the_query);
    tcase_add_loop_test(questions, query_ends_with_what_the_process_made_of_it, 0, sizeof ends / sizeof ends[0]);
    suite_add(questions, process_that_says_nothing_costs_the_deadline_and_no_more, socket_that_nobody_listens_at_is_told_so,
              nobody_waits_for_another, full_queue_of_one_keeps_no_other_waiting,
              listener_whose_queue_is_full_is_asked_once_there_is_room, want_of_descriptors_is_told_with_the_remedy,
              no_queries_are_over_at_once);
    if (geteuid() == 0) {
        suite_add(questions, process_of_another_user_is_not_asked);
    } else {
        printf("# users: not tried: only root can become another user\n");
    }
    return suite_run(suite);
}
