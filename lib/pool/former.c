/* SPDX-License-Identifier: MIT */
#include "lib/pool/former.h"

#include "lib/base/list.h"
#include "lib/pool/weir_internal.h"

/* What Weir may change on a default pool, and puts back. */
static const enum gpu_pool_attribute attributes[WEIR__SAVED_COUNT] = {
    GPU_POOL_RELEASE_THRESHOLD,
    GPU_POOL_REUSE_EVENT_DEPENDENCIES,
    GPU_POOL_REUSE_OPPORTUNISTIC,
    GPU_POOL_REUSE_INTERNAL_DEPENDENCIES,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_pool *pools; /* default pools of all weirs, the latest first. Guarded by lock */

static size_t index_of(enum gpu_pool_attribute attribute)
{
    size_t i = 0;
    while (i < WEIR__SAVED_COUNT && attributes[i] != attribute)
        i++;
    return i;
}

void weir__former_note_written(weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t value)
{
    size_t i = index_of(attribute);
    if (i < WEIR__SAVED_COUNT)
        pool->before.written[i] = value;
}

uint64_t weir__former_written(const weir_pool *pool, enum gpu_pool_attribute attribute)
{
    return pool->before.written[index_of(attribute)];
}

int weir__former_save(weir_pool *pool)
{
    int code = GPU_SUCCESS;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WEIR__SAVED_COUNT && code == GPU_SUCCESS; i++) {
        code = pool->w->gpu->pool_get(pool->native.handle, attributes[i], &pool->before.saved[i]);
        pool->before.written[i] = pool->before.saved[i];
    }
    if (code == GPU_SUCCESS) {
        pool->before.next = pools;
        pools = pool;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* The weir's pool that configured the same default pool next, or NULL. Called with lock. */
static weir_pool *successor(const weir_pool *pool)
{
    weir_pool *next = NULL;
    for (weir_pool *other = pools; other != pool; other = other->before.next)
        if (other->native.handle == pool->native.handle)
            next = other;
    return next;
}

/* Puts one attribute back, or hands it on. Called with lock. */
static int restore(weir_pool *pool, weir_pool *next, size_t i)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t now;
    if (next) {
        if (next->before.saved[i] == pool->before.written[i])
            next->before.saved[i] = pool->before.saved[i];
        return GPU_SUCCESS;
    }
    int code = gpu->pool_get(pool->native.handle, attributes[i], &now);
    if (code == GPU_SUCCESS && now == pool->before.written[i])
        code = gpu->pool_set(pool->native.handle, attributes[i], pool->before.saved[i]);
    return code;
}

void weir__former_restore(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    int codes[WEIR__SAVED_COUNT];
    uint64_t threshold;
    pthread_mutex_lock(&lock);
    weir_pool *next = successor(pool);
    for (size_t i = 0; i < WEIR__SAVED_COUNT; i++)
        codes[i] = restore(pool, next, i);
    WEIR__UNLINK(pools, pool, before.next);
    pthread_mutex_unlock(&lock);
    /* CUDA would give it back only at the program's next synchronise. */
    if (gpu->pool_get(pool->native.handle, GPU_POOL_RELEASE_THRESHOLD, &threshold) == GPU_SUCCESS)
        gpu->pool_trim(pool->native.handle, threshold);
    for (size_t i = 0; i < WEIR__SAVED_COUNT; i++)
        if (codes[i] != GPU_SUCCESS)
            weir__log_about(pool->w, pool, WEIR_LOG_WARNING, "a setting of the default pool of device %d could not be put back: %s",
                            pool->device->index, gpu->code_name(codes[i]));
}
