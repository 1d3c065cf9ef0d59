/* SPDX-License-Identifier: MIT */
/* pools.c - the calls of torch on a pool with an id (a graph's memory, or a MemPool) that do not allocate. */
#include "config.h"

#include "plugin/torch/late.h"
#include "plugin/torch/reserve.h"
#include "plugin/torch/source.h"

/* Counts one use of the pool. If the pool can still choose its source, it takes over the record of the source's first use, and *first
   becomes NULL. Returns false if host memory runs out. The caller holds the reserve_lock. */
static bool hold(struct torch_device *device, weir_torch_pool_id id, struct torch_foreign **first)
{
    struct torch_reserve *reserve = torch_reserve_get(device, id);
    if (!reserve)
        return false;
    reserve->uses++;
    if (*first && !reserve->source && !reserve->arena.chunks && !reserve->growing) {
        reserve->source = (*first)->source;
        reserve->foreign = *first;
        *first = NULL;
    }
    return true;
}

weir_status weir_torch_hold_pool(int index, weir_torch_pool_id id, const weir_torch_source *source, weir_error *error)
{
    weir_error cleared = WEIR_ERROR_INIT;
    struct torch_device *device = torch_device_open(index, &cleared);
    struct torch_foreign *first = device && source ? torch_source_new(source) : NULL;
    if (device && (first || !source)) {
        pthread_mutex_lock(&device->reserve_lock);
        bool is_held = hold(device, id, &first);
        pthread_mutex_unlock(&device->reserve_lock);
        torch_source_drop(device, first);
        if (is_held)
            return WEIR_OK;
    } else if (source && source->drop) {
        source->drop(source->data);
    }
    if (device)
        weir__fail(&cleared, WEIR_NO_HOST_MEMORY, "no host memory for a pool of torch's on device %d", index);
    if (error)
        *error = cleared;
    return cleared.status;
}

void weir_torch_release_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = torch_reserve_find(device, id);
    if (reserve && reserve->uses) {
        reserve->uses--;
        torch_reserve_shrink(device, reserve);
    }
    torch_reserve_unlock(device);
}

void weir_torch_set_pool(int index, weir_torch_pool_id id, int option, int value)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = torch_reserve_find(device, id);
    if (reserve && option == WEIR_TORCH_USE_ON_OOM)
        reserve->on_oom = value;
    if (reserve && option == WEIR_TORCH_NO_SPLIT)
        reserve->is_whole = value;
    pthread_mutex_unlock(&device->reserve_lock);
}

void weir_torch_trim_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    torch_late_retry(device);
    torch_reserve_trim(device, id);
}

int weir_torch_pool_uses(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return 0;
    pthread_mutex_lock(&device->reserve_lock);
    const struct torch_reserve *reserve = torch_reserve_find(device, id);
    int uses = reserve ? (int)reserve->uses : 0;
    pthread_mutex_unlock(&device->reserve_lock);
    return uses;
}

int weir_torch_pool_has(int index, weir_torch_pool_id id, const void *const *ptrs, size_t count)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return count == 0;
    pthread_mutex_lock(&device->reserve_lock);
    const struct torch_reserve *reserve = torch_reserve_find(device, id);
    bool has_all = (reserve ? reserve->arena.live_count - reserve->arena.waiting_count : 0) == count;
    for (size_t i = 0; i < count && has_all; i++)
        has_all = torch_arena_is_used(&reserve->arena, ptrs[i]);
    pthread_mutex_unlock(&device->reserve_lock);
    return has_all;
}
