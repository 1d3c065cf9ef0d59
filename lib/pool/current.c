/* SPDX-License-Identifier: MIT */
#include "lib/pool/current.h"

#include "lib/pool/weir_internal.h"

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
    int code = gpu->pool_get_current(pool->device->index, &pool->current.former);
    if (code == GPU_SUCCESS)
        code = gpu->pool_set_current(pool->device->index, pool->native.handle);
    if (code == GPU_SUCCESS) {
        pool->current.is_set = true;
        pool->current.next = currents;
        currents = pool;
    }
    pthread_mutex_unlock(&currents_lock);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, gpu, code, "pool '%s' cannot be made the current pool of device %d", pool->name, pool->device->index);
}

int weir__current_pool_replace(weir_pool *pool, gpu_pool made)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&currents_lock);
    if (pool->current.is_set) {
        code = gpu->pool_get_current(pool->device->index, &current);
        if (code == GPU_SUCCESS && current == pool->native.handle)
            code = gpu->pool_set_current(pool->device->index, made);
        for (weir_pool *other = currents; other && code == GPU_SUCCESS; other = other->current.next)
            if (other->current.former == pool->native.handle)
                other->current.former = made;
    }
    pthread_mutex_unlock(&currents_lock);
    return code;
}

void weir__current_pool_restore(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    pthread_mutex_lock(&currents_lock);
    if (pool->current.is_set) {
        if (gpu->pool_get_current(pool->device->index, &current) == GPU_SUCCESS && current == pool->native.handle)
            gpu->pool_set_current(pool->device->index, pool->current.former);
        weir_pool **link = &currents;
        while (*link != pool) {
            if ((*link)->current.former == pool->native.handle)
                (*link)->current.former = pool->current.former;
            link = &(*link)->current.next;
        }
        *link = pool->current.next;
        pool->current.is_set = false;
    }
    pthread_mutex_unlock(&currents_lock);
}
