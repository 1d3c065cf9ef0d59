/* SPDX-License-Identifier: MIT */
/*
 * malloc.c - weir_malloc() and weir_pool_malloc(), and weir__serve(), the path of each request that no cache serves: the memory comes from
 * CUDA, from an arena or from recovery, and the block enters the table of blocks.
 */
#include "lib/alloc/free.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/request.h"
#include "lib/base/call.h"
#include "lib/base/format.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"

#define BLOCK_STEP 512 /* CUDA gives memory in multiples of this many bytes */

/* The first attempt, during which other threads may ask CUDA too (asking.h). */
static bool attempt_beside(struct weir__request *request, void **ptr)
{
    struct weir__asking *asking = &request->pool->device->asking;
    struct weir__asker asker = weir__asking_begin(asking, request->pool->w->gpu, &request->ask.waited);
    bool is_served = weir__attempt(request, ptr);
    if (!is_served && (request->was_asked || request->untried) && weir__asking_is_beside(asking, asker))
        request->is_crowded = true;
    weir__asking_end(asking);
    return is_served;
}

/* Asks CUDA once for memory on a stream that captures. The block belongs to the graph: no recovery is tried, and the pool's figures do not
   count it. A function of its own, as ten instructions of each request that goes to CUDA would keep registers for it. */
static __attribute__((noinline)) weir_status ask_for_graph(struct weir__request *request, void **ptr)
{
    weir_pool *pool = request->pool;
    const struct gpu *gpu = pool->w->gpu;
    const struct weir__backing *native = &pool->native.backing;
    void *base;
    if (weir__pool_is_shut(pool)) {
        request->code = WEIR__SERVE_ASLEEP;
        return weir__request_fail(request, "");
    }
    weir__cuda_begin(&pool->native);
    int code = gpu->malloc_async(&base, weir__cuda_wide(native, request->asked), request->small ? pool->native.small : pool->native.handle,
                                 request->stream);
    weir__cuda_end(&pool->native);
    if (code == GPU_SUCCESS) {
        *ptr = weir__cuda_aligned(native, base);
        request->ask.from = *ptr == base ? NULL : base;
        return WEIR_OK;
    }
    return weir__fail_gpu(weir__last_error_reset(), gpu, code, "%s from pool '%s' on a capturing stream of device %d",
                          WEIR__BYTES(request->asked), pool->name, pool->device->index);
}

static weir_status ask(struct weir__request *request, void **ptr)
{
    const weir_pool *pool = request->pool;
    bool is_served = attempt_beside(request, ptr);
    if (!is_served && request->code == GPU_OUT_OF_MEMORY)
        return pool->w->out_of_memory(request, ptr);
    if (request->ask.waited)
        weir__request_note_wait(request);
    return is_served ? WEIR_OK : weir__request_fail(request, "");
}

/* The table of blocks ----------------------------------------------------------------------------------------------------------------- */

/* Removes the block that had an address before, which CUDA has now given again: the program freed the block with cudaFreeAsync(), or it
   belonged to a graph that is destroyed. */
static void forget_former(const struct weir__block *former)
{
    struct weir__recorder *recorder = &former->pool->w->recorder;
    weir__record_block(former->graph ? WEIR__KIND_GRAPH_FREE : WEIR__KIND_FREE, former, NULL, weir__record_order(recorder));
    if (!former->graph)
        weir__count_tag(recorder, former->origin, former->size, -1);
    /* Note this free before `taken` falls to 0: at 0 another thread may replace the shared pool. */
    if (former->pool->native.is_exportable && !former->graph)
        atomic_store(&former->pool->backing->debts.is_unknown, true);
    weir__pool_count_free(former);
    if (!former->graph)
        weir__log_about(former->pool->w, former->pool, WEIR_LOG_WARNING,
                        "the block %p of pool '%s' was freed without Weir: use weir_free()", former->ptr, former->pool->name);
    weir__pool_release(former->pool);
}

/* Removes an entry from its cache and from the table: the program freed the cached block with cudaFreeAsync(), and CUDA accepted that. */
static void forget_cached(weir *w, struct weir__entry *entry, const void *ptr)
{
    struct weir__block block;
    if (!weir__cache_forget(entry, ptr))
        return;
    weir__blocks_remove(&w->blocks, entry, false, &block);
    weir__record_block(WEIR__KIND_RETURN, &block, NULL, weir__record_order(&w->recorder));
    weir__pool_count_spare_gone(block.pool, weir__class_given(block.class, block.size));
    weir__log_about(w, block.pool, WEIR_LOG_WARNING, "the block %p of pool '%s' was freed with weir_free() and again with cudaFreeAsync()",
                    block.ptr, block.pool->name);
    weir__pool_release(block.pool);
}

/* Replaces the entry that the table has for an address, after CUDA gave the address again. Returns false if host memory runs out. */
static bool replace(weir *w, const struct weir__block *block)
{
    struct weir__block former;
    struct weir__entry *stale = weir__blocks_look(&w->blocks, block->ptr);
    if (stale && atomic_load_explicit(&stale->guard, memory_order_relaxed) &&
        atomic_load_explicit(&stale->ptr, memory_order_relaxed) == block->ptr)
        forget_cached(w, stale, block->ptr);
    if (!weir__blocks_replace(&w->blocks, block, &former))
        return false;
    if (former.ptr)
        forget_former(&former);
    return true;
}

/* Adds a block that CUDA gave to the table. If host memory runs out the block goes back. */
static weir_status enter(const struct weir__block *block, gpu_stream stream)
{
    weir_pool *pool = block->pool;
    weir__pool_hold(pool);
    enum weir__add added = weir__blocks_add(&pool->w->blocks, block);
    if (added == WEIR__ADD_DONE || (added == WEIR__ADD_STALE && replace(pool->w, block)))
        return WEIR_OK;
    weir__return_unknown(block, stream);
    weir__pool_count_free(block);
    weir__pool_release(pool);
    return weir__fail(weir__last_error_reset(), WEIR_NO_HOST_MEMORY, "no host memory to keep track of a block of %s",
                      WEIR__BYTES(block->size));
}

/* Serving ------------------------------------------------------------------------------------------------------------------------------ */

/* Chooses the size to ask CUDA for: the bytes of the size class if a cache may keep the block later by its class, else the size that the
   caller asked for. Returns whether the request is for a large block (recent.h). */
static bool choose_size(struct weir__request *request, struct weir__block *block, weir_stream *opened)
{
    const weir_pool *pool = request->pool;
    unsigned class = weir__class_of(request->asked);
    request->rounded = request->asked;
    request->small = request->asked < pool->kind.small_below;
    if (!opened || block->graph || !weir__pool_keeps(pool, class))
        return false;
    bool is_large = !weir__pool_caches(pool, class);
    if (!is_large) {
        block->class = (uint8_t)class;
        request->rounded = weir__class_bytes[class];
    }
    if (!is_large || pool->backing->ops->asks_caches || weir__recent_missed(&opened->cache.recent, request->asked))
        block->guard = &opened->cache.lock;
    return is_large;
}

/* Takes the size class off a block, so that no cache keeps it: CUDA had room for the size asked for, but not for the bytes of the class. */
static void forget_class(struct weir__block *block)
{
    block->class = WEIR__CLASS_NONE;
    block->guard = NULL;
}

/* Sets the bytes of a new block to zero on the stream (share.scrub). If that fails the block goes back. */
static weir_status scrub(const struct weir__block *block, gpu_stream stream)
{
    weir_pool *pool = block->pool;
    const struct gpu *gpu = pool->w->gpu;
    int code = gpu->set_async(block->ptr, 0, block->size, stream);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    weir__return_unknown(block, stream);
    weir__pool_count_free(block);
    weir__pool_left(pool);
    return weir__fail_gpu(weir__last_error_reset(), gpu, code, "clearing %s of pool '%s' on device %d for share.scrub",
                          WEIR__BYTES(block->size), pool->name, pool->device->index);
}

/* Returns whether the stream surely does not capture: CUDA has said so during this call, or the policy says that the program never
   captures. */
static bool is_no_capture(const weir_pool *pool, const struct weir__raw *raw)
{
    return raw->is_known || (!atomic_load_explicit(&pool->cache.capture_check, memory_order_relaxed) && !pool->w->refuses_graphs);
}

/* Asks whether the stream captures and sets block->graph, since the block becomes the graph's in that case. */
static weir_status ask_capture(const struct weir__request *request, struct weir__block *block)
{
    const weir_pool *pool = block->pool;
    const weir *w = pool->w;
    enum gpu_capture_status capture;
    int code = w->gpu->stream_capture_status(request->stream, &capture);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(weir__last_error_reset(), w->gpu, code, "%s from pool '%s': the stream's capture status",
                              WEIR__BYTES(request->asked), pool->name);
    block->graph = capture != GPU_CAPTURE_STATUS_NONE;
    if (block->graph && w->refuses_graphs)
        return weir__fail(weir__last_error_reset(), WEIR_CAPTURING, "%s from pool '%s': the stream is being captured",
                          WEIR__BYTES(request->asked), pool->name);
    return WEIR_OK;
}

/* Records the new block, and counts it for its tag. */
static inline void note(const struct weir__block *block, gpu_stream stream)
{
    struct weir__recorder *recorder = &block->pool->w->recorder;
    weir__record_block(block->graph ? WEIR__KIND_GRAPH_MALLOC : WEIR__KIND_MALLOC, block, stream, weir__record_order(recorder));
    if (!block->graph)
        weir__count_tag(recorder, block->origin, block->size, 1);
}

/* Serves the request and fills the block. The caller has made the device current if the stream's handle is a fixed one. */
static weir_status serve(struct weir__request *request, struct weir__block *block, const struct weir__raw *raw, weir_stream *opened)
{
    weir *w = block->pool->w;
    block->origin = weir__record_origin(&w->recorder);
    weir_status status = is_no_capture(block->pool, raw) ? WEIR_OK : ask_capture(request, block);
    if (status != WEIR_OK)
        return status;
    bool is_large = choose_size(request, block, opened);
    if (!block->graph && atomic_load_explicit(&block->pool->device->fences->parked, memory_order_relaxed))
        weir__orphans_give(block->pool->device, request->stream, request->opened);
    if (is_large)
        weir__request_make_way(request, opened);
    struct weir__plain plain __attribute__((cleanup(weir__plain_restore), unused)) = { w, weir__plain_begin(w) };
    status = block->graph ? ask_for_graph(request, &block->ptr) : ask(request, &block->ptr);
    block->from = request->ask.from;
    if (status == WEIR_OK && !block->graph && request->got < request->rounded)
        forget_class(block);
    if (status == WEIR_OK && !block->graph && atomic_load_explicit(&block->pool->settings.scrub, memory_order_relaxed))
        status = scrub(block, request->stream);
    if (status == WEIR_OK)
        status = enter(block, request->stream);
    if (status == WEIR_OK)
        note(block, request->stream);
    return status;
}

/* Refuses a block of an exportable pool that is too large to be shared. */
static weir_status refuse_size(const weir_pool *pool, size_t size)
{
    char asked[WEIR__BYTES_LEN], most[WEIR__BYTES_LEN];
    return weir__fail(
        weir__last_error_reset(), WEIR_INVALID,
        "%s is above pools.%s.ipc_max_block (%s), the largest block that can be shared: CUDA crashes a process that imports more "
        "than 5.125 GiB in one block; use several blocks, or another pool for what stays in this process",
        weir__bytes(asked, size), pool->name, weir__bytes(most, pool->kind.max_block));
}

weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, const struct weir__raw *raw, weir_stream *opened)
{
    if (size == 0) {
        *ptr = NULL;
        return WEIR_OK;
    }
    if (size > pool->kind.max_block)
        return refuse_size(pool, size);
    /* CUDA gives multiples of BLOCK_STEP, but set_async() clears only the bytes asked for (measured). Ask for whole steps, so that the last
       bytes of the block are cleared too. */
    if (atomic_load_explicit(&pool->settings.scrub, memory_order_relaxed) && size <= SIZE_MAX - BLOCK_STEP)
        size = (size + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
    if (weir__pool_rounds(pool))
        size = weir__pool_round(pool, size);
    struct weir__request request = { .pool = pool, .asked = size, .stream = raw->handle, .id = raw->id };
    request.opened = raw->is_open ? opened : NULL;
    struct weir__block block = { .size = size, .pool = pool };
    struct weir__current current __attribute__((cleanup(weir__current_restore), unused)) = {
        pool->w->gpu, weir__device_begin(pool->w, pool->device->index, raw->handle) };
    weir_status status = serve(&request, &block, raw, opened);
    if (status == WEIR_OK)
        *ptr = block.ptr;
    return status;
}

/* Looks up the opened stream with this raw handle, and serves the request from its cache if the stream's pool is `pool` (NULL: any pool).
   Returns whether the request was served. *opened gets the stream if its cache had no block, else NULL. */
static bool serve_raw(struct weir__device *device, const weir_pool *pool, size_t size, struct weir__raw *raw, void **ptr,
                      weir_stream **opened)
{
    unsigned class = weir__class_of(size);
    *opened = NULL;
    if (class > atomic_load_explicit(&device->cache_classes, memory_order_relaxed))
        return false;
    weir_stream *found = weir__stream_find(device, raw);
    if (!found)
        return false;
    enum weir__cache_answer answer = weir__cache_serve(found, &raw->id, pool, class, size, ptr, false);
    if (answer == WEIR__CACHE_MISS)
        *opened = found;
    return answer == WEIR__CACHE_DONE;
}

static void release(weir_pool **pool)
{
    if (*pool)
        weir__pool_release(*pool);
}

/* Serves a request from the pool that the policy has for the stream. */
static __attribute__((noinline)) weir_status malloc_routed(struct weir__device *device, void **ptr, size_t size, struct weir__raw *raw,
                                                           weir_stream *opened)
{
    WEIR__CALL;
    weir_pool *pool __attribute__((cleanup(release))) = weir__stream_route(device, raw);
    if (pool)
        return weir__serve(pool, ptr, size, raw, opened);
    return weir__fail(weir__last_error_reset(), WEIR_NOT_FOUND,
                      "defaults.pool has no pool on device %d: add the device to its `devices`%s", device->index, WEIR__LOCAL(device->w));
}

weir_status(weir_malloc)(weir *w, void **ptr, size_t size, int device, weir_cuda_stream stream)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!w || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_malloc: w and ptr must not be NULL");
    if (device < 0 || (size_t)device >= w->device_count)
        return weir__fail(weir__last_error_reset(), WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0", device,
                          w->device_count);
    weir_stream *opened;
    struct weir__raw raw = { .handle = stream };
    if (serve_raw(&w->devices[device], NULL, size, &raw, ptr, &opened))
        return WEIR_OK;
    return malloc_routed(&w->devices[device], ptr, size, &raw, opened);
}

weir_status(weir_pool_malloc)(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!pool || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_pool_malloc: pool and ptr must not be NULL");
    weir_stream *opened;
    struct weir__raw raw = { .handle = stream };
    if (serve_raw(pool->device, pool, size, &raw, ptr, &opened))
        return WEIR_OK;
    WEIR__CALL;
    return weir__serve(pool, ptr, size, &raw, opened);
}
