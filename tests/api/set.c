/* SPDX-License-Identifier: MIT */
/* A policy that is changed from outside: single keys that are set, and reading it again from where it came from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/open.h"
#include "lib/pool/left.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static const char policy[] = "weir: 1\npools: { a: { devices: [0], release_threshold: all, max_size: 512MiB } }\n";

static void set_well(weir *w, const char *assignments)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(weir__policy_set(w, assignments, &error) == WEIR_OK, "%s", error.text);
}

START_TEST(key_that_is_set_takes_effect)
{
    fixture_machine(NULL);
    weir *w = fixture_open(policy);
    set_well(w, "pools.a.release_threshold=64MiB,pools.a.keep=16MiB");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(64));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).keep, MIB(16));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(512));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(keys_that_were_set_before_stay_set)
{
    fixture_machine(NULL);
    weir *w = fixture_open(policy);
    set_well(w, "pools.a.release_threshold=64MiB");
    set_well(w, "pools.a.keep=16MiB");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(64));
    weir_close(w);
}
END_TEST

START_TEST(cap_under_which_nothing_could_be_served_is_refused_and_the_pool_serves_on)
{
    static const char *const caps[] = { "pools.a.max_size=1MiB", "pools.a.max_size=1%", "pools.b.max_size=40MiB", "pools.b.max_size=6%" };
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools: { a: { small_below: 0 }, b: {} }\n");
    ck_assert_int_eq(weir__policy_set(w, caps[_i], &error), WEIR_BAD_POLICY);
    ck_assert_msg(strstr(error.text, "leaves no room for a pool") != NULL, "%s", error.text);
    ck_assert_str_eq(error.file, "weir set");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(48))), WEIR_OK);
    weir_stream_close(s);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* A private pool that is made later could not be grown to it. */
START_TEST(share_of_the_device_below_initial_size_is_refused_and_changes_nothing)
{
    static const char *const shares[] = { "pools.a.max_size=20%", "pools.a.release_threshold=10%" };
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 512MiB, initial_size: 256MiB } }\nstreams: { own: { private: true } }\n");
    ck_assert_int_eq(weir__policy_set(w, shares[_i], &error), WEIR_BAD_POLICY);
    ck_assert_msg(strstr(error.text, "pools.a.initial_size: 256 MiB on device 0 is above") != NULL, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(512));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    fixture_stream(w, 0, "own");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(key_that_is_not_live_is_refused_by_name)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open(policy);
    ck_assert_int_eq(weir__policy_set(w, "pools.a.release_threshold=64MiB,pools.a.small_below=0", &error), WEIR_BAD_POLICY);
    ck_assert_msg(strstr(error.text, "weir set:1:33: pools.a.small_below: cannot change while the policy is open") == error.text, "%s",
                  error.text);
    ck_assert_str_eq(error.file, "weir set");
    ck_assert_uint_eq(error.column, 33);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    weir_close(w);
}
END_TEST

START_TEST(value_that_the_device_refuses_changes_nothing)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine("devices=2,peers=none");
    weir *w = fixture_open(policy);
    ck_assert_int_eq(weir__policy_set(w, "pools.a.release_threshold=64MiB,pools.a.peer_access=[5]", &error), WEIR_BAD_POLICY);
    ck_assert_str_eq(error.file, "weir set");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    set_well(w, "pools.a.keep=16MiB");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    weir_close(w);
}
END_TEST

/* A job that sets something, as a control socket's does. */
struct setter {
    struct weir__job job;
    weir *w;
    const char *assignments;
    weir_status status;
    weir_error error;
    atomic_bool has_run;
};

static uint64_t set_by_job(struct weir__job *job)
{
    struct setter *setter = (struct setter *)job;
    setter->status = weir__policy_set(setter->w, setter->assignments, &setter->error);
    atomic_store(&setter->has_run, true);
    return WEIR__SERVICE_NEVER;
}

static void set_on_service_thread(struct setter *setter, const char *assignments)
{
    setter->assignments = assignments;
    atomic_store(&setter->has_run, false);
    weir__service_wake(&setter->job, 0);
    while (!atomic_load(&setter->has_run))
        usleep(1000);
    ck_assert_msg(setter->status == WEIR_OK, "%s", setter->error.text);
}

START_TEST(keeper_can_be_switched_on_and_off_by_a_job_of_its_own_thread)
{
    fixture_machine(NULL);
    weir *w = fixture_open(policy);
    struct setter setter = { .job.run = set_by_job, .w = w, .error = WEIR_ERROR_INIT };
    ck_assert_int_eq(weir__service_add(&setter.job, NULL), WEIR_OK);
    set_on_service_thread(&setter, "keeper=true");
    ck_assert(weir__keeper_is_on(w));
    set_on_service_thread(&setter, "keeper=false");
    ck_assert(!weir__keeper_is_on(w));
    set_on_service_thread(&setter, "keeper=true");
    weir__service_remove(&setter.job);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Reading it again --------------------------------------------------------------------------------------------------------------------- */

static char directory[64];

static void write_policy(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/policy.yaml", directory);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Opens policy.yaml in a directory of its own by a relative path. */
static weir *open_by(const char *policy_file)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    snprintf(directory, sizeof directory, "/tmp/weir-set-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(chdir(directory), 0);
    write_policy(policy);
    options.gpu = "sim";
    options.policy_file = policy_file;
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    return w;
}

static weir *open_file(void)
{
    return open_by("policy.yaml");
}

static void remove_file(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/policy.yaml", directory);
    unlink(path);
    rmdir(directory);
}

START_TEST(file_is_read_again)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = open_file();
    write_policy("weir: 1\npools: { a: { devices: [0], release_threshold: 32MiB, max_size: 512MiB } }\n");
    ck_assert_msg(weir__policy_again(w, &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(32));
    weir_close(w);
    remove_file();
}
END_TEST

START_TEST(file_is_found_again_from_another_directory)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = open_file();
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_msg(weir__policy_again(w, &error) == WEIR_OK, "%s", error.text);
    weir_close(w);
    remove_file();
}
END_TEST

START_TEST(file_of_the_environment_is_found_again_from_another_directory)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    setenv("WEIR_POLICY", "policy.yaml", 1);
    weir *w = open_by(NULL);
    ck_assert_int_eq(chdir("/"), 0);
    write_policy("weir: 1\npools: { a: { devices: [0], release_threshold: 32MiB, max_size: 512MiB } }\n");
    ck_assert_msg(weir__policy_again(w, &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(32));
    weir_close(w);
    remove_file();
}
END_TEST

START_TEST(reading_the_file_again_ends_what_was_set)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = open_file();
    set_well(w, "pools.a.release_threshold=64MiB");
    ck_assert_msg(weir__policy_again(w, &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    weir_close(w);
    remove_file();
}
END_TEST

START_TEST(bad_file_changes_nothing)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = open_file();
    set_well(w, "pools.a.release_threshold=64MiB");
    write_policy("weir: 1\npools: { a: { devices: [0], release_threshold: much } }\n");
    ck_assert_int_eq(weir__policy_again(w, &error), WEIR_BAD_POLICY);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(64));
    weir_close(w);
    remove_file();
}
END_TEST

START_TEST(text_is_read_again_and_ends_what_was_set)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open(policy);
    set_well(w, "pools.a.release_threshold=64MiB");
    ck_assert_msg(weir__policy_again(w, &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, UINT64_MAX);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(512));
    weir_close(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("set");
    TCase *set = suite_case(suite, "set", 0);
    suite_add(set, key_that_is_set_takes_effect, keys_that_were_set_before_stay_set);
    tcase_add_loop_test(set, cap_under_which_nothing_could_be_served_is_refused_and_the_pool_serves_on, 0, 4);
    tcase_add_loop_test(set, share_of_the_device_below_initial_size_is_refused_and_changes_nothing, 0, 2);
    suite_add(set, key_that_is_not_live_is_refused_by_name, value_that_the_device_refuses_changes_nothing,
              keeper_can_be_switched_on_and_off_by_a_job_of_its_own_thread);
    TCase *again = suite_case(suite, "again", 0);
    suite_add(again, file_is_read_again, file_is_found_again_from_another_directory,
              file_of_the_environment_is_found_again_from_another_directory, reading_the_file_again_ends_what_was_set,
              bad_file_changes_nothing, text_is_read_again_and_ends_what_was_set);
    return suite_run(suite);
}
