/* SPDX-License-Identifier: MIT */
/* sim_pool.c - the operations on pools: creating and destroying, attributes, access, trimming, allocating and freeing. */
#include "lib/gpu/sim_machine.h"

#include <fcntl.h>
#include <stdlib.h>

/* Life --------------------------------------------------------------------------------------------------------------------------------- */

static int check_spec(const struct gpu_pool_spec *spec)
{
    static const enum gpu_feature location_needs[] = {
        [GPU_LOCATION_DEVICE] = GPU_FEATURE_POOLS,
        [GPU_LOCATION_HOST] = GPU_FEATURE_POOL_HOST,
        [GPU_LOCATION_HOST_NUMA] = GPU_FEATURE_POOL_HOST_NUMA,
    };
    if ((unsigned)spec->location > GPU_LOCATION_HOST_NUMA)
        return GPU_INVALID_VALUE;
    if (!sim_supports(spec->device, location_needs[spec->location], NULL, 0) ||
        (spec->posix_fd && !sim_supports(spec->device, GPU_FEATURE_POOL_POSIX_FD, NULL, 0)) ||
        (spec->max_size && !sim_supports(spec->device, GPU_FEATURE_POOL_MAX_SIZE, NULL, 0)))
        return GPU_NOT_SUPPORTED;
    if (spec->location == GPU_LOCATION_HOST_NUMA && (spec->numa_node < 0 || (uint64_t)spec->numa_node >= sim.settings.numa))
        return GPU_INVALID_VALUE;
    return 0;
}

int sim_pool_make(const struct gpu_pool_spec *spec, struct sim_pool **pool)
{
    struct sim_pool *made = calloc(1, sizeof(*made));
    if (!made)
        return GPU_OUT_OF_MEMORY;
    made->shared = -1;
    made->device = spec->device;
    made->location = spec->location;
    made->max_size = spec->max_size;
    for (size_t i = 0; i < sizeof(made->reuse) / sizeof(*made->reuse); i++)
        made->reuse[i] = 1;
    made->access[spec->device] = GPU_ACCESS_READ_WRITE;
    /* Twice the device's memory, so that a fragmented pool still has addresses for a large block. */
    int code = sim_memory_open(made, sim.settings.memory * 2, spec->posix_fd);
    if (code) {
        free(made);
        return code;
    }
    if (spec->posix_fd && !sim_ledger_pool_add(made)) {
        sim_memory_close(made);
        free(made);
        return GPU_OUT_OF_MEMORY;
    }
    made->next = sim.pools;
    sim.pools = made;
    sim_note_change();
    *pool = made;
    return 0;
}

int sim_pool_find(gpu_pool pool)
{
    const struct sim_pool *open = sim.pools;
    while (open && (open != pool || open->destroyed))
        open = open->next;
    return open ? 0 : GPU_INVALID_VALUE;
}

int sim_pool_find_own(gpu_pool pool)
{
    int code = sim_pool_find(pool);
    return !code && pool->imported ? GPU_INVALID_VALUE : code;
}

int sim_pool_create(const struct gpu_pool_spec *spec, gpu_pool *pool)
{
    int code = check_spec(spec);
    if (!code)
        code = sim_capture_check_unsafe();
    if (!code)
        code = sim_pool_make(spec, pool);
    if (!code)
        sim.devices[spec->device].used = true;
    return code;
}

int sim_pool_destroy(gpu_pool pool)
{
    if (pool->is_default)
        return GPU_INVALID_VALUE;
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    pool->destroyed = true;
    sim.destroyed_pools++;
    sim_note_change();
    for (int device = 0; device < SIM_DEVICES_MAX; device++)
        if (sim.devices[device].current_pool == pool)
            sim.devices[device].current_pool = sim.devices[device].default_pool;
    return 0;
}

static void drop(struct sim_pool **place)
{
    struct sim_pool *pool = *place;
    *place = pool->next;
    sim.destroyed_pools -= pool->destroyed;
    sim_memory_close(pool);
    sim_pool_leave(pool);
    free(pool);
}

void sim_pools_sweep(void)
{
    for (struct sim_pool **place = &sim.pools; sim.destroyed_pools && *place;) {
        if ((*place)->destroyed && !(*place)->blocks && sim_memory_quiet_at(*place) <= sim.now)
            drop(place);
        else
            place = &(*place)->next;
    }
}

uint64_t sim_pools_next_sweep(void)
{
    uint64_t next = SIM_NEVER;
    for (const struct sim_pool *pool = sim.pools; pool; pool = pool->next) {
        if (!pool->destroyed || pool->blocks)
            continue;
        uint64_t time = sim_memory_quiet_at(pool);
        next = time < next ? time : next;
    }
    return next;
}

void sim_pools_clear(void)
{
    while (sim.pools)
        drop(&sim.pools);
}

int sim_pool_get_default(int device, gpu_pool *pool)
{
    if (!sim.devices[device].default_pool)
        return GPU_NOT_SUPPORTED;
    *pool = sim.devices[device].default_pool;
    return 0;
}

int sim_pool_get_current(int device, gpu_pool *pool)
{
    if (!sim.devices[device].current_pool)
        return GPU_NOT_SUPPORTED;
    *pool = sim.devices[device].current_pool;
    return 0;
}

int sim_pool_set_current(int device, gpu_pool pool)
{
    if (pool->device != device || pool->location != GPU_LOCATION_DEVICE)
        return GPU_INVALID_VALUE;
    sim.devices[device].current_pool = pool;
    return 0;
}

/* Attributes --------------------------------------------------------------------------------------------------------------------------- */

/* Finds the variable of an attribute. Returns 0, or the error of the operation. */
static int find_attribute(struct sim_pool *pool, enum gpu_pool_attribute attribute, uint64_t **place)
{
    static const size_t places[] = {
        [GPU_POOL_RELEASE_THRESHOLD] = offsetof(struct sim_pool, release_threshold),
        [GPU_POOL_REUSE_EVENT_DEPENDENCIES] = offsetof(struct sim_pool, reuse[0]),
        [GPU_POOL_REUSE_OPPORTUNISTIC] = offsetof(struct sim_pool, reuse[1]),
        [GPU_POOL_REUSE_INTERNAL_DEPENDENCIES] = offsetof(struct sim_pool, reuse[2]),
        [GPU_POOL_RESERVED] = offsetof(struct sim_pool, reserved),
        [GPU_POOL_RESERVED_HIGH] = offsetof(struct sim_pool, reserved_high),
        [GPU_POOL_USED] = offsetof(struct sim_pool, used),
        [GPU_POOL_USED_HIGH] = offsetof(struct sim_pool, used_high),
    };
    if ((unsigned)attribute > GPU_POOL_USED_HIGH)
        return GPU_INVALID_VALUE;
    if (attribute >= GPU_POOL_RESERVED && !sim_supports(pool->device, GPU_FEATURE_POOL_USAGE, NULL, 0))
        return GPU_NOT_SUPPORTED;
    *place = (uint64_t *)(void *)((char *)pool + places[attribute]);
    return 0;
}

int sim_pool_get(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t *value)
{
    uint64_t *place;
    int code = find_attribute(pool, attribute, &place);
    if (!code)
        *value = *place;
    return code;
}

int sim_pool_set(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value)
{
    uint64_t *place;
    int code = find_attribute(pool, attribute, &place) ?: sim_capture_check_unsafe();
    if (code)
        return code;
    switch (attribute) {
    case GPU_POOL_RELEASE_THRESHOLD:
        *place = value;
        return 0;
    case GPU_POOL_REUSE_EVENT_DEPENDENCIES:
    case GPU_POOL_REUSE_OPPORTUNISTIC:
    case GPU_POOL_REUSE_INTERNAL_DEPENDENCIES:
        *place = value != 0;
        sim_runs_reconsider(pool);
        return 0;
    case GPU_POOL_RESERVED_HIGH:
    case GPU_POOL_USED_HIGH:
        if (value)
            return GPU_INVALID_VALUE;
        *place = attribute == GPU_POOL_USED_HIGH ? pool->used : pool->reserved;
        return 0;
    default:
        return GPU_INVALID_VALUE;
    }
}

/* Access ------------------------------------------------------------------------------------------------------------------------------- */

int sim_pool_set_access(gpu_pool pool, int device, enum gpu_access access)
{
    if ((unsigned)access > GPU_ACCESS_READ_WRITE)
        return GPU_INVALID_VALUE;
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    if (pool->location == GPU_LOCATION_DEVICE) {
        bool refused = device == pool->device ? access == GPU_ACCESS_NONE : !sim.settings.reaches[pool->device][device];
        if (refused)
            return GPU_INVALID_DEVICE;
    }
    pool->access[device] = access;
    return 0;
}

int sim_pool_get_access(gpu_pool pool, int device, enum gpu_access *access)
{
    *access = pool->access[device];
    return 0;
}

int sim_pool_export(gpu_pool pool, int *fd)
{
    if (pool->fd < 0)
        return GPU_INVALID_VALUE;
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    int copy = fcntl(pool->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return GPU_UNKNOWN;
    pool->handle_exported = true;
    *fd = copy;
    return 0;
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

static void release_down_to(struct sim_pool *pool, uint64_t keep)
{
    if (pool->reserved > keep)
        sim_memory_release(pool, pool->reserved - keep);
}

void sim_pools_enforce_thresholds(void)
{
    for (struct sim_pool *pool = sim.pools; pool; pool = pool->next)
        release_down_to(pool, pool->release_threshold);
}

int sim_pool_trim(gpu_pool pool, uint64_t keep)
{
    release_down_to(pool, keep);
    return 0;
}

int sim_malloc_async(void **ptr, size_t size, gpu_pool pool, gpu_stream stream)
{
    if (!size) {
        *ptr = NULL;
        return 0;
    }
    if (stream->capture)
        return sim_capture_malloc(stream->capture, size, ptr);
    int code = sim_capture_check_unsafe();
    return code ? code : sim_memory_take(pool, size, stream, ptr);
}

int sim_free_async(void *ptr, gpu_stream stream)
{
    if (!ptr)
        return 0;
    if (stream->capture)
        return sim_capture_free(stream->capture, ptr);
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    struct sim_pool *pool;
    struct sim_segment *segment = sim_memory_block(ptr, &pool);
    if (!segment)
        return GPU_INVALID_VALUE;
    sim_memory_free(pool, segment, stream);
    return 0;
}
