/* SPDX-License-Identifier: MIT */
#include "lib/alloc/others.h"

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"

/* One visit. */
struct visit {
    const struct weir__device *own;
    void (*use)(struct weir__device *device, struct visit *visit);
    uint64_t deadline, bytes;
    struct weir__seen *seen;
    struct weir__wait *waits;
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
    bool left;
    visit->bytes += weir__flush(device, NULL, true, visit->deadline);
    visit->bytes += weir__orphans_look(device, &left);
}

uint64_t weir__others_flush(const struct weir__device *own, uint64_t deadline)
{
    struct visit visit = { .own = own, .use = flush, .deadline = deadline };
    visit_others(&visit);
    return visit.bytes;
}

static void look(struct weir__device *device, struct visit *visit)
{
    weir__pending_note_legacy(&device->pending, device->w->gpu);
    visit->count += weir__waits_look_at_pending(device, 0, visit->seen);
    uint64_t before = weir__device_pending(device);
    weir__device_tell(device, WEIR__TELL_COVER, 0);
    visit->count += weir__device_tell(device, WEIR__TELL_LOOK, 0);
    uint64_t after = weir__device_pending(device);
    visit->seen->bytes += before > after ? before - after : 0;
    visit->seen->any = visit->seen->any || before > after;
}

size_t weir__others_look(const struct weir__device *own, struct weir__seen *seen)
{
    struct visit visit = { .own = own, .use = look, .seen = seen };
    visit_others(&visit);
    return visit.count;
}

static void collect(struct weir__device *device, struct visit *visit)
{
    struct weir__wait made[WEIR__WAITS_STREAMS + 1];
    size_t count = weir__waits_collect(device, NULL, visit->deadline, made);
    for (size_t i = 0; i < count; i++)
        if (visit->count < WEIR__WAITS_STREAMS)
            visit->waits[visit->count++] = (struct weir__wait){ .event = made[i].event };
        else
            device->w->gpu->event_destroy(made[i].event);
}

size_t weir__others_collect(const struct weir__device *own, uint64_t deadline, struct weir__wait waits[static WEIR__WAITS_STREAMS])
{
    struct visit visit = { .own = own, .use = collect, .deadline = deadline, .waits = waits };
    visit_others(&visit);
    return visit.count;
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
