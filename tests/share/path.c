/* SPDX-License-Identifier: MIT */
/* Where sockets lie. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/share/socket_scene.h"

/* Modes ------------------------------------------------------------------------------------------------------------------------------- */

static unsigned mode_of(const char *parent, const char *name)
{
    char full[PATH_MAX];
    struct stat info;
    snprintf(full, sizeof full, "%s/%s", parent, name);
    ck_assert_msg(lstat(full, &info) == 0, "%s is not there", full);
    return info.st_mode & 07777;
}

/* Made under that umask, or left by a release that made them so. */
START_TEST(modes_are_right_whatever_the_umask)
{
    static const char *const left[] = { "weir", "weir/share" };
    char full[PATH_MAX];
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    for (size_t i = 0; _i && i < sizeof left / sizeof left[0]; i++) {
        snprintf(full, sizeof full, "%s/%s", directory, left[i]);
        ck_assert_int_eq(mkdir(full, 0), 0);
        if (geteuid() != 0) /* nothing can be made in it then */
            break;
    }
    umask(0777);
    ck_assert_msg(share_path("frames", true, false, &error, full) == WEIR_OK, "%s", error.text);
    ck_assert_msg(share_listen(full, 0600, &error, &listener) == WEIR_OK, "%s", error.text);
    umask(0077);
    ck_assert_uint_eq(mode_of(directory, "weir"), 0700);
    ck_assert_uint_eq(mode_of(directory, "weir/share"), 0700);
    ck_assert_uint_eq(mode_of(directory, "weir/share/frames"), 0600);
    ck_assert_uint_eq(mode_of(directory, "weir/share/frames.lock"), 0600);
    share_listener_close(&listener);
}
END_TEST

/* Paths -------------------------------------------------------------------------------------------------------------------------------- */

enum { CONNECT = 0, LISTEN = 1, OTHERS = 2 }; /* whose path it is, and whether others are let in */

static weir_status try_to_find(const char *socket, unsigned whose, weir_error *error, char found[SHARE_PATH_SIZE])
{
    *error = (weir_error)WEIR_ERROR_INIT;
    return share_path(socket, whose & LISTEN, whose & OTHERS, error, found);
}

/* Good until the next call. */
static const char *find(const char *socket, unsigned whose)
{
    static char found[SHARE_PATH_SIZE];
    weir_error error;
    ck_assert_msg(try_to_find(socket, whose, &error, found) == WEIR_OK, "%s", error.text);
    return found;
}

static void expect_none(const char *socket, unsigned whose, weir_status status, const char *first, const char *second)
{
    char found[SHARE_PATH_SIZE] = "untouched";
    weir_error error;
    expect(try_to_find(socket, whose, &error, found), status, &error, first, second);
    ck_assert_str_eq(found, "untouched");
}

START_TEST(absolute_path_is_taken_as_it_is)
{
    ck_assert_str_eq(find(path, LISTEN), path);
    ck_assert_str_eq(find(path, CONNECT), path);
}
END_TEST

START_TEST(name_lies_in_the_runtime_directory_which_is_made_for_the_user_alone)
{
    char expected[128];
    struct stat info;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    umask(0);
    snprintf(expected, sizeof expected, "%s/weir/share/frames", directory);
    ck_assert_str_eq(find("frames", LISTEN), expected);
    snprintf(expected, sizeof expected, "%s/weir/share", directory);
    ck_assert_int_eq(stat(expected, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0700);
}
END_TEST

START_TEST(runtime_directory_that_exists_already_is_used)
{
    setenv("XDG_RUNTIME_DIR", directory, 1);
    find("frames", LISTEN);
    find("frames", LISTEN);
}
END_TEST

START_TEST(connecting_makes_no_directory)
{
    char made[128];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    find("frames", CONNECT);
    snprintf(made, sizeof made, "%s/weir", directory);
    ck_assert_int_ne(access(made, F_OK), 0);
}
END_TEST

START_TEST(who_connects_finds_the_users_own_socket_first_and_the_systems_else)
{
    setenv("XDG_RUNTIME_DIR", directory, 1);
    struct share_listener listener = listen_at(find("frames", LISTEN));
    ck_assert_str_eq(find("frames", CONNECT), listener.path);
    unsetenv("XDG_RUNTIME_DIR");
    ck_assert_str_eq(find("frames", CONNECT), SHARE_SYSTEM_DIRECTORY "/frames");
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
    char made[SHARE_PATH_SIZE];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    strcpy(made, find("frames", LISTEN));
    ck_assert_str_eq(find("frames", CONNECT), made);
}
END_TEST

START_TEST(relative_runtime_directory_is_ignored)
{
    setenv("XDG_RUNTIME_DIR", "run", 1);
    ck_assert_str_eq(find("frames", CONNECT), SHARE_SYSTEM_DIRECTORY "/frames");
}
END_TEST

/* Without a runtime directory, or after a logout has removed it. */
static const char *const not_there[] = { NULL, "/nowhere/at/all" };

START_TEST(name_without_a_runtime_directory_lies_in_tmp)
{
    char expected[SHARE_PATH_SIZE];
    if (!hide_run() || mount("none", "/tmp", "tmpfs", 0, "mode=01777") != 0)
        return;
    if (not_there[_i])
        setenv("XDG_RUNTIME_DIR", not_there[_i], 1);
    snprintf(expected, sizeof expected, "/tmp/weir-%u/share/frames", (unsigned)geteuid());
    ck_assert_str_eq(find("frames", LISTEN), expected);
    struct share_listener listener = listen_at(expected);
    ck_assert_str_eq(find("frames", CONNECT), expected);
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    share_export_sockets(share_deadline(1000), &paths, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(paths[0], expected);
    free(paths);
    share_listener_close(&listener);
    ck_assert_int_eq(umount("/tmp"), 0);
}
END_TEST

START_TEST(others_are_let_in_through_the_systems_directory)
{
    if (!hide_run())
        return;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    expect_none("frames", LISTEN | OTHERS, WEIR_INVALID, SHARE_SYSTEM_DIRECTORY, "0711");
    ck_assert_int_eq(system("mkdir -p -m 0711 " SHARE_SYSTEM_DIRECTORY), 0);
    ck_assert_str_eq(find("frames", LISTEN | OTHERS), SHARE_SYSTEM_DIRECTORY "/frames");
}
END_TEST

START_TEST(what_is_no_name_is_refused)
{
    static const char *const names[] = { "", ".", "..", "../frames", "a/b", "frames/" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_none(names[i], CONNECT, WEIR_INVALID, names[i], "absolute path");
}
END_TEST

START_TEST(path_that_is_too_long_is_refused)
{
    char long_path[200] = "/";
    struct share_listener listener;
    int fd;
    memset(long_path + 1, 'x', SHARE_PATH_SIZE);
    expect_none(long_path, LISTEN, WEIR_INVALID, "xxx", "shorter");
    ck_assert_int_eq(share_listen(long_path, 0600, NULL, &listener), WEIR_INVALID);
    ck_assert_int_eq(connect_within(long_path, 0, NULL, &fd), WEIR_INVALID);
    setenv("XDG_RUNTIME_DIR", directory, 1);
    expect_none(long_path + 2, LISTEN, WEIR_INVALID, "xxx", "shorter");
    expect_none(long_path + 2, CONNECT, WEIR_INVALID, "xxx", "shorter");
}
END_TEST

START_TEST(longest_path_that_fits_is_listened_to)
{
    char longest[SHARE_PATH_SIZE];
    snprintf(longest, sizeof longest, "%s/", directory);
    memset(longest + strlen(longest), 'x', sizeof longest - strlen(longest) - 1);
    longest[sizeof longest - 1] = '\0';
    struct share_listener listener = listen_at(find(longest, LISTEN));
    close(connect_to(longest));
    share_listener_close(&listener);
}
END_TEST

START_TEST(missing_directory_is_refused)
{
    char missing[128];
    snprintf(missing, sizeof missing, "%s/missing/frames", directory);
    expect_none(missing, LISTEN, WEIR_INVALID, "missing", "make it");
}
END_TEST

START_TEST(directory_that_others_may_write_to_is_refused)
{
    static const mode_t modes[] = { 0777, 0770, 0722 };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(directory, modes[i]), 0);
        expect_none(path, LISTEN, WEIR_REFUSED, directory, "chmod");
    }
}
END_TEST

START_TEST(sticky_directory_is_safe_enough)
{
    ck_assert_int_eq(chmod(directory, 01777), 0);
    find(path, LISTEN);
}
END_TEST

START_TEST(directory_of_another_user_is_refused)
{
    if (chown(directory, OTHER_USER, (gid_t)-1) != 0)
        return;
    expect_none(path, LISTEN, WEIR_REFUSED, directory, "54321");
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

/* The root of a container may have no other user to give a directory to. */
static bool can_give_away(void)
{
    return chown(directory, OTHER_USER, (gid_t)-1) == 0 && chown(directory, geteuid(), (gid_t)-1) == 0;
}

START_TEST(directories_that_are_not_the_users_alone_are_refused_on_both_sides)
{
    char command[PATH_MAX];
    if (strstr(traps[_i].command, "chown") && !can_give_away())
        return;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    struct share_listener listener = listen_at(find("frames", LISTEN));
    snprintf(command, sizeof command, "cd %s && %s", directory, traps[_i].command);
    ck_assert_int_eq(system(command), 0);
    expect_none("frames", LISTEN, WEIR_REFUSED, directory, traps[_i].problem);
    expect_none("frames", CONNECT, WEIR_REFUSED, directory, traps[_i].problem);
    share_listener_close(&listener);
}
END_TEST

/* By its specification it belongs to the user. */
START_TEST(runtime_directory_of_another_user_is_ignored)
{
    setenv("XDG_RUNTIME_DIR", directory, 1);
    if (!hide_run() || chown(directory, OTHER_USER, (gid_t)-1) != 0)
        return;
    ck_assert_str_eq(find("frames", CONNECT), SHARE_SYSTEM_DIRECTORY "/frames");
    ck_assert_ptr_null(strstr(find("frames", LISTEN), directory));
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
    if (!can_give_away() || !hide_run())
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "mkdir -p -m 0700 %s && cd %s && mkdir -m 0700 weir weir/share", homes[i], homes[i]);
        ck_assert_int_eq(system(command), 0);
        snprintf(made[i], sizeof made[i], "%s/weir/share/frames", homes[i]);
        listeners[i] = listen_at(made[i]);
    }
    ck_assert_int_eq(system("chown -R 54321 /run/user/54321"), 0);
    share_export_sockets(share_deadline(1000), &paths, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(paths[0], made[1]);
    ck_assert_str_eq(paths[1], made[0]);
    free(paths);
    setenv("XDG_RUNTIME_DIR", homes[1], 1); /* by two names it is listed once */
    share_export_sockets(share_deadline(1000), &paths, &count);
    ck_assert_uint_eq(count, 2);
    free(paths);
    unsetenv("XDG_RUNTIME_DIR");
    ck_assert_int_eq(seteuid(OTHER_USER), 0);
    share_export_sockets(share_deadline(1000), &paths, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(paths[0], made[0]);
    free(paths);
    ck_assert_int_eq(seteuid(0), 0);
    for (int i = 0; i < 2; i++)
        share_listener_close(&listeners[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("path");
    TCase *paths = scene_case(suite, "paths");
    suite_add(paths, absolute_path_is_taken_as_it_is, name_lies_in_the_runtime_directory_which_is_made_for_the_user_alone,
              runtime_directory_that_exists_already_is_used, connecting_makes_no_directory,
              who_connects_finds_the_users_own_socket_first_and_the_systems_else, users_own_path_is_named_where_no_socket_is_there,
              relative_runtime_directory_is_ignored,
              others_are_let_in_through_the_systems_directory, what_is_no_name_is_refused, path_that_is_too_long_is_refused,
              longest_path_that_fits_is_listened_to, missing_directory_is_refused, directory_that_others_may_write_to_is_refused,
              sticky_directory_is_safe_enough, directory_of_another_user_is_refused);
    tcase_add_loop_test(paths, directories_that_are_not_the_users_alone_are_refused_on_both_sides, 0, sizeof traps / sizeof traps[0]);
    suite_add(paths, runtime_directory_of_another_user_is_ignored, root_finds_exports_of_all_users_and_a_user_his_own);
    TCase *without = scene_case(suite, "without a runtime directory");
    tcase_add_loop_test(without, name_without_a_runtime_directory_lies_in_tmp, 0, sizeof not_there / sizeof not_there[0]);
    TCase *modes = scene_case(suite, "modes");
    tcase_add_loop_test(modes, modes_are_right_whatever_the_umask, 0, 2);
    return suite_run(suite);
}
