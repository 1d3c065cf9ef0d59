/* SPDX-License-Identifier: MIT */
#include "lib/attach.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/current.h"
#include "lib/quiet.h"
#include "lib/retired.h"
#include "lib/settings.h"
#include "lib/waits.h"

#define PATIENCE UINT64_C(1000000) /* nanoseconds that a pool's last frees are waited for before it is made anew */

/* Attaching ---------------------------------------------------------------------------------------------------------------------------- */

static void tell(struct weir__attached *attached, bool is_quick)
{
    if (attached->policy_changed)
        attached->policy_changed(attached, is_quick);
}

void weir__attach(weir *w, struct weir__attached *attached)
{
    pthread_mutex_lock(&w->attached_lock);
    attached->next = w->attached;
    attached->link = &w->attached;
    if (attached->next)
        attached->next->link = &attached->next;
    w->attached = attached;
    /* The policy may have changed since its owner last looked. */
    tell(attached, true);
    pthread_mutex_unlock(&w->attached_lock);
}

void weir__attached_tell(weir *w, bool is_quick)
{
    pthread_mutex_lock(&w->attached_lock);
    for (struct weir__attached *attached = w->attached; attached; attached = attached->next)
        tell(attached, is_quick);
    pthread_mutex_unlock(&w->attached_lock);
}

/* Called with the lock. */
static void unlink_attached(struct weir__attached *attached)
{
    if (!attached->link)
        return;
    *attached->link = attached->next;
    if (attached->next)
        attached->next->link = attached->link;
    attached->next = NULL;
    attached->link = NULL;
}

void weir__detach(weir *w, struct weir__attached *attached)
{
    pthread_mutex_lock(&w->attached_lock);
    unlink_attached(attached);
    pthread_mutex_unlock(&w->attached_lock);
}

void weir__attached_close(weir *w)
{
    for (;;) {
        pthread_mutex_lock(&w->attached_lock);
        struct weir__attached *latest = w->attached;
        if (latest)
            unlink_attached(latest);
        pthread_mutex_unlock(&w->attached_lock);
        if (!latest)
            return;
        latest->close(latest);
    }
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

/* Memory that was exported serves its pool again only for as long as the pool keeps it. */
static int keep_all(weir_pool *pool)
{
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    if (!pool->was_lent) {
        pool->was_lent = true;
        code = weir__settings_write_threshold(pool, UINT64_MAX);
        pool->was_lent = code == GPU_SUCCESS;
    }
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(pool->w->gpu, mode);
    return code;
}

weir_status weir__block_lend(weir_pool *pool, void *ptr, weir_error *error, size_t *size)
{
    struct weir__block block;
    if (!pool->is_exportable)
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
    return pool->max_block;
}

void weir__pool_with_entry(weir_pool *pool, void (*use)(const struct policy_pool *entry, void *data), void *data)
{
    pthread_mutex_lock(&pool->w->config);
    use(policy_find_pool(pool->w->policy, pool->name), data);
    pthread_mutex_unlock(&pool->w->config);
}

int weir__pool_export(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    weir__pool_handle_begin(pool);
    int code = gpu->pool_export(pool->handle, fd);
    weir__pool_handle_end(pool);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code;
}

/* Whether nothing of the pool is in use or can come into use: nobody can ask for memory now. Where programs allocate from a `current` pool
   by themselves CUDA has to say that it holds nothing; a pool with a free part of a step that was exported in part is kept then. Called
   with pool->exchange held for writing. */
static bool is_unused(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t used = 0;
    if (atomic_load(&pool->taken))
        return false;
    int code = gpu->pool_get(pool->handle, GPU_POOL_USED, &used);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return used == 0 && weir__retired_is_free(pool->retired, gpu) &&
           (!pool->is_current || weir__retired_is_settled(gpu, pool->handle));
}

/* CUDA exports no block of a pool before the pool itself, and the pool's user may publish one as soon as there is the new handle. */
static bool make_exported(const struct gpu *gpu, gpu_pool made, int *fd)
{
    int code = gpu->pool_export(made, fd);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code == GPU_SUCCESS;
}

/* A new handle that is to the outside what the present one is; or NULL. */
static gpu_pool make_again(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    const struct gpu_pool_spec spec = {
        .device = pool->device->index,
        .location = GPU_LOCATION_DEVICE,
        .posix_fd = true,
        .max_size = pool->native_max,
    };
    gpu_pool made;
    int code = gpu->pool_create(&spec, &made);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return NULL;
    }
    bool is_exported = make_exported(gpu, made, fd);
    if (is_exported && weir__settings_copy(pool, made) == GPU_SUCCESS && weir__current_pool_replace(pool, made) == GPU_SUCCESS)
        return made;
    if (is_exported)
        close(*fd);
    code = gpu->pool_destroy(made);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return NULL;
}

/* Takes `room` for the new handle if it returns true. Of the old one *code says whether it was destroyed. */
static bool exchange(weir_pool *pool, struct weir__retired *room, int *fd, int *code)
{
    gpu_pool made = make_again(pool, fd);
    if (!made)
        return false;
    gpu_pool old = pool->handle;
    struct weir__retired *old_room = pool->retired;
    pool->handle = made;
    pool->retired = room;
    pool->was_lent = false;
    weir__settings_write_threshold(pool, 0); /* if that fails, it keeps its memory over a synchronise as its former self did */
    /* Where another thread of the program allocated from the `current` pool just now, the old one is kept until it may go. */
    *code = weir__retired_add(old_room, pool->w->gpu, old, NULL, !pool->is_current);
    return true;
}

bool weir__pool_renew(weir_pool *pool, int *fd)
{
    const struct gpu *gpu = pool->w->gpu;
    if (!pool->is_exportable || atomic_load(&pool->taken))
        return false;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir__retired_sweep(gpu);
    if (weir__pool_has_pending_frees(pool))
        weir__wait_for_frees(pool->device, gpu->now() + PATIENCE);
    struct weir__retired *room = weir__retired_reserve();
    int code = GPU_SUCCESS;
    bool is_new = false;
    pthread_mutex_lock(&pool->lock);
    if (room && pthread_rwlock_trywrlock(&pool->exchange) == 0) {
        is_new = is_unused(pool) && exchange(pool, room, fd, &code);
        pthread_rwlock_unlock(&pool->exchange);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_new)
        free(room);
    weir__relaxed_end(gpu, mode);
    if (code != GPU_SUCCESS)
        weir__log_about(pool->w, pool, WEIR_LOG_ERROR, "the former pool '%s' on device %d cannot be destroyed: %s", pool->name,
                        pool->device->index, gpu->code_name(code));
    return is_new;
}

bool weir__pool_claim(weir_pool *pool)
{
    return !atomic_exchange(&pool->is_shared, true);
}

void weir__pool_unclaim(weir_pool *pool)
{
    atomic_store(&pool->is_shared, false);
}

/* Hosts -------------------------------------------------------------------------------------------------------------------------------- */

void weir__captures_begin(void)
{
    weir__quiet_count(1);
}

void weir__captures_end(void)
{
    weir__quiet_count(-1);
}

void weir__captures_refuse(weir *w)
{
    w->refuses_graphs = true;
}

void weir__captures_relax(weir *w)
{
    w->relaxed = true;
}

struct visit {
    int device;
    void (*use)(const void *ptr, uint64_t size, void *data);
    void *data;
};

static void visit_block(const struct weir__block *block, void *data)
{
    const struct visit *visit = data;
    if (block->pool->device->index == visit->device && !block->graph)
        visit->use(block->ptr, block->size, visit->data);
}

void weir__blocks_each(weir *w, int device, void (*use)(const void *ptr, uint64_t size, void *data), void *data)
{
    struct visit visit = { .device = device, .use = use, .data = data };
    weir__blocks_visit(&w->blocks, visit_block, &visit);
}
