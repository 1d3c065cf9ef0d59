/* SPDX-License-Identifier: MIT */
/* setup.c - what `weir try` opens before its workload: a view of each pool, and streams for each worker. */
#include "tools/common/command.h"
#include "tools/try/try.h"

#include <stdlib.h>
#include <string.h>

#define HOST_CAPACITY (UINT64_C(1) << 30) /* what the workload takes of host memory, which other programs need too */
#define WORKLOAD_MOST (UINT64_C(2) << 30) /* in one pool: enough for many large blocks, and quick to fill */

static bool is_on_host(const struct try_pool *pool)
{
    return pool->policy->location.kind != POLICY_LOCATION_DEVICE;
}

/* Shares memory among pools and workers such that the workload alone never runs out: that is the next step's purpose. */
static bool set_budgets(struct try_run *run)
{
    for (size_t i = 0; i < run->pool_count; i++) {
        struct try_pool *pool = &run->pools[i];
        uint64_t free_bytes, total_bytes, neighbours = 0;
        int code = run->gpu->device_memory(pool->device, &free_bytes, &total_bytes);
        if (code != GPU_SUCCESS) {
            try_fail(run, "device %d does not tell its free memory: %s", pool->device, run->gpu->code_text(code));
            return false;
        }
        for (size_t j = 0; j < run->pool_count; j++)
            neighbours += run->pools[j].device == pool->device;
        uint64_t capacity = is_on_host(pool) ? HOST_CAPACITY : free_bytes / neighbours;
        if (pool->max_size && pool->max_size < capacity)
            capacity = pool->max_size;
        /* A quarter, since pools grow in large steps and blocks of mixed sizes leave gaps. */
        uint64_t share = capacity / 4 < WORKLOAD_MOST ? capacity / 4 : WORKLOAD_MOST;
        pool->workers = run->threads;
        if (share / run->threads < TRY_SMALLEST)
            pool->workers = share < TRY_SMALLEST ? 1 : (unsigned)(share / TRY_SMALLEST);
        pool->budget = share / pool->workers;
        if (pool->budget < TRY_SMALLEST)
            pool->budget = capacity < TRY_SMALLEST ? capacity : TRY_SMALLEST;
    }
    return true;
}

static bool list_pools(struct try_run *run, const weir_stats *stats)
{
    size_t count = weir_stats_pool_count(stats);
    run->pools = must(calloc(count + 1, sizeof(*run->pools)));
    for (size_t i = 0; i < count; i++) {
        const weir_pool_stats *figures = weir_stats_pool(stats, i);
        if (figures->is_private)
            continue;
        struct try_pool *pool = &run->pools[run->pool_count];
        weir_error error = WEIR_ERROR_INIT;
        weir_pool *unused;
        pool->policy = policy_find_pool(run->policy, figures->name);
        if (!pool->policy || weir_pool_get(run->weir, figures->name, figures->device, &error, &pool->pool) != WEIR_OK) {
            try_fail(run, "pool '%s' of the statistics is not one of the policy: %s", figures->name, error.text);
            return false;
        }
        pool->device = figures->device;
        pool->max_size = figures->max_size;
        pool->largest = pool->policy->ipc == POLICY_IPC_NONE ? UINT64_MAX : pool->policy->ipc_max_block;
        pool->is_reachable = weir_pool_get(run->weir, NULL, figures->device, NULL, &unused) == WEIR_OK;
        run->pool_count++;
    }
    if (run->pool_count == 0)
        try_fail(run, "the policy has no pool on any device of this machine");
    return run->pool_count > 0;
}

bool try_stream_open(struct try_run *run, const struct try_pool *pool, const char *name, struct try_stream *stream)
{
    weir_error error = WEIR_ERROR_INIT;
    memset(stream, 0, sizeof(*stream));
    int code;
    if (name || pool->is_reachable) {
        if (weir_stream_create(run->weir, pool->device, name, &error, &stream->opened) != WEIR_OK) {
            try_fail(run, "cannot open a stream %s%s%son device %d: %s", name ? "'" : "", name ? name : "", name ? "' " : "", pool->device,
                     error.text);
            return false;
        }
        stream->handle = weir_stream_handle(stream->opened);
        stream->is_routed = name || weir_stream_pool(stream->opened) == pool->pool;
    } else if ((code = run->gpu->stream_create(pool->device, &stream->handle)) != GPU_SUCCESS) {
        try_fail(run, "cannot create a stream on device %d: %s", pool->device, run->gpu->code_text(code));
        return false;
    }
    code = run->gpu->event_create(pool->device, &stream->event);
    if (code != GPU_SUCCESS) {
        try_fail(run, "cannot create an event on device %d: %s", pool->device, run->gpu->code_text(code));
        try_stream_close(run, stream);
        return false;
    }
    return true;
}

void try_stream_close(struct try_run *run, struct try_stream *stream)
{
    if (stream->event)
        run->gpu->event_destroy(stream->event);
    if (stream->opened)
        weir_stream_close(stream->opened);
    else if (stream->handle)
        run->gpu->stream_destroy(stream->handle);
    memset(stream, 0, sizeof(*stream));
}

weir_status try_malloc(const struct try_pool *pool, const struct try_stream *stream, void **ptr, size_t size)
{
    return stream->is_routed ? weir_stream_malloc(stream->opened, ptr, size) : weir_pool_malloc(pool->pool, ptr, size, stream->handle);
}

weir_status try_free(struct try_run *run, const struct try_stream *stream, void *ptr)
{
    return stream->opened ? weir_stream_free(stream->opened, ptr) : weir_free(run->weir, ptr, stream->handle);
}

static bool open_one(struct try_run *run, struct try_berth *berth, const char *name)
{
    if (!try_stream_open(run, berth->pool, name, &berth->streams[berth->stream_count]))
        return false;
    berth->stream_count++;
    return true;
}

size_t try_stream_names(const struct try_run *run, const struct try_pool *pool, bool is_private, const char *names[POLICY_STREAMS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < run->policy->stream_count; i++) {
        const struct policy_stream *stream = &run->policy->streams[i];
        if (&run->policy->pools[stream->pool] == pool->policy && stream->own_pool == is_private)
            names[count++] = stream->name;
    }
    return count;
}

/*
 * Two streams for each worker and pool, under the policy's names in turn. A private entry costs a pool of its own, so it is opened once on
 * each device, by one worker.
 */
static bool open_streams(struct try_run *run, struct try_berth *berth, unsigned worker)
{
    const char *names[POLICY_STREAMS_MAX];
    size_t count = try_stream_names(run, berth->pool, false, names);
    for (unsigned i = 0; i < 2; i++)
        if (!open_one(run, berth, count ? names[(worker * 2 + i) % count] : NULL))
            return false;
    count = try_stream_names(run, berth->pool, true, names);
    for (size_t i = 0; i < count && berth->stream_count < TRY_STREAMS_MAX; i++)
        if (i % berth->pool->workers == worker && !open_one(run, berth, names[i]))
            return false;
    return true;
}

static bool open_worker(struct try_run *run, unsigned index)
{
    struct try_worker *worker = &run->workers[index];
    worker->run = run;
    worker->random = run->seed + index;
    worker->berths = must(calloc(run->pool_count, sizeof(*worker->berths)));
    for (size_t i = 0; i < run->pool_count; i++) {
        if (index >= run->pools[i].workers)
            continue;
        struct try_berth *berth = &worker->berths[worker->berth_count++];
        berth->pool = &run->pools[i];
        if (!open_streams(run, berth, index))
            return false;
    }
    return true;
}

bool try_open(struct try_run *run)
{
    weir_stats *stats = try_stats(run);
    if (!stats)
        return false;
    bool good = list_pools(run, stats) && set_budgets(run);
    weir_stats_free(stats);
    if (!good)
        return false;
    run->workers = must(calloc(run->threads, sizeof(*run->workers)));
    for (unsigned i = 0; good && i < run->threads; i++)
        good = open_worker(run, i);
    return good;
}

void try_close(struct try_run *run)
{
    for (unsigned i = 0; run->workers && i < run->threads; i++) {
        struct try_worker *worker = &run->workers[i];
        for (size_t j = 0; j < worker->berth_count; j++)
            for (unsigned k = 0; k < worker->berths[j].stream_count; k++)
                try_stream_close(run, &worker->berths[j].streams[k]);
        free(worker->berths);
    }
    free(run->workers);
    free(run->pools);
    weir_close(run->weir);
}
