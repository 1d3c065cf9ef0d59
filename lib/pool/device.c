/* SPDX-License-Identifier: MIT */
#include "lib/pool/device.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/list.h"
#include "lib/pool/local_rank.h"
#include "lib/pool/weir_internal.h"

weir_status weir__device_init(struct weir__device *device, weir *w, int index, weir_error *error)
{
    *device = (struct weir__device){ .w = w, .index = index };
    int code = w->gpu->device_info(index, &device->info);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, w->gpu, code, "device %d", index);
    weir__quota_read(index, device->info.memory, &device->quota);
    for (size_t i = 0; i < device->quota.count; i++)
        if (device->quota.limits[i].is_refused)
            return weir__fail(error, WEIR_BAD_POLICY, "%s is '%s', which %s", device->quota.limits[i].variable,
                              device->quota.limits[i].value, device->quota.limits[i].why);
    device->has_stream_ids = w->gpu->supports(index, GPU_FEATURE_STREAM_ID, NULL, 0);
    device->fences = weir__fences_join(w->gpu, index);
    if (!device->fences)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for device %d", index);
    pthread_rwlock_init(&device->lock, NULL);
    weir__table_init(&device->named);
    weir__asking_init(&device->asking);
    return WEIR_OK;
}

void weir__device_destroy(struct weir__device *device)
{
    weir__asking_destroy(&device->asking);
    weir__fences_leave(device->fences);
    weir__table_destroy(&device->named);
    pthread_rwlock_destroy(&device->lock);
}

bool weir__device_is_used(const struct weir__device *device)
{
    bool used = true;
    device->w->gpu->device_is_used(device->index, &used);
    return used;
}

bool weir__device_is_in(const struct weir__device *device, const struct policy_devices *list)
{
    if (list->local)
        return device->index == device->w->local_device;
    for (size_t i = 0; i < list->count; i++) {
        const struct policy_device *item = &list->items[i];
        if (item->uuid ? strcasecmp(item->uuid, device->info.uuid) == 0 : item->index == device->index)
            return true;
    }
    return list->all;
}

weir_status weir__devices_check(const weir *w, const struct policy_devices *list, struct policy_place place, weir_error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct policy_devices one = { .count = 1, .items = &list->items[i] };
        size_t found = 0;
        for (size_t d = 0; d < w->device_count; d++)
            found += weir__device_is_in(&w->devices[d], &one);
        if (!found && one.items->uuid)
            return weir__fail_at(error, WEIR_BAD_POLICY, place, "there is no device %s: `weir doctor` lists them", one.items->uuid);
        if (!found)
            return weir__fail_at(error, WEIR_BAD_POLICY, place, "there is no device %d: this machine has %zu, counted from 0",
                                 one.items->index, w->device_count);
    }
    return WEIR_OK;
}

weir_status weir__devices_find(weir *w, const struct policy *policy, weir_error *error)
{
    char why[WEIR__LOCAL_RANK_WHY];
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < policy->pool_count && status == WEIR_OK; i++) {
        const struct policy_pool *entry = &policy->pools[i];
        struct policy_place place = policy_pool_place(policy, entry, "devices");
        status = weir__devices_check(w, &entry->devices, place, error);
        if (entry->devices.local && !weir__local_rank_device(w->device_count, &w->local_device, why))
            status = weir__fail_at(error, WEIR_BAD_POLICY, place, "%s", why);
    }
    return status;
}

const char *weir__local_text(const weir *w, char text[WEIR__LOCAL_TEXT])
{
    text[0] = '\0';
    if (w->local_device != WEIR__NO_DEVICE)
        snprintf(text, WEIR__LOCAL_TEXT, ", or use device %d, which is the local one here", w->local_device);
    return text;
}

void weir__device_say_quota(const struct weir__device *device)
{
    for (size_t i = 0; i < device->quota.count; i++) {
        const struct weir__quota_limit *limit = &device->quota.limits[i];
        if (*limit->why)
            weir__log_about(device->w, limit, WEIR_LOG_WARNING, "%s='%s' is ignored on device %d: it %s", limit->variable, limit->value,
                            device->index, limit->why);
    }
}

weir_pool *weir__device_find_pool(struct weir__device *device, const char *name)
{
    pthread_rwlock_rdlock(&device->lock);
    struct weir__link *link = weir__table_first(&device->named, weir__hash_name(name));
    while (link && strcmp(WEIR__ITEM(link, weir_pool, named)->name, name) != 0)
        link = weir__table_next(link);
    pthread_rwlock_unlock(&device->lock);
    return link ? WEIR__ITEM(link, weir_pool, named) : NULL;
}

void weir__device_add_pool(struct weir__device *device, weir_pool *pool)
{
    pthread_rwlock_wrlock(&device->lock);
    WEIR__APPEND(device->pools, pool, next);
    if (!weir__pool_is_private(pool))
        weir__table_add(&device->named, &pool->named, weir__hash_name(pool->name), 0);
    pthread_rwlock_unlock(&device->lock);
}

void weir__device_remove_pool(struct weir__device *device, weir_pool *pool)
{
    pthread_rwlock_wrlock(&device->lock);
    if (WEIR__UNLINK(device->pools, pool, next) && !weir__pool_is_private(pool))
        weir__table_remove(&device->named, &pool->named);
    pthread_rwlock_unlock(&device->lock);
}

weir_pool *weir__device_next_pool(struct weir__device *device, weir_pool *after)
{
    pthread_rwlock_rdlock(&device->lock);
    weir_pool *pool = after ? after->next : device->pools;
    if (pool)
        weir__pool_hold(pool);
    pthread_rwlock_unlock(&device->lock);
    if (after)
        weir__pool_release(after);
    return pool;
}

uint64_t weir__device_idle(struct weir__device *device)
{
    uint64_t idle = 0;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        if (!pool->native.is_host && !weir__pool_is_stuck(pool))
            idle += weir__pool_idle(pool);
    return idle;
}
