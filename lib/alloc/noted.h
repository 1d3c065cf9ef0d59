/* SPDX-License-Identifier: MIT */
/*
 * noted.h - records a call that a cache served: an event for the recorder, and the figures of tags.
 *
 * weir__noted_begin() runs before the cache's lock is taken, weir__noted_take() under the lock, and weir__noted_end() after the lock was
 * released. A struct weir__noted lives on the stack of the call.
 */
#ifndef WEIR_LIB_NOTED_H
#define WEIR_LIB_NOTED_H

#include "lib/alloc/stream.h"
#include "lib/pool/recorded.h"

struct weir__noted {
    struct weir__ring *ring; /* where the event is written; NULL: no event is recorded */
    uint64_t time;
    bool is_request;
    uint32_t origin; /* the origin of the request; for a free, that of the block */
    uint64_t size;   /* the block's bytes; 0: the cache did nothing */
};

/* Begins a request or a free, before the cache's lock is taken. The origin of a request is looked up here, as that is too slow under the
   lock. */
static inline void weir__noted_begin(struct weir__noted *noted, const weir_stream *stream, bool is_request)
{
    struct weir__recorder *recorder = &stream->w->recorder;
    *noted = (struct weir__noted){.is_request = is_request};
    if (is_request)
        noted->origin = weir__record_origin(recorder);
    if (!weir__records(recorder, WEIR__LEVEL_ALL))
        return;
    noted->ring = weir__recorder_ring(recorder);
    noted->time = recorder->gpu->now_coarse();
}

/* Writes the event, once the cache has served or kept the entry. The cache's lock is held, so the event's number in the stream's order is
   known. Writing takes neither a lock nor a call of CUDA. */
static inline void weir__noted_take(struct weir__noted *noted, const weir_stream *stream, struct weir__entry *entry)
{
    const struct weir__cache *cache = &stream->cache;
    if (noted->is_request)
        entry->origin = noted->origin;
    noted->origin = entry->origin;
    noted->size = entry->size;
    if (!noted->ring) {
        if (weir__records(&stream->w->recorder, WEIR__LEVEL_ALL)) /* host memory ran out when this thread's ring was made */
            atomic_fetch_add_explicit(&stream->w->recorder.dropped, 1, memory_order_relaxed);
        return;
    }
    const struct weir__event event = {
        .time = noted->time,
        .address = (uintptr_t)atomic_load_explicit(&entry->ptr, memory_order_relaxed),
        .size = entry->size,
        .stream = (uintptr_t)stream->handle,
        .order = cache->hits + cache->keeps,
        .after = atomic_load_explicit(&stream->w->recorder.order, memory_order_relaxed),
        .what = weir__event_what(noted->is_request ? WEIR__KIND_SERVE : WEIR__KIND_KEEP, entry->class, entry->pool->record, entry->origin),
    };
    weir__ring_write(noted->ring, &event);
}

/* Counts the block for its tag, after the cache's lock was released. */
static inline void weir__noted_end(const struct weir__noted *noted, const weir_stream *stream)
{
    if (noted->size)
        weir__count_tag(&stream->w->recorder, noted->origin, noted->size, noted->is_request ? 1 : -1);
}

#endif
