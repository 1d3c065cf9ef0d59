/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "lib/record/recorder.h"

#define COVER_STEP (UINT64_C(64) << 20) /* bytes that an open stream frees before an event is recorded unasked */

/* Making and closing ------------------------------------------------------------------------------------------------------------------- */

static int reserve(struct weir__mapped *mapped, uint64_t memory)
{
    uint64_t unit = 4 * GPU_PAGE_UNIT, bytes = (memory + unit - 1) / unit * unit * WEIR__MAPPED_RANGE_SHARE;
    int code = GPU_OUT_OF_MEMORY;
    for (; code == GPU_OUT_OF_MEMORY && bytes >= memory; bytes = bytes / 2 / unit * unit) {
        code = mapped->backing.gpu->range_reserve(mapped->backing.device, bytes, &mapped->range);
        mapped->range_bytes = bytes;
    }
    return code == GPU_OUT_OF_MEMORY ? WEIR__PAGE_NO_ADDRESSES : code;
}

int weir__mapped_create(const struct gpu *gpu, int device, uint64_t memory, struct weir__mapped **mapped)
{
    struct weir__mapped *made = calloc(1, sizeof *made);
    if (!made)
        return WEIR__PAGE_NO_HOST_MEMORY;
    made->backing = (struct weir__backing){.gpu = gpu, .device = device};
    made->devices[0] = device;
    made->device_count = 1;
    int code = reserve(made, memory);
    if (code == GPU_SUCCESS && !weir__arena_init(&made->arena, (uintptr_t)made->range, made->range_bytes, &weir__mapped_pages, made)) {
        weir__arena_clear(&made->arena);
        gpu->range_free(made->range, made->range_bytes);
        code = WEIR__PAGE_NO_HOST_MEMORY;
    }
    if (code != GPU_SUCCESS) {
        free(made);
        return code;
    }
    weir__spin_init(&made->lock);
    weir__table_init(&made->streams);
    pthread_mutex_init(&made->growing, NULL);
    pthread_mutex_init(&made->events, NULL);
    *mapped = made;
    return GPU_SUCCESS;
}

static bool close_stream(struct weir__mapped_stream *stream, void *data)
{
    weir__mapped_stream_close(data, stream);
    return true;
}

bool weir__mapped_destroy(struct weir__mapped *mapped)
{
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    if (figures.live || figures.pending)
        return false;
    WEIR__MUST(weir__arena_is_valid(&mapped->arena));
    weir__mapped_trim(mapped, 0, 0);
    if (weir__mapped_figures(mapped).mapped || mapped->backing.gpu->range_free(mapped->range, mapped->range_bytes) != GPU_SUCCESS)
        return false;
    weir__mapped_streams_visit(mapped, close_stream, mapped);
    weir__spin_lock(&mapped->lock);
    weir__arena_clear(&mapped->arena);
    weir__spin_unlock(&mapped->lock);
    pthread_mutex_destroy(&mapped->events);
    pthread_mutex_destroy(&mapped->growing);
    weir__table_destroy(&mapped->streams);
    free(mapped);
    return true;
}

static void visit(struct weir__mapped *mapped, bool (*use)(struct weir__mapped_stream *stream, void *data), void *data)
{
    pthread_mutex_lock(&mapped->events);
    weir__mapped_streams_visit(mapped, use, data);
    pthread_mutex_unlock(&mapped->events);
}

static bool wait_for(struct weir__mapped_stream *stream, void *data)
{
    struct weir__mapped *mapped = data;
    while (stream->first.covers && weir__event_wait(mapped->backing.gpu, stream->first.event, UINT64_MAX))
        weir__mapped_stream_look(mapped, stream);
    return true;
}

void weir__mapped_wait(struct weir__mapped *mapped)
{
    visit(mapped, wait_for, mapped);
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

/* Called with mapped->lock. */
static uint64_t give(struct weir__mapped *mapped, struct weir__extent *extent, struct weir__mapped_stream *stream)
{
    stream->uncovered += extent->bytes;
    weir__arena_give(&mapped->arena, extent, &stream->freed, ++stream->sequence);
    return stream->sequence;
}

/* On an open stream that is known. false: it is not. */
static bool free_lazily(struct weir__mapped *mapped, struct weir__extent *extent, uint64_t id)
{
    weir__spin_lock(&mapped->lock);
    struct weir__mapped_stream *stream = weir__mapped_stream_find(mapped, id);
    bool is_known = stream && stream->is_open, is_due = false;
    if (is_known) {
        give(mapped, extent, stream);
        is_due = stream->uncovered >= COVER_STEP;
    }
    weir__spin_unlock(&mapped->lock);
    if (is_due && pthread_mutex_trylock(&mapped->events) == 0) {
        enum gpu_capture_mode mode = weir__relaxed_begin(mapped->backing.gpu);
        weir__mapped_stream_cover(mapped, stream, false);
        weir__relaxed_end(mapped->backing.gpu, mode);
        pthread_mutex_unlock(&mapped->events);
    }
    return is_known;
}

/* On any other: the event is recorded first, as without it the memory could never serve others. Called with mapped->events. */
static int free_behind_event(struct weir__mapped *mapped, struct weir__extent *extent, const struct weir__mapped_user *user)
{
    struct weir__mapped_stream *stream = weir__mapped_stream_of(mapped, user);
    if (!stream)
        return WEIR__PAGE_NO_HOST_MEMORY;
    int code = stream->is_open ? GPU_SUCCESS : weir__mapped_stream_record(mapped, stream);
    if (code == GPU_SUCCESS) {
        weir__spin_lock(&mapped->lock);
        uint64_t sequence = give(mapped, extent, stream);
        weir__spin_unlock(&mapped->lock);
        if (!stream->is_open)
            weir__mapped_stream_mark(stream, sequence);
    } else {
        weir__mapped_stream_drop(mapped, stream);
    }
    return code;
}

int weir__mapped_free(struct weir__mapped *mapped, struct weir__extent *extent, const struct weir__mapped_user *user)
{
    const struct gpu *gpu = mapped->backing.gpu;
    if (user->is_open && free_lazily(mapped, extent, user->id))
        return GPU_SUCCESS;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(&mapped->events);
    int code = free_behind_event(mapped, extent, user);
    pthread_mutex_unlock(&mapped->events);
    weir__relaxed_end(gpu, mode);
    return code;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

static bool captures(const struct gpu *gpu, const struct weir__mapped_stream *stream)
{
    enum gpu_capture_status capture;
    int former = weir__current_begin(gpu, stream->device, stream->handle);
    int code = gpu->stream_capture_status(stream->handle, &capture);
    weir__current_end(gpu, former);
    return code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE;
}

void weir__mapped_stream_closed(struct weir__mapped *mapped, uint64_t id)
{
    pthread_mutex_lock(&mapped->events);
    struct weir__mapped_stream *stream = weir__mapped_stream_find(mapped, id);
    if (stream) {
        weir__mapped_stream_cover(mapped, stream, true);
        stream->may_capture = captures(mapped->backing.gpu, stream);
        weir__mapped_stream_close(mapped, stream);
    }
    pthread_mutex_unlock(&mapped->events);
}

void weir__mapped_stream_gone(struct weir__mapped *mapped, uint64_t id)
{
    pthread_mutex_lock(&mapped->events);
    struct weir__mapped_stream *stream = weir__mapped_stream_find(mapped, id);
    if (stream)
        weir__mapped_stream_close(mapped, stream);
    pthread_mutex_unlock(&mapped->events);
}

static bool end_capture(struct weir__mapped_stream *stream, void *data)
{
    (void)data;
    stream->may_capture = false;
    return true;
}

void weir__mapped_captures_over(struct weir__mapped *mapped)
{
    visit(mapped, end_capture, NULL);
}

/* The streams that are lost. */
struct lost {
    struct weir__mapped *mapped;
    bool has_device_events, any;
};

static bool find_lost(struct weir__mapped_stream *stream, void *data)
{
    struct lost *lost = data;
    lost->any = weir__mapped_stream_is_lost(lost->mapped, stream);
    return !lost->any;
}

bool weir__mapped_has_lost(struct weir__mapped *mapped)
{
    struct lost lost = {.mapped = mapped};
    visit(mapped, find_lost, &lost);
    return lost.any;
}

static bool cover_lost(struct weir__mapped_stream *stream, void *data)
{
    const struct lost *lost = data;
    struct weir__mapped *mapped = lost->mapped;
    const struct gpu *gpu = mapped->backing.gpu;
    if (!weir__mapped_stream_is_lost(mapped, stream))
        return true;
    if (!lost->has_device_events) {
        if (gpu->device_synchronize(stream->device) == GPU_SUCCESS)
            weir__mapped_stream_complete(mapped, stream, stream->sequence);
        weir__mapped_stream_drop(mapped, stream);
    } else if (weir__mapped_stream_record_lost(mapped, stream)) {
        weir__mapped_stream_mark(stream, stream->sequence);
    }
    return true;
}

void weir__mapped_cover_lost(struct weir__mapped *mapped, bool has_device_events)
{
    struct lost lost = {.mapped = mapped, .has_device_events = has_device_events};
    visit(mapped, cover_lost, &lost);
}

void weir__mapped_cover(struct weir__mapped *mapped, uint64_t id)
{
    pthread_mutex_lock(&mapped->events);
    struct weir__mapped_stream *stream = weir__mapped_stream_find(mapped, id);
    if (stream)
        weir__mapped_stream_cover(mapped, stream, false);
    pthread_mutex_unlock(&mapped->events);
}

static bool cover(struct weir__mapped_stream *stream, void *data)
{
    weir__mapped_stream_cover(data, stream, false);
    return true;
}

void weir__mapped_cover_all(struct weir__mapped *mapped)
{
    visit(mapped, cover, mapped);
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

struct look {
    struct weir__mapped *mapped;
    bool is_left;
};

static bool look(struct weir__mapped_stream *stream, void *data)
{
    struct look *all = data;
    all->is_left = weir__mapped_stream_look(all->mapped, stream) || all->is_left;
    weir__mapped_stream_drop(all->mapped, stream);
    return true;
}

bool weir__mapped_look(struct weir__mapped *mapped)
{
    struct look all = {.mapped = mapped};
    visit(mapped, look, &all);
    return all.is_left;
}

/* Lets streams that are idle come to their last frees. */
static void settle(struct weir__mapped *mapped, uint64_t patience)
{
    uint64_t deadline = mapped->backing.gpu->now() + patience, pause = 0;
    weir__mapped_cover_all(mapped);
    while (weir__mapped_look(mapped) && patience && weir__event_pause(mapped->backing.gpu, &pause, deadline))
        continue;
}

uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience)
{
    settle(mapped, patience);
    pthread_mutex_lock(&mapped->growing);
    uint64_t before = weir__mapped_figures(mapped).mapped;
    weir__mapped_release_left(mapped);
    weir__spin_lock(&mapped->lock);
    uint64_t now = weir__mapped_bytes(mapped);
    if (now > keep)
        weir__arena_trim(&mapped->arena, now - keep);
    now = weir__mapped_bytes(mapped);
    weir__spin_unlock(&mapped->lock);
    pthread_mutex_unlock(&mapped->growing);
    return before - now;
}

/* Peers and figures -------------------------------------------------------------------------------------------------------------------- */

/* Gives all devices access to each page that is mapped. Called with mapped->growing, so that pages stay. */
static int give_access(const struct weir__mapped *mapped, const struct weir__pages *pages)
{
    int code = GPU_SUCCESS;
    for (uint64_t at = 0; at < pages->extents.bytes && code == GPU_SUCCESS;) {
        uint64_t bytes = pages->map[at / GPU_PAGE_UNIT].units * GPU_PAGE_UNIT;
        void *page = (void *)(uintptr_t)(pages->extents.base + at);
        if (bytes)
            code = mapped->backing.gpu->page_set_access(page, bytes, mapped->devices, mapped->device_count);
        at += bytes ? bytes : GPU_PAGE_UNIT;
    }
    return code;
}

int weir__mapped_set_peers(struct weir__mapped *mapped, const int *devices, size_t count)
{
    int former[GPU_PAGE_DEVICES_MAX];
    if (count >= GPU_PAGE_DEVICES_MAX)
        return GPU_NOT_SUPPORTED;
    pthread_mutex_lock(&mapped->growing);
    size_t former_count = mapped->device_count;
    memcpy(former, mapped->devices, sizeof former);
    memcpy(mapped->devices + 1, devices, count * sizeof *devices);
    mapped->device_count = count + 1;
    int code = give_access(mapped, &mapped->arena.large);
    if (code == GPU_SUCCESS)
        code = give_access(mapped, &mapped->arena.small);
    if (code != GPU_SUCCESS) {
        memcpy(mapped->devices, former, sizeof former);
        mapped->device_count = former_count;
    }
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    struct weir__arena_figures figures = weir__arena_figures(&mapped->arena);
    figures.mapped += mapped->left_bytes;
    weir__spin_unlock(&mapped->lock);
    return figures;
}

uint64_t weir__mapped_left(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    uint64_t bytes = mapped->left_bytes;
    weir__spin_unlock(&mapped->lock);
    return bytes;
}

bool weir__mapped_pinned(struct weir__mapped *mapped, size_t most, uint64_t *bytes)
{
    weir__spin_lock(&mapped->lock);
    bool is_known = weir__arena_pinned(&mapped->arena, most, bytes);
    weir__spin_unlock(&mapped->lock);
    return is_known;
}

uint64_t weir__mapped_high(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    uint64_t high = mapped->mapped_high;
    weir__spin_unlock(&mapped->lock);
    return high;
}

void weir__mapped_reset_high(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    mapped->mapped_high = weir__mapped_bytes(mapped);
    weir__spin_unlock(&mapped->lock);
}
