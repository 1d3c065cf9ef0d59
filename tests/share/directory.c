/* SPDX-License-Identifier: MIT */
/* directory.c - where control sockets are found, and who may put them there. */
#include "config.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "share/base/wait.h"
#include "tests/share/runtime_scene.h"

static void expect_refusal(weir_status wanted, const char *what)
{
    char made[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = share_control_directory(&error, made);
    ck_assert_msg(status == wanted, "%s: %s", weir_status_name(status), error.text);
    ck_assert_msg(strstr(error.text, what), "'%s' without '%s'", error.text, what);
}

/* The directory ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(directory_is_made_for_this_user_alone)
{
    struct stat info;
    umask(0);
    make_directory();
    ck_assert_int_eq(stat(directory, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0700);
    make_directory();
}
END_TEST

START_TEST(directory_that_others_may_write_to_is_refused)
{
    make_directory();
    ck_assert_int_eq(chmod(directory, 0720), 0);
    expect_refusal(WEIR_REFUSED, "chmod 0700");
}
END_TEST

START_TEST(directory_above_that_others_may_write_to_is_refused)
{
    char above[80];
    make_directory();
    snprintf(above, sizeof above, "%s/weir", runtime);
    ck_assert_int_eq(chmod(above, 0702), 0);
    expect_refusal(WEIR_REFUSED, "chmod 0700");
}
END_TEST

START_TEST(link_in_place_of_the_directory_is_refused)
{
    make_directory();
    ck_assert_int_eq(rmdir(directory), 0);
    ck_assert_int_eq(symlink(runtime, directory), 0);
    expect_refusal(WEIR_REFUSED, "is not a directory");
}
END_TEST

START_TEST(directory_of_another_user_is_refused)
{
    make_directory();
    char owner[64];
    ck_assert_int_eq(chown(directory, stranger, stranger), 0);
    snprintf(owner, sizeof owner, "belongs to user %u", (unsigned)stranger);
    expect_refusal(WEIR_REFUSED, owner);
}
END_TEST

/* As after a logout. */
START_TEST(runtime_directory_that_does_not_exist_counts_as_not_set)
{
    char path[SHARE_PATH_SIZE], own[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
    snprintf(own, sizeof own, "/tmp/weir-%u", (unsigned)geteuid());
    share_control_place(false, NULL, path);
    ck_assert_msg(strncmp(path, own, strlen(own)) == 0, "%s", path);
}
END_TEST

START_TEST(runtime_directory_that_is_too_long_is_named)
{
    char longest[2 * SHARE_PATH_SIZE];
    snprintf(longest, sizeof longest, "%s/%080d", runtime, 0);
    ck_assert_int_eq(mkdir(longest, 0700), 0);
    setenv("XDG_RUNTIME_DIR", longest, 1);
    expect_refusal(WEIR_INVALID, "too long");
}
END_TEST

/* Without a runtime directory; as a user that has nothing in /tmp yet, which only root can become. */
START_TEST(without_a_runtime_directory_it_lies_in_tmp)
{
    pid_t child = fork();
    if (child == 0) {
        char made[SHARE_PATH_SIZE], expected[80];
        unsetenv("XDG_RUNTIME_DIR");
        snprintf(expected, sizeof expected, "%s/control", strangers);
        bool good = setuid(stranger) == 0 && share_control_directory(NULL, made) == WEIR_OK && strcmp(made, expected) == 0;
        rmdir(expected);
        rmdir(strangers);
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(wait_for(child), 0);
}
END_TEST

/* Listing ------------------------------------------------------------------------------------------------------------------------------ */

/* The names of the sockets in the test's directory, one behind the other; root sees those of others too. */
static const char *listed(bool sweep)
{
    static char names[1024];
    char (*paths)[SHARE_PATH_SIZE];
    size_t count, len = strlen(directory);
    names[0] = '\0';
    share_control_sockets(sweep, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    for (size_t i = 0; i < count; i++)
        if (strncmp(paths[i], directory, len) == 0)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", paths[i] + len + 1);
    free(paths);
    return names;
}

static bool exists(const char *name)
{
    char path[2 * SHARE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

START_TEST(sockets_are_listed_by_process_and_number)
{
    make_directory();
    struct share_listener listeners[] = { listen_at("10.1"), listen_at("9.10"), listen_at("9.2") };
    ck_assert_str_eq(listed(false), "9.2 9.10 10.1 ");
    for (size_t i = 0; i < 3; i++)
        share_listener_close(&listeners[i]);
    ck_assert_str_eq(listed(false), "");
}
END_TEST

START_TEST(directory_of_the_environment_stands_for_all_others)
{
    char other[PATH_MAX], expected[PATH_MAX + 32], made[SHARE_PATH_SIZE], (*paths)[SHARE_PATH_SIZE];
    size_t count;
    make_directory();
    struct share_listener listener = listen_at("7.1");
    snprintf(other, sizeof other, "%s/other", runtime);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    setenv("WEIR_CONTROL_DIR", other, 1);
    ck_assert_int_eq(share_control_directory(NULL, made), WEIR_OK);
    snprintf(expected, sizeof expected, "%s/weir/control", other);
    ck_assert_str_eq(made, expected);
    share_control_sockets(false, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    ck_assert_uint_eq(count, 0);
    free(paths);
    share_listener_close(&listener);
}
END_TEST

START_TEST(directory_of_the_environment_that_is_relative_is_refused)
{
    char made[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    setenv("WEIR_CONTROL_DIR", "run/weir", 1);
    ck_assert_int_eq(share_control_directory(&error, made), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "WEIR_CONTROL_DIR is 'run/weir', which is no absolute path"));
}
END_TEST

START_TEST(nothing_is_listed_and_nothing_made_where_there_is_no_directory)
{
    ck_assert_str_eq(listed(true), "");
    ck_assert_int_ne(access(directory, F_OK), 0);
}
END_TEST

START_TEST(directory_that_is_not_safe_is_not_listed)
{
    make_directory();
    struct share_listener listener = listen_at("9.1");
    ck_assert_int_eq(chmod(directory, 0777), 0);
    ck_assert_str_eq(listed(true), "");
    share_listener_close(&listener);
}
END_TEST

START_TEST(sweep_removes_what_killed_processes_left_and_nothing_else)
{
    make_directory();
    leave_dead("9.1");
    struct share_listener listener = listen_at("9.2");
    ck_assert_str_eq(listed(false), "9.1 9.2 ");
    ck_assert_str_eq(listed(true), "9.2 ");
    ck_assert(!exists("9.1"));
    ck_assert(!exists("9.1" SHARE_LOCK_SUFFIX));
    ck_assert(exists("9.2" SHARE_LOCK_SUFFIX));
    share_listener_close(&listener);
}
END_TEST

START_TEST(sweep_removes_a_lock_file_without_a_socket)
{
    char path[2 * SHARE_PATH_SIZE];
    make_directory();
    leave_dead("9.1");
    snprintf(path, sizeof path, "%s/9.1", directory);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_str_eq(listed(true), "");
    ck_assert(!exists("9.1" SHARE_LOCK_SUFFIX));
}
END_TEST

START_TEST(sweep_leaves_a_file_that_is_no_socket)
{
    char path[2 * SHARE_PATH_SIZE];
    make_directory();
    leave_dead("9.1");
    snprintf(path, sizeof path, "%s/9.1", directory);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_str_eq(listed(true), "");
    ck_assert(exists("9.1"));
}
END_TEST

/* Whether the list has something in the stranger's directory. */
static bool strangers_are_listed(void)
{
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    bool is_seen = false;
    share_control_sockets(true, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    for (size_t i = 0; i < count; i++)
        is_seen = is_seen || strncmp(paths[i], strangers, strlen(strangers)) == 0;
    free(paths);
    return is_seen;
}

static void remove_strangers(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", strangers);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(root_sees_the_sockets_of_others_and_removes_none)
{
    pid_t child = fork();
    if (child == 0) {
        struct share_listener listener;
        char made[SHARE_PATH_SIZE], path[2 * SHARE_PATH_SIZE];
        unsetenv("XDG_RUNTIME_DIR");
        if (setuid(stranger) != 0 || share_control_directory(NULL, made) != WEIR_OK)
            _exit(1);
        snprintf(path, sizeof path, "%s/7.1", made);
        share_listen(path, 0600, NULL, &listener);
        raise(SIGKILL);
    }
    ck_assert_int_eq(wait_for(child), -1);
    ck_assert(strangers_are_listed());
    ck_assert(strangers_are_listed());
    remove_strangers();
}
END_TEST

/* How many are listed in the stranger's directory. */
static size_t count_strangers(uint64_t deadline)
{
    char (*paths)[SHARE_PATH_SIZE];
    size_t count, found = 0;
    share_control_sockets(true, deadline, &paths, &count);
    for (size_t i = 0; i < count; i++)
        found += strncmp(paths[i], strangers, strlen(strangers)) == 0;
    free(paths);
    return found;
}

/* More sockets than a directory of another user may have, or fewer among more other files than are looked at. */
static const struct {
    mode_t kind;
    unsigned count;
} floods[] = { { S_IFSOCK, 2 * SHARE_SOCKETS_MAX }, { S_IFREG, 8 * SHARE_SOCKETS_MAX } };

START_TEST(flooded_directory_of_another_is_bounded)
{
    char path[SHARE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/control", strangers);
    ck_assert(mkdir(strangers, 0700) == 0 && mkdir(path, 0700) == 0);
    for (unsigned i = 1; i <= floods[_i].count; i++) {
        snprintf(path, sizeof path, "%s/control/%u.1", strangers, i);
        ck_assert_int_eq(mknod(path, floods[_i].kind | 0600, 0), 0);
    }
    snprintf(path, sizeof path, "%s/control", strangers);
    ck_assert(chown(strangers, stranger, stranger) == 0 && chown(path, stranger, stranger) == 0);
    size_t in_time = count_strangers(UINT64_MAX), late = count_strangers(0);
    ck_assert_uint_eq(in_time, floods[_i].kind == S_IFSOCK ? SHARE_SOCKETS_MAX : 0);
    ck_assert_uint_le(late, SHARE_FILES_MIN);
    remove_strangers();
}
END_TEST

/* However late it is, what this user has is seen unless there is a flood of it. */
START_TEST(own_sockets_are_listed_at_any_time)
{
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    bool is_seen = false;
    make_directory();
    struct share_listener listener = listen_at("7.1");
    share_control_sockets(true, 0, &paths, &count);
    for (size_t i = 0; i < count; i++)
        is_seen = is_seen || strcmp(paths[i], listener.path) == 0;
    free(paths);
    ck_assert(is_seen);
    share_listener_close(&listener);
}
END_TEST

/* Of one user without rights, where /run/user has a directory for it; or -1. */
static int count_as_stranger(const char *runtime_directory)
{
    pid_t child = fork();
    if (child == 0) {
        char made[SHARE_PATH_SIZE], path[2 * SHARE_PATH_SIZE], (*paths)[SHARE_PATH_SIZE];
        struct share_listener listener;
        size_t count;
        setenv("XDG_RUNTIME_DIR", runtime_directory, 1);
        if (setuid(stranger) != 0 || share_control_directory(NULL, made) != WEIR_OK)
            _exit(101);
        snprintf(path, sizeof path, "%s/7.1", made);
        if (share_listen(path, 0600, NULL, &listener) != WEIR_OK)
            _exit(102);
        share_control_sockets(true, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
        share_listener_close(&listener);
        _exit((int)count);
    }
    return wait_for(child);
}

START_TEST(directory_of_two_names_is_listed_once)
{
    char own[64], with_slash[80], command[128];
    bool has_parent = access("/run/user", F_OK) == 0;
    snprintf(own, sizeof own, "/run/user/%u", (unsigned)stranger);
    snprintf(with_slash, sizeof with_slash, "%s/", own);
    ck_assert(has_parent || mkdir("/run/user", 0755) == 0);
    ck_assert_int_eq(mkdir(own, 0700), 0);
    ck_assert_int_eq(chown(own, stranger, stranger), 0);
    int count = count_as_stranger(own), again = count_as_stranger(with_slash);
    snprintf(command, sizeof command, "rm -r %s", own);
    ck_assert_int_eq(system(command), 0);
    if (!has_parent)
        rmdir("/run/user");
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(again, 1);
}
END_TEST

START_TEST(root_is_not_led_elsewhere)
{
    char link[80];
    make_directory();
    struct share_listener listener = listen_at("9.1");
    ck_assert_int_eq(mkdir(strangers, 0700), 0);
    ck_assert_int_eq(chown(strangers, stranger, stranger), 0);
    snprintf(link, sizeof link, "%s/control", strangers);
    ck_assert_int_eq(symlink(directory, link), 0);
    ck_assert(!strangers_are_listed());
    share_listener_close(&listener);
    remove_strangers();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("directory");
    TCase *own = suite_case(suite, "directory", 0);
    tcase_add_checked_fixture(own, set_up, tear_down);
    suite_add(own, directory_is_made_for_this_user_alone, directory_that_others_may_write_to_is_refused,
              directory_above_that_others_may_write_to_is_refused, link_in_place_of_the_directory_is_refused,
              runtime_directory_that_does_not_exist_counts_as_not_set, runtime_directory_that_is_too_long_is_named,
              sockets_are_listed_by_process_and_number, directory_of_the_environment_that_is_relative_is_refused,
              directory_of_the_environment_stands_for_all_others,
              nothing_is_listed_and_nothing_made_where_there_is_no_directory, directory_that_is_not_safe_is_not_listed,
              sweep_removes_what_killed_processes_left_and_nothing_else, sweep_removes_a_lock_file_without_a_socket,
              sweep_leaves_a_file_that_is_no_socket, own_sockets_are_listed_at_any_time);
    if (geteuid() == 0) {
        suite_add(own, directory_of_another_user_is_refused, without_a_runtime_directory_it_lies_in_tmp,
                  root_sees_the_sockets_of_others_and_removes_none, root_is_not_led_elsewhere, directory_of_two_names_is_listed_once);
        tcase_add_loop_test(own, flooded_directory_of_another_is_bounded, 0, sizeof floods / sizeof floods[0]);
    } else {
        printf("# users: not tried: only root can become another user\n");
    }
    return suite_run(suite);
}
