/* SPDX-License-Identifier: MIT */
/*
 * order.c - rather wait than grow: the stream of a request waits, on the GPU, for what other streams have freed in the pool, where the pool
 * would have to grow beyond what the program needs at rest (`reuse.pending_max`). The host waits for nothing.
 */
#include "lib/alloc/orphans.h"
#include "lib/alloc/request.h"
#include "lib/base/context.h"
#include "lib/base/number.h"

#define SPARE_LEAST (UINT64_C(64) << 20) /* bytes beside what was in use that may be pending in any case */
#define SPARE_SHARE 8                    /* of what was in use, so may a part of it */

/* Bytes that other streams have freed and that are not known to be complete. Whoever tracks what was freed knows how much of
   that was not used again. */
static uint64_t pending_of_others(const weir_pool *pool, struct weir__line *own)
{
    struct weir__backing *backing = pool->backing;
    struct weir__scope scope = {.fences = backing->debts.fences, .debts = &backing->debts};
    uint64_t all = weir__scope_pending(&scope);
    scope.line = own;
    uint64_t mine = weir__scope_pending(&scope), others = all > mine ? all - mine : 0;
    return backing->debts.tracker ? weir__smaller(others, backing->ops->pending(backing)) : others;
}

/* Bytes that no user has and that are neither pending nor idle: those in caches, and the rounding of classes. */
static uint64_t kept_by_caches(const weir_pool *pool)
{
    struct weir__device *device = pool->device;
    int64_t spare = atomic_load(&pool->figures.spare);
    uint64_t orphans = atomic_load(&device->fences->parked) ? weir__orphans_bytes(device, pool) : 0;
    return spare > 0 && (uint64_t)spare > orphans ? (uint64_t)spare - orphans : 0;
}

/* Whether a pool that grows for the request has more than it should. */
static bool is_beyond(const weir_pool *pool, uint64_t size, uint64_t others)
{
    uint64_t most = atomic_load(&pool->backing->pending_max);
    if (most != WEIR__PENDING_AUTO)
        return others > most;
    uint64_t top = atomic_load(&pool->figures.live_high) + kept_by_caches(pool);
    uint64_t bound = top + weir__larger(top / SPARE_SHARE, SPARE_LEAST), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    return size > bound || reserved > bound - size;
}

/* CUDA is asked for no figures, and no event, before something worth a wait is pending. */
static bool order(const weir_pool *pool, struct weir__line *own, uint64_t size)
{
    struct weir__debts *debts = &pool->backing->debts;
    const struct weir__scope scope = {.fences = debts->fences, .debts = debts};
    bool tracks = debts->tracker; /* so that memory of each mark can be the stream's own */
    uint64_t least = tracks ? size : weir__larger(size, SPARE_LEAST), others = pending_of_others(pool, own);
    if (others >= least) {
        weir__scope_look(&scope);
        others = pending_of_others(pool, own);
    }
    /* Of what streams have freed in a pool of CUDA's they may have used some again; the rest of what is idle is there for any stream. */
    uint64_t idle = tracks || others < least ? others : weir__pool_idle(pool);
    others = weir__smaller(others, idle);
    if (others < least || idle - others >= size || !is_beyond(pool, size, others))
        return false;
    return tracks ? weir__debts_order(debts, own, size) : weir__debts_order_newest(debts, own, size);
}

/* The same for blocks that wait for several streams, none of which could free them. */
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
