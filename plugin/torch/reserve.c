/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/reserve.h"

#include <stdlib.h>

#include "lib/base/format.h"
#include "lib/base/list.h"
#include "plugin/torch/begin.h"
#include "plugin/torch/history.h"
#include "plugin/torch/late.h"
#include "plugin/torch/source.h"

/* Reserves. All of this is called with the device's reserve_lock ----------------------------------------------------------------------- */

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
    reserve->next = device->reserves;
    device->reserves = reserve;
    return reserve;
}

static struct torch_reserve *find_owner(const struct torch_device *device, const void *ptr)
{
    struct torch_reserve *reserve = device->reserves;
    while (reserve && !torch_arena_has(&reserve->arena, ptr))
        reserve = reserve->next;
    return reserve;
}

/* A block live to Weir that the figures of torch do not have. */
static void count_chunk(struct torch_graph_figures *figures, int64_t bytes)
{
    figures->chunk_bytes += (uint64_t)bytes;
    figures->chunk_count += bytes > 0 ? 1 : UINT64_MAX;
    figures->chunk_mallocs += bytes > 0;
    if (figures->chunk_bytes < figures->chunk_bytes_low)
        figures->chunk_bytes_low = figures->chunk_bytes;
}

static bool orphan_chunk(void *base, uint64_t size, void *data)
{
    struct torch_device *device = data;
    if (weir__block_orphan(device->w, base, NULL) == WEIR_NO_HOST_MEMORY)
        return false;
    count_chunk(&device->graphs, -(int64_t)size);
    return true;
}

struct shrinking {
    struct torch_device *device;
    struct torch_reserve *reserve;
};

/* A chunk of another allocator goes back once the lock is not held. */
static bool give_chunk(void *base, uint64_t size, void *data)
{
    const struct shrinking *shrinking = data;
    struct torch_device *device = shrinking->device;
    struct torch_foreign **link = &shrinking->reserve->foreign;
    while (*link && (*link)->base != base)
        link = &(*link)->next;
    struct torch_foreign *foreign = *link;
    if (!foreign)
        return orphan_chunk(base, size, device);
    *link = foreign->next;
    foreign->next = device->gone;
    device->gone = foreign;
    device->graphs.foreign_bytes -= size;
    torch_history_foreign_gone(base);
    return true;
}

static void give_chunks(struct torch_device *device, struct torch_reserve *reserve)
{
    torch_arena_shrink(&reserve->arena, give_chunk, &(struct shrinking){ .device = device, .reserve = reserve });
}

void torch_reserve_shrink(struct torch_device *device, struct torch_reserve *reserve)
{
    if (reserve->uses || reserve->holders)
        return;
    give_chunks(device, reserve);
    if (reserve->arena.chunks)
        return;
    WEIR__UNLINK(device->reserves, reserve, next);
    if (reserve->foreign) { /* its own use of the allocator alone is left */
        reserve->foreign->next = device->gone;
        device->gone = reserve->foreign;
    }
    free(reserve);
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

/* Whose memory it is: the stream's own alone. Another one that has its handle later is not behind its work. */
struct owner {
    gpu_stream handle;
    uint64_t id; /* CUDA's, of one that may be destroyed; else 0 */
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

/* The capture's mode is not for calls that only Weir makes; and what the graph shall use has to be there before the graph runs. */
static void *fill(struct torch_device *device, size_t size, weir_error *error)
{
    const struct gpu *gpu = device->gpu;
    void *base = NULL;
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    gpu_stream stream = torch_device_stream(device, &device->fill, &code);
    if (stream && (weir_pool_malloc)(device->pool, &base, size, stream) != WEIR_OK) {
        weir_last_error(error);
    } else if (stream && (code = gpu->stream_synchronize(stream)) != GPU_SUCCESS) {
        (weir_free)(device->w, base, stream);
        base = NULL;
    }
    if (code != GPU_SUCCESS)
        weir__fail_gpu(error, gpu, code, "%s for a graph on device %d", WEIR__BYTES(size), device->index);
    weir__relaxed_end(gpu, mode);
    return base;
}

/* A chunk in which `size` bytes fit: of the usual size, else the smallest that will do. *taken: its size. */
static void *take_chunk(struct torch_device *device, size_t size, weir_error *error, size_t *taken)
{
    size_t usual = torch_arena_chunk_size(size);
    size_t least = usual ? (size + 2 * TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP : 0;
    weir_error first = WEIR_ERROR_INIT;
    if (!usual) {
        weir__fail(error, WEIR_OUT_OF_MEMORY, "%s for a graph on device %d: no device has so much", WEIR__BYTES(size), device->index);
        return NULL;
    }
    *taken = usual;
    void *base = fill(device, usual, least < usual ? &first : error);
    if (!base && least < usual) {
        *taken = least;
        base = fill(device, least, error);
    }
    return base;
}

/* The same of another allocator. */
static struct torch_foreign *take_foreign(struct torch_device *device, struct torch_source *source, size_t size, gpu_stream handle,
                                          weir_error *error)
{
    size_t usual = torch_arena_chunk_size(size);
    if (usual)
        return torch_source_malloc(device, source, usual, handle, error);
    weir__fail(error, WEIR_OUT_OF_MEMORY, "%s on device %d: no device has so much", WEIR__BYTES(size), device->index);
    return NULL;
}

/* The arena has a part of the right size, for some other part of the graph may have taken what was there. Called without the lock. */
static void *grow(struct torch_device *device, struct torch_reserve *reserve, struct owner owner, size_t size, weir_error *error)
{
    size_t chunk_size = 0;
    struct torch_foreign *foreign = reserve->source ? take_foreign(device, reserve->source, size, owner.handle, error) : NULL;
    void *ptr = NULL, *base = foreign ? foreign->base : reserve->source ? NULL : take_chunk(device, size, error, &chunk_size);
    if (foreign)
        chunk_size = foreign->size;
    pthread_mutex_lock(&device->reserve_lock);
    bool is_added = base && torch_arena_add(&reserve->arena, owner.handle, owner.id, base, chunk_size);
    if (foreign) {
        struct torch_foreign **list = is_added ? &reserve->foreign : &device->gone;
        foreign->next = *list;
        *list = foreign;
    }
    if (is_added) {
        if (foreign) {
            device->graphs.foreign_bytes += chunk_size;
            torch_history_foreign(device->index, base, chunk_size);
        } else {
            count_chunk(&device->graphs, (int64_t)chunk_size);
        }
        torch_history_chunk(base, reserve->id);
        ptr = take_part(device, reserve, owner, size);
    }
    reserve->holders--;
    reserve->growing--;
    torch_reserve_shrink(device, reserve);
    torch_reserve_unlock(device);
    if (base && !is_added) {
        if (!foreign)
            (weir_free)(device->w, base, atomic_load(&device->fill));
        weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep track of %s for a graph", WEIR__BYTES(size));
    }
    return ptr;
}

/* Graphs of a reserve do not run at the same time, on whatever streams, so that a stream that captures has no id. */
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
    struct torch_reserve *reserve = find_owner(device, ptr);
    if (reserve)
        torch_arena_wait(&reserve->arena, ptr);
    pthread_mutex_unlock(&device->reserve_lock);
}

bool torch_reserve_owns(struct torch_device *device, const void *ptr)
{
    if (!atomic_load_explicit(&device->graph_live, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&device->reserve_lock);
    bool owns = find_owner(device, ptr);
    pthread_mutex_unlock(&device->reserve_lock);
    return owns;
}

bool torch_reserve_free(struct torch_device *device, const void *ptr)
{
    if (!atomic_load_explicit(&device->graph_live, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = device->reserves;
    size_t size = 0;
    while (reserve && !(size = torch_arena_give(&reserve->arena, ptr)))
        reserve = reserve->next;
    bool is_ours = reserve;
    if (is_ours) {
        atomic_fetch_sub(&device->graph_live, 1);
        device->graphs.live_bytes -= size;
        torch_reserve_shrink(device, reserve);
    }
    torch_reserve_unlock(device);
    return is_ours;
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

struct chunk_visit {
    const struct torch_device *device;
    const struct torch_reserve *reserve;
    torch_chunk_fn *use;
};

static void visit_chunk(const void *base, uint64_t size, void *data)
{
    const struct chunk_visit *visit = data;
    visit->use(&(struct torch_chunk){ .device = visit->device->index, .base = base, .size = size, .id = visit->reserve->id,
                                      .stream = (gpu_stream)torch_arena_key(&visit->reserve->arena, base),
                                      .is_foreign = visit->reserve->source });
}

void torch_reserve_each_chunk(struct torch_device *device, torch_chunk_fn *use)
{
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_reserve *reserve = device->reserves; reserve; reserve = reserve->next)
        torch_arena_each_chunk(&reserve->arena, visit_chunk, &(struct chunk_visit){ .device = device, .reserve = reserve, .use = use });
    pthread_mutex_unlock(&device->reserve_lock);
}

void torch_reserve_each(struct torch_device *device,
                        void (*each)(const struct torch_arena *arena, weir_torch_block_fn use, void *data), weir_torch_block_fn use,
                        void *data)
{
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_reserve *reserve = device->reserves; reserve; reserve = reserve->next)
        each(&reserve->arena, use, data);
    pthread_mutex_unlock(&device->reserve_lock);
}
