/* SPDX-License-Identifier: MIT */
/* `devices: local`: which device is that of this process of a job, by what its launcher put into the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/pool/local_rank.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define LOCAL "weir: 1\npools:\n  a: { devices: local }\n"

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void machine_of(int devices)
{
    char settings[64];
    snprintf(settings, sizeof settings, "devices=%d,memory=1GiB", devices);
    fixture_machine(settings);
}

/* The one device that has a pool. */
static int device_of(weir *w, int devices)
{
    int found = -1;
    for (int device = 0; device < devices; device++) {
        weir_pool *pool;
        if (weir_pool_get(w, "a", device, NULL, &pool) != WEIR_OK)
            continue;
        ck_assert_int_eq(found, -1);
        found = device;
    }
    return found;
}

static const struct {
    const char *local_rank, *slurm, *open_mpi;
    int devices, device; /* -1: refused */
    const char *says[3];
} rows[] = {
    { "0", NULL, NULL, 4, 0, { NULL } },
    { "3", NULL, NULL, 4, 3, { NULL } },
    { "03", NULL, NULL, 4, 3, { NULL } },
    { NULL, "2", NULL, 4, 2, { NULL } },
    { NULL, NULL, "1", 4, 1, { NULL } },
    /* The order is fixed; an empty one is none. */
    { "1", "2", "3", 4, 1, { NULL } },
    { NULL, "2", "3", 4, 2, { NULL } },
    { "", "2", "x", 4, 2, { NULL } },
    { "", "", "", 1, 0, { NULL } },
    { "1", "x", "-1", 4, 1, { NULL } },
    /* One visible device is this rank's, whatever the number. */
    { NULL, NULL, NULL, 1, 0, { NULL } },
    { "3", NULL, NULL, 1, 0, { NULL } },
    { "1023", NULL, NULL, 1, 0, { NULL } },
    /* Refused: variable, value, remedy. */
    { NULL, NULL, NULL, 2, -1, { "none of LOCAL_RANK, SLURM_LOCALID and OMPI_COMM_WORLD_LOCAL_RANK", "2 devices", "set LOCAL_RANK" } },
    { "4", NULL, NULL, 4, -1, { "LOCAL_RANK is 4", "4 devices are visible", "CUDA_VISIBLE_DEVICES" } },
    { NULL, "16", NULL, 16, -1, { "SLURM_LOCALID is 16", "at most 16 ranks", "CUDA_VISIBLE_DEVICES" } },
    { NULL, NULL, "two", 4, -1, { "OMPI_COMM_WORLD_LOCAL_RANK is 'two'", "no local rank", "0 to 1023" } },
    { "-1", NULL, NULL, 4, -1, { "LOCAL_RANK is '-1'", "0 to 1023", "unset it" } },
    { "-1", "1", NULL, 4, -1, { "LOCAL_RANK is '-1'", "0 to 1023", "unset it" } },
    { "+1", NULL, NULL, 4, -1, { "LOCAL_RANK is '+1'", "no local rank", "unset it" } },
    { " 1", NULL, NULL, 4, -1, { "LOCAL_RANK is ' 1'", "no local rank", "unset it" } },
    { "1 ", NULL, NULL, 4, -1, { "LOCAL_RANK is '1 '", "no local rank", "unset it" } },
    { "0x1", NULL, NULL, 4, -1, { "LOCAL_RANK is '0x1'", "no local rank", "unset it" } },
    { "1.0", NULL, NULL, 4, -1, { "LOCAL_RANK is '1.0'", "no local rank", "unset it" } },
    { "x", NULL, NULL, 1, -1, { "LOCAL_RANK is 'x'", "no local rank", "unset it" } },
    { "1024", NULL, NULL, 1, -1, { "LOCAL_RANK is '1024'", "0 to 1023", "unset it" } },
    { "18446744073709551617", NULL, NULL, 4, -1, { "LOCAL_RANK is '18446744073709551617'", "0 to 1023", "unset it" } },
    { "4294967297", NULL, NULL, 4, -1, { "LOCAL_RANK is '4294967297'", "0 to 1023", "unset it" } },
    { "1\n\033[31m", NULL, NULL, 4, -1, { "LOCAL_RANK is '1??[31m'", "no local rank", "unset it" } },
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

START_TEST(local_device_is_that_of_the_launcher)
{
    machine_of(rows[_i].devices);
    set("LOCAL_RANK", rows[_i].local_rank);
    set("SLURM_LOCALID", rows[_i].slurm);
    set("OMPI_COMM_WORLD_LOCAL_RANK", rows[_i].open_mpi);
    if (rows[_i].device >= 0) {
        weir *w = fixture_open(LOCAL);
        ck_assert_int_eq(device_of(w, rows[_i].devices), rows[_i].device);
        weir_close(w);
    } else {
        weir_error error = fixture_refuse(LOCAL, WEIR_BAD_POLICY);
        ck_assert_str_eq(error.file, "policy_text");
        ck_assert_uint_eq(error.line, 3);
        ck_assert_ptr_nonnull(strstr(error.text, "pools.a.devices"));
        for (size_t i = 0; i < 3; i++)
            ck_assert_msg(strstr(error.text, rows[_i].says[i]) != NULL, "'%s' is not in: %s", rows[_i].says[i], error.text);
    }
    fixture_expect_empty();
}
END_TEST

START_TEST(long_value_is_cut_in_the_error)
{
    char value[4096];
    memset(value, '9', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    machine_of(2);
    set("LOCAL_RANK", value);
    weir_error error = fixture_refuse(LOCAL, WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "\xe2\x80\xa6', which is no local rank"));
    ck_assert_ptr_nonnull(strstr(error.text, "or unset it"));
}
END_TEST

START_TEST(policy_that_says_nothing_of_local_reads_no_rank)
{
    machine_of(2);
    set("LOCAL_RANK", "nonsense");
    weir *w = fixture_open("weir: 1\npools:\n  a: { devices: [1] }\n");
    ck_assert_int_eq(device_of(w, 2), 1);
    weir_close(w);
}
END_TEST

START_TEST(request_for_another_device_fails_and_says_so)
{
    void *ptr = NULL;
    weir_error error;
    machine_of(3);
    set("LOCAL_RANK", "1");
    weir *w = fixture_open(LOCAL);
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, 0, NULL), WEIR_NOT_FOUND);
    weir_last_error(&error);
    ck_assert_ptr_nonnull(strstr(error.text, "device 0"));
    ck_assert_ptr_nonnull(strstr(error.text, "or use device 1, which is the local one here"));
    weir_error_clear(&error);
    weir_pool *pool;
    weir_stream *stream;
    ck_assert_int_eq(weir_pool_get(w, NULL, 2, &error, &pool), WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "or use device 1, which is the local one here"));
    weir_error_clear(&error);
    ck_assert_int_eq(weir_stream_create(w, 0, NULL, &error, &stream), WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "or use device 1, which is the local one here"));
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, 1, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* As a library may set it behind the back of the program: the weir stays where it is. */
START_TEST(rank_that_changes_later_moves_no_pool)
{
    weir_error error = WEIR_ERROR_INIT;
    char path[] = "/tmp/weir-ranks-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, LOCAL, strlen(LOCAL)), (ssize_t)strlen(LOCAL));
    close(fd);
    machine_of(2);
    set("LOCAL_RANK", "1");
    weir *w = fixture_open(LOCAL);
    set("LOCAL_RANK", "nonsense");
    ck_assert_msg(weir_reload(w, path, &error) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(device_of(w, 2), 1);
    unlink(path);
    weir_close(w);
}
END_TEST

START_TEST(local_is_as_fixed_as_any_list_of_devices)
{
    weir_error error = WEIR_ERROR_INIT;
    char path[] = "/tmp/weir-ranks-XXXXXX";
    static const char listed[] = "weir: 1\npools:\n  a: { devices: [1] }\n";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, listed, strlen(listed)), (ssize_t)strlen(listed));
    close(fd);
    machine_of(2);
    set("LOCAL_RANK", "1");
    weir *w = fixture_open(LOCAL);
    ck_assert_int_eq(weir_reload(w, path, &error), WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "it was local and is now [1]"));
    unlink(path);
    weir_close(w);
}
END_TEST

/* The local device and one that is named may be one device, which only a device can tell. */
START_TEST(local_device_has_one_current_pool)
{
    static const char both[] = "weir: 1\ndefaults: { pool: a }\npools:\n  a: { devices: local, current: true }\n"
                               "  b: { devices: [1], current: true }\n";
    machine_of(2);
    set("LOCAL_RANK", "1");
    weir_error error = fixture_refuse(both, WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "current"));
    set("LOCAL_RANK", "0");
    weir_close(fixture_open(both));
    fixture_expect_empty();
}
END_TEST

START_TEST(peers_of_the_local_device_are_all_others)
{
    machine_of(3);
    set("LOCAL_RANK", "1");
    weir *w = fixture_open("weir: 1\npools:\n  a: { devices: local, peer_access: all }\n");
    for (int device = 0; device < 3; device += 2) {
        enum gpu_access access = GPU_ACCESS_NONE;
        gpu_pool pool = weir_pool_handle(fixture_pool(w, "a", 1));
        ck_assert_int_eq(fixture_gpu()->pool_get_access(pool, device, &access), GPU_SUCCESS);
        ck_assert_int_eq(access, GPU_ACCESS_READ_WRITE);
    }
    weir_close(w);
}
END_TEST

/* Ranks that one process forks before it opens anything, as launchers of Python's do. */
START_TEST(forked_ranks_have_a_device_each)
{
    machine_of(3);
    for (int rank = 0; rank < 3; rank++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            char text[16];
            weir_options options = { .size = sizeof options, .policy_text = LOCAL, .gpu = "sim" };
            weir *w = NULL;
            weir_pool *pool;
            snprintf(text, sizeof text, "%d", rank);
            setenv("LOCAL_RANK", text, 1);
            bool is_there = weir_open(&options, NULL, &w) == WEIR_OK && weir_pool_get(w, "a", rank, NULL, &pool) == WEIR_OK;
            weir_close(w);
            _exit(is_there ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tcase = suite_case(suite, "local", 0);
    tcase_add_loop_test(tcase, local_device_is_that_of_the_launcher, 0, ROWS);
    suite_add(tcase, long_value_is_cut_in_the_error, policy_that_says_nothing_of_local_reads_no_rank,
              request_for_another_device_fails_and_says_so, rank_that_changes_later_moves_no_pool,
              local_is_as_fixed_as_any_list_of_devices, local_device_has_one_current_pool, peers_of_the_local_device_are_all_others,
              forked_ranks_have_a_device_each);
    return suite_run(suite);
}
