/* SPDX-License-Identifier: MIT */
/* neighbours_strange.c - neighbours that lie, or live in other PID namespaces, or belong to other users (neighbours.c has the others). */
#include "config.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "share/wire/directory.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"
#include "tests/share/connect.h"
#include "tests/share/neighbourhood.h"

#define STRANGER 12345 /* a user that nobody is */

/* Strange neighbours ------------------------------------------------------------------------------------------------------------------- */

/* A process that says it has so much, whatever is true, and answers all that it is asked for with `gift`. */
struct pretender {
    struct share_listener listener;
    pid_t pid;
};

static void pretend(const struct share_listener *listener, uint64_t offer, struct wire_message gift)
{
    for (;;) {
        unsigned char bytes[WIRE_SIZE_MAX];
        struct wire_message message, offered = { .type = WIRE_OFFERED, .u.offered.bytes = offer };
        struct pollfd readable = { .fd = listener->fd, .events = POLLIN };
        size_t len;
        int passed;
        poll(&readable, 1, -1);
        int fd = share_accept(listener);
        readable.fd = fd;
        poll(&readable, 1, -1);
        if (share_receive(fd, bytes, sizeof bytes, &len, &passed) == SHARE_DONE && wire_decode(bytes, len, &message, NULL) == WIRE_GOOD) {
            struct wire_message *answer = message.type == WIRE_OFFER ? &offered : &gift;
            answer->request = message.request;
            share_send(fd, bytes, wire_encode(answer, bytes), -1);
        }
        close(fd);
    }
}

static struct pretender begin_to_pretend(uint64_t offer, struct wire_message gift)
{
    struct pretender pretender;
    char directory[SHARE_PATH_SIZE], path[2 * SHARE_PATH_SIZE];
    ck_assert_int_eq(share_control_directory(NULL, directory), WEIR_OK);
    snprintf(path, sizeof path, "%s/1.1", directory);
    ck_assert_int_eq(share_listen(path, 0600, NULL, &pretender.listener), WEIR_OK);
    pretender.pid = fork();
    if (pretender.pid == 0)
        pretend(&pretender.listener, offer, gift);
    ck_assert_int_gt(pretender.pid, 0);
    return pretender;
}

static void end_to_pretend(struct pretender *pretender)
{
    kill(pretender->pid, SIGKILL);
    wait_for(pretender->pid);
    share_listener_close(&pretender->listener);
}

START_TEST(neighbour_that_offers_more_than_there_is_keeps_nobody_from_another)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter("asker");
    struct pretender liar = begin_to_pretend(UINT64_MAX - 640 * MIB, (struct wire_message){ .type = WIRE_GAVE });
    take(asker, "a", 512);
    check_asked(holder, 1, 256);
    end_to_pretend(&liar);
}
END_TEST

START_TEST(neighbour_that_gives_more_than_there_is_spoils_no_figures)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    struct pretender liar = begin_to_pretend(1024 * MIB, (struct wire_message){ .type = WIRE_GAVE, .u.gave.bytes = UINT64_MAX });
    take(holder, "live", 128);
    idle(holder, 512);
    /* More than the holder has, so that the liar's answer is waited for. */
    run_out(asker, 960);
    unsigned long long got = stage_number(stage_say(asker, "asks"), "got"), given = stage_number(stage_say(holder, "asks"), "given");
    ck_assert_uint_eq(given, 512 * MIB);
    ck_assert_uint_ge(got, 1024 * MIB + given);
    ck_assert_uint_eq((got - given) % (1024 * MIB), 0); /* each time it was asked */
    end_to_pretend(&liar);
}
END_TEST

START_TEST(neighbour_that_is_asked_too_often_keeps_nobody_from_another)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter_in_a_hurry("asker");
    struct wire_message refusal = { .type = WIRE_DENIED, .u.refused = { .status = WEIR_BUSY } };
    struct pretender busy = begin_to_pretend(1024 * MIB, refusal);
    take(asker, "a", 512);
    check_rescued(asker, 1, 256);
    check_asked(holder, 1, 256);
    end_to_pretend(&busy);
}
END_TEST

/* Containers ----------------------------------------------------------------------------------------------------------------------------- */

/* As the first process of a PID namespace of its own, as in a container. */
static struct player *enter_contained(const char *name)
{
    int outer = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(unshare(CLONE_NEWPID), 0); /* of its children */
    struct player *player = enter(name);
    ck_assert_int_eq(setns(outer, CLONE_NEWPID), 0);
    close(outer);
    return player;
}

START_TEST(processes_in_other_pid_namespaces_are_neighbours)
{
    struct player *outside = enter_idle("outside", 768), *inside;
    inside = enter_contained("inside");
    take(inside, "a", 512);
    check_rescued(inside, 1, 256);
    check_asked(outside, 1, 256);
    stage_say(inside, "free a s; synchronize s");
    take(outside, "b", 768);
    check_rescued(outside, 1, 256);
}
END_TEST

START_TEST(processes_of_the_same_number_are_told_apart)
{
    struct player *players[3];
    for (int i = 0; i < 3; i++)
        players[i] = enter_contained("number-one");
    idle(players[0], 512);
    idle(players[1], 512);
    take(players[2], "a", 768);
    check_rescued(players[2], 2, 768);
}
END_TEST

START_TEST(socket_of_a_process_that_was_killed_in_another_pid_namespace_is_removed)
{
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    struct player *outside = enter("outside"), *inside;
    inside = enter_contained("inside");
    stage_signal(inside, SIGKILL);
    share_control_sockets(true, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    free(paths);
    ck_assert_uint_eq(count, 1);
    take(outside, "a", 512);
}
END_TEST

static bool can_unshare(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWPID) == 0 && access("/proc/self/ns/pid", R_OK) == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Users -------------------------------------------------------------------------------------------------------------------------------- */

/* Opened to everybody, which nothing of Weir's does: then only the credentials decide. */
static void open_to_all(const char *path)
{
    char parent[SHARE_PATH_SIZE];
    snprintf(parent, sizeof parent, "%s", path);
    ck_assert_int_eq(chmod(path, 0666), 0);
    for (char *slash; (slash = strrchr(parent, '/')) && strcmp(parent, "/tmp") != 0; *slash = '\0')
        if (strncmp(parent, stage_directory(), strlen(stage_directory())) == 0 && strcmp(parent, path) != 0)
            ck_assert_int_eq(chmod(parent, 0755), 0);
}

/* What becomes of a user's question: WEIR_OK, or the status of the refusal. */
static int status_for(uid_t user, const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        struct wire_message message = { .type = WIRE_FIGURES, .request = 1 };
        int fd;
        if (setgroups(0, NULL) != 0 || setgid(user) != 0 || setuid(user) != 0)
            _exit(100);
        weir_status connected = connect_within(path, 5000, NULL, &fd);
        if (connected != WEIR_OK)
            _exit((int)connected);
        try_to_say(fd, &message);
        if (!hear(fd, &message))
            _exit(WEIR_GONE);
        _exit(message.type == WIRE_TEXT ? WEIR_OK : message.type == WIRE_DENIED ? (int)message.u.refused.status : 102);
    }
    return wait_for(child);
}

START_TEST(other_users_are_refused)
{
    struct player *holder = enter("holder");
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    share_control_sockets(false, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(status_for(0, paths[0]), WEIR_OK);
    ck_assert_int_ne(status_for(STRANGER, paths[0]), WEIR_OK); /* the directory */
    open_to_all(paths[0]);
    ck_assert_int_eq(status_for(STRANGER, paths[0]), WEIR_REFUSED);
    ck_assert_int_eq(status_for(0, paths[0]), WEIR_OK);
    free(paths);
    stage_leave(holder);
}
END_TEST

/* Suite -------------------------------------------------------------------------------------------------------------------------------- */

int main(void)
{
    Suite *suite = suite_create("neighbours_strange");
    TCase *tcase = stage_case(suite, "strange");
    suite_add(tcase, neighbour_that_offers_more_than_there_is_keeps_nobody_from_another,
              neighbour_that_gives_more_than_there_is_spoils_no_figures, neighbour_that_is_asked_too_often_keeps_nobody_from_another);
    if (can_unshare()) {
        tcase = stage_case(suite, "containers");
        suite_add(tcase, processes_in_other_pid_namespaces_are_neighbours, processes_of_the_same_number_are_told_apart,
                  socket_of_a_process_that_was_killed_in_another_pid_namespace_is_removed);
    } else {
        printf("# containers: not tried: PID namespaces cannot be made here\n");
    }
    if (geteuid() == 0)
        tcase_add_test(stage_case(suite, "users"), other_users_are_refused);
    else
        printf("# users: not tried: only root can become another user\n");
    return suite_run(suite);
}
