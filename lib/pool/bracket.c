/* SPDX-License-Identifier: MIT */
#include "lib/pool/bracket.h"

#include "lib/pool/former.h"
#include "lib/pool/left.h"
#include "lib/pool/weir_internal.h"

#define TRIES 3                       /* at putting a threshold back */
#define PIECE (UINT64_C(1) << 30)     /* bytes of one trim: other threads' calls of CUDA wait for 1 ms (measured) */

/* A threshold that was lowered. */
struct lowered {
    gpu_pool handle;
    uint64_t to, former;
    bool is_ours; /* Weir wrote the former one. Else the program did, through the pool's handle */
};

/* The part of the pool's threshold that the settings give to the handle: the small twin's, or the other. */
static uint64_t wanted(const weir_pool *pool, bool small)
{
    uint64_t all = atomic_load(&pool->settings.release_threshold), share = atomic_load(&pool->settings.small_share);
    if (!pool->native.small || share >= all)
        return all;
    return small ? share : all - share;
}

static int write_threshold(weir_pool *pool, const struct lowered *lowered, uint64_t bytes)
{
    int code = pool->w->gpu->pool_set(lowered->handle, GPU_POOL_RELEASE_THRESHOLD, bytes);
    if (code == GPU_SUCCESS && lowered->is_ours && lowered->handle == pool->native.handle)
        weir__former_note_written(pool, GPU_POOL_RELEASE_THRESHOLD, bytes);
    return code;
}

static bool lower(weir_pool *pool, gpu_pool handle, struct lowered *lowered)
{
    const struct gpu *gpu = pool->w->gpu;
    bool small = handle == pool->native.small;
    uint64_t now = 0;
    if (gpu->pool_get(handle, GPU_POOL_RELEASE_THRESHOLD, &now) != GPU_SUCCESS ||
        gpu->pool_get(handle, GPU_POOL_RESERVED, &lowered->to) != GPU_SUCCESS)
        return false;
    lowered->handle = handle;
    lowered->is_ours = small || now == weir__former_written(pool, GPU_POOL_RELEASE_THRESHOLD);
    lowered->former = lowered->is_ours ? wanted(pool, small) : now;
    return now > lowered->to && write_threshold(pool, lowered, lowered->to) == GPU_SUCCESS;
}

/* Unless somebody else has changed the threshold meanwhile, through the handle of a default or current pool. */
static void put_back(weir_pool *pool, const struct lowered *lowered)
{
    uint64_t now = lowered->to;
    pool->w->gpu->pool_get(lowered->handle, GPU_POOL_RELEASE_THRESHOLD, &now);
    for (int tries = 0; tries < TRIES && now == lowered->to; tries++)
        if (write_threshold(pool, lowered, lowered->former) == GPU_SUCCESS)
            return;
}

int weir__bracket_malloc(weir_pool *pool, void **block, size_t size, gpu_pool handle, gpu_stream stream)
{
    const struct gpu *gpu = pool->w->gpu;
    struct lowered lowered;
    /* What an exportable pool reserves stays reserved, and CUDA's figures of such a pool say otherwise (measured). */
    if (pool->kind.is_exportable)
        return gpu->malloc_async(block, size, handle, stream);
    pthread_mutex_lock(&pool->lock);
    bool is_lowered = lower(pool, handle, &lowered);
    int code = gpu->malloc_async(block, size, handle, stream);
    if (is_lowered)
        put_back(pool, &lowered);
    pthread_mutex_unlock(&pool->lock);
    return code;
}

void weir__bracket_mend(weir_pool *pool)
{
    uint64_t now, written = weir__former_written(pool, GPU_POOL_RELEASE_THRESHOLD);
    const struct lowered lowered = { .handle = pool->native.handle, .is_ours = true };
    if (written == wanted(pool, false) || pool->kind.is_exportable)
        return;
    if (pool->w->gpu->pool_get(pool->native.handle, GPU_POOL_RELEASE_THRESHOLD, &now) == GPU_SUCCESS && now == written)
        write_threshold(pool, &lowered, wanted(pool, false));
}

void weir__bracket_give_back(weir_pool *pool, uint64_t keep)
{
    uint64_t used = weir__pool_figure(pool, GPU_POOL_USED), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED), released = 1;
    uint64_t least = keep > used ? keep : used;
    while (reserved > least && released) {
        reserved = reserved - least > PIECE ? reserved - PIECE : least;
        if (weir__pool_trim(pool, reserved, &released) != GPU_SUCCESS)
            break;
    }
    weir__pool_left(pool);
}
