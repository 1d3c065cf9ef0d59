/* SPDX-License-Identifier: MIT */
#include "lib/alloc/stream.h"

#include <stdlib.h>
#include <string.h>

#include "lib/alloc/fast.h"
#include "lib/pool/figures.h"

#define CLOSED_MIN 256 /* closed streams of a device whose memory is not used again yet */
#define RECENT_COUNT 8 /* a power of two */

/* The streams that this thread last asked for, by the list's generation, which says whether the answer still holds, and by their id. */
static __thread struct recent {
    uint64_t generation;
    uint64_t id;
    weir_stream *stream; /* NULL: it was not open */
} recents[RECENT_COUNT];

/* NULL is another name of the legacy stream. */
static gpu_stream one_name(gpu_stream handle)
{
    return handle ? handle : GPU_STREAM_LEGACY;
}

weir_stream *weir__stream_listed(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    weir_stream *stream = device->streams;
    while (stream && (device->has_stream_ids ? stream->id != id : one_name(stream->handle) != one_name(handle)))
        stream = stream->next;
    return stream;
}

int weir__stream_id(struct weir__device *device, gpu_stream handle, uint64_t *id)
{
    const struct gpu *gpu = device->w->gpu;
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    *id = 0;
    if (!device->has_stream_ids)
        return GPU_SUCCESS;
    int former = weir__device_begin(device->w, device->index, handle);
    int code = gpu->stream_capture_status(handle, &capture);
    if (code == GPU_SUCCESS && capture == GPU_CAPTURE_STATUS_NONE)
        code = gpu->stream_id(handle, id);
    weir__current_end(gpu, former);
    return capture == GPU_CAPTURE_STATUS_NONE ? code : GPU_CAPTURE_UNSUPPORTED;
}

int weir__stream_user(struct weir__device *device, gpu_stream handle, const weir_stream *opened, uint64_t id,
                      struct weir__mapped_user *user)
{
    *user = (struct weir__mapped_user){.handle = handle, .device = device->index, .id = id, .is_open = opened};
    if (opened) {
        user->device = opened->device->index;
        user->id = opened->name;
    }
    return user->id ? GPU_SUCCESS : weir__stream_id(device, handle, &user->id);
}

/* The opened stream of that handle. Only where its id cannot be asked for: a handle proves little. */
static weir_stream *find_handle(struct weir__device *device, gpu_stream handle)
{
    weir_stream *stream = device->streams;
    while (stream && (one_name(stream->handle) != one_name(handle) || atomic_load(&stream->is_gone)))
        stream = stream->next;
    return stream;
}

static unsigned filter_place(gpu_stream handle)
{
    return (unsigned)((uint64_t)(uintptr_t)one_name(handle) * UINT64_C(0x9E3779B97F4A7C15) >> 58);
}

static uint64_t filter_bit(gpu_stream handle)
{
    return UINT64_C(1) << filter_place(handle);
}

/* Counts one stream more, or one less. */
static void count_in(_Atomic uint64_t *filter, unsigned *counts, unsigned place, bool more)
{
    uint64_t bit = UINT64_C(1) << place, others = atomic_load_explicit(filter, memory_order_relaxed) & ~bit;
    counts[place] += more ? 1U : -1U;
    atomic_store_explicit(filter, counts[place] ? others | bit : others, memory_order_release);
}

static void begin_generation(struct weir__device *device)
{
    static _Atomic uint64_t generations;
    atomic_store_explicit(&device->generation, atomic_fetch_add(&generations, 1) + 1, memory_order_release);
}

/* Called with device->lock held for writing, whenever the list has changed by the stream, whose handle and pool are fixed. */
static void change_filters(struct weir__device *device, const weir_stream *stream, bool more)
{
    unsigned place = filter_place(stream->handle);
    if (stream->pool != device->default_pool)
        count_in(&device->routed, device->routed_count, place, more);
    count_in(&device->listed, device->listed_count, place, more);
    begin_generation(device);
}

void weir__streams_init(struct weir__device *device)
{
    device->closed_end = &device->closed;
    begin_generation(device);
}

void weir__streams_destroy(struct weir__device *device)
{
    while (device->closed) {
        weir_stream *stream = device->closed;
        device->closed = stream->next;
        free(stream);
    }
}

/* Whether an opened stream of that filter may have the handle. Without ids a handle proves nothing: it may be a new stream under an old
   number. */
static bool may_be_in(const struct weir__device *device, const _Atomic uint64_t *filter, gpu_stream handle)
{
    return (atomic_load_explicit(filter, memory_order_acquire) & filter_bit(handle)) && device->has_stream_ids;
}

/* Asks for what is not known yet. false: that cannot be said. */
static bool know(struct weir__device *device, struct weir__raw *raw)
{
    raw->is_known = raw->is_known || weir__stream_id(device, raw->handle, &raw->id) == GPU_SUCCESS;
    return raw->is_known;
}

weir_stream *weir__stream_find(struct weir__device *device, struct weir__raw *raw)
{
    if (!may_be_in(device, &device->listed, raw->handle) || !know(device, raw))
        return NULL;
    struct recent *recent = &recents[raw->id % RECENT_COUNT];
    if (recent->generation != atomic_load_explicit(&device->generation, memory_order_acquire) || recent->id != raw->id) {
        pthread_rwlock_rdlock(&device->lock);
        *recent = (struct recent){ atomic_load(&device->generation), raw->id, weir__stream_listed(device, raw->handle, raw->id) };
        pthread_rwlock_unlock(&device->lock);
    }
    return recent->stream;
}

weir_pool *weir__stream_route(struct weir__device *device, struct weir__raw *raw)
{
    weir_pool *pool = device->default_pool;
    if (!may_be_in(device, &device->routed, raw->handle))
        return pool;
    bool is_known = know(device, raw);
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = is_known ? weir__stream_listed(device, raw->handle, raw->id) : find_handle(device, raw->handle);
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

size_t weir__streams_pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&device->lock);
    for (weir_stream *stream = device->streams; stream && count < max; stream = stream->next) {
        if (stream->number >= *below || atomic_load(&stream->is_gone))
            continue;
        atomic_fetch_add(&stream->pins, 1);
        *below = stream->number;
        streams[count++] = stream;
    }
    pthread_rwlock_unlock(&device->lock);
    return count;
}

size_t weir__streams_pin(struct weir__device *device, weir_stream **streams, size_t max)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&device->lock);
    for (weir_stream *stream = device->streams; stream; stream = stream->next) {
        size_t at = count;
        if (atomic_load(&stream->is_gone))
            continue;
        if (count == max) {
            /* No room: the one that freed least gives way. */
            for (size_t i = at = 0; i < max; i++)
                at = weir__stream_pending(streams[i]) < weir__stream_pending(streams[at]) ? i : at;
            if (weir__stream_pending(stream) <= weir__stream_pending(streams[at]))
                continue;
            weir__stream_unpin(streams[at]);
            count--;
        }
        atomic_fetch_add(&stream->pins, 1);
        streams[at] = stream;
        count++;
    }
    pthread_rwlock_unlock(&device->lock);
    return count;
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
    weir__bias_lock(&cache->lock);
    bool is_open = weir__cache_state(cache) != WEIR__CACHE_SHUT;
    cache->calls += is_open;
    weir__bias_unlock(&cache->lock);
    return is_open;
}

void weir__stream_leave(weir_stream *stream)
{
    weir__bias_lock(&stream->cache.lock);
    stream->cache.calls--;
    weir__bias_unlock(&stream->cache.lock);
}

void weir__stream_complete(struct weir__device *device, weir_stream *stream, uint64_t freed)
{
    pthread_rwlock_rdlock(&device->lock);
    if (stream->is_listed) {
        uint64_t before = atomic_load(&stream->completed);
        while (before < freed && !atomic_compare_exchange_weak(&stream->completed, &before, freed))
            continue;
    }
    pthread_rwlock_unlock(&device->lock);
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
    change_filters(device, stream, true);
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

/* What the cache has counted becomes the pool's own. Called with device->lock held for writing: who adds up sees the one or the other. */
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
    change_filters(device, s, false);
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
