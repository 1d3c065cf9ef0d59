/* SPDX-License-Identifier: MIT */
/* One listener for each socket, and who is let in. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/share/socket_scene.h"

/* Listening ---------------------------------------------------------------------------------------------------------------------------- */

static void expect_no_listener(const char *at, weir_status wanted, const char *first, const char *second)
{
    struct share_listener listener = { .fd = -5 };
    weir_error error = WEIR_ERROR_INIT;
    int fds = suite_count_fds();
    expect(share_listen(at, 0600, &error, &listener), wanted, &error, first, second);
    ck_assert_int_eq(listener.fd, -5);
    ck_assert_int_eq(suite_count_fds(), fds);
}

START_TEST(socket_has_the_mode_asked_for_whatever_the_umask)
{
    struct share_listener listener;
    struct stat info;
    umask(0777);
    ck_assert_int_eq(share_listen(path, 0660, NULL, &listener), WEIR_OK);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert(S_ISSOCK(info.st_mode));
    ck_assert_uint_eq(info.st_mode & 07777, 0660);
    share_listener_close(&listener);
}
END_TEST

START_TEST(closing_leaves_nothing_behind)
{
    struct share_listener listener = listen_at(path);
    share_listener_close(&listener);
    share_listener_close(&listener);
    ck_assert_int_eq(rmdir(directory), 0);
    ck_assert_int_eq(mkdir(directory, 0700), 0);
}
END_TEST

START_TEST(second_listener_of_one_process_is_busy)
{
    struct share_listener first = listen_at(path);
    expect_no_listener(path, WEIR_BUSY, path, "another share.socket");
    close(connect_to(path));
    share_listener_close(&first);
}
END_TEST

START_TEST(second_listener_of_another_process_is_busy)
{
    struct share_listener listener = listen_at(path);
    pid_t child = fork();
    if (child == 0) {
        struct share_listener second;
        share_listener_forget(&listener);
        _exit(share_listen(path, 0600, NULL, &second) == WEIR_BUSY ? 0 : 1);
    }
    ck_assert_int_eq(wait_for(child), 0);
    close(connect_to(path));
    share_listener_close(&listener);
}
END_TEST

static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };

/* A daemon of another kind takes no lock. */
START_TEST(socket_of_any_living_process_is_not_replaced)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int daemon = socket(AF_UNIX, types[_i] | SOCK_CLOEXEC, 0), client = socket(AF_UNIX, types[_i] | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_eq(bind(daemon, (struct sockaddr *)&address, sizeof address), 0);
    if (types[_i] != SOCK_DGRAM)
        ck_assert_int_eq(listen(daemon, 1), 0);
    expect_no_listener(path, WEIR_BUSY, path, "another share.socket");
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    close(client);
    close(daemon);
    struct share_listener listener = listen_at(path);
    share_listener_close(&listener);
}
END_TEST

static void remove_lock_file(void)
{
    char lock_path[PATH_MAX];
    snprintf(lock_path, sizeof lock_path, "%s" SHARE_LOCK_SUFFIX, path);
    ck_assert_int_eq(unlink(lock_path), 0);
}

START_TEST(listener_whose_lock_file_was_deleted_keeps_its_place)
{
    struct share_listener first = listen_at(path);
    remove_lock_file();
    expect_no_listener(path, WEIR_BUSY, path, "another share.socket");
    close(connect_to(path));
    share_listener_close(&first);
}
END_TEST

START_TEST(closing_removes_nothing_of_who_came_after)
{
    struct share_listener first = listen_at(path), second;
    remove_lock_file();
    ck_assert_int_eq(unlink(path), 0);
    second = listen_at(path);
    share_listener_close(&first);
    close(connect_to(path));
    expect_no_listener(path, WEIR_BUSY, path, "another export");
    share_listener_close(&second);
}
END_TEST

START_TEST(socket_of_a_killed_listener_is_taken_over)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct share_listener listener;
        if (share_listen(path, 0600, NULL, &listener) != WEIR_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    kill(child, SIGKILL);
    wait_for(child);
    ck_assert_int_eq(access(path, F_OK), 0);
    struct share_listener listener = listen_at(path);
    close(connect_to(path));
    share_listener_close(&listener);
}
END_TEST

START_TEST(child_that_forgets_lets_the_path_be_listened_to_anew)
{
    struct share_listener listener = listen_at(path);
    int forgotten[2], done[2];
    char byte;
    ck_assert_int_eq(pipe(forgotten), 0);
    ck_assert_int_eq(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        share_listener_forget(&listener);
        _exit(write(forgotten[1], "x", 1) == 1 && read(done[0], &byte, 1) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(read(forgotten[0], &byte, 1), 1);
    ck_assert_int_eq(access(path, F_OK), 0);
    share_listener_close(&listener);
    listener = listen_at(path);
    share_listener_close(&listener);
    close(forgotten[0]);
    close(forgotten[1]);
    close(done[0]);
    close(done[1]);
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

START_TEST(file_that_is_no_socket_is_not_removed)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    expect_no_listener(path, WEIR_INVALID, path, "not a socket");
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(lock_file_is_not_followed_where_it_is_a_link)
{
    char lock[128], target[128];
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(target, sizeof target, "%s/target", directory);
    ck_assert_int_eq(symlink(target, lock), 0);
    expect_no_listener(path, WEIR_REFUSED, lock, "directory");
    ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

START_TEST(listening_in_a_missing_directory_fails_cleanly)
{
    char missing[128];
    snprintf(missing, sizeof missing, "%s/missing/frames", directory);
    expect_no_listener(missing, WEIR_INVALID, missing, "No such file");
}
END_TEST

START_TEST(want_of_descriptors_is_named_with_its_own_remedy)
{
    struct rlimit limit;
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, limit.rlim_max }), 0);
    weir_status status = share_listen(path, 0600, &error, &listener);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    expect(status, WEIR_NO_HOST_MEMORY, &error, path, "Too many open files: close descriptors or raise ulimit -n");
}
END_TEST

START_TEST(no_connection_is_waiting_at_first)
{
    struct share_listener listener = listen_at(path);
    ck_assert_int_eq(share_accept(&listener), -1);
    ck_assert_int_eq(errno, EAGAIN);
    share_listener_close(&listener);
}
END_TEST

START_TEST(descriptors_are_closed_by_exec_and_do_not_block)
{
    struct share_listener listener = listen_at(path);
    int connected = connect_to(path), accepted = share_accept(&listener);
    const int fds[] = { listener.fd, listener.lock_fd, connected, accepted };
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        ck_assert_int_ge(fds[i], 0);
        ck_assert_msg(fcntl(fds[i], F_GETFD) == FD_CLOEXEC, "descriptor %zu", i);
        ck_assert_msg(fcntl(fds[i], F_GETFL) & O_NONBLOCK, "descriptor %zu", i);
    }
    close(connected);
    close(accepted);
    share_listener_close(&listener);
}
END_TEST

/* Connecting --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(nobody_listens_where_there_is_nothing)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = -5;
    expect(connect_within(path, 0, &error, &fd), WEIR_GONE, &error, path, "start the exporter");
    ck_assert_int_eq(fd, -5);
}
END_TEST

START_TEST(nobody_listens_at_a_stale_socket)
{
    struct share_listener listener = listen_at(path);
    int fd;
    share_listener_forget(&listener);
    ck_assert_int_eq(connect_within(path, 0, NULL, &fd), WEIR_GONE);
}
END_TEST

START_TEST(socket_of_another_type_is_a_protocol_error)
{
    weir_error error = WEIR_ERROR_INIT;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd, stream = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(stream, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(stream, 1), 0);
    expect(connect_within(path, 0, &error, &fd), WEIR_PROTOCOL, &error, path, "another type");
    close(stream);
}
END_TEST

START_TEST(listener_that_accepts_nobody_times_out)
{
    struct share_listener listener = listen_at(path);
    weir_error error = WEIR_ERROR_INIT;
    int fds[1000];
    size_t count = 0;
    weir_status status;
    do
        status = connect_within(path, 10, &error, &fds[count]);
    while (status == WEIR_OK && ++count < sizeof fds / sizeof fds[0]);
    expect(status, WEIR_TIMEOUT, &error, path, "takes no connection");
    ck_assert_int_eq(connect_within(path, 0, NULL, &fds[count]), WEIR_TIMEOUT);
    while (count > 0)
        close(fds[--count]);
    share_listener_close(&listener);
}
END_TEST

/* Becomes another user and connects. Returns the status; 100: the test does not run as root. */
static int connect_as(uid_t uid)
{
    pid_t child = fork();
    if (child == 0) {
        int fd;
        if (setuid(uid) != 0)
            _exit(100);
        _exit(connect_within(path, 100, NULL, &fd));
    }
    return wait_for(child);
}

/* Only root can be another user: elsewhere there is nothing to see. */
START_TEST(another_user_is_refused_by_the_sockets_mode)
{
    struct share_listener listener;
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(directory, 0711), 0);
    ck_assert_int_eq(share_listen(path, 0600, NULL, &listener), WEIR_OK);
    ck_assert_int_eq(connect_as(OTHER_USER), WEIR_REFUSED);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(connect_as(OTHER_USER), WEIR_OK);
    share_listener_close(&listener);
}
END_TEST

/* Runs `fn` while another user listens at `path`. */
static void with_foreign_listener(void (*fn)(void))
{
    int ready[2], done[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        struct share_listener listener;
        close(done[1]);
        if (setuid(OTHER_USER) != 0 || share_listen(path, 0666, NULL, &listener) != WEIR_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        byte = read(done[0], &byte, 1) == 0 ? 0 : 1;
        share_listener_close(&listener);
        _exit(byte);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    fn();
    close(ready[0]);
    close(ready[1]);
    close(done[0]);
    close(done[1]);
    ck_assert_int_eq(wait_for(child), 0);
}

static void expect_refusal(void)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd;
    expect(connect_within(path, 100, &error, &fd), WEIR_REFUSED, &error, "54321", directory);
}

static void expect_connection(void)
{
    close(connect_to(path));
}

START_TEST(server_of_another_user_is_refused)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(directory, 01777), 0);
    with_foreign_listener(expect_refusal);
}
END_TEST

START_TEST(server_that_owns_the_directory_is_trusted)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chown(directory, OTHER_USER, (gid_t)-1), 0);
    with_foreign_listener(expect_connection);
    ck_assert_int_eq(chown(directory, geteuid(), (gid_t)-1), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("socket");
    TCase *listening = scene_case(suite, "listening");
    suite_add(listening, socket_has_the_mode_asked_for_whatever_the_umask, closing_leaves_nothing_behind,
              second_listener_of_one_process_is_busy, second_listener_of_another_process_is_busy);
    tcase_add_loop_test(listening, socket_of_any_living_process_is_not_replaced, 0, sizeof types / sizeof types[0]);
    suite_add(listening, listener_whose_lock_file_was_deleted_keeps_its_place, closing_removes_nothing_of_who_came_after,
              socket_of_a_killed_listener_is_taken_over, child_that_forgets_lets_the_path_be_listened_to_anew,
              file_that_is_no_socket_is_not_removed, lock_file_is_not_followed_where_it_is_a_link,
              listening_in_a_missing_directory_fails_cleanly, want_of_descriptors_is_named_with_its_own_remedy,
              no_connection_is_waiting_at_first, descriptors_are_closed_by_exec_and_do_not_block);
    TCase *connecting = scene_case(suite, "connecting");
    suite_add(connecting, nobody_listens_where_there_is_nothing, nobody_listens_at_a_stale_socket,
              socket_of_another_type_is_a_protocol_error, listener_that_accepts_nobody_times_out,
              another_user_is_refused_by_the_sockets_mode, server_of_another_user_is_refused, server_that_owns_the_directory_is_trusted);
    return suite_run(suite);
}
