/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/late.h"

#include <stdlib.h>

#include "lib/alloc/stream.h"
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

/* Adds it to one of the device's lists. */
static void add(struct torch_note **list, struct torch_note *note)
{
    struct torch_device *device = note->device;
    count_waiting(note, 1);
    pthread_mutex_lock(&device->reserve_lock);
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITS, .ptr = note->ptr });
    note->next = *list;
    *list = note;
    pthread_mutex_unlock(&device->reserve_lock);
}

static void add_late(struct torch_note *note)
{
    atomic_fetch_add(&torch_busy, 1);
    atomic_fetch_add(&note->device->late_count, 1);
    add(&note->device->late, note);
}

/* Takes those of one stream, or of all (NULL), out of a list of the device. */
static struct torch_note *take(struct torch_device *device, struct torch_note **list, const struct torch_stream *stream)
{
    struct torch_note *taken = NULL;
    pthread_mutex_lock(&device->reserve_lock);
    for (struct torch_note **link = list, *note; (note = *link);) {
        if (stream && note->stream != stream) {
            link = &note->next;
            continue;
        }
        *link = note->next;
        note->next = taken;
        taken = note;
    }
    pthread_mutex_unlock(&device->reserve_lock);
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

/* The block that no stream can take. If there is no host memory for that, it is late until there is. */
static void orphan(struct torch_note *note)
{
    if (weir__block_orphan(note->device->w, note->ptr, NULL, 0, NULL) != WEIR_NO_HOST_MEMORY) {
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

/* Streams that use a block ------------------------------------------------------------------------------------------------------------- */

/* The lines of the streams that use a block, or a part of a reserve: for weir__park(). */
struct users {
    struct weir__line **lines;
    size_t count;
};

static enum outcome add_user(struct users *users, struct torch_device *device, struct torch_stream *stream)
{
    int index = atomic_load(&stream->device); /* of a living one it is known */
    if (!atomic_load(&stream->lives) || (size_t)index >= device->w->device_count)
        return LOST;
    struct weir__device *where = &device->w->devices[index];
    if (weir__handle_captures(where, stream->handle))
        return CAPTURES;
    if (index == device->index)
        torch_stream_open(stream, device); /* so that somebody can put an event there at any time */
    struct weir__line *line = weir__stream_line(where, stream->handle, 0);
    if (!line)
        return LOST;
    users->lines[users->count++] = line;
    return DONE;
}

/* users_end() follows. */
static enum outcome users_begin(struct users *users, const struct torch_note *note)
{
    *users = (struct users){.lines = calloc(note->recorded_count + 1, sizeof(struct weir__line *))};
    enum outcome outcome = users->lines ? DONE : LOST;
    if (outcome == DONE && note->stream)
        outcome = add_user(users, note->device, note->stream);
    for (size_t i = 0; i < note->recorded_count && outcome == DONE; i++)
        outcome = add_user(users, note->device, note->recorded[i]);
    return outcome;
}

/* If something was parked, the streams get their events now, so that it is had back as soon as it can be. An open stream of its own gets one
   when others look for memory: what it frees or asks for is behind its own work anyway. */
static void users_end(const struct users *users, bool is_parked, bool has_own)
{
    for (size_t i = 0; i < users->count; i++) {
        if (is_parked && !(has_own && i == 0 && atomic_load(&users->lines[i]->kind) == WEIR__LINE_OPEN))
            weir__line_cover(users->lines[i], true);
        weir__line_put(users->lines[i]);
    }
    free(users->lines);
}

/* The block becomes an orphan that waits for its own stream and those recorded. */
static enum outcome free_recorded(const struct torch_note *note)
{
    struct users users;
    enum gpu_capture_mode mode = weir__relaxed_begin(note->device->gpu);
    enum outcome outcome = users_begin(&users, note);
    if (outcome == DONE)
        outcome = outcome_of(weir__block_orphan(note->device->w, note->ptr, users.lines, users.count, NULL));
    users_end(&users, outcome == DONE, true);
    weir__relaxed_end(note->device->gpu, mode);
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

/* Parks for the streams that use the part; where one may be gone, for all work of the device. */
static void park_part(struct torch_note *note)
{
    struct weir__fences *fences = note->device->device->fences;
    struct users users;
    enum outcome outcome = users_begin(&users, note);
    struct weir__parked *parked = outcome == CAPTURES ? NULL : weir__parked_new(note->recorded_count + 1);
    note->is_parked = parked;
    if (parked) {
        parked->group = note;
        weir__park(fences, parked, outcome == DONE ? users.lines : &fences->whole, outcome == DONE ? users.count : 1);
    }
    users_end(&users, parked && outcome == DONE, false);
}

/* Whether the streams have done with it. waits: for what an event tells of. */
static bool is_reached(struct torch_note *note, bool waits)
{
    const struct gpu *gpu = note->device->gpu;
    struct weir__fences *fences = note->device->device->fences;
    const struct weir__scope scope = {.fences = fences, .group = note, .is_parked = true};
    weir__scope_cover(&scope, false);
    if (weir__scope_needs_devices(&scope) && weir__quiet_begin(gpu)) {
        weir__scope_cover_devices(&scope, false);
        weir__quiet_end();
    }
    weir__scope_finish(&scope, waits ? UINT64_MAX : 0);
    struct weir__parked *settled = weir__fences_settled(fences, note, NULL);
    bool is_settled = settled;
    free(settled);
    note->is_parked = note->is_parked && !is_settled;
    return is_settled;
}

/* Nothing of a graph's is freed while something captures: the event would become part of it. What cannot be waited for stays. */
static enum outcome free_part(struct torch_note *note)
{
    struct torch_device *device = note->device;
    if (atomic_load(&device->begun))
        return CAPTURES;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    if (!note->is_parked && note->recorded_count)
        park_part(note);
    bool is_done = !note->recorded_count || is_reached(note, false);
    weir__relaxed_end(device->gpu, mode);
    if (!is_done)
        return CAPTURES;
    torch_reserve_free(device, note->ptr);
    return DONE;
}

static enum outcome try_free(struct torch_note *note)
{
    if (note->is_reserve)
        return free_part(note);
    if (!note->stream || !atomic_load(&note->stream->lives))
        return LOST;
    return note->recorded_count ? free_recorded(note) : free_plainly(note->device, note->ptr, note->stream);
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

void torch_late_free(struct torch_device *device, void *ptr, size_t size, struct torch_stream *stream, struct torch_note *note,
                     bool is_alive)
{
    if (!note && stream && atomic_load(&stream->lives) && free_plainly(device, ptr, stream) == DONE)
        return;
    if (!note && !(note = torch_note_new())) {
        weir__block_orphan(device->w, ptr, NULL, 0, NULL);
        return;
    }
    note->ptr = ptr;
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
        add(&device->nameless, note);
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
    if (!note->recorded_count)
        return true;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    park_part(note);
    bool is_settled = is_reached(note, true);
    free(weir__fences_unpark(device->device->fences, note));
    note->is_parked = false;
    weir__relaxed_end(device->gpu, mode);
    return is_settled;
}

void torch_late_retry(struct torch_device *device)
{
    struct torch_note *notes = take(device, &device->late, NULL), *note;
    while ((note = pop(&notes))) {
        atomic_fetch_sub(&device->late_count, 1);
        conclude(note, try_free(note));
        atomic_fetch_sub(&torch_busy, 1);
    }
}

void torch_late_named(struct torch_stream *stream, struct torch_device *device, uint64_t id)
{
    struct torch_note *notes = atomic_load(&device->waiting_count) ? take(device, &device->nameless, stream) : NULL, *note;
    while ((note = pop(&notes)))
        conclude(note, note->id == id ? outcome_of((weir_free)(device->w, note->ptr, stream->handle)) : LOST);
}

uint64_t torch_late_orphan(struct torch_device *device)
{
    uint64_t bytes = 0;
    struct torch_note *notes = take(device, &device->nameless, NULL), *note;
    while ((note = pop(&notes))) {
        bytes += note->size;
        orphan(note);
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
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_note *note = device->late; note; note = note->next)
        use(note, data);
    for (const struct torch_note *note = device->nameless; note; note = note->next)
        use(note, data);
    pthread_mutex_unlock(&device->reserve_lock);
}
