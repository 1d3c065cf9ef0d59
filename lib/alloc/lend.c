/* SPDX-License-Identifier: MIT */
#include "lib/alloc/lend.h"

#include <unistd.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/pool/former.h"
#include "lib/pool/settings.h"

#define PATIENCE UINT64_C(1000000) /* nanoseconds for which weir__pool_renew() waits until the pool's last frees are complete */

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/* Raises the pool's threshold, so that the pool keeps all idle memory: exported memory can serve the pool's later requests only while the
   pool keeps that memory. Returns the GPU's code. */
static int keep_all(weir_pool *pool)
{
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    if (!pool->native.was_lent) {
        pool->native.was_lent = true;
        code = weir__settings_write_threshold(pool, UINT64_MAX);
        pool->native.was_lent = code == GPU_SUCCESS;
    }
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(pool->w->gpu, mode);
    return code;
}

weir_status weir__block_lend(weir_pool *pool, void *ptr, weir_error *error, size_t *size)
{
    struct weir__block block;
    if (!pool->native.is_exportable)
        return weir__fail(error, WEIR_INVALID, "pool '%s' is not exportable, so none of its blocks can be shared: set its ipc to posix_fd",
                          pool->name);
    weir_status status = weir__blocks_lend(&pool->w->blocks, pool, ptr, &block);
    int code = status == WEIR_OK ? keep_all(pool) : GPU_SUCCESS;
    if (code != GPU_SUCCESS) {
        weir__blocks_return(&pool->w->blocks, pool, ptr);
        return weir__fail_gpu(error, pool->w->gpu, code, "keeping what pool '%s' shares", pool->name);
    }
    switch (status) {
    case WEIR_OK:
        *size = block.size;
        return WEIR_OK;
    case WEIR_NOT_A_BLOCK:
        return weir__fail(error, status, "%p is not the start of a live block: it is freed already, points into a block, or comes from "
                                         "elsewhere",
                          ptr);
    case WEIR_BUSY:
        return weir__fail(error, status, "the block %p is published already: withdraw it first", ptr);
    default:
        return weir__fail(error, status,
                          "the block %p is of another pool than '%s', or of a graph: allocate it with weir_pool_malloc() from "
                          "that pool, outside of captures",
                          ptr, pool->name);
    }
}

void weir__block_return(weir_pool *pool, void *ptr)
{
    weir__blocks_return(&pool->w->blocks, pool, ptr);
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

uint64_t weir__pool_max_block(const weir_pool *pool)
{
    return pool->kind.max_block;
}

int weir__pool_export(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    weir__cuda_begin(&pool->native);
    int code = gpu->pool_export(pool->native.handle, fd);
    weir__cuda_end(&pool->native);
    return code;
}

/* Whether nothing of the pool is in use. Called with pool->native.exchange held for writing, so that no request comes meanwhile. A program
   may allocate from a `current` pool by itself: there CUDA too has to say that the pool holds nothing, which it does not say of a pool with
   the free part of a step of which another part was exported. A former handle has to go first. */
static bool is_unused(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t used = 0;
    weir__cuda_destroy_former(&pool->native, pool->current.former);
    if (pool->native.former || atomic_load(&pool->figures.taken))
        return false;
    gpu->pool_get(pool->native.handle, GPU_POOL_USED, &used);
    return used == 0 && weir__debts_are_settled(&pool->backing->debts) &&
           (!pool->current.former || weir__cuda_is_complete(gpu, pool->native.handle));
}

/* Creates a new CUDA pool with the settings and the access of the present one, and sets *fd. Returns NULL if that failed. */
static gpu_pool make_again(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    const struct gpu_pool_spec spec = {
        .device = pool->device->index,
        .location = GPU_LOCATION_DEVICE,
        .posix_fd = true,
        .max_size = pool->native.max,
    };
    gpu_pool made;
    if (gpu->pool_create(&spec, &made) != GPU_SUCCESS)
        return NULL;
    /* Export the new pool at once: CUDA exports blocks only of a pool that was itself exported, and as soon as the new handle is set a user
       may publish a block. */
    bool is_exported = gpu->pool_export(made, fd) == GPU_SUCCESS;
    if (is_exported && weir__cuda_copy(&pool->native, made, pool->settings.peers, pool->w->device_count) == GPU_SUCCESS &&
        weir__current_pool_replace(pool, made) == GPU_SUCCESS)
        return made;
    if (is_exported)
        close(*fd);
    gpu->pool_destroy(made);
    return NULL;
}

/* Gives the pool a new handle. Returns false if there is none. *code: GPU_SUCCESS, or why the old handle could not be destroyed. */
static bool exchange(weir_pool *pool, int *fd, int *code)
{
    gpu_pool made = make_again(pool, fd);
    if (!made)
        return false;
    pool->native.former = pool->native.handle;
    pool->native.handle = made;
    pool->native.was_lent = false;
    weir__settings_write_threshold(pool, 0); /* if that fails, the new pool keeps memory over a synchronise, as the old one did */
    /* Another thread of the program may have allocated from the `current` pool just now: then the old pool is kept until that is freed. */
    *code = weir__cuda_destroy_former(&pool->native, pool->current.former);
    return true;
}

bool weir__pool_renew(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    if (!pool->native.is_exportable || atomic_load(&pool->figures.taken))
        return false;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    if (weir__pool_has_pending_frees(pool))
        weir__wait_for_frees(pool->device, gpu->now() + PATIENCE, false);
    int code = GPU_SUCCESS;
    bool is_new = false;
    pthread_mutex_lock(&pool->lock);
    if (pthread_rwlock_trywrlock(&pool->native.exchange) == 0) {
        is_new = is_unused(pool) && exchange(pool, fd, &code);
        pthread_rwlock_unlock(&pool->native.exchange);
    }
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(gpu, mode);
    if (code != GPU_SUCCESS)
        weir__log_about(pool->w, pool, WEIR_LOG_ERROR, "the former pool '%s' on device %d cannot be destroyed: %s", pool->name,
                        pool->device->index, gpu->code_name(code));
    return is_new;
}

bool weir__pool_claim(weir_pool *pool)
{
    return !atomic_exchange(&pool->sharing.is_shared, true);
}

void weir__pool_unclaim(weir_pool *pool)
{
    atomic_store(&pool->sharing.is_shared, false);
}
