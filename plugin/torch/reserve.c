/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/reserve.h"

#include <stdlib.h>

#include "lib/base/format.h"
#include "lib/base/list.h"
#include "lib/base/valid.h"
#include "lib/pool/blocks.h"
#include "plugin/torch/begin.h"
#include "plugin/torch/history.h"
#include "plugin/torch/late.h"
#include "plugin/torch/source.h"

/* Reserves. The caller holds the device's reserve_lock --------------------------------------------------------------------------------- */

struct torch_reserve *torch_reserve_find(const struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_reserve *reserve = device->reserves;
    while (reserve && (reserve->id.first != id.first || reserve->id.second != id.second))
        reserve = reserve->next;
    return reserve;
}

struct torch_reserve *torch_reserve_get(struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_reserve *reserve = torch_reserve_find(device, id);
    if (reserve || !(reserve = calloc(1, sizeof *reserve)))
        return reserve;
    reserve->id = id;
    reserve->arena.live = &device->parts;
    reserve->next = device->reserves;
    device->reserves = reserve;
    return reserve;
}

/* Counts a chunk that was added (its size in bytes) or given back (minus its size). A chunk is a live block of Weir's that torch's figures
   must not include. */
static void count_chunk(struct torch_graph_figures *figures, int64_t bytes)
{
    figures->chunk_bytes += (uint64_t)bytes;
    figures->chunk_count += bytes > 0 ? 1 : UINT64_MAX;
    figures->chunk_mallocs += bytes > 0;
    if (figures->chunk_bytes < figures->chunk_bytes_low)
        figures->chunk_bytes_low = figures->chunk_bytes;
}

/* Lends a chunk to its reserve, so that the program cannot free it: the first part of a chunk has the chunk's address, and its free must
   not free the chunk. Lending cannot fail: the stream on which chunks are allocated has no cache that could keep the block, and no other
   code lends it. */
static void lend(struct torch_device *device, void *base)
{
    struct weir__block block;
    weir_status status = weir__blocks_lend(&device->w->blocks, device->pool, base, &block);
    WEIR__MUST(status == WEIR_OK);
    (void)status;
}

/* Makes an orphan of a chunk. Returns false, and keeps the chunk lent, if host memory runs out. */
static bool orphan_chunk(struct torch_device *device, const struct torch_arena_chunk *chunk)
{
    weir__blocks_return(&device->w->blocks, device->pool, chunk->base);
    if (weir__block_orphan(device->w, chunk->base, NULL, 0, NULL) == WEIR_NO_HOST_MEMORY) {
        lend(device, chunk->base);
        return false;
    }
    count_chunk(&device->graphs, -(int64_t)chunk->size);
    return true;
}

/* Ends a use of another allocator: torch_reserve_unlock() tells the allocator, when the lock is released. */
static void drop_foreign(struct torch_device *device, struct torch_foreign *foreign)
{
    foreign->next = device->gone;
    device->gone = foreign;
}

/* Gives back a chunk without live parts, unless host memory runs out for that. */
static void give_chunk(struct torch_device *device, struct torch_arena_chunk *chunk)
{
    struct torch_foreign *foreign = chunk->data;
    if (!foreign && !orphan_chunk(device, chunk))
        return;
    if (foreign) {
        drop_foreign(device, foreign);
        device->graphs.foreign_bytes -= chunk->size;
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_SEGMENT_WENT, .ptr = chunk->base });
    }
    torch_arena_remove(chunk);
}

static void give_chunks(struct torch_device *device, const struct torch_reserve *reserve)
{
    for (struct torch_arena_chunk *chunk = reserve->arena.chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!chunk->live_count)
            give_chunk(device, chunk);
    }
}

static bool is_needed(const struct torch_reserve *reserve)
{
    return reserve->uses || reserve->holders;
}

/* Ends the reserve if it has no chunk any more. */
static void end_reserve(struct torch_device *device, struct torch_reserve *reserve)
{
    if (reserve->arena.chunks)
        return;
    WEIR__UNLINK(device->reserves, reserve, next);
    if (reserve->foreign)
        drop_foreign(device, reserve->foreign);
    free(reserve);
}

void torch_reserve_shrink(struct torch_device *device, struct torch_reserve *reserve)
{
    if (is_needed(reserve))
        return;
    give_chunks(device, reserve);
    end_reserve(device, reserve);
}

void torch_reserve_unlock(struct torch_device *device)
{
    struct torch_foreign *gone = NULL;
    if (!atomic_load(&device->begun)) {
        gone = device->gone;
        device->gone = NULL;
    }
    pthread_mutex_unlock(&device->reserve_lock);
    torch_source_drop(device, gone);
}

/* The stream to which a part belongs. Only this stream may use the part: a later stream with the same handle is not ordered behind its
   work. */
struct owner {
    gpu_stream handle;
    uint64_t id; /* CUDA's id of a stream that may be destroyed; else 0 */
};

static void *take_part(struct torch_device *device, struct torch_reserve *reserve, struct owner owner, size_t size)
{
    struct torch_graph_figures *figures = &device->graphs;
    void *ptr = torch_arena_take(&reserve->arena, owner.handle, owner.id, size, reserve->is_whole);
    if (!ptr)
        return NULL;
    figures->mallocs++;
    atomic_fetch_add(&device->graph_live, 1);
    figures->live_bytes += size;
    if (figures->live_bytes > figures->live_bytes_high)
        figures->live_bytes_high = figures->live_bytes;
    return ptr;
}

/* Chunks ------------------------------------------------------------------------------------------------------------------------------- */

/* Allocates a chunk from Weir, and waits until the memory exists, as it has to before the graph runs. These calls are Weir's own, so the
   capture mode of the caller must not forbid them. Returns NULL, with the error filled, if it fails. */
static void *fill(struct torch_device *device, size_t size, weir_error *error)
{
    const struct gpu *gpu = device->gpu;
    void *base = NULL;
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    gpu_stream stream = torch_device_fill(device, &code);
    if (stream && (weir_pool_malloc)(device->pool, &base, size, stream) != WEIR_OK) {
        weir_last_error(error);
    } else if (stream && (code = gpu->stream_synchronize(stream)) != GPU_SUCCESS) {
        (weir_free)(device->w, base, stream);
        base = NULL;
    }
    if (code != GPU_SUCCESS)
        weir__fail_gpu(error, gpu, code, "%s for a graph on device %d", WEIR__BYTES(size), device->index);
    weir__relaxed_end(gpu, mode);
    if (base)
        lend(device, base);
    return base;
}

/* Takes a chunk of that size from the reserve's source. Returns false, with the error filled, if that fails. */
static bool take_chunk(struct torch_device *device, const struct torch_reserve *reserve, struct torch_arena_chunk *chunk, size_t size,
                       weir_error *error)
{
    chunk->size = size;
    if (!reserve->source)
        return (chunk->base = fill(device, size, error));
    struct torch_foreign *foreign = torch_source_malloc(device, reserve->source, size, (gpu_stream)chunk->key, error);
    chunk->data = foreign;
    chunk->base = foreign ? foreign->base : NULL;
    return foreign;
}

/* Takes a chunk for `size` bytes: one of the usual size, else the smallest that will do. Other allocators are asked only for sizes for
   which torch would ask, since they may serve no others. */
static bool find_chunk(struct torch_device *device, const struct torch_reserve *reserve, struct torch_arena_chunk *chunk, size_t size,
                       weir_error *error)
{
    weir_error first = WEIR_ERROR_INIT;
    size_t usual = torch_arena_chunk_size(size), least = torch_arena_least_size(size);
    if (!usual) {
        weir__fail(error, WEIR_OUT_OF_MEMORY, "%s for a graph on device %d: no device has so much", WEIR__BYTES(size), device->index);
        return false;
    }
    if (!reserve->source)
        least = weir__pool_round(device->pool, (size + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP);
    return take_chunk(device, reserve, chunk, usual, least < usual ? &first : error) ||
           (least < usual && take_chunk(device, reserve, chunk, least, error));
}

/* Adds a chunk for `size` bytes to the reserve, and takes a part of it under the same hold of the lock, before another thread can. Called
   without the lock. reserve->holders and ->growing count this thread; when the function returns they do not any more. */
static void *grow(struct torch_device *device, struct torch_reserve *reserve, struct owner owner, size_t size, weir_error *error)
{
    struct torch_arena_chunk chunk = { .key = owner.handle, .id = owner.id };
    void *ptr = NULL;
    bool is_there = find_chunk(device, reserve, &chunk, size, error);
    pthread_mutex_lock(&device->reserve_lock);
    reserve->arena.step = device->pool->backing->align;
    bool is_added = is_there && torch_arena_add(&reserve->arena, &chunk);
    if (is_added) {
        if (chunk.data) {
            device->graphs.foreign_bytes += chunk.size;
            torch_tell((weir_torch_news){ .what = WEIR_TORCH_SEGMENT_CAME, .device = device->index, .ptr = chunk.base, .size = chunk.size });
        } else {
            count_chunk(&device->graphs, (int64_t)chunk.size);
        }
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_SEGMENT_POOL, .ptr = chunk.base, .pool = reserve->id });
        ptr = take_part(device, reserve, owner, size);
    } else if (chunk.data) {
        drop_foreign(device, chunk.data);
    }
    reserve->holders--;
    reserve->growing--;
    torch_reserve_shrink(device, reserve);
    torch_reserve_unlock(device);
    if (is_there && !is_added) {
        if (!chunk.data) {
            weir__blocks_return(&device->w->blocks, device->pool, chunk.base);
            (weir_free)(device->w, chunk.base, atomic_load(&device->fill));
        }
        weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep track of %s for a graph", WEIR__BYTES(size));
    }
    return ptr;
}

/* The owner of a new part. Graphs of one reserve do not run at the same time, on whatever streams, so the owner needs no id on a stream
   that captures. */
static struct owner owner_of(struct torch_device *device, gpu_stream handle, bool is_capturing)
{
    const struct torch_stream *stream = torch_stream_name(device, handle);
    struct owner owner = { .handle = handle };
    if (is_capturing || !device->device->has_stream_ids || (stream && atomic_load(&stream->lives)))
        return owner;
    int former = weir__current_begin(device->gpu, device->index, handle);
    if (device->gpu->stream_id(handle, &owner.id) != GPU_SUCCESS)
        owner.id = 0;
    weir__current_end(device->gpu, former);
    return owner;
}

void *torch_reserve_malloc(struct torch_device *device, gpu_stream handle, size_t size, bool is_capturing, weir_error *error)
{
    uint64_t id = 0;
    int code = is_capturing ? torch_capture_id(device, handle, &id) : GPU_SUCCESS;
    if (code != GPU_SUCCESS) {
        weir__fail_gpu(error, device->gpu, code, "%s on device %d: the stream's capture", WEIR__BYTES(size), device->index);
        return NULL;
    }
    const struct torch_stream *stream = torch_stream_name(device, handle);
    bool is_torchs = stream && atomic_load(&stream->lives);
    struct owner owner = owner_of(device, handle, is_capturing);
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = torch_begin_find(device, id, handle, is_torchs);
    void *ptr = reserve ? take_part(device, reserve, owner, size) : NULL;
    if (reserve && !ptr) {
        reserve->holders++;
        reserve->growing++;
    }
    if (reserve && id)
        reserve->is_captured = true;
    pthread_mutex_unlock(&device->reserve_lock);
    if (reserve)
        return ptr ? ptr : grow(device, reserve, owner, size, error);
    if (id)
        weir__fail(error, WEIR_CAPTURING,
                   "%s on device %d: the stream is being captured, and torch has not begun to allocate for a graph: capture with "
                   "torch.cuda.graph() or torch.cuda.make_graphed_callables()",
                   WEIR__BYTES(size), device->index);
    return NULL;
}

void *torch_reserve_spare(struct torch_device *device, gpu_stream handle, size_t size)
{
    void *ptr = NULL;
    struct owner owner = owner_of(device, handle, false);
    pthread_mutex_lock(&device->reserve_lock);
    for (struct torch_reserve *reserve = device->reserves; reserve && !ptr; reserve = reserve->next)
        if (reserve->on_oom && !reserve->is_captured)
            ptr = take_part(device, reserve, owner, size);
    pthread_mutex_unlock(&device->reserve_lock);
    return ptr;
}

void torch_reserve_wait(struct torch_device *device, const void *ptr)
{
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_arena_part *part = torch_arena_find(&device->parts, ptr);
    if (part)
        torch_arena_wait(part);
    pthread_mutex_unlock(&device->reserve_lock);
}

bool torch_reserve_owns(struct torch_device *device, const void *ptr)
{
    if (!atomic_load_explicit(&device->graph_live, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&device->reserve_lock);
    bool owns = torch_arena_find(&device->parts, ptr);
    pthread_mutex_unlock(&device->reserve_lock);
    return owns;
}

/* Frees a part. The caller holds the reserve_lock. */
static void free_part(struct torch_device *device, struct torch_arena_part *part)
{
    struct torch_reserve *reserve = WEIR__ITEM(torch_arena_of(part), struct torch_reserve, arena);
    struct torch_arena_chunk *empty;
    device->graphs.live_bytes -= torch_arena_give(part, &empty);
    atomic_fetch_sub(&device->graph_live, 1);
    if (empty && !is_needed(reserve)) {
        give_chunk(device, empty);
        end_reserve(device, reserve);
    }
}

bool torch_reserve_free(struct torch_device *device, const void *ptr)
{
    if (!atomic_load_explicit(&device->graph_live, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_arena_part *part = torch_arena_find(&device->parts, ptr);
    if (part)
        free_part(device, part);
    torch_reserve_unlock(device);
    return part;
}

void torch_reserve_trim(struct torch_device *device, weir_torch_pool_id id)
{
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = torch_reserve_find(device, id);
    if (reserve && !reserve->is_captured && !reserve->holders)
        give_chunks(device, reserve);
    torch_reserve_unlock(device);
}

void torch_reserve_tidy(struct torch_device *device)
{
    torch_begin_end_spoilt(device);
    pthread_mutex_lock(&device->reserve_lock);
    for (struct torch_reserve *reserve = device->reserves, *next; reserve; reserve = next) {
        next = reserve->next;
        torch_reserve_shrink(device, reserve);
    }
    torch_reserve_unlock(device);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

struct torch_graph_figures torch_reserve_figures(struct torch_device *device)
{
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_graph_figures figures = device->graphs;
    figures.live_count = atomic_load(&device->graph_live);
    pthread_mutex_unlock(&device->reserve_lock);
    return figures;
}

void torch_reserve_reset_peaks(struct torch_device *device)
{
    pthread_mutex_lock(&device->reserve_lock);
    device->graphs.chunk_bytes_low = device->graphs.chunk_bytes;
    device->graphs.live_bytes_high = device->graphs.live_bytes;
    pthread_mutex_unlock(&device->reserve_lock);
}

void torch_reserve_each_chunk(struct torch_device *device, torch_chunk_fn *use, void *data)
{
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_reserve *reserve = device->reserves; reserve; reserve = reserve->next)
        for (const struct torch_arena_chunk *chunk = reserve->arena.chunks; chunk; chunk = chunk->next)
            use(&(struct torch_chunk){ .device = device->index, .base = chunk->base, .size = chunk->size, .id = reserve->id,
                                       .stream = (gpu_stream)(uintptr_t)chunk->key, .is_foreign = chunk->data },
                data);
    pthread_mutex_unlock(&device->reserve_lock);
}

void torch_reserve_each_live(struct torch_device *device, weir_torch_block_fn use, void *data)
{
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_reserve *reserve = device->reserves; reserve; reserve = reserve->next)
        torch_arena_each_live(&reserve->arena, use, data);
    pthread_mutex_unlock(&device->reserve_lock);
}
