/* SPDX-License-Identifier: MIT */
/* How much of a device the process may have: the variables that say so, what of them counts, and what shares and `quota` come to by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/pool/quota.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define QUOTA "weir: 1\npools:\n  a: { max_size: quota, small_below: 0 }\n"

static const char *const variables[] = { "WEIR_QUOTA", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT",
                                         "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT_1" };
#define VARIABLES (sizeof variables / sizeof variables[0])
enum { OWN, MPS, ALL, FIRST, SECOND };

static void forget_all(void)
{
    for (size_t i = 0; i < VARIABLES; i++)
        unsetenv(variables[i]);
}

/* The simulator has 1 GiB. */
#define M(n) (UINT64_C(1048576) * (n))

static const struct {
    const char *values[VARIABLES];
    uint64_t bytes;
    int counts;            /* which of the variables; -1: none */
    const char *warning;   /* NULL: none */
} rows[] = {
    { { NULL }, M(1024), -1, NULL },
    { { [OWN] = "512MiB" }, M(512), OWN, NULL },
    { { [OWN] = "50%" }, M(512), OWN, NULL },
    { { [OWN] = "12.5%" }, M(128), OWN, NULL },
    { { [OWN] = "536870912" }, M(512), OWN, NULL },
    { { [OWN] = "0.25GiB" }, M(256), OWN, NULL },
    { { [OWN] = "500MB" }, 500000000, OWN, NULL },
    /* All of it is no less than it. */
    { { [OWN] = "100%" }, M(1024), -1, NULL },
    { { [OWN] = "1GiB" }, M(1024), -1, NULL },
    { { [MPS] = "0=256M" }, M(256), MPS, NULL },
    { { [MPS] = "0=256MB" }, M(256), MPS, NULL },
    { { [MPS] = "1=256MB,0=1G" }, M(1024), -1, NULL },
    { { [MPS] = "1=1GB,0=512M,2=2g" }, M(512), MPS, NULL },
    { { [MPS] = "0=512M,0=256M" }, M(256), MPS, NULL },
    { { [MPS] = "1=64M" }, M(1024), -1, NULL },
    { { [ALL] = "300m" }, M(300), ALL, NULL },
    { { [ALL] = "314572800" }, M(300), ALL, NULL },
    { { [FIRST] = "1g" }, M(1024), -1, NULL },
    { { [FIRST] = "204800k" }, M(200), FIRST, NULL },
    { { [SECOND] = "100m" }, M(1024), -1, NULL },
    /* HAMi's own of a device stands for that of all. */
    { { [ALL] = "300m", [FIRST] = "500m" }, M(500), FIRST, NULL },
    { { [ALL] = "300m", [SECOND] = "500m" }, M(300), ALL, NULL },
    { { [ALL] = "300m", [FIRST] = "x" }, M(300), ALL, "CUDA_DEVICE_MEMORY_LIMIT_0='x' is ignored on device 0: it is no limit: write a size" },
    /* The least counts. */
    { { "512MiB", "0=256M", "300m" }, M(256), MPS, NULL },
    { { "128MiB", "0=256M", "300m" }, M(128), OWN, NULL },
    { { "512MiB", "0=384M", "300m", "200m" }, M(200), FIRST, NULL },
    /* What is bad is reported, and hinders nothing else. */
    { { [OWN] = "", [MPS] = "", [ALL] = "", [FIRST] = "" }, M(1024), -1, NULL },
    { { [OWN] = "2GiB" }, M(1024), -1, "WEIR_QUOTA='2GiB' is ignored on device 0: it is more than the 1 GiB that device 0 has" },
    { { [OWN] = "18446744073709551615" }, M(1024), -1, "is more than the 1 GiB" },
    { { [MPS] = "1G" }, M(1024), -1, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='1G' is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "0=1" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "0=512M," }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = ",0=512M" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "0=512M;1=1G" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "=512M" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "0==512M" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "-1=512M" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "99999999999=512M" }, M(1024), -1, "is ignored on device 0: it is no limit: write a list" },
    { { [MPS] = "0=0M" }, M(1024), -1, "it would leave nothing" },
    { { [MPS] = "0=2G" }, M(1024), -1, "it is more than the 1 GiB" },
    { { [MPS] = "0=0.5G" }, M(1024), -1, "it is no limit" },
    { { [ALL] = "300mm" }, M(1024), -1, "it is no limit" },
    { { [ALL] = "300q" }, M(1024), -1, "it is no limit" },
    { { [ALL] = "0" }, M(1024), -1, "CUDA_DEVICE_MEMORY_LIMIT='0' is ignored on device 0: it would leave nothing" },
    { { [ALL] = "16777216t" }, M(1024), -1, "it is no limit" },
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

/* Weir's own variable, of which each mistake would leave a process without the limit that was meant. */
static const struct {
    const char *value, *why;
} refused[] = {
    { "101%", "WEIR_QUOTA is '101%', which is no limit: write bytes as in 8GiB, or a share of the device's memory as in 50%, or unset it" },
    { "0", "is no limit" },
    { "0%", "would leave nothing" },
    { "1G", "WEIR_QUOTA is '1G', which is no limit: write bytes as in 8GiB" },
    { "512m", "is no limit" },
    { "0.5", "is no limit" },
    { "1.0", "is no limit" },
    { "90", "is no limit" },
    { "4096", "is no limit" },
    { "-1GiB", "is no limit" },
    { "1 GiB", "is no limit" },
    { "1GiB ", "is no limit" },
    { " 1GiB", "is no limit" },
    { "1GiB,", "is no limit" },
    { "1,5GiB", "is no limit" },
    { "1e9", "is no limit" },
    { "0x10000000", "is no limit" },
    { "lots", "is no limit" },
    { "99999999999999999999", "is no limit" },
    { "1\n\033[31mGiB", "WEIR_QUOTA is '1??[31mGiB', which is no limit" },
};

START_TEST(quota_that_is_no_limit_is_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fixture_machine(NULL);
        forget_all();
        setenv("WEIR_QUOTA", refused[i].value, 1);
        weir_error error = fixture_refuse("weir: 1\npools:\n  a: {}\n", WEIR_BAD_POLICY);
        ck_assert_msg(strstr(error.text, refused[i].why) != NULL, "'%s' is not in: %s", refused[i].why, error.text);
    }
}
END_TEST

/* Pools of which the policy says nothing are capped too, where a cap can be. */
static const struct {
    const char *policy;
    uint64_t max_size;
} defaults[] = {
    { "weir: 1\npools:\n  a: {}\n", M(256) },
    { "weir: 1\npools:\n  a: { backing: arena, small_below: 1MiB }\n", M(256) },
    { "weir: 1\npools:\n  a: { ipc: posix_fd }\n", M(256) },
    { "weir: 1\npools:\n  a: { max_size: 128MiB }\n", M(128) },
    { "weir: 1\npools:\n  a: { max_size: none }\n", 0 },
    { "weir: 1\npools:\n  a: { backing: default }\n", 0 },
    { "weir: 1\npools:\n  a: { location: host }\n", 0 },
};

START_TEST(quota_caps_pools_that_have_no_max_size)
{
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        fixture_machine(NULL);
        forget_all();
        setenv("WEIR_QUOTA", "256MiB", 1);
        weir *w = fixture_open(defaults[i].policy);
        uint64_t max_size = fixture_figures(w, "a", 0).max_size;
        ck_assert_msg(max_size == defaults[i].max_size, "%llu for %s", (unsigned long long)max_size, defaults[i].policy);
        weir_close(w);
    }
}
END_TEST

START_TEST(quota_caps_the_built_in_policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    void *ptr = NULL;
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "25%", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    options.gpu = "sim";
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "default", 0).max_size, M(256));
    ck_assert_int_eq(weir_malloc(w, &ptr, M(512), 0, NULL), WEIR_OUT_OF_MEMORY);
    weir_close(w);
}
END_TEST

START_TEST(least_good_limit_counts_and_others_are_reported)
{
    struct weir__quota quota;
    fixture_machine(NULL);
    forget_all();
    for (size_t i = 0; i < VARIABLES; i++)
        if (rows[_i].values[i])
            setenv(variables[i], rows[_i].values[i], 1);
    weir__quota_read(0, M(1024), &quota);
    ck_assert_uint_eq(quota.bytes, rows[_i].bytes);
    ck_assert_int_eq(quota.counts >= 0, rows[_i].counts >= 0);
    if (quota.counts >= 0)
        ck_assert_str_eq(quota.limits[quota.counts].variable, variables[rows[_i].counts]);
    fixture_log();
    weir *w = fixture_open(QUOTA);
    const char *log = fixture_log();
    if (rows[_i].warning)
        ck_assert_msg(strstr(log, rows[_i].warning) != NULL, "'%s' is not in: %s", rows[_i].warning, log);
    else
        ck_assert_str_eq(log, "");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, rows[_i].bytes);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(shares_are_of_the_quota)
{
    fixture_machine("devices=2,memory=1GiB");
    forget_all();
    setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=512M", 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: { max_size: 50%, release_threshold: 25%, initial_size: 12.5%, keep: 12.5% }\n");
    weir_pool_stats first = fixture_figures(w, "a", 0), second = fixture_figures(w, "a", 1);
    ck_assert_uint_eq(first.max_size, MIB(256));
    ck_assert_uint_eq(first.release_threshold, MIB(128));
    ck_assert_uint_ge(first.reserved, MIB(64));
    ck_assert_uint_lt(first.reserved, MIB(128));
    ck_assert_uint_eq(second.max_size, MIB(512));
    weir_close(w);
}
END_TEST

START_TEST(request_above_the_quota_is_out_of_memory)
{
    void *ptr = NULL, *more = NULL;
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "128MiB", 1);
    weir *w = fixture_open(QUOTA);
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(96), 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_malloc(w, &more, MIB(64), 0, NULL), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(quota_that_leaves_no_room_is_refused_and_names_its_variable)
{
    fixture_machine(NULL);
    forget_all();
    setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "16m", 1);
    weir_error error = fixture_refuse(QUOTA, WEIR_BAD_POLICY);
    ck_assert_uint_eq(error.line, 3);
    ck_assert_ptr_nonnull(strstr(error.text, "16 MiB of device 0 leaves no room"));
    ck_assert_ptr_nonnull(strstr(error.text, "or raise CUDA_DEVICE_MEMORY_LIMIT_0"));
    error = fixture_refuse("weir: 1\npools:\n  a: { max_size: 100% }\n", WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "or raise CUDA_DEVICE_MEMORY_LIMIT_0"));
}
END_TEST

/* What of a file is read anew. */
static void reload_to(weir *w, const char *text)
{
    weir_error error = WEIR_ERROR_INIT;
    char path[] = "/tmp/weir-quota-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ck_assert_msg(weir_reload(w, path, &error) == WEIR_OK, "%s", error.text);
    unlink(path);
}

START_TEST(reload_goes_to_the_quota_and_back)
{
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "256MiB", 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: { small_below: 1MiB }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(256));
    reload_to(w, "weir: 1\npools:\n  a: { max_size: none, small_below: 1MiB }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, 0);
    reload_to(w, "weir: 1\npools:\n  a: { max_size: quota }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(256));
    reload_to(w, "weir: 1\npools:\n  a: { max_size: 50%, keep: 25% }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(128));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).keep, MIB(64));
    reload_to(w, "weir: 1\npools:\n  a: { max_size: 512MiB }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(512));
    weir_close(w);
}
END_TEST

/* As a program that changes its own environment would have it otherwise, in the middle of a reload. */
START_TEST(variable_that_changes_later_changes_nothing)
{
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "256MiB", 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: { max_size: quota }\n");
    setenv("WEIR_QUOTA", "nonsense", 1);
    fixture_log();
    reload_to(w, "weir: 1\npools:\n  a: { max_size: quota }\n");
    ck_assert_str_eq(fixture_log(), "");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(256));
    weir_close(w);
}
END_TEST

START_TEST(weir_conf_can_say_quota)
{
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "25%", 1);
    setenv("WEIR_CONF", "pools.a.max_size=quota", 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: {}\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(256));
    weir_close(w);
}
END_TEST

START_TEST(each_device_and_pool_has_its_own_words_once)
{
    fixture_machine("devices=2,memory=1GiB");
    forget_all();
    setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "2g", 1);
    fixture_log();
    weir *w = fixture_open("weir: 1\npools:\n  a: { devices: [0] }\n");
    ck_assert_str_eq(fixture_log(), "");
    weir_close(w);
    w = fixture_open("weir: 1\ndefaults: { pool: a }\npools:\n  a: {}\n  b: { devices: [1] }\n");
    ck_assert_ptr_nonnull(strstr(fixture_log(), "CUDA_DEVICE_MEMORY_LIMIT_1='2g' is ignored on device 1"));
    weir_close(w);
    ck_assert_str_eq(fixture_log(), "");
}
END_TEST

START_TEST(arena_keeps_to_the_quota)
{
    void *ptr = NULL;
    fixture_machine(NULL);
    forget_all();
    setenv("WEIR_QUOTA", "96MiB", 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: { backing: arena, max_size: quota, small_below: 1MiB }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(128), 0, NULL), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(64), 0, NULL), WEIR_OK);
    ck_assert_uint_le(fixture_figures(w, "a", 0).reserved, MIB(96));
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quota");
    TCase *tcase = suite_case(suite, "limits", 0);
    tcase_add_loop_test(tcase, least_good_limit_counts_and_others_are_reported, 0, ROWS);
    suite_add(tcase, quota_that_is_no_limit_is_refused, quota_caps_pools_that_have_no_max_size, quota_caps_the_built_in_policy,
              shares_are_of_the_quota, request_above_the_quota_is_out_of_memory,
              quota_that_leaves_no_room_is_refused_and_names_its_variable, reload_goes_to_the_quota_and_back,
              variable_that_changes_later_changes_nothing, weir_conf_can_say_quota, each_device_and_pool_has_its_own_words_once,
              arena_keeps_to_the_quota);
    return suite_run(suite);
}
