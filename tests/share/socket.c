/* SPDX-License-Identifier: MIT */
/* Where sockets lie, one listener for each, who is let in, and packets with descriptors. Real sockets in a directory of the test's own. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/directory.h"
#include "share/socket.h"
#include "tests/support/suite.h"

#define OTHER_USER 54321

static char directory[64]; /* 0700 */
static char path[SHARE_PATH_SIZE];

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/weir-socket-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/frames", directory);
    unsetenv("XDG_RUNTIME_DIR");
}

static void end(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static struct share_listener listen_at(const char *at)
{
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(share_listen(at, 0600, &error, &listener) == WEIR_OK, "%s", error.text);
    return listener;
}

static int connect_to(const char *at)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = -1;
    ck_assert_msg(share_connect(at, 1000, &error, &fd) == WEIR_OK, "%s", error.text);
    return fd;
}

/* A status that must come with a text that has both words. */
static void expect(weir_status status, weir_status wanted, const weir_error *error, const char *first, const char *second)
{
    ck_assert_msg(status == wanted, "%s: %s", weir_status_name(status), error->text);
    ck_assert_msg(strstr(error->text, first) && strstr(error->text, second), "'%s' without '%s' or '%s'", error->text, first, second);
}

/* Returns the exit status of the child, or -1 if a signal ended it. */
static int wait_for(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Paths -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(absolute_path_is_taken_as_it_is)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    for (int listen = 0; listen < 2; listen++) {
        ck_assert_msg(share_path(path, listen, false, &error, found) == WEIR_OK, "%s", error.text);
        ck_assert_str_eq(found, path);
    }
}
END_TEST

START_TEST(name_lies_in_the_runtime_directory_which_is_made_for_the_user_alone)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE], expected[128];
    struct stat info;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    umask(0);
    ck_assert_msg(share_path("frames", true, false, &error, found) == WEIR_OK, "%s", error.text);
    snprintf(expected, sizeof expected, "%s/weir/share/frames", directory);
    ck_assert_str_eq(found, expected);
    snprintf(expected, sizeof expected, "%s/weir/share", directory);
    ck_assert_int_eq(stat(expected, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0700);
}
END_TEST

START_TEST(runtime_directory_that_exists_already_is_used)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(share_path("frames", true, false, &error, found) == WEIR_OK, "%s", error.text);
}
END_TEST

START_TEST(connecting_makes_no_directory)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE], made[128];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    snprintf(made, sizeof made, "%s/weir", directory);
    ck_assert_int_ne(access(made, F_OK), 0);
}
END_TEST

START_TEST(who_connects_finds_the_users_own_socket_first_and_the_systems_else)
{
    weir_error error = WEIR_ERROR_INIT;
    char made[SHARE_PATH_SIZE], found[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    ck_assert_int_eq(share_path("frames", true, false, &error, made), WEIR_OK);
    struct share_listener listener = listen_at(made);
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    ck_assert_str_eq(found, made);
    unsetenv("XDG_RUNTIME_DIR");
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    ck_assert_str_eq(found, SHARE_SYSTEM_DIRECTORY "/frames");
    share_listener_close(&listener);
}
END_TEST

/* Puts an empty file system of this process's own over /run. false: that is for root alone. */
static bool hide_run(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/run", "tmpfs", 0, "mode=0755") == 0;
}

START_TEST(users_own_path_is_named_where_no_socket_is_there)
{
    weir_error error = WEIR_ERROR_INIT;
    char made[SHARE_PATH_SIZE], found[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    ck_assert_int_eq(share_path("frames", true, false, &error, made), WEIR_OK);
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    ck_assert_str_eq(found, made);
}
END_TEST

START_TEST(relative_runtime_directory_is_ignored)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", "run", 1);
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    ck_assert_str_eq(found, SHARE_SYSTEM_DIRECTORY "/frames");
}
END_TEST

START_TEST(name_without_any_directory_is_refused_with_the_remedy)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE] = "untouched";
    if (!hide_run())
        return;
    expect(share_path("frames", true, false, &error, found), WEIR_INVALID, &error, "XDG_RUNTIME_DIR", SHARE_SYSTEM_DIRECTORY);
    ck_assert_str_eq(found, "untouched");
}
END_TEST

START_TEST(others_are_let_in_through_the_systems_directory)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    if (!hide_run())
        return;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    expect(share_path("frames", true, true, &error, found), WEIR_INVALID, &error, SHARE_SYSTEM_DIRECTORY, "0711");
    ck_assert_int_eq(system("mkdir -p -m 0711 " SHARE_SYSTEM_DIRECTORY), 0);
    error = (weir_error)WEIR_ERROR_INIT;
    ck_assert_msg(share_path("frames", true, true, &error, found) == WEIR_OK, "%s", error.text);
    ck_assert_str_eq(found, SHARE_SYSTEM_DIRECTORY "/frames");
}
END_TEST

START_TEST(what_is_no_name_is_refused)
{
    static const char *const names[] = { "", ".", "..", "../frames", "a/b", "frames/" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        weir_error error = WEIR_ERROR_INIT;
        char found[SHARE_PATH_SIZE];
        expect(share_path(names[i], false, false, &error, found), WEIR_INVALID, &error, names[i], "absolute path");
    }
}
END_TEST

START_TEST(path_that_is_too_long_is_refused)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE], long_path[200] = "/";
    struct share_listener listener;
    int fd;
    memset(long_path + 1, 'x', SHARE_PATH_SIZE);
    expect(share_path(long_path, true, false, &error, found), WEIR_INVALID, &error, "xxx", "shorter");
    ck_assert_int_eq(share_listen(long_path, 0600, NULL, &listener), WEIR_INVALID);
    ck_assert_int_eq(share_connect(long_path, 0, NULL, &fd), WEIR_INVALID);
    error = (weir_error)WEIR_ERROR_INIT;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    expect(share_path(long_path + 2, true, false, &error, found), WEIR_INVALID, &error, "xxx", "shorter");
    error = (weir_error)WEIR_ERROR_INIT;
    expect(share_path(long_path + 2, false, false, &error, found), WEIR_INVALID, &error, "xxx", "shorter");
}
END_TEST

START_TEST(longest_path_that_fits_is_listened_to)
{
    char longest[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    snprintf(longest, sizeof longest, "%s/", directory);
    memset(longest + strlen(longest), 'x', sizeof longest - strlen(longest) - 1);
    longest[sizeof longest - 1] = '\0';
    char found[SHARE_PATH_SIZE];
    ck_assert_msg(share_path(longest, true, false, &error, found) == WEIR_OK, "%s", error.text);
    struct share_listener listener = listen_at(longest);
    close(connect_to(longest));
    share_listener_close(&listener);
}
END_TEST

START_TEST(missing_directory_is_refused)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE], missing[128];
    snprintf(missing, sizeof missing, "%s/missing/frames", directory);
    expect(share_path(missing, true, false, &error, found), WEIR_INVALID, &error, "missing", "make it");
}
END_TEST

START_TEST(directory_that_others_may_write_to_is_refused)
{
    static const mode_t modes[] = { 0777, 0770, 0722 };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        weir_error error = WEIR_ERROR_INIT;
        char found[SHARE_PATH_SIZE];
        ck_assert_int_eq(chmod(directory, modes[i]), 0);
        expect(share_path(path, true, false, &error, found), WEIR_REFUSED, &error, directory, "chmod");
    }
}
END_TEST

START_TEST(sticky_directory_is_safe_enough)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    ck_assert_int_eq(chmod(directory, 01777), 0);
    ck_assert_msg(share_path(path, true, false, &error, found) == WEIR_OK, "%s", error.text);
}
END_TEST

START_TEST(directory_of_another_user_is_refused)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    if (chown(directory, OTHER_USER, (gid_t)-1) != 0)
        return;
    expect(share_path(path, true, false, &error, found), WEIR_REFUSED, &error, directory, "54321");
    ck_assert_int_eq(chown(directory, geteuid(), (gid_t)-1), 0);
}
END_TEST

/* What somebody may have put in the place of `weir` or `weir/share`. */
static const struct {
    const char *command, *problem;
} traps[] = {
    { "chown 54321 weir", "54321" },
    { "chown 54321 weir/share", "54321" },
    { "chmod 0777 weir", "chmod 0700" },
    { "chmod 0770 weir/share", "chmod 0700" },
    { "mv weir elsewhere && ln -s elsewhere weir", "not a directory" },
    { "mv weir/share weir/elsewhere && ln -s elsewhere weir/share", "not a directory" },
};

START_TEST(directories_that_are_not_the_users_alone_are_refused_on_both_sides)
{
    char found[SHARE_PATH_SIZE], command[PATH_MAX];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    ck_assert_int_eq(share_path("frames", true, false, NULL, found), WEIR_OK);
    struct share_listener listener = listen_at(found);
    snprintf(command, sizeof command, "cd %s && %s", directory, traps[_i].command);
    if (strstr(command, "chown") && geteuid() != 0) {
        share_listener_close(&listener);
        return;
    }
    ck_assert_int_eq(system(command), 0);
    for (int listen = 0; listen < 2; listen++) {
        weir_error error = WEIR_ERROR_INIT;
        expect(share_path("frames", listen, false, &error, found), WEIR_REFUSED, &error, directory, traps[_i].problem);
    }
    share_listener_close(&listener);
}
END_TEST

/* By its specification it belongs to the user. */
START_TEST(runtime_directory_of_another_user_is_ignored)
{
    weir_error error = WEIR_ERROR_INIT;
    char found[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    if (!hide_run() || chown(directory, OTHER_USER, (gid_t)-1) != 0)
        return;
    ck_assert_int_eq(share_path("frames", false, false, &error, found), WEIR_OK);
    ck_assert_str_eq(found, SHARE_SYSTEM_DIRECTORY "/frames");
    ck_assert_int_eq(share_path("frames", true, false, &error, found), WEIR_INVALID);
    ck_assert_int_eq(chown(directory, geteuid(), (gid_t)-1), 0);
}
END_TEST

/* As `weir ps` finds processes. */
START_TEST(root_finds_exports_of_all_users_and_a_user_his_own)
{
    static const char *const homes[] = { "/run/user/54321", "/run/user/0" };
    char made[2][SHARE_PATH_SIZE], (*paths)[SHARE_PATH_SIZE], command[PATH_MAX];
    struct share_listener listeners[2];
    size_t count;
    if (!hide_run())
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "mkdir -p -m 0700 %s && cd %s && mkdir -m 0700 weir weir/share", homes[i], homes[i]);
        ck_assert_int_eq(system(command), 0);
        snprintf(made[i], sizeof made[i], "%s/weir/share/frames", homes[i]);
        listeners[i] = listen_at(made[i]);
    }
    ck_assert_int_eq(system("chown -R 54321 /run/user/54321"), 0);
    share_export_sockets(&paths, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(paths[0], made[1]);
    ck_assert_str_eq(paths[1], made[0]);
    free(paths);
    setenv("XDG_RUNTIME_DIR", homes[1], 1); /* by two names it is listed once */
    share_export_sockets(&paths, &count);
    ck_assert_uint_eq(count, 2);
    free(paths);
    unsetenv("XDG_RUNTIME_DIR");
    ck_assert_int_eq(seteuid(OTHER_USER), 0);
    share_export_sockets(&paths, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(paths[0], made[0]);
    free(paths);
    ck_assert_int_eq(seteuid(0), 0);
    for (int i = 0; i < 2; i++)
        share_listener_close(&listeners[i]);
}
END_TEST

/* Listening ---------------------------------------------------------------------------------------------------------------------------- */

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
    struct share_listener first = listen_at(path), second = { .fd = -5 };
    weir_error error = WEIR_ERROR_INIT;
    int fds = suite_count_fds();
    expect(share_listen(path, 0600, &error, &second), WEIR_BUSY, &error, path, "another share.socket");
    ck_assert_int_eq(second.fd, -5);
    ck_assert_int_eq(suite_count_fds(), fds);
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
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    int daemon = socket(AF_UNIX, types[_i] | SOCK_CLOEXEC, 0), client = socket(AF_UNIX, types[_i] | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_eq(bind(daemon, (struct sockaddr *)&address, sizeof address), 0);
    if (types[_i] != SOCK_DGRAM)
        ck_assert_int_eq(listen(daemon, 1), 0);
    expect(share_listen(path, 0600, &error, &listener), WEIR_BUSY, &error, path, "another share.socket");
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    close(client);
    close(daemon);
    listener = listen_at(path);
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
    struct share_listener first = listen_at(path), second;
    weir_error error = WEIR_ERROR_INIT;
    remove_lock_file();
    expect(share_listen(path, 0600, &error, &second), WEIR_BUSY, &error, path, "another share.socket");
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
    weir_error error = WEIR_ERROR_INIT;
    expect(share_listen(path, 0600, &error, &first), WEIR_BUSY, &error, path, "another export");
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
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    expect(share_listen(path, 0600, &error, &listener), WEIR_INVALID, &error, path, "not a socket");
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(lock_file_is_not_followed_where_it_is_a_link)
{
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    char lock[128], target[128];
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(target, sizeof target, "%s/target", directory);
    ck_assert_int_eq(symlink(target, lock), 0);
    expect(share_listen(path, 0600, &error, &listener), WEIR_REFUSED, &error, lock, "directory");
    ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

START_TEST(listening_in_a_missing_directory_fails_cleanly)
{
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    char missing[128];
    snprintf(missing, sizeof missing, "%s/missing/frames", directory);
    expect(share_listen(missing, 0600, &error, &listener), WEIR_INVALID, &error, missing, "No such file");
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
    expect(share_connect(path, 0, &error, &fd), WEIR_GONE, &error, path, "start the exporter");
    ck_assert_int_eq(fd, -5);
}
END_TEST

START_TEST(nobody_listens_at_a_stale_socket)
{
    struct share_listener listener = listen_at(path);
    int fd;
    share_listener_forget(&listener);
    ck_assert_int_eq(share_connect(path, 0, NULL, &fd), WEIR_GONE);
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
    expect(share_connect(path, 0, &error, &fd), WEIR_PROTOCOL, &error, path, "another type");
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
        status = share_connect(path, 10, &error, &fds[count]);
    while (status == WEIR_OK && ++count < sizeof fds / sizeof fds[0]);
    expect(status, WEIR_TIMEOUT, &error, path, "10 ms");
    ck_assert_int_eq(share_connect(path, 0, NULL, &fds[count]), WEIR_TIMEOUT);
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
        _exit(share_connect(path, 100, NULL, &fd));
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
    expect(share_connect(path, 100, &error, &fd), WEIR_REFUSED, &error, "54321", directory);
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

/* Packets ------------------------------------------------------------------------------------------------------------------------------ */

static int ends[2];

static void connect_ends(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_ends(void)
{
    close(ends[0]);
    close(ends[1]);
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
    connect_ends();
    ck_assert_int_eq(share_send(ends[0], "one", 3, -1), SHARE_DONE);
    ck_assert_int_eq(share_send(ends[0], "three", 5, -1), SHARE_DONE);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, &passed), SHARE_DONE);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(passed, -1);
    ck_assert_mem_eq(bytes, "one", 3);
    ck_assert_int_eq(share_receive(ends[1], bytes, sizeof bytes, &len, &passed), SHARE_DONE);
    ck_assert_uint_eq(len, 5);
    ck_assert_mem_eq(bytes, "three", 5);
    close_ends();
}
END_TEST

START_TEST(descriptor_arrives_with_its_packet_and_is_closed_by_exec)
{
    unsigned char bytes[16];
    size_t len;
    int passed, tube[2];
    char byte;
    connect_ends();
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
    close_ends();
}
END_TEST

START_TEST(nothing_to_receive_is_again)
{
    connect_ends();
    ck_assert_int_eq(receive(), SHARE_AGAIN);
    close_ends();
}
END_TEST

START_TEST(full_socket_is_again_and_takes_more_once_it_was_read)
{
    static unsigned char bytes[1024];
    enum share_io io;
    size_t len, sent = 0;
    int passed;
    connect_ends();
    while ((io = share_send(ends[0], bytes, sizeof bytes, -1)) == SHARE_DONE)
        sent++;
    ck_assert_int_eq(io, SHARE_AGAIN);
    ck_assert_uint_gt(sent, 0);
    while (sent > 0 && share_receive(ends[1], bytes, sizeof bytes, &len, &passed) == SHARE_DONE)
        sent--;
    ck_assert_uint_eq(sent, 0);
    ck_assert_int_eq(share_send(ends[0], bytes, sizeof bytes, -1), SHARE_DONE);
    close_ends();
}
END_TEST

START_TEST(closed_peer_is_seen_by_both_calls_and_raises_no_signal)
{
    connect_ends();
    close(ends[0]);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    ck_assert_int_eq(share_send(ends[1], "x", 1, -1), SHARE_CLOSED);
    close(ends[1]);
}
END_TEST

START_TEST(packets_sent_before_the_peer_closed_arrive)
{
    connect_ends();
    ck_assert_int_eq(share_send(ends[0], "x", 1, -1), SHARE_DONE);
    close(ends[0]);
    ck_assert_int_eq(receive(), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    close(ends[1]);
}
END_TEST

/* Linux tells of the reset first, and once: what was sent before it is still there. */
START_TEST(packets_of_a_peer_that_closed_without_reading_arrive)
{
    connect_ends();
    ck_assert_int_eq(share_send(ends[1], "asked", 5, -1), SHARE_DONE);
    ck_assert_int_eq(share_send(ends[0], "refused", 7, -1), SHARE_DONE);
    close(ends[0]);
    ck_assert_int_eq(receive(), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    close(ends[1]);
}
END_TEST

START_TEST(truncated_packet_is_refused_and_its_descriptor_closed)
{
    connect_ends();
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "seventeen bytes..", 17, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_BROKEN);
    ck_assert_int_eq(suite_count_fds(), fds);
    close_ends();
}
END_TEST

/* Sends `count` descriptors with one packet. */
static void send_fds(size_t count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = { .bytes = { 0 } };
    char text[] = "fds";
    struct iovec part = { .iov_base = text, .iov_len = 3 };
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &ends[0], sizeof(int));
    ck_assert_int_eq(sendmsg(ends[0], &message, 0), 3);
}

START_TEST(surplus_descriptors_are_refused_and_closed)
{
    static const size_t counts[] = { 2, 3, 8, 9, 20, 64 };
    connect_ends();
    int fds = suite_count_fds();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        send_fds(counts[i]);
        ck_assert_msg(receive() == SHARE_BROKEN, "%zu descriptors", counts[i]);
        ck_assert_int_eq(suite_count_fds(), fds);
    }
    close_ends();
}
END_TEST

START_TEST(other_ancillary_data_is_refused_and_a_descriptor_beside_it_closed)
{
    int on = 1;
    connect_ends();
    ck_assert_int_eq(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "x", 1, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_BROKEN);
    ck_assert_int_eq(suite_count_fds(), fds);
    close_ends();
}
END_TEST

START_TEST(empty_packet_counts_as_closed_and_its_descriptor_is_closed)
{
    connect_ends();
    int fds = suite_count_fds();
    ck_assert_int_eq(share_send(ends[0], "", 0, ends[0]), SHARE_DONE);
    ck_assert_int_eq(receive(), SHARE_CLOSED);
    ck_assert_int_eq(suite_count_fds(), fds);
    close_ends();
}
END_TEST

START_TEST(descriptor_that_is_not_open_is_broken)
{
    connect_ends();
    int closed = dup(ends[0]);
    close(closed);
    ck_assert_int_eq(share_send(ends[0], "x", 1, closed), SHARE_BROKEN);
    close_ends();
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 0);
    tcase_add_checked_fixture(tcase, begin, end);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("socket");
    TCase *paths = add_case(suite, "paths");
    tcase_add_test(paths, absolute_path_is_taken_as_it_is);
    tcase_add_test(paths, name_lies_in_the_runtime_directory_which_is_made_for_the_user_alone);
    tcase_add_test(paths, runtime_directory_that_exists_already_is_used);
    tcase_add_test(paths, connecting_makes_no_directory);
    tcase_add_test(paths, who_connects_finds_the_users_own_socket_first_and_the_systems_else);
    tcase_add_test(paths, users_own_path_is_named_where_no_socket_is_there);
    tcase_add_test(paths, relative_runtime_directory_is_ignored);
    tcase_add_test(paths, name_without_any_directory_is_refused_with_the_remedy);
    tcase_add_test(paths, others_are_let_in_through_the_systems_directory);
    tcase_add_test(paths, what_is_no_name_is_refused);
    tcase_add_test(paths, path_that_is_too_long_is_refused);
    tcase_add_test(paths, longest_path_that_fits_is_listened_to);
    tcase_add_test(paths, missing_directory_is_refused);
    tcase_add_test(paths, directory_that_others_may_write_to_is_refused);
    tcase_add_test(paths, sticky_directory_is_safe_enough);
    tcase_add_test(paths, directory_of_another_user_is_refused);
    tcase_add_loop_test(paths, directories_that_are_not_the_users_alone_are_refused_on_both_sides, 0, sizeof traps / sizeof traps[0]);
    tcase_add_test(paths, runtime_directory_of_another_user_is_ignored);
    tcase_add_test(paths, root_finds_exports_of_all_users_and_a_user_his_own);
    TCase *listening = add_case(suite, "listening");
    tcase_add_test(listening, socket_has_the_mode_asked_for_whatever_the_umask);
    tcase_add_test(listening, closing_leaves_nothing_behind);
    tcase_add_test(listening, second_listener_of_one_process_is_busy);
    tcase_add_test(listening, second_listener_of_another_process_is_busy);
    tcase_add_loop_test(listening, socket_of_any_living_process_is_not_replaced, 0, sizeof types / sizeof types[0]);
    tcase_add_test(listening, listener_whose_lock_file_was_deleted_keeps_its_place);
    tcase_add_test(listening, closing_removes_nothing_of_who_came_after);
    tcase_add_test(listening, socket_of_a_killed_listener_is_taken_over);
    tcase_add_test(listening, child_that_forgets_lets_the_path_be_listened_to_anew);
    tcase_add_test(listening, file_that_is_no_socket_is_not_removed);
    tcase_add_test(listening, lock_file_is_not_followed_where_it_is_a_link);
    tcase_add_test(listening, listening_in_a_missing_directory_fails_cleanly);
    tcase_add_test(listening, want_of_descriptors_is_named_with_its_own_remedy);
    tcase_add_test(listening, no_connection_is_waiting_at_first);
    tcase_add_test(listening, descriptors_are_closed_by_exec_and_do_not_block);
    TCase *connecting = add_case(suite, "connecting");
    tcase_add_test(connecting, nobody_listens_where_there_is_nothing);
    tcase_add_test(connecting, nobody_listens_at_a_stale_socket);
    tcase_add_test(connecting, socket_of_another_type_is_a_protocol_error);
    tcase_add_test(connecting, listener_that_accepts_nobody_times_out);
    tcase_add_test(connecting, another_user_is_refused_by_the_sockets_mode);
    tcase_add_test(connecting, server_of_another_user_is_refused);
    tcase_add_test(connecting, server_that_owns_the_directory_is_trusted);
    TCase *packets = add_case(suite, "packets");
    tcase_add_test(packets, packet_arrives_whole_with_its_length);
    tcase_add_test(packets, descriptor_arrives_with_its_packet_and_is_closed_by_exec);
    tcase_add_test(packets, nothing_to_receive_is_again);
    tcase_add_test(packets, full_socket_is_again_and_takes_more_once_it_was_read);
    tcase_add_test(packets, closed_peer_is_seen_by_both_calls_and_raises_no_signal);
    tcase_add_test(packets, packets_sent_before_the_peer_closed_arrive);
    tcase_add_test(packets, packets_of_a_peer_that_closed_without_reading_arrive);
    tcase_add_test(packets, truncated_packet_is_refused_and_its_descriptor_closed);
    tcase_add_test(packets, surplus_descriptors_are_refused_and_closed);
    tcase_add_test(packets, other_ancillary_data_is_refused_and_a_descriptor_beside_it_closed);
    tcase_add_test(packets, empty_packet_counts_as_closed_and_its_descriptor_is_closed);
    tcase_add_test(packets, descriptor_that_is_not_open_is_broken);
    return suite_run(suite);
}
