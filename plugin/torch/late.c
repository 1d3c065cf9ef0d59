/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/late.h"

#include "lib/alloc/stream.h"
#include "lib/base/event.h"
#include "plugin/torch/history.h"
#include "plugin/torch/reserve.h"

enum outcome {
    DONE,
    CAPTURES, /* not now */
    LOST,     /* no stream can take it */
};

/* What waits --------------------------------------------------------------------------------------------------------------------------- */

static void count_waiting(const struct torch_note *note, int sign)
{
    struct torch_device *device = note->device;
    if (note->is_reserve)
        return;
    atomic_fetch_add_explicit(&device->waiting_bytes, (uint64_t)sign * note->size, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->waiting_count, (uint64_t)sign, memory_order_relaxed);
}

static void add_late(struct torch_note *note)
{
    struct torch_device *device = note->device;
    count_waiting(note, 1);
    atomic_fetch_add(&torch_busy, 1);
    weir__spin_lock(&device->late_lock);
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITS, .ptr = note->ptr });
    note->next = device->late;
    device->late = note;
    atomic_fetch_add(&device->late_count, 1);
    weir__spin_unlock(&device->late_lock);
}

static void add_waiting(struct torch_stream *stream, struct torch_note *note)
{
    count_waiting(note, 1);
    weir__spin_lock(&stream->lock);
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITS, .ptr = note->ptr });
    note->next = stream->waiting;
    stream->waiting = note;
    weir__spin_unlock(&stream->lock);
}

/* Takes those of one device, or of all (NULL), out of the stream's list. */
static struct torch_note *take_waiting(struct torch_stream *stream, const struct torch_device *device)
{
    struct torch_note *taken = NULL;
    weir__spin_lock(&stream->lock);
    for (struct torch_note **link = &stream->waiting; *link;) {
        struct torch_note *note = *link;
        if (device && note->device != device) {
            link = &note->next;
            continue;
        }
        *link = note->next;
        note->next = taken;
        taken = note;
    }
    weir__spin_unlock(&stream->lock);
    return taken;
}

/* Takes the first of a list that waits no more; NULL: it is empty. */
static struct torch_note *pop(struct torch_note **notes)
{
    struct torch_note *note = *notes;
    if (!note)
        return NULL;
    *notes = note->next;
    count_waiting(note, -1);
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_GOES_ON, .ptr = note->ptr });
    return note;
}

/* What becomes of it ------------------------------------------------------------------------------------------------------------------- */

/* The block that no stream can take. If there is no host memory for that, it is late until there is. */
static void orphan(struct torch_note *note)
{
    if (weir__block_orphan(note->device->w, note->ptr, NULL) != WEIR_NO_HOST_MEMORY) {
        torch_note_free(note);
        return;
    }
    note->stream = NULL;
    add_late(note);
}

static void conclude(struct torch_note *note, enum outcome outcome)
{
    const void *ptr = note->ptr;
    if (outcome == DONE) {
        torch_note_free(note);
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_DONE, .ptr = ptr });
    } else if (outcome == CAPTURES) {
        add_late(note);
    } else {
        orphan(note);
    }
}

static enum outcome outcome_of(weir_status status)
{
    switch (status) {
    case WEIR_CAPTURING:
        return CAPTURES;
    case WEIR_OK:
    case WEIR_NOT_A_BLOCK: /* torch frees what it does not have: there is nobody to tell */
    case WEIR_BUSY:        /* an export has it, and will free it */
    case WEIR_FORKED:
        return DONE;
    default:
        return LOST;
    }
}

/* Lets the stream of Weir's own wait for the present work of a living one. */
static enum outcome wait_behind(struct torch_device *device, gpu_stream behind, struct torch_stream *stream)
{
    const struct gpu *gpu = device->gpu;
    gpu_event event;
    bool lives = atomic_load(&stream->lives);
    int index = atomic_load(&stream->device); /* of a living one it is known */
    if (!lives || (size_t)index >= device->w->device_count)
        return LOST;
    const struct weir__device *where = &device->w->devices[index];
    if (weir__handle_captures(where, stream->handle))
        return CAPTURES;
    if (!weir__event_behind(gpu, index, stream->handle, &event))
        return weir__handle_captures(where, stream->handle) ? CAPTURES : LOST;
    int code = gpu->stream_wait_event(behind, event);
    gpu->event_destroy(event);
    return code == GPU_SUCCESS ? DONE : LOST;
}

/* A block that other streams use. That Weir's own stream waits for more than it has to, where a later one captures, does no harm. */
static enum outcome free_behind(struct torch_note *note)
{
    struct torch_device *device = note->device;
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    gpu_stream behind = torch_device_stream(device, &device->behind, &code);
    enum outcome outcome = behind ? wait_behind(device, behind, note->stream) : LOST;
    for (size_t i = 0; i < note->recorded_count && outcome == DONE; i++)
        outcome = wait_behind(device, behind, note->recorded[i]);
    if (outcome == DONE)
        outcome = outcome_of((weir_free)(device->w, note->ptr, behind));
    weir__relaxed_end(device->gpu, mode);
    return outcome;
}

/* A block that its own stream alone uses, which lives. */
static enum outcome free_plainly(struct torch_device *device, void *ptr, struct torch_stream *stream)
{
    weir_stream *opened = torch_stream_opened(stream, device);
    /* With cache.capture_check: false the cache would not see it. */
    if (atomic_load_explicit(&device->begun, memory_order_relaxed) && weir__handle_captures(device->device, stream->handle))
        return CAPTURES;
    return outcome_of(opened ? weir_stream_free(opened, ptr) : (weir_free)(device->w, ptr, stream->handle));
}

static enum outcome record_device(struct torch_note *note)
{
    const struct gpu *gpu = note->device->gpu;
    int index = note->device->index;
    if (gpu->event_create(index, &note->event) == GPU_SUCCESS) {
        if (gpu->event_record_device(note->event, index) == GPU_SUCCESS)
            return DONE;
        gpu->event_destroy(note->event);
    }
    note->event = NULL;
    return LOST;
}

/* An event behind all streams that use the part; where one may be gone, behind all work of the device, if that can be had. */
static enum outcome record_users(struct torch_note *note)
{
    struct torch_device *device = note->device;
    const struct gpu *gpu = device->gpu;
    int code = GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    gpu_stream behind = torch_device_stream(device, &device->behind, &code);
    enum outcome outcome = behind ? DONE : LOST;
    for (size_t i = 0; i < note->recorded_count && outcome == DONE; i++)
        outcome = wait_behind(device, behind, note->recorded[i]);
    if (outcome == DONE && !weir__event_behind(gpu, device->index, behind, &note->event))
        outcome = LOST;
    if (outcome == LOST && device->device->has_device_events && weir__quiet_begin(gpu)) {
        outcome = record_device(note);
        weir__quiet_end();
    }
    weir__relaxed_end(gpu, mode);
    return outcome;
}

/* Nothing of a graph's is freed while something captures: the event would become part of it. What cannot be waited for stays. */
static enum outcome free_part(struct torch_note *note)
{
    const struct gpu *gpu = note->device->gpu;
    if (atomic_load(&note->device->begun))
        return CAPTURES;
    if (!note->event && note->recorded_count && record_users(note) != DONE)
        return CAPTURES;
    if (note->event && weir__event_look(gpu, note->event) == WEIR__EVENT_PENDING)
        return CAPTURES;
    if (note->event)
        gpu->event_destroy(note->event);
    torch_reserve_free(note->device, note->ptr);
    return DONE;
}

static enum outcome try_free(struct torch_note *note)
{
    if (note->is_reserve)
        return free_part(note);
    if (!note->stream || !atomic_load(&note->stream->lives))
        return LOST;
    return note->recorded_count ? free_behind(note) : free_plainly(note->device, note->ptr, note->stream);
}

/* The block's own stream is behind itself. */
static void forget_own(struct torch_note *note, const struct torch_stream *stream)
{
    size_t count = 0;
    for (size_t i = 0; i < note->recorded_count; i++)
        if (note->recorded[i] != stream)
            note->recorded[count++] = note->recorded[i];
    note->recorded_count = count;
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

/* A block without a note, on a stream that lives. */
static void free_unnoted(struct torch_device *device, void *ptr, size_t size, struct torch_stream *stream)
{
    enum outcome outcome = free_plainly(device, ptr, stream);
    struct torch_note *note = outcome == CAPTURES ? torch_note_new() : NULL;
    if (note) {
        note->ptr = ptr;
        note->size = size;
        note->device = device;
        note->stream = stream;
        add_late(note);
    } else if (outcome != DONE) {
        weir__block_orphan(device->w, ptr, NULL);
    }
}

void torch_late_free(struct torch_device *device, void *ptr, size_t size, struct torch_stream *stream, struct torch_note *note,
                     bool is_alive)
{
    if (!note && stream && atomic_load(&stream->lives)) {
        free_unnoted(device, ptr, size, stream);
        return;
    }
    if (!note) {
        weir__block_orphan(device->w, ptr, NULL);
        return;
    }
    bool is_external = note->stream;
    note->device = device;
    note->size = size;
    /* If its stream lives after all, as was found since, no allocation will name it. The handle may be that of a later one. */
    const weir_stream *opened = is_external ? torch_stream_opened(note->stream, device) : NULL;
    if (opened && note->has_id && note->id == opened->id) {
        is_external = false;
        stream = note->stream;
    }
    if (!is_external && stream) {
        note->stream = stream;
        forget_own(note, stream);
    }
    if (is_external && is_alive && stream && !note->recorded_count && free_plainly(device, ptr, stream) == DONE)
        torch_note_free(note);
    else if (is_external && !opened && note->has_id && !note->recorded_count)
        add_waiting(note->stream, note);
    else if (is_external)
        orphan(note);
    else
        conclude(note, try_free(note));
}

void torch_late_add(struct torch_device *device, void *ptr, size_t size, struct torch_note *note)
{
    note->device = device;
    note->ptr = ptr;
    note->size = size;
    note->is_reserve = true;
    torch_reserve_wait(device, ptr);
    conclude(note, try_free(note));
}

bool torch_late_settle(struct torch_device *device, struct torch_note *note)
{
    note->device = device;
    enum outcome outcome = note->recorded_count ? record_users(note) : DONE;
    bool is_settled = outcome == DONE;
    if (note->event) {
        is_settled = weir__event_wait(device->gpu, note->event, UINT64_MAX);
        device->gpu->event_destroy(note->event);
        note->event = NULL;
    }
    return is_settled;
}

void torch_late_retry(struct torch_device *device)
{
    weir__spin_lock(&device->late_lock);
    struct torch_note *notes = device->late, *note;
    device->late = NULL;
    weir__spin_unlock(&device->late_lock);
    while ((note = pop(&notes))) {
        atomic_fetch_sub(&device->late_count, 1);
        conclude(note, try_free(note));
        atomic_fetch_sub(&torch_busy, 1);
    }
}

void torch_late_named(struct torch_stream *stream, struct torch_device *device, uint64_t id)
{
    struct torch_note *notes = take_waiting(stream, NULL), *note;
    while ((note = pop(&notes)))
        conclude(note, note->device == device && note->has_id && note->id == id
                           ? outcome_of((weir_free)(device->w, note->ptr, stream->handle))
                           : LOST);
}

uint64_t torch_late_orphan(struct torch_device *device)
{
    uint64_t bytes = 0;
    for (struct torch_stream *stream = torch_stream_next(NULL); stream; stream = torch_stream_next(stream)) {
        struct torch_note *notes = take_waiting(stream, device), *note;
        while ((note = pop(&notes))) {
            bytes += note->size;
            orphan(note);
        }
    }
    return bytes;
}

uint64_t torch_late_spare(void *data, int index, uint64_t needed)
{
    struct torch_device *device = data;
    /* The ladder waits for orphans. */
    return index == device->index && needed ? torch_late_orphan(device) : 0;
}

void torch_late_each(struct torch_device *device, void (*use)(const struct torch_note *note, void *data), void *data)
{
    weir__spin_lock(&device->late_lock);
    for (const struct torch_note *note = device->late; note; note = note->next)
        use(note, data);
    weir__spin_unlock(&device->late_lock);
    for (struct torch_stream *stream = torch_stream_next(NULL); stream; stream = torch_stream_next(stream)) {
        weir__spin_lock(&stream->lock);
        for (const struct torch_note *note = stream->waiting; note; note = note->next)
            if (note->device == device)
                use(note, data);
        weir__spin_unlock(&stream->lock);
    }
}
