/* SPDX-License-Identifier: MIT */
/*
 * order.c - a stream waits so that its pool need not grow. If a request would make the pool larger than the program needs when nothing is
 * pending (`reuse.pending_max`), the stream of the request waits, on the GPU, for memory that other streams have freed in the pool. The
 * host does not wait.
 */
#include "lib/alloc/orphans.h"
#include "lib/alloc/request.h"
#include "lib/base/context.h"
#include "lib/base/number.h"

/* With `reuse.pending_max: auto` a pool may reserve, beyond the most bytes that were in use or cached at a time, SPARE_LEAST bytes more or
   one part in SPARE_SHARE of those bytes, whichever is larger. */
#define SPARE_LEAST (UINT64_C(64) << 20)
#define SPARE_SHARE 8

/* Returns the bytes that streams other than that of `own` have freed in the pool and that are pending. A stream may have used again some of
   the bytes that it freed; only a backing with a tracker (fence.h) can leave those out. */
static uint64_t pending_of_others(const weir_pool *pool, struct weir__line *own)
{
    struct weir__backing *backing = pool->backing;
    struct weir__scope scope = {.fences = backing->debts.fences, .debts = &backing->debts};
    uint64_t all = weir__scope_pending(&scope);
    scope.line = own;
    uint64_t mine = weir__scope_pending(&scope), others = all > mine ? all - mine : 0;
    return backing->debts.tracker ? weir__smaller(others, backing->ops->pending(backing)) : others;
}

/* Returns the bytes that Weir has from CUDA for the pool and that the program does not have: the bytes in caches and the bytes by which
   size classes round requests up. Orphans are left out, as they are pending. */
static uint64_t kept_by_caches(const weir_pool *pool)
{
    struct weir__device *device = pool->device;
    int64_t spare = atomic_load(&pool->figures.spare);
    uint64_t orphans = atomic_load(&device->fences->parked) ? weir__orphans_bytes(device, pool) : 0;
    return spare > 0 && (uint64_t)spare > orphans ? (uint64_t)spare - orphans : 0;
}

/* Returns true if the pool, once grown by `size` bytes, would have more memory than `reuse.pending_max` allows. others: the bytes of the
   pool that other streams have pending. */
static bool is_beyond(const weir_pool *pool, uint64_t size, uint64_t others)
{
    uint64_t most = atomic_load(&pool->backing->pending_max);
    if (most != WEIR__PENDING_AUTO)
        return others > most;
    uint64_t top = atomic_load(&pool->figures.live_high) + kept_by_caches(pool);
    uint64_t bound = top + weir__larger(top / SPARE_SHARE, SPARE_LEAST), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    return size > bound || reserved > bound - size;
}

/* Makes the stream of the line `own` wait for pending memory of the pool if the pool would have to grow too far for `size` bytes. Returns
   whether the stream now waits for some memory. Queries no event and no figure of CUDA unless enough memory is pending. */
static bool order(const weir_pool *pool, struct weir__line *own, uint64_t size)
{
    struct weir__debts *debts = &pool->backing->debts;
    const struct weir__scope scope = {.fences = debts->fences, .debts = debts};
    bool tracks = debts->tracker; /* with a tracker the stream can wait for one mark at a time, and get the memory behind that mark */
    uint64_t least = tracks ? size : weir__larger(size, SPARE_LEAST), others = pending_of_others(pool, own);
    if (others >= least) {
        weir__scope_look(&scope);
        others = pending_of_others(pool, own);
    }
    /* Without a tracker `others` also counts bytes that their stream has used again, so the pool's idle bytes limit it. Idle bytes that are
       not pending are free for any stream: if they suffice, no stream needs to wait. */
    uint64_t idle = tracks || others < least ? others : weir__pool_idle(pool);
    others = weir__smaller(others, idle);
    if (others < least || idle - others >= size || !is_beyond(pool, size, others))
        return false;
    return tracks ? weir__debts_order(debts, own, size) : weir__debts_order_newest(debts, own, size);
}

/* The same for orphans (orphans.h): blocks that wait for several streams. */
static bool order_orphans(const struct weir__request *request, struct weir__line *own, uint64_t size)
{
    const weir_pool *pool = request->pool;
    struct weir__device *device = pool->device;
    if (!atomic_load(&device->fences->parked))
        return false;
    uint64_t parked = weir__orphans_bytes(device, pool);
    return parked >= size && is_beyond(pool, size, parked) && weir__orphans_order(device, request->stream, request->opened, own, size);
}

bool weir__request_rather_waits(struct weir__request *request, uint64_t size)
{
    const weir_pool *pool = request->pool;
    const weir_stream *opened = request->opened;
    if (request->deadline)
        return false; /* recovery waits by itself */
    bool has_line = pool->backing->ops->names_streams || opened;
    struct weir__line *line = opened ? opened->line : request->ask.user.line;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    if (!has_line)
        line = weir__stream_line(pool->device, request->stream, request->id);
    bool waits = line && (order(pool, line, size) || order_orphans(request, line, size));
    if (line && !has_line)
        weir__line_put(line);
    weir__relaxed_end(pool->w->gpu, mode);
    return waits;
}
