/* SPDX-License-Identifier: MIT */
#include "lib/alloc/waits.h"

#include "lib/base/event.h"
#include "lib/pool/weir_internal.h"

#define BATCH 64 /* streams that are pinned at a time */

bool weir__wait_begin(weir_stream *stream, struct weir__wait *wait)
{
    *wait = (struct weir__wait){ .stream = stream, .bytes = weir__stream_pending(stream), .freed = atomic_load(&stream->freed) };
    return weir__event_behind(stream->w->gpu, stream->device->index, stream->handle, &wait->event);
}

/* What was freed by the raw handle of a stream that is open on another device is that stream's. */
static void tell_abroad(struct weir__device *device)
{
    weir *w = device->w;
    gpu_stream handles[WEIR__PENDING_MAX];
    size_t count = weir__pending_unnoted_streams(&device->pending, handles);
    for (size_t d = 0; d < w->device_count; d++) {
        struct weir__device *other = &w->devices[d];
        for (size_t i = 0; other != device && i < count; i++) {
            pthread_rwlock_rdlock(&other->lock);
            weir_stream *opened = weir__stream_of_handle(other, handles[i]);
            if (opened) {
                atomic_store(&opened->frees_abroad, true);
                atomic_fetch_add(&opened->freed, weir__pending_take(&device->pending, device->index, handles[i]));
            }
            pthread_rwlock_unlock(&other->lock);
        }
    }
}

/* Streams of other devices that have freed blocks here, as far as there is room. Returns how many waits there are with them. */
static size_t collect_abroad(struct weir__device *device, uint64_t deadline, struct weir__wait *waits, size_t count)
{
    weir *w = device->w;
    if (w->device_count > 1)
        tell_abroad(device);
    for (size_t d = 0; d < w->device_count; d++) {
        weir_stream *streams[BATCH] = { NULL };
        uint64_t below = UINT64_MAX;
        size_t found;
        while (&w->devices[d] != device && (found = weir__streams_pin_next(&w->devices[d], &below, streams, BATCH)))
            for (size_t i = 0; i < found; i++) {
                bool counts = atomic_load(&streams[i]->frees_abroad) && count < WEIR__WAITS_STREAMS && w->gpu->now() <= deadline;
                count += counts && weir__wait_begin(streams[i], &waits[count]);
                weir__stream_unpin(streams[i]);
            }
    }
    return count;
}

size_t weir__waits_collect(struct weir__device *device, const gpu_stream *extra, uint64_t deadline,
                           struct weir__wait waits[static WEIR__WAITS_STREAMS + 1])
{
    const struct gpu *gpu = device->w->gpu;
    weir_stream *streams[WEIR__WAITS_STREAMS];
    size_t count = 0;
    size_t opened = weir__streams_pin(device, streams, WEIR__WAITS_STREAMS);
    for (size_t i = 0; i < opened; i++) {
        if (extra && streams[i]->handle == *extra)
            extra = NULL; /* it is covered */
        if (gpu->now() <= deadline)
            count += weir__wait_begin(streams[i], &waits[count]);
        weir__stream_unpin(streams[i]);
    }
    count = collect_abroad(device, deadline, waits, count);
    waits[count] = (struct weir__wait){ .entry = NULL };
    if (extra && weir__event_behind(gpu, weir__event_device(gpu, device->index, *extra), *extra, &waits[count].event))
        count++;
    return count;
}

/* is_over: its event was seen complete, or will never tell, so that nobody need wait for it again. */
static void end(struct weir__device *device, const struct weir__wait *wait, bool is_over)
{
    if (wait->entry)
        weir__pending_unclaim(&device->pending, wait->entry, is_over);
    else
        device->w->gpu->event_destroy(wait->event);
    if (wait->stream && is_over)
        weir__stream_complete(wait->stream->device, wait->stream, wait->freed);
}

/* Looks at an event behind so many bytes until the deadline, once at least. true: it is over. */
static bool look(const struct gpu *gpu, gpu_event event, uint64_t bytes, uint64_t deadline, struct weir__seen *seen, bool *done)
{
    uint64_t pause = 0;
    enum weir__event_state state;
    do
        state = weir__event_look(gpu, event);
    while (state == WEIR__EVENT_PENDING && weir__event_pause(gpu, &pause, deadline));
    *done = state == WEIR__EVENT_COMPLETE;
    seen->any = seen->any || *done;
    seen->bytes += *done ? bytes : 0;
    return state != WEIR__EVENT_PENDING;
}

size_t weir__waits_look(struct weir__device *device, struct weir__wait *waits, size_t count, uint64_t deadline, struct weir__seen *seen)
{
    const struct gpu *gpu = device->w->gpu;
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        bool done = false;
        if (gpu->now() <= deadline && look(gpu, waits[i].event, waits[i].bytes, 0, seen, &done))
            end(device, &waits[i], true);
        else
            waits[left++] = waits[i];
    }
    return left;
}

void weir__waits_end(struct weir__device *device, const struct weir__wait *waits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        end(device, &waits[i], false);
}

void weir__waits_finish(struct weir__device *device, struct weir__wait *waits, size_t count, uint64_t deadline)
{
    struct weir__seen seen = { .any = false };
    uint64_t pause = 0;
    do
        count = weir__waits_look(device, waits, count, deadline, &seen);
    while (count && weir__event_pause(device->w->gpu, &pause, deadline));
    weir__waits_end(device, waits, count);
}

/* Stream 0, which no event is put on here: an event there would hold up all blocking streams (measured). Whether frees are left on it. */
static bool look_at_legacy(struct weir__device *device, struct weir__seen *seen)
{
    const struct gpu *gpu = device->w->gpu;
    uint64_t bytes = weir__pending_take(&device->pending, device->index, GPU_STREAM_LEGACY);
    if (!bytes)
        return false;
    int former = weir__current_begin(gpu, device->index, GPU_STREAM_LEGACY);
    enum gpu_capture_status capture;
    bool is_idle = gpu->stream_capture_status(GPU_STREAM_LEGACY, &capture) == GPU_SUCCESS && capture == GPU_CAPTURE_STATUS_NONE &&
                   gpu->stream_query(GPU_STREAM_LEGACY) == GPU_SUCCESS && gpu->stream_synchronize(GPU_STREAM_LEGACY) == GPU_SUCCESS;
    weir__current_end(gpu, former);
    if (!is_idle)
        weir__pending_is_due(&device->pending, device->index, GPU_STREAM_LEGACY, bytes);
    seen->any = seen->any || is_idle;
    seen->bytes += is_idle ? bytes : 0;
    return !is_idle;
}

size_t weir__waits_look_at_pending(struct weir__device *device, uint64_t deadline, struct weir__seen *seen)
{
    struct weir__pending_entry *entry;
    uint64_t claimed = 0, bytes;
    size_t left = look_at_legacy(device, seen);
    /* One at a time: no event is recorded anew while it is claimed. */
    while ((entry = weir__pending_claim(&device->pending, &claimed, &bytes))) {
        bool done;
        look(device->w->gpu, entry->event, bytes, deadline, seen, &done);
        left += !done;
        weir__pending_unclaim(&device->pending, entry, done);
    }
    return left;
}

bool weir__wait_for_frees(struct weir__device *device, uint64_t deadline, bool wants_legacy)
{
    const struct gpu *gpu = device->w->gpu;
    struct weir__wait waits[WEIR__WAITS_STREAMS + 1];
    struct weir__seen seen = { .any = false };
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    size_t count = weir__waits_collect(device, NULL, UINT64_MAX, waits);
    if (wants_legacy)
        weir__pending_note_legacy(&device->pending, gpu);
    /* Those that a recovery may need are waited for only by those that want all of them. */
    bool all = weir__waits_look_at_pending(device, wants_legacy ? deadline : 0, &seen) == 0;
    /* One after the other, since all of them are waited for. */
    for (size_t i = 0; i < count; i++) {
        bool done = weir__event_wait(gpu, waits[i].event, deadline);
        end(device, &waits[i], done);
        all = all && done;
    }
    weir__relaxed_end(gpu, mode);
    return all;
}
