/* SPDX-License-Identifier: MIT */
/*
 * noted.h - what a cached call leaves for the recorder and for the figures of tags.
 */
#ifndef WEIR_LIB_NOTED_H
#define WEIR_LIB_NOTED_H

#include "lib/alloc/stream.h"
#include "lib/pool/recorded.h"

struct weir__noted {
    struct weir__ring *ring; /* where the event goes; NULL: nowhere */
    uint64_t time;
    bool is_request;
    uint32_t origin; /* of the request, and of the block once it was taken */
    uint64_t size;   /* of the block; 0: none was taken */
};

/* Before the cache's lock is taken. Of a request, who makes it is found out. */
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

/* Under the lock, once the cache has served the entry, or has it. The event is written here, where its place in the order is known: that
   takes neither a lock nor a call. */
static inline void weir__noted_take(struct weir__noted *noted, const weir_stream *stream, struct weir__entry *entry)
{
    const struct weir__cache *cache = &stream->cache;
    if (noted->is_request)
        entry->origin = noted->origin;
    noted->origin = entry->origin;
    noted->size = entry->size;
    if (!noted->ring) {
        if (weir__records(&stream->w->recorder, WEIR__LEVEL_ALL)) /* no host memory for a ring */
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

/* Behind the lock. */
static inline void weir__noted_end(const struct weir__noted *noted, const weir_stream *stream)
{
    if (noted->size)
        weir__count_tag(&stream->w->recorder, noted->origin, noted->size, noted->is_request ? 1 : -1);
}

#endif
