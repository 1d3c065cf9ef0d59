/* SPDX-License-Identifier: MIT */
#include "lib/alloc/orphans.h"

#include <stdlib.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/quiet.h"
#include "lib/base/event.h"

/* Returns the scope of all lines on which orphans of the device may still be in use. */
static struct weir__scope scope_of(const struct weir__device *device)
{
    return (struct weir__scope){.fences = device->fences, .group = device, .is_parked = true};
}

/* Keeping ------------------------------------------------------------------------------------------------------------------------------ */

#define ROOM 16 /* points that the spare object device->room can hold */

/* Returns a new object with room for `count` points. If host memory runs out, returns the spare object device->room if that is large
   enough, else NULL. Allocates a new spare object if the device has none. */
static struct weir__parked *room_for(struct weir__device *device, size_t count)
{
    struct weir__parked *room = weir__parked_new(count), *none = NULL;
    if (!room && count <= ROOM)
        room = atomic_exchange(&device->room, NULL);
    struct weir__parked *next = atomic_load(&device->room) ? NULL : weir__parked_new(ROOM);
    if (next && !atomic_compare_exchange_strong(&device->room, &none, next))
        free(next);
    return room;
}

void weir__orphans_init(struct weir__device *device)
{
    free(room_for(device, 0));
}

void weir__orphans_destroy(struct weir__device *device)
{
    struct weir__parked *parked = weir__fences_unpark(device->fences, device), *next;
    for (; parked; parked = next) {
        next = parked->next;
        free(parked);
    }
    free(atomic_load(&device->room));
}

void weir__orphans_park(struct weir__device *device, struct weir__parked *room, struct weir__entry *entries,
                        struct weir__line *const *lines, size_t count)
{
    room->items = entries;
    room->group = device;
    weir__park(device->fences, room, lines, count);
}

bool weir__orphans_add(struct weir__device *device, struct weir__entry *entry, struct weir__line *const *lines, size_t count)
{
    weir *w = device->w;
    struct weir__line *few[ROOM], **all = w->device_count <= ROOM ? few : calloc(w->device_count, sizeof(struct weir__line *));
    for (size_t d = 0; d < w->device_count && all; d++)
        all[d] = w->devices[d].fences->whole;
    count = lines ? count : w->device_count;
    struct weir__parked *room = lines || all ? room_for(device, count) : NULL;
    entry->next = NULL;
    if (room)
        weir__orphans_park(device, room, entry, lines ? lines : all, count);
    if (all != few)
        free(all);
    return room;
}

struct sum {
    const weir_pool *pool; /* sums the blocks of this pool; NULL: the blocks of all pools that wait for at least one stream */
    uint64_t bytes;        /* the sum so far */
};

static void add_bytes(const struct weir__parked *parked, void *data)
{
    struct sum *sum = data;
    bool counts = sum->pool;
    for (size_t i = 0; i < parked->count && !counts; i++)
        counts = atomic_load(&parked->points[i].line->kind) != WEIR__LINE_DEVICE;
    for (const struct weir__entry *entry = parked->items; entry && counts; entry = entry->next)
        if (!sum->pool || entry->pool == sum->pool)
            sum->bytes += weir__class_given(entry->class, entry->size);
}

uint64_t weir__orphans_bytes(struct weir__device *device, const weir_pool *pool)
{
    struct sum sum = {.pool = pool};
    weir__parked_visit(device->fences, device, add_bytes, &sum);
    return sum.bytes;
}

/* Events behind whole devices ---------------------------------------------------------------------------------------------------------- */

/* Returns true if an arena of the device has memory that was freed on a stream which is not open any more, and no mark covers that free. */
static bool have_arenas_lost(struct weir__device *device)
{
    bool have_lost = false;
    if (!device->w->has_arenas)
        return have_lost;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        const struct weir__scope scope = {.fences = device->fences, .debts = &pool->backing->debts};
        have_lost = have_lost || (pool->backing->ops->names_streams && weir__scope_lost(&scope));
    }
    return have_lost;
}

/* A stream that is closed may have been a stream of any device, so memory of arenas that was freed on such streams needs an event on every
   device. Events behind devices are recorded only while nothing captures. */
void weir__orphans_cover(struct weir__device *device, bool may_synchronise)
{
    const struct weir__scope scope = scope_of(device);
    weir *w = device->w;
    if (!device->fences->has_device_events && !may_synchronise)
        return;
    bool have_lost = have_arenas_lost(device);
    if (!(have_lost || weir__scope_needs_devices(&scope)) || !weir__quiet_begin(w->gpu))
        return;
    for (size_t d = 0; d < w->device_count && have_lost; d++)
        weir__fences_cover_device(w->devices[d].fences, may_synchronise);
    weir__scope_cover_devices(&scope, may_synchronise);
    weir__quiet_end();
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

/* Frees the orphans of the list `settled` (linked by `next`), whose points are all reached, on the stream, and counts the frees on its
   line. Returns the bytes freed. */
static uint64_t give_to(struct weir__device *device, struct weir__parked *settled, gpu_stream stream, const weir_stream *opened,
                        struct weir__line *line)
{
    uint64_t bytes = 0;
    for (struct weir__parked *parked = settled, *next; parked; parked = next) {
        next = parked->next;
        bytes += weir__flush_list(device, stream, opened, line, parked->items);
        free(parked);
    }
    return bytes;
}

/* Frees the orphans of the list `settled` on a new stream that is destroyed afterwards. If the stream cannot be created, the orphans are
   parked again without points, and the next look finds them. Returns the bytes freed. */
static uint64_t give_back(struct weir__device *device, struct weir__parked *settled)
{
    const struct gpu *gpu = device->w->gpu;
    gpu_stream stream;
    if (!settled)
        return 0;
    if (gpu->stream_create(device->index, &stream) != GPU_SUCCESS) {
        for (struct weir__parked *next; settled; settled = next) {
            next = settled->next;
            weir__park(device->fences, settled, NULL, 0);
        }
        return 0;
    }
    struct weir__line *line = weir__line_open(device->fences, &(struct weir__caller){.handle = stream});
    uint64_t bytes = give_to(device, settled, stream, NULL, line);
    /* If this fails, the line's last mark covers the frees, and the next thread that waits for frees synchronises that mark's event. */
    bool is_seen = gpu->stream_synchronize(stream) == GPU_SUCCESS;
    if (line)
        weir__line_end(line, is_seen);
    gpu->stream_destroy(stream);
    return bytes;
}

/* Frees the orphans whose points are reached by now. scope: the lines to look at, and which of their marks count. *left: the number of such
   marks that are not complete yet. Returns the bytes freed. */
static uint64_t look(struct weir__device *device, const struct weir__scope *scope, unsigned *left)
{
    weir__flush_begin(device);
    weir__scope_cover(scope, false);
    *left = weir__scope_look(scope);
    uint64_t bytes = give_back(device, weir__fences_settled(device->fences, device, NULL));
    weir__flush_end(device, bytes);
    return bytes;
}

void weir__orphans_give(struct weir__device *device, gpu_stream stream, const weir_stream *opened)
{
    const struct weir__scope scope = scope_of(device);
    enum gpu_capture_mode mode = weir__relaxed_begin(device->w->gpu);
    weir__flush_begin(device);
    weir__scope_look(&scope);
    struct weir__line *named = opened ? NULL : weir__stream_line(device, stream, 0), *own = opened ? opened->line : named;
    uint64_t bytes = give_to(device, weir__fences_settled(device->fences, device, own), stream, opened, own);
    if (named)
        weir__line_put(named);
    weir__flush_end(device, bytes);
    weir__relaxed_end(device->w->gpu, mode);
}

uint64_t weir__orphans_order(struct weir__device *device, gpu_stream stream, const weir_stream *opened, struct weir__line *line, uint64_t bytes)
{
    struct weir__parked *parked;
    uint64_t got = 0;
    weir__flush_begin(device);
    while (got < bytes && (parked = weir__fences_order(device->fences, device, line)))
        got += give_to(device, parked, stream, opened, line);
    weir__flush_end(device, got);
    return got;
}

uint64_t weir__orphans_look(struct weir__device *device, bool *left)
{
    const struct weir__scope scope = scope_of(device);
    /* Asked before weir__orphans_cover(): a capture that ends between the two calls may still have kept the events from being recorded. */
    bool are_others = weir__captures_are_others();
    unsigned count;
    weir__orphans_cover(device, false);
    uint64_t bytes = look(device, &scope, &count);
    *left = count || (are_others && device->fences->has_device_events && weir__scope_needs_devices(&scope));
    return bytes;
}

uint64_t weir__orphans_visit(struct weir__device *device)
{
    const struct weir__scope scope = scope_of(device);
    unsigned left;
    if (weir__scope_needs_devices(&scope) && weir__quiet_is(device->w->gpu))
        weir__scope_cover_devices(&scope, false);
    return look(device, &scope, &left);
}

uint64_t weir__orphans_free(struct weir__device *device, uint64_t deadline)
{
    struct weir__scope scope = scope_of(device);
    uint64_t pause = 0, bytes = 0;
    unsigned left;
    weir__orphans_cover(device, deadline == WEIR__NO_DEADLINE);
    weir__scope_cover(&scope, false);
    scope.until = weir__marks_made();
    do
        bytes += look(device, &scope, &left);
    while (left && weir__event_pause(device->w->gpu, &pause, deadline));
    return bytes;
}
