/* SPDX-License-Identifier: MIT */
#include "lib/waits.h"

#include "lib/event.h"
#include "lib/weir_internal.h"

size_t weir__waits_collect(struct weir__device *device, const gpu_stream *extra, struct weir__wait waits[static WEIR__WAITS_STREAMS + 1])
{
    const struct gpu *gpu = device->w->gpu;
    weir_stream *streams[WEIR__WAITS_STREAMS];
    size_t count = 0;
    size_t opened = weir__streams_pin(device, streams, WEIR__WAITS_STREAMS);
    bool is_covered = !extra;
    for (size_t i = 0; i < opened; i++) {
        is_covered = is_covered || streams[i]->handle == *extra;
        waits[count] = (struct weir__wait){ .stream = streams[i], .bytes = atomic_load(&streams[i]->freed) };
        count += weir__event_behind(gpu, device->index, streams[i]->handle, &waits[count].event);
        weir__stream_unpin(streams[i]);
    }
    waits[count] = (struct weir__wait){ .entry = NULL };
    if (!is_covered && weir__event_behind(gpu, device->index, *extra, &waits[count].event))
        count++;
    return count;
}

void weir__wait_release(struct weir__device *device, const struct weir__wait *wait, bool done)
{
    if (wait->entry)
        weir__pending_unclaim(&device->pending, wait->entry, done);
    else
        weir__event_destroy(device->w->gpu, wait->event);
    if (wait->stream && done)
        weir__stream_settle(device, wait->stream, wait->bytes);
}

size_t weir__waits_look_at_pending(struct weir__device *device, uint64_t deadline, bool *seen)
{
    struct weir__pending_entry *entry;
    uint64_t claimed = 0;
    size_t left = 0;
    /* One at a time: no event is recorded anew while it is claimed. */
    while ((entry = weir__pending_claim(&device->pending, &claimed))) {
        bool done = weir__event_wait(device->w->gpu, entry->event, deadline == UINT64_MAX ? deadline : 0);
        weir__pending_unclaim(&device->pending, entry, done);
        *seen = *seen || done;
        left += !done;
    }
    return left;
}
