/* SPDX-License-Identifier: MIT */
#include "lib/malloc.h"

#include <stdlib.h>

#include "lib/attach.h"
#include "lib/event.h"
#include "lib/fast.h"
#include "lib/flush.h"
#include "lib/format.h"
#include "lib/retired.h"
#include "lib/settings.h"

#define BLOCK_STEP 512 /* CUDA gives blocks in multiples of so many bytes */

/* Counting ----------------------------------------------------------------------------------------------------------------------------- */

/* What CUDA was asked for. */
static uint64_t bytes_of(const struct weir__block *block)
{
    return block->class == WEIR__CLASS_NONE ? block->size : weir__class_bytes[block->class];
}

/* Called for a block that CUDA gave (sign 1), and for a live one that it gets back (-1), after `taken` was changed. */
static void count_rounding(weir_pool *pool, uint64_t bytes, uint64_t asked, int sign)
{
    if (bytes != asked)
        atomic_fetch_add_explicit(&pool->spare, sign * (int64_t)(bytes - asked), memory_order_relaxed);
}

/* A live block went back to CUDA. */
static void count_free(weir_pool *pool, const struct weir__block *block)
{
    if (block->graph)
        return;
    /* Whoever finds nothing taken finds the notes of all frees, too. */
    atomic_fetch_sub_explicit(&pool->taken, bytes_of(block), memory_order_release);
    count_rounding(pool, bytes_of(block), block->size, -1);
    weir__pool_count_exactly(pool, -(int64_t)block->size);
}

/* Gives a block to CUDA, on a stream of that device. A pool is not destroyed before its frees are complete, of which CUDA's figures do not
   tell where the pool is exportable. */
static int return_block(weir_pool *pool, void *ptr, int device, gpu_stream stream)
{
    const struct gpu *gpu = pool->w->gpu;
    int code = gpu->free_async(ptr, stream);
    if (code == GPU_SUCCESS && pool->is_exportable) {
        enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
        weir__retired_note(pool->retired, gpu, device, stream);
        weir__relaxed_end(gpu, mode);
    }
    return code;
}

/* Asking CUDA -------------------------------------------------------------------------------------------------------------------------- */

/* Weir watches the cap itself where the driver does not do so for the pool and its twin together. */
static bool is_above_cap(const weir_pool *pool, uint64_t max_size)
{
    return max_size && (pool->small || max_size != pool->native_max) && weir__pool_figure(pool, GPU_POOL_RESERVED) > max_size;
}

/* After a request that may have grown the pool: gives back idle memory down to the cap, as the driver does at a cap of its own. Otherwise a
   pool that grew by a whole step and was refused would stay above its cap, and refuse all that came later. */
static bool is_within_cap(weir_pool *pool, uint64_t max_size)
{
    uint64_t released;
    if (!is_above_cap(pool, max_size))
        return true;
    /* CUDA gives whole steps back and never less than it was told to keep. */
    uint64_t keep = max_size / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP;
    return weir__pool_trim(pool, keep, &released) == GPU_SUCCESS && !is_above_cap(pool, max_size);
}

/*
 * A block that the pool grew for was given back at once, since it is above the cap. CUDA lets go of the memory only when it has seen that
 * free complete: on an idle stream that can be now. On a busy one the next request sees to it, as nothing here may wait.
 */
static void undo_growth(const struct weir__request *request, uint64_t max_size)
{
    const struct gpu *gpu = request->pool->w->gpu;
    gpu_event event;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    int device = weir__event_device(gpu, request->pool->device->index, request->stream);
    if (weir__event_behind(gpu, device, request->stream, &event)) {
        if (weir__event_wait(gpu, event, 0))
            is_within_cap(request->pool, max_size);
        weir__event_destroy(gpu, event);
    }
    weir__relaxed_end(gpu, mode);
}

/* After the driver found no memory: whether it was the cap that it enforces, while the device still has room. */
static bool was_native_cap(const weir_pool *pool, size_t size, bool small)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t reserved = 0, free_bytes = 0, total_bytes = 0;
    if (!pool->native_max || small || gpu->pool_get(pool->handle, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS ||
        reserved + size <= pool->native_max)
        return false;
    return pool->is_host || (gpu->device_memory(pool->device->index, &free_bytes, &total_bytes) == GPU_SUCCESS && free_bytes >= size);
}

/* At a cap a request claims its bytes before it is served, so that no two pass where one fits. false: it does not fit. *crowded: it would,
   but for what others claim and may not get. */
static bool claim(weir_pool *pool, uint64_t size, uint64_t max_size, bool *crowded)
{
    if (size > max_size)
        return false;
    /* What was claimed is taken before the claim ends, so what is not seen here is seen there. */
    uint64_t others = atomic_fetch_add_explicit(&pool->claimed, size, memory_order_acq_rel);
    uint64_t taken = atomic_load_explicit(&pool->taken, memory_order_relaxed);
    if (taken + others <= max_size - size)
        return true;
    atomic_fetch_sub_explicit(&pool->claimed, size, memory_order_release);
    *crowded = taken <= max_size - size;
    return false;
}

/* CUDA gave a block of so many bytes. */
static void count_block(const struct weir__request *request, size_t size, bool small)
{
    weir_pool *pool = request->pool;
    uint64_t taken = atomic_fetch_add_explicit(&pool->taken, size, memory_order_relaxed) + size;
    count_rounding(pool, size, request->asked, 1);
    weir__pool_count_exactly(pool, (int64_t)request->asked);
    weir__pool_raise_high(pool, taken);
    if (small && atomic_load_explicit(&pool->small_share, memory_order_relaxed) != UINT64_MAX)
        weir__settings_rebalance(pool);
}

/* Asks CUDA for a block within the cap. */
static int ask_cuda(struct weir__request *request, size_t size, bool small, uint64_t max_size, void **ptr)
{
    weir_pool *pool = request->pool;
    const struct gpu *gpu = pool->w->gpu;
    void *block;
    int code = gpu->malloc_async(&block, size, small ? pool->small : pool->handle, request->stream);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        request->at_cap = code == GPU_OUT_OF_MEMORY && was_native_cap(pool, size, small);
        /* What the device had left may have stayed with the pool. */
        if (code == GPU_OUT_OF_MEMORY)
            is_within_cap(pool, max_size);
        return code;
    }
    /* A block that cannot be given back is better served above the cap than lost. */
    if (!is_within_cap(pool, max_size) && return_block(pool, block, pool->device->index, request->stream) == GPU_SUCCESS) {
        undo_growth(request, max_size);
        request->at_cap = true;
        return GPU_OUT_OF_MEMORY;
    }
    count_block(request, size, small);
    *ptr = block;
    return GPU_SUCCESS;
}

/* Asks for so many bytes of the pool, or of its twin. */
static bool try_size(struct weir__request *request, size_t size, bool small, void **ptr)
{
    weir_pool *pool = request->pool;
    uint64_t max_size = atomic_load_explicit(&pool->max_size, memory_order_relaxed);
    request->code = GPU_OUT_OF_MEMORY;
    request->at_cap = max_size && !claim(pool, size, max_size, &request->is_crowded);
    if (request->at_cap)
        return false;
    request->was_asked = true;
    request->code = ask_cuda(request, size, small, max_size, ptr);
    if (max_size)
        atomic_fetch_sub_explicit(&pool->claimed, size, memory_order_release);
    request->got = size;
    return request->code == GPU_SUCCESS;
}

/* CUDA may take long to refuse a request, so after the deadline it is asked for no second size, and no second pool. */
static bool may_go_on(const struct weir__request *request)
{
    return request->code == GPU_OUT_OF_MEMORY &&
           !(request->deadline && request->was_asked && request->pool->w->gpu->now() > request->deadline);
}

/* The size of the class first, which a cache can keep; then what was asked for, which may fit where that does not. */
static bool try_sizes(struct weir__request *request, bool small, void **ptr)
{
    if (request->rounded > request->asked) {
        if (!weir__request_is_vain(request, request->rounded) && try_size(request, request->rounded, small, ptr))
            return true;
        if (!may_go_on(request))
            return false;
    }
    request->untried = !request->insist && weir__request_is_vain(request, request->asked);
    if (!request->untried)
        return try_size(request, request->asked, small, ptr);
    request->at_cap = false;
    return false;
}

bool weir__attempt(struct weir__request *request, void **ptr)
{
    weir_pool *pool = request->pool;
    request->code = GPU_OUT_OF_MEMORY;
    request->at_cap = request->is_crowded = request->was_asked = request->untried = false;
    weir__pool_handle_begin(pool);
    bool is_served = request->small && try_sizes(request, true, ptr);
    /* Where the twin cannot grow, the pool may have idle memory for something so small. */
    if (!is_served && may_go_on(request))
        is_served = try_sizes(request, false, ptr);
    weir__pool_handle_end(pool);
    return is_served;
}

/* The first attempt, beside others. */
static bool attempt_beside(struct weir__request *request, void **ptr)
{
    struct weir__asking *asking = &request->pool->device->asking;
    const struct gpu *gpu = request->pool->w->gpu;
    uint64_t since = atomic_load(&asking->is_closed) ? gpu->now() : 0;
    struct weir__asker asker = weir__asking_begin(asking);
    if (since)
        request->waited = gpu->now() - since;
    bool is_served = weir__attempt(request, ptr);
    if (!is_served && (request->was_asked || request->untried) && weir__asking_is_beside(asking, asker))
        request->is_crowded = true;
    weir__asking_end(asking);
    return is_served;
}

/* On a stream that captures: CUDA decides, nothing is recovered, and the pool's figures stay out of it. */
static weir_status ask_for_graph(struct weir__request *request, void **ptr)
{
    weir_pool *pool = request->pool;
    const struct gpu *gpu = pool->w->gpu;
    weir__pool_handle_begin(pool);
    int code = gpu->malloc_async(ptr, request->asked, request->small ? pool->small : pool->handle, request->stream);
    weir__pool_handle_end(pool);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    return weir__fail_gpu(weir__last_error_reset(), gpu, code, "%s from pool '%s' on a capturing stream of device %d", WEIR__BYTES(request->asked),
                          pool->name, pool->device->index);
}

static weir_status ask(struct weir__request *request, void **ptr)
{
    const weir_pool *pool = request->pool;
    if (attempt_beside(request, ptr))
        return WEIR_OK;
    if (request->code == GPU_OUT_OF_MEMORY)
        return weir__recover(request, ptr);
    return weir__fail_gpu(weir__last_error_reset(), pool->w->gpu, request->code, "%s from pool '%s' on device %d", WEIR__BYTES(request->asked),
                          pool->name, pool->device->index);
}

/* Serving ------------------------------------------------------------------------------------------------------------------------------ */

/* The address was in the table: its block was freed with cudaFreeAsync() behind our back, or belonged to a graph that is gone. */
static void forget_former(const struct weir__block *former)
{
    /* First, as a shared pool of which nothing is taken may be made anew at any moment. */
    if (former->pool->is_exportable && !former->graph)
        weir__retired_note_unknown(former->pool->retired);
    count_free(former->pool, former);
    if (!former->graph)
        weir__log_about(former->pool->w, former->pool, WEIR_LOG_WARNING,
                        "the block %p of pool '%s' was freed without Weir: use weir_free()", former->ptr, former->pool->name);
    weir__pool_release(former->pool);
}

/* A block that is in a cache was given to CUDA a second time, which cannot see that it should be refused. */
static void forget_cached(weir *w, struct weir__entry *entry, const void *ptr)
{
    struct weir__block block;
    if (!weir__cache_forget(entry, ptr))
        return;
    weir__blocks_remove(&w->blocks, entry, false, &block);
    weir__pool_count_spare_gone(block.pool, bytes_of(&block));
    weir__log_about(w, block.pool, WEIR_LOG_WARNING, "the block %p of pool '%s' was freed with weir_free() and again with cudaFreeAsync()",
                    block.ptr, block.pool->name);
    weir__pool_release(block.pool);
}

static weir_status enter(const struct weir__block *block, gpu_stream stream)
{
    weir_pool *pool = block->pool;
    struct weir__block former;
    struct weir__entry *stale = weir__blocks_look(&pool->w->blocks, block->ptr);
    if (stale && atomic_load_explicit(&stale->guard, memory_order_relaxed) &&
        atomic_load_explicit(&stale->ptr, memory_order_relaxed) == block->ptr)
        forget_cached(pool->w, stale, block->ptr);
    if (!weir__blocks_add(&pool->w->blocks, block, &former)) {
        return_block(pool, block->ptr, pool->device->index, stream);
        count_free(pool, block);
        return weir__fail(weir__last_error_reset(), WEIR_NO_HOST_MEMORY, "no host memory to keep track of a block of %s",
                          WEIR__BYTES(block->size));
    }
    weir__pool_hold(pool);
    if (former.ptr)
        forget_former(&former);
    return WEIR_OK;
}

/* What CUDA is asked for: the bytes of a size class, if a cache may keep the block later. */
static void choose_size(struct weir__request *request, struct weir__block *block, weir_stream *opened)
{
    const weir_pool *pool = request->pool;
    unsigned class = weir__class_of(request->asked);
    request->rounded = request->asked;
    if (opened && !block->graph && weir__pool_caches(pool, class)) {
        block->class = (uint8_t)class;
        block->guard = &opened->cache.lock;
        request->rounded = weir__class_bytes[class];
    }
    request->small = request->asked < pool->small_below;
}

/* A block of its exact size, for which there was room only so, enters no cache. */
static void forget_class(struct weir__block *block)
{
    block->class = WEIR__CLASS_NONE;
    block->guard = NULL;
}

/* Clears a block that is to be shared. If that fails the block goes back. */
static weir_status scrub(const struct weir__block *block, gpu_stream stream)
{
    weir_pool *pool = block->pool;
    const struct gpu *gpu = pool->w->gpu;
    int code = gpu->set_async(block->ptr, 0, block->size, stream);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    int freed = return_block(pool, block->ptr, pool->device->index, stream);
    if (freed != GPU_SUCCESS)
        gpu->forget_error(freed);
    count_free(pool, block);
    weir__pool_left(pool);
    return weir__fail_gpu(weir__last_error_reset(), gpu, code, "clearing %s of pool '%s' on device %d for share.scrub",
                          WEIR__BYTES(block->size), pool->name, pool->device->index);
}

/* With the block's device current where that matters. */
static weir_status serve(struct weir__request *request, struct weir__block *block, weir_stream *opened)
{
    weir *w = block->pool->w;
    const struct gpu *gpu = w->gpu;
    enum gpu_capture_status capture;
    int code = gpu->stream_capture_status(request->stream, &capture);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return weir__fail_gpu(weir__last_error_reset(), gpu, code, "%s from pool '%s': the stream's capture status", WEIR__BYTES(request->asked),
                              block->pool->name);
    }
    block->graph = capture != GPU_CAPTURE_STATUS_NONE;
    if (block->graph && w->refuses_graphs)
        return weir__fail(weir__last_error_reset(), WEIR_CAPTURING, "%s from pool '%s': the stream is being captured",
                          WEIR__BYTES(request->asked), block->pool->name);
    choose_size(request, block, opened);
    enum gpu_capture_mode mode = weir__plain_begin(w);
    weir_status status = block->graph ? ask_for_graph(request, &block->ptr) : ask(request, &block->ptr);
    if (status == WEIR_OK && !block->graph && request->got < request->rounded)
        forget_class(block);
    if (status == WEIR_OK && !block->graph && atomic_load_explicit(&block->pool->scrub, memory_order_relaxed))
        status = scrub(block, request->stream);
    if (status == WEIR_OK)
        status = enter(block, request->stream);
    weir__plain_end(w, mode);
    return status;
}

/* Whoever got such a block could not share it. */
static weir_status refuse_size(const weir_pool *pool, size_t size)
{
    char asked[WEIR__BYTES_LEN], most[WEIR__BYTES_LEN];
    return weir__fail(weir__last_error_reset(), WEIR_INVALID,
                      "%s is above pools.%s.ipc_max_block (%s), the largest block that can be shared: CUDA crashes a process that imports more "
                      "than 5.125 GiB in one block; use several blocks, or another pool for what stays in this process",
                      weir__bytes(asked, size), pool->name, weir__bytes(most, pool->max_block));
}

weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, gpu_stream stream, weir_stream *opened)
{
    if (size == 0) {
        *ptr = NULL;
        return WEIR_OK;
    }
    if (size > pool->max_block)
        return refuse_size(pool, size);
    /* CUDA gives multiples of this, and sets only what was asked for (measured): nothing is to stay behind the end. */
    if (atomic_load_explicit(&pool->scrub, memory_order_relaxed) && size <= SIZE_MAX - BLOCK_STEP)
        size = (size + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
    struct weir__request request = { .pool = pool, .asked = size, .stream = stream };
    struct weir__block block = { .size = size, .pool = pool };
    int former = weir__current_begin(pool->w->gpu, pool->device->index, stream);
    weir_status status = serve(&request, &block, opened);
    weir__current_end(pool->w->gpu, former);
    if (status == WEIR_OK)
        *ptr = block.ptr;
    return status;
}

/* Serves a raw stream handle from the cache of the opened stream that it is, if that stream's pool is `pool` (NULL: whichever it is).
   *opened gets that stream, NULL if it is none. */
static bool serve_raw(struct weir__device *device, const weir_pool *pool, size_t size, gpu_stream stream, void **ptr, weir_stream **opened)
{
    unsigned class = weir__class_of(size);
    uint64_t id;
    *opened = NULL;
    if (class > atomic_load_explicit(&device->cache_classes, memory_order_relaxed))
        return false;
    weir_stream *found = weir__stream_find(device, stream, &id);
    if (!found)
        return false;
    enum weir__cache_answer answer = weir__cache_serve(found, &id, pool, class, size, ptr);
    if (answer == WEIR__CACHE_MISS)
        *opened = found;
    return answer == WEIR__CACHE_DONE;
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
    if (serve_raw(&w->devices[device], NULL, size, stream, ptr, &opened))
        return WEIR_OK;
    weir_pool *pool = weir__stream_route(&w->devices[device], stream);
    if (!pool)
        return weir__fail(weir__last_error_reset(), WEIR_NOT_FOUND,
                          "defaults.pool has no pool on device %d: add the device to its `devices`", device);
    weir_status status = weir__serve(pool, ptr, size, stream, opened);
    weir__pool_release(pool);
    return status;
}

weir_status(weir_pool_malloc)(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!pool || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_pool_malloc: pool and ptr must not be NULL");
    weir_stream *opened;
    if (serve_raw(pool->device, pool, size, stream, ptr, &opened))
        return WEIR_OK;
    return weir__serve(pool, ptr, size, stream, opened);
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

/* Leaves word of a free that recovery may have to wait for. */
static void note_pending(const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    const struct gpu *gpu = block->pool->w->gpu;
    struct weir__device *device = block->pool->device;
    if (block->size < WEIR__PENDING_SMALLEST)
        return;
    if (opened && opened->device == device) {
        atomic_fetch_add_explicit(&opened->freed, block->size, memory_order_relaxed);
        return;
    }
    if (!weir__pending_is_due(&device->pending, stream, block->size))
        return;
    weir_stream *found = opened ? NULL : weir__stream_pin(device, stream);
    if (found) {
        atomic_fetch_add_explicit(&found->freed, weir__pending_take(&device->pending, stream), memory_order_relaxed);
        weir__stream_unpin(found);
    } else {
        weir__pending_note(&device->pending, gpu, opened ? opened->device->index : device->index, stream);
    }
}

/* Makes a block live again whose free failed. */
static void put_back(weir *w, const struct weir__block *block)
{
    if (!weir__blocks_put_back(&w->blocks, block, true))
        weir__log(w, WEIR_LOG_ERROR, "no host memory: the block %p, whose free failed, is lost to Weir", block->ptr);
}

static weir_status refuse_free(weir *w, const struct weir__block *block, gpu_stream stream, int code)
{
    const struct gpu *gpu = w->gpu;
    enum gpu_capture_status capture;
    weir_error *error = weir__last_error_reset();
    gpu->forget_error(code);
    if (gpu->stream_capture_status(stream, &capture) == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE)
        return weir__fail(error, WEIR_CAPTURING,
                          "the block %p is older than the capture of this stream, so the graph cannot free it: free it after the capture, or "
                          "on another stream",
                          block->ptr);
    return weir__fail_gpu(error, gpu, code, "free of the block %p of pool '%s', which stays live", block->ptr, block->pool->name);
}

/* Hands a block that was taken from its user to CUDA. */
static weir_status free_block(weir *w, const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    const struct gpu *gpu = w->gpu;
    weir_pool *pool = block->pool;
    weir_status status = WEIR_OK;
    /* Where a fixed handle means which device's stream. */
    int device = opened ? opened->device->index : pool->device->index;
    int former = weir__current_begin(gpu, device, stream);
    enum gpu_capture_mode mode = weir__plain_begin(w);
    int code = block->graph ? gpu->free_async(block->ptr, stream) : return_block(pool, block->ptr, device, stream);
    if (code == GPU_SUCCESS) {
        count_free(pool, block);
        if (!block->graph) {
            note_pending(block, stream, opened);
            weir__pool_left(pool);
        }
    } else {
        status = refuse_free(w, block, stream, code);
        put_back(w, block);
    }
    weir__plain_end(w, mode);
    weir__current_end(gpu, former);
    if (status == WEIR_OK)
        weir__pool_release(pool);
    return status;
}

static weir_status give_back(weir *w, const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    if (!opened)
        return free_block(w, block, stream, NULL);
    if (!weir__stream_enter(opened)) {
        put_back(w, block);
        return weir__stream_closed(weir__last_error_reset(), "weir_stream_free");
    }
    weir_status status = free_block(w, block, stream, opened);
    weir__stream_leave(opened);
    return status;
}

/* The stream that a block is freed on, as the raw handle says it: whether its cache took the claimed entry. */
static bool keep_raw(struct weir__entry *entry, gpu_stream stream)
{
    uint64_t id;
    weir_stream *opened = weir__stream_find(entry->pool->device, stream, &id);
    return opened && weir__cache_keep(opened, &id, entry) == WEIR__CACHE_DONE;
}

weir_status weir__give_back(weir *w, void *ptr, gpu_stream stream, weir_stream *opened)
{
    struct weir__block block;
    struct weir__entry *claimed;
    enum weir__take taken = weir__blocks_take(&w->blocks, ptr, &block, &claimed);
    if (taken == WEIR__TAKE_NONE)
        return weir__fail(weir__last_error_reset(), WEIR_NOT_A_BLOCK,
                          "%p is not a live block: it is freed already, points into a block, or comes from elsewhere", ptr);
    if (taken == WEIR__TAKE_LENT)
        return weir__fail(weir__last_error_reset(), WEIR_BUSY,
                          "the block %p is published, and its export frees it once nobody uses it: withdraw it with "
                          "weir_export_withdraw(), or close its ring", ptr);
    if (claimed) {
        if (opened ? weir__cache_keep(opened, NULL, claimed) == WEIR__CACHE_DONE : keep_raw(claimed, stream))
            return WEIR_OK;
        weir__blocks_remove(&w->blocks, claimed, true, &block);
    }
    return give_back(w, &block, stream, opened);
}

weir_status(weir_free)(weir *w, void *ptr, weir_cuda_stream stream)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!ptr)
        return WEIR_OK;
    if (!w)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_free: w must not be NULL");
    return weir__give_back(w, ptr, stream, NULL);
}

weir_status weir__block_orphan(weir *w, void *ptr, weir_error *error)
{
    struct weir__block block;
    struct weir__entry *claimed;
    enum weir__take taken = weir__blocks_take(&w->blocks, ptr, &block, &claimed);
    if (taken == WEIR__TAKE_NONE)
        return weir__fail(error, WEIR_NOT_A_BLOCK, "%p is not a live block", ptr);
    if (taken == WEIR__TAKE_LENT)
        return weir__fail(error, WEIR_BUSY, "the block %p is published", ptr);
    if (claimed)
        weir__blocks_remove(&w->blocks, claimed, true, &block);
    if (block.graph) {
        put_back(w, &block);
        return weir__fail(error, WEIR_INVALID, "the block %p belongs to a graph", ptr);
    }
    /* What is live no more is spare before it can be freed. */
    weir__pool_count_live(block.pool, -(int64_t)block.size);
    if (weir__orphans_add(block.pool->device, &block, WEIR__REACH_PROCESS))
        return WEIR_OK;
    weir__pool_count_live(block.pool, (int64_t)block.size);
    put_back(w, &block);
    return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep the block %p", ptr);
}
