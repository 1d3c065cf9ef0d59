/* SPDX-License-Identifier: MIT */
/* WEIR_CONF: assignments on top of a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

static const char file[] = "weir: 1\n"
                           "defaults: {pool: frames}\n"
                           "pools:\n"
                           "  activations: {max_size: 1GiB, on_oom: {steps: [flush], deadline: 2s}}\n"
                           "  frames: {devices: [0]}\n"
                           "streams:\n"
                           "  decode: {pool: frames}\n";

static void expect(const char *overrides, const char *path, const char *text)
{
    struct policy *policy = data_parse(file, overrides);
    const char *is = data_value(policy, path);
    ck_assert_msg(is && strcmp(is, text) == 0, "'%s': %s is %s instead of %s", overrides, path, is ? is : "missing", text);
    policy_free(policy);
}

static void refuse(const char *overrides, const char *start, const char *words)
{
    char error[2048];
    data_parse_bad(file, overrides, error, sizeof(error));
    ck_assert_msg(strncmp(error, start, strlen(start)) == 0, "'%s': '%s' instead of '%s'", overrides, error, start);
    ck_assert_msg(strstr(error, words) != NULL, "'%s': '%s' lacks '%s'", overrides, error, words);
}

START_TEST(empty_overrides_change_nothing)
{
    expect("", "pools.activations.max_size", "1GiB");
    expect(" \t ", "pools.activations.max_size", "1GiB");
}
END_TEST

START_TEST(override_replaces_what_the_file_says)
{
    expect("pools.activations.max_size=4GiB", "pools.activations.max_size", "4GiB");
    expect("defaults.pool=activations", "defaults.pool", "activations");
    expect("streams.decode.pool=activations", "streams.decode.pool", "activations");
}
END_TEST

START_TEST(override_replaces_a_wrong_value_of_the_file)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {max_size: much}}\n", "pools.a.max_size=1GiB");
    ck_assert_str_eq(data_value(policy, "pools.a.max_size"), "1GiB");
    policy_free(policy);
}
END_TEST

START_TEST(override_sets_what_the_file_does_not_say)
{
    expect("capture=relaxed", "capture", "relaxed");
    expect("pools.frames.reuse.opportunistic=false", "pools.frames.reuse.opportunistic", "false");
    expect("streams.decode.private=true", "streams.decode.private", "true");
}
END_TEST

START_TEST(override_of_a_group_key_keeps_the_others)
{
    expect("pools.activations.on_oom.deadline=3s", "pools.activations.on_oom.steps", "[flush]");
    expect("pools.activations.on_oom={deadline: 3s}", "pools.activations.on_oom.steps", "[flush]");
    expect("pools.activations.on_oom={deadline: 3s}", "pools.activations.on_oom.deadline", "3s");
}
END_TEST

START_TEST(override_sets_a_group_that_the_file_does_not_have)
{
    expect("pools.frames.on_oom={steps: [wait], deadline: 3s}", "pools.frames.on_oom.steps", "[wait]");
}
END_TEST

START_TEST(commas_in_brackets_and_quotes_belong_to_the_value)
{
    expect("pools.frames.devices=[0,1],capture=relaxed", "pools.frames.devices", "[0, 1]");
    expect("pools.frames.on_oom={steps: [flush,wait],deadline: 3s},capture=relaxed", "capture", "relaxed");
    expect("defaults.pool='frames',capture=\"relaxed\"", "capture", "relaxed");
    expect("pools.frames.devices=[2,\"GPU-01234567-89ab-cdef-0123-456789abcdef\"]", "pools.frames.devices",
           "[2, GPU-01234567-89ab-cdef-0123-456789abcdef]");
    refuse("capture='a,b=[c'", "WEIR_CONF:1:1: capture: ", "'a,b=[c' is not known");
}
END_TEST

START_TEST(spaces_around_assignments_do_not_matter)
{
    expect("  capture = relaxed , pools.frames.max_size =  2GiB ", "pools.frames.max_size", "2GiB");
}
END_TEST

static void find_place(const struct policy_value *value, void *data)
{
    if (strcmp(value->path, "pools.frames.max_size") == 0)
        *(struct policy_value *)data = *value;
}

START_TEST(overridden_values_have_their_place_in_the_overrides)
{
    struct policy *policy = data_parse(file, "capture=relaxed, pools.frames.max_size=2GiB");
    struct policy_value value = {0};
    policy_each_value(policy, find_place, &value);
    ck_assert_str_eq(value.file, "WEIR_CONF");
    ck_assert_uint_eq(value.line, 1);
    ck_assert_uint_eq(value.column, 18);
    policy_free(policy);
}
END_TEST

START_TEST(wrong_value_is_reported_at_its_assignment)
{
    refuse("capture=relaxed,pools.frames.max_size=2G", "WEIR_CONF:1:17: pools.frames.max_size: ", "did you mean 'GiB'?");
    refuse("pools.frames.devices=[0,x]", "WEIR_CONF:1:1: pools.frames.devices: ", "'x' is not a device");
    refuse("defaults.pool=frame", "WEIR_CONF:1:1: defaults.pool: ", "did you mean 'frames'?");
}
END_TEST

START_TEST(columns_count_characters)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    const char *overrides = "capture='\xc3\xa4',pools.frames.current=1";
    ck_assert_int_eq(policy_parse(file, strlen(file), "test", overrides, &errors, &policy), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 2);
    ck_assert_uint_eq(errors.items[1].column, 13);
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(unknown_pool_or_stream_is_refused_with_the_nearest_name)
{
    refuse("pools.frame.max_size=1GiB",
           "WEIR_CONF:1:1: pools.frame: ", "there is no pool of that name to change; put it into the policy first; did you mean 'frames'?");
    refuse("streams.decoder.private=true", "WEIR_CONF:1:1: streams.decoder: ", "did you mean 'decode'?");
}
END_TEST

START_TEST(unknown_key_is_refused_with_the_nearest_name)
{
    refuse("pools.frames.maxsize=1GiB", "WEIR_CONF:1:1: pools.frames.maxsize: ", "did you mean 'max_size'?");
    refuse("kapture=relaxed", "WEIR_CONF:1:1: kapture: ", "did you mean 'capture'?");
    refuse("nothing.at.all=1", "WEIR_CONF:1:1: nothing: ", "unknown key");
}
END_TEST

START_TEST(combinations_are_checked_with_overrides)
{
    refuse("pools.activations.ipc=posix_fd,pools.activations.small_below=0",
           "WEIR_CONF:1:32: pools.activations.small_below: ", "does not go with ipc");
    refuse("pools.activations.initial_size=2GiB", "WEIR_CONF:1:1: pools.activations.initial_size: ", "more than max_size");
}
END_TEST

START_TEST(what_is_no_assignment_is_refused)
{
    refuse("capture", "WEIR_CONF:1:1: ", "not an assignment; write key=value");
    refuse("capture=relaxed,", "WEIR_CONF:1:17: ", "an assignment is missing between commas");
    refuse(",capture=relaxed", "WEIR_CONF:1:1: ", "an assignment is missing between commas");
    refuse("=relaxed", "WEIR_CONF:1:1: ", "is not one key");
    refuse("pools.frames.=1", "WEIR_CONF:1:1: pools.frames: ", "is not one key");
}
END_TEST

START_TEST(whole_objects_are_refused)
{
    refuse("pools={}", "WEIR_CONF:1:1: pools: ", "is not one key; write the whole path");
    refuse("pools.frames={}", "WEIR_CONF:1:1: pools.frames: ", "is not one key");
    refuse("streams=[]", "WEIR_CONF:1:1: streams: ", "is not one key");
    refuse("streams.new={}", "WEIR_CONF:1:1: streams.new: ", "is not one key");
}
END_TEST

START_TEST(empty_value_is_refused)
{
    refuse("capture=", "WEIR_CONF:1:1: capture: ", "has no value; write one behind '='");
    refuse("capture=~", "WEIR_CONF:1:1: capture: ", "has no value; write caller or relaxed");
    refuse("capture=#relaxed", "WEIR_CONF:1:1: capture: ", "has no value; write one behind '='");
}
END_TEST

START_TEST(quotes_are_those_of_yaml)
{
    static const char *const values[][2] = {
        {"/tmp/it's", "/tmp/it's"},       {"it's, capture=relaxed", "it's"},   {"say \"so\"", "say \"so\""},
        {"'it''s, so'", "it's, so"},      {"'', capture=relaxed", ""},         {"\"a\\\",b\"", "a\",b"},
        {"\"a\\\\\", capture=relaxed", "a\\"}, {"'a\\', capture=relaxed", "a\\"}, {"a # it's, capture=relaxed", "a"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char assignments[128];
        snprintf(assignments, sizeof assignments, "record.file=%s", values[i][0]);
        if (values[i][1][0])
            expect(assignments, "record.file", values[i][1]);
        else
            refuse(assignments, "WEIR_CONF:1:1: record.file: ", "1 to 1023 bytes, this one has 0");
    }
    expect("record={file: it's, level: all}", "record.file", "it's");
    expect("record={file: 'a,b', level: \"all\"},capture=relaxed", "capture", "relaxed");
}
END_TEST

START_TEST(open_brackets_and_quotes_are_refused)
{
    refuse("pools.frames.devices=[0", "WEIR_CONF:1:1: ", "a bracket or quote is left open");
    refuse("capture='relaxed", "WEIR_CONF:1:1: ", "a bracket or quote is left open");
    refuse("pools.frames.devices=0]", "WEIR_CONF:1:1: ", "a bracket is closed that was not opened");
    refuse("pools.frames.devices=[0}", "WEIR_CONF:1:1: ", "this is not YAML");
}
END_TEST

START_TEST(yaml_that_policies_refuse_is_refused)
{
    refuse("capture=*a", "WEIR_CONF:1:1: capture: ", "aliases");
    refuse("capture=&a relaxed", "WEIR_CONF:1:1: capture: ", "anchors");
    refuse("capture=!t relaxed", "WEIR_CONF:1:1: capture: ", "tags");
    refuse("capture=\"\\0\"", "WEIR_CONF:1:1: capture: ", "NUL");
    refuse("capture=\xff", "WEIR_CONF:1:1: ", "not valid UTF-8");
    refuse("pools.frames.on_oom={deadline: 1s, deadline: 2s}", "WEIR_CONF:1:1: pools.frames.on_oom.deadline: ", "second time");
}
END_TEST

START_TEST(key_set_twice_is_refused)
{
    refuse("capture=relaxed,capture=caller",
           "WEIR_CONF:1:17: capture: ", "is set a second time (first in column 1); remove one of the two");
    refuse("pools.frames.on_oom.deadline=1s,pools.frames.on_oom={deadline: 2s}",
           "WEIR_CONF:1:33: pools.frames.on_oom.deadline: ", "second time");
}
END_TEST

START_TEST(key_with_too_many_parts_is_refused)
{
    refuse("defaults.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r=1", "WEIR_CONF:1:1: ", "no key has so many parts");
}
END_TEST

START_TEST(override_below_a_value_leaves_the_error_to_the_file)
{
    char error[2048];
    data_parse_bad("weir: 1\npools: {a: {on_oom: 5s}}\n", "pools.a.on_oom.deadline=1s", error, sizeof(error));
    ck_assert_ptr_eq(strstr(error, "test:2:21: pools.a.on_oom: is a value"), error);
}
END_TEST

START_TEST(override_below_a_good_value_is_refused)
{
    refuse("pools.activations.max_size.x=1GiB", "WEIR_CONF:1:1: pools.activations.max_size: ", "has no keys below it; write bytes");
    refuse("capture=relaxed,capture.x=1", "WEIR_CONF:1:17: capture: ", "has no keys below it; write caller or relaxed");
    refuse("streams.decode.pool.x.y=1", "WEIR_CONF:1:1: streams.decode.pool: ", "has no keys below it");
}
END_TEST

START_TEST(overrides_say_nothing_on_a_file_that_is_no_policy)
{
    char error[2048];
    data_parse_bad("- weir\n", "pools.nothing.max_size=1", error, sizeof(error));
    ck_assert_ptr_eq(strstr(error, "test:1:1: a policy is a mapping"), error);
    data_parse_bad("weir: 1\npools: {a: {}\n", "pools.behind.max_size=1", error, sizeof(error));
    ck_assert_ptr_nonnull(strstr(error, "this is not YAML"));
}
END_TEST

START_TEST(every_wrong_override_is_reported)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    const char *overrides = "kapture=relaxed,nothing,pools.none.max_size=1,capture=relaxed,pools.frames.max_size=-1";
    ck_assert_int_eq(policy_parse(file, strlen(file), "test", overrides, &errors, &policy), POLICY_BAD);
    static const unsigned columns[] = {1, 17, 25, 63};
    ck_assert_uint_eq(errors.count, 4);
    for (size_t i = 0; i < errors.count; i++)
        ck_assert_uint_eq(errors.items[i].column, columns[i]);
    policy_errors_clear(&errors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy overrides");
    TCase *good = suite_case(suite, "good", 0);
    suite_add(good, empty_overrides_change_nothing, override_replaces_what_the_file_says, override_replaces_a_wrong_value_of_the_file,
              override_sets_what_the_file_does_not_say, override_of_a_group_key_keeps_the_others,
              override_sets_a_group_that_the_file_does_not_have, commas_in_brackets_and_quotes_belong_to_the_value,
              spaces_around_assignments_do_not_matter, overridden_values_have_their_place_in_the_overrides);
    TCase *bad = suite_case(suite, "bad", 0);
    suite_add(bad, wrong_value_is_reported_at_its_assignment, columns_count_characters,
              unknown_pool_or_stream_is_refused_with_the_nearest_name, unknown_key_is_refused_with_the_nearest_name,
              combinations_are_checked_with_overrides, what_is_no_assignment_is_refused, whole_objects_are_refused, empty_value_is_refused,
              quotes_are_those_of_yaml, open_brackets_and_quotes_are_refused, yaml_that_policies_refuse_is_refused, key_set_twice_is_refused,
              key_with_too_many_parts_is_refused, override_below_a_value_leaves_the_error_to_the_file,
              override_below_a_good_value_is_refused, overrides_say_nothing_on_a_file_that_is_no_policy, every_wrong_override_is_reported);
    return suite_run(suite);
}
