/* SPDX-License-Identifier: MIT */
#include "lib/alloc/stream.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/event.h"
#include "lib/pool/figures.h"

#define CLOSED_MIN 256 /* the memory of a closed stream is reused only while more streams than these wait in device->closed */

/* Returns the hash by which the tables find a stream: its handle. NULL is another name of the legacy stream, and gives the same hash. */
static uint64_t place_of(gpu_stream handle)
{
    return (uint64_t)(uintptr_t)(handle ? handle : GPU_STREAM_LEGACY);
}

/* Returns the key that differs between two streams which had the same handle one after the other: the id. Without ids it is the handle. */
static uint64_t key_of(const struct weir__device *device, gpu_stream handle, uint64_t id)
{
    return device->has_stream_ids ? id : place_of(handle);
}

weir_stream *weir__stream_listed(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    uint64_t key = key_of(device, handle, id);
    struct weir__link *link = weir__table_first(&device->listed, place_of(handle));
    while (link && atomic_load_explicit(&link->key, memory_order_relaxed) != key)
        link = weir__table_next(link);
    return link ? WEIR__ITEM(link, weir_stream, listed) : NULL;
}

weir_stream *weir__stream_of_handle(struct weir__device *device, gpu_stream handle)
{
    struct weir__link *link = weir__table_first(&device->listed, place_of(handle));
    while (link && atomic_load(&WEIR__ITEM(link, weir_stream, listed)->is_gone))
        link = weir__table_next(link);
    return link ? WEIR__ITEM(link, weir_stream, listed) : NULL;
}

int weir__stream_id(struct weir__device *device, gpu_stream handle, uint64_t *id)
{
    *id = 0;
    if (!device->has_stream_ids)
        return GPU_SUCCESS;
    int former = weir__device_begin(device->w, device->index, handle);
    int code = weir__stream_identify(device->w->gpu, handle, id);
    weir__current_end(device->w->gpu, former);
    return code;
}

struct gpu_context weir__stream_context(struct weir__device *device, gpu_stream handle)
{
    const struct gpu *gpu = device->w->gpu;
    struct gpu_context context = { .handle = NULL };
    int former = weir__current_begin(gpu, device->index, handle);
    gpu->stream_context(handle, &context);
    weir__current_end(gpu, former);
    return context;
}

void weir__streams_init(struct weir__device *device)
{
    device->closed_end = &device->closed;
    weir__table_init(&device->listed);
    weir__table_init(&device->routed);
}

void weir__streams_destroy(struct weir__device *device)
{
    while (device->closed) {
        weir_stream *stream = device->closed;
        device->closed = stream->next;
        free(stream);
    }
    weir__table_destroy(&device->listed);
    weir__table_destroy(&device->routed);
}

/* Returns true if the table may have an opened stream of that handle. Returns false if the driver has no ids, since the handle of a
   destroyed stream may be that of a new one. */
static bool may_be_in(const struct weir__device *device, const struct weir__table *table, gpu_stream handle)
{
    return weir__table_may_have(table, place_of(handle)) && device->has_stream_ids;
}

/* Asks CUDA for the stream's id unless it is known. Returns false if CUDA cannot tell, as for a stream that captures. */
static bool know(struct weir__device *device, struct weir__raw *raw)
{
    raw->is_known = raw->is_known || weir__stream_id(device, raw->handle, &raw->id) == GPU_SUCCESS;
    return raw->is_known;
}

weir_stream *weir__stream_find(struct weir__device *device, struct weir__raw *raw)
{
    if (!may_be_in(device, &device->listed, raw->handle) || !know(device, raw))
        return NULL;
    struct weir__link *link;
    if (weir__table_look(&device->listed, place_of(raw->handle), raw->id, &link))
        return link ? WEIR__ITEM(link, weir_stream, listed) : NULL;
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = weir__stream_listed(device, raw->handle, raw->id);
    pthread_rwlock_unlock(&device->lock);
    return stream;
}

weir_pool *weir__stream_route(struct weir__device *device, struct weir__raw *raw)
{
    weir_pool *pool = device->default_pool;
    if (!may_be_in(device, &device->routed, raw->handle))
        return pool;
    bool is_known = know(device, raw);
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = is_known ? weir__stream_listed(device, raw->handle, raw->id) : weir__stream_of_handle(device, raw->handle);
    if (stream) {
        pool = stream->pool;
        weir__pool_hold(pool);
    }
    pthread_rwlock_unlock(&device->lock);
    return pool;
}

bool weir__handle_captures(const struct weir__device *device, gpu_stream handle)
{
    const struct gpu *gpu = device->w->gpu;
    enum gpu_capture_status capture;
    int former = weir__device_begin(device->w, device->index, handle);
    int code = gpu->stream_capture_status(handle, &capture);
    weir__current_end(gpu, former);
    return code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE;
}

bool weir__stream_captures(const weir_stream *stream)
{
    return weir__handle_captures(stream->device, stream->handle);
}

/* Unpins the streams that are gone and removes them from the array. Neighbours in the array with the same context cost one question to
   CUDA. Returns the number of streams left. */
static size_t leave_out_gone(weir_stream **streams, size_t count)
{
    struct gpu_context asked = { .handle = NULL };
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gpu_context *context = &streams[i]->context;
        bool is_same = left && context->handle == asked.handle && context->id == asked.id;
        if (is_same || weir__stream_is_alive(streams[i])) {
            asked = *context;
            streams[left++] = streams[i];
        } else {
            weir__stream_unpin(streams[i]);
        }
    }
    return left;
}

static size_t pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&device->lock);
    /* The last entry may have been closed since, but its memory is not freed before the device is. */
    const weir_stream *last = streams[max - 1];
    bool goes_on = last && last->is_listed && last->number >= *below;
    for (weir_stream *stream = goes_on ? last->next : device->streams; stream && count < max; stream = stream->next) {
        if (stream->number >= *below || atomic_load(&stream->is_gone))
            continue;
        atomic_fetch_add(&stream->pins, 1);
        *below = stream->number;
        streams[count++] = stream;
    }
    pthread_rwlock_unlock(&device->lock);
    return count;
}

size_t weir__streams_pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max)
{
    size_t pinned, left = 0;
    while (!left && (pinned = pin_next(device, below, streams, max)))
        left = leave_out_gone(streams, pinned);
    return left;
}

weir_stream *weir__stream_pin(struct weir__device *device, gpu_stream handle)
{
    struct weir__raw raw = { .handle = handle };
    if (!may_be_in(device, &device->listed, handle) || !know(device, &raw))
        return NULL;
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = weir__stream_listed(device, handle, raw.id);
    if (stream)
        atomic_fetch_add(&stream->pins, 1);
    pthread_rwlock_unlock(&device->lock);
    return stream;
}

void weir__stream_unpin(weir_stream *stream)
{
    atomic_fetch_sub(&stream->pins, 1);
}

bool weir__stream_enter(weir_stream *stream)
{
    struct weir__cache *cache = &stream->cache;
    weir__spin_lock(&cache->lock);
    bool is_open = cache->state != WEIR__CACHE_SHUT;
    cache->calls += is_open;
    weir__spin_unlock(&cache->lock);
    return is_open;
}

void weir__stream_leave(weir_stream *stream)
{
    weir__spin_lock(&stream->cache.lock);
    stream->cache.calls--;
    weir__spin_unlock(&stream->cache.lock);
}

void weir__stream_freed(weir_stream *stream, weir_pool *pool, uint64_t bytes)
{
    uint64_t step;
    if (pool->backing->ops->names_streams)
        return;
    if (pool == stream->pool)
        weir__line_free(stream->debt, bytes, UINT64_MAX, &step);
    else
        weir__line_count(stream->line, &pool->backing->debts, bytes);
}

struct weir__line *weir__stream_line(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    weir *w = device->w;
    struct weir__caller caller = {.handle = handle, .id = id};
    int index = w->device_count > 1 ? weir__event_device(w->gpu, device->index, handle) : device->index;
    if (index >= 0 && (size_t)index < w->device_count)
        device = &w->devices[index];
    /* If CUDA does not tell the id, it stays 0, and weir__line_of() makes a line for this call alone. */
    if (!id && handle && handle != GPU_STREAM_LEGACY)
        weir__stream_id(device, handle, &caller.id);
    return weir__line_of(device->fences, &caller);
}

/* Listing ------------------------------------------------------------------------------------------------------------------------------ */

void weir__stream_list(weir_stream *stream)
{
    struct weir__device *device = stream->device;
    pthread_rwlock_wrlock(&device->lock);
    stream->number = device->streams ? device->streams->number + 1 : 0;
    stream->next = device->streams;
    stream->previous = NULL;
    if (device->streams)
        device->streams->previous = stream;
    device->streams = stream;
    stream->is_listed = true;
    uint64_t place = place_of(stream->handle), key = key_of(device, stream->handle, stream->id);
    weir__table_add(&device->listed, &stream->listed, place, key);
    stream->is_routed = stream->pool != device->default_pool;
    if (stream->is_routed)
        weir__table_add(&device->routed, &stream->routed, place, key);
    pthread_rwlock_unlock(&device->lock);
}

weir_stream *weir__stream_take(struct weir__device *device)
{
    weir_stream *stream = NULL;
    pthread_rwlock_wrlock(&device->lock);
    if (device->closed_count > CLOSED_MIN) {
        stream = device->closed;
        device->closed = stream->next;
        device->closed_count--;
        if (!device->closed)
            device->closed_end = &device->closed;
    }
    pthread_rwlock_unlock(&device->lock);
    if (!stream && (stream = aligned_alloc(_Alignof(weir_stream), sizeof *stream))) {
        memset(stream, 0, sizeof *stream);
        stream->w = device->w;
        stream->device = device;
        weir__cache_init(&stream->cache);
    }
    return stream;
}

void weir__stream_bury(weir_stream *stream)
{
    struct weir__device *device = stream->device;
    stream->next = NULL;
    pthread_rwlock_wrlock(&device->lock);
    *device->closed_end = stream;
    device->closed_end = &stream->next;
    device->closed_count++;
    pthread_rwlock_unlock(&device->lock);
}

/* Adds the counts of the stream's cache to those of the pool. The caller holds device->lock for writing, so that a thread that sums up all
   caches and the pool counts each call once. */
static void add_counts(weir_stream *s)
{
    weir__pool_count_live(s->pool, s->cache.live);
    atomic_fetch_add(&s->pool->figures.closed_hits, s->cache.hits);
    atomic_fetch_add(&s->pool->figures.closed_keeps, s->cache.keeps);
}

void weir__stream_unlist(weir_stream *s)
{
    struct weir__device *device = s->device;
    pthread_rwlock_wrlock(&device->lock);
    if (s->previous)
        s->previous->next = s->next;
    else
        device->streams = s->next;
    if (s->next)
        s->next->previous = s->previous;
    s->is_listed = false;
    weir__table_remove(&device->listed, &s->listed);
    if (s->is_routed)
        weir__table_remove(&device->routed, &s->routed);
    add_counts(s);
    pthread_rwlock_unlock(&device->lock);
}

weir_cuda_stream weir_stream_handle(const weir_stream *s)
{
    return s ? s->handle : NULL;
}

int weir_stream_device(const weir_stream *s)
{
    return s ? s->device->index : -1;
}

weir_pool *weir_stream_pool(const weir_stream *s)
{
    return s ? s->pool : NULL;
}

/* Spare streams ------------------------------------------------------------------------------------------------------------------------ */

struct weir__spare {
    gpu_stream handle;
    struct gpu_context context;
};

static bool is_listed_handle(struct weir__device *device, gpu_stream handle)
{
    pthread_rwlock_rdlock(&device->lock);
    bool is_listed = weir__stream_of_handle(device, handle);
    pthread_rwlock_unlock(&device->lock);
    return is_listed;
}

/* Returns true if the spare stream belongs to the context `here`, is not opened by its raw handle, and does not capture. The context is
   alive, so the stream is alive too. */
static bool is_fit(struct weir__device *device, const struct weir__spare *spare, const struct gpu_context *here)
{
    return spare->context.handle == here->handle && spare->context.id == here->id && !is_listed_handle(device, spare->handle) &&
           !weir__handle_captures(device, spare->handle);
}

static void take_out(struct weir__spares *spares, size_t i)
{
    spares->count--;
    memmove(&spares->items[i], &spares->items[i + 1], (spares->count - i) * sizeof *spares->items);
}

bool weir__spare_take(struct weir__device *device, gpu_stream *handle)
{
    struct weir__spares *spares = &device->spares;
    if (!spares->count)
        return false;
    const struct gpu_context here = weir__stream_context(device, GPU_STREAM_LEGACY);
    for (size_t i = spares->count; here.handle && i-- > 0;) {
        if (!is_fit(device, &spares->items[i], &here))
            continue;
        *handle = spares->items[i].handle;
        take_out(spares, i);
        return true;
    }
    return false;
}

/* Forgets the spare streams whose context the program has destroyed: CUDA destroyed them with the context. */
static void forget_gone(struct weir__device *device)
{
    struct weir__spares *spares = &device->spares;
    for (size_t i = spares->count; i-- > 0;)
        if (!device->w->gpu->context_is_alive(&spares->items[i].context))
            take_out(spares, i);
}

bool weir__spare_put(struct weir__device *device, gpu_stream handle, const struct gpu_context *context)
{
    struct weir__spares *spares = &device->spares;
    if (spares->count == spares->room)
        forget_gone(device);
    if (spares->count == spares->room) {
        size_t room = spares->room ? 2 * spares->room : 4;
        struct weir__spare *items = realloc(spares->items, room * sizeof *items);
        if (!items)
            return false;
        spares->items = items;
        spares->room = room;
    }
    spares->items[spares->count++] = (struct weir__spare){.handle = handle, .context = *context};
    return true;
}

void weir__spares_destroy(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    struct weir__spares *spares = &device->spares;
    forget_gone(device);
    for (size_t i = 0; i < spares->count; i++) {
        gpu_stream handle = spares->items[i].handle;
        if (!weir__handle_captures(device, handle))
            gpu->stream_synchronize(handle);
        weir__stream_destroy(device, handle);
    }
    free(spares->items);
    *spares = (struct weir__spares){.items = NULL};
}
