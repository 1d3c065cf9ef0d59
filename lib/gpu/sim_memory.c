/* SPDX-License-Identifier: MIT */
/* sim_memory.c - allocates blocks from the segments of a pool's range and frees them. sim_memory_is_usable() and can_wait_for() decide
   which memory that one stream has freed another stream may use. */
#include "lib/gpu/sim_machine.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Taking and freeing ------------------------------------------------------------------------------------------------------------------- */

static bool is_allowed(const struct sim_pool *pool, enum gpu_pool_attribute reuse)
{
    return pool->reuse[reuse - GPU_POOL_REUSE_EVENT_DEPENDENCIES];
}

bool sim_memory_is_usable(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream)
{
    if (segment->state != SIM_SEGMENT_FREE || segment->hidden)
        return false;
    if (segment->observed || segment->freed_by == stream->id)
        return true;
    if (is_allowed(pool, GPU_POOL_REUSE_OPPORTUNISTIC) && segment->done_at <= sim.now)
        return true;
    /* A stream that has waited for an older free of that stream gets nothing that it freed in the pool (measured). */
    uint64_t waited = sim_waits_for(&stream->waits, segment->freed_by);
    return is_allowed(pool, GPU_POOL_REUSE_EVENT_DEPENDENCIES) && waited >= segment->sequence &&
           waited >= sim_waits_for(&pool->freed, segment->freed_by);
}

/* Returns whether the stream may use the memory once it has waited for the free. CUDA calls a wait that it inserts by itself an internal
   dependency. */
static bool can_wait_for(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream)
{
    bool is_orderable = segment->state == SIM_SEGMENT_FREE && !segment->hidden && segment->device == stream->device;
    return sim_memory_is_usable(pool, segment, stream) || (is_orderable && is_allowed(pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES));
}

/* Makes the stream wait for each free in the first `size` bytes of a row without which it may not use the memory. Returns 0 or
   GPU_OUT_OF_MEMORY. */
static int wait_for_run(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t size, struct sim_stream *stream)
{
    int code = 0;
    uint64_t end = segment->offset + size;
    for (; segment && segment->offset < end && !code; segment = segment->next)
        if (!sim_memory_is_usable(pool, segment, stream))
            code = sim_stream_wait_for(stream, segment->freed_by, segment->sequence, segment->done_at);
    return code;
}

/* Finds a row of free memory: in the pool as it is; else in the pool after it has grown; else, only if it cannot grow (measured), memory
   for which the stream has to wait. */
static int find_run(struct sim_pool *pool, uint64_t size, struct sim_stream *stream, struct sim_segment **segment,
                    struct sim_segment **head)
{
    *segment = sim_index_best_fit(pool, size, stream, sim_memory_is_usable, head);
    if (*segment)
        return 0;
    int code = sim_range_grow(pool, size);
    *segment = sim_index_best_fit(pool, size, stream, code ? can_wait_for : sim_memory_is_usable, head);
    if (!*segment)
        return GPU_OUT_OF_MEMORY;
    return wait_for_run(pool, *segment, size, stream);
}

/* Makes the first `size` bytes of a row of free segments one live segment. If any of them was exported before, the whole segment counts as
   exported and stays with the pool. */
static int make_live(struct sim_pool *pool, struct sim_segment *head, struct sim_segment *segment, uint64_t size)
{
    if (!sim_index_reserve(pool) || !sim_run_cut(pool, head, segment, size))
        return GPU_OUT_OF_MEMORY;
    bool exported = segment->exported;
    sim_index_unlist(pool, segment);
    pool->exported -= segment->exported ? segment->size : 0;
    while (segment->size < size) {
        const struct sim_segment *next = segment->next;
        exported = exported || next->exported;
        pool->exported -= next->exported ? next->size : 0;
        sim_segment_absorb(pool, segment);
    }
    segment->state = SIM_SEGMENT_LIVE;
    sim_index_add_block(pool, segment);
    segment->exported = false;
    if (exported)
        sim_memory_export(pool, segment);
    return 0;
}

void sim_memory_export(struct sim_pool *pool, struct sim_segment *segment)
{
    if (segment->exported)
        return;
    segment->exported = true;
    pool->exported += segment->size;
    sim_ledger_pool_exported(pool, pool->exported);
}

int sim_memory_import(struct sim_pool *pool, uint64_t offset, uint64_t size, void **ptr)
{
    struct sim_segment *segment = pool->segments;
    while (segment && (segment->state != SIM_SEGMENT_LIVE || segment->source != offset || segment->size != size))
        segment = segment->next;
    if (!segment) {
        segment = sim_index_reserve(pool) ? sim_range_take_gap(pool, size) : NULL;
        if (!segment)
            return GPU_OUT_OF_MEMORY;
        void *address = mmap(pool->base + segment->offset, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, pool->fd, (off_t)offset);
        if (address == MAP_FAILED) {
            sim_segment_merge(pool, segment);
            return GPU_OUT_OF_MEMORY;
        }
        sim_index_unlist(pool, segment);
        segment->state = SIM_SEGMENT_LIVE;
        sim_index_add_block(pool, segment);
        segment->source = offset;
        segment->asked = size;
        pool->blocks++;
        pool->used += size;
        sim_range_take(pool, size);
    }
    *ptr = pool->base + segment->offset;
    return 0;
}

int sim_memory_take(struct sim_pool *pool, size_t size, struct sim_stream *stream, void **ptr)
{
    if (size > pool->span)
        return GPU_OUT_OF_MEMORY;
    uint64_t bytes = sim_round_up(size, pool->alignment);
    struct sim_segment *segment, *head;
    int code = find_run(pool, bytes, stream, &segment, &head);
    if (!code)
        code = make_live(pool, head, segment, bytes);
    if (code)
        return code;
    segment->asked = size;
    pool->blocks++;
    pool->used += size;
    if (pool->used_high < pool->used)
        pool->used_high = pool->used;
    *ptr = pool->base + segment->offset;
    return 0;
}

struct sim_pool *sim_memory_pool(const void *ptr)
{
    const unsigned char *address = ptr;
    struct sim_pool *pool = sim.pools;
    while (pool && (address < pool->base || address >= pool->base + pool->span))
        pool = pool->next;
    return pool;
}

struct sim_segment *sim_memory_block(const void *ptr, struct sim_pool **pool)
{
    struct sim_pool *home = sim_memory_pool(ptr);
    if (!home)
        return NULL;
    struct sim_segment *segment = sim_index_block(home, (uint64_t)((const unsigned char *)ptr - home->base));
    if (segment)
        *pool = home;
    return segment;
}

bool sim_memory_is_present(const struct sim_pool *pool, const void *ptr, size_t size)
{
    uint64_t begin = (uint64_t)((const unsigned char *)ptr - pool->base);
    if (size > pool->span - begin)
        return false;
    for (const struct sim_segment *segment = pool->segments; segment && segment->offset < begin + size; segment = segment->next)
        if (segment->offset + segment->size > begin && segment->state == SIM_SEGMENT_ABSENT)
            return false;
    return true;
}

/* CUDA's free needs no host memory. A simulator that lacks it may lend a waiting stream more than a GPU lends. */
void sim_memory_free(struct sim_pool *pool, struct sim_segment *segment, struct sim_stream *stream)
{
    (void)sim_waits_add(&pool->freed, stream->id, sim.sequence + 1);
    sim_index_remove_block(pool, segment);
    segment->state = SIM_SEGMENT_FREE;
    segment->observed = false;
    segment->device = stream->device;
    segment->freed_by = stream->id;
    segment->sequence = ++sim.sequence;
    segment->done_at = sim_enqueue(stream, 0);
    pool->used -= segment->asked;
    pool->blocks--;
    sim_index_list(pool, segment);
    sim_run_join(pool, segment);
}

/* Seeing that frees have ended --------------------------------------------------------------------------------------------------------- */

static void observe_in(struct sim_pool *pool, uint64_t id, uint64_t sequence, int device)
{
    for (struct sim_segment *segment = pool->index.pending, *later; segment; segment = later) {
        later = segment->later;
        if (segment->sequence <= sequence && (id ? segment->freed_by == id : segment->device == device))
            sim_index_observe(pool, segment);
    }
    sim_index_settle(pool);
}

void sim_memory_observe(uint64_t id, uint64_t sequence, int device)
{
    for (struct sim_pool *pool = sim.pools; pool; pool = pool->next)
        observe_in(pool, id, sequence, device);
}

uint64_t sim_memory_quiet_at(const struct sim_pool *pool)
{
    uint64_t time = 0;
    for (const struct sim_segment *segment = pool->index.pending; segment; segment = segment->later)
        if (segment->done_at > time)
            time = segment->done_at;
    return time;
}
