/* SPDX-License-Identifier: MIT */
/*
 * noted.h - what a cached call leaves for the recorder and for the figures of tags. It is taken under the cache's lock, where the order of
 * calls on a stream is made, and written once the lock is free.
 */
#ifndef WEIR_LIB_NOTED_H
#define WEIR_LIB_NOTED_H

#include "lib/alloc/stream.h"
#include "lib/pool/recorded.h"

struct weir__noted {
    bool is_wanted;
    bool is_request;
    uint32_t origin;          /* of the request */
    struct weir__event event; /* but for its time. order 0: nothing was taken */
};

/* Before the cache's lock is taken. Of a request, who makes it is found out. */
static inline void weir__noted_begin(struct weir__noted *noted, const weir_stream *stream, bool is_request)
{
    struct weir__recorder *recorder = &stream->w->recorder;
    noted->is_wanted = weir__records_cached(recorder);
    noted->is_request = is_request;
    noted->event.order = 0;
    noted->origin = noted->is_wanted && is_request ? weir__record_origin(recorder) : 0;
}

/* Under the lock, once the cache has served the entry, or has it. */
static inline void weir__noted_take(struct weir__noted *noted, const weir_stream *stream, struct weir__entry *entry)
{
    const struct weir__cache *cache = &stream->cache;
    if (!noted->is_wanted)
        return;
    if (noted->is_request)
        entry->origin = noted->origin;
    noted->event.what = weir__event_what(noted->is_request ? WEIR__KIND_SERVE : WEIR__KIND_KEEP, entry->class, entry->pool->record,
                                         entry->origin);
    noted->event.address = (uintptr_t)atomic_load_explicit(&entry->ptr, memory_order_relaxed);
    noted->event.size = entry->size;
    noted->event.stream = (uintptr_t)stream->handle;
    noted->event.order = cache->hits + atomic_load_explicit(&cache->keeps, memory_order_relaxed);
}

/* Behind the lock. */
static inline void weir__noted_end(struct weir__noted *noted, const weir_stream *stream)
{
    struct weir__recorder *recorder = &stream->w->recorder;
    if (!noted->event.order)
        return;
    weir__count_tag(recorder, weir__event_origin(&noted->event), noted->event.size, noted->is_request ? 1 : -1);
    if (weir__records(recorder, WEIR__LEVEL_ALL))
        weir__record(recorder, &noted->event);
}

#endif
