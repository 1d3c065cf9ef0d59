/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/reserve.h"

#include <stdlib.h>

#include "lib/base/format.h"
#include "lib/base/list.h"
#include "plugin/torch/history.h"
#include "plugin/torch/late.h"

#define LOOKED_AT 16 /* captures at a time that may turn out to be over */

struct torch_reserve {
    struct torch_reserve *next;
    weir_torch_pool_id id;
    unsigned uses;    /* begins less releases */
    unsigned holders; /* captures in progress, and threads that are taking a chunk for it */
    struct torch_arena arena;
};

/* A begin without its end. */
struct torch_capture {
    struct torch_capture *next;
    struct torch_reserve *reserve;
    pthread_t thread;
    uint64_t id;       /* CUDA's number of the capture, once something was allocated in it; 0 before */
    gpu_stream handle; /* of a stream that was part of it then */
};

/* Reserves. All of this is called with the device's reserve_lock ----------------------------------------------------------------------- */

static struct torch_reserve *find_reserve(const struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_reserve *reserve = device->reserves;
    while (reserve && (reserve->id.first != id.first || reserve->id.second != id.second))
        reserve = reserve->next;
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

/* Lets go of what a reserve has that no graph needs any more, and of the reserve itself with the last of it. */
static void shrink(struct torch_device *device, struct torch_reserve *reserve)
{
    if (reserve->uses || reserve->holders)
        return;
    torch_arena_shrink(&reserve->arena, orphan_chunk, device);
    if (reserve->arena.chunks)
        return;
    WEIR__UNLINK(device->reserves, reserve, next);
    free(reserve);
}

static void *take_part(struct torch_device *device, struct torch_reserve *reserve, gpu_stream handle, size_t size)
{
    struct torch_graph_figures *figures = &device->graphs;
    void *ptr = torch_arena_take(&reserve->arena, handle, size);
    if (!ptr)
        return NULL;
    figures->mallocs++;
    atomic_fetch_add(&device->graph_live, 1);
    figures->live_bytes += size;
    if (figures->live_bytes > figures->live_bytes_high)
        figures->live_bytes_high = figures->live_bytes;
    return ptr;
}

/* Captures ----------------------------------------------------------------------------------------------------------------------------- */

/* The begin that a capture belongs to: one that is known by its number; else one that has none yet, of this thread, or the only one. Others
   than torch may capture beside it, and for them other threads allocate too; but torch captures its own streams (is_torchs). */
static struct torch_capture *find_capture(struct torch_device *device, uint64_t id, gpu_stream handle, bool is_torchs)
{
    struct torch_capture *own = NULL, *only = NULL;
    size_t unknown = 0;
    for (struct torch_capture *capture = device->captures; capture; capture = capture->next) {
        if (capture->id == id)
            return capture;
        if (capture->id)
            continue;
        unknown++;
        only = capture;
        if (!own && pthread_equal(capture->thread, pthread_self()))
            own = capture;
    }
    struct torch_capture *found = own ? own : unknown == 1 && is_torchs ? only : NULL;
    if (found) {
        found->id = id;
        found->handle = handle;
    }
    return found;
}

/* false: no host memory. */
static bool add_capture(struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_capture *capture = calloc(1, sizeof *capture);
    struct torch_reserve *reserve = find_reserve(device, id);
    if (!reserve && capture && (reserve = calloc(1, sizeof *reserve))) {
        reserve->id = id;
        reserve->next = device->reserves;
        device->reserves = reserve;
    }
    if (!capture || !reserve) {
        free(capture);
        return false;
    }
    reserve->uses++;
    reserve->holders++;
    *capture = (struct torch_capture){ .next = device->captures, .reserve = reserve, .thread = pthread_self() };
    device->captures = capture;
    return true;
}

static void unlist_capture(struct torch_device *device, struct torch_capture **link)
{
    struct torch_capture *capture = *link;
    struct torch_reserve *reserve = capture->reserve;
    *link = capture->next;
    free(capture);
    reserve->holders--;
    shrink(device, reserve);
}

/* The latest begin of that id, of this thread if it has one, ends. false: there is none. */
static bool remove_capture(struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_capture **found = NULL;
    struct torch_reserve *reserve = find_reserve(device, id);
    for (struct torch_capture **link = &device->captures; *link; link = &(*link)->next) {
        bool is_own = pthread_equal((*link)->thread, pthread_self());
        if ((*link)->reserve == reserve && (!found || (is_own && !pthread_equal((*found)->thread, pthread_self()))))
            found = link;
    }
    if (found)
        unlist_capture(device, found);
    return found;
}

/* The begin of the capture with that number ends, if it has not ended yet. */
static bool remove_number(struct torch_device *device, uint64_t id)
{
    struct torch_capture **link = &device->captures;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    bool is_found = *link;
    if (is_found)
        unlist_capture(device, link);
    return is_found;
}

/* What torch calls --------------------------------------------------------------------------------------------------------------------- */

static int capture_id(const struct torch_device *device, gpu_stream handle, uint64_t *id)
{
    int former = weir__current_begin(device->gpu, device->index, handle);
    int code = device->gpu->stream_capture_id(handle, id);
    weir__current_end(device->gpu, former);
    return code;
}

static void count_end(struct torch_device *device)
{
    weir__captures_end();
    atomic_fetch_sub(&device->begun, 1);
    atomic_fetch_sub(&torch_busy, 1);
}

/* torch tells no end of a capture that was spoilt. Such a one is over if its stream is part of it no more, which can be asked of streams
   that live for ever. Its reserve stays, as torch may release it or not. */
static void end_spoilt(struct torch_device *device)
{
    struct {
        gpu_stream handle;
        uint64_t id;
    } known[LOOKED_AT];
    size_t count = 0;
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_capture *capture = device->captures; capture && count < LOOKED_AT; capture = capture->next)
        if (capture->id) {
            known[count].handle = capture->handle;
            known[count++].id = capture->id;
        }
    pthread_mutex_unlock(&device->reserve_lock);
    for (size_t i = 0; i < count; i++) {
        const struct torch_stream *stream = torch_stream_get(device->index, known[i].handle);
        uint64_t id = known[i].id;
        if (!stream || !atomic_load(&stream->lives) || capture_id(device, known[i].handle, &id) != GPU_SUCCESS || id == known[i].id)
            continue;
        pthread_mutex_lock(&device->reserve_lock);
        bool is_removed = remove_number(device, known[i].id);
        pthread_mutex_unlock(&device->reserve_lock);
        if (is_removed)
            count_end(device);
    }
}

void weir_torch_begin_allocate_to_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_device_open(index, NULL);
    if (!device)
        return;
    end_spoilt(device);
    pthread_mutex_lock(&device->reserve_lock);
    bool is_added = add_capture(device, id);
    pthread_mutex_unlock(&device->reserve_lock);
    if (!is_added)
        return;
    weir__captures_begin();
    atomic_fetch_add(&device->begun, 1);
    atomic_fetch_add(&torch_busy, 1);
}

void weir_torch_end_allocate_to_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    bool is_removed = remove_capture(device, id);
    pthread_mutex_unlock(&device->reserve_lock);
    if (!is_removed)
        return;
    count_end(device);
    torch_late_retry(device);
}

void weir_torch_release_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = find_reserve(device, id);
    if (reserve && reserve->uses) {
        reserve->uses--;
        shrink(device, reserve);
    }
    pthread_mutex_unlock(&device->reserve_lock);
}

int weir_torch_pool_uses(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return 0;
    pthread_mutex_lock(&device->reserve_lock);
    const struct torch_reserve *reserve = find_reserve(device, id);
    int uses = reserve ? (int)reserve->uses : 0;
    pthread_mutex_unlock(&device->reserve_lock);
    return uses;
}

int weir_torch_pool_has(int index, weir_torch_pool_id id, const void *const *ptrs, size_t count)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return count == 0;
    pthread_mutex_lock(&device->reserve_lock);
    const struct torch_reserve *reserve = find_reserve(device, id);
    bool has_all = (reserve ? reserve->arena.live_count : 0) == count;
    for (size_t i = 0; i < count && has_all; i++)
        has_all = torch_arena_has(&reserve->arena, ptrs[i]);
    pthread_mutex_unlock(&device->reserve_lock);
    return has_all;
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

/* The arena has a part of the right size, for some other part of the graph may have taken what was there. Called without the lock. */
static void *grow(struct torch_device *device, struct torch_reserve *reserve, gpu_stream handle, size_t size, weir_error *error)
{
    size_t chunk_size = 0;
    void *ptr = NULL, *base = take_chunk(device, size, error, &chunk_size);
    pthread_mutex_lock(&device->reserve_lock);
    bool is_added = base && torch_arena_add(&reserve->arena, handle, base, chunk_size);
    if (is_added) {
        count_chunk(&device->graphs, (int64_t)chunk_size);
        torch_history_chunk(base, reserve->id);
        ptr = take_part(device, reserve, handle, size);
    }
    reserve->holders--;
    shrink(device, reserve);
    pthread_mutex_unlock(&device->reserve_lock);
    if (base && !is_added) {
        (weir_free)(device->w, base, atomic_load(&device->fill));
        weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep track of %s for a graph", WEIR__BYTES(size));
    }
    return ptr;
}

void *torch_reserve_malloc(struct torch_device *device, gpu_stream handle, size_t size, weir_error *error)
{
    uint64_t id = 0;
    int code = capture_id(device, handle, &id);
    if (code != GPU_SUCCESS) {
        weir__fail_gpu(error, device->gpu, code, "%s on device %d: the stream's capture", WEIR__BYTES(size), device->index);
        return NULL;
    }
    if (!id)
        return NULL;
    const struct torch_stream *stream = torch_stream_name(device, handle);
    bool is_torchs = stream && atomic_load(&stream->lives);
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_capture *capture = find_capture(device, id, handle, is_torchs);
    struct torch_reserve *reserve = capture ? capture->reserve : NULL;
    void *ptr = reserve ? take_part(device, reserve, handle, size) : NULL;
    if (reserve && !ptr)
        reserve->holders++;
    pthread_mutex_unlock(&device->reserve_lock);
    if (reserve)
        return ptr ? ptr : grow(device, reserve, handle, size, error);
    weir__fail(error, WEIR_CAPTURING,
               "%s on device %d: the stream is being captured, and torch has not begun to allocate for a graph: capture with "
               "torch.cuda.graph() or torch.cuda.make_graphed_callables()",
               WEIR__BYTES(size), device->index);
    return NULL;
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
    if (reserve) {
        atomic_fetch_sub(&device->graph_live, 1);
        device->graphs.live_bytes -= size;
        shrink(device, reserve);
    }
    pthread_mutex_unlock(&device->reserve_lock);
    return reserve;
}

void torch_reserve_tidy(struct torch_device *device)
{
    end_spoilt(device);
    pthread_mutex_lock(&device->reserve_lock);
    for (struct torch_reserve *reserve = device->reserves, *next; reserve; reserve = next) {
        next = reserve->next;
        shrink(device, reserve);
    }
    pthread_mutex_unlock(&device->reserve_lock);
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
    const struct torch_reserve *reserve;
    void (*use)(const void *base, weir_torch_pool_id id, gpu_stream stream);
};

static void visit_chunk(const void *base, uint64_t size, void *data)
{
    const struct chunk_visit *visit = data;
    (void)size;
    visit->use(base, visit->reserve->id, (gpu_stream)torch_arena_key(&visit->reserve->arena, base));
}

void torch_reserve_each_chunk(struct torch_device *device, void (*use)(const void *base, weir_torch_pool_id id, gpu_stream stream))
{
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_reserve *reserve = device->reserves; reserve; reserve = reserve->next)
        torch_arena_each_chunk(&reserve->arena, visit_chunk, &(struct chunk_visit){ .reserve = reserve, .use = use });
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
