/* SPDX-License-Identifier: MIT */
#include "lib/alloc/free.h"

#include <pthread.h>
#include <stdlib.h>

#include "lib/alloc/orphans.h"
#include "lib/backing/arena.h"
#include "lib/base/call.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"

static int mark(weir_pool *pool, uint64_t bytes, struct weir__line *line)
{
    struct weir__debt *debt = line ? weir__debt_of(&pool->backing->debts, line) : NULL;
    uint64_t step;
    return debt ? weir__line_free(debt, bytes, 0, &step) : WEIR__PAGE_NO_HOST_MEMORY;
}

/* Counts the free of a block of an exportable pool, which was just freed on `stream`, and puts a mark behind that free (cuda.h). known: the
   stream's line, or NULL. Tries twice: if both tries fail, Weir can never know that the free is complete and never destroys the pool. */
static __attribute__((noinline)) void mark_free(weir_pool *pool, uint64_t bytes, gpu_stream stream, struct weir__line *known)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    int code = GPU_UNKNOWN;
    for (int tries = 0; tries < 2 && code != GPU_SUCCESS; tries++) {
        struct weir__line *line = known ? known : weir__stream_line(pool->device, stream, 0);
        code = mark(pool, bytes, line);
        if (line && !known)
            weir__line_put(line);
    }
    if (code != GPU_SUCCESS)
        atomic_store(&pool->backing->debts.is_unknown, true);
    weir__relaxed_end(pool->w->gpu, mode);
}

/* Returns true if weir__return_block() counts each free of the pool on a line: an arena refuses a free that cannot be counted, and a free
   in an exportable pool gets a mark at once. Other frees are counted by weir__note_free(). */
static bool counts_itself(const weir_pool *pool)
{
    return pool->backing->ops->names_streams || pool->native.is_exportable;
}

static int give_to_arena(const struct weir__block *block, struct weir__user *user, const weir_stream *opened)
{
    weir_pool *pool = block->pool;
    struct weir__line *named = user->line ? NULL : weir__stream_line(pool->device, user->handle, 0);
    user->line = named ? named : user->line;
    user->debt = opened && opened->pool == pool ? opened->debt : NULL;
    if (!user->line)
        return WEIR__PAGE_NO_HOST_MEMORY;
    int code = pool->backing->ops->give(pool->backing, block->ptr, block->from, user);
    if (named)
        weir__line_put(named);
    return code;
}

int weir__return_block(const struct weir__block *block, int device, gpu_stream stream, const weir_stream *opened, struct weir__line *line)
{
    weir_pool *pool = block->pool;
    struct weir__user user;
    if (block->graph)
        return pool->w->gpu->free_async(block->from ? block->from : block->ptr, stream);
    user.handle = stream;
    user.device = device;
    user.line = opened ? opened->line : line;
    if (pool->backing->ops->names_streams)
        return give_to_arena(block, &user, opened);
    int code = pool->backing->ops->give(pool->backing, block->ptr, block->from, &user);
    if (code == GPU_SUCCESS && pool->native.is_exportable)
        mark_free(pool, weir__class_given(block->class, block->size), stream, user.line);
    return code;
}

void weir__note_free_on(struct weir__line *line, weir_pool *pool, uint64_t bytes)
{
    if (!counts_itself(pool))
        weir__line_count(line, &pool->backing->debts, bytes);
}

/* Counts the free on a line that is found by the stream's handle alone, first among the lines of the pool's device, then among those of all
   devices, since the stream may be of another device. Returns false, with nothing counted, if there is no such line. *due: as for
   weir__line_count_by_handle(). */
static bool count_by_handle(const struct weir__block *block, gpu_stream stream, struct weir__line **due)
{
    weir_pool *pool = block->pool;
    weir *w = pool->device->w;
    struct weir__debts *debts = &pool->backing->debts;
    bool is_counted = weir__line_count_by_handle(pool->device->fences, stream, debts, block->ptr, block->size, due);
    for (size_t d = 0; d < w->device_count && !is_counted && !weir__handle_is_fixed(stream); d++)
        is_counted = weir__line_count_by_handle(w->devices[d].fences, stream, debts, block->ptr, block->size, due);
    return is_counted;
}

/* Covers `line`, which was found by the stream's handle. The handle may mean another stream by now, and an event costs more than the check:
   if it does, `line` is marked as GONE, and the free is counted and covered on the line of the stream that has the handle now. */
static void cover_by_handle(weir_pool *pool, uint64_t bytes, gpu_stream stream, struct weir__line *line)
{
    struct weir__line *named = weir__stream_line(pool->device, stream, 0);
    if (!named)
        return;
    if (named != line) {
        weir__line_gone(line);
        weir__line_count(named, &pool->backing->debts, bytes);
    }
    weir__line_cover(named, true);
    weir__line_put(named);
}

void weir__note_free(const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    weir_pool *pool = block->pool;
    uint64_t bytes = block->size;
    if (counts_itself(pool))
        return;
    if (opened) {
        weir__stream_freed(opened, pool, bytes);
        return;
    }
    struct weir__line *line;
    if (count_by_handle(block, stream, &line)) {
        if (!line)
            return;
        cover_by_handle(pool, bytes, stream, line);
    } else {
        line = weir__stream_line(pool->device, stream, 0);
        if (!line)
            return;
        if (weir__line_count(line, &pool->backing->debts, bytes))
            weir__line_cover(line, true);
    }
    weir__line_put(line);
}

void weir__return_unknown(const struct weir__block *block, gpu_stream stream)
{
    for (int tries = 0, code = GPU_UNKNOWN; tries < 2 && code != GPU_SUCCESS; tries++)
        code = weir__return_block(block, block->pool->device->index, stream, NULL, NULL);
}

/* Makes a block live again after its free has failed. If host memory runs out, Weir forgets the block and logs an error. */
static void put_back(weir *w, const struct weir__block *block)
{
    if (!weir__blocks_put_back(&w->blocks, block, true))
        weir__log(w, WEIR_LOG_ERROR, "no host memory: the block %p, whose free failed, is lost to Weir", block->ptr);
}

/* Sets the thread's last error for a free that failed with `code`, and returns its status: WEIR_CAPTURING if the stream captures. */
static weir_status refuse_free(weir *w, const struct weir__block *block, gpu_stream stream, int code)
{
    const struct gpu *gpu = w->gpu;
    enum gpu_capture_status capture;
    weir_error *error = weir__last_error_reset();
    if (gpu->stream_capture_status(stream, &capture) == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE)
        return weir__fail(
            error, WEIR_CAPTURING,
            "the block %p is older than the capture of this stream, so the graph cannot free it: free it after the capture, or "
            "on another stream",
            block->ptr);
    if (code == WEIR__PAGE_NO_HOST_MEMORY)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to free the block %p of pool '%s', which stays live", block->ptr,
                          block->pool->name);
    return weir__fail_gpu(error, gpu, code, "free of the block %p of pool '%s', which stays live", block->ptr, block->pool->name);
}

/* Asks whether the opened stream captures, for a block of an arena: a capture cannot free a block that is older than the capture. CUDA itself
   refuses to free such a block of its pools. Returns the GPU code. */
static int ask_capture(const struct weir__block *block, const weir_stream *opened)
{
    const weir_pool *pool = block->pool;
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    if (!opened || block->graph || !pool->backing->ops->names_streams ||
        !atomic_load_explicit(&pool->cache.capture_check, memory_order_relaxed))
        return GPU_SUCCESS;
    int code = pool->w->gpu->stream_capture_status(opened->handle, &capture);
    return capture == GPU_CAPTURE_STATUS_NONE ? code : GPU_CAPTURE_UNSUPPORTED;
}

/* Gives a block that was taken from its user back to CUDA, or to its arena. If that fails, the block is live again. */
static weir_status free_block(weir *w, const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    const struct gpu *gpu = w->gpu;
    weir_pool *pool = block->pool;
    weir_status status = WEIR_OK;
    /* A fixed handle (legacy, per-thread) means another stream on each device: select the device. */
    int device = opened ? opened->device->index : pool->device->index;
    int former = weir__device_begin(w, device, stream);
    enum gpu_capture_mode mode = weir__plain_begin(w);
    /* Taken before the free: after it another thread can get a block at the same address, and must get a later number. */
    uint64_t order = weir__record_order(&w->recorder);
    int code = ask_capture(block, opened);
    if (code == GPU_SUCCESS)
        code = weir__return_block(block, device, stream, opened, NULL);
    if (code == GPU_SUCCESS) {
        weir__pool_count_free(block);
        weir__record_block(block->graph ? WEIR__KIND_GRAPH_FREE : WEIR__KIND_FREE, block, stream, order);
        if (!block->graph) {
            weir__count_tag(&w->recorder, block->origin, block->size, -1);
            weir__note_free(block, stream, opened);
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

/* Calls free_block(), within a counted call on the stream if it is an opened one. If that stream is closed, the block is live again. */
static weir_status give_back(weir *w, const struct weir__block *block, gpu_stream stream, weir_stream *opened)
{
    WEIR__CALL;
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

/* Offers a claimed entry to the cache of the opened stream that has this handle. Returns true if the cache took the entry; false if it did
   not, or if no opened stream has the handle. */
static bool keep_raw(struct weir__entry *entry, gpu_stream stream)
{
    struct weir__raw raw = { .handle = stream };
    weir_stream *opened = weir__cache_may_keep(entry) ? weir__stream_find(entry->pool->device, &raw) : NULL;
    return opened && weir__cache_keep(opened, &raw.id, entry) == WEIR__CACHE_DONE;
}

weir_status weir__free(weir *w, void *ptr, gpu_stream stream, weir_stream *opened)
{
    struct weir__block block;
    struct weir__entry *claimed;
    enum weir__take taken = weir__blocks_take(&w->blocks, ptr, &block, &claimed, WEIR__TAKER_FREE);
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

/* Blocks that outlive their weir ------------------------------------------------------------------------------------------------------- */

/* A block of CUDA's, of a pool with `align`, that has outlived its weir: CUDA may know the block by a lower pointer, `from`. */
struct outlived {
    struct outlived *next;
    const struct gpu *gpu;
    int device;
    void *ptr, *from;
};

static pthread_mutex_t outlived_lock = PTHREAD_MUTEX_INITIALIZER;
static struct outlived *outlived; /* the newest first: the program may have freed an older one at the same address with cudaFreeAsync() */

static void list_outlived(struct outlived *made)
{
    pthread_mutex_lock(&outlived_lock);
    made->next = outlived;
    outlived = made;
    pthread_mutex_unlock(&outlived_lock);
}

static struct outlived *take_outlived(const void *ptr)
{
    pthread_mutex_lock(&outlived_lock);
    struct outlived **link = &outlived, *found;
    while ((found = *link) && found->ptr != ptr)
        link = &found->next;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&outlived_lock);
    return found;
}

/* If host memory runs out, the program can no longer free the block. */
static void outlive(const struct weir__block *block, void *data)
{
    const weir_pool *pool = data;
    bool is_cudas = block->pool == pool && (block->graph || !pool->backing->ops->names_streams);
    struct outlived *made = is_cudas ? malloc(sizeof *made) : NULL;
    if (!made)
        return;
    *made = (struct outlived){.gpu = pool->w->gpu, .device = pool->device->index, .ptr = block->ptr, .from = block->from};
    list_outlived(made);
}

void weir__blocks_outlive(weir_pool *pool)
{
    if (weir__pool_rounds(pool))
        weir__blocks_visit(&pool->w->blocks, outlive, pool);
}

/* Frees such a block. Returns false if there is none at that address. */
static bool free_outlived(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code)
{
    struct outlived *found = take_outlived(ptr);
    if (!found)
        return false;
    *gpu = found->gpu;
    int former = weir__current_begin(*gpu, found->device, stream);
    *code = (*gpu)->free_async(found->from ? found->from : ptr, stream);
    weir__current_end(*gpu, former);
    if (*code == GPU_SUCCESS)
        free(found);
    else
        list_outlived(found);
    return true;
}

/* Frees a block whose weir is closed. An arena stays for as long as blocks of it are live. */
static weir_status free_closed(void *ptr, gpu_stream stream)
{
    const struct gpu *gpu;
    int code;
    WEIR__CALL;
    if (!weir__arena_free_closed(ptr, stream, &gpu, &code) && !free_outlived(ptr, stream, &gpu, &code))
        return weir__fail(weir__last_error_reset(), WEIR_INVALID,
                          "weir_free: w is NULL, and %p is no block of an arena or with align whose weir is closed: pass the weir that it "
                          "is from", ptr);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    if (code == WEIR__PAGE_NO_HOST_MEMORY)
        return weir__fail(weir__last_error_reset(), WEIR_NO_HOST_MEMORY,
                          "no host memory to free the block %p of a closed arena, which stays live", ptr);
    return weir__fail_gpu(weir__last_error_reset(), gpu, code, "free of the block %p of a closed weir, which stays live", ptr);
}

weir_status(weir_free)(weir *w, void *ptr, weir_cuda_stream stream)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!ptr)
        return WEIR_OK;
    return w ? weir__free(w, ptr, stream, NULL) : free_closed(ptr, stream);
}

weir_status weir__block_orphan(weir *w, void *ptr, struct weir__line *const *lines, size_t count, weir_error *error)
{
    struct weir__block block;
    struct weir__entry *entry;
    enum weir__take taken = weir__blocks_take(&w->blocks, ptr, &block, &entry, WEIR__TAKER_ORPHAN);
    if (taken == WEIR__TAKE_NONE)
        return weir__fail(error, WEIR_NOT_A_BLOCK, "%p is not a live block", ptr);
    if (taken == WEIR__TAKE_LENT)
        return weir__fail(error, WEIR_BUSY, "the block %p is published", ptr);
    bool is_graph = block.graph;
    /* The block's bytes must count as spare before another thread can free the orphan and take them off the spare bytes. */
    weir__pool_count_live(block.pool, is_graph ? 0 : -(int64_t)block.size);
    uint64_t order = weir__record_order(&w->recorder);
    if (!is_graph && weir__orphans_add(block.pool->device, entry, lines, count)) {
        weir__record_block(WEIR__KIND_FREE, &block, NULL, order);
        weir__count_tag(&w->recorder, block.origin, block.size, -1);
        return WEIR_OK;
    }
    weir__pool_count_live(block.pool, is_graph ? 0 : (int64_t)block.size);
    struct weir__block removed;
    weir__blocks_remove(&w->blocks, entry, false, &removed);
    put_back(w, &block);
    if (is_graph)
        return weir__fail(error, WEIR_INVALID, "the block %p belongs to a graph", ptr);
    return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep the block %p", ptr);
}
