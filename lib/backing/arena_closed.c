/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include "lib/base/context.h"
#include "policy/policy.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__mapped *first, *open; /* closed ones and open ones; guarded by lock */

void weir__mapped_list(struct weir__mapped *mapped)
{
    pthread_mutex_lock(&lock);
    mapped->next_listed = open;
    open = mapped;
    pthread_mutex_unlock(&lock);
}

uint64_t weir__arena_take_idle(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__backing *but)
{
    uint64_t taken = 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(&lock);
    for (struct weir__mapped *mapped = open; mapped && taken < bytes; mapped = mapped->next_listed) {
        uint64_t now = weir__mapped_figures(mapped).mapped, wanted = bytes - taken;
        if (now && &mapped->backing != but && mapped->backing.gpu == gpu && mapped->backing.device == device)
            taken += weir__mapped_trim(mapped, now > wanted ? (now - wanted) / POLICY_GROWTH_STEP * POLICY_GROWTH_STEP : 0,
                                       WEIR__MAPPED_PATIENCE);
    }
    pthread_mutex_unlock(&lock);
    weir__relaxed_end(gpu, mode);
    return taken;
}

bool weir__mapped_close(struct weir__mapped *mapped, struct weir__arena_figures *figures)
{
    struct weir__mapped **link = &open;
    pthread_mutex_lock(&lock);
    while (*link != mapped)
        link = &(*link)->next_listed;
    *link = mapped->next_listed;
    pthread_mutex_unlock(&lock);
    weir__mapped_wait(mapped);
    for (int tries = 0; tries < 2; tries++) /* as a call of the driver may fail once */
        if (weir__mapped_destroy(mapped))
            return false;
    weir__mapped_trim(mapped, 0, 0);
    *figures = weir__mapped_figures(mapped);
    mapped->recorder = NULL; /* which goes with its weir */
    pthread_mutex_lock(&lock);
    mapped->next_listed = first;
    first = mapped;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Called with the lock. Returns the bytes. */
static uint64_t sweep(void)
{
    uint64_t released = 0;
    for (struct weir__mapped **link = &first, *mapped; (mapped = *link);) {
        const struct gpu *gpu = mapped->backing.gpu;
        struct weir__mapped *next = mapped->next_listed;
        enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
        released += weir__mapped_trim(mapped, 0, 0);
        if (weir__mapped_destroy(mapped))
            *link = next;
        else
            link = &mapped->next_listed;
        weir__relaxed_end(gpu, mode);
    }
    return released;
}

uint64_t weir__arena_sweep(void)
{
    pthread_mutex_lock(&lock);
    uint64_t released = sweep();
    pthread_mutex_unlock(&lock);
    return released;
}

/* The live extent at that address. Slow, as there is no table of blocks any more. */
static struct weir__extent *find_live(const struct weir__mapped *mapped, uint64_t address)
{
    bool is_small = address >= mapped->arena.small.extents.base;
    struct weir__extent *extent = (is_small ? &mapped->arena.small : &mapped->arena.large)->extents.first;
    while (extent && extent->address < address)
        extent = extent->after;
    return extent && extent->address == address && extent->state == WEIR__EXTENT_LIVE ? extent : NULL;
}

bool weir__arena_free_closed(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code)
{
    uint64_t address = (uintptr_t)ptr;
    struct weir__extent *extent = NULL;
    pthread_mutex_lock(&lock);
    for (struct weir__mapped *mapped = first; mapped && !extent; mapped = mapped->next_listed) {
        uint64_t base = (uintptr_t)mapped->range;
        if (address < base || address - base >= mapped->range_bytes)
            continue;
        extent = find_live(mapped, address);
        *gpu = mapped->backing.gpu;
        if (extent)
            *code = mapped->backing.ops->give(&mapped->backing, ptr, extent, &(struct weir__user){.handle = stream, .device = mapped->backing.device});
    }
    if (extent)
        sweep();
    pthread_mutex_unlock(&lock);
    return extent;
}
