/* SPDX-License-Identifier: MIT */
/* sim.c - what the simulator has beyond the facts of the conformance suite: settings, environment, faults, forks. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/sim_named.h"

const struct gpu *g;
gpu_pool pool;
gpu_stream a, b;

void configure(const char *settings)
{
    char why[256] = "";
    ck_assert_msg(!sim_configure(settings, why, sizeof(why)), "%s", why);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &pool), 0);
    ck_assert_int_eq(g->stream_create(0, &a), 0);
    ck_assert_int_eq(g->stream_create(0, &b), 0);
}

static void start(void)
{
    const char *why;
    unsetenv("WEIR_SIM");
    g = gpu_find("sim", &why);
    ck_assert_ptr_nonnull(g);
    configure("devices=2");
}

/* Starts anew, so that nothing of a test is left. */
static void end(void)
{
    char why[256];
    struct sim_census census;
    ck_assert_int_eq(sim_configure(NULL, why, sizeof(why)), 0);
    sim_census(&census);
    ck_assert_uint_eq(census.blocks + census.pools + census.streams + census.events + census.ranges + census.pages + census.hosts + census.reserved, 0);
}

void *take(uint64_t size, gpu_stream stream)
{
    void *ptr = NULL;
    ck_assert_int_eq(g->malloc_async(&ptr, size, pool, stream), 0);
    return ptr;
}

uint64_t figure(enum gpu_pool_attribute attribute)
{
    uint64_t value;
    ck_assert_int_eq(g->pool_get(pool, attribute, &value), 0);
    return value;
}

int in_child(int (*act)(void))
{
    int status = 0;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(act());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TCase *sim_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, start, end);
    return tcase;
}

/* Settings ----------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *settings, *named; /* what the error must name */
} bad_settings[] = {
    { "devices", "'devices'" },
    { "devices=", "'devices='" },
    { "devices=17", "from 0 to 16" },
    { "devices=two", "'devices=two'" },
    { "devices=-1", "'devices=-1'" },
    { "devices=1x", "'devices=1x'" },
    { "devices=99999999999999999999", "from 0 to 16" },
    { "memory=8GB", "memory=8GiB" },
    { "memory=1MiB", "32MiB" },
    { "memory=2TiB", "1TiB" },
    { "memory=99999999999TiB", "1TiB" },
    { "memory=GiB", "memory=8GiB" },
    { "grow=830", "830us/GiB" },
    { "trim=930us", "930us/GiB" },
    { "grow=1us+830us/GiB", "830us/GiB" },
    { "grow_host=830", "grow_host=250ms/GiB" },
    { "first=830us/GiB", "first=360us" },
    { "malloc_async", "malloc_async=300ns" },
    { "malloc_async=300", "malloc_async=300ns" },
    { "malloc_async=-1ns", "malloc_async=300ns" },
    { "malloc_async=60001ms", "60000ms" },
    { "malloc_async=99999999999999999999ns", "60000ms" },
    { "malloc_async=99999999999999999ms", "60000ms" },
    { "free_async=1us/GiB", "malloc_async=300ns" },
    { "page_map=1us+", "page_create=7us+10us/GiB" },
    { "page_map=1us+2us", "page_create=7us+10us/GiB" },
    { "page_map=1us/GiB+2us", "page_create=7us+10us/GiB" },
    { "page_map=1us/MiB", "page_create=7us+10us/GiB" },
    { "page_map=us/GiB", "page_create=7us+10us/GiB" },
    { "driver=12", "driver=12.2" },
    { "driver=12.x", "driver=12.2" },
    { "driver=.2", "driver=12.2" },
    { "driver=9.0", "10.0" },
    { "numa=65", "numa=1" },
    { "posix_fd=maybe", "yes or no" },
    { "pools=1", "yes or no" },
    { "mig=", "yes or no" },
    { "os_managed=2", "yes or no" },
    { "mapping=2", "yes or no" },
    { "addresses=129TiB", "128TiB" },
    { "peers=some", "peers=0-1" },
    { "peers=0", "peers=0-1" },
    { "peers=0-0", "peers=0-1" },
    { "peers=0-16", "peers=0-1" },
    { "peers=", "peers=0-1" },
    { "fail=malloc_async", "fail=malloc_async:3:2" },
    { "fail=no_such_call:1:2", "'fail=no_such_call:1:2'" },
    { "fail=malloc_async:0:2", "fail=malloc_async:3:2" },
    { "fail=malloc_async:1:0", "fail=malloc_async:3:2" },
    { "fail=malloc_async:1:2:3", "fail=malloc_async:3:2" },
    { "fail=now:1:2", "fail=malloc_async:3:2" },
    { "devises=2", "devices=" },
    { ",", "devices=" },
    { "memory=8GiB,,devices=2", "''" },
    { "name=", "name=test-1" },
    { "name=a/b", "'name=a/b'" },
    { "name=a b", "letters" },
    { "name=123456789012345678901234567890123", "1 to 32" },
};

START_TEST(bad_setting_is_named_with_its_remedy)
{
    char why[256] = "";
    ck_assert_int_eq(sim_configure(bad_settings[_i].settings, why, sizeof(why)), -1);
    ck_assert_msg(strstr(why, bad_settings[_i].named) != NULL, "%s: %s", bad_settings[_i].settings, why);
    ck_assert_ptr_nonnull(strstr(why, "write "));
}
END_TEST

START_TEST(bad_setting_keeps_the_former_state)
{
    char why[256];
    uint64_t id;
    ck_assert_int_eq(sim_configure("devices=17", why, sizeof(why)), -1);
    ck_assert_int_eq(g->stream_id(a, &id), 0);
}
END_TEST

START_TEST(settings_make_the_devices)
{
    int count, driver, runtime;
    uint64_t free_bytes, total_bytes;
    configure("devices=3,memory=64MiB,driver=12.2");
    ck_assert_int_eq(g->device_count(&count), 0);
    ck_assert_int_eq(g->device_memory(2, &free_bytes, &total_bytes), 0);
    ck_assert_int_eq(g->versions(&driver, &runtime), 0);
    ck_assert_int_eq(count, 3);
    ck_assert_uint_eq(total_bytes, 64 * MIB);
    ck_assert_int_eq(driver, 12020);
    ck_assert_int_eq(g->device_memory(3, &free_bytes, &total_bytes), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(machine_without_devices_says_so)
{
    char why[256];
    int count;
    ck_assert_int_eq(sim_configure("devices=0", why, sizeof(why)), 0);
    ck_assert_int_eq(g->device_count(&count), GPU_NO_DEVICE);
}
END_TEST

START_TEST(mig_device_is_named_so_and_cannot_export)
{
    char why[256];
    struct gpu_device_info info;
    configure("mig=yes");
    ck_assert_int_eq(g->device_info(0, &info), 0);
    ck_assert(info.mig);
    ck_assert_int_eq(strncmp(info.uuid, "MIG-", 4), 0);
    ck_assert(!g->supports(0, GPU_FEATURE_POOL_POSIX_FD, why, sizeof(why)));
    ck_assert_ptr_nonnull(strstr(why, "mig=yes"));
}
END_TEST

static const struct {
    const char *settings;
    enum gpu_feature feature;
    const char *why; /* NULL: supported */
} features[] = {
    { "driver=11.1", GPU_FEATURE_POOLS, "11.2" },
    { "driver=11.2", GPU_FEATURE_POOLS, NULL },
    { "driver=11.2", GPU_FEATURE_POOL_USAGE, "11.3" },
    { "driver=11.3", GPU_FEATURE_POOL_USAGE, NULL },
    { "driver=11.8", GPU_FEATURE_STREAM_ID, "12.0" },
    { "driver=12.0", GPU_FEATURE_STREAM_ID, NULL },
    { "driver=12.9", GPU_FEATURE_POOL_HOST, "13.0" },
    { "driver=13.0", GPU_FEATURE_POOL_HOST, NULL },
    { "driver=11.2", GPU_FEATURE_POOL_POSIX_FD, "11.3" },
    { "driver=11.3", GPU_FEATURE_POOL_POSIX_FD, NULL },
    { "driver=12.1", GPU_FEATURE_POOL_HOST_NUMA, "12.2" },
    { "driver=12.1", GPU_FEATURE_POOL_MAX_SIZE, "the simulated driver is for CUDA 12.1" },
    { "driver=12.2", GPU_FEATURE_POOL_MAX_SIZE, NULL },
    { "driver=12.2", GPU_FEATURE_POOL_HOST_NUMA, NULL },
    { "numa=0", GPU_FEATURE_POOL_HOST_NUMA, "numa=0" },
    { "pools=no", GPU_FEATURE_POOLS, "pools=no" },
    { "pools=no", GPU_FEATURE_STREAM_ID, NULL },
    { "posix_fd=no", GPU_FEATURE_POOL_POSIX_FD, "posix_fd=no" },
    { "", GPU_FEATURE_POOL_FABRIC, "fabric" },
    { "driver=11.1", GPU_FEATURE_MAPPING, "11.2" },
    { "driver=11.2", GPU_FEATURE_MAPPING, NULL },
    { "mapping=no", GPU_FEATURE_MAPPING, "mapping=no" },
    { "devices=0", GPU_FEATURE_POOLS, "no simulated device 0" },
    { "", GPU_FEATURE_COUNT, "no feature" },
};

START_TEST(feature_is_there_or_says_why_not)
{
    char why[256] = "";
    ck_assert_int_eq(sim_configure(features[_i].settings, why, sizeof(why)), 0);
    ck_assert(g->supports(0, features[_i].feature, why, sizeof(why)) == !features[_i].why);
    ck_assert_msg(strstr(why, features[_i].why ? features[_i].why : "") != NULL, "%s", why);
}
END_TEST

START_TEST(what_is_not_supported_is_refused)
{
    char why[256];
    uint64_t value;
    gpu_pool refused = NULL;
    ck_assert_int_eq(sim_configure("driver=11.2,posix_fd=no", why, sizeof(why)), 0);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .max_size = MIB }, &refused), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .posix_fd = true }, &refused), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .location = GPU_LOCATION_HOST }, &refused), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->stream_id(NULL, &value), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &pool), 0);
    ck_assert_int_eq(g->pool_get(pool, GPU_POOL_USED, &value), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_USED_HIGH, 0), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_get(pool, GPU_POOL_RELEASE_THRESHOLD, &value), 0);
}
END_TEST

START_TEST(device_without_pools_has_no_default_pool)
{
    char why[256];
    gpu_pool standard;
    ck_assert_int_eq(sim_configure("pools=no", why, sizeof(why)), 0);
    ck_assert_int_eq(g->pool_get_default(0, &standard), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->pool_get_current(0, &standard), GPU_NOT_SUPPORTED);
}
END_TEST

START_TEST(peers_are_pairs)
{
    bool near = false, far = true, self = true;
    configure("devices=3,peers=0-1+1-2");
    ck_assert_int_eq(g->can_access_peer(1, 2, &near), 0);
    ck_assert_int_eq(g->can_access_peer(2, 0, &far), 0);
    ck_assert_int_eq(g->can_access_peer(0, 0, &self), 0);
    ck_assert(near && !far && !self);
    ck_assert_int_eq(g->can_access_peer(0, 3, &near), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(access_for_a_device_that_cannot_reach_is_refused)
{
    configure("devices=2,peers=none");
    ck_assert_int_eq(g->pool_set_access(pool, 1, GPU_ACCESS_READ_WRITE), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->pool_set_access(pool, 2, GPU_ACCESS_READ_WRITE), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(unknown_numa_node_is_refused)
{
    gpu_pool refused;
    struct gpu_pool_spec spec = { .location = GPU_LOCATION_HOST_NUMA, .numa_node = 1 };
    ck_assert_int_eq(g->pool_create(&spec, &refused), GPU_INVALID_VALUE);
}
END_TEST

/* Environment: read by the first use in a process, so this program runs itself once more. ---------------------------------------------- */

static const char *environment_argument, *environment_setting;

static int exec_self(void)
{
    /* Read first: under valgrind the link itself leads to valgrind. */
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len < 0)
        return 200;
    path[len] = '\0';
    setenv("WEIR_SIM", environment_setting, 1);
    execl(path, "sim", environment_argument, (char *)NULL);
    return 200;
}

/* What main() answers to the argument under that $WEIR_SIM. */
int ask_fresh_process(const char *argument, const char *setting)
{
    environment_argument = argument;
    environment_setting = setting;
    return in_child(exec_self);
}

static int answer_find(void)
{
    const char *why = NULL;
    return !gpu_find("sim", &why) && strstr(why, "$WEIR_SIM") && strstr(why, getenv("WEIR_SIM"));
}

static int answer_differs(void)
{
    const char *why = NULL;
    return !gpu_find("sim", &why) && strstr(why, "$WEIR_SIM") && strstr(why, "another peers=");
}

static int answer_count(void)
{
    int count;
    g = gpu_find("sim", &(const char *){ NULL });
    return !g || g->device_count(&count) ? 100 : count;
}

/* The table was found while the environment was still good. */
static int answer_contact(void)
{
    int count;
    char *setting = strdup(getenv("WEIR_SIM"));
    unsetenv("WEIR_SIM");
    g = gpu_find("sim", &(const char *){ NULL });
    setenv("WEIR_SIM", setting, 1);
    free(setting);
    return g->device_count(&count);
}

START_TEST(bad_environment_is_told_by_gpu_find)
{
    ck_assert_int_eq(ask_fresh_process("find", "devices=17"), 1);
}
END_TEST

START_TEST(bad_environment_fails_the_first_contact)
{
    ck_assert_int_eq(ask_fresh_process("contact", "devices=17"), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(first_use_reads_the_environment)
{
    ck_assert_int_eq(ask_fresh_process("count", "devices=5"), 5);
}
END_TEST

START_TEST(empty_environment_means_the_defaults)
{
    ck_assert_int_eq(ask_fresh_process("count", ""), 1);
}
END_TEST

START_TEST(unknown_implementation_is_refused_with_the_remedy)
{
    const char *why = NULL;
    ck_assert_ptr_null(gpu_find("metal", &why));
    ck_assert_ptr_nonnull(strstr(why, "\"sim\""));
}
END_TEST

START_TEST(every_feature_has_a_name)
{
    for (int feature = 0; feature < GPU_FEATURE_COUNT; feature++)
        ck_assert_str_ne(gpu_feature_name((enum gpu_feature)feature), "unknown feature");
    ck_assert_str_eq(gpu_feature_name(GPU_FEATURE_COUNT), "unknown feature");
}
END_TEST

/* Faults, counts, errors --------------------------------------------------------------------------------------------------------------- */

START_TEST(fault_hits_the_nth_call_once)
{
    void *ptr;
    sim_fail("malloc_async", 2, GPU_OUT_OF_MEMORY);
    take(1, a);
    ck_assert_int_eq(g->malloc_async(&ptr, 1, pool, a), GPU_OUT_OF_MEMORY);
    take(1, a);
    ck_assert_uint_eq(figure(GPU_POOL_USED), 2);
}
END_TEST

START_TEST(fault_of_any_operation_counts_all_calls)
{
    uint64_t free_bytes, total_bytes;
    sim_fail(NULL, 2, GPU_UNKNOWN);
    take(1, a);
    ck_assert_int_eq(g->device_memory(0, &free_bytes, &total_bytes), GPU_UNKNOWN);
    ck_assert_int_eq(g->device_memory(0, &free_bytes, &total_bytes), 0);
}
END_TEST

START_TEST(fault_can_be_cleared)
{
    sim_fail("malloc_async", 1, GPU_OUT_OF_MEMORY);
    sim_fail("malloc_async", 0, 0);
    take(1, a);
}
END_TEST

START_TEST(fault_of_no_known_operation_does_nothing)
{
    sim_fail("no_such_call", 1, GPU_OUT_OF_MEMORY);
    take(1, a);
}
END_TEST

START_TEST(fault_can_be_a_setting)
{
    void *ptr;
    configure("fail=malloc_async:1:999");
    ck_assert_int_eq(g->malloc_async(&ptr, 1, pool, a), GPU_UNKNOWN);
}
END_TEST

START_TEST(fault_of_any_operation_can_be_a_setting)
{
    char why[256];
    int count;
    ck_assert_int_eq(sim_configure("fail=any:1:999", why, sizeof(why)), 0);
    ck_assert_int_eq(g->device_count(&count), GPU_UNKNOWN);
}
END_TEST

START_TEST(calls_are_counted)
{
    uint64_t all = sim_calls(NULL);
    ck_assert_uint_eq(sim_calls("malloc_async"), 0);
    ck_assert_int_eq(g->free_async(take(1, a), a), 0);
    ck_assert_uint_eq(sim_calls("malloc_async"), 1);
    ck_assert_uint_eq(sim_calls(NULL), all + 2);
    ck_assert_uint_eq(sim_calls("no_such_call"), UINT64_MAX);
}
END_TEST

START_TEST(census_counts_what_exists)
{
    struct sim_census census;
    gpu_event event;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    take(1, a);
    sim_census(&census);
    ck_assert_uint_eq(census.blocks, 1);
    ck_assert_uint_eq(census.pools, 1);
    ck_assert_uint_eq(census.streams, 2);
    ck_assert_uint_eq(census.events, 1);
    ck_assert_uint_eq(census.reserved, 32 * MIB);
}
END_TEST

/* A handle that is none, for each operation that takes one. */
START_TEST(dead_handles_are_refused)
{
    gpu_event event;
    uint64_t value;
    void *ptr;
    int fd;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->event_destroy(event), 0);
    ck_assert_int_eq(g->pool_destroy(pool), 0);
    ck_assert_int_eq(g->event_destroy(event), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->event_record(event, a), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->event_query(event), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->event_synchronize(event), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->stream_wait_event(a, event), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->stream_destroy(GPU_STREAM_LEGACY), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->malloc_async(&ptr, 1, pool, a), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_destroy(pool), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_trim(pool, 0), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_get(pool, GPU_POOL_USED, &value), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_USED_HIGH, 0), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_set_current(0, pool), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_set_access(pool, 1, GPU_ACCESS_NONE), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_get_access(pool, 1, &(enum gpu_access){ GPU_ACCESS_NONE }), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_export(pool, &fd), GPU_INVALID_VALUE);
}
END_TEST

/* What can be asked of a stream. CUDA's driver crashes where it was destroyed. */
static int ask_destroy(gpu_stream stream) { return g->stream_destroy(stream); }
static int ask_synchronize(gpu_stream stream) { return g->stream_synchronize(stream); }
static int ask_id(gpu_stream stream) { return g->stream_id(stream, &(uint64_t){ 0 }); }
static int ask_device(gpu_stream stream) { return g->stream_device(stream, &(int){ 0 }); }
static int ask_context(gpu_stream stream) { return g->stream_context(stream, &(struct gpu_context){ .id = 0 }); }
static int ask_capture_status(gpu_stream stream) { return g->stream_capture_status(stream, &(enum gpu_capture_status){ 0 }); }
static int ask_capture_id(gpu_stream stream) { return g->stream_capture_id(stream, &(uint64_t){ 0 }); }
static int ask_delay(gpu_stream stream) { return g->delay(stream, 1); }
static int ask_begin(gpu_stream stream) { return g->capture_begin(stream, GPU_CAPTURE_MODE_GLOBAL); }
static int ask_end(gpu_stream stream) { return g->capture_end(stream, &(size_t){ 0 }); }
static int ask_malloc(gpu_stream stream) { return g->malloc_async(&(void *){ NULL }, 1, pool, stream); }
static int ask_free(gpu_stream stream) { return g->free_async(take(512, a), stream); }
static int ask_set(gpu_stream stream) { return g->set_async(take(512, a), 0, 1, stream); }
static int ask_copy(gpu_stream stream) { return g->copy_async(take(512, a), &g, 1, stream); }
static int ask_record(gpu_stream stream)
{
    gpu_event event;
    return g->event_create(0, &event) ? 0 : g->event_record(event, stream);
}
static int ask_wait(gpu_stream stream)
{
    gpu_event event;
    return g->event_create(0, &event) ? 0 : g->stream_wait_event(stream, event);
}

static int (*const questions[])(gpu_stream stream) = {
    ask_destroy, ask_synchronize, ask_id,     ask_device, ask_capture_status, ask_capture_id, ask_delay,  ask_begin,
    ask_end,     ask_malloc,      ask_free,   ask_set,    ask_copy,           ask_record,     ask_wait,   ask_context,
};
#define QUESTIONS ((int)(sizeof questions / sizeof *questions))

START_TEST(question_to_a_destroyed_stream_aborts)
{
    gpu_stream stream;
    ck_assert_int_eq(g->stream_create(0, &stream), 0);
    ck_assert_int_eq(g->stream_destroy(stream), 0);
    ck_assert_int_ge(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO), 0); /* what it says is expected here */
    questions[_i](stream);
}
END_TEST

START_TEST(question_to_a_stream_of_a_destroyed_context_aborts)
{
    gpu_stream stream;
    void *context = sim_context_create(0);
    ck_assert_int_eq(g->stream_create(0, &stream), 0);
    sim_context_destroy(context);
    ck_assert_int_ge(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO), 0); /* what it says is expected here */
    questions[_i](stream);
}
END_TEST

/* CUDA gives it to the next one at once. */
START_TEST(handle_of_a_destroyed_context_is_used_again)
{
    void *context = sim_context_create(0), *other = sim_context_create(0);
    sim_context_destroy(context);
    ck_assert_ptr_eq(sim_context_create(1), context);
    sim_context_destroy(other);
    sim_context_destroy(context);
}
END_TEST

START_TEST(choosing_a_device_ends_the_current_context)
{
    gpu_stream stream;
    gpu_event event;
    void *context = sim_context_create(0);
    ck_assert_int_eq(g->set_current_device(0), 0);
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->event_record(event, a), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->set_current_device(1) ?: g->set_current_device(0), 0);
    ck_assert_int_eq(g->stream_create(0, &stream), 0);
    sim_context_destroy(context);
    ck_assert_int_eq(g->stream_synchronize(stream), 0);
}
END_TEST

START_TEST(event_on_a_destroyed_stream_can_be_asked)
{
    gpu_event event;
    gpu_stream stream;
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->stream_create(0, &stream), 0);
    ck_assert_int_eq(g->delay(stream, 1000000), 0);
    ck_assert_int_eq(g->event_record(event, stream), 0);
    ck_assert_int_eq(g->stream_destroy(stream), 0);
    ck_assert_int_eq(g->event_query(event), GPU_NOT_READY);
    ck_assert_int_eq(g->event_synchronize(event), 0);
    ck_assert_int_eq(g->event_query(event), 0);
}
END_TEST

START_TEST(devices_that_do_not_exist_are_refused)
{
    gpu_pool none;
    gpu_event event;
    gpu_stream stream;
    enum gpu_access access;
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 2 }, &none), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->pool_get_default(2, &none), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->pool_get_current(-1, &none), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->pool_set_current(2, pool), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->pool_set_current(1, pool), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_get_access(pool, 2, &access), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->stream_create(2, &stream), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->event_create(2, &event), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->device_synchronize(2), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(read_only_attributes_cannot_be_written)
{
    uint64_t value;
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_USED, 0), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_USED_HIGH, 1), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RESERVED_HIGH, 1), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_get(pool, (enum gpu_pool_attribute)99, &value), GPU_INVALID_VALUE);
}
END_TEST

/* Forks -------------------------------------------------------------------------------------------------------------------------------- */

static int use_after_fork(void)
{
    int count;
    void *ptr;
    uint64_t calls = sim_calls(NULL);
    return g->device_count(&count) == 3 && g->malloc_async(&ptr, 1, pool, a) == 3 && sim_calls(NULL) == calls + 2;
}

START_TEST(child_of_a_process_that_used_it_is_refused)
{
    take(1, a);
    ck_assert_int_eq(in_child(use_after_fork), 1);
    take(1, a);
}
END_TEST

static int configure_after_fork(void)
{
    char why[256];
    int count;
    return sim_configure("devices=4", why, sizeof(why)) || g->device_count(&count) ? 0 : count;
}

START_TEST(child_that_starts_anew_is_served)
{
    take(1, a);
    ck_assert_int_eq(in_child(configure_after_fork), 4);
}
END_TEST

static void add_settings_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "settings");
    tcase_add_loop_test(tcase, bad_setting_is_named_with_its_remedy, 0, sizeof(bad_settings) / sizeof(*bad_settings));
    suite_add(tcase, bad_setting_keeps_the_former_state, settings_make_the_devices, machine_without_devices_says_so,
              mig_device_is_named_so_and_cannot_export);
    tcase_add_loop_test(tcase, feature_is_there_or_says_why_not, 0, sizeof(features) / sizeof(*features));
    suite_add(tcase, what_is_not_supported_is_refused, device_without_pools_has_no_default_pool, peers_are_pairs,
              access_for_a_device_that_cannot_reach_is_refused, unknown_numa_node_is_refused);
}

static void add_environment_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "environment");
    suite_add(tcase, bad_environment_is_told_by_gpu_find, bad_environment_fails_the_first_contact, first_use_reads_the_environment,
              empty_environment_means_the_defaults, unknown_implementation_is_refused_with_the_remedy, every_feature_has_a_name);
}

static void add_faults_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "faults");
    suite_add(tcase, fault_hits_the_nth_call_once, fault_of_any_operation_counts_all_calls, fault_can_be_cleared,
              fault_of_no_known_operation_does_nothing, fault_can_be_a_setting, fault_of_any_operation_can_be_a_setting, calls_are_counted,
              census_counts_what_exists, dead_handles_are_refused);
    tcase_add_loop_test_raise_signal(tcase, question_to_a_destroyed_stream_aborts, SIGABRT, 0, QUESTIONS);
    tcase_add_loop_test_raise_signal(tcase, question_to_a_stream_of_a_destroyed_context_aborts, SIGABRT, 0, QUESTIONS);
    suite_add(tcase, handle_of_a_destroyed_context_is_used_again, choosing_a_device_ends_the_current_context);
    suite_add(tcase, event_on_a_destroyed_stream_can_be_asked, devices_that_do_not_exist_are_refused,
              read_only_attributes_cannot_be_written, child_of_a_process_that_used_it_is_refused, child_that_starts_anew_is_served);
}

static const struct {
    const char *argument;
    int (*answer)(void);
} answers[] = {
    { "find", answer_find },
    { "differs", answer_differs },
    { "count", answer_count },
    { "contact", answer_contact },
};

int main(int argc, char **argv)
{
    if (peer_main(gpu_find("sim", &(const char *){ NULL }), argc, argv))
        return 0;
    if (argc > 2) /* by start_actor() */
        return act_named(argv[1], (int)strtol(argv[2], NULL, 10));
    for (size_t i = 0; argc > 1 && i < sizeof(answers) / sizeof(*answers); i++) /* by exec_self() */
        if (!strcmp(argv[1], answers[i].argument))
            return answers[i].answer();
    Suite *suite = suite_create("simulator");
    add_settings_tests(suite);
    add_environment_tests(suite);
    add_faults_tests(suite);
    add_work_tests(suite);
    add_cost_tests(suite);
    add_page_tests(suite);
    add_named_tests(suite);
    add_named_clock_tests(suite);
    return suite_run(suite);
}
