/* SPDX-License-Identifier: MIT */
#include "lib/alloc/others.h"

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"

/* One visit to the other weirs: calls `use` for the device of each weir except `own`. `use` adds to `bytes` or `count`. */
struct visit {
    const struct weir__device *own;
    void (*use)(struct weir__device *device, struct visit *visit);
    uint64_t deadline, bytes;
    size_t count;
};

static void use_other(struct weir__device *device, void *data)
{
    struct visit *visit = data;
    if (device != visit->own)
        visit->use(device, visit);
}

static void visit_others(struct visit *visit)
{
    weir__quiet_visit(visit->own->w->gpu, visit->own->index, use_other, visit);
}

static void flush(struct weir__device *device, struct visit *visit)
{
    visit->bytes += weir__flush(device, NULL, true, visit->deadline);
    visit->bytes += weir__orphans_visit(device);
}

uint64_t weir__others_flush(const struct weir__device *own, uint64_t deadline)
{
    struct visit visit = { .own = own, .use = flush, .deadline = deadline };
    visit_others(&visit);
    return visit.bytes;
}

static void count_frees(struct weir__device *device, struct visit *visit)
{
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        visit->count += pool->native.is_host ? 0 : weir__pool_frees(pool);
}

uint64_t weir__others_frees(const struct weir__device *own)
{
    struct visit visit = { .own = own, .use = count_frees };
    visit_others(&visit);
    return visit.count;
}

static void trim(struct weir__device *device, struct visit *visit)
{
    const struct gpu *gpu = device->w->gpu;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        uint64_t released = 0;
        bool helps = weir__pool_lends_idle(pool) && gpu->now() <= visit->deadline;
        if (helps && weir__pool_trim(pool, 0, &released) == GPU_SUCCESS)
            visit->bytes += released;
    }
}

uint64_t weir__others_trim(const struct weir__device *own, uint64_t deadline)
{
    struct visit visit = { .own = own, .use = trim, .deadline = deadline };
    visit_others(&visit);
    return visit.bytes;
}
