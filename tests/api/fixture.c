/* SPDX-License-Identifier: MIT */
#include "tests/api/fixture.h"

#include "lib/fence/fence.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/suite.h"

static char last_line[4096];

static void keep_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    if (level <= WEIR_LOG_WARNING)
        snprintf(last_line, sizeof last_line, "%s", line);
}

const char *fixture_log(void)
{
    static char line[sizeof last_line];
    memcpy(line, last_line, sizeof line);
    last_line[0] = '\0';
    return line;
}

const struct gpu *fixture_gpu(void)
{
    const char *why = "";
    const struct gpu *gpu = gpu_find("sim", &why);
    ck_assert_msg(gpu != NULL, "%s", why);
    return gpu;
}

void fixture_machine(const char *settings)
{
    char text[256], why[256] = "";
    /* 1 GiB unless told otherwise: the simulator maps a multiple of it for each pool, and valgrind has little address space. */
    snprintf(text, sizeof text, "memory=1GiB%s%s", settings ? "," : "", settings ? settings : "");
    ck_assert_msg(sim_configure(text, why, sizeof why) == 0, "%s", why);
    last_line[0] = '\0';
}

static weir_status open_text(const char *policy, weir_error *error, weir **w)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    options.log = keep_line;
    return weir_open(&options, error, w);
}

weir *fixture_open(const char *policy)
{
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_status status = open_text(policy, &error, &w);
    ck_assert_msg(status == WEIR_OK, "%s: %s", weir_status_name(status), error.text);
    ck_assert_int_eq(error.status, WEIR_OK);
    return w;
}

weir_error fixture_refuse(const char *policy, weir_status status)
{
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_status seen = open_text(policy, &error, &w);
    ck_assert_msg(seen == status, "%s instead of %s: %s", weir_status_name(seen), weir_status_name(status), error.text);
    ck_assert_int_eq(error.status, status);
    ck_assert_ptr_null(w);
    fixture_expect_empty();
    return error;
}

weir_pool *fixture_pool(weir *w, const char *name, int device)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool = NULL;
    ck_assert_msg(weir_pool_get(w, name, device, &error, &pool) == WEIR_OK, "%s", error.text);
    return pool;
}

void fixture_check_identities(const weir_pool_stats *figures)
{
    ck_assert_uint_eq(figures->live + figures->cached + figures->slack, figures->used);
    ck_assert_uint_eq(figures->used + figures->idle, figures->reserved + figures->asleep);
    ck_assert_uint_eq(figures->mallocs - figures->frees, figures->live_blocks);
    ck_assert_uint_ge(figures->live_high, figures->live);
    ck_assert_uint_ge(figures->reserved_high, figures->reserved);
}

weir_pool_stats fixture_figures(weir *w, const char *name, int device)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool_stats found = { 0 };
    weir_stats *stats;
    ck_assert_msg(weir_stats_take(w, &error, &stats) == WEIR_OK, "%s", error.text);
    for (size_t i = 0; i < weir_stats_pool_count(stats) && !found.name; i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        if (pool->device == device && strcmp(pool->name, name) == 0)
            found = *pool;
    }
    ck_assert_msg(found.name != NULL, "no figures of pool %s on device %d", name, device);
    found.name = name; /* the snapshot's own goes with it */
    weir_stats_free(stats);
    fixture_check_identities(&found);
    return found;
}

weir_stream *fixture_stream(weir *w, int device, const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *stream = NULL;
    ck_assert_msg(weir_stream_create(w, device, name, &error, &stream) == WEIR_OK, "%s", error.text);
    return stream;
}

void *fixture_malloc(weir_stream *stream, size_t size)
{
    weir_error error;
    void *ptr = NULL;
    weir_status status = weir_stream_malloc(stream, &ptr, size);
    weir_last_error(&error);
    ck_assert_msg(status == WEIR_OK, "%s: %s", weir_status_name(status), error.text);
    return ptr;
}

void fixture_synchronize(weir_stream *stream)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(weir_stream_synchronize(stream, &error) == WEIR_OK, "%s", error.text);
}

void fixture_sweep(void)
{
    int count = 0;
    fixture_gpu()->device_count(&count);
    for (int device = 0; device < count; device++)
        ck_assert_int_eq(fixture_gpu()->device_synchronize(device), GPU_SUCCESS);
    weir__debts_sweep(fixture_gpu());
}

void fixture_expect_empty(void)
{
    struct sim_census census;
    fixture_sweep();
    sim_census(&census);
    ck_assert_msg(!census.blocks && !census.pools && !census.streams && !census.events && !census.reserved,
                  "left: %zu blocks, %zu pools, %zu streams, %zu events, %llu bytes", census.blocks, census.pools, census.streams,
                  census.events, (unsigned long long)census.reserved);
}

uint64_t fixture_attribute(gpu_pool pool, enum gpu_pool_attribute attribute)
{
    uint64_t value = 0;
    ck_assert_int_eq(fixture_gpu()->pool_get(pool, attribute, &value), GPU_SUCCESS);
    return value;
}
