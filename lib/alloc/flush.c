/* SPDX-License-Identifier: MIT */
#include "lib/alloc/flush.h"

#include "lib/alloc/free.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"
#include "lib/base/call.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"

#define BATCH 64                       /* streams that a loop pins at a time */
#define SETTLE (UINT64_C(1000) * 1000) /* nanoseconds within which an idle stream should have reached its last frees */

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

uint64_t weir__flush_list(struct weir__device *device, gpu_stream handle, const weir_stream *opened, struct weir__line *line,
                          struct weir__entry *entries)
{
    weir *w = device->w;
    uint64_t bytes = 0;
    int former = weir__current_begin(w->gpu, device->index, handle);
    while (entries) {
        struct weir__block block;
        struct weir__entry *entry = entries;
        entries = entry->next;
        /* Remove the entry first: as soon as CUDA has the block, another thread may get a block at the same address. */
        weir__blocks_remove(&w->blocks, entry, false, &block);
        uint64_t order = weir__record_order(&w->recorder);
        if (weir__return_block(&block, device->index, handle, opened, line) == GPU_SUCCESS) {
            weir__record_block(WEIR__KIND_RETURN, &block, handle, order);
            bytes += weir__class_given(block.class, block.size);
            if (line)
                weir__note_free_on(line, block.pool, weir__class_given(block.class, block.size));
            weir__pool_count_spare_gone(block.pool, weir__class_given(block.class, block.size));
            weir__pool_left(block.pool);
            weir__pool_release(block.pool);
            continue;
        }
        struct weir__entry *refused = weir__blocks_put_back(&w->blocks, &block, false);
        if (!refused || !weir__orphans_add(device, refused, &device->fences->whole, 1))
            weir__log(w, WEIR_LOG_ERROR, "no host memory: the block %p, whose free failed, is lost to Weir", block.ptr);
    }
    weir__current_end(w->gpu, former);
    return bytes;
}

void weir__flush_begin(struct weir__device *device)
{
    atomic_fetch_add(&device->flushing, 1);
}

void weir__flush_end(struct weir__device *device, bool any)
{
    if (any)
        atomic_fetch_add(&device->flushes, 1);
    atomic_fetch_sub(&device->flushing, 1);
}

uint64_t weir__flush_taken(weir_stream *stream, struct weir__entry *entries)
{
    uint64_t bytes = weir__flush_list(stream->device, stream->handle, stream, NULL, entries);
    weir__stream_freed(stream, stream->pool, bytes);
    return bytes;
}

void weir__flush_victims(weir_stream *stream, struct weir__entry *victims)
{
    WEIR__CALL;
    enum gpu_capture_mode mode = weir__plain_begin(stream->w);
    weir__flush_taken(stream, victims);
    weir__flush_end(stream->device, true);
    weir__plain_end(stream->w, mode);
    weir__stream_leave(stream);
}

uint64_t weir__flush_stream(weir_stream *stream, uint64_t before)
{
    if (!weir__cache_holds(stream))
        return 0;
    weir__flush_begin(stream->device);
    struct weir__entry *entries = weir__cache_drain(stream, before, true);
    uint64_t bytes = entries ? weir__flush_taken(stream, entries) : 0;
    weir__flush_end(stream->device, entries);
    return bytes;
}

uint64_t weir__flush_part(weir_stream *stream, unsigned from, unsigned to)
{
    if (from >= to && !weir__recent_count(&stream->cache.recent))
        return 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(stream->w->gpu);
    weir__flush_begin(stream->device);
    struct weir__entry *entries = weir__cache_drain_part(stream, from, to);
    uint64_t bytes = entries ? weir__flush_taken(stream, entries) : 0;
    weir__flush_end(stream->device, entries);
    weir__relaxed_end(stream->w->gpu, mode);
    return bytes;
}

struct give {
    const weir_pool *pool; /* only streams of this pool give; NULL: streams of all pools */
    uint64_t wanted, given; /* bytes */
};

static void give_device(struct weir__device *device, void *data)
{
    struct give *give = data;
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    while (give->given < give->wanted && (count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            if (give->given < give->wanted && (!give->pool || streams[i]->pool == give->pool))
                give->given += weir__flush_part(streams[i], 0, 0);
            weir__stream_unpin(streams[i]);
        }
}

uint64_t weir__caches_give(enum weir__givers givers, struct weir__device *device, const weir_pool *pool, uint64_t bytes)
{
    struct give give = {.pool = givers == WEIR__OF_POOL ? pool : NULL, .wanted = bytes};
    give_device(device, &give);
    if (givers == WEIR__OF_PROCESS)
        weir__quiet_visit(device->w->gpu, device->index, give_device, &give);
    return give.given;
}

void weir__flush_abandoned(weir_stream *stream)
{
    struct weir__entry *entries = weir__cache_drain(stream, UINT64_MAX, false);
    if (!entries)
        return;
    weir__orphans_park(stream->device, stream->room, entries, &stream->line, 1);
    stream->room = NULL;
}

uint64_t weir__flush(struct weir__device *device, const weir_pool *pool, bool seen, uint64_t deadline)
{
    const struct gpu *gpu = device->w->gpu;
    weir_stream *streams[BATCH] = { NULL };
    struct weir__scope behind = {.fences = device->fences, .group = device, .after = weir__marks_made()};
    uint64_t below = UINT64_MAX, total = 0;
    size_t count;
    bool is_late = false;
    while ((count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            uint64_t now = gpu->now();
            is_late = is_late || now > deadline;
            uint64_t bytes = !is_late && (!pool || streams[i]->pool == pool) ? weir__flush_stream(streams[i], UINT64_MAX) : 0;
            if (bytes && seen)
                weir__line_cover(streams[i]->line, false);
            weir__stream_unpin(streams[i]);
            total += bytes;
        }
    if (total && seen) {
        uint64_t soon = gpu->now() + SETTLE;
        behind.until = weir__marks_made();
        weir__scope_finish(&behind, soon < deadline ? soon : deadline);
    }
    return total;
}

bool weir__wait_for_frees(struct weir__device *device, uint64_t deadline, bool wants_legacy)
{
    const struct gpu *gpu = device->w->gpu;
    struct weir__scope scope = {.fences = device->fences, .group = device};
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir__scope_cover(&scope, true);
    if (wants_legacy)
        weir__fences_cover_legacy(device->fences);
    scope.until = weir__marks_made();
    bool all = weir__scope_finish(&scope, deadline);
    weir__relaxed_end(gpu, mode);
    return all;
}

uint64_t weir__flush_barred(const weir_pool *pool)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX, bytes = 0;
    size_t count;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    while ((count = weir__streams_pin_next(pool->device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            bytes += streams[i]->pool == pool ? weir__cache_barred(streams[i]) : 0;
            weir__stream_unpin(streams[i]);
        }
    weir__relaxed_end(pool->w->gpu, mode);
    return bytes;
}

weir_status weir_pool_trim(weir_pool *pool, uint64_t keep, weir_error *error, uint64_t *released)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool)
        return weir__fail(error, WEIR_INVALID, "weir_pool_trim: pool must not be NULL");
    uint64_t gone = 0, begun = pool->w->gpu->now();
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    weir__flush(pool->device, pool, false, WEIR__NO_DEADLINE);
    weir__orphans_free(pool->device, WEIR__NO_DEADLINE);
    weir__wait_for_frees(pool->device, pool->w->gpu->now() + SETTLE, true);
    weir__relaxed_end(pool->w->gpu, mode);
    int code = weir__pool_trim(pool, keep, &gone);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, pool->w->gpu, code, "trim of pool '%s' on device %d", pool->name, pool->device->index);
    /* A trim that gave nothing back is recorded too, as it has emptied the caches. */
    if (gone == 0)
        weir__record_pool(WEIR__KIND_TRIM, pool, 0, pool->w->gpu->now() - begun);
    if (released)
        *released = gone;
    return WEIR_OK;
}
