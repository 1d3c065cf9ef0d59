/* SPDX-License-Identifier: MIT */
/* The server of sockets: who is late, and who comes when there is no descriptor left. */
#include "config.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "share/wire/server.h"
#include "tests/share/socket_scene.h"

/* Who is late ---------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    uint64_t silence; /* nanoseconds */
    bool has_spoken;  /* something of it lies in the socket */
    bool is_blocked;  /* something is kept for it, and */
    bool is_full;     /* there is no room for it yet */
    bool is_late;
} waits[] = {
    { "who has just been heard", 0, false, false, false, false },
    { "who has been silent for long", SHARE_PATIENCE, false, false, false, true },
    { "who asked while this process was stopped", 100 * SHARE_PATIENCE, true, false, false, false },
    { "who does not read", SHARE_PATIENCE, false, true, true, true },
    { "who asks and does not read", SHARE_PATIENCE, true, true, true, true },
    { "who read while this process was stopped", 100 * SHARE_PATIENCE, false, true, false, false },
};

START_TEST(late_is_who_is_silent_and_not_who_was_not_heard)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    struct share_connection connection = { .fd = ends[1], .is_blocked = waits[_i].is_blocked, .last = 1 };
    if (waits[_i].has_spoken)
        say_bytes(ends[0], "x", 1);
    while (waits[_i].is_full && share_send(ends[1], "x", 1, -1) == SHARE_DONE)
        continue;
    ck_assert_msg(share_connection_is_late(&connection, 1 + waits[_i].silence) == waits[_i].is_late, "%s", waits[_i].what);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* Descriptors ---------------------------------------------------------------------------------------------------------------------------- */

#define FILLERS_MAX 64

static int admitted;

static bool admit(struct share_server *server, int fd, weir_error *error)
{
    (void)server;
    (void)error;
    close(fd);
    admitted++;
    return true;
}

/* Uses up what the process may have; returns how many it took. */
static unsigned fill(int fillers[FILLERS_MAX])
{
    struct rlimit limit;
    unsigned count = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = FILLERS_MAX;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < FILLERS_MAX && (fillers[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    ck_assert_int_eq(errno, EMFILE);
    return count;
}

START_TEST(who_comes_when_no_descriptor_is_left_is_told_so_and_the_owner_too)
{
    int fillers[FILLERS_MAX], visitors[3];
    struct share_server server = SHARE_SERVER_INIT(WIRE_DENIED, admit);
    weir_error shortage = WEIR_ERROR_INIT;
    server.listener = listen_at(path);
    ck_assert(share_server_open(&server));
    for (unsigned i = 0; i < 3; i++)
        visitors[i] = connect_to(path);
    unsigned count = fill(fillers);
    share_server_accept(&server, &shortage);
    ck_assert_int_eq(admitted, 0);
    ck_assert_int_eq(shortage.status, WEIR_NO_HOST_MEMORY);
    ck_assert_ptr_nonnull(strstr(shortage.text, "ulimit -n"));
    for (unsigned i = 0; i < 3; i++) {
        struct wire_message message = hear_a(WIRE_DENIED, visitors[i]);
        ck_assert_uint_eq(message.u.refused.status, WEIR_NO_HOST_MEMORY);
        ck_assert_ptr_nonnull(strstr(message.u.refused.text, "ulimit -n"));
        close(visitors[i]);
    }
    while (count)
        close(fillers[--count]);
    shortage = (weir_error)WEIR_ERROR_INIT;
    visitors[0] = connect_to(path);
    share_server_accept(&server, &shortage);
    ck_assert_int_eq(admitted, 1);
    ck_assert_int_eq(shortage.status, WEIR_OK);
    close(visitors[0]);
    share_server_close(&server);
}
END_TEST

START_TEST(full_table_is_no_shortage_while_nobody_comes)
{
    int fillers[FILLERS_MAX];
    struct share_server server = SHARE_SERVER_INIT(WIRE_DENIED, admit);
    weir_error shortage = WEIR_ERROR_INIT;
    server.listener = listen_at(path);
    ck_assert(share_server_open(&server));
    unsigned count = fill(fillers);
    share_server_accept(&server, &shortage);
    ck_assert_int_eq(shortage.status, WEIR_OK);
    ck_assert_uint_eq(server.accept_again, 0);
    while (count)
        close(fillers[--count]);
    share_server_close(&server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("server");
    TCase *late = scene_case(suite, "late");
    tcase_add_loop_test(late, late_is_who_is_silent_and_not_who_was_not_heard, 0, (int)(sizeof waits / sizeof waits[0]));
    TCase *descriptors = scene_case(suite, "descriptors");
    suite_add(descriptors, who_comes_when_no_descriptor_is_left_is_told_so_and_the_owner_too, full_table_is_no_shortage_while_nobody_comes);
    return suite_run(suite);
}
