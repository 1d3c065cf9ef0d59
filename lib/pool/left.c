/* SPDX-License-Identifier: MIT */
#include "lib/gpu/clock.h"
#include "lib/pool/left.h"

#define LONGEST GPU_SECOND /* the longest and the shortest time between two looks of the keeper */
#define SHORTEST GPU_MILLISECOND

uint64_t weir__keeper_interval(weir *w)
{
    uint64_t shortest = LONGEST;
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool)) {
            if (weir__pool_is_auto(pool) && shortest > WEIR__DEMAND_EPOCH)
                shortest = WEIR__DEMAND_EPOCH;
            uint64_t part = atomic_load(&pool->cache.idle) / WEIR__KEEPER_LOOKS;
            /* `part` is a quarter of cache.idle. A part above LONGEST is divided into equal intervals, so that a look falls on its end and
               not later. */
            part /= (part + LONGEST - 1) / LONGEST + !part;
            if (atomic_load(&pool->cache.classes) && part < shortest)
                shortest = part;
        }
    return shortest > SHORTEST ? shortest : SHORTEST;
}

void weir__keeper_look(weir *w)
{
    if (!weir__keeper_is_on(w))
        return;
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            atomic_store(&pool->keeper.is_left, true);
    weir__service_wake(&w->keeper.job, 0);
}

void weir__keeper_wake(weir *w)
{
    if (weir__keeper_is_on(w))
        weir__service_wake(&w->keeper.job, weir__service_now() + weir__keeper_interval(w));
}
