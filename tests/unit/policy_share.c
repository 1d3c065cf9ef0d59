/* SPDX-License-Identifier: MIT */
/* The keys of shared pools: what they become, what they are without each other, what a reload may change. */
#include <stdio.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/policy.h"
#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

#define SHARED(keys) "weir: 1\npools:\n  a: {devices: [0], ipc: posix_fd, share: {" keys "}}\n"

/* What stands in the struct ------------------------------------------------------------------------------------------------------------ */

START_TEST(pool_that_is_not_shared_has_no_socket)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {}, b: {ipc: posix_fd}}\ndefaults: {pool: a}\n", NULL);
    ck_assert_ptr_null(policy->pools[0].share_socket);
    ck_assert_ptr_null(policy->pools[1].share_socket);
    ck_assert_uint_eq(policy->pools[1].ipc_max_block, UINT64_C(5248) << 20);
    policy_free(policy);
}
END_TEST

START_TEST(shared_pool_has_the_defaults_of_the_table)
{
    struct policy *policy = data_parse(SHARED("socket: frames"), NULL);
    const struct policy_pool *pool = &policy->pools[0];
    ck_assert_str_eq(pool->share_socket, "frames");
    ck_assert_uint_eq(pool->share_users.count, 0);
    ck_assert_uint_eq(pool->share_groups.count, 0);
    ck_assert_uint_eq(pool->share_max_importers, 16);
    ck_assert_uint_eq(pool->share_retire_after, UINT64_MAX);
    ck_assert(!pool->share_scrub);
    policy_free(policy);
}
END_TEST

START_TEST(every_key_reaches_its_member)
{
    struct policy *policy = data_parse("weir: 1\npools:\n  a:\n    devices: [0]\n    ipc: posix_fd\n    ipc_max_block: 64MiB\n    share:\n"
                                       "      socket: /run/app/frames\n      allow: {users: [camera, 1001], groups: [video]}\n"
                                       "      max_importers: 64\n      retire_after: 2m\n      scrub: true\n", NULL);
    const struct policy_pool *pool = &policy->pools[0];
    ck_assert_uint_eq(pool->ipc_max_block, UINT64_C(64) << 20);
    ck_assert_str_eq(pool->share_socket, "/run/app/frames");
    ck_assert_uint_eq(pool->share_users.count, 2);
    ck_assert_str_eq(pool->share_users.items[0], "camera");
    ck_assert_str_eq(pool->share_users.items[1], "1001");
    ck_assert_uint_eq(pool->share_groups.count, 1);
    ck_assert_str_eq(pool->share_groups.items[0], "video");
    ck_assert_uint_eq(pool->share_max_importers, 64);
    ck_assert_uint_eq(pool->share_retire_after, UINT64_C(120000000000));
    ck_assert(pool->share_scrub);
    policy_free(policy);
}
END_TEST

START_TEST(names_that_systems_have_are_read)
{
    struct policy *policy = data_parse(SHARED("socket: x, allow: {users: [a, _b, c-d, e.f, 'g@h', 'i$', 0, \"true\"]}"), NULL);
    ck_assert_uint_eq(policy->pools[0].share_users.count, 8);
    ck_assert_str_eq(data_value(policy, "pools.a.share.allow.users"), "[a, _b, c-d, e.f, g@h, i$, 0, true]");
    policy_free(policy);
}
END_TEST

START_TEST(as_many_names_as_allowed_are_read_and_one_more_is_refused)
{
    char text[4096], error[1024];
    for (int count = POLICY_NAMES_MAX; count <= POLICY_NAMES_MAX + 1; count++) {
        size_t len = (size_t)snprintf(text, sizeof text, "weir: 1\npools:\n  a:\n    devices: [0]\n    ipc: posix_fd\n"
                                                         "    share: {socket: x, allow: {groups: [");
        for (int i = 0; i < count; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%sg%d", i ? ", " : "", i);
        snprintf(text + len, sizeof text - len, "]}}\n");
        if (count == POLICY_NAMES_MAX) {
            struct policy *policy = data_parse(text, NULL);
            ck_assert_uint_eq(policy->pools[0].share_groups.count, POLICY_NAMES_MAX);
            policy_free(policy);
        } else {
            data_parse_bad(text, NULL, error, sizeof error);
            ck_assert_msg(strstr(error, "lists 65 names; write at most 64"), "%s", error);
        }
    }
}
END_TEST

START_TEST(longest_path_and_name_are_read)
{
    char text[512], name[POLICY_SOCKET_PATH_MAX + 1];
    static const size_t lens[] = { POLICY_NAME_MAX, POLICY_SOCKET_PATH_MAX };
    for (int is_path = 0; is_path < 2; is_path++) {
        memset(name, 'x', lens[is_path]);
        name[0] = is_path ? '/' : 'x';
        name[lens[is_path]] = '\0';
        snprintf(text, sizeof text, SHARED("socket: %s"), name);
        struct policy *policy = data_parse(text, NULL);
        ck_assert_str_eq(policy->pools[0].share_socket, name);
        policy_free(policy);
    }
}
END_TEST

START_TEST(overrides_share_a_pool)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {devices: [0], ipc: posix_fd}}\n",
                                       "pools.a.share.socket=frames,pools.a.share.allow.users=[b, c],pools.a.share.scrub=true");
    ck_assert_str_eq(policy->pools[0].share_socket, "frames");
    ck_assert_uint_eq(policy->pools[0].share_users.count, 2);
    ck_assert(policy->pools[0].share_scrub);
    policy_free(policy);
}
END_TEST

/* What is shown ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(keys_of_shared_pools_are_shown_for_these_alone)
{
    static const char *const shared[] = { "socket", "allow.users", "allow.groups", "max_importers", "retire_after", "scrub" };
    struct policy *policy = data_parse("weir: 1\ndefaults: {pool: a}\npools:\n  a: {}\n  b: {ipc: posix_fd}\n"
                                       "  c: {devices: [0], ipc: posix_fd, share: {socket: frames}}\n", NULL);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        char path[64];
        for (char pool = 'a'; pool <= 'c'; pool++) {
            snprintf(path, sizeof path, "pools.%c.share.%s", pool, shared[i]);
            ck_assert_msg((data_value(policy, path) != NULL) == (pool == 'c'), "%s", path);
        }
    }
    ck_assert_ptr_null(data_value(policy, "pools.a.ipc_max_block"));
    ck_assert_str_eq(data_value(policy, "pools.b.ipc_max_block"), "5248MiB");
    policy_free(policy);
}
END_TEST

/* Comparing ---------------------------------------------------------------------------------------------------------------------------- */

/* The only error of a reload from one text to the other, without its place; "" if there is none. */
static void compare(const char *from, const char *to, char *line, size_t len)
{
    struct policy *before = data_parse(from, NULL), *after = data_parse(to, NULL);
    struct policy_errors errors = { 0 };
    ck_assert_int_eq(policy_compare(before, after, &errors), errors.count ? POLICY_BAD : POLICY_OK);
    ck_assert_uint_le(errors.count, 1);
    snprintf(line, len, "%s%s%s", errors.count ? errors.items[0].path : "", errors.count ? ": " : "",
             errors.count ? errors.items[0].message : "");
    policy_errors_clear(&errors);
    policy_free(before);
    policy_free(after);
}

START_TEST(reload_may_change_who_is_allowed_and_when_a_pool_retires)
{
    char line[512];
    compare(SHARED("socket: x"), SHARED("socket: x, allow: {users: [a], groups: [b]}, max_importers: 2, retire_after: 1s, scrub: true"), line,
            sizeof line);
    ck_assert_str_eq(line, "");
}
END_TEST

START_TEST(reload_may_not_change_the_socket)
{
    char line[512];
    compare(SHARED("socket: x"), SHARED("socket: y"), line, sizeof line);
    ck_assert_str_eq(line, "pools.a.share.socket: cannot change while the policy is open: it was x and is now y; write x again, or open the "
                           "policy anew");
}
END_TEST

START_TEST(reload_may_not_begin_or_end_sharing)
{
    static const char unshared[] = "weir: 1\npools: {a: {devices: [0], ipc: posix_fd}}\n";
    char line[512];
    compare(unshared, SHARED("socket: x"), line, sizeof line);
    ck_assert_str_eq(line, "pools.a.share.socket: cannot change while the policy is open: it was not set and is now x; leave it out again, or "
                           "open the policy anew");
    compare(SHARED("socket: x"), unshared, line, sizeof line);
    ck_assert_str_eq(line, "pools.a.share.socket: cannot change while the policy is open: it was x and is now not set; write x again, or open "
                           "the policy anew");
}
END_TEST

START_TEST(reload_may_not_change_the_largest_block)
{
    char line[512];
    compare("weir: 1\npools: {a: {ipc: posix_fd}}\n", "weir: 1\npools: {a: {ipc: posix_fd, ipc_max_block: 1GiB}}\n", line, sizeof line);
    ck_assert_msg(strstr(line, "pools.a.ipc_max_block: cannot change") == line && strstr(line, "was 5248MiB and is now 1GiB"), "%s", line);
}
END_TEST

START_TEST(change_of_ipc_is_one_error)
{
    char line[512];
    compare("weir: 1\npools: {a: {cache: off, small_below: 0}}\n", "weir: 1\npools: {a: {ipc: posix_fd}}\n", line, sizeof line);
    ck_assert_msg(strstr(line, "pools.a.ipc: cannot change") == line, "%s", line);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy share");
    TCase *values = suite_case(suite, "struct", 0);
    suite_add(values, pool_that_is_not_shared_has_no_socket, shared_pool_has_the_defaults_of_the_table, every_key_reaches_its_member,
              names_that_systems_have_are_read, as_many_names_as_allowed_are_read_and_one_more_is_refused, longest_path_and_name_are_read,
              overrides_share_a_pool);
    TCase *show = suite_case(suite, "show", 0);
    suite_add(show, keys_of_shared_pools_are_shown_for_these_alone);
    TCase *comparison = suite_case(suite, "compare", 0);
    suite_add(comparison, reload_may_change_who_is_allowed_and_when_a_pool_retires, reload_may_not_change_the_socket,
              reload_may_not_begin_or_end_sharing, reload_may_not_change_the_largest_block, change_of_ipc_is_one_error);
    return suite_run(suite);
}
