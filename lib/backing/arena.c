/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "lib/record/recorder.h"

#define PINNED_PARTS 16384 /* parts of an arena at most in which bytes are looked for that cannot go back: the lock is held for 100 us */
#define COVER_STEP (UINT64_C(64) << 20) /* bytes that an open stream frees before an event is recorded unasked */

/* Making and closing ------------------------------------------------------------------------------------------------------------------- */

static int reserve(struct weir__mapped *mapped, uint64_t memory)
{
    uint64_t unit = 4 * GPU_PAGE_UNIT, bytes = (memory + unit - 1) / unit * unit * WEIR__ARENA_RANGE_SHARE;
    int code = GPU_OUT_OF_MEMORY;
    for (; code == GPU_OUT_OF_MEMORY && bytes >= memory; bytes = bytes / 2 / unit * unit) {
        code = mapped->backing.gpu->range_reserve(mapped->backing.device, bytes, &mapped->range);
        mapped->range_bytes = bytes;
    }
    return code == GPU_OUT_OF_MEMORY ? WEIR__PAGE_NO_ADDRESSES : code;
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

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

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

/* What is set ------------------------------------------------------------------------------------------------------------------------- */

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

static int set_peers(struct weir__mapped *mapped, const int *devices, size_t count)
{
    int former[GPU_PAGE_DEVICES_MAX];
    size_t former_count = mapped->device_count;
    memcpy(former, mapped->devices, sizeof former);
    memcpy(mapped->devices, devices, count * sizeof *devices);
    mapped->device_count = count;
    int code = give_access(mapped, &mapped->arena.large);
    if (code == GPU_SUCCESS)
        code = give_access(mapped, &mapped->arena.small);
    if (code != GPU_SUCCESS) {
        memcpy(mapped->devices, former, sizeof former);
        mapped->device_count = former_count;
    }
    return code;
}

/* With the peer or without it. A device that is left out keeps its access to what is mapped already. */
static int set_peer_of_pages(struct weir__mapped *mapped, int peer, bool grant)
{
    int devices[GPU_PAGE_DEVICES_MAX], code = GPU_NOT_SUPPORTED;
    size_t count = 0;
    pthread_mutex_lock(&mapped->growing);
    for (size_t i = 0; i < mapped->device_count; i++)
        if (mapped->devices[i] != peer)
            devices[count++] = mapped->devices[i];
    if (!grant || count < GPU_PAGE_DEVICES_MAX) {
        if (grant)
            devices[count++] = peer;
        code = set_peers(mapped, devices, count);
    }
    pthread_mutex_unlock(&mapped->growing);
    return code;
}

static int set_peer(struct weir__backing *backing, int peer, bool grant)
{
    struct weir__backing *captures = weir__mapped_of(backing)->captures;
    int code = captures->ops->set_peer(captures, peer, grant);
    if (code == GPU_SUCCESS) {
        code = set_peer_of_pages(weir__mapped_of(backing), peer, grant);
        if (code != GPU_SUCCESS)
            captures->ops->set_peer(captures, peer, !grant);
    }
    return code;
}

/* The pool for captures keeps nothing, and its peak is nobody's. */
static int set(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t value)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    if (attribute == GPU_POOL_RELEASE_THRESHOLD) {
        atomic_store(&backing->threshold, value);
        return GPU_SUCCESS;
    }
    if (attribute == GPU_POOL_RESERVED_HIGH) {
        weir__spin_lock(&mapped->lock);
        mapped->mapped_high = weir__mapped_bytes(mapped);
        weir__spin_unlock(&mapped->lock);
        return GPU_SUCCESS;
    }
    if (attribute == GPU_POOL_REUSE_INTERNAL_DEPENDENCIES)
        atomic_store(&mapped->waits, value);
    return mapped->captures->ops->set(mapped->captures, attribute, value);
}

static void set_cap(struct weir__backing *backing, uint64_t max_size)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    atomic_store(&mapped->max_size, max_size);
    if (!max_size || weir__mapped_figures(mapped).mapped <= max_size)
        return;
    enum gpu_capture_mode mode = weir__relaxed_begin(backing->gpu);
    weir__mapped_trim(mapped, max_size, 0);
    weir__relaxed_end(backing->gpu, mode);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    struct weir__arena_figures figures = weir__arena_figures(&mapped->arena);
    figures.mapped += mapped->left_bytes;
    weir__spin_unlock(&mapped->lock);
    return figures;
}

static uint64_t left_of(struct weir__backing *backing)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    uint64_t bytes = mapped->left_bytes;
    weir__spin_unlock(&mapped->lock);
    return bytes;
}

static int read_figure(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t *value)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    struct weir__arena_figures figures = weir__mapped_figures(mapped);
    weir__spin_lock(&mapped->lock);
    uint64_t high = mapped->mapped_high;
    weir__spin_unlock(&mapped->lock);
    *value = attribute == GPU_POOL_USED ? figures.live : attribute == GPU_POOL_RESERVED ? figures.mapped : high;
    return GPU_SUCCESS;
}

static uint64_t idle_of(struct weir__backing *backing, uint64_t *reserved)
{
    struct weir__arena_figures figures = weir__mapped_figures(weir__mapped_of(backing));
    *reserved = figures.mapped;
    return figures.mapped - figures.live;
}

static void read_figures(struct weir__backing *backing, struct weir__backing_figures *figures)
{
    struct weir__arena_figures all = weir__mapped_figures(weir__mapped_of(backing));
    *figures = (struct weir__backing_figures){.reserved = all.mapped, .idle = all.complete};
}

static uint64_t pending_in(struct weir__backing *backing)
{
    return weir__mapped_figures(weir__mapped_of(backing)).pending;
}

static bool has_pending(struct weir__backing *backing)
{
    struct weir__backing *captures = weir__mapped_of(backing)->captures;
    return pending_in(backing) || captures->ops->has_pending(captures);
}

static bool pinned(struct weir__backing *backing, uint64_t *bytes)
{
    struct weir__mapped *mapped = weir__mapped_of(backing);
    weir__spin_lock(&mapped->lock);
    bool is_known = weir__arena_pinned(&mapped->arena, PINNED_PARTS, bytes);
    weir__spin_unlock(&mapped->lock);
    return is_known;
}

/* The recorder ------------------------------------------------------------------------------------------------------------------------- */

/* Before another thread knows the arena, or with NULL once none records it any more. */
static void record(struct weir__backing *backing, struct weir__recorder *recorder, unsigned pool)
{
    weir__mapped_of(backing)->recorder = recorder;
    weir__mapped_of(backing)->record = pool;
}

static bool hold(struct weir__backing *backing)
{
    return pthread_mutex_trylock(&weir__mapped_of(backing)->growing) == 0;
}

static void release(struct weir__backing *backing)
{
    pthread_mutex_unlock(&weir__mapped_of(backing)->growing);
}

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

static int give_block(struct weir__backing *backing, void *block, struct weir__extent *extent, struct weir__user *user)
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

/* An arena keeps nothing of a request that it refused. */
static bool was_refused(struct weir__backing *backing, struct weir__ask *ask, uint64_t *keep)
{
    (void)backing, (void)ask, (void)keep;
    return false;
}

static int give_back(struct weir__backing *backing, uint64_t keep, bool is_patient)
{
    weir__mapped_trim(weir__mapped_of(backing), keep, is_patient ? WEIR__MAPPED_PATIENCE : 0);
    return GPU_SUCCESS;
}

static void close_both(struct weir__backing *backing, struct weir__closing *closing)
{
    struct weir__backing *captures = weir__mapped_of(backing)->captures;
    struct weir__arena_figures figures = {.mapped = 0};
    if (weir__mapped_close(weir__mapped_of(backing), &figures)) {
        bool is_used = figures.live || figures.pending;
        closing->pending = figures.pending;
        closing->left = figures.mapped - (is_used ? figures.live + figures.pending + figures.complete : 0);
        closing->is_left = closing->left || !is_used;
    }
    captures->ops->close(captures, closing);
}

static const struct weir__backing_ops ops = {
    .is_arena = true,
    .keeps_caps = true,
    .records_growth = true,
    .names_streams = true,
    .keeps_large = true,
    .large = WEIR__ARENA_LARGE,
    .step = 1,
    .grow = 450000, /* in pieces of 64 MiB, as the next: between those measured for 32 and 256 */
    .trim = 600000,
    .call_to_free = "weir_free(NULL, ptr, stream), as it is an arena",
    .serve = weir__mapped_serve,
    .was_refused = was_refused,
    .give = give_block,
    .extend = weir__mapped_extend,
    .give_back = give_back,
    .left = left_of,
    .close = close_both,
    .tell = weir__mapped_tell,
    .set = set,
    .set_peer = set_peer,
    .set_cap = set_cap,
    .read = read_figure,
    .idle = idle_of,
    .figures = read_figures,
    .pending = pending_in,
    .has_pending = has_pending,
    .pinned = pinned,
    .record = record,
    .hold = hold,
    .release = release,
};

int weir__arena_create(uint64_t memory, struct weir__backing *captures, struct weir__backing **backing)
{
    const struct gpu *gpu = captures->gpu;
    struct weir__mapped *made = calloc(1, sizeof *made);
    if (!made)
        return WEIR__PAGE_NO_HOST_MEMORY;
    made->backing = (struct weir__backing){.ops = &ops, .gpu = gpu, .device = captures->device, .lock = captures->lock};
    made->captures = captures;
    made->has_stream_ids = gpu->supports(captures->device, GPU_FEATURE_STREAM_ID, NULL, 0);
    made->devices[0] = captures->device;
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
    weir__mapped_list(made);
    *backing = &made->backing;
    return GPU_SUCCESS;
}
