/* SPDX-License-Identifier: MIT */
/* policy_override(): assignments on top of a policy that was read already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

static const char file[] = "weir: 1\n"
                           "defaults: {pool: work}\n"
                           "pools:\n"
                           "  work: {max_size: 8GiB, cache: {per_stream: 2MiB}}\n"
                           "  frames: {cache: off}\n";

/* The policy with the assignments on top; the former one is freed. */
static struct policy *set(struct policy *before, const char *assignments)
{
    struct policy_errors errors = {0};
    struct policy *after = NULL;
    enum policy_status status = policy_override(before, assignments, &errors, &after);
    ck_assert_msg(status == POLICY_OK, "'%s': %s: %s", assignments, errors.count ? errors.items[0].path : "",
                  errors.count ? errors.items[0].message : "no error");
    policy_free(before);
    return after;
}

static void expect(const struct policy *policy, const char *path, const char *text)
{
    const char *is = data_value(policy, path);
    ck_assert_msg(is && strcmp(is, text) == 0, "%s is %s instead of %s", path, is ? is : "missing", text);
}

static void refuse(const struct policy *before, const char *assignments, const char *start, const char *words)
{
    struct policy_errors errors = {0};
    struct policy *after = NULL;
    char error[2048];
    ck_assert_int_eq(policy_override(before, assignments, &errors, &after), POLICY_BAD);
    ck_assert_ptr_null(after);
    ck_assert_uint_eq(errors.count, 1);
    policy_error_format(&errors.items[0], error, sizeof(error));
    ck_assert_msg(strncmp(error, start, strlen(start)) == 0, "'%s': '%s' instead of '%s'", assignments, error, start);
    ck_assert_msg(strstr(error, words) != NULL, "'%s': '%s' lacks '%s'", assignments, error, words);
    policy_errors_clear(&errors);
}

static void find_place(const struct policy_value *value, void *data)
{
    if (strcmp(value->path, "pools.work.max_size") == 0)
        *(struct policy_value *)data = *value;
}

/* Where the policy has pools.work.max_size from. */
static struct policy_value place_of_cap(const struct policy *policy)
{
    struct policy_value value = {0};
    policy_each_value(policy, find_place, &value);
    return value;
}

START_TEST(assignment_replaces_what_the_file_says)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.work.max_size=4GiB");
    expect(policy, "pools.work.max_size", "4GiB");
    expect(policy, "pools.work.cache.per_stream", "2MiB");
    policy_free(policy);
}
END_TEST

START_TEST(assignment_replaces_what_the_environment_said)
{
    struct policy *policy = set(data_parse(file, "pools.work.max_size=6GiB,pools.work.keep=1GiB"), "pools.work.max_size=4GiB");
    expect(policy, "pools.work.max_size", "4GiB");
    expect(policy, "pools.work.keep", "1GiB");
    policy_free(policy);
}
END_TEST

START_TEST(later_assignment_replaces_an_earlier_one)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.work.max_size=4GiB,pools.work.keep=1GiB");
    policy = set(policy, "pools.work.max_size=5GiB");
    expect(policy, "pools.work.max_size", "5GiB");
    expect(policy, "pools.work.keep", "1GiB");
    policy_free(policy);
}
END_TEST

START_TEST(every_earlier_assignment_is_kept)
{
    struct policy *policy = set(data_parse(file, "pools.work.on_oom.deadline=3s"), "pools.work.keep=1GiB");
    policy = set(policy, "pools.frames.keep=2GiB");
    policy = set(policy, "pools.work.max_size=5GiB");
    expect(policy, "pools.work.on_oom.deadline", "3s");
    expect(policy, "pools.work.keep", "1GiB");
    expect(policy, "pools.frames.keep", "2GiB");
    expect(policy, "pools.work.max_size", "5GiB");
    policy_free(policy);
}
END_TEST

START_TEST(policy_before_is_left_as_it_was)
{
    struct policy *before = data_parse(file, NULL), *after = NULL;
    struct policy_errors errors = {0};
    ck_assert_int_eq(policy_override(before, "pools.work.max_size=4GiB", &errors, &after), POLICY_OK);
    expect(before, "pools.work.max_size", "8GiB");
    policy_free(before);
    expect(after, "pools.work.max_size", "4GiB");
    policy_free(after);
}
END_TEST

START_TEST(policy_does_not_need_the_text_that_it_was_parsed_from)
{
    char *text = strdup(file), *overrides = strdup("pools.work.keep=1GiB");
    struct policy *policy = data_parse(text, overrides);
    free(memset(text, '#', strlen(text)));
    free(memset(overrides, '#', strlen(overrides)));
    policy = set(policy, "pools.work.max_size=4GiB");
    expect(policy, "pools.work.cache.per_stream", "2MiB");
    expect(policy, "pools.work.keep", "1GiB");
    policy_free(policy);
}
END_TEST

START_TEST(builtin_policy_can_be_set)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    const char *text = policy_builtin_text();
    ck_assert_int_eq(policy_parse(text, strlen(text), "built-in", NULL, &errors, &policy), POLICY_OK);
    policy = set(policy, "pools.default.keep=1GiB");
    expect(policy, "pools.default.keep", "1GiB");
    ck_assert_str_eq(policy->file, "built-in");
    ck_assert_uint_eq(policy_pool_place(policy, &policy->pools[0], "release_threshold").line, 0);
    policy_free(policy);
}
END_TEST

START_TEST(value_that_was_set_has_its_place_in_the_assignments)
{
    struct policy *policy = set(data_parse(file, "pools.work.max_size=6GiB"), "pools.work.keep=1GiB, pools.work.max_size=4GiB");
    const struct policy_value value = place_of_cap(policy);
    ck_assert_str_eq(value.file, "weir set");
    ck_assert_uint_eq(value.line, 1);
    ck_assert_uint_eq(value.column, 23);
    policy_free(policy);
}
END_TEST

START_TEST(value_of_the_environment_keeps_its_place)
{
    struct policy *policy = set(data_parse(file, "pools.work.max_size=6GiB"), "pools.work.keep=1GiB");
    ck_assert_str_eq(place_of_cap(policy).file, "WEIR_CONF");
    policy_free(policy);
}
END_TEST

START_TEST(cache_can_be_switched_back_and_forth)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.work.cache=off");
    expect(policy, "pools.work.cache", "off");
    policy = set(policy, "pools.work.cache.idle=7s");
    expect(policy, "pools.work.cache.idle", "7s");
    policy = set(policy, "pools.work.cache=off");
    expect(policy, "pools.work.cache", "off");
    policy_free(policy);
}
END_TEST

START_TEST(keys_that_an_earlier_assignment_removed_stay_away)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.work.cache=off");
    policy = set(policy, "pools.work.cache.idle=7s");
    policy = set(policy, "pools.work.keep=1GiB");
    expect(policy, "pools.work.cache.per_stream", "64MiB"); /* the default, and not what the file says */
    policy_free(policy);
}
END_TEST

START_TEST(cache_that_was_switched_on_by_a_key_that_is_set_again_stays_on)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.frames.cache.idle=7s");
    policy = set(policy, "pools.frames.cache.idle=8s");
    policy = set(policy, "pools.work.keep=1GiB");
    expect(policy, "pools.frames.cache.idle", "8s");
    policy_free(policy);
}
END_TEST

START_TEST(error_names_the_assignment)
{
    struct policy *policy = data_parse(file, NULL);
    refuse(policy, "pools.work.keep=1GiB,pools.work.max_size=much", "weir set:1:22: pools.work.max_size: ", "much");
    refuse(policy, "pools.works.max_size=1GiB", "weir set:1:1: pools.works: ", "did you mean 'work'?");
    refuse(policy, "pools.work.max_size", "weir set:1:1: ", "not an assignment");
    policy_free(policy);
}
END_TEST

START_TEST(key_set_twice_at_a_time_is_refused)
{
    struct policy *policy = set(data_parse(file, NULL), "pools.work.max_size=4GiB");
    refuse(policy, "pools.work.max_size=1GiB,pools.work.max_size=2GiB", "weir set:1:26: pools.work.max_size: ", "a second time");
    policy_free(policy);
}
END_TEST

START_TEST(combination_with_the_file_is_checked)
{
    struct policy *policy = data_parse(file, NULL);
    refuse(policy, "pools.work.initial_size=9GiB", "weir set:1:1: pools.work.initial_size: ", "more than max_size");
    policy_free(policy);
}
END_TEST

START_TEST(setting_a_key_again_and_again_takes_no_memory)
{
    struct policy *policy = data_parse(file, NULL);
    char text[128];
    for (unsigned i = 1; i <= 2 * POLICY_SET_MAX / 64; i++) {
        snprintf(text, sizeof(text), "pools.work.max_size = %uMiB, pools.work.cache.idle = %us, pools.frames.keep = 1MiB", 1024 + i % 7,
                 5 + i % 3);
        policy = set(policy, text);
    }
    policy_free(policy);
}
END_TEST

START_TEST(assignments_that_are_too_long_are_refused_with_the_remedy)
{
    static char text[POLICY_SET_MAX + 2];
    struct policy *policy = set(data_parse(file, NULL), "pools.work.keep=1GiB");
    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, "keeper=true", strlen("keeper=true"));
    refuse(policy, text, "weir set: ", "is larger than 65536 bytes; write it into the policy and reload that");
    text[POLICY_SET_MAX] = '\0';
    policy = set(policy, text);
    expect(policy, "keeper", "true");
    expect(policy, "pools.work.keep", "1GiB");
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy set");
    TCase *good = suite_case(suite, "good", 0);
    suite_add(good, assignment_replaces_what_the_file_says, assignment_replaces_what_the_environment_said,
              later_assignment_replaces_an_earlier_one, every_earlier_assignment_is_kept, policy_before_is_left_as_it_was,
              policy_does_not_need_the_text_that_it_was_parsed_from, builtin_policy_can_be_set,
              value_that_was_set_has_its_place_in_the_assignments, value_of_the_environment_keeps_its_place,
              cache_can_be_switched_back_and_forth, keys_that_an_earlier_assignment_removed_stay_away,
              cache_that_was_switched_on_by_a_key_that_is_set_again_stays_on, setting_a_key_again_and_again_takes_no_memory);
    TCase *bad = suite_case(suite, "bad", 0);
    suite_add(bad, error_names_the_assignment, key_set_twice_at_a_time_is_refused, combination_with_the_file_is_checked,
              assignments_that_are_too_long_are_refused_with_the_remedy);
    return suite_run(suite);
}
