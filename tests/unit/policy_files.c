/* SPDX-License-Identifier: MIT */
/* The files under tests/unit/policies: every bad one gets exactly the errors that its first lines expect, every good one its values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

/* Bad files ---------------------------------------------------------------------------------------------------------------------------- */

/* "4:22 pools.a.ipc: some words" */
static void check_error(const struct data_file *file, const char *expected, const struct policy_error *error)
{
    unsigned line, column;
    int used = 0;
    ck_assert_msg(sscanf(expected, "%u:%u%n", &line, &column, &used) == 2, "%s: cannot read '%s'", file->name, expected);
    const char *path = expected + used + (expected[used] == ' '), *words = strstr(path, ": ");
    ck_assert_msg(words != NULL, "%s: no words in '%s'", file->name, expected);
    size_t path_len = (size_t)(words - path);
    words += 2;
    ck_assert_msg(error->line == line && error->column == column, "%s: %u:%u instead of %s", file->name, error->line, error->column,
                  expected);
    ck_assert_msg(strlen(error->path) == path_len && strncmp(error->path, path, path_len) == 0, "%s: path '%s' instead of %s", file->name,
                  error->path, expected);
    ck_assert_msg(strstr(error->message, words) != NULL, "%s: '%s' instead of %s", file->name, error->message, expected);
    ck_assert_str_eq(error->file, file->name);
}

static void check_bad(const struct data_file *file)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    ck_assert_msg(policy_parse(file->text, file->len, file->name, NULL, &errors, &policy) == POLICY_BAD, "%s is not bad", file->name);
    ck_assert_ptr_null(policy);
    char expected[1024];
    size_t count = 0;
    for (; data_line(file, "# expect ", count, expected, sizeof(expected)); count++) {
        ck_assert_msg(count < errors.count, "%s: missing: %s", file->name, expected);
        check_error(file, expected, &errors.items[count]);
    }
    ck_assert_msg(count > 0, "%s expects nothing", file->name);
    ck_assert_msg(count == errors.count, "%s: one more: %s: %s", file->name, errors.items[count].path, errors.items[count].message);
    policy_errors_clear(&errors);
}

START_TEST(bad_files_get_exactly_their_errors)
{
    ck_assert_uint_ge(data_each("bad", check_bad), 60);
}
END_TEST

static void check_bad_with_overrides(const struct data_file *file)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    policy_parse(file->text, file->len, file->name, "capture=nothing", &errors, &policy);
    ck_assert_ptr_null(policy);
    for (size_t i = 1; i < errors.count; i++)
        ck_assert_msg(strcmp(errors.items[i - 1].file, "WEIR_CONF") != 0, "%s: an error of the file behind one of WEIR_CONF", file->name);
    policy_errors_clear(&errors);
}

START_TEST(errors_of_overrides_stand_behind_those_of_the_file)
{
    data_each("bad", check_bad_with_overrides);
}
END_TEST

/* Good files --------------------------------------------------------------------------------------------------------------------------- */

static void check_good(const struct data_file *file)
{
    struct policy *policy = data_parse(file->text, NULL);
    char expected[1024];
    size_t count = 0;
    for (; data_line(file, "# value ", count, expected, sizeof(expected)); count++) {
        char *text = strstr(expected, " = ");
        ck_assert_msg(text != NULL, "%s: no value in '%s'", file->name, expected);
        *text = '\0';
        text += 3;
        const char *is = data_value(policy, expected);
        ck_assert_msg(is && strcmp(is, text) == 0, "%s: %s is %s instead of %s", file->name, expected, is ? is : "missing", text);
    }
    ck_assert_msg(count > 0, "%s shows no value", file->name);
    policy_free(policy);
}

START_TEST(good_files_have_their_values)
{
    ck_assert_uint_ge(data_each("good", check_good), 10);
}
END_TEST

static void check_self(const struct data_file *file)
{
    struct policy *policy = data_parse(file->text, NULL);
    struct policy_errors errors = {0};
    ck_assert_int_eq(policy_compare(policy, policy, &errors), POLICY_OK);
    policy_free(policy);
}

START_TEST(good_files_do_not_differ_from_themselves)
{
    data_each("good", check_self);
}
END_TEST

/* Every value that a file sets, as assignments. */
static char shown[64 * 1024];

static void show_set(const struct policy_value *value, void *data)
{
    (void)data;
    size_t used = strlen(shown);
    if (value->file)
        snprintf(shown + used, sizeof(shown) - used, "%s%s=%s", used ? "," : "", value->path, value->text);
}

static void check_same(const struct policy_value *value, void *data)
{
    const char *again = data_value(data, value->path);
    ck_assert_msg(again && strcmp(again, value->text) == 0, "%s was %s and is %s", value->path, value->text, again ? again : "missing");
}

static void check_round_trip(const struct data_file *file)
{
    struct policy *policy = data_parse(file->text, NULL);
    shown[0] = '\0';
    policy_each_value(policy, show_set, NULL);
    struct policy *again = data_parse(file->text, shown);
    policy_each_value(policy, check_same, again);
    policy_free(again);
    policy_free(policy);
}

START_TEST(shown_values_read_back_the_same)
{
    data_each("good", check_round_trip);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy files");
    TCase *files = suite_case(suite, "files", 0);
    suite_add(files, bad_files_get_exactly_their_errors, errors_of_overrides_stand_behind_those_of_the_file, good_files_have_their_values,
              good_files_do_not_differ_from_themselves, shown_values_read_back_the_same);
    return suite_run(suite);
}
