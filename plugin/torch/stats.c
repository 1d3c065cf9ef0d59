/* SPDX-License-Identifier: MIT */
/* stats.c - Weir's figures in torch's terms. Weir's live blocks include the chunks of reserves, and its cached blocks those that wait for
   streams. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/alloc/orphans.h"
#include "lib/base/sized.h"
#include "plugin/torch/reserve.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns a - b, at least 0: several counters are not read at the same moment. */
static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Adds up Weir's own figures of all pools. *high: the sum of the peaks of their live bytes. */
static void add_pools(const struct torch_device *device, const weir_stats *taken, weir_torch_stats *stats, uint64_t *high)
{
    const char *name = weir_pool_name(device->pool);
    for (size_t i = 0; i < weir_stats_pool_count(taken); i++) {
        const weir_pool_stats *pool = weir_stats_pool(taken, i);
        stats->allocated += pool->live;
        *high += pool->live_high;
        stats->reserved += pool->reserved;
        stats->reserved_high += pool->reserved_high;
        stats->cached += pool->cached;
        stats->idle += pool->idle;
        stats->blocks += pool->live_blocks;
        stats->mallocs += pool->mallocs;
        stats->cache_hits += pool->cache_hits;
        stats->failures += pool->failures;
        if (!pool->is_private && strcmp(pool->name, name) == 0)
            stats->max_size = pool->max_size;
    }
    for (size_t i = 0; i < weir_stats_device_count(taken); i++) {
        const weir_device_stats *figures = weir_stats_device(taken, i);
        stats->memory = figures->memory;
        stats->memory_free = figures->memory_free;
        stats->recoveries = figures->recoveries;
        for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
            stats->rescues += figures->rescues[rung];
    }
}

static void add_reserves(struct torch_device *device, weir_torch_stats *stats, uint64_t high)
{
    struct torch_graph_figures graphs = torch_reserve_figures(device);
    uint64_t waiting = weir__orphans_bytes(device->device, NULL);
    stats->allocated = less(stats->allocated, graphs.chunk_bytes) + graphs.live_bytes;
    stats->active = stats->allocated + waiting;
    stats->cached = less(stats->cached, waiting);
    /* How much of the highest value was chunks is not known: never more than what they came to at the least. */
    stats->allocated_high = larger(less(high, graphs.chunk_bytes_low) + graphs.live_bytes_high, stats->allocated);
    stats->graph_reserved = graphs.chunk_bytes + graphs.foreign_bytes;
    stats->reserved += graphs.foreign_bytes;
    stats->reserved_high += graphs.foreign_bytes;
    stats->graph_live = graphs.live_bytes;
    stats->blocks = less(stats->blocks, graphs.chunk_count) + graphs.live_count;
    stats->mallocs = larger(less(stats->mallocs, graphs.chunk_mallocs) + graphs.mallocs, stats->blocks);
    stats->frees = stats->mallocs - stats->blocks;
}

/* Reads the figures of the device, with totals since the process began. */
static weir_status read_device(struct torch_device *device, weir_error *error, weir_torch_stats *stats)
{
    weir_stats *taken;
    uint64_t high = 0;
    weir_status status = weir_stats_take(device->w, error, &taken);
    if (status != WEIR_OK)
        return status;
    *stats = (weir_torch_stats){ .size = sizeof *stats };
    add_pools(device, taken, stats, &high);
    add_reserves(device, stats, high);
    weir_stats_free(taken);
    return WEIR_OK;
}

static void subtract_totals(struct torch_device *device, weir_torch_stats *stats)
{
    pthread_mutex_lock(&device->reserve_lock);
    const weir_torch_stats *before = &device->totals;
    stats->mallocs = less(stats->mallocs, before->mallocs);
    stats->frees = less(stats->frees, before->frees);
    stats->cache_hits = less(stats->cache_hits, before->cache_hits);
    stats->recoveries = less(stats->recoveries, before->recoveries);
    stats->rescues = less(stats->rescues, before->rescues);
    stats->failures = less(stats->failures, before->failures);
    pthread_mutex_unlock(&device->reserve_lock);
}

weir_status weir_torch_stats_take(int index, weir_error *error, weir_torch_stats *stats)
{
    weir_status status = weir__check_fork(error);
    int count = torch_device_count();
    if (status != WEIR_OK)
        return status;
    if (!stats)
        return weir__fail(error, WEIR_INVALID, "weir_torch_stats_take: stats must not be NULL");
    status = weir__sized_check(stats, "weir_torch_stats", error);
    if (status != WEIR_OK)
        return status;
    if (index < 0 || index >= (count > 0 ? count : TORCH_DEVICES_MAX))
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d", index);
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    weir_torch_stats figures = { .size = sizeof figures };
    if (device)
        status = read_device(device, error, &figures);
    if (status != WEIR_OK)
        return status;
    if (device)
        subtract_totals(device, &figures);
    weir__sized_write(stats, &figures, sizeof figures);
    return WEIR_OK;
}

void weir_torch_reset_peaks(int index)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    weir_stats_reset_peaks(device->w, index, NULL);
    torch_reserve_reset_peaks(device);
}

void weir_torch_reset_totals(int index)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    weir_torch_stats now;
    if (!device || read_device(device, NULL, &now) != WEIR_OK)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    device->totals = now;
    pthread_mutex_unlock(&device->reserve_lock);
}

weir_status weir_torch_claim(int index, weir_error *error, uint64_t *total, uint64_t *free)
{
    weir_error own = WEIR_ERROR_INIT;
    weir_error *first = error ? error : &own;
    if (!total || !free)
        return weir__fail(error, WEIR_INVALID, "weir_torch_claim: total and free must not be NULL");
    struct torch_device *device = torch_device_open(index, first);
    if (!device)
        return first->status;
    *total = weir__claimed(device->device, free);
    return WEIR_OK;
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/* Addresses that are live blocks to Weir, but no tensor's: chunks and freed blocks that wait. */
struct hidden {
    const void **ptrs;
    size_t count, room;
    bool is_short; /* host memory ran out before all were listed */
};

static void hide(const void *ptr, struct hidden *hidden)
{
    if (hidden->count == hidden->room) {
        size_t room = hidden->room ? 2 * hidden->room : 64;
        const void **more = realloc(hidden->ptrs, room * sizeof(void *));
        if (!more) {
            hidden->is_short = true;
            return;
        }
        hidden->ptrs = more;
        hidden->room = room;
    }
    hidden->ptrs[hidden->count++] = ptr;
}

static void hide_chunk(const struct torch_chunk *chunk, void *data)
{
    hide(chunk->base, data);
}

static int compare_pointers(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t)*(const void *const *)a, second = (uintptr_t)*(const void *const *)b;
    return first < second ? -1 : first > second;
}

struct visit {
    struct hidden hidden;
    weir_torch_block_fn use;
    void *data;
};

static void visit_block(const void *ptr, uint64_t size, void *data)
{
    const struct visit *visit = data;
    if (!visit->hidden.count || !bsearch(&ptr, visit->hidden.ptrs, visit->hidden.count, sizeof(void *), compare_pointers))
        visit->use(ptr, size, visit->data);
}

void weir_torch_blocks(int index, weir_torch_block_fn use, void *data)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    struct visit visit = { .use = use, .data = data };
    if (!device)
        return;
    torch_reserve_each_chunk(device, hide_chunk, &visit.hidden);
    if (visit.hidden.count)
        qsort(visit.hidden.ptrs, visit.hidden.count, sizeof(void *), compare_pointers);
    /* If the list is incomplete, no block is reported: a chunk would appear beside its own parts. */
    if (!visit.hidden.is_short)
        weir__blocks_each(device->w, index, visit_block, &visit);
    free(visit.hidden.ptrs);
    torch_reserve_each_live(device, use, data);
}

/* The state of weir_torch_list_blocks(). */
struct list {
    weir_torch_block *blocks;
    size_t room, count;
};

static void add(const void *ptr, uint64_t size, void *data)
{
    struct list *list = data;
    if (list->count < list->room)
        list->blocks[list->count] = (weir_torch_block){ .ptr = ptr, .size = size };
    list->count++;
}

size_t weir_torch_list_blocks(int device, weir_torch_block *blocks, size_t room)
{
    struct list list = { .blocks = blocks, .room = room };
    weir_torch_blocks(device, add, &list);
    return list.count;
}
