/* SPDX-License-Identifier: MIT */
/* Opening and closing: where the policy comes from, what is refused and where the error points, what close leaves behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static void assert_place(const weir_error *error, const char *file, unsigned line, unsigned column)
{
    ck_assert_str_eq(error->file, file);
    ck_assert_msg(error->line == line && error->column == column, "%u:%u instead of %u:%u: %s", error->line, error->column, line, column,
                  error->text);
}

static void assert_says(const weir_error *error, const char *words)
{
    ck_assert_msg(strstr(error->text, words) != NULL, "'%s' is not in: %s", words, error->text);
}

/* A policy file in the current directory's own temporary one; unlinked by the caller. */
static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static weir_status open_with(const weir_options *options, weir_error *error, weir **w)
{
    *error = (weir_error)WEIR_ERROR_INIT;
    *w = NULL;
    return weir_open(options, error, w);
}

/* Where the policy comes from ---------------------------------------------------------------------------------------------------------- */

START_TEST(without_a_policy_the_built_in_one_serves)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    void *ptr = NULL;
    fixture_machine("devices=2");
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    options.gpu = "sim";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_OK);
    for (int device = 0; device < 2; device++) {
        ck_assert_int_eq(weir_malloc(w, &ptr, 1000, device, NULL), WEIR_OK);
        ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    }
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(null_options_mean_all_defaults)
{
    weir_error error;
    weir *w;
    fixture_machine(NULL);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setenv("WEIR_GPU", "sim", 1);
    ck_assert_int_eq(open_with(NULL, &error, &w), WEIR_OK);
    weir_close(w);
}
END_TEST

START_TEST(record_that_was_cleared_takes_the_next_error)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options missing = { .size = sizeof missing, .policy_file = "nowhere.yaml" }, bad = { .size = sizeof bad, .policy_text = "weir: 2" };
    weir *w;
    ck_assert_int_eq(weir_open(&missing, &error, &w), WEIR_UNREADABLE);
    ck_assert_int_eq(weir_open(&bad, &error, &w), WEIR_BAD_POLICY);
    ck_assert_int_eq(error.status, WEIR_UNREADABLE); /* the first one stays */
    weir_error_clear(&error);
    ck_assert_int_eq(error.status, WEIR_OK);
    ck_assert_str_eq(error.text, "");
    ck_assert_str_eq(error.file, "");
    ck_assert_int_eq(weir_open(&bad, &error, &w), WEIR_BAD_POLICY);
    ck_assert_int_eq(error.status, WEIR_BAD_POLICY);
    ck_assert_uint_eq(error.line, 1);
    weir_error_clear(&error);
    ck_assert_uint_eq(error.line + error.column + (unsigned)error.cuda_code, 0);
    weir_error_clear(NULL);
}
END_TEST

START_TEST(policy_file_is_read)
{
    char path[] = "/tmp/weir-open-XXXXXX";
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    fixture_machine(NULL);
    close(mkstemp(path));
    write_file(path, "weir: 1\npools: { frames: {} }\n");
    options.policy_file = path;
    options.gpu = "sim";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_OK);
    ck_assert_str_eq(weir_pool_name(fixture_pool(w, NULL, 0)), "frames");
    weir_close(w);
    unlink(path);
}
END_TEST

START_TEST(weir_conf_stands_above_the_policy_text)
{
    fixture_machine(NULL);
    setenv("WEIR_CONF", "pools.a.max_size=64MiB", 1);
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 1GiB } }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).max_size, MIB(64));
    weir_close(w);
}
END_TEST

START_TEST(error_in_weir_conf_is_placed_there)
{
    fixture_machine(NULL);
    setenv("WEIR_CONF", "pools.a.max_sise=64MiB", 1);
    weir_error error = fixture_refuse("weir: 1\npools: { a: {} }\n", WEIR_BAD_POLICY);
    assert_place(&error, "WEIR_CONF", 1, 1);
}
END_TEST

START_TEST(every_error_of_a_policy_has_a_line)
{
    fixture_machine(NULL);
    weir_error error = fixture_refuse("weir: 1\ndefaults: { pool: a }\npools:\n  a: { max_sise: 1 }\n  b: { curent: true }\n",
                                      WEIR_BAD_POLICY);
    assert_place(&error, "policy_text", 4, 8);
    assert_says(&error, "policy_text:4:8: ");
    assert_says(&error, "\npolicy_text:5:8: ");
}
END_TEST

START_TEST(policy_file_that_is_not_there_is_unreadable)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    fixture_machine(NULL);
    options.policy_file = "/nonexistent/policy.yaml";
    options.gpu = "sim";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_UNREADABLE);
    ck_assert_str_eq(error.file, "/nonexistent/policy.yaml");
    ck_assert_ptr_null(w);
}
END_TEST

/* Options ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(file_and_text_together_are_refused)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    options.policy_file = "a";
    options.policy_text = "b";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_INVALID);
    assert_says(&error, "policy_text");
}
END_TEST

START_TEST(open_needs_a_place_for_the_weir)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(weir_open(NULL, &error, NULL), WEIR_INVALID);
    assert_says(&error, "weir_open");
}
END_TEST

START_TEST(unknown_gpu_is_invalid)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    options.policy_text = "weir: 1\npools: { a: {} }\n";
    options.gpu = "vulkan";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_INVALID);
    assert_says(&error, "\"sim\"");
    options.gpu = NULL;
    setenv("WEIR_GPU", "opencl", 1);
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_INVALID);
    assert_says(&error, "\"sim\"");
}
END_TEST

START_TEST(simulator_that_cannot_start_says_why_and_not_to_use_the_simulator)
{
    weir_options options = { .size = sizeof options, .policy_text = "weir: 1\npools: { a: {} }\n", .gpu = "sim" };
    char name[64], file[128];
    weir_error error;
    weir *w;
    snprintf(name, sizeof name, "name=open-test-%d", (int)getpid());
    snprintf(file, sizeof file, "/dev/shm/weir-sim-%d-%s", (int)geteuid(), name + strlen("name="));
    ck_assert_int_eq(mkdir(file, 0700), 0);
    setenv("WEIR_SIM", name, 1);
    weir_status status = open_with(&options, &error, &w);
    rmdir(file);
    ck_assert_int_eq(status, WEIR_NO_GPU);
    assert_says(&error, file);
    ck_assert_msg(!strstr(error.text, "WEIR_GPU") && !strstr(error.text, "nvidia-smi"), "%s", error.text);
}
END_TEST

START_TEST(bad_simulator_settings_are_invalid)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    setenv("WEIR_SIM", "devices=many", 1);
    options.policy_text = "weir: 1\npools: { a: {} }\n";
    options.gpu = "sim";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_INVALID);
    assert_says(&error, "devices=many");
}
END_TEST

START_TEST(machine_without_devices_is_no_gpu)
{
    fixture_machine("devices=0");
    weir_error error = fixture_refuse("weir: 1\npools: { a: {} }\n", WEIR_NO_GPU);
    assert_says(&error, "WEIR_SIM");
}
END_TEST

START_TEST(missing_gpu_names_the_simulator_and_never_becomes_it)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    options.policy_text = "weir: 1\npools: { a: {} }\n";
    options.gpu = "cuda";
    weir_status status = open_with(&options, &error, &w);
    if (status == WEIR_OK) { /* this machine has a GPU */
        weir_close(w);
        return;
    }
    ck_assert_int_eq(status, WEIR_NO_GPU);
    assert_says(&error, "WEIR_GPU=sim");
}
END_TEST

/* Refusals that only a machine can know ------------------------------------------------------------------------------------------------ */

/* Each policy is good by itself; `line` and `column` are the place of the value that this machine cannot honour. */
static const struct refusal {
    const char *machine, *policy;
    weir_status status;
    unsigned line, column;
    const char *says;
} refusals[] = {
    { NULL, "weir: 1\npools:\n  a:\n    devices: [3]\n", WEIR_BAD_POLICY, 4, 14, "there is no device 3: this machine has 1" },
    { "devices=2", "weir: 1\npools:\n  a:\n    devices: [0, 2]\n", WEIR_BAD_POLICY, 4, 14, "there is no device 2: this machine has 2" },
    { NULL, "weir: 1\npools:\n  a: { devices: [GPU-00000000-0000-0000-0000-000000000009] }\n", WEIR_BAD_POLICY, 3, 17,
      "there is no device GPU-00000000-0000-0000-0000-000000000009" },
    { "pools=no", "weir: 1\npools: { a: { devices: [0] } }\n", WEIR_NOT_SUPPORTED, 2, 24, "has no memory pools" },
    { "driver=11.1", "weir: 1\npools: { a: { devices: [0] } }\n", WEIR_NOT_SUPPORTED, 2, 24, "11.2" },
    { "driver=12.1", "weir: 1\npools:\n  a:\n    location: host\n", WEIR_NOT_SUPPORTED, 4, 15, "pools on host memory" },
    { "driver=12.1", "weir: 1\npools:\n  a:\n    location: host_numa:0\n", WEIR_NOT_SUPPORTED, 4, 15, "NUMA" },
    { "numa=0", "weir: 1\npools:\n  a:\n    location: host_numa:0\n", WEIR_NOT_SUPPORTED, 4, 15, "NUMA" },
    { "posix_fd=no", "weir: 1\npools:\n  a:\n    ipc: posix_fd\n", WEIR_NOT_SUPPORTED, 4, 10, "file descriptor" },
    { "mig=yes", "weir: 1\npools:\n  a:\n    ipc: posix_fd\n", WEIR_NOT_SUPPORTED, 4, 10, "file descriptor" },
    { "devices=3,peers=0-1", "weir: 1\npools:\n  a:\n    devices: [0]\n    peer_access: [2]\n", WEIR_BAD_POLICY, 5, 18,
      "device 2 cannot reach the memory of device 0" },
    { "devices=2", "weir: 1\npools:\n  a:\n    devices: [0]\n    peer_access: [5]\n", WEIR_BAD_POLICY, 5, 18, "there is no device 5" },
    { "devices=2", "weir: 1\npools:\n  a:\n    devices: [0]\n    peer_access: [GPU-00000000-0000-0000-0000-00000000000a]\n",
      WEIR_BAD_POLICY, 5, 18, "there is no device GPU-00000000-0000-0000-0000-00000000000a" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    initial_size: 2GiB\n", WEIR_BAD_POLICY, 4, 19, "more than device 0 has" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    release_threshold: 10%\n    initial_size: 512MiB\n", WEIR_BAD_POLICY, 5, 19,
      "above release_threshold" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    max_size: 25%\n    initial_size: 512MiB\n", WEIR_BAD_POLICY, 5, 19, "above max_size" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    max_size: 256MiB\n    initial_size: 50%\n", WEIR_BAD_POLICY, 5, 19, "above max_size" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    max_size: 6%\n", WEIR_BAD_POLICY, 4, 15, "write 64 MiB or more, or small_below: 0" },
    { "memory=1GiB", "weir: 1\npools:\n  a:\n    max_size: 3%\n    small_below: 0\n", WEIR_BAD_POLICY, 4, 15, "write 32 MiB or more" },
    { NULL,
      "weir: 1\ndefaults: { pool: a }\npools:\n  a:\n    current: true\n    devices: [0]\n  b:\n    current: true\n"
      "    devices: [GPU-00000000-0000-0000-0000-000000000000]\n",
      WEIR_BAD_POLICY, 8, 14, "the current one of device 0 already" },
};

START_TEST(what_the_machine_cannot_do_is_refused_at_its_place)
{
    const struct refusal *refusal = &refusals[_i];
    fixture_machine(refusal->machine);
    weir_error error = fixture_refuse(refusal->policy, refusal->status);
    assert_says(&error, refusal->says);
    assert_place(&error, "policy_text", refusal->line, refusal->column);
}
END_TEST

START_TEST(second_pool_refused_takes_the_first_one_along)
{
    fixture_machine("devices=2,posix_fd=no");
    fixture_refuse("weir: 1\ndefaults: { pool: a }\npools:\n  a: { initial_size: 64MiB, current: true, peer_access: all }\n"
                   "  b: { ipc: posix_fd }\n", WEIR_NOT_SUPPORTED);
}
END_TEST

START_TEST(initial_size_that_the_device_has_no_room_for_is_out_of_memory)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error;
    weir *w;
    gpu_pool pool;
    void *ptr;
    fixture_machine("memory=1GiB");
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->pool_get_default(0, &pool), GPU_SUCCESS);
    ck_assert_int_eq(gpu->malloc_async(&ptr, MIB(512), pool, NULL), GPU_SUCCESS);
    options.gpu = "sim";
    options.policy_text = "weir: 1\npools:\n  a:\n    initial_size: 768MiB\n";
    ck_assert_int_eq(open_with(&options, &error, &w), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_null(w);
    assert_place(&error, "policy_text", 4, 19);
    assert_says(&error, "768 MiB");
    ck_assert_int_eq(gpu->free_async(ptr, NULL), GPU_SUCCESS);
    ck_assert_int_eq(gpu->device_synchronize(0), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

/* Closing ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(closing_null_does_nothing)
{
    weir_close(NULL);
    weir_stream_close(NULL);
    weir_stats_free(NULL);
}
END_TEST

START_TEST(close_closes_streams_that_are_still_open)
{
    gpu_stream handle;
    weir_stream *s;
    fixture_machine(NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &handle), GPU_SUCCESS);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\nstreams: { decode: { private: true } }\n");
    ck_assert_int_eq(weir_stream_open(w, 0, handle, "decode", NULL, &s), WEIR_OK);
    fixture_stream(w, 0, "decode");
    weir_close(w);
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.streams, 1); /* the program's own */
    ck_assert_uint_eq(census.pools, 0);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

START_TEST(live_block_outlives_the_weir_and_is_logged)
{
    unsigned char data[1000] = { 0 };
    gpu_stream stream;
    void *ptr;
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->stream_create(0, &stream), GPU_SUCCESS);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, sizeof data, 0, stream), WEIR_OK);
    ck_assert_int_eq(gpu->set_async(ptr, 0x5a, sizeof data, stream), GPU_SUCCESS);
    weir_close(w);
    const char *line = fixture_log();
    ck_assert_msg(strstr(line, "pool 'a'") && strstr(line, "1 live block ("), "%s", line);

    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.blocks, 1);
    ck_assert_int_eq(gpu->copy_async(data, ptr, sizeof data, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert_int_eq(data[0], 0x5a);
    ck_assert_int_eq(data[999], 0x5a);
    ck_assert_int_eq(gpu->free_async(ptr, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_destroy(stream), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

START_TEST(close_logs_nothing_when_all_was_freed)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, 100, 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    ck_assert_str_eq(fixture_log(), "");
    fixture_expect_empty();
}
END_TEST

/* Arguments ---------------------------------------------------------------------------------------------------------------------------- */

static void expect_last_error(const char *function)
{
    weir_error error;
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_INVALID);
    assert_says(&error, function);
}

START_TEST(null_arguments_of_allocation_are_invalid)
{
    void *ptr = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    uint64_t calls = sim_calls(NULL);
    ck_assert_int_eq(weir_malloc(NULL, &ptr, 1, 0, NULL), WEIR_INVALID);
    expect_last_error("weir_malloc");
    ck_assert_int_eq(weir_malloc(w, NULL, 1, 0, NULL), WEIR_INVALID);
    expect_last_error("weir_malloc");
    ck_assert_int_eq(weir_free(NULL, &ptr, NULL), WEIR_INVALID);
    expect_last_error("weir_free");
    ck_assert_int_eq(weir_stream_malloc(NULL, &ptr, 1), WEIR_INVALID);
    expect_last_error("weir_stream_malloc");
    ck_assert_int_eq(weir_stream_malloc(s, NULL, 1), WEIR_INVALID);
    expect_last_error("weir_stream_malloc");
    ck_assert_int_eq(weir_stream_free(NULL, &ptr), WEIR_INVALID);
    expect_last_error("weir_stream_free");
    ck_assert_int_eq(weir_pool_malloc(NULL, &ptr, 1, NULL), WEIR_INVALID);
    expect_last_error("weir_pool_malloc");
    ck_assert_int_eq(weir_pool_malloc(fixture_pool(w, NULL, 0), NULL, 1, NULL), WEIR_INVALID);
    expect_last_error("weir_pool_malloc");
    ck_assert_ptr_null(ptr);
    ck_assert_uint_eq(sim_calls(NULL), calls);
    weir_close(w);
}
END_TEST

static uint64_t give_nothing(void *data, int device, uint64_t needed)
{
    (void)data;
    (void)device;
    (void)needed;
    return 0;
}

/* One call with a NULL where there must be none; it must be refused and say where. */
#define REFUSES(words, function, ...) \
    do { \
        weir_error refused = WEIR_ERROR_INIT; \
        weir_error *e = &refused; \
        ck_assert_int_eq(function(__VA_ARGS__), WEIR_INVALID); \
        ck_assert_int_eq(refused.status, WEIR_INVALID); \
        assert_says(&refused, words); \
    } while (0)

START_TEST(null_arguments_of_everything_else_are_invalid)
{
    weir_stream *s = NULL;
    weir_pool *pool = NULL;
    weir_stats *stats = NULL;
    unsigned id = 0;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    REFUSES("weir_reload", weir_reload, NULL, NULL, e);
    REFUSES("weir_stream_synchronize", weir_stream_synchronize, NULL, e);
    REFUSES("weir_pool_get", weir_pool_get, NULL, NULL, 0, e, &pool);
    REFUSES("weir_pool_get", weir_pool_get, w, NULL, 0, e, NULL);
    REFUSES("weir_pool_trim", weir_pool_trim, NULL, 0, e, NULL);
    REFUSES("weir_pool_set_release_threshold", weir_pool_set_release_threshold, NULL, 0, e);
    REFUSES("weir_stats_take", weir_stats_take, NULL, e, &stats);
    REFUSES("weir_stats_take", weir_stats_take, w, e, NULL);
    REFUSES("weir_oom_add", weir_oom_add, NULL, give_nothing, NULL, e, &id);
    REFUSES("weir_oom_add", weir_oom_add, w, NULL, NULL, e, &id);
    REFUSES("weir_oom_add", weir_oom_add, w, give_nothing, NULL, e, NULL);
    REFUSES("weir_oom_remove", weir_oom_remove, NULL, 1, e);
    REFUSES("opening a stream", weir_stream_open, NULL, 0, NULL, NULL, e, &s);
    REFUSES("opening a stream", weir_stream_open, w, 0, NULL, NULL, e, NULL);
    REFUSES("opening a stream", weir_stream_create, NULL, 0, NULL, e, &s);
    REFUSES("opening a stream", weir_stream_create, w, 0, NULL, e, NULL);
    ck_assert(!s && !pool && !stats && !id);
    weir_close(w);
}
END_TEST

START_TEST(getters_of_null_give_null)
{
    ck_assert_ptr_null(weir_stream_handle(NULL));
    ck_assert_int_eq(weir_stream_device(NULL), -1);
    ck_assert_ptr_null(weir_stream_pool(NULL));
    ck_assert_ptr_null(weir_pool_handle(NULL));
    ck_assert_ptr_null(weir_pool_small_handle(NULL));
    ck_assert_ptr_null(weir_pool_name(NULL));
    ck_assert_int_eq(weir_pool_device(NULL), -1);
    ck_assert_uint_eq(weir_stats_pool_count(NULL), 0);
    ck_assert_ptr_null(weir_stats_pool(NULL, 0));
    ck_assert_uint_eq(weir_stats_device_count(NULL), 0);
    ck_assert_ptr_null(weir_stats_device(NULL, 0));
}
END_TEST

static const int no_devices[] = { -1, 2, 1000000 };

START_TEST(device_that_does_not_exist_is_not_found)
{
    int device = no_devices[_i];
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    weir_stream *s;
    void *ptr;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, 1, device, NULL), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_pool_get(w, NULL, device, &error, &pool), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_stream_create(w, device, NULL, &error, &s), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_stream_open(w, device, NULL, NULL, &error, &s), WEIR_NOT_FOUND);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static void add_opening(Suite *suite)
{
    TCase *tcase = suite_case(suite, "policy", 0);
    suite_add(tcase, without_a_policy_the_built_in_one_serves, null_options_mean_all_defaults, record_that_was_cleared_takes_the_next_error,
              policy_file_is_read, weir_conf_stands_above_the_policy_text, error_in_weir_conf_is_placed_there,
              every_error_of_a_policy_has_a_line, policy_file_that_is_not_there_is_unreadable);

    tcase = suite_case(suite, "options", 0);
    suite_add(tcase, file_and_text_together_are_refused, open_needs_a_place_for_the_weir, unknown_gpu_is_invalid,
              simulator_that_cannot_start_says_why_and_not_to_use_the_simulator, bad_simulator_settings_are_invalid,
              machine_without_devices_is_no_gpu, missing_gpu_names_the_simulator_and_never_becomes_it);
}

int main(void)
{
    Suite *suite = suite_create("open");
    add_opening(suite);

    TCase *tcase = suite_case(suite, "refusals", 0);
    tcase_add_loop_test(tcase, what_the_machine_cannot_do_is_refused_at_its_place, 0, (int)(sizeof refusals / sizeof refusals[0]));
    suite_add(tcase, second_pool_refused_takes_the_first_one_along, initial_size_that_the_device_has_no_room_for_is_out_of_memory);

    tcase = suite_case(suite, "close", 0);
    suite_add(tcase, closing_null_does_nothing, close_closes_streams_that_are_still_open, live_block_outlives_the_weir_and_is_logged,
              close_logs_nothing_when_all_was_freed);

    tcase = suite_case(suite, "arguments", 0);
    suite_add(tcase, null_arguments_of_allocation_are_invalid, null_arguments_of_everything_else_are_invalid, getters_of_null_give_null);
    tcase_add_loop_test(tcase, device_that_does_not_exist_is_not_found, 0, (int)(sizeof no_devices / sizeof no_devices[0]));
    return suite_run(suite);
}
