/* SPDX-License-Identifier: MIT */
/* sim_stream.c - streams and events: which stream waits for which work, and until when. */
#include "lib/gpu/sim_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Waits -------------------------------------------------------------------------------------------------------------------------------- */

int sim_waits_add(struct sim_waits *waits, uint64_t stream, uint64_t sequence)
{
    for (size_t i = 0; i < waits->count; i++) {
        if (waits->items[i].stream != stream)
            continue;
        if (waits->items[i].sequence < sequence)
            waits->items[i].sequence = sequence;
        return 0;
    }
    if (waits->count == waits->room) {
        size_t room = waits->room ? waits->room * 2 : 4;
        struct sim_wait *items = realloc(waits->items, room * sizeof(*items));
        if (!items)
            return GPU_OUT_OF_MEMORY;
        waits->items = items;
        waits->room = room;
    }
    waits->items[waits->count++] = (struct sim_wait){ stream, sequence };
    return 0;
}

static int waits_merge(struct sim_waits *into, const struct sim_waits *from)
{
    int code = 0;
    for (size_t i = 0; i < from->count && !code; i++)
        code = sim_waits_add(into, from->items[i].stream, from->items[i].sequence);
    return code;
}

void sim_waits_clear(struct sim_waits *waits)
{
    free(waits->items);
    *waits = (struct sim_waits){ 0 };
}

uint64_t sim_waits_for(const struct sim_waits *waits, uint64_t stream)
{
    for (size_t i = 0; i < waits->count; i++)
        if (waits->items[i].stream == stream)
            return waits->items[i].sequence;
    return 0;
}

int sim_stream_wait_for(struct sim_stream *stream, uint64_t other, uint64_t sequence, uint64_t done_at)
{
    int code = sim_waits_add(&stream->waits, other, sequence);
    if (!code)
        stream->busy_until = sim_time_join(stream->busy_until, done_at);
    return code;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

void sim_stream_init(struct sim_stream *stream, enum sim_stream_kind kind, int device)
{
    sim_waits_clear(&stream->waits);
    *stream = (struct sim_stream){ .kind = kind, .device = device, .id = ++sim.last_id };
    stream->context = kind == SIM_STREAM_CREATED ? sim_context_here(device) : 0;
}

/* Adds a new stream to sim.streams. A created stream, which has a handle, takes the struct and handle of a destroyed one if there is
   any. */
static struct sim_stream *add_stream(enum sim_stream_kind kind, int device)
{
    struct sim_stream *stream = kind == SIM_STREAM_CREATED ? sim.spare_streams : NULL;
    if (stream) {
        sim.spare_streams = stream->next;
    } else {
        stream = calloc(1, sizeof(*stream));
        if (stream && kind == SIM_STREAM_CREATED && !sim_handles_add(&sim.stream_handles, stream)) {
            free(stream);
            stream = NULL;
        }
        if (!stream)
            return NULL;
    }
    sim_stream_init(stream, kind, device);
    sim.devices[device].used = true;
    stream->is_open = true;
    stream->next = sim.streams;
    if (sim.streams)
        sim.streams->prev = stream;
    sim.streams = stream;
    return stream;
}

/* Closes a stream. Its queued work goes on. */
static void unlink_stream(struct sim_stream *stream)
{
    uint64_t *gone_until = &sim.devices[stream->device].gone_until;
    *gone_until = sim_time_join(*gone_until, stream->busy_until);
    stream->is_open = false;
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        sim.streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
}

static struct sim_stream *per_thread_stream(void)
{
    struct sim_stream **place = &sim_self->streams[sim_self->device];
    if (!*place)
        *place = add_stream(SIM_STREAM_PER_THREAD, sim_self->device);
    return *place;
}

/* CUDA crashes in the driver when a destroyed stream is used (measured). The simulator aborts as well, with a message that gives the
   reason. */
__attribute__((cold, noreturn)) static void die_of_destroyed(const struct sim_stream *stream)
{
    fprintf(stderr, "weir: the simulator was asked of stream %p (id %llu), which was destroyed, or its context was: CUDA crashes here\n",
            (const void *)stream, (unsigned long long)stream->id);
    abort();
}

int sim_stream_find(gpu_stream *stream)
{
    if (!*stream || *stream == GPU_STREAM_LEGACY) {
        *stream = &sim.devices[sim_self->device].legacy;
        return 0;
    }
    if (*stream == GPU_STREAM_PER_THREAD) {
        *stream = per_thread_stream();
        return *stream ? 0 : GPU_OUT_OF_MEMORY;
    }
    if (!sim_handles_have(&sim.stream_handles, *stream))
        return GPU_INVALID_HANDLE;
    if (!(*stream)->is_open)
        die_of_destroyed(*stream);
    return 0;
}

int sim_work_begin(gpu_stream *stream)
{
    int code = sim_stream_find(stream);
    return code ? code : sim_capture_enter(*stream);
}

void sim_thread_streams_clear(struct sim_thread *thread)
{
    for (int device = 0; device < SIM_DEVICES_MAX; device++) {
        struct sim_stream *stream = thread->streams[device];
        if (!stream)
            continue;
        sim_capture_drop_origin(stream);
        unlink_stream(stream);
        sim_waits_clear(&stream->waits);
        free(stream);
        thread->streams[device] = NULL;
    }
}

static void free_streams(struct sim_stream **list)
{
    while (*list) {
        struct sim_stream *stream = *list;
        *list = stream->next;
        sim_waits_clear(&stream->waits);
        free(stream);
    }
}

static void free_events(struct sim_event **list)
{
    while (*list) {
        struct sim_event *event = *list;
        *list = event->next;
        sim_waits_clear(&event->waits);
        free(event);
    }
}

void sim_streams_clear(void)
{
    free_streams(&sim.streams);
    free_streams(&sim.spare_streams);
    free_events(&sim.events);
    free_events(&sim.spare_events);
    free_events(&sim.dead_events);
    sim_contexts_clear();
    sim_handles_clear(&sim.stream_handles);
    sim_handles_clear(&sim.event_handles);
    for (int device = 0; device < SIM_DEVICES_MAX; device++)
        sim_waits_clear(&sim.devices[device].legacy.waits);
}

int sim_stream_create(int device, gpu_stream *stream)
{
    struct sim_stream *made = add_stream(SIM_STREAM_CREATED, device);
    if (!made)
        return GPU_OUT_OF_MEMORY;
    *stream = made;
    return 0;
}

/* The queued work still runs: its effects are in sim.actions and in the freed segments. If there is none, destroying the stream lets a trim
   find what the stream has freed, as measured on a GPU. */
int sim_stream_destroy(gpu_stream stream)
{
    if (stream->kind != SIM_STREAM_CREATED)
        return GPU_INVALID_HANDLE;
    if (sim_capture_refuse(stream))
        return GPU_CAPTURE_UNSUPPORTED;
    if (stream->busy_until <= sim.now)
        sim_memory_observe(stream->id, sim.sequence, stream->device);
    unlink_stream(stream);
    stream->next = sim.spare_streams;
    sim.spare_streams = stream;
    return 0;
}

int sim_stream_id(gpu_stream stream, uint64_t *id)
{
    if (!sim_driver(12000))
        return GPU_NOT_SUPPORTED;
    if (sim_capture_refuse(stream))
        return GPU_CAPTURE_UNSUPPORTED;
    *id = stream->id;
    return 0;
}

int sim_stream_device(gpu_stream stream, int *device)
{
    if (stream->kind != SIM_STREAM_CREATED)
        return GPU_INVALID_HANDLE;
    *device = stream->device;
    return 0;
}

/* Waits until the time, and then marks frees as observed, with the parameters of sim_memory_observe(). Returns 0 or the sticky error. */
static int synchronize(uint64_t time, uint64_t id, uint64_t sequence, int device)
{
    sim_wait_until(time);
    if (sim.sticky)
        return sim.sticky;
    sim_memory_observe(id, sequence, device);
    sim_pools_enforce_thresholds();
    return 0;
}

int sim_stream_synchronize(gpu_stream stream)
{
    int code = sim_capture_refuse(stream) ?: sim_capture_check_unsafe();
    return code ? code : synchronize(stream->busy_until, stream->id, sim.sequence, stream->device);
}

int sim_stream_query(gpu_stream stream)
{
    int code = sim_capture_refuse(stream) ?: sim_capture_check_unsafe();
    return code ? code : sim.sticky ? sim.sticky : sim.now < stream->busy_until ? GPU_NOT_READY : 0;
}

static uint64_t device_busy_until(int device)
{
    uint64_t time = sim_time_join(sim.devices[device].gone_until, sim.devices[device].legacy.busy_until);
    for (const struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        if (stream->device == device)
            time = sim_time_join(time, stream->busy_until);
    return time;
}

int sim_device_synchronize(int device)
{
    if (sim_capture_invalidate_device(device))
        return GPU_CAPTURE_UNSUPPORTED;
    return synchronize(device_busy_until(device), 0, sim.sequence, device);
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

int sim_event_find(gpu_event event)
{
    if (!sim_handles_have(&sim.event_handles, event))
        return GPU_INVALID_HANDLE;
    return event->is_open ? 0 : event->is_of_destroyed ? GPU_CONTEXT_DESTROYED : GPU_INVALID_HANDLE;
}

int sim_event_create(int device, gpu_event *made)
{
    struct sim_event *event = sim.spare_events;
    if (event) {
        sim.spare_events = event->next;
    } else {
        event = calloc(1, sizeof(*event));
        if (!event || !sim_handles_add(&sim.event_handles, event)) {
            free(event);
            return GPU_OUT_OF_MEMORY;
        }
    }
    *event = (struct sim_event){ .next = sim.events, .is_open = true, .device = device, .shared = -1 };
    event->context = sim_context_here(device);
    if (sim.events)
        sim.events->prev = event;
    sim.devices[device].used = true;
    sim.events = *made = event;
    return 0;
}

/* Closes the event and adds it to `list`, the spare or the dead events. */
static void close_event(struct sim_event *event, struct sim_event **list)
{
    event->is_open = false;
    if (event->prev)
        event->prev->next = event->next;
    else
        sim.events = event->next;
    if (event->next)
        event->next->prev = event->prev;
    sim_waits_clear(&event->waits);
    if (event->shared >= 0)
        sim_event_leave(event->shared);
    event->next = *list;
    *list = event;
}

int sim_event_destroy(gpu_event event)
{
    close_event(event, &sim.spare_events);
    return 0;
}

void sim_streams_end_context(uint64_t id)
{
    for (struct sim_stream *stream = sim.streams, *next; stream; stream = next) {
        next = stream->next;
        if (stream->context != id)
            continue;
        sim_capture_drop_origin(stream);
        stream->capture = NULL;
        sim_wait_until(stream->busy_until);
        sim_memory_observe(stream->id, sim.sequence, stream->device);
        sim_stream_destroy(stream);
    }
    for (struct sim_event *event = sim.events, *next; event; event = next) {
        next = event->next;
        if (event->context != id)
            continue;
        event->is_of_destroyed = true;
        close_event(event, &sim.dead_events);
    }
}

static int wait_for_all_of(struct sim_waits *waits, const struct sim_stream *stream)
{
    int code = waits_merge(waits, &stream->waits);
    return code ? code : sim_waits_add(waits, stream->id, sim.sequence);
}

/* Sets the event's new record: on `stream`, or on the whole device if that is 0. Takes over `waits`. */
static void set_record(struct sim_event *event, struct sim_waits waits, uint64_t stream, uint64_t sequence, uint64_t done_at)
{
    sim_waits_clear(&event->waits);
    event->waits = waits;
    event->stream = stream;
    event->sequence = sequence;
    event->capture = 0;
    event->done_at = done_at;
}

int sim_event_record(gpu_event event, gpu_stream stream)
{
    uint64_t context = stream->kind == SIM_STREAM_CREATED ? stream->context : sim_context_here(stream->device);
    if (event->device != stream->device || event->context != context)
        return GPU_INVALID_HANDLE;
    if (stream->capture) {
        event->capture = stream->capture->id;
        return 0;
    }
    struct sim_waits waits = { 0 };
    sim.sequence++;
    int code = wait_for_all_of(&waits, stream);
    if (!code && event->shared >= 0)
        code = sim_event_record_shared(event, stream);
    if (code)
        sim_waits_clear(&waits);
    else
        set_record(event, waits, stream->id, sim.sequence, sim_enqueue(stream, 0));
    return code;
}

int sim_event_record_device(gpu_event event, int device)
{
    struct sim_waits waits = { 0 };
    if (!sim_driver(12050))
        return GPU_NOT_SUPPORTED;
    if (event->device != device || event->context != sim_context_here(device) || event->shared >= 0)
        return GPU_INVALID_HANDLE;
    if (sim_capture_invalidate_device(device))
        return GPU_CAPTURE_UNSUPPORTED;
    sim.sequence++;
    int code = wait_for_all_of(&waits, &sim.devices[device].legacy);
    for (const struct sim_stream *stream = sim.streams; stream && !code; stream = stream->next)
        if (stream->device == device && stream->context == event->context)
            code = wait_for_all_of(&waits, stream);
    if (code)
        sim_waits_clear(&waits);
    else
        set_record(event, waits, 0, 0, device_busy_until(device));
    return code;
}

int sim_stream_wait_event(gpu_stream stream, gpu_event event)
{
    if (event->capture || stream->capture)
        return sim_capture_wait(stream, event);
    int code = sim_capture_enter(stream);
    if (!code)
        code = waits_merge(&stream->waits, &event->waits);
    if (!code)
        stream->busy_until = sim_time_join(stream->busy_until, sim_event_due(event, true));
    return code;
}

/* The common check of query and synchronise: neither may be called for an event that was recorded in a capture. */
static int check_event(const struct sim_event *event)
{
    if (event->capture) {
        sim_capture_invalidate(event->capture);
        return SIM_CAPTURED_EVENT;
    }
    return sim_capture_check_unsafe();
}

int sim_event_query(gpu_event event)
{
    int code = check_event(event);
    if (code)
        return code;
    return sim_event_due(event, false) <= sim.now ? 0 : GPU_NOT_READY;
}

int sim_event_synchronize(gpu_event event)
{
    int code = check_event(event);
    return code ? code : synchronize(sim_event_due(event, true), event->stream, event->sequence, event->device);
}
