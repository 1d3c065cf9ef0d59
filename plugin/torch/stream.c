/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/stream.h"

#include <stdlib.h>

#include "lib/alloc/stream.h"

#define BUCKETS 256

static struct torch_stream *_Atomic buckets[BUCKETS]; /* records are added at the head, and never removed */
static weir_torch_stream_fn _Atomic stream_fn;

static size_t bucket_of(int device, gpu_stream handle)
{
    uint64_t hashed = (uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    return (size_t)(weir__handle_is_fixed(handle) ? (uint64_t)device * 2 + (uintptr_t)handle : hashed) % BUCKETS;
}

static struct torch_stream *find(struct torch_stream *stream, int device, gpu_stream handle)
{
    while (stream && (stream->handle != handle || (weir__handle_is_fixed(handle) && atomic_load(&stream->device) != device)))
        stream = stream->next;
    return stream;
}

struct torch_stream *torch_stream_get(int device, gpu_stream handle)
{
    if (handle == GPU_STREAM_LEGACY)
        handle = NULL; /* two names of one stream */
    struct torch_stream *_Atomic *bucket = &buckets[bucket_of(device, handle)];
    struct torch_stream *head = atomic_load_explicit(bucket, memory_order_acquire), *found = find(head, device, handle);
    if (found)
        return found;
    struct torch_stream *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->handle = handle;
    atomic_init(&made->device, weir__handle_is_fixed(handle) ? device : -1);
    atomic_init(&made->lives, !handle);
    /* No function is asked for fixed handles: the default stream lives, and the per-thread stream is another one in each thread. */
    atomic_init(&made->is_asked, weir__handle_is_fixed(handle));
    do {
        if ((found = find(head, device, handle))) {
            free(made);
            return found;
        }
        made->next = head;
    } while (!atomic_compare_exchange_weak_explicit(bucket, &head, made, memory_order_acq_rel, memory_order_acquire));
    return made;
}

struct torch_stream *torch_stream_name(struct torch_device *device, gpu_stream handle)
{
    struct torch_stream *stream = torch_stream_get(device->index, handle);
    weir_torch_stream_fn fn = atomic_load(&stream_fn);
    if (!stream)
        return NULL;
    if (atomic_load(&stream->device) != device->index)
        atomic_store(&stream->device, device->index);
    if (fn && !atomic_load(&stream->lives) && !atomic_exchange(&stream->is_asked, true) && fn(device->index, handle))
        atomic_store(&stream->lives, true);
    return stream;
}

void weir_torch_set_stream_fn(weir_torch_stream_fn fn)
{
    atomic_store(&stream_fn, fn);
}

void weir_torch_stream_lives(int device, weir_cuda_stream handle)
{
    /* The default stream always lives, and the per-thread stream is not opened. If host memory runs out, the stream stays an ordinary
       one. */
    struct torch_stream *stream = weir__handle_is_fixed(handle) || weir__is_forked() ? NULL : torch_stream_get(device, handle);
    if (!stream)
        return;
    atomic_store(&stream->device, device);
    atomic_store(&stream->lives, true);
}

weir_stream *torch_stream_opened(struct torch_stream *stream, const struct torch_device *device)
{
    weir_stream *opened = atomic_load_explicit(&stream->opened, memory_order_acquire);
    return opened && opened->w == device->w ? opened : NULL;
}

weir_stream *torch_stream_open(struct torch_stream *stream, struct torch_device *device)
{
    weir_stream *opened = atomic_load_explicit(&stream->opened, memory_order_acquire);
    if (!opened && atomic_load(&stream->lives)) {
        pthread_mutex_lock(&torch_opening);
        opened = atomic_load_explicit(&stream->opened, memory_order_acquire);
        enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
        /* If this fails, as on a stream that captures, requests are served without a cache until a later call opens the stream. */
        if (!opened && (weir_stream_open)(device->w, device->index, stream->handle, NULL, NULL, &opened) == WEIR_OK)
            atomic_store_explicit(&stream->opened, opened, memory_order_release);
        weir__relaxed_end(device->gpu, mode);
        pthread_mutex_unlock(&torch_opening);
    }
    return opened && opened->w == device->w ? opened : NULL;
}

struct weir__line *torch_stream_line(struct torch_stream *stream, struct torch_device *device)
{
    int index = atomic_load(&stream->device); /* known for a stream that lives for ever */
    if (!atomic_load(&stream->lives) || (size_t)index >= device->w->device_count)
        return NULL;
    weir_stream *opened = index == device->index ? torch_stream_opened(stream, device) : NULL;
    struct weir__line *line = opened ? opened->line : atomic_load(&stream->line), *none = NULL;
    if (line)
        return line;
    /* The stream may be another thread's, which may begin a capture at any moment, and the question for the id of a stream that captures
       spoils the capture. So the stream is not opened here, and the record's address, inverted, stands in for the id. */
    const struct weir__caller caller = {.handle = stream->handle, .id = ~(uint64_t)(uintptr_t)stream};
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    line = weir__line_open(device->w->devices[index].fences, &caller);
    weir__relaxed_end(device->gpu, mode);
    if (!line || atomic_compare_exchange_strong(&stream->line, &none, line))
        return line;
    weir__line_end(line, false);
    return none;
}
