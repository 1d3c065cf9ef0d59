/* SPDX-License-Identifier: MIT */
#include "tests/api/scene.h"

#include "lib/base/service.h"
#include "lib/backing/arena.h"
#include "lib/fence/fence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAMS_MAX 64

struct scene scene;
static gpu_stream streams[STREAMS_MAX];
static size_t stream_count;

bool scene_is_sim(void)
{
    const char *name = getenv("WEIR_GPU");
    return name && strcmp(name, "sim") == 0;
}

/* Another process looks, since a driver that was used before a fork is of no use after it. */
const char *scene_why_not(void)
{
    const char *why = "";
    const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
    if (!gpu || scene_is_sim())
        return gpu ? NULL : why;
    int count = 0, status;
    pid_t child = fork();
    if (child == 0)
        _exit(gpu->device_count(&count) != GPU_SUCCESS || count == 0 || !gpu->supports(0, GPU_FEATURE_POOLS, NULL, 0));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no process could be made to look for a GPU";
    return status ? "there is no GPU with memory pools; WEIR_TEST_GPU=sim runs on the simulator" : NULL;
}

void scene_simulate(const char *settings)
{
    char why[256] = "";
    uint64_t total;
    ck_assert_msg(sim_configure(settings, why, sizeof why) == 0, "%s", why);
    ck_assert_int_eq(scene.gpu->device_memory(0, &scene.memory, &total), GPU_SUCCESS);
}

void scene_begin(void)
{
    const char *why = "";
    uint64_t total;
    scene.gpu = gpu_find(getenv("WEIR_GPU"), &why);
    ck_assert_msg(scene.gpu != NULL, "%s", why);
    scene.w = NULL;
    stream_count = 0;
    atomic_store(&scene.log_lines, 0);
    if (scene_is_sim())
        scene_simulate(getenv("WEIR_TEST_SLOW") ? "memory=2GiB" : "memory=8GiB"); /* valgrind has few addresses */
    else
        ck_assert_int_eq(scene.gpu->device_memory(0, &scene.memory, &total), GPU_SUCCESS);
}

void scene_reload(const char *policy_text)
{
    char path[] = "/tmp/weir-scene-XXXXXX";
    weir_error error = WEIR_ERROR_INIT;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, policy_text, strlen(policy_text)), (ssize_t)strlen(policy_text));
    close(fd);
    weir_status status = weir_reload(scene.w, path, &error);
    unlink(path);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
}

void scene_close(void)
{
    weir_close(scene.w);
    scene.w = NULL;
}

void scene_end(void)
{
    for (size_t i = 0; i < stream_count; i++)
        scene.gpu->stream_synchronize(streams[i]);
    scene.gpu->device_synchronize(0); /* else closing polls through whatever time of the simulator's is left, a millisecond at a time */
    scene_close();
    while (stream_count)
        scene_drop_stream(streams[0]);
    if (!scene_is_sim())
        return;
    struct sim_census census;
    scene.gpu->device_synchronize(0); /* pools closed with frees pending can be destroyed now */
    weir__debts_sweep(scene.gpu);
    weir__arena_sweep();
    sim_census(&census);
    ck_assert_msg(!census.blocks && !census.pools && !census.streams && !census.events && !census.ranges && !census.pages && !census.hosts,
                  "left behind: %zu blocks, %zu pools, %zu streams, %zu events, %zu ranges, %zu pages", census.blocks, census.pools,
                  census.streams, census.events, census.ranges, census.pages);
}

void scene_begin_by_hand(void)
{
    scene_begin();
    weir__service_by_hand(scene.gpu);
}

void scene_end_by_hand(void)
{
    scene_end();
    weir__service_by_hand(NULL);
}

void scene_pass(uint64_t time)
{
    weir__service_pass(scene.gpu->now() + time);
}

static void count_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    (void)level;
    ck_assert_ptr_null(strchr(line, '\n'));
    atomic_fetch_add(&scene.log_lines, 1);
}

void scene_open(const char *policy_text)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy_text;
    options.log = count_line;
    ck_assert_msg(weir_open(&options, &error, &scene.w) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_pool_get(scene.w, NULL, 0, &error, &scene.pool) == WEIR_OK, "%s", error.text);
}

uint64_t scene_share(unsigned percent)
{
    return scene.memory / 100 * percent / (32 * MIB) * (32 * MIB);
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

gpu_stream scene_stream(int device)
{
    gpu_stream stream;
    ck_assert_uint_lt(stream_count, STREAMS_MAX);
    ck_assert_int_eq(scene.gpu->stream_create(device, &stream), GPU_SUCCESS);
    streams[stream_count++] = stream;
    return stream;
}

void scene_drop_stream(gpu_stream stream)
{
    size_t i = 0;
    while (i < stream_count && streams[i] != stream)
        i++;
    ck_assert_uint_lt(i, stream_count);
    streams[i] = streams[--stream_count];
    ck_assert_int_eq(scene.gpu->stream_destroy(stream), GPU_SUCCESS);
}

weir_stream *scene_create(const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s;
    ck_assert_msg(weir_stream_create(scene.w, 0, name, &error, &s) == WEIR_OK, "%s", error.text);
    return s;
}

void scene_delay(gpu_stream stream, uint64_t milliseconds)
{
    ck_assert_int_eq(scene.gpu->delay(stream, milliseconds * MILLISECOND), GPU_SUCCESS);
}

void scene_sync(gpu_stream stream)
{
    ck_assert_int_eq(scene.gpu->stream_synchronize(stream), GPU_SUCCESS);
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

void scene_ok(weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return;
    weir_error error;
    weir_last_error(&error);
    ck_abort_msg("%s: %s: %s", what, weir_status_name(status), error.text);
}

void *scene_malloc(weir_stream *s, uint64_t size)
{
    void *ptr = NULL;
    scene_ok(weir_stream_malloc(s, &ptr, size), "weir_stream_malloc");
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

void *scene_malloc_on(gpu_stream stream, uint64_t size)
{
    void *ptr = NULL;
    scene_ok(weir_malloc(scene.w, &ptr, size, 0, stream), "weir_malloc");
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

void *scene_pool_malloc(weir_pool *pool, uint64_t size, gpu_stream stream)
{
    void *ptr = NULL;
    scene_ok(weir_pool_malloc(pool, &ptr, size, stream), "weir_pool_malloc");
    ck_assert_ptr_nonnull(ptr);
    return ptr;
}

void scene_free(weir_stream *s, void *ptr)
{
    scene_ok(weir_stream_free(s, ptr), "weir_stream_free");
}

void scene_free_on(gpu_stream stream, void *ptr)
{
    scene_ok(weir_free(scene.w, ptr, stream), "weir_free");
}

void scene_fails_raw(weir_pool *pool, uint64_t size, gpu_stream stream)
{
    void *ptr;
    int code = scene.gpu->malloc_async(&ptr, size, weir_pool_handle(pool), stream);
    ck_assert_msg(code == GPU_OUT_OF_MEMORY, "a raw request for %llu bytes gave %s", (unsigned long long)size, scene.gpu->code_name(code));
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

static weir_stats *take(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    ck_assert_msg(weir_stats_take(scene.w, &error, &stats) == WEIR_OK, "%s", error.text);
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        ck_assert_uint_eq(pool->live + pool->cached + pool->slack, pool->used);
        ck_assert_uint_eq(pool->used + pool->idle, pool->reserved + pool->asleep);
        ck_assert_uint_eq(pool->live_blocks, pool->mallocs - pool->frees);
        ck_assert_uint_ge(pool->live_high, pool->live);
        ck_assert_uint_ge(pool->reserved_high, pool->reserved);
    }
    return stats;
}

weir_pool_stats scene_pool_stats(const char *name)
{
    weir_pool_stats found = { .device = -1 };
    weir_stats *stats = take();
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        if (strcmp(weir_stats_pool(stats, i)->name, name) == 0 && weir_stats_pool(stats, i)->device == 0 && found.device < 0)
            found = *weir_stats_pool(stats, i);
    weir_stats_free(stats);
    ck_assert_msg(found.device == 0, "no pool '%s' in the statistics", name);
    found.name = NULL;
    return found;
}

weir_device_stats scene_device_stats(int device)
{
    weir_device_stats found = { .device = -1 };
    weir_stats *stats = take();
    for (size_t i = 0; i < weir_stats_device_count(stats); i++)
        if (weir_stats_device(stats, i)->device == device)
            found = *weir_stats_device(stats, i);
    weir_stats_free(stats);
    ck_assert_int_eq(found.device, device);
    return found;
}

void scene_rescues(weir_rung rung, uint64_t times, uint64_t recoveries)
{
    weir_device_stats stats = scene_device_stats(0);
    for (unsigned r = 0; r < WEIR_RUNG_COUNT; r++)
        ck_assert_msg(stats.rescues[r] == (r == (unsigned)rung ? times : 0), "%s rescued %llu requests", weir_rung_name((weir_rung)r),
                      (unsigned long long)stats.rescues[r]);
    ck_assert_uint_eq(stats.recoveries, recoveries);
}
