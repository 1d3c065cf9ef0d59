/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/base/event.h"

#define COVER_STEP (UINT64_C(64) << 20) /* bytes that an open stream frees before an event is recorded unasked */

struct weir__mapped_stream *weir__mapped_stream_find(const struct weir__mapped *mapped, uint64_t id)
{
    struct weir__link *link = id ? weir__table_first(&mapped->streams, id) : NULL;
    return link ? WEIR__ITEM(link, struct weir__mapped_stream, link) : NULL;
}

static struct gpu_context context_of(const struct gpu *gpu, const struct weir__user *user)
{
    struct gpu_context context = {.handle = NULL}; /* where the driver cannot tell, it counts as alive */
    int former = weir__current_begin(gpu, user->device, user->handle);
    gpu->stream_context(user->handle, &context);
    weir__current_end(gpu, former);
    return context;
}

struct weir__mapped_stream *weir__mapped_stream_of(struct weir__mapped *mapped, const struct weir__user *user)
{
    /* The list changes only under mapped->events. */
    struct weir__mapped_stream *stream = weir__mapped_stream_find(mapped, user->id);
    bool is_new = !stream;
    if (is_new && !(stream = calloc(1, sizeof *stream)))
        return NULL;
    if (is_new)
        stream->device = weir__event_device(mapped->backing.gpu, user->device, user->handle);
    stream->handle = user->handle;
    stream->may_capture = false;
    if (user->is_open && !stream->is_open)
        stream->context = context_of(mapped->backing.gpu, user);
    weir__spin_lock(&mapped->lock);
    stream->is_open = stream->is_open || user->is_open;
    if (is_new) {
        stream->id = user->id;
        weir__table_add(&mapped->streams, &stream->link, user->id, user->id);
    }
    weir__spin_unlock(&mapped->lock);
    return stream;
}

void weir__mapped_stream_close(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    weir__spin_lock(&mapped->lock);
    stream->is_open = false;
    weir__spin_unlock(&mapped->lock);
    weir__mapped_stream_drop(mapped, stream);
}

void weir__mapped_stream_drop(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    weir__spin_lock(&mapped->lock);
    bool is_done = !stream->is_open && !stream->users && !stream->freed.small.oldest && !stream->freed.large.oldest;
    if (is_done)
        weir__table_remove(&mapped->streams, &stream->link);
    weir__spin_unlock(&mapped->lock);
    if (!is_done)
        return;
    if (stream->first.event)
        mapped->backing.gpu->event_destroy(stream->first.event);
    if (stream->later.event)
        mapped->backing.gpu->event_destroy(stream->later.event);
    if (stream->spare)
        mapped->backing.gpu->event_destroy(stream->spare);
    free(stream);
}

int weir__mapped_stream_record(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    const struct gpu *gpu = mapped->backing.gpu;
    int code = stream->spare ? GPU_SUCCESS : gpu->event_create(stream->device, &stream->spare);
    if (code != GPU_SUCCESS) {
        stream->spare = NULL;
        return code;
    }
    code = weir__event_record(gpu, stream->device, stream->handle, stream->spare);
    if (code != GPU_SUCCESS) {
        gpu->event_destroy(stream->spare);
        stream->spare = NULL;
    }
    return code;
}

/* With a new event, since the spare one may be of a context that was destroyed. */
bool weir__mapped_stream_record_lost(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    const struct gpu *gpu = mapped->backing.gpu;
    gpu_event event;
    if (gpu->event_create(stream->device, &event) != GPU_SUCCESS)
        return false;
    bool is_recorded = gpu->event_record_device(event, stream->device) == GPU_SUCCESS;
    gpu_event unused = is_recorded ? stream->spare : event;
    if (unused)
        gpu->event_destroy(unused);
    if (is_recorded)
        stream->spare = event;
    return is_recorded;
}

void weir__mapped_stream_mark(struct weir__mapped_stream *stream, uint64_t sequence)
{
    struct weir__mapped_mark *mark = stream->first.covers ? &stream->later : &stream->first;
    gpu_event unused = mark->event;
    *mark = (struct weir__mapped_mark){.event = stream->spare, .covers = sequence};
    stream->spare = unused;
}

static const struct weir__mapped_mark *last_mark(const struct weir__mapped_stream *stream)
{
    const struct weir__mapped_mark *last = stream->later.covers ? &stream->later : &stream->first;
    return last->covers ? last : NULL;
}

/* Whether the handle may be used apart from calls of the stream's user. The program may have destroyed its context. */
static bool is_usable(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    if (stream->is_open && !mapped->backing.gpu->context_is_alive(&stream->context)) {
        weir__spin_lock(&mapped->lock);
        stream->is_open = false;
        weir__spin_unlock(&mapped->lock);
    }
    return stream->is_open;
}

const struct weir__mapped_mark *weir__mapped_stream_cover(struct weir__mapped *mapped, struct weir__mapped_stream *stream, bool is_alive)
{
    const struct weir__mapped_mark *last = last_mark(stream);
    weir__spin_lock(&mapped->lock);
    uint64_t sequence = stream->sequence;
    bool is_needed = weir__mapped_stream_pending(stream) && (!last || last->covers < sequence);
    stream->uncovered = 0;
    weir__spin_unlock(&mapped->lock);
    if (is_needed && (is_alive || is_usable(mapped, stream)) && weir__mapped_stream_record(mapped, stream) == GPU_SUCCESS)
        weir__mapped_stream_mark(stream, sequence);
    return last_mark(stream);
}

void weir__mapped_stream_complete(struct weir__mapped *mapped, struct weir__mapped_stream *stream, uint64_t sequence)
{
    weir__spin_lock(&mapped->lock);
    weir__arena_complete(&mapped->arena, &stream->freed, sequence);
    weir__spin_unlock(&mapped->lock);
}

bool weir__mapped_stream_is_lost(struct weir__mapped *mapped, const struct weir__mapped_stream *stream)
{
    const struct weir__mapped_mark *last = last_mark(stream);
    weir__spin_lock(&mapped->lock);
    bool is_lost = !stream->is_open && !stream->may_capture && weir__mapped_stream_pending(stream) &&
                   (!last || last->covers < stream->sequence);
    weir__spin_unlock(&mapped->lock);
    return is_lost;
}

bool weir__mapped_stream_look(struct weir__mapped *mapped, struct weir__mapped_stream *stream)
{
    while (stream->first.covers && weir__event_look(mapped->backing.gpu, stream->first.event) == WEIR__EVENT_COMPLETE) {
        weir__mapped_stream_complete(mapped, stream, stream->first.covers);
        struct weir__mapped_mark unused = {.event = stream->first.event};
        stream->first = stream->later;
        stream->later = unused;
    }
    return stream->first.covers;
}

void weir__mapped_streams_visit(struct weir__mapped *mapped, bool (*use)(struct weir__mapped_stream *stream, void *data), void *data)
{
    for (struct weir__link *link = weir__table_any(&mapped->streams), *behind; link; link = behind) {
        behind = weir__table_behind(&mapped->streams, link);
        if (!use(WEIR__ITEM(link, struct weir__mapped_stream, link), data))
            return;
    }
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

int weir__mapped_identify(struct weir__mapped *mapped, struct weir__user *user)
{
    const struct gpu *gpu = mapped->backing.gpu;
    if (user->id || !mapped->has_stream_ids)
        return GPU_SUCCESS;
    int former = weir__current_begin(gpu, user->device, user->handle);
    int code = weir__stream_identify(gpu, user->handle, &user->id);
    weir__current_end(gpu, former);
    return code;
}

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
static int free_behind_event(struct weir__mapped *mapped, struct weir__extent *extent, const struct weir__user *user)
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

static int free_extent(struct weir__mapped *mapped, struct weir__extent *extent, const struct weir__user *user)
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

int weir__mapped_give(struct weir__backing *backing, void *block, struct weir__extent *extent, struct weir__user *user)
{
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int code = user->may_capture ? backing->gpu->stream_capture_status(user->handle, &capture) : GPU_SUCCESS;
    (void)block; /* its extent has the address */
    if (capture != GPU_CAPTURE_STATUS_NONE)
        return GPU_CAPTURE_UNSUPPORTED;
    /* An unopened stream is asked for its id, or gets an event; either tells whether it captures. */
    if (code == GPU_SUCCESS)
        code = weir__mapped_identify(weir__mapped_of(backing), user);
    return code == GPU_SUCCESS ? free_extent(weir__mapped_of(backing), extent, user) : code;
}

/* What all of them are told ------------------------------------------------------------------------------------------------------------ */

static void visit(struct weir__mapped *mapped, bool (*use)(struct weir__mapped_stream *stream, void *data), void *data)
{
    pthread_mutex_lock(&mapped->events);
    weir__mapped_streams_visit(mapped, use, data);
    pthread_mutex_unlock(&mapped->events);
}

static bool captures(const struct gpu *gpu, const struct weir__mapped_stream *stream)
{
    enum gpu_capture_status capture;
    int former = weir__current_begin(gpu, stream->device, stream->handle);
    int code = gpu->stream_capture_status(stream->handle, &capture);
    weir__current_end(gpu, former);
    return code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE;
}

/* It is alive, and its last frees get an event. */
static void close_stream(struct weir__mapped *mapped, uint64_t id)
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

static void forget_stream(struct weir__mapped *mapped, uint64_t id)
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

static bool has_lost(struct weir__mapped *mapped)
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

static void cover_all_lost(struct weir__mapped *mapped, bool has_device_events)
{
    struct lost lost = {.mapped = mapped, .has_device_events = has_device_events};
    visit(mapped, cover_lost, &lost);
}

static void cover_one(struct weir__mapped *mapped, uint64_t id)
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

/* As CUDA's pools do at a synchronise. */
static void give_back_above(struct weir__mapped *mapped)
{
    uint64_t threshold = atomic_load(&mapped->backing.threshold), max_size = atomic_load(&mapped->max_size);
    uint64_t keep = max_size && max_size < threshold ? max_size : threshold;
    if (weir__mapped_figures(mapped).mapped > keep)
        weir__mapped_trim(mapped, keep, 0); /* which looks at events itself */
    else
        weir__mapped_look(mapped);
}

bool weir__mapped_tell(struct weir__backing *backing, enum weir__tell what, uint64_t id)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    switch (what) {
    case WEIR__TELL_COVER:
        if (id)
            cover_one(mapped, id);
        else
            weir__mapped_cover_all(mapped);
        break;
    case WEIR__TELL_CLOSED:
        close_stream(mapped, id);
        break;
    case WEIR__TELL_GONE:
        forget_stream(mapped, id);
        break;
    case WEIR__TELL_SYNCHRONISED:
        give_back_above(mapped);
        break;
    case WEIR__TELL_LOOK:
        return weir__mapped_look(mapped);
    case WEIR__TELL_LOST:
        return has_lost(mapped);
    case WEIR__TELL_COVER_LOST:
    case WEIR__TELL_WAIT_LOST:
        cover_all_lost(mapped, what == WEIR__TELL_COVER_LOST);
        break;
    case WEIR__TELL_NO_CAPTURES:
        visit(mapped, end_capture, NULL);
        break;
    }
    return false;
}
