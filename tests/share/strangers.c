/* SPDX-License-Identifier: MIT */
/*
 * strangers.c - clients that are not of Weir, or not allowed, or out of their minds: they get what they deserve, and nobody else suffers.
 *
 * The test's own process is the stranger, and says what it likes on sockets of its own.
 */
#include "config.h"

#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "tests/share/stranger_scene.h"

#define STRANGER 12345 /* a user that nobody is */
#define FRIENDS 12346  /* a group */

/* What is not the protocol ------------------------------------------------------------------------------------------------------------- */

START_TEST(other_version_is_refused_with_the_remedy)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct wire_message message;
    int fd = stage_connect();
    size_t len = wire_encode(hello(WIRE_ROLE_IMPORTER), bytes);
    bytes[4] = WIRE_SHARE_VERSION + 1;
    say_bytes(fd, bytes, len);
    message = hear_a(WIRE_REFUSED, fd);
    ck_assert_uint_eq(message.request, 0);
    ck_assert_uint_eq(message.u.refused.status, WEIR_REFUSED);
    ck_assert_ptr_nonnull(strstr(message.u.refused.text, "same release"));
    ck_assert(is_closed(fd));
}
END_TEST

START_TEST(other_magic_is_cut_off)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    int fd = stage_connect();
    size_t len = wire_encode(hello(WIRE_ROLE_IMPORTER), bytes);
    bytes[0] ^= 1;
    say_bytes(fd, bytes, len);
    ck_assert(is_closed(fd));
}
END_TEST

START_TEST(message_is_cut_off_at_whatever_place_it_is_cut)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(hello(WIRE_ROLE_IMPORTER), bytes);
    for (size_t cut = 1; cut < len; cut += cut < WIRE_HEADER_SIZE + 2 ? 1 : 7) {
        int fd = stage_connect();
        say_bytes(fd, bytes, cut);
        ck_assert_msg(is_closed(fd), "cut at %zu", cut);
    }
}
END_TEST

START_TEST(message_that_is_longer_than_it_says_is_cut_off)
{
    unsigned char bytes[8 * WIRE_SIZE_MAX] = { 0 };
    static const size_t more[] = { 1, WIRE_SIZE_MAX - 100, 2 * WIRE_SIZE_MAX, 7 * WIRE_SIZE_MAX };
    size_t len = wire_encode(hello(WIRE_ROLE_IMPORTER), bytes);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        int fd = stage_connect();
        say_bytes(fd, bytes, len + more[i]);
        ck_assert_msg(is_closed(fd), "%zu more", more[i]);
    }
}
END_TEST

START_TEST(length_beyond_all_limits_is_cut_off)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(hello(WIRE_ROLE_IMPORTER), bytes);
    memset(bytes + 8, 0xff, 4);
    int fd = stage_connect();
    say_bytes(fd, bytes, len);
    ck_assert(is_closed(fd));
}
END_TEST

START_TEST(descriptors_that_nobody_asked_for_are_closed)
{
    unsigned long long before = stage_number(stage_say(exporter, "counts"), "fds");
    for (unsigned count = 1; count <= 8; count++) {
        int fd = stage_connect();
        if (say_with_fds(fd, hello(WIRE_ROLE_IMPORTER), count))
            ck_assert_msg(is_closed(fd), "%u descriptors", count);
        else
            close(fd);
    }
    char wanted[32];
    snprintf(wanted, sizeof wanted, " fds=%llu", before);
    stage_until(exporter, wanted, "counts");
}
END_TEST

/* What is not its turn ----------------------------------------------------------------------------------------------------------------- */

static const struct wire_message out_of_turn[] = {
    { .type = WIRE_ACQUIRE, .request = 2, .u.acquire = { 0, "a" } },
    { .type = WIRE_SUBSCRIBE, .request = 2, .u.subscribe = { 1, "a" } },
    { .type = WIRE_LIST, .request = 2 },
    { .type = WIRE_COUNT, .request = 2 },
    { .type = WIRE_GOODBYE },
    { .type = WIRE_RELEASE, .u.release = { 0, WIRE_HOW_DONE } },
    { .type = WIRE_DONE, .request = 2 },
};

START_TEST(who_has_not_said_hello_is_cut_off)
{
    int fd = stage_connect();
    say(fd, &out_of_turn[_i]);
    ck_assert(is_closed(fd));
}
END_TEST

static const struct wire_message not_an_importer_s[] = {
    { .type = WIRE_HELLO, .request = 2, .u.hello = { WIRE_ROLE_IMPORTER, "" } },
    { .type = WIRE_LIST, .request = 2 },
    { .type = WIRE_COUNT, .request = 2 },
    { .type = WIRE_EVICT, .request = 2, .u.evict.pid = 1 },
    { .type = WIRE_RELEASE, .u.release = { 0, WIRE_HOW_DONE } },
    { .type = WIRE_RELEASE, .u.release = { WIRE_LEASES_MAX - 1, WIRE_HOW_EVENT } },
    { .type = WIRE_RETIRED, .u.epoch.epoch = 2 },
    { .type = WIRE_WITHDRAW, .u.block.block = 1 },
};

/* It has the pool, so it counts until its process is dead. */
START_TEST(importer_that_says_what_is_not_allowed_is_cut_off_and_counts_until_its_death)
{
    pid_t child = fork();
    if (child == 0) {
        int fd = connect_as(WIRE_ROLE_IMPORTER);
        say(fd, &not_an_importer_s[_i]);
        bool closed = is_closed(fd);
        raise(SIGSTOP);
        _exit(closed ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    stage_until(exporter, " importers=2 hung=0 evicted=1 ", "info");
    serve_friend();
    kill(child, SIGCONT);
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

START_TEST(lease_that_is_released_twice_is_a_reason_to_be_cut_off)
{
    pid_t child = fork();
    if (child == 0) {
        struct wire_message acquire = { .type = WIRE_ACQUIRE, .request = 2, .u.acquire.name = "a" };
        int fd = connect_as(WIRE_ROLE_IMPORTER);
        say(fd, &acquire);
        struct wire_message release = { .type = WIRE_RELEASE, .u.release = { hear_a(WIRE_LEASE, fd).u.lease.lease, WIRE_HOW_DONE } };
        say(fd, &release);
        say(fd, &release);
        _exit(is_closed(fd) ? 0 : 1);
    }
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

/* Observers ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(observer_sees_who_holds_what_and_gets_no_pool)
{
    struct wire_message message, list = { .type = WIRE_LIST, .request = 2 };
    stage_say(friend, "acquire i a l 0 s");
    int fd = connect_as(WIRE_ROLE_OBSERVER);
    say(fd, &list);
    message = hear_a(WIRE_IMPORTER, fd);
    ck_assert_int_eq(message.u.importer.pid, stage_pid(friend));
    ck_assert_uint_eq(message.u.importer.leases, 1);
    ck_assert_uint_eq(message.u.importer.mappings, 1);
    ck_assert_str_eq(message.u.importer.name, "actor");
    message = hear_a(WIRE_HOLDS, fd);
    ck_assert_uint_eq(message.u.holds.hold, WIRE_HOLD_LEASED);
    ck_assert_str_eq(message.u.holds.name, "a");
    hear_a(WIRE_DONE, fd);
    leave(fd);
    stage_say(friend, "release l s");
}
END_TEST

START_TEST(observer_sees_what_went_through_the_export_and_its_rings)
{
    struct wire_message message, count = { .type = WIRE_COUNT, .request = 2 };
    stage_say(exporter, "ring r 4KiB 2 fail s; take r slot 100 0 s; push r slot s; ring closed 4KiB 2 fail s; ring_close closed");
    stage_say(friend, "acquire i a l 0 s; release l s");
    int fd = connect_as(WIRE_ROLE_OBSERVER);
    for (count.request = 2; count.request < 4; count.request++) {
        say(fd, &count);
        message = hear_a(WIRE_EXPORT, fd);
        ck_assert_uint_eq(message.request, count.request);
        ck_assert_uint_eq(message.u.export.importers, 1);
        ck_assert_uint_eq(message.u.export.pushed, 1);
        ck_assert_uint_eq(message.u.export.bytes, 100);
        ck_assert_uint_eq(message.u.export.leases_given, 1);
        message = hear_a(WIRE_RING, fd);
        ck_assert_str_eq(message.u.ring.name, "r");
        ck_assert_uint_eq(message.u.ring.overflow, WEIR_OVERFLOW_FAIL);
        ck_assert_uint_eq(message.u.ring.depth, 2);
        ck_assert_uint_eq(message.u.ring.slot_size, 4096);
        ck_assert_uint_eq(message.u.ring.pushed, 1);
        ck_assert_uint_eq(message.u.ring.leases_given, 0);
        hear_a(WIRE_DONE, fd);
    }
    leave(fd);
}
END_TEST

START_TEST(observer_evicts)
{
    struct wire_message evict = { .type = WIRE_EVICT, .request = 2 };
    struct player *unloved = stage_importer("unloved");
    int fd = connect_as(WIRE_ROLE_OBSERVER);
    evict.u.evict.pid = stage_pid(exporter);
    say(fd, &evict);
    ck_assert_uint_eq(hear_a(WIRE_REFUSED, fd).u.refused.status, WEIR_NOT_FOUND);
    evict.u.evict.pid = stage_pid(unloved);
    say(fd, &evict);
    hear_a(WIRE_DONE, fd);
    stage_until(exporter, " importers=2 hung=0 evicted=1 ", "info");
    leave(fd);
    stage_leave(unloved);
}
END_TEST

/* Who is allowed ----------------------------------------------------------------------------------------------------------------------- */

/* Good until the next call. */
static const char *policy_that_allows(const char *allow)
{
    static char policy[512];
    snprintf(policy, sizeof policy, "weir: 1\npools:\n  frames: { devices: [0], ipc: posix_fd, share: { socket: %s/open%s } }\n",
             stage_directory(), allow);
    return policy;
}

/* A pool at a place that everybody can reach, shared with some. */
static void share_with(const char *allow)
{
    ck_assert_int_eq(chmod(stage_directory(), 0755), 0);
    exporter = stage_enter((struct role){ .name = "exporter", .policy = policy_that_allows(allow) });
    stage_say(exporter, "export frames");
}

/* What becomes of the HELLO of a process of that user and that further group: WEIR_OK, or the status of the refusal. */
static int status_for(uid_t user, gid_t group)
{
    pid_t child = fork();
    if (child == 0) {
        char path[SHARE_PATH_SIZE];
        struct wire_message message;
        int fd;
        snprintf(path, sizeof path, "%s/open", stage_directory());
        if (setgroups(1, &group) != 0 || setgid(STRANGER) != 0 || setuid(user) != 0)
            _exit(100);
        weir_status connected = connect_within(path, 5000, NULL, &fd);
        if (connected != WEIR_OK)
            _exit((int)connected);
        try_to_say(fd, hello(WIRE_ROLE_IMPORTER));
        if (!hear(fd, &message))
            _exit(101);
        _exit(message.type == WIRE_WELCOME ? WEIR_OK : message.type == WIRE_REFUSED ? (int)message.u.refused.status : 102);
    }
    return wait_for(child);
}

START_TEST(other_users_are_let_in_only_if_the_policy_names_them)
{
    share_with(", allow: { users: [\"12345\"] }");
    ck_assert_int_eq(status_for(STRANGER, STRANGER), WEIR_OK);
    ck_assert_int_eq(status_for(STRANGER + 5, STRANGER), WEIR_REFUSED);
}
END_TEST

START_TEST(members_of_a_group_are_let_in_only_if_the_policy_names_it)
{
    share_with(", allow: { groups: [\"12346\"] }");
    ck_assert_int_eq(status_for(STRANGER, FRIENDS), WEIR_OK);
    ck_assert_int_eq(status_for(STRANGER, STRANGER), WEIR_REFUSED);
}
END_TEST

/* It may take seconds to answer, and whoever knocks could have everybody wait for it. */
START_TEST(user_database_is_asked_when_the_policy_is_read_and_not_when_somebody_knocks)
{
    share_with(", allow: { users: [daemon], groups: [bin] }");
    unsigned long long asked = stage_number(stage_say(exporter, "lookups"), "lookups");
    ck_assert_uint_ge(asked, 2);
    ck_assert_int_eq(status_for(STRANGER, STRANGER), WEIR_REFUSED);
    ck_assert_int_eq(status_for(1, STRANGER), WEIR_OK); /* daemon */
    ck_assert_uint_eq(stage_number(stage_say(exporter, "lookups"), "lookups"), asked);
    stage_say(exporter, "reload %s",
              stage_policy_file("others", policy_that_allows(", allow: { users: [daemon], groups: [\"12346\"] }")));
    ck_assert_int_eq(status_for(STRANGER, FRIENDS), WEIR_OK);
    ck_assert_uint_eq(stage_number(stage_say(exporter, "lookups"), "lookups"), asked + 1);
}
END_TEST

START_TEST(where_nobody_else_is_named_nobody_else_is_let_in)
{
    share_with("");
    ck_assert_int_eq(status_for(STRANGER, STRANGER), WEIR_REFUSED);
    ck_assert_int_eq(status_for(0, 0), WEIR_OK);
}
END_TEST

/* A process of that user with so many connections that say nothing, and come again when they are closed; until it is killed. */
static pid_t crowd_around(uid_t user, unsigned count)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        char path[SHARE_PATH_SIZE];
        struct pollfd fds[16];
        snprintf(path, sizeof path, "%s/open", stage_directory());
        if (setgroups(0, NULL) != 0 || setgid(STRANGER) != 0 || setuid(user) != 0)
            _exit(100);
        for (unsigned i = 0; i < count; i++)
            fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
        for (bool is_told = false;; is_told = true) {
            for (unsigned i = 0; i < count; i++)
                if (fds[i].fd < 0 && connect_within(path, 5000, NULL, &fds[i].fd) != WEIR_OK)
                    fds[i].fd = -1;
            if (!is_told && write(ready[1], &byte, 1) != 1)
                _exit(101);
            poll(fds, count, 1000);
            for (unsigned i = 0; i < count; i++)
                if (fds[i].revents) {
                    close(fds[i].fd);
                    fds[i].fd = -1;
                }
        }
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

START_TEST(user_whose_processes_say_nothing_locks_out_no_other_and_not_root)
{
    pid_t crowd[12];
    const unsigned count = sizeof crowd / sizeof crowd[0];
    share_with(", allow: { users: [\"12345\", \"12347\", \"12348\"] }");
    for (unsigned i = 0; i < count; i++)
        crowd[i] = crowd_around(i < 6 ? STRANGER : STRANGER + 2, 8);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(status_for(0, 0), WEIR_OK);
    for (unsigned i = 0; i < 6; i++) {
        kill(crowd[i], SIGKILL);
        ck_assert_int_eq(waitpid(crowd[i], NULL, 0), crowd[i]);
    }
    while (status_for(STRANGER + 3, STRANGER) != WEIR_OK) /* until it is seen that they are gone */
        continue;
    for (unsigned i = 6; i < count; i++) {
        kill(crowd[i], SIGKILL);
        ck_assert_int_eq(waitpid(crowd[i], NULL, 0), crowd[i]);
    }
}
END_TEST

/* What is removed ------------------------------------------------------------------------------------------------------------------- */

static bool can_connect(void *data)
{
    int fd = -1;
    bool can = connect_within(data, 0, NULL, &fd) == WEIR_OK;
    if (can)
        close(fd);
    return can;
}

/* The whole directory, as the end of a login does. */
static const bool with_directory[] = { false, true };

START_TEST(socket_that_was_removed_is_made_anew)
{
    char path[SHARE_PATH_SIZE], directory[SHARE_PATH_SIZE], command[2 * SHARE_PATH_SIZE];
    ck_assert_int_eq(share_path("frames", false, false, NULL, path), WEIR_OK);
    share_directory_of(path, directory);
    snprintf(command, sizeof command, "%s %s 2>/dev/null", with_directory[_i] ? "rm -rf" : "rm", with_directory[_i] ? directory : path);
    for (int times = 0; times < 3; times++) {
        int status = system(command); /* it may be there again before its directory can be removed */
        ck_assert(WIFEXITED(status));
        stage_wait(can_connect, path, "the exporter listens again");
        serve_friend(); /* who is connected notices nothing */
    }
}
END_TEST

/* A program that starts itself anew --------------------------------------------------------------------------------------------------- */

/* The new program, which is no test: is it let in? */
static int import_again(const char *path)
{
    struct share_query query = { .path = path, .role = WIRE_ROLE_IMPORTER, .question = *hello(WIRE_ROLE_IMPORTER) };
    share_queries_run(&query, 1, share_deadline(HEAR_WITHIN_MS));
    if (query.status != WEIR_OK)
        fprintf(stderr, "%s\n", query.text);
    return query.status != WEIR_OK || query.pool_fd < 0;
}

START_TEST(importer_that_executes_itself_is_let_in_again)
{
    char path[SHARE_PATH_SIZE];
    ck_assert_int_eq(share_path("frames", false, false, NULL, path), WEIR_OK);
    pid_t child = fork();
    if (child == 0) {
        connect_as(WIRE_ROLE_IMPORTER);
        execl("/proc/self/exe", "strangers", path, (char *)NULL);
        _exit(9);
    }
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2)
        return import_again(argv[1]);
    Suite *suite = suite_create("strangers");
    TCase *bytes = stranger_case(suite, "bytes");
    suite_add(bytes, other_version_is_refused_with_the_remedy, other_magic_is_cut_off, message_is_cut_off_at_whatever_place_it_is_cut,
              message_that_is_longer_than_it_says_is_cut_off, length_beyond_all_limits_is_cut_off,
              descriptors_that_nobody_asked_for_are_closed);
    TCase *turns = stranger_case(suite, "turns");
    tcase_add_loop_test(turns, who_has_not_said_hello_is_cut_off, 0, sizeof out_of_turn / sizeof out_of_turn[0]);
    tcase_add_loop_test(turns, importer_that_says_what_is_not_allowed_is_cut_off_and_counts_until_its_death, 0,
                        sizeof not_an_importer_s / sizeof not_an_importer_s[0]);
    suite_add(turns, lease_that_is_released_twice_is_a_reason_to_be_cut_off);
    TCase *removed = stranger_case(suite, "removed");
    tcase_add_loop_test(removed, socket_that_was_removed_is_made_anew, 0, sizeof with_directory / sizeof with_directory[0]);
    TCase *anew = stranger_case(suite, "exec");
    suite_add(anew, importer_that_executes_itself_is_let_in_again);
    TCase *observers = stranger_case(suite, "observers");
    suite_add(observers, observer_sees_who_holds_what_and_gets_no_pool, observer_sees_what_went_through_the_export_and_its_rings,
              observer_evicts);
    TCase *users = stage_case(suite, "users");
    if (geteuid() == 0) {
        suite_add(users, other_users_are_let_in_only_if_the_policy_names_them, members_of_a_group_are_let_in_only_if_the_policy_names_it,
                  where_nobody_else_is_named_nobody_else_is_let_in,
                  user_database_is_asked_when_the_policy_is_read_and_not_when_somebody_knocks,
                  user_whose_processes_say_nothing_locks_out_no_other_and_not_root);
    } else {
        printf("# users: not tried: only root can become another user\n");
    }
    return suite_run(suite);
}
