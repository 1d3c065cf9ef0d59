/* SPDX-License-Identifier: MIT */
#include "lib/current.h"

#include "lib/weir_internal.h"

/*
 * Pools that Weir made current, in the whole process. When one is destroyed while a later one is current, that later one must not restore a
 * handle that is gone: it inherits the former pool of the one that left. `currents_lock` is a leaf.
 */
static pthread_mutex_t currents_lock = PTHREAD_MUTEX_INITIALIZER;
static weir_pool *currents;

weir_status weir__current_pool_set(weir_pool *pool, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    pthread_mutex_lock(&currents_lock);
    int code = gpu->pool_get_current(pool->device->index, &pool->former);
    if (code == GPU_SUCCESS)
        code = gpu->pool_set_current(pool->device->index, pool->handle);
    if (code == GPU_SUCCESS) {
        pool->is_current = true;
        pool->next_current = currents;
        currents = pool;
    }
    pthread_mutex_unlock(&currents_lock);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    return weir__fail_gpu(error, gpu, code, "pool '%s' cannot be made the current pool of device %d", pool->name, pool->device->index);
}

int weir__current_pool_replace(weir_pool *pool, gpu_pool made)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&currents_lock);
    if (pool->is_current) {
        code = gpu->pool_get_current(pool->device->index, &current);
        if (code == GPU_SUCCESS && current == pool->handle)
            code = gpu->pool_set_current(pool->device->index, made);
        for (weir_pool *other = currents; other && code == GPU_SUCCESS; other = other->next_current)
            if (other->former == pool->handle)
                other->former = made;
    }
    pthread_mutex_unlock(&currents_lock);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code;
}

void weir__current_pool_restore(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    pthread_mutex_lock(&currents_lock);
    if (pool->is_current) {
        if (gpu->pool_get_current(pool->device->index, &current) == GPU_SUCCESS && current == pool->handle)
            gpu->pool_set_current(pool->device->index, pool->former);
        weir_pool **link = &currents;
        while (*link != pool) {
            if ((*link)->former == pool->handle)
                (*link)->former = pool->former;
            link = &(*link)->next_current;
        }
        *link = pool->next_current;
        pool->is_current = false;
    }
    pthread_mutex_unlock(&currents_lock);
}
