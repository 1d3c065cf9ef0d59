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
    enum weir__kind kind;
    uint32_t origin;         /* of whoever asks now */
    struct weir__block block; /* pool NULL: nothing was taken */
    uint64_t order;
};

/* Before the cache's lock is taken. A request: who makes it is found out. */
static inline void weir__noted_begin(struct weir__noted *noted, const weir_stream *stream, enum weir__kind kind)
{
    struct weir__recorder *recorder = &stream->w->recorder;
    noted->is_wanted = weir__records_cached(recorder);
    noted->block.pool = NULL;
    if (!noted->is_wanted)
        return;
    noted->kind = kind;
    noted->origin = kind == WEIR__KIND_SERVE ? weir__record_origin(recorder) : 0;
}

/* Under the lock, once the cache has served the entry, or has it. */
static inline void weir__noted_take(struct weir__noted *noted, const struct weir__cache *cache, struct weir__entry *entry)
{
    if (!noted->is_wanted)
        return;
    if (noted->kind == WEIR__KIND_SERVE)
        entry->origin = noted->origin;
    noted->block = (struct weir__block){ .ptr = atomic_load_explicit(&entry->ptr, memory_order_relaxed), .size = entry->size,
                                         .pool = entry->pool, .origin = entry->origin, .class = entry->class };
    noted->order = cache->hits + atomic_load_explicit(&cache->keeps, memory_order_relaxed);
}

/* Behind the lock. */
static inline void weir__noted_end(const struct weir__noted *noted, const weir_stream *stream, gpu_stream handle)
{
    if (!noted->is_wanted || !noted->block.pool)
        return;
    struct weir__recorder *recorder = &stream->w->recorder;
    weir__count_tag(recorder, noted->block.origin, noted->block.size, noted->kind == WEIR__KIND_SERVE ? 1 : -1);
    if (weir__records(recorder, WEIR__LEVEL_ALL))
        weir__record_block(noted->kind, &noted->block, handle, noted->order);
}

#endif
