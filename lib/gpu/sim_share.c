/* SPDX-License-Identifier: MIT */
/* sim_share.c - sharing between processes: exporting and importing pools, blocks and events. */
#include "lib/gpu/sim_machine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct sim_block_handle) <= GPU_SHARED_BYTES, "a block's handle does not fit");
_Static_assert(sizeof(struct sim_event_handle) <= GPU_SHARED_BYTES, "an event's handle does not fit");

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

/* As in CUDA, each call imports the pool anew, with an address range of its own. */
static int open_pool(int device, int fd, struct sim_pool *pool)
{
    struct stat status;
    *pool = (struct sim_pool){ .device = device, .imported = true, .shared = -1, .fd = -1 };
    pool->access[device] = GPU_ACCESS_READ_WRITE;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return GPU_INVALID_VALUE;
    pool->fd = copy;
    int code = GPU_INVALID_VALUE;
    if (!fstat(copy, &status) && sim_ledger_pool_find(pool)) {
        code = sim_memory_open_imported(pool, (uint64_t)status.st_size, copy);
        if (code)
            sim_pool_leave(pool);
    }
    if (code)
        close(copy);
    return code;
}

int sim_pool_import(int device, int fd, gpu_pool *handle)
{
    if (!sim_supports(device, GPU_FEATURE_POOL_POSIX_FD, NULL, 0))
        return GPU_NOT_SUPPORTED;
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    struct sim_pool *pool = malloc(sizeof(*pool));
    code = pool ? open_pool(device, fd, pool) : GPU_OUT_OF_MEMORY;
    if (code) {
        free(pool);
        return code;
    }
    pool->next = sim.pools;
    sim.pools = *handle = pool;
    sim_note_change();
    return 0;
}

void sim_pool_leave(const struct sim_pool *pool)
{
    bool last = true;
    if (pool->shared < 0)
        return;
    for (const struct sim_pool *other = sim.pools; other; other = other->next)
        last = last && (other == pool || other->shared != pool->shared);
    sim_ledger_pool_leave(pool, last);
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

int sim_block_export(void *ptr, struct gpu_shared_block *shared)
{
    struct sim_pool *pool;
    struct sim_segment *segment = sim_memory_block(ptr, &pool);
    if (!segment || pool->imported || !pool->handle_exported)
        return GPU_INVALID_VALUE;
    struct sim_block_handle handle = { .offset = segment->offset, .size = segment->size };
    sim_ledger_block_handle(pool, &handle);
    sim_memory_export(pool, segment);
    memset(shared, 0, sizeof(*shared));
    memcpy(shared->bytes, &handle, sizeof(handle));
    return 0;
}

int sim_block_import(gpu_pool pool, const struct gpu_shared_block *shared, void **ptr)
{
    struct sim_block_handle handle;
    uint64_t end;
    memcpy(&handle, shared->bytes, sizeof(handle));
    if (!pool->imported || !sim_ledger_is_of_pool(pool, &handle))
        return GPU_INVALID_VALUE;
    if (__builtin_add_overflow(handle.offset, handle.size, &end) || end > pool->span || !handle.size ||
        handle.offset % pool->alignment || handle.size % pool->alignment)
        return GPU_INVALID_VALUE;
    int code = sim_capture_check_unsafe();
    if (code)
        return code;
    /* CUDA crashes with a segmentation fault here. */
    if (handle.size > SIM_SHARED_MAX)
        return GPU_UNKNOWN;
    return sim_memory_import(pool, handle.offset, handle.size, ptr);
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

void sim_event_leave(int number)
{
    for (const struct sim_event *event = sim.events; event; event = event->next)
        if (event->shared == number)
            return;
    sim_ledger_event_leave(number);
}

static int add_event(int device, int number, gpu_event *handle)
{
    int code = sim_event_create(device, handle);
    if (code)
        sim_event_leave(number);
    else
        (*handle)->shared = number;
    return code;
}

int sim_event_create_shared(int device, gpu_event *handle, struct gpu_shared_event *shared)
{
    struct sim_event_handle made;
    int number = sim_ledger_event_add(device, &made);
    int code = number < 0 ? GPU_OUT_OF_MEMORY : add_event(device, number, handle);
    if (!code) {
        memset(shared, 0, sizeof(*shared));
        memcpy(shared->bytes, &made, sizeof(made));
    }
    return code;
}

int sim_event_open_shared(int device, const struct gpu_shared_event *shared, gpu_event *handle)
{
    struct sim_event_handle wanted;
    int number;
    memcpy(&wanted, shared->bytes, sizeof(wanted));
    int code = sim_ledger_event_open(device, &wanted, &number);
    return code ? code : add_event(device, number, handle);
}

int sim_event_record_shared(struct sim_event *event, struct sim_stream *stream)
{
    int fence = sim_ledger_event_record(event->shared);
    if (fence < 0)
        return GPU_OUT_OF_MEMORY;
    int code = sim_fence_enqueue(stream, fence);
    if (code)
        sim_ledger_fence_done(fence, sim.now); /* no record was queued, so nobody has to wait for the fence */
    return code;
}

uint64_t sim_event_due(const struct sim_event *event, bool wait)
{
    bool own;
    if (event->shared < 0)
        return event->done_at;
    int fence = sim_ledger_event_fence(event->shared, wait, &own);
    if (fence < 0)
        return 0;
    if (own)
        return sim_fence_due(fence);
    return wait ? sim_gate_of_fence(fence) : SIM_NEVER;
}
