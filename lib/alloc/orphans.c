/* SPDX-License-Identifier: MIT */
#include "lib/alloc/orphans.h"

#include <stdlib.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/quiet.h"
#include "lib/base/event.h"

/* Orphans that wait for the same events. */
struct weir__orphans_mark {
    struct weir__orphans_mark *next;
    uint64_t number;
    bool is_claimed; /* one thread asks its events just now */
    struct weir__entry *entries;
    size_t count; /* of events that were not seen complete */
    gpu_event events[];
};

/* Lists -------------------------------------------------------------------------------------------------------------------------------- */

void weir__orphans_init(struct weir__orphans *orphans)
{
    *orphans = (struct weir__orphans){ .marks = NULL };
    weir__spin_init(&orphans->lock);
}

static void free_mark(const struct gpu *gpu, struct weir__orphans_mark *mark)
{
    while (mark->count)
        gpu->event_destroy(mark->events[--mark->count]);
    free(mark);
}

void weir__orphans_destroy(struct weir__device *device)
{
    while (device->orphans.marks) {
        struct weir__orphans_mark *mark = device->orphans.marks;
        device->orphans.marks = mark->next;
        free_mark(device->w->gpu, mark);
    }
}

/* Called with the lock. */
static void prepend(struct weir__entry **list, struct weir__entry *entries)
{
    while (entries) {
        struct weir__entry *entry = entries;
        entries = entry->next;
        entry->next = *list;
        *list = entry;
    }
}

void weir__orphans_add_list(struct weir__device *device, struct weir__entry *entries, enum weir__reach reach)
{
    weir__spin_lock(&device->orphans.lock);
    prepend(&device->orphans.fresh[reach], entries);
    weir__spin_unlock(&device->orphans.lock);
}

bool weir__orphans_add(struct weir__device *device, const struct weir__block *block, enum weir__reach reach)
{
    struct weir__entry *entry = weir__blocks_put_back(&device->w->blocks, block, false);
    if (!entry)
        return false;
    entry->next = NULL;
    weir__orphans_add_list(device, entry, reach);
    return true;
}

void weir__orphans_release(struct weir__device *device)
{
    struct weir__orphans *orphans = &device->orphans;
    weir__spin_lock(&orphans->lock);
    prepend(&orphans->fresh[WEIR__REACH_DEVICE], orphans->fresh[WEIR__REACH_CAPTURE]);
    orphans->fresh[WEIR__REACH_CAPTURE] = NULL;
    weir__spin_unlock(&orphans->lock);
    weir__device_tell(device, WEIR__TELL_NO_CAPTURES, 0);
}

static uint64_t sum_of(const struct weir__entry *entries, const weir_pool *pool)
{
    uint64_t bytes = 0;
    for (; entries; entries = entries->next)
        if (entries->pool == pool)
            bytes += weir__class_given(entries->class, entries->size);
    return bytes;
}

uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool)
{
    struct weir__orphans *orphans = &device->orphans;
    uint64_t bytes = 0;
    weir__spin_lock(&orphans->lock);
    for (unsigned reach = 0; reach < WEIR__REACH_COUNT; reach++)
        bytes += sum_of(orphans->fresh[reach], pool);
    for (const struct weir__orphans_mark *mark = orphans->marks; mark; mark = mark->next)
        bytes += sum_of(mark->entries, pool);
    weir__spin_unlock(&orphans->lock);
    return bytes;
}

static struct weir__entry *first_fresh(struct weir__device *device, enum weir__reach reach)
{
    weir__spin_lock(&device->orphans.lock);
    struct weir__entry *first = device->orphans.fresh[reach];
    weir__spin_unlock(&device->orphans.lock);
    return first;
}

bool weir__orphans_are_due(struct weir__device *device)
{
    const struct weir__orphans *orphans = &device->orphans;
    weir__spin_lock(&device->orphans.lock);
    bool are_due = orphans->marks, are_fresh = orphans->fresh[WEIR__REACH_DEVICE] || orphans->fresh[WEIR__REACH_PROCESS];
    weir__spin_unlock(&device->orphans.lock);
    return are_due || (are_fresh && device->has_device_events && weir__captures_are_others());
}

/* Marking ------------------------------------------------------------------------------------------------------------------------------ */

/* Cuts off what came no later than `first`, which only one thread at a time does. */
static struct weir__entry *cut(struct weir__orphans *orphans, struct weir__entry *first, enum weir__reach reach)
{
    struct weir__entry **link = &orphans->fresh[reach];
    while (*link != first)
        link = &(*link)->next;
    *link = NULL;
    return first;
}

/* Whether work that can use such an orphan of the device may be on this one. */
static bool is_reached(const struct weir__device *device, const struct weir__device *other, enum weir__reach reach)
{
    return other == device || (reach == WEIR__REACH_PROCESS && weir__device_is_used(other));
}

/* An event behind all present work of the device. */
static bool record(const struct gpu *gpu, int device, gpu_event *event)
{
    int code = gpu->event_create(device, event);
    if (code == GPU_SUCCESS && (code = gpu->event_record_device(*event, device)) != GPU_SUCCESS)
        gpu->event_destroy(*event);
    return code == GPU_SUCCESS;
}

/* Records events for what is fresh; if one cannot be had it stays so. Called while nothing captures. */
static void mark_fresh(struct weir__device *device, enum weir__reach reach)
{
    weir *w = device->w;
    struct weir__orphans *orphans = &device->orphans;
    struct weir__entry *first = first_fresh(device, reach);
    struct weir__orphans_mark *mark = first ? malloc(sizeof *mark + w->device_count * sizeof *mark->events) : NULL;
    bool are_recorded = mark;
    if (!mark)
        return;
    *mark = (struct weir__orphans_mark){ .count = 0 };
    for (size_t d = 0; d < w->device_count && are_recorded; d++)
        if (is_reached(device, &w->devices[d], reach)) {
            are_recorded = record(w->gpu, (int)d, &mark->events[mark->count]);
            mark->count += are_recorded;
        }
    if (!are_recorded) {
        free_mark(w->gpu, mark);
        return;
    }
    weir__spin_lock(&orphans->lock);
    mark->entries = cut(orphans, first, reach);
    mark->number = orphans->marks_made++;
    mark->next = orphans->marks;
    orphans->marks = mark;
    weir__spin_unlock(&orphans->lock);
}

/* Without such events: the orphans whose work is done, since all of it is. Called while nothing captures. */
static struct weir__entry *synchronise(struct weir__device *device, enum weir__reach reach)
{
    weir *w = device->w;
    struct weir__orphans *orphans = &device->orphans;
    struct weir__entry *first = first_fresh(device, reach);
    int code = GPU_SUCCESS;
    for (size_t d = 0; first && d < w->device_count && code == GPU_SUCCESS; d++)
        if (is_reached(device, &w->devices[d], reach))
            code = w->gpu->device_synchronize((int)d);
    if (!first || code != GPU_SUCCESS)
        return NULL;
    weir__spin_lock(&orphans->lock);
    first = cut(orphans, first, reach);
    weir__spin_unlock(&orphans->lock);
    return first;
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

/* The next mark below number *below that no other thread asks, for this one alone. NULL at the end. */
static struct weir__orphans_mark *claim(struct weir__orphans *orphans, uint64_t *below)
{
    weir__spin_lock(&orphans->lock);
    struct weir__orphans_mark *mark = orphans->marks;
    while (mark && (mark->number >= *below || mark->is_claimed))
        mark = mark->next;
    if (mark) {
        mark->is_claimed = true;
        *below = mark->number;
    }
    weir__spin_unlock(&orphans->lock);
    return mark;
}

static void unclaim(struct weir__orphans *orphans, struct weir__orphans_mark *mark, bool done)
{
    weir__spin_lock(&orphans->lock);
    mark->is_claimed = false;
    struct weir__orphans_mark **link = &orphans->marks;
    while (done && *link != mark)
        link = &(*link)->next;
    if (done)
        *link = mark->next;
    weir__spin_unlock(&orphans->lock);
}

/* Asks the events once each, up to the first that is not complete. */
static enum weir__event_state ask(const struct gpu *gpu, struct weir__orphans_mark *mark)
{
    enum weir__event_state state = WEIR__EVENT_COMPLETE;
    while (mark->count && (state = weir__event_look(gpu, mark->events[mark->count - 1])) == WEIR__EVENT_COMPLETE)
        gpu->event_destroy(mark->events[--mark->count]);
    return state;
}

static uint64_t give_back(struct weir__device *device, struct weir__entry *entries)
{
    const struct gpu *gpu = device->w->gpu;
    gpu_stream stream;
    if (!entries)
        return 0;
    if (gpu->stream_create(device->index, &stream) != GPU_SUCCESS) {
        weir__orphans_add_list(device, entries, WEIR__REACH_DEVICE);
        return 0;
    }
    struct weir__line *line = weir__line_open(device->fences, &(struct weir__caller){.handle = stream});
    uint64_t bytes = weir__flush_list(device, stream, NULL, line, entries);
    /* Else whoever waits for frees next lets CUDA see these. */
    bool is_seen = gpu->stream_synchronize(stream) == GPU_SUCCESS;
    if (line)
        weir__line_end(line, is_seen);
    gpu->stream_destroy(stream);
    return bytes;
}

/* Frees what is done by now. *left: whether a later look may find more. Returns the bytes. */
static uint64_t look(struct weir__device *device, bool *left)
{
    struct weir__orphans *orphans = &device->orphans;
    struct weir__orphans_mark *mark;
    uint64_t below = UINT64_MAX, bytes = 0;
    *left = false;
    weir__flush_begin(device);
    while ((mark = claim(orphans, &below))) {
        enum weir__event_state state = ask(device->w->gpu, mark);
        unclaim(orphans, mark, state == WEIR__EVENT_COMPLETE);
        *left = *left || state == WEIR__EVENT_PENDING;
        if (state != WEIR__EVENT_COMPLETE)
            continue;
        bytes += give_back(device, mark->entries);
        free(mark);
    }
    weir__flush_end(device, bytes);
    return bytes;
}

/* Begins to wait for what is fresh; frees it at once where the devices have to be synchronised for it. Returns the bytes. */
static uint64_t begin(struct weir__device *device, enum weir__reach reach, bool may_synchronise)
{
    struct weir__entry *done = NULL;
    if (!first_fresh(device, reach) || !(device->has_device_events || may_synchronise) || !weir__quiet_begin(device->w->gpu))
        return 0;
    if (device->has_device_events)
        mark_fresh(device, reach);
    else
        done = synchronise(device, reach);
    weir__quiet_end();
    return give_back(device, done);
}

void weir__orphans_cover(struct weir__device *device, bool may_synchronise)
{
    if (!(device->has_device_events || may_synchronise) || !weir__device_tell(device, WEIR__TELL_LOST, 0) ||
        !weir__quiet_begin(device->w->gpu))
        return;
    weir__device_tell(device, device->has_device_events ? WEIR__TELL_COVER_LOST : WEIR__TELL_WAIT_LOST, 0);
    weir__quiet_end();
}

uint64_t weir__orphans_look(struct weir__device *device, bool *left)
{
    for (unsigned reach = 0; reach < WEIR__REACH_CAPTURE && device->has_device_events; reach++)
        if (first_fresh(device, reach) && weir__quiet_is(device->w->gpu))
            mark_fresh(device, reach);
    return look(device, left);
}

uint64_t weir__orphans_free(struct weir__device *device, uint64_t deadline)
{
    weir__orphans_cover(device, deadline == WEIR__NO_DEADLINE);
    uint64_t pause = 0, bytes = begin(device, WEIR__REACH_DEVICE, deadline == WEIR__NO_DEADLINE);
    bool left;
    bytes += begin(device, WEIR__REACH_PROCESS, deadline == WEIR__NO_DEADLINE);
    do
        bytes += look(device, &left);
    while (left && weir__event_pause(device->w->gpu, &pause, deadline));
    return bytes;
}
