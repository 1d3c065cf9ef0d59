/* SPDX-License-Identifier: MIT */
#include "lib/flush.h"

#include "lib/event.h"
#include "lib/retired.h"

#define BATCH 64                         /* streams that are pinned at a time */
#define SETTLE (UINT64_C(1000) * 1000)   /* nanoseconds that an idle stream may take to come to its last free */

/* Orphans ------------------------------------------------------------------------------------------------------------------------------ */

static void add_orphans(struct weir__device *device, struct weir__entry **list, struct weir__entry *entries)
{
    weir__spin_lock(&device->orphan_lock);
    while (entries) {
        struct weir__entry *entry = entries;
        entries = entry->next;
        entry->next = *list;
        *list = entry;
    }
    weir__spin_unlock(&device->orphan_lock);
}

void weir__orphans_release(struct weir__device *device)
{
    weir__spin_lock(&device->orphan_lock);
    struct weir__entry *late = device->late;
    device->late = NULL;
    weir__spin_unlock(&device->orphan_lock);
    add_orphans(device, &device->orphans, late);
}

static struct weir__entry *take_orphans(struct weir__device *device)
{
    weir__spin_lock(&device->orphan_lock);
    struct weir__entry *orphans = device->orphans;
    device->orphans = NULL;
    weir__spin_unlock(&device->orphan_lock);
    return orphans;
}

static bool has_orphans(struct weir__device *device)
{
    weir__spin_lock(&device->orphan_lock);
    bool any = device->orphans;
    weir__spin_unlock(&device->orphan_lock);
    return any;
}

/* What CUDA gave for a block of that class, which may be none, and size. */
static uint64_t taken_for(unsigned class, uint64_t size)
{
    return class == WEIR__CLASS_NONE ? size : weir__class_bytes[class];
}

static uint64_t bytes_of(const struct weir__entry *entries, const weir_pool *pool)
{
    uint64_t bytes = 0;
    for (; entries; entries = entries->next)
        if (entries->pool == pool)
            bytes += taken_for(entries->class, entries->size);
    return bytes;
}

uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool)
{
    weir__spin_lock(&device->orphan_lock);
    uint64_t bytes = bytes_of(device->orphans, pool) + bytes_of(device->late, pool);
    weir__spin_unlock(&device->orphan_lock);
    return bytes;
}

bool weir__orphans_add(struct weir__device *device, const struct weir__block *block)
{
    struct weir__entry *entry = weir__blocks_put_back(&device->w->blocks, block, false);
    if (!entry)
        return false;
    entry->next = NULL;
    add_orphans(device, &device->orphans, entry);
    return true;
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

/* Frees each entry of the list on the stream. What CUDA refuses to take becomes an orphan. Returns the bytes that went. */
static uint64_t give_back(struct weir__device *device, gpu_stream handle, struct weir__entry *entries)
{
    weir *w = device->w;
    uint64_t bytes = 0;
    int former = weir__current_begin(w->gpu, device->index, handle);
    while (entries) {
        struct weir__block block;
        struct weir__entry *entry = entries;
        entries = entry->next;
        /* CUDA may give the address to another thread as soon as it has it. */
        weir__blocks_remove(&w->blocks, entry, false, &block);
        int code = w->gpu->free_async(block.ptr, handle);
        if (code == GPU_SUCCESS) {
            bytes += taken_for(block.class, block.size);
            if (block.pool->is_exportable)
                weir__retired_note(block.pool->retired, w->gpu, device->index, handle);
            weir__pool_count_spare_gone(block.pool, taken_for(block.class, block.size));
            weir__pool_left(block.pool);
            weir__pool_release(block.pool);
            continue;
        }
        w->gpu->forget_error(code);
        if (!weir__orphans_add(device, &block))
            weir__log(w, WEIR_LOG_ERROR, "no host memory: the block %p, whose free failed, is lost to Weir", block.ptr);
    }
    weir__current_end(w->gpu, former);
    return bytes;
}

void weir__flush_victims(weir_stream *stream, struct weir__entry *victims)
{
    enum gpu_capture_mode mode = weir__plain_begin(stream->w);
    weir__flush_taken(stream, victims);
    weir__plain_end(stream->w, mode);
    weir__stream_leave(stream);
}

uint64_t weir__flush_taken(weir_stream *stream, struct weir__entry *entries)
{
    uint64_t bytes = give_back(stream->device, stream->handle, entries);
    atomic_fetch_add_explicit(&stream->freed, bytes, memory_order_relaxed);
    return bytes;
}

uint64_t weir__flush_stream(weir_stream *stream, uint64_t before)
{
    if (!weir__cache_holds(stream))
        return 0;
    bool gone = atomic_load(&stream->is_gone);
    struct weir__entry *entries = weir__cache_drain(stream, before, !gone);
    if (!entries)
        return 0;
    if (gone) {
        add_orphans(stream->device, &stream->device->orphans, entries);
        return 0;
    }
    return weir__flush_taken(stream, entries);
}

void weir__flush_closed(weir_stream *stream)
{
    weir__flush_stream(stream, UINT64_MAX);
    struct weir__entry *entries = weir__cache_drain(stream, UINT64_MAX, false);
    if (entries)
        add_orphans(stream->device, &stream->device->late, entries);
}

/* Lets CUDA see the frees of a stream that has nothing else to do. */
static void settle(const weir_stream *stream)
{
    const struct gpu *gpu = stream->w->gpu;
    gpu_event event;
    if (!weir__event_behind(gpu, stream->device->index, stream->handle, &event))
        return;
    weir__event_wait(gpu, event, gpu->now() + SETTLE);
    weir__event_destroy(gpu, event);
}

/* Whether nothing captures, as far as can be known: no opened stream, and no blocking stream, of which the legacy one tells. Called with
   device->quiet. */
static bool is_quiet(struct weir__device *device)
{
    weir_stream *streams[BATCH];
    uint64_t below = UINT64_MAX;
    size_t count;
    bool quiet = !device->captures && !weir__handle_captures(device, GPU_STREAM_LEGACY);
    while ((count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            quiet = quiet && (atomic_load(&streams[i]->is_gone) || !weir__stream_captures(streams[i]));
            weir__stream_unpin(streams[i]);
        }
    return quiet;
}

/* Takes the orphans whose work is done, as the device as a whole says: the streams that they were freed on are gone. NULL: there are none, or
   something captures. */
static struct weir__entry *take_ready_orphans(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    struct weir__entry *orphans = NULL;
    if (!has_orphans(device))
        return NULL;
    pthread_mutex_lock(&device->quiet);
    if (is_quiet(device)) {
        orphans = take_orphans(device);
        int code = gpu->device_synchronize(device->index);
        if (code != GPU_SUCCESS) {
            gpu->forget_error(code);
            add_orphans(device, &device->orphans, orphans);
            orphans = NULL;
        }
    }
    pthread_mutex_unlock(&device->quiet);
    return orphans;
}

static uint64_t free_orphans(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    gpu_stream stream;
    struct weir__entry *orphans = take_ready_orphans(device);
    if (!orphans)
        return 0;
    int code = gpu->stream_create(device->index, &stream);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        add_orphans(device, &device->orphans, orphans);
        return 0;
    }
    uint64_t bytes = give_back(device, stream, orphans);
    code = gpu->stream_synchronize(stream);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    gpu->stream_destroy(stream);
    return bytes;
}

uint64_t weir__flush_caches(struct weir__device *device, const weir_pool *pool, bool settled)
{
    weir_stream *streams[BATCH];
    uint64_t below = UINT64_MAX, total = 0;
    size_t count;
    while ((count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            uint64_t bytes = !pool || streams[i]->pool == pool ? weir__flush_stream(streams[i], UINT64_MAX) : 0;
            if (bytes && settled)
                settle(streams[i]);
            weir__stream_unpin(streams[i]);
            total += bytes;
        }
    return total;
}

uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool settled)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(device->w->gpu);
    uint64_t total = weir__flush_caches(device, pool, settled);
    total += free_orphans(device);
    weir__relaxed_end(device->w->gpu, mode);
    return total;
}
