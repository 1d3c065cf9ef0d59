/* SPDX-License-Identifier: MIT */
/* The keys of the stream caches: the switch and the mapping that stand for each other, with and without WEIR_CONF on top. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

/* One pool, "a", whose cache is as written. */
static char *text_of(const char *cache)
{
    static char text[512];
    snprintf(text, sizeof(text), "weir: 1\npools:\n  a: {%s%s}\n", cache ? "cache: " : "", cache ? cache : "");
    return text;
}

static struct policy *parse(const char *cache, const char *overrides)
{
    return data_parse(text_of(cache), overrides);
}

static void refuse(const char *cache, const char *overrides, const char *start, const char *words)
{
    char error[2048];
    data_parse_bad(text_of(cache), overrides, error, sizeof(error));
    ck_assert_msg(strncmp(error, start, strlen(start)) == 0, "'%s': '%s' instead of '%s'", overrides, error, start);
    ck_assert_msg(strstr(error, words) != NULL, "'%s': '%s' lacks '%s'", overrides, error, words);
}

/* What the pool shows of its caches: each key behind "pools.a." with its value. */
struct shown {
    char text[512];
    size_t len;
};

static void add_shown(const struct policy_value *value, void *data)
{
    struct shown *shown = data;
    if (strncmp(value->path, "pools.a.cache", 13) == 0)
        shown->len += (size_t)snprintf(shown->text + shown->len, sizeof(shown->text) - shown->len, "%s=%s ", value->path + 8, value->text);
}

static void expect(const char *cache, const char *overrides, const char *expected)
{
    struct shown shown = {0};
    struct policy *policy = parse(cache, overrides);
    policy_each_value(policy, add_shown, &shown);
    ck_assert_str_eq(shown.text, expected);
    ck_assert_int_eq(policy->pools[0].cache, strcmp(expected, "cache=off ") != 0);
    policy_free(policy);
}

#define DEFAULTS "cache.per_stream=64MiB cache.per_device=512MiB cache.largest=1MiB cache.idle=10s cache.capture_check=true "

/* In the file -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(caches_are_on_unless_something_else_is_written)
{
    expect(NULL, NULL, DEFAULTS);
}
END_TEST

START_TEST(off_and_false_show_as_off_alone)
{
    expect("off", NULL, "cache=off ");
    expect("false", NULL, "cache=off ");
}
END_TEST

START_TEST(on_and_true_and_an_empty_mapping_are_the_defaults)
{
    expect("on", NULL, DEFAULTS);
    expect("true", NULL, DEFAULTS);
    expect("{}", NULL, DEFAULTS);
}
END_TEST

START_TEST(mapping_sets_the_keys_that_it_has)
{
    expect("{largest: 4KiB, capture_check: false}", NULL,
           "cache.per_stream=64MiB cache.per_device=512MiB cache.largest=4KiB cache.idle=10s cache.capture_check=false ");
}
END_TEST

START_TEST(keys_that_are_off_have_their_defaults)
{
    struct policy *policy = parse("off", NULL);
    ck_assert_uint_eq(policy->pools[0].cache_per_stream, 64 << 20);
    ck_assert_uint_eq(policy->pools[0].cache_idle, UINT64_C(10000000000));
    policy_free(policy);
}
END_TEST

START_TEST(switch_has_the_place_of_what_stands_there)
{
    struct policy *policy = parse("{idle: 5s}", NULL);
    struct policy_place place = policy_pool_place(policy, &policy->pools[0], "cache");
    ck_assert_uint_eq(place.line, 3);
    ck_assert_uint_eq(place.column, 14);
    ck_assert_str_eq(place.path, "pools.a.cache");
    place = policy_pool_place(policy, &policy->pools[0], "cache.idle");
    ck_assert_uint_eq(place.column, 21);
    ck_assert_str_eq(place.path, "pools.a.cache.idle");
    policy_free(policy);
}
END_TEST

START_TEST(keys_know_the_switch_above_them)
{
    const struct policy_key *cache = policy_key_find(POLICY_SCOPE_POOL, "cache");
    ck_assert_ptr_eq(policy_key_switch(POLICY_SCOPE_POOL, policy_key_find(POLICY_SCOPE_POOL, "cache.idle")), cache);
    ck_assert_ptr_null(policy_key_switch(POLICY_SCOPE_POOL, cache));
    ck_assert_ptr_null(policy_key_switch(POLICY_SCOPE_POOL, policy_key_find(POLICY_SCOPE_POOL, "on_oom.steps")));
    ck_assert_ptr_null(policy_key_switch(POLICY_SCOPE_FILE, policy_key_find(POLICY_SCOPE_FILE, "keeper")));
}
END_TEST

/* With overrides ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(override_switches_off_whatever_the_file_has)
{
    expect(NULL, "pools.a.cache=off", "cache=off ");
    expect("on", "pools.a.cache=false", "cache=off ");
    expect("{per_stream: 2MiB}", "pools.a.cache=off", "cache=off ");
}
END_TEST

START_TEST(override_with_on_puts_the_defaults_in_place_of_the_file)
{
    expect("off", "pools.a.cache=on", DEFAULTS);
    expect("{largest: 4KiB}", "pools.a.cache=true", DEFAULTS);
}
END_TEST

START_TEST(override_of_one_key_switches_on_what_the_file_has_off)
{
    static const char both[] = "cache.per_stream=1MiB cache.per_device=512MiB cache.largest=1MiB cache.idle=5s cache.capture_check=true ";
    expect("off", "pools.a.cache.per_stream=1MiB,pools.a.cache.idle=5s", both);
    expect("off", "pools.a.cache={per_stream: 1MiB, idle: 5s}", both);
    expect("off", "pools.a.cache={}", DEFAULTS);
}
END_TEST

START_TEST(override_of_one_key_keeps_the_others_of_the_file)
{
    expect("{largest: 4KiB, idle: 1m}", "pools.a.cache.idle=5s",
           "cache.per_stream=64MiB cache.per_device=512MiB cache.largest=4KiB cache.idle=5s cache.capture_check=true ");
}
END_TEST

START_TEST(switch_and_key_below_it_contradict_each_other_in_either_order)
{
    static const char *const files[] = {NULL, "off", "on", "{largest: 4KiB}"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        refuse(files[i], "pools.a.cache=off,pools.a.cache.per_stream=1MiB",
               "WEIR_CONF:1:19: pools.a.cache: ", "is set a second time (first in column 1); remove one of the two");
        refuse(files[i], "pools.a.cache.per_stream=1MiB,pools.a.cache=off",
               "WEIR_CONF:1:31: pools.a.cache: ", "is set a second time (first in column 1); remove one of the two");
        refuse(files[i], "pools.a.cache=on,pools.a.cache={idle: 5s}", "WEIR_CONF:1:18: pools.a.cache: ", "second time");
    }
}
END_TEST

START_TEST(override_that_breaks_a_bound_is_reported_at_its_assignment)
{
    refuse(
        NULL, "keeper=true,pools.a.cache.per_stream=512KiB", "WEIR_CONF:1:13: pools.a.cache.per_stream: ",
        "is less than cache.largest (1MiB if not written), so no block of that size could ever be kept; raise it, or lower cache.largest");
    refuse("{largest: 2MiB}", "pools.a.cache.per_stream=1MiB", "test:3:24: pools.a.cache.largest: ", "is more than cache.per_stream");
}
END_TEST

START_TEST(list_in_place_of_the_mapping_is_left_to_the_file)
{
    refuse("[off]", "pools.a.cache.idle=5s", "test:3:14: pools.a.cache: ", "is a list; write off, on, or a mapping");
}
END_TEST

START_TEST(exportable_pool_cannot_be_switched_on_by_an_override)
{
    refuse("off", "pools.a.ipc=posix_fd,pools.a.cache=on", "WEIR_CONF:1:22: pools.a.cache: ", "does not go with ipc");
    expect("off", "pools.a.ipc=posix_fd", "cache=off ");
    expect(NULL, "pools.a.ipc=posix_fd", "cache=off ");
}
END_TEST

/* Reloading ---------------------------------------------------------------------------------------------------------------------------- */

static void differ(const char *before, const char *after)
{
    struct policy_errors errors = {0};
    struct policy *old = parse(before, NULL), *new = parse(after, NULL);
    ck_assert_int_eq(policy_compare(old, new, &errors), POLICY_OK);
    ck_assert_uint_eq(errors.count, 0);
    policy_free(old);
    policy_free(new);
}

START_TEST(caches_may_go_on_and_off_at_reload)
{
    differ("off", "{per_stream: 1MiB}");
    differ("{per_stream: 1MiB}", "off");
    differ("{per_stream: 1MiB}", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy cache");
    TCase *file = suite_case(suite, "file", 0);
    suite_add(file, caches_are_on_unless_something_else_is_written, off_and_false_show_as_off_alone,
              on_and_true_and_an_empty_mapping_are_the_defaults, mapping_sets_the_keys_that_it_has, keys_that_are_off_have_their_defaults,
              switch_has_the_place_of_what_stands_there, keys_know_the_switch_above_them);
    TCase *overrides = suite_case(suite, "overrides", 0);
    suite_add(overrides, override_switches_off_whatever_the_file_has, override_with_on_puts_the_defaults_in_place_of_the_file,
              override_of_one_key_switches_on_what_the_file_has_off, override_of_one_key_keeps_the_others_of_the_file,
              switch_and_key_below_it_contradict_each_other_in_either_order, override_that_breaks_a_bound_is_reported_at_its_assignment,
              list_in_place_of_the_mapping_is_left_to_the_file, exportable_pool_cannot_be_switched_on_by_an_override);
    TCase *reload = suite_case(suite, "reload", 0);
    suite_add(reload, caches_may_go_on_and_off_at_reload);
    return suite_run(suite);
}
