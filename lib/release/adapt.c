/* SPDX-License-Identifier: MIT */
#include "lib/release/adapt.h"

#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/base/number.h"
#include "lib/gpu/clock.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"

#define PIECE (UINT64_C(64) << 20)  /* bytes that go back at a time: other threads' calls wait for 60 us (measured), */
#define PAUSE (5 * GPU_MILLISECOND) /* and then have so long for themselves */
#define PATIENCE GPU_MILLISECOND    /* how long a look waits for the streams of a device, by the GPU's clock */

/* A GiB that lies idle for a second is worth so many nanoseconds of calls that wait: growing and trimming breaks even after 4 s. */
#define RENT UINT64_C(440000)
#define ASKED_RENT 8                 /* times as dear, where a neighbour has asked for memory */
#define ASKED_TIME (60 * GPU_SECOND) /* as long ago as this, at most */

/* Whether a neighbour has asked for memory of the pool's device of late. */
static bool is_asked(const weir_pool *pool, uint64_t now)
{
    const struct weir__adapted *adapted = &pool->adapted;
    uint64_t asks = atomic_load_explicit(&pool->device->recovery.asks_received, memory_order_relaxed);
    return asks != adapted->asks || (asks && now - adapted->asked < ASKED_TIME);
}

/* What memory of the pool costs at present. */
static struct weir__demand_costs costs_of(const weir_pool *pool, uint64_t now)
{
    const struct weir__backing_ops *ops = pool->backing->ops;
    struct weir__demand_costs costs = {.grow = ops->grow, .trim = ops->trim};
    costs.rent = RENT * WEIR__DEMAND_EPOCH / GPU_SECOND * (is_asked(pool, now) ? ASKED_RENT : 1);
    return costs;
}

/* What the pool is to keep, within the bounds of its policy. */
static uint64_t bounded(const weir_pool *pool, uint64_t bytes)
{
    uint64_t max_size = atomic_load(&pool->settings.max_size);
    bytes = weir__larger(bytes, weir__larger(atomic_load(&pool->settings.keep), atomic_load(&pool->settings.initial)));
    return max_size ? weir__smaller(bytes, max_size) : bytes;
}

/* A pool that is parked keeps nothing, whatever it is to keep. */
static uint64_t threshold_of(const weir_pool *pool)
{
    return weir__smaller(atomic_load(&pool->settings.kept), atomic_load(&pool->backing->threshold));
}

static bool is_above(uint64_t reserved, uint64_t kept)
{
    return weir__less(reserved, kept) >= WEIR__GROWTH_STEP;
}

/* Epochs ------------------------------------------------------------------------------------------------------------------------------ */

/* Counts bytes, and what they cost or saved, in nanoseconds. */
static void add_audit(struct weir__audit *audit, uint64_t bytes, uint64_t time)
{
    atomic_fetch_add_explicit(&audit->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&audit->time, time, memory_order_relaxed);
}

/* What came of the bytes that lay idle until this epoch, and of those that were given back before it. */
static void audit(struct weir__adapted *adapted, uint64_t reserved, const struct weir__demand_costs *costs)
{
    uint64_t again = weir__less(weir__smaller(adapted->high, adapted->reserved), adapted->peak), idle = weir__less(adapted->reserved, adapted->peak);
    uint64_t grown = weir__less(reserved, adapted->reserved);
    if (again && idle) {
        add_audit(&adapted->used, again, weir__demand_cost(again, costs->grow + costs->trim));
        adapted->rent -= (uint64_t)((unsigned __int128)adapted->rent * again / idle);
    }
    for (unsigned i = 0; i < WEIR__ADAPTED_EPOCHS && grown; i++) {
        uint64_t missed = weir__smaller(grown, adapted->given[i]);
        add_audit(&adapted->missed, missed, weir__demand_cost(missed, costs->grow + costs->trim));
        adapted->given[i] -= missed;
        grown -= missed;
    }
}

/* Shifts the bytes that were given by epoch, as so many epochs have passed. */
static void age_given(struct weir__adapted *adapted, uint64_t epochs)
{
    uint64_t by = weir__smaller(epochs, WEIR__ADAPTED_EPOCHS);
    memmove(adapted->given + by, adapted->given, (WEIR__ADAPTED_EPOCHS - by) * sizeof adapted->given[0]);
    memset(adapted->given, 0, by * sizeof adapted->given[0]);
}

static void end_epochs(weir_pool *pool, uint64_t now, uint64_t use, uint64_t reserved)
{
    struct weir__adapted *adapted = &pool->adapted;
    const struct weir__demand_costs costs = costs_of(pool, now);
    uint64_t passed = (now - adapted->began) / WEIR__DEMAND_EPOCH, quiet = weir__smaller(adapted->low, use);
    /* The keeper slept through all but the last epoch, since nothing was freed: the use of these was steady. */
    for (uint64_t i = 1; i < weir__smaller(passed, WEIR__DEMAND_EPOCHS); i++)
        weir__demand_add(&adapted->demand, quiet, quiet, &costs);
    weir__demand_add(&adapted->demand, adapted->low, adapted->high, &costs);
    age_given(adapted, passed - 1);
    audit(adapted, reserved, &costs);
    age_given(adapted, 1);
    if (reserved > adapted->reserved)
        adapted->waste = weir__less(reserved, adapted->high);
    adapted->rent += weir__demand_cost(weir__less(reserved, adapted->high), costs.rent);
    adapted->peak = adapted->high;
    adapted->reserved = reserved;
    adapted->began = now;
    adapted->low = adapted->high = use;
}

static void begin(weir_pool *pool, uint64_t now, uint64_t use, uint64_t high)
{
    struct weir__adapted *adapted = &pool->adapted;
    weir__demand_begin(&adapted->demand);
    memset(adapted->given, 0, sizeof adapted->given);
    adapted->is_begun = true;
    adapted->began = now - WEIR__DEMAND_EPOCH; /* what was before counts as an epoch */
    adapted->low = use;
    adapted->peak = adapted->high = high;
    adapted->reserved = 0; /* whatever the pool has counts as grown since */
    adapted->waste = adapted->rent = 0;
    adapted->asks = 0;
}

static void note_asks(weir_pool *pool, uint64_t now)
{
    uint64_t asks = atomic_load_explicit(&pool->device->recovery.asks_received, memory_order_relaxed);
    if (asks != pool->adapted.asks)
        pool->adapted.asked = now;
    pool->adapted.asks = asks;
}

/* Reads the pool's figures, and sets what it keeps. */
static void observe(weir_pool *pool, uint64_t now)
{
    struct weir__adapted *adapted = &pool->adapted;
    uint64_t high = weir__pool_take_high(pool), before = atomic_load(&pool->figures.taken);
    uint64_t used = weir__pool_figure(pool, GPU_POOL_USED), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    uint64_t taken = atomic_load(&pool->figures.taken);
    /* Others may allocate from a pool of CUDA's. Of these only the present is known. */
    uint64_t others = weir__less(used, weir__larger(before, taken)), use = taken + others;
    high += others;
    if (!adapted->is_begun)
        begin(pool, now, use, high);
    note_asks(pool, now);
    adapted->low = weir__smaller(adapted->low, use);
    adapted->high = weir__larger(adapted->high, high);
    if (now - adapted->began >= WEIR__DEMAND_EPOCH)
        end_epochs(pool, now, use, reserved);
    uint64_t wanted = weir__larger(weir__demand_wanted(&adapted->demand), adapted->high);
    /* Fragments take room beside what is wanted, but no more than what comes and goes. */
    uint64_t swing = wanted - weir__smaller(weir__demand_least(&adapted->demand), use);
    uint64_t kept = bounded(pool, wanted + weir__smaller(adapted->waste, swing)), least = bounded(pool, use);
    atomic_store(&pool->settings.kept, kept);
    /* Later it may be less than now, although nothing is freed. */
    adapted->is_awake = kept > least && is_above(reserved, least);
}

/* Giving back ------------------------------------------------------------------------------------------------------------------------- */

/* Lets go of a piece above the threshold. Memory goes back in the pieces in which it came, so it grows until one fits into it. */
static uint64_t trim_piece(weir_pool *pool, uint64_t reserved, uint64_t threshold)
{
    uint64_t released = 0, piece = PIECE;
    for (uint64_t to = reserved; !released && to > threshold; piece *= 2) {
        to = weir__larger(threshold, weir__less(reserved, piece));
        weir__pool_trim(pool, to, &released);
    }
    return released;
}

/* One piece. Returns when the next one is due. */
static uint64_t give_back(weir_pool *pool)
{
    struct weir__adapted *adapted = &pool->adapted;
    uint64_t threshold = threshold_of(pool), before = weir__pool_figure(pool, GPU_POOL_RESERVED);
    uint64_t released = trim_piece(pool, before, threshold);
    if (!released) {
        adapted->is_awake = adapted->is_awake || !adapted->is_done;
        return WEIR__SERVICE_NEVER;
    }
    uint64_t idle = weir__larger(weir__less(before, adapted->peak), released), rent = (uint64_t)((unsigned __int128)adapted->rent * released / idle);
    add_audit(&adapted->unused, released, rent);
    adapted->rent -= rent;
    adapted->given[0] += released;
    adapted->reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    return is_above(adapted->reserved, threshold) ? weir__service_now() + PAUSE : WEIR__SERVICE_NEVER;
}

uint64_t weir__adapt_look(struct weir__device *device, uint64_t now)
{
    bool needs_frees = false, done = true;
    uint64_t due = WEIR__SERVICE_NEVER;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        struct weir__adapted *adapted = &pool->adapted;
        if (!atomic_load(&pool->settings.is_auto)) {
            adapted->is_begun = adapted->is_awake = adapted->is_giving = false;
            continue;
        }
        if (!atomic_exchange(&pool->keeper.is_left, false) && !adapted->is_awake)
            continue;
        observe(pool, now);
        uint64_t reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
        pool->keeper.is_due = is_above(reserved, threshold_of(pool)) && weir__pool_figure(pool, GPU_POOL_USED) < reserved;
        needs_frees = needs_frees || (pool->keeper.is_due && !adapted->is_giving);
    }
    if (needs_frees)
        done = weir__wait_for_frees(device, device->w->gpu->now() + PATIENCE, false);
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        struct weir__adapted *adapted = &pool->adapted;
        if (!atomic_load(&pool->settings.is_auto))
            continue;
        if (!adapted->is_giving)
            adapted->is_done = done;
        uint64_t again = pool->keeper.is_due ? give_back(pool) : WEIR__SERVICE_NEVER;
        adapted->is_giving = again != WEIR__SERVICE_NEVER;
        pool->keeper.is_due = false;
        adapted->is_awake = adapted->is_awake || again != WEIR__SERVICE_NEVER;
        if (adapted->is_awake)
            due = weir__service_earlier(due, weir__service_earlier(again, adapted->began + WEIR__DEMAND_EPOCH));
    }
    return due;
}
