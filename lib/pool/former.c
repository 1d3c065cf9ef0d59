/* SPDX-License-Identifier: MIT */
#include "lib/pool/former.h"

#include "lib/base/list.h"
#include "lib/pool/weir_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both lists, which hold pools of all weirs, the latest first */
static weir_pool *pools;                                 /* default pools */
static weir_pool *currents;                              /* pools that Weir made current */

/* Default pools ------------------------------------------------------------------------------------------------------------------------ */

/* Returns the pool of the other weir that configured the same default pool latest, or NULL. Called with lock. */
static const weir_pool *latest_other(const weir_pool *pool)
{
    const weir_pool *other = pools;
    while (other && (other == pool || other->native.handle != pool->native.handle))
        other = other->before.next;
    return other;
}

int weir__former_save(weir_pool *pool)
{
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&lock);
    const weir_pool *other = latest_other(pool);
    for (size_t i = 0; i < WEIR__CUDA_ATTRIBUTES && code == GPU_SUCCESS; i++) {
        uint64_t now = 0;
        code = pool->w->gpu->pool_get(pool->native.handle, weir__cuda_attributes[i], &now);
        pool->native.written[i] = now;
        /* If the attribute has the value that another weir wrote, the saved value is the one from before that weir. */
        pool->before.saved[i] = other && now == other->native.written[i] ? other->before.saved[i] : now;
    }
    if (code == GPU_SUCCESS) {
        pool->before.next = pools;
        pools = pool;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* Restores one attribute, unless somebody else has changed it since: to the value that another open weir (`other`) wrote, or without such a
   weir to the saved one. Called with lock. */
static int restore(weir_pool *pool, const weir_pool *other, size_t i)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t now;
    int code = gpu->pool_get(pool->native.handle, weir__cuda_attributes[i], &now);
    if (code == GPU_SUCCESS && now == pool->native.written[i])
        code = gpu->pool_set(pool->native.handle, weir__cuda_attributes[i], other ? other->native.written[i] : pool->before.saved[i]);
    return code;
}

void weir__former_restore(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    int codes[WEIR__CUDA_ATTRIBUTES];
    uint64_t threshold;
    pthread_mutex_lock(&lock);
    const weir_pool *other = latest_other(pool);
    for (size_t i = 0; i < WEIR__CUDA_ATTRIBUTES; i++)
        codes[i] = restore(pool, other, i);
    WEIR__UNLINK(pools, pool, before.next);
    pthread_mutex_unlock(&lock);
    /* Idle memory above the threshold goes back now: CUDA would release it only at the program's next synchronise. */
    if (gpu->pool_get(pool->native.handle, GPU_POOL_RELEASE_THRESHOLD, &threshold) == GPU_SUCCESS)
        gpu->pool_trim(pool->native.handle, threshold);
    for (size_t i = 0; i < WEIR__CUDA_ATTRIBUTES; i++)
        if (codes[i] != GPU_SUCCESS)
            weir__log_about(pool->w, pool, WEIR_LOG_WARNING, "a setting of the default pool of device %d could not be put back: %s",
                            pool->device->index, gpu->code_name(codes[i]));
}

/* Current pools ------------------------------------------------------------------------------------------------------------------------ */

weir_status weir__current_pool_set(weir_pool *pool, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool former;
    pthread_mutex_lock(&lock);
    int code = gpu->pool_get_current(pool->device->index, &former);
    if (code == GPU_SUCCESS)
        code = gpu->pool_set_current(pool->device->index, pool->native.handle);
    if (code == GPU_SUCCESS) {
        pool->current.former = former;
        atomic_store(&pool->native.cap.has_strangers, true);
        pool->current.next = currents;
        currents = pool;
    }
    pthread_mutex_unlock(&lock);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, gpu, code, "pool '%s' cannot be made the current pool of device %d", pool->name, pool->device->index);
}

int weir__current_pool_replace(weir_pool *pool, gpu_pool made)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&lock);
    if (pool->current.former) {
        code = gpu->pool_get_current(pool->device->index, &current);
        if (code == GPU_SUCCESS && current == pool->native.handle)
            code = gpu->pool_set_current(pool->device->index, made);
        for (weir_pool *other = currents; other && code == GPU_SUCCESS; other = other->current.next)
            if (other->current.former == pool->native.handle)
                other->current.former = made;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void weir__current_pool_restore(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    pthread_mutex_lock(&lock);
    if (pool->current.former) {
        if (gpu->pool_get_current(pool->device->index, &current) == GPU_SUCCESS && current == pool->native.handle)
            gpu->pool_set_current(pool->device->index, pool->current.former);
        /* This pool's handle is about to be destroyed. Pools that were made current after this one, and would restore its handle, restore
           instead what was current before this one. */
        weir_pool **link = &currents;
        while (*link != pool) {
            if ((*link)->current.former == pool->native.handle)
                (*link)->current.former = pool->current.former;
            link = &(*link)->current.next;
        }
        *link = pool->current.next;
    }
    pthread_mutex_unlock(&lock);
}
