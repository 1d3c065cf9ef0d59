/* SPDX-License-Identifier: MIT */
/* stats.c - takes snapshots of all figures. A snapshot belongs to the caller, and stays valid after its weir was closed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/about.h"
#include "lib/alloc/held.h"
#include "lib/alloc/sleep.h"
#include "lib/base/call.h"
#include "lib/base/number.h"
#include "lib/base/valid.h"
#include "lib/gpu/clock.h"
#include "lib/stats.h"

static void read_audit(const struct weir__audit *audit, uint64_t *bytes, uint64_t *ms)
{
    *bytes = atomic_load(&audit->bytes);
    *ms = atomic_load(&audit->time) / GPU_MILLISECOND;
}

/*
 * Reads the figures of a pool, and returns the GPU code. In every snapshot live + cached + slack = used, used + idle = reserved + asleep, and frees
 * are not above mallocs, although other threads allocate and free during the reading: the parts of a sum are read first, and a sum that is
 * read smaller than its parts is raised.
 */
static int read_pool(weir_pool *pool, weir_pool_stats *stats)
{
    stats->device = pool->device->index;
    stats->is_private = weir__pool_is_private(pool);
    stats->is_exportable = pool->native.is_exportable;
    stats->is_arena = pool->backing->ops->is_arena;
    struct weir__counts counts = weir__blocks_count(&pool->w->blocks, pool);
    struct weir__held held = weir__pool_held(pool);
    stats->frees = counts.frees + held.keeps;
    stats->mallocs = weir__larger(counts.mallocs + held.hits, stats->frees);
    stats->cache_hits = held.hits;
    stats->live_blocks = stats->mallocs - stats->frees;
    stats->graph_blocks = counts.graph_mallocs - counts.graph_frees;
    stats->failures = atomic_load(&pool->figures.failures);
    stats->live = held.live;
    stats->cached = held.cached;
    /* Streams add to the peak of live bytes late and in steps, so the peak may look higher than all bytes that ever came from CUDA. */
    uint64_t live_high = atomic_load(&pool->figures.live_high), taken_high = atomic_load(&pool->figures.taken_high);
    taken_high = weir__larger(taken_high, atomic_load(&pool->figures.taken_before));
    stats->live_high = weir__larger(live_high < taken_high ? live_high : taken_high, stats->live);
    stats->max_size = atomic_load(&pool->settings.max_size);
    stats->is_auto = weir__pool_is_auto(pool);
    stats->release_threshold = weir__pool_threshold(pool);
    read_audit(&pool->adapted.used, &stats->kept_used, &stats->kept_used_ms);
    read_audit(&pool->adapted.unused, &stats->kept_unused, &stats->kept_unused_ms);
    read_audit(&pool->adapted.missed, &stats->given_missed, &stats->given_missed_ms);
    stats->keep = atomic_load(&pool->settings.keep);
    stats->leave_free = atomic_load(&pool->backing->leave_free);
    stats->align = pool->backing->align;

    stats->asleep = weir__pool_asleep(pool);
    stats->yielded = weir__yielded_bytes(pool);
    stats->held_elsewhere = atomic_load(&pool->nap.held_elsewhere);
    stats->sleeps = atomic_load(&pool->nap.sleeps);
    stats->wakes = atomic_load(&pool->nap.wakes);

    stats->used = stats->live + stats->cached;
    int code = weir__pool_read(pool, GPU_POOL_USED, &stats->used);
    if (code == GPU_SUCCESS)
        code = weir__pool_read(pool, GPU_POOL_RESERVED, &stats->reserved);
    if (code == GPU_SUCCESS)
        code = weir__pool_read(pool, GPU_POOL_RESERVED_HIGH, &stats->reserved_high);
    stats->used = weir__larger(stats->used, stats->live + stats->cached);
    stats->slack = stats->used - stats->live - stats->cached;
    stats->reserved = weir__larger(stats->reserved, weir__less(stats->used, stats->asleep));
    stats->idle = stats->reserved + stats->asleep - stats->used;
    stats->reserved_high = weir__larger(stats->reserved_high, stats->reserved);
    return code;
}

#ifdef WEIR_DEBUG
static bool is_valid(const weir_pool_stats *stats)
{
    return stats->live + stats->cached + stats->slack == stats->used && stats->used + stats->idle == stats->reserved + stats->asleep &&
           stats->live <= stats->used && stats->cached <= stats->used && stats->used <= stats->reserved + stats->asleep &&
           stats->live <= stats->live_high && stats->reserved <= stats->reserved_high && stats->frees <= stats->mallocs &&
           stats->mallocs - stats->frees == stats->live_blocks && stats->cache_hits <= stats->mallocs;
}
#endif

static void read_quota(const struct weir__quota *quota, struct weir__device_figures *to)
{
    to->stats.quota = quota->bytes;
    if (quota->counts < 0)
        return;
    memcpy(to->quota_from, quota->limits[quota->counts].variable, sizeof to->quota_from);
    to->stats.quota_from = to->quota_from;
}

static weir_status read_device(struct weir__device *device, struct weir__device_figures *to, weir_error *error)
{
    weir_device_stats *stats = &to->stats;
    const struct gpu *gpu = device->w->gpu;
    stats->device = device->index;
    memcpy(to->uuid, device->info.uuid, sizeof to->uuid);
    stats->uuid = to->uuid;
    int code = gpu->device_memory(device->index, &stats->memory_free, &stats->memory);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "memory of device %d", device->index);
    stats->obtainable = stats->memory_free / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP;
    stats->recoveries = atomic_load(&device->recovery.recoveries);
    _Static_assert(WEIR_RUNG_COUNT <= WEIR_RUNG_MAX, "there is room for each rung");
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        stats->rescues[rung] = atomic_load(&device->recovery.rescues[rung]);
    stats->asks_sent = atomic_load(&device->recovery.asks_sent);
    stats->bytes_got = atomic_load(&device->recovery.bytes_got);
    stats->asks_received = atomic_load(&device->recovery.asks_received);
    stats->bytes_given = atomic_load(&device->recovery.bytes_given);
    read_quota(&device->quota, to);
    return WEIR_OK;
}

/* Returns the bytes of an arena that a request can have even if no hole is large enough: the pages without live blocks, which the arena can
   map at another address. */
static uint64_t movable_in(weir_pool *pool)
{
    struct weir__backing_figures figures;
    uint64_t pinned = 0;
    pool->backing->ops->figures(pool->backing, &figures);
    bool is_known = pool->backing->ops->pinned(pool->backing, &pinned);
    return is_known && figures.idle > pinned ? figures.idle - pinned : 0;
}

/* Sets stats->obtainable to the size of a request that is certain to succeed: limited by the device's free memory, by the pool's cap, and
   by the largest block that the pool may serve. */
static void find_obtainable(weir_pool *pool, const weir_device_stats *device, weir_pool_stats *stats)
{
    uint64_t own = stats->is_arena ? movable_in(pool) : 0, free_bytes = 0;
    uint64_t used = stats->reserved - weir__smaller(own, stats->reserved);
    uint64_t room = stats->max_size > used ? stats->max_size - used : 0;
    if (pool->native.is_host || weir__pool_is_shut(pool))
        return;
    free_bytes = weir__less(device->memory_free, stats->leave_free) / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP + own;
    if (stats->max_size)
        free_bytes = weir__smaller(free_bytes, room);
    stats->obtainable = weir__smaller(free_bytes / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP, pool->kind.max_block);
}

static weir_status add_pool(weir_stats *stats, weir_pool *pool, const weir_device_stats *device, weir_error *error)
{
    weir_pool_stats *more = realloc(stats->pools, (stats->pool_count + 1) * sizeof *more);
    if (more)
        stats->pools = more;
    char *name = more ? strdup(pool->name) : NULL;
    if (!name)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for statistics");
    more[stats->pool_count] = (weir_pool_stats){ .name = name };
    int code = read_pool(pool, &more[stats->pool_count]);
    find_obtainable(pool, device, &more[stats->pool_count]);
    WEIR__MUST(code != GPU_SUCCESS || is_valid(&more[stats->pool_count]));
    stats->pool_count++;
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, pool->w->gpu, code, "figures of pool '%s' on device %d", name, pool->device->index);
}

static uint64_t at_least_zero(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* Copies the figures of all tags. Peaks are read after the live bytes, so that no peak is below them. */
static weir_status take_tags(const weir *w, weir_stats *stats, weir_error *error)
{
    unsigned count = atomic_load(&w->recorder.tags.count);
    if (!count)
        return WEIR_OK;
    stats->tags = calloc(count, sizeof *stats->tags);
    if (!stats->tags)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for statistics");
    for (; stats->tag_count < count; stats->tag_count++) {
        const struct weir__tag *from = weir__tags_get(&w->recorder.tags, (unsigned)stats->tag_count + 1);
        struct weir__tag_figures *tag = &stats->tags[stats->tag_count];
        memcpy(tag->name, from->name, sizeof tag->name);
        tag->stats = (weir_tag_stats){ tag->name, at_least_zero(atomic_load(&from->live)), at_least_zero(atomic_load(&from->blocks)), 0 };
        tag->stats.live_high = weir__larger(at_least_zero(atomic_load(&from->live_high)), tag->stats.live);
    }
    return WEIR_OK;
}

static weir_status take(weir *w, weir_stats *stats, weir_error *error)
{
    WEIR__MUST(weir__blocks_are_valid(&w->blocks));
    stats->pid = getpid();
    stats->age_ms = (weir__service_now() - w->about->opened_at) / GPU_MILLISECOND;
    memcpy(stats->program, w->about->program, sizeof stats->program);
    stats->labels = w->about->labels;
    stats->policy = weir__in_force_get(w);
    stats->devices = calloc(w->device_count, sizeof *stats->devices);
    if (!stats->devices)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for statistics");
    for (size_t d = 0; d < w->device_count; d++) {
        struct weir__device_figures *device = &stats->devices[stats->device_count];
        weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL);
        if (!pool)
            continue;
        weir_status status = read_device(&w->devices[d], device, error);
        stats->device_count++;
        for (; pool; pool = weir__device_next_pool(&w->devices[d], pool))
            if (status == WEIR_OK)
                status = add_pool(stats, pool, &device->stats, error);
        if (status != WEIR_OK)
            return status;
    }
    return take_tags(w, stats, error);
}

weir_status weir_stats_take(weir *w, weir_error *error, weir_stats **stats)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !stats)
        return weir__fail(error, WEIR_INVALID, "weir_stats_take: w and stats must not be NULL");
    weir_stats *taken = calloc(1, sizeof *taken);
    if (!taken)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for statistics");
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    weir_status status = take(w, taken, error);
    weir__relaxed_end(w->gpu, mode);
    if (status == WEIR_OK)
        *stats = taken;
    else
        weir_stats_free(taken);
    return status;
}

weir_status weir_stats_reset_peaks(weir *w, int device, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w)
        return weir__fail(error, WEIR_INVALID, "weir_stats_reset_peaks: w must not be NULL");
    if (device < -1 || (device >= 0 && (size_t)device >= w->device_count))
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0; -1 is all of them", device,
                          w->device_count);
    weir_status status = WEIR_OK;
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++) {
        if (device >= 0 && (size_t)device != d)
            continue;
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool)) {
            int code = weir__pool_reset_peaks(pool);
            if (code == GPU_SUCCESS)
                continue;
            status = weir__fail_gpu(error, w->gpu, code, "the highest figures of pool '%s' on device %zu", pool->name, d);
        }
    }
    weir__relaxed_end(w->gpu, mode);
    return status;
}

void weir_stats_free(weir_stats *stats)
{
    if (!stats)
        return;
    for (size_t i = 0; i < stats->pool_count; i++)
        free((char *)stats->pools[i].name);
    free(stats->pools);
    free(stats->devices);
    free(stats->tags);
    weir__in_force_drop(stats->policy);
    free(stats);
}

size_t weir_stats_pool_count(const weir_stats *stats)
{
    return stats ? stats->pool_count : 0;
}

const weir_pool_stats *weir_stats_pool(const weir_stats *stats, size_t index)
{
    return stats && index < stats->pool_count ? &stats->pools[index] : NULL;
}

size_t weir_stats_device_count(const weir_stats *stats)
{
    return stats ? stats->device_count : 0;
}

const weir_device_stats *weir_stats_device(const weir_stats *stats, size_t index)
{
    return stats && index < stats->device_count ? &stats->devices[index].stats : NULL;
}

size_t weir_stats_tag_count(const weir_stats *stats)
{
    return stats ? stats->tag_count : 0;
}

const weir_tag_stats *weir_stats_tag(const weir_stats *stats, size_t index)
{
    return stats && index < stats->tag_count ? &stats->tags[index].stats : NULL;
}
