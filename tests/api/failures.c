/* SPDX-License-Identifier: MIT */
/*
 * Failure sweeps: one scenario that uses the whole of weir.h, run again and again, each time with another call of the GPU, or another
 * allocation of host memory, failing. Whatever fails: nothing leaks, no block is lost, no figure is wrong, and the status says what it was.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/backing/arena.h"
#include "lib/fence/fence.h"
#include "tests/api/fixture.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"

#define MACHINE "devices=2,memory=512MiB"
#define BLOCKS_MAX 32
#define BUSY 3000000 /* nanoseconds of a kernel that recovery has to wait for */

/* Where the pool that does the most has its memory from, and what else goes with that. */
static const char *const backings[] = { "current: true", "backing: arena" };
#define BACKINGS 2

/* Both in two parts, with that in between. */
static const char *const policy[] = { "weir: 1\n"
                             "defaults: { pool: main }\n"
                             "pools:\n"
                             "  main: { ",
    ", initial_size: 64MiB, release_threshold: 128MiB, peer_access: all }\n"
                             "  capped: { max_size: 64MiB, devices: [0], cache: { per_stream: 8KiB, per_device: 8KiB, largest: 4KiB } }\n"
                             "  driver: { backing: default, devices: [1], release_threshold: 32MiB }\n"
                             "  shared: { ipc: posix_fd, devices: [0], }\n"
                             "streams:\n"
                             "  own: { pool: capped, private: true }\n"
                             "  to_driver: { pool: driver }\n" };

static const char *const policy_later[] = { "weir: 1\n"
                                   "defaults: { pool: main }\n"
                                   "pools:\n"
                                   "  main: { ",
    ", initial_size: 64MiB, release_threshold: 64MiB, peer_access: none,\n"
                                   "          cache: { per_stream: 16KiB, per_device: 64KiB, largest: 16KiB } }\n"
                                   "  capped: { max_size: 64MiB, devices: [0], reuse: { opportunistic: false }, cache: off }\n"
                                   "  driver: { backing: default, devices: [1], release_threshold: 96MiB }\n"
                                   "  shared: { ipc: posix_fd, devices: [0], }\n"
                                   "streams:\n"
                                   "  own: { pool: capped, private: true }\n"
                                   "  to_driver: { pool: driver }\n" };

static char policy_path[64], later_path[64];

/*
 * libcheck allocates in every assertion, which must not happen while an allocation is to fail: what goes wrong during a run is written
 * down, and asserted after it.
 */
static char complaint[1024];

#define MUST(condition, ...) ((condition) ? (void)0 : complain(__LINE__, #condition, __VA_ARGS__))

__attribute__((format(printf, 3, 4))) static void complain(int line, const char *condition, const char *format, ...)
{
    if (complaint[0])
        return;
    int len = snprintf(complaint, sizeof complaint, "line %d: '%s': ", line, condition);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint + len, sizeof complaint - (size_t)len, format, arguments);
    va_end(arguments);
}

/* One run ------------------------------------------------------------------------------------------------------------------------------ */

static struct {
    int code;              /* that the failing call returns; 0: it is an allocation that fails */
    const char *operation; /* the one that fails, NULL with allocations */
    const struct gpu *gpu;
    weir *w;
    weir_stream *streams[5];
    struct {
        void *ptr;
        size_t size;
    } blocks[BLOCKS_MAX];
    size_t count;
    uint64_t hits;     /* of caches, as last seen */
    unsigned failures; /* calls that did not return WEIR_OK, but for those that never can */
} now;

static bool is_operation(const char *name)
{
    return now.operation && strcmp(now.operation, name) == 0;
}

/* Whether the status is what this failure may lead to. */
static bool is_explained(weir_status status, const weir_error *error)
{
    if (now.code == 0) /* the simulator's own want of host memory looks like the device's */
        return status == WEIR_NO_HOST_MEMORY || status == WEIR_OUT_OF_MEMORY;
    if (status == WEIR_NO_GPU)
        return is_operation("device_count");
    if (now.code == GPU_OUT_OF_MEMORY)
        return status == WEIR_OUT_OF_MEMORY;
    return (status == WEIR_CUDA_ERROR && error->cuda_code == now.code) || status == WEIR_OUT_OF_MEMORY;
}

static bool judge(weir_status status, const weir_error *error)
{
    if (status == WEIR_OK)
        return true;
    now.failures++;
    MUST(error->status == status, "%s in the record of %s", weir_status_name(error->status), weir_status_name(status));
    MUST(is_explained(status, error), "%s with code %d after %s failed with %d: %.500s", weir_status_name(status), error->cuda_code,
         now.operation ? now.operation : "an allocation", now.code, error->text);
    return false;
}

static bool judge_last(weir_status status)
{
    weir_error error;
    weir_last_error(&error);
    return judge(status, &error);
}

static void *keep(weir_status status, void *const *ptr, size_t size)
{
    if (!judge_last(status)) {
        MUST(!*ptr, "a failed request wrote a pointer");
        return NULL;
    }
    MUST(*ptr, "a request served without a block");
    now.blocks[now.count].ptr = *ptr;
    now.blocks[now.count++].size = size;
    return *ptr;
}

static void *take(size_t stream, size_t size)
{
    void *ptr = NULL;
    return now.streams[stream] ? keep(weir_stream_malloc(now.streams[stream], &ptr, size), &ptr, size) : NULL;
}

/* A block whose free fails is still live, and stays in the list. */
static void forget(const void *ptr, weir_status status)
{
    size_t i = 0;
    if (!judge_last(status))
        return;
    while (now.blocks[i].ptr != ptr)
        i++;
    now.blocks[i] = now.blocks[--now.count];
}

static void drop(void *ptr, size_t stream)
{
    if (ptr)
        forget(ptr, now.streams[stream] ? weir_stream_free(now.streams[stream], ptr) : weir_free(now.w, ptr, NULL));
}

/* The same through the raw handles of opened streams. */
static void *take_raw(size_t stream, size_t size)
{
    void *ptr = NULL;
    gpu_stream handle = weir_stream_handle(now.streams[stream]);
    return now.streams[stream] ? keep(weir_malloc(now.w, &ptr, size, 0, handle), &ptr, size) : NULL;
}

static void drop_raw(void *ptr, size_t stream)
{
    if (ptr)
        forget(ptr, weir_free(now.w, ptr, weir_stream_handle(now.streams[stream])));
}

static void check_figures(const weir_stats *stats)
{
    uint64_t live = 0, blocks = 0, graph_blocks = 0, model = 0;
    now.hits = 0;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        MUST(pool->live + pool->cached + pool->slack == pool->used, "pool '%s'", pool->name);
        MUST(pool->used + pool->idle == pool->reserved, "pool '%s'", pool->name);
        live += pool->live;
        blocks += pool->live_blocks;
        graph_blocks += pool->graph_blocks;
        now.hits += pool->cache_hits;
    }
    for (size_t i = 0; i < now.count; i++)
        model += now.blocks[i].size;
    MUST(blocks + graph_blocks == now.count, "%llu instead of %zu", (unsigned long long)(blocks + graph_blocks), now.count);
    /* A stream whose state cannot be told is treated as one that captures. */
    MUST(live == model || (is_operation("stream_capture_status") && graph_blocks > 0), "%llu instead of %llu bytes live",
         (unsigned long long)live, (unsigned long long)model);
}

static void look(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats = NULL;
    if (judge(weir_stats_take(now.w, &error, &stats), &error))
        check_figures(stats);
    weir_stats_free(stats);
}

/* The scenario ------------------------------------------------------------------------------------------------------------------------- */

static bool open_weir(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_file = policy_path;
    options.gpu = "sim";
    return judge(weir_open(&options, &error, &now.w), &error);
}

static void open_streams(void)
{
    static const struct {
        int device;
        const char *name;
    } wanted[] = { { 0, NULL }, { 0, "own" }, { 1, "to_driver" }, { 0, NULL } };
    for (size_t i = 0; i < 4; i++) {
        weir_error error = WEIR_ERROR_INIT;
        judge(weir_stream_create(now.w, wanted[i].device, wanted[i].name, &error, &now.streams[i]), &error);
    }
}

static void use_blocks(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *shared;
    void *ptr = NULL;
    void *small = take(0, 1000), *large = take(0, MIB(40)), *own = take(1, MIB(2)), *far = take(2, 5000);
    keep(weir_malloc(now.w, &ptr, MIB(33), 1, NULL), &ptr, MIB(33));
    drop(ptr, 3);
    ptr = NULL;
    keep(weir_malloc(now.w, &ptr, 3000, 0, weir_stream_handle(now.streams[1])), &ptr, 3000);
    if (judge(weir_pool_get(now.w, "shared", 0, &error, &shared), &error)) {
        void *mine = NULL;
        drop(keep(weir_pool_malloc(shared, &mine, MIB(1), NULL), &mine, MIB(1)), 3);
    }
    drop(small, 3);
    drop(large, 0);
    drop(own, 0);
    drop(far, 2);
    look();
    for (size_t i = 0; i < 3; i++) {
        error = (weir_error)WEIR_ERROR_INIT;
        if (now.streams[i])
            judge(weir_stream_synchronize(now.streams[i], &error), &error);
    }
}

/* Requests that caches serve, on streams and on their raw handles; frees that fill a cache until older blocks give way. */
static void use_caches(void)
{
    void *own[4];
    for (size_t i = 0; i < 4; i++)
        own[i] = take(1, 4000 + i);
    for (size_t i = 0; i < 4; i++)
        drop(own[i], 1);
    void *hit = take(1, 4096), *raw = take_raw(1, 3900), *more = take_raw(1, 4096);
    drop(hit, 0); /* of another pool, so not for its cache */
    drop_raw(raw, 1);
    drop_raw(more, 1);
    drop(take(0, 5000), 0);
    drop_raw(take_raw(0, 5000), 0);
    drop(take(0, 100000), 0);
    drop(take(2, 70000), 2);
    look();
}

/* What is cached for a stream that captures when it is closed is left without a stream. */
static void close_capturing(void)
{
    weir_error error = WEIR_ERROR_INIT;
    gpu_stream handle;
    if (now.gpu->stream_create(0, &handle) != GPU_SUCCESS)
        return;
    if (judge(weir_stream_open(now.w, 0, handle, NULL, &error, &now.streams[4]), &error)) {
        drop(take(4, 7000), 4);
        size_t nodes;
        bool captures = now.gpu->capture_begin(handle, GPU_CAPTURE_MODE_RELAXED) == GPU_SUCCESS;
        weir_stream_close(now.streams[4]);
        now.streams[4] = NULL;
        MUST(!captures || now.gpu->capture_end(handle, &nodes) == GPU_SUCCESS, "a capture was spoilt");
    }
    now.gpu->stream_destroy(handle);
}

static uint64_t spare_nothing(void *data, int device, uint64_t needed)
{
    (void)device;
    (void)needed;
    ++*(unsigned *)data;
    return 0;
}

/* A request that succeeds only once another stream's kernel is done, one at the cap, and one that nothing can serve. */
static void run_out(void)
{
    weir_error error = WEIR_ERROR_INIT;
    unsigned id = 0, calls = 0;
    bool added = judge(weir_oom_add(now.w, spare_nothing, &calls, &error, &id), &error);
    void *large = take(0, MIB(300));
    if (now.streams[0])
        now.gpu->delay(weir_stream_handle(now.streams[0]), BUSY);
    drop(large, 0);
    void *ptr = take(3, MIB(290));
    MUST(ptr || now.failures > 0, "a pending free was not waited for");
    drop(ptr, 3);
    void *none = NULL;
    if (now.streams[1]) {
        weir_status status = weir_stream_malloc(now.streams[1], &none, MIB(70));
        MUST(status != WEIR_OK, "70 MiB from a pool of 64 MiB");
    }
    if (now.streams[3]) {
        weir_status status = weir_stream_malloc(now.streams[3], &none, MIB(490));
        if (status == WEIR_OK)
            keep(status, &none, MIB(490));
    }
    error = (weir_error)WEIR_ERROR_INIT;
    if (added)
        judge(weir_oom_remove(now.w, id, &error), &error);
}

static void change_settings(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    uint64_t released;
    if (judge(weir_pool_get(now.w, NULL, 0, &error, &pool), &error)) {
        judge(weir_pool_trim(pool, MIB(32), &error, &released), &error);
        error = (weir_error)WEIR_ERROR_INIT;
        judge(weir_pool_set_release_threshold(pool, MIB(256), &error), &error);
    }
    error = (weir_error)WEIR_ERROR_INIT;
    judge(weir_reload(now.w, later_path, &error), &error);
    take(0, 2000);
    take(2, MIB(3));
    look();
}

/* All but the last one, which weir_close() finds open, with something in its cache. */
static void close_streams(void)
{
    for (size_t i = 0; i < 3; i++) {
        weir_stream_close(now.streams[i]);
        now.streams[i] = NULL;
    }
}

static void scenario(void)
{
    if (!open_weir())
        return;
    open_streams();
    use_blocks();
    use_caches();
    run_out();
    use_caches();
    close_capturing();
    change_settings();
    while (now.count > 2 && now.failures < 100) /* the others outlive their streams */
        drop(now.blocks[0].ptr, 0);
    close_streams();
    while (now.count > 0 && now.failures < 100)
        drop(now.blocks[0].ptr, 0);
    drop(take(3, 1500), 3);
    look();
    close_capturing();
    weir_close(now.w);
}

/* After a run -------------------------------------------------------------------------------------------------------------------------- */

static size_t may_leave(const char *destroyer)
{
    return is_operation(destroyer) ? 1 : 0;
}

/* What a failed destroy leaves is CUDA's; everything else is gone, and the device's own settings are what they were. */
static void check_machine(void)
{
    const struct gpu *gpu = fixture_gpu();
    struct sim_census census;
    ck_assert_msg(!complaint[0], "%s", complaint);
    for (int device = 0; device < 2; device++)
        ck_assert_int_eq(gpu->device_synchronize(device), GPU_SUCCESS);
    weir__debts_sweep(gpu);
    weir__arena_sweep();
    sim_census(&census);
    ck_assert_uint_eq(census.blocks, 0);
    ck_assert_uint_eq(census.pools, 0);
    ck_assert_uint_eq(census.pages, 0);
    ck_assert_uint_eq(census.ranges, 0);
    ck_assert_uint_le(census.streams, may_leave("stream_destroy"));
    ck_assert_uint_eq(census.events, 0);
    bool may_keep_threshold = is_operation("pool_get") || is_operation("pool_set"); /* of the driver's own pool */
    if (!is_operation("pool_destroy"))
        ck_assert_uint_le(census.reserved, may_keep_threshold ? MIB(96) : 0);
    for (int device = 0; device < 2; device++) {
        gpu_pool current = NULL, pool = NULL;
        gpu->pool_get_current(device, &current);
        gpu->pool_get_default(device, &pool);
        ck_assert_ptr_nonnull(current);
        if (!is_operation("pool_destroy"))
            ck_assert_ptr_eq(current, pool);
        if (!may_keep_threshold)
            ck_assert_uint_eq(fixture_attribute(pool, GPU_POOL_RELEASE_THRESHOLD), 0);
    }
}

static void begin_run(const char *operation, int code)
{
    fixture_machine(MACHINE);
    memset(&now, 0, sizeof now);
    complaint[0] = '\0';
    now.gpu = fixture_gpu();
    now.operation = operation;
    now.code = code;
    int device;
    ck_assert_int_eq(fixture_gpu()->get_current_device(&device), GPU_SUCCESS); /* the simulator knows this thread now */
}

static void write_policies(const char *backing)
{
    const struct {
        char *path;
        const char *const *text;
    } files[] = { { policy_path, policy }, { later_path, policy_later } };
    for (size_t i = 0; i < 2; i++) {
        snprintf(files[i].path, sizeof policy_path, "/tmp/weir-failures-XXXXXX");
        int fd = mkstemp(files[i].path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_gt(dprintf(fd, "%s%s%s", files[i].text[0], backing, files[i].text[1]), 0);
        close(fd);
    }
}

static void remove_policies(void)
{
    unlink(policy_path);
    unlink(later_path);
}

/* The sweeps --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(scenario_succeeds_where_nothing_fails)
{
    int fds = suite_count_fds();
    write_policies(backings[_i]);
    begin_run(NULL, 0);
    scenario();
    ck_assert_uint_eq(now.failures, 0);
    ck_assert_uint_gt(now.hits, 0);
    ck_assert_uint_ge(sim_calls("event_record_device"), 1); /* for blocks without a stream */
    check_machine();
    ck_assert_int_eq(suite_count_fds(), fds);
}
END_TEST

#define ONLY_CUDA 1 /* in which backings, a bit for each, the scenario calls an operation */
#define ONLY_ARENA 2
#define BOTH 3

static const struct {
    const char *name;
    unsigned backings;
} operations[] = {
    { "device_count", BOTH },
    { "device_info", BOTH },
    { "can_access_peer", BOTH },
    { "device_memory", BOTH },
    { "device_is_used", BOTH },
    { "get_current_device", BOTH },
    { "set_current_device", BOTH },
    { "pool_create", BOTH },
    { "pool_destroy", BOTH },
    { "pool_get_default", BOTH },
    { "pool_get_current", ONLY_CUDA },
    { "pool_set_current", ONLY_CUDA },
    { "pool_get", BOTH },
    { "pool_set", BOTH },
    { "pool_set_access", BOTH },
    { "pool_get_access", BOTH },
    { "pool_trim", BOTH },
    { "malloc_async", BOTH },
    { "free_async", BOTH },
    { "stream_create", BOTH },
    { "stream_destroy", BOTH },
    { "stream_synchronize", BOTH },
    { "stream_id", BOTH },
    { "stream_capture_status", BOTH },
    { "stream_wait_event", ONLY_ARENA },
    { "event_create", BOTH },
    { "event_destroy", BOTH },
    { "event_record", BOTH },
    { "event_query", BOTH },
    { "event_record_device", BOTH },
    { "event_synchronize", BOTH },
    { "stream_device", BOTH },
    { "stream_context", BOTH },
    { "exchange_capture_mode", BOTH },
    { "range_reserve", ONLY_ARENA },
    { "range_free", ONLY_ARENA },
    { "page_create", ONLY_ARENA },
    { "page_release", ONLY_ARENA },
    { "page_map", ONLY_ARENA },
    { "page_unmap", ONLY_ARENA },
    { "page_set_access", ONLY_ARENA },
};
#define SWEEPS ((int)(sizeof operations / sizeof operations[0]) * BACKINGS)

static void sweep_gpu(const char *operation, int code)
{
    int fds = suite_count_fds();
    for (unsigned nth = 1;; nth += suite_lone_stride()) {
        begin_run(operation, code);
        uint64_t before = sim_calls(operation);
        sim_fail(operation, nth, code);
        scenario();
        bool came = sim_calls(operation) - before >= nth;
        sim_fail(operation, 0, 0);
        check_machine();
        fixture_machine(NULL); /* a pool that could not be destroyed has its descriptor */
        ck_assert_int_eq(suite_count_fds(), fds);
        if (!came) {
            ck_assert_msg(nth > 1, "the scenario never calls %s", operation);
            return;
        }
    }
}

/* Test number i of all operations in all backings. Under valgrind by day one in five is run: the other runs of the suite have them all. */
static void sweep(int i, int code)
{
    int backing = i % BACKINGS;
    if (getenv("WEIR_TEST_SLOW") && !getenv("WEIR_TEST_NIGHTLY") && (i + code) % 5)
        return;
    write_policies(backings[backing]);
    if (operations[i / BACKINGS].backings >> backing & 1)
        sweep_gpu(operations[i / BACKINGS].name, code);
}

START_TEST(gpu_call_that_fails_leaves_no_trace)
{
    sweep(_i, GPU_UNKNOWN);
}
END_TEST

START_TEST(gpu_call_without_memory_leaves_no_trace)
{
    sweep(_i, GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(allocation_that_fails_leaves_no_trace)
{
    if (!fail_malloc_works())
        return; /* a sanitizer or valgrind has the allocator to itself */
    write_policies(backings[_i]);
    int fds = suite_count_fds();
    begin_run(NULL, 0);
    scenario();
    check_machine();
    begin_run(NULL, 0);
    long live = fail_malloc_live();
    for (unsigned nth = 1;; nth++) {
        fail_malloc_at(nth);
        scenario();
        fail_malloc_at(0);
        if (!fail_malloc_happened()) {
            ck_assert_uint_gt(nth, 100);
            break;
        }
        check_machine();
        begin_run(NULL, 0);
        ck_assert_msg(fail_malloc_live() == live, "%ld blocks of host memory after allocation %u failed, %ld before", fail_malloc_live(),
                      nth, live);
        ck_assert_int_eq(suite_count_fds(), fds);
    }
    ck_assert_uint_eq(now.failures, 0);
}
END_TEST

/* Weir keeps the CUDA streams that it made where it has the room to remember them. */
START_TEST(created_stream_that_cannot_be_remembered_is_destroyed_at_close)
{
    struct sim_census census;
    if (!fail_malloc_works())
        return;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fail_malloc_at(1);
    ck_assert_int_eq(weir_stream_close(s), WEIR_OK);
    fail_malloc_at(0);
    ck_assert(fail_malloc_happened());
    sim_census(&census);
    ck_assert_uint_eq(census.streams, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failures");
    TCase *tcase = suite_case(suite, "sweeps", 300);
    tcase_add_checked_fixture(tcase, NULL, remove_policies);
    tcase_add_loop_test(tcase, scenario_succeeds_where_nothing_fails, 0, BACKINGS);
    tcase_add_loop_test(tcase, gpu_call_that_fails_leaves_no_trace, 0, SWEEPS);
    tcase_add_loop_test(tcase, gpu_call_without_memory_leaves_no_trace, 0, SWEEPS);
    tcase_add_loop_test(tcase, allocation_that_fails_leaves_no_trace, 0, BACKINGS);
    suite_add(tcase, created_stream_that_cannot_be_remembered_is_destroyed_at_close);
    return suite_run(suite);
}
