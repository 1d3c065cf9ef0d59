/* SPDX-License-Identifier: MIT */
/* Where a policy comes from, and what can be read. Each test has a folder of its own for its files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

static char folder[64];
static struct policy_errors errors;
static struct policy *policy;

static void path_of(char *path, size_t len, const char *name)
{
    snprintf(path, len, "%s/%s", folder, name);
}

/* Makes a policy whose only pool has the given name, so that one can see which file was read. */
static void write_policy(const char *name, const char *pool)
{
    char path[256];
    path_of(path, sizeof(path), name);
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    fprintf(stream, "weir: 1\npools: {%s: {}}\n", pool);
    ck_assert_int_eq(fclose(stream), 0);
}

static void make_folder(const char *name)
{
    char path[256];
    path_of(path, sizeof(path), name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void set_up(void)
{
    strcpy(folder, "/tmp/weir-load-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    unsetenv("WEIR_POLICY");
    unsetenv("WEIR_POLICY_DIR");
    unsetenv("WEIR_CONF");
    setenv("XDG_CONFIG_HOME", folder, 1);
    setenv("HOME", "/nonexistent", 1);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    policy_errors_clear(&errors);
    policy_free(policy);
    policy = NULL;
}

/* Loads, and checks which pool came of it. */
static void expect_pool(const char *argument, const char *pool)
{
    ck_assert_int_eq(policy_load(argument, &errors, &policy), POLICY_OK);
    ck_assert_str_eq(policy->pools[0].name, pool);
}

static void refuse(const char *argument, enum policy_status status, const char *words)
{
    ck_assert_int_eq(policy_load(argument, &errors, &policy), status);
    ck_assert_ptr_null(policy);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_msg(strstr(errors.items[0].message, words) != NULL, "'%s' lacks '%s'", errors.items[0].message, words);
    ck_assert_uint_eq(errors.items[0].line, 0);
}

START_TEST(argument_comes_first)
{
    char path[256];
    write_policy("argument.yaml", "argument");
    write_policy("environment.yaml", "environment");
    path_of(path, sizeof(path), "environment.yaml");
    setenv("WEIR_POLICY", path, 1);
    path_of(path, sizeof(path), "argument.yaml");
    expect_pool(path, "argument");
    ck_assert_str_eq(policy->file, path);
}
END_TEST

START_TEST(environment_comes_second)
{
    char path[256];
    make_folder("weir");
    write_policy("weir/policy.yaml", "user");
    write_policy("environment.yaml", "environment");
    path_of(path, sizeof(path), "environment.yaml");
    setenv("WEIR_POLICY", path, 1);
    expect_pool(NULL, "environment");
}
END_TEST

START_TEST(empty_environment_variable_names_no_file)
{
    make_folder("weir");
    write_policy("weir/policy.yaml", "user");
    setenv("WEIR_POLICY", "", 1);
    expect_pool(NULL, "user");
}
END_TEST

START_TEST(xdg_config_home_comes_third)
{
    make_folder("weir");
    write_policy("weir/policy.yaml", "user");
    expect_pool(NULL, "user");
}
END_TEST

START_TEST(home_stands_in_for_xdg_config_home)
{
    make_folder(".config");
    make_folder(".config/weir");
    write_policy(".config/weir/policy.yaml", "home");
    setenv("HOME", folder, 1);
    unsetenv("XDG_CONFIG_HOME");
    expect_pool(NULL, "home");
}
END_TEST

START_TEST(relative_xdg_config_home_is_ignored)
{
    make_folder(".config");
    make_folder(".config/weir");
    write_policy(".config/weir/policy.yaml", "home");
    setenv("HOME", folder, 1);
    setenv("XDG_CONFIG_HOME", "relative", 1);
    expect_pool(NULL, "home");
}
END_TEST

/* The rest of the search ends at the system's file, if this machine has one. */
static bool has_system_file(void)
{
    return access("/etc/weir/policy.yaml", F_OK) == 0;
}

START_TEST(builtin_policy_comes_last)
{
    if (has_system_file())
        return;
    expect_pool(NULL, "default");
    ck_assert_str_eq(policy->file, "built-in");
}
END_TEST

START_TEST(builtin_policy_holds_without_any_home)
{
    if (has_system_file())
        return;
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    expect_pool(NULL, "default");
}
END_TEST

START_TEST(file_in_place_of_the_users_folder_is_passed_over)
{
    if (has_system_file())
        return;
    write_policy("weir", "folder");
    expect_pool(NULL, "default");
}
END_TEST

START_TEST(overrides_apply_to_a_file)
{
    make_folder("weir");
    write_policy("weir/policy.yaml", "user");
    setenv("WEIR_CONF", "pools.user.max_size=1GiB", 1);
    expect_pool(NULL, "user");
    ck_assert_uint_eq(policy->pools[0].max_size.value, 1 << 30);
}
END_TEST

START_TEST(overrides_apply_to_the_builtin_policy)
{
    if (has_system_file())
        return;
    setenv("WEIR_CONF", "pools.default.max_size=1GiB", 1);
    expect_pool(NULL, "default");
    struct policy_place place = policy_pool_place(policy, &policy->pools[0], "max_size");
    ck_assert_str_eq(place.file, "WEIR_CONF");
    ck_assert_uint_eq(place.column, 1);
}
END_TEST

START_TEST(errors_of_a_file_name_it)
{
    char path[256];
    write_policy("bad.yaml", "a: {}, 1");
    path_of(path, sizeof(path), "bad.yaml");
    ck_assert_int_eq(policy_load(path, &errors, &policy), POLICY_BAD);
    ck_assert_str_eq(errors.items[0].file, path);
}
END_TEST

START_TEST(missing_argument_is_unreadable)
{
    char path[256];
    path_of(path, sizeof(path), "none.yaml");
    refuse(path, POLICY_UNREADABLE, "No such file or directory");
}
END_TEST

/* Names, and what is none though it looks like one. */
static const struct {
    const char *asked;
    bool is_name;
} names[] = {
    {"inference", true}, {"multi-gpu", true}, {"A100", true},    {"0", true},       {"trailing-", true}, {"", false},
    {"-", false},        {"-x", false},       {"./x", false},    {"x/y", false},    {"..", false},       {"x.yaml", false},
    {"x.yml", false},    {"x_y", false},      {"x y", false},    {"x\n", false},    {"\303\244", false}, {"inference.", false},
};

START_TEST(name_is_letters_digits_and_dashes)
{
    ck_assert_msg(policy_is_name(names[_i].asked) == names[_i].is_name, "'%s'", names[_i].asked);
}
END_TEST

START_TEST(name_is_found_in_the_folder_of_the_environment_and_not_in_the_current_one)
{
    char path[256];
    make_folder("named");
    write_policy("named/work.yaml", "installed");
    write_policy("work", "here");
    write_policy("other", "here");
    path_of(path, sizeof(path), "named");
    setenv("WEIR_POLICY_DIR", path, 1);
    ck_assert_int_eq(chdir(folder), 0);
    expect_pool("work", "installed");
    path_of(path, sizeof(path), "named/work.yaml");
    ck_assert_str_eq(policy->file, path);
    policy_free(policy);
    policy = NULL;
    setenv("WEIR_POLICY", "work", 1);
    expect_pool(NULL, "installed");
    policy_free(policy);
    policy = NULL;
    expect_pool("./other", "here");
    policy_free(policy);
    policy = NULL;
    write_policy("named/B-2.yaml", "installed");
    write_policy("named/.hidden.yaml", "installed");
    write_policy("named/no_name.yaml", "installed");
    write_policy("named/notes.txt", "installed");
    refuse("other", POLICY_UNREADABLE, "has this name; there are B-2, work; a file is named with its folder, as in ./other");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(folder_without_policies_is_named_with_the_remedy)
{
    setenv("WEIR_POLICY_DIR", "/nonexistent", 1);
    refuse("work", POLICY_UNREADABLE, "no policy is installed in /nonexistent; set WEIR_POLICY_DIR to the folder that has them");
}
END_TEST

START_TEST(relative_folder_of_policies_is_refused)
{
    make_folder("named");
    write_policy("named/fhqwhgads.yaml", "relative");
    setenv("WEIR_POLICY_DIR", "named", 1);
    ck_assert_int_eq(chdir(folder), 0);
    refuse("fhqwhgads", POLICY_UNREADABLE, "WEIR_POLICY_DIR is 'named', which is no absolute path");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(empty_argument_is_unreadable)
{
    refuse("", POLICY_UNREADABLE, "No such file or directory");
}
END_TEST

START_TEST(missing_file_of_the_environment_is_unreadable)
{
    setenv("WEIR_POLICY", "/nonexistent/policy.yaml", 1);
    refuse(NULL, POLICY_UNREADABLE, "No such file or directory");
}
END_TEST

START_TEST(directory_is_unreadable)
{
    refuse(folder, POLICY_UNREADABLE, "is a directory; name the policy file itself");
}
END_TEST

START_TEST(directory_in_place_of_the_users_file_is_unreadable)
{
    make_folder("weir");
    make_folder("weir/policy.yaml");
    refuse(NULL, POLICY_UNREADABLE, "is a directory");
}
END_TEST

START_TEST(pipe_is_unreadable_and_does_not_block)
{
    char path[256];
    path_of(path, sizeof(path), "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refuse(path, POLICY_UNREADABLE, "is a pipe");
}
END_TEST

START_TEST(device_is_unreadable)
{
    refuse("/dev/null", POLICY_UNREADABLE, "is not a regular file");
}
END_TEST

START_TEST(loop_of_links_is_unreadable)
{
    char path[256];
    make_folder("weir");
    path_of(path, sizeof(path), "weir/policy.yaml");
    ck_assert_int_eq(symlink("policy.yaml", path), 0);
    refuse(NULL, POLICY_UNREADABLE, strerror(ELOOP));
}
END_TEST

START_TEST(file_that_cannot_be_read_is_unreadable)
{
    /* Opening it succeeds, reading at its start does not, whoever asks. */
    refuse("/proc/self/mem", POLICY_UNREADABLE, strerror(EIO));
}
END_TEST

START_TEST(file_of_more_than_a_mebibyte_is_refused)
{
    char path[256];
    write_policy("large.yaml", "a");
    path_of(path, sizeof(path), "large.yaml");
    ck_assert_int_eq(truncate(path, POLICY_FILE_MAX + 1), 0);
    refuse(path, POLICY_BAD, "is larger than 1048576 bytes");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy load");
    TCase *search = suite_case(suite, "search", 0);
    tcase_add_checked_fixture(search, set_up, tear_down);
    suite_add(search, argument_comes_first, environment_comes_second, empty_environment_variable_names_no_file, xdg_config_home_comes_third,
              home_stands_in_for_xdg_config_home, relative_xdg_config_home_is_ignored, builtin_policy_comes_last,
              builtin_policy_holds_without_any_home, file_in_place_of_the_users_folder_is_passed_over, overrides_apply_to_a_file,
              overrides_apply_to_the_builtin_policy, errors_of_a_file_name_it);
    TCase *unreadable = suite_case(suite, "unreadable", 0);
    tcase_add_checked_fixture(unreadable, set_up, tear_down);
    suite_add(unreadable, missing_argument_is_unreadable, empty_argument_is_unreadable, missing_file_of_the_environment_is_unreadable,
              directory_is_unreadable, directory_in_place_of_the_users_file_is_unreadable, pipe_is_unreadable_and_does_not_block,
              device_is_unreadable, loop_of_links_is_unreadable, file_that_cannot_be_read_is_unreadable,
              file_of_more_than_a_mebibyte_is_refused);
    TCase *named = suite_case(suite, "named", 0);
    tcase_add_checked_fixture(named, set_up, tear_down);
    tcase_add_loop_test(named, name_is_letters_digits_and_dashes, 0, (int)(sizeof(names) / sizeof(names[0])));
    suite_add(named, name_is_found_in_the_folder_of_the_environment_and_not_in_the_current_one, folder_without_policies_is_named_with_the_remedy,
              relative_folder_of_policies_is_refused);
    return suite_run(suite);
}
