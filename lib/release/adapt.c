/* SPDX-License-Identifier: MIT */
#include "lib/release/adapt.h"

#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/base/number.h"
#include "lib/gpu/clock.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"

#define PIECE (UINT64_C(64) << 20)  /* bytes of one piece: a trim of this size blocks other threads' calls for 60 us (measured), */
#define PAUSE (5 * GPU_MILLISECOND) /* and the pause between two pieces */
#define PATIENCE GPU_MILLISECOND    /* how long a look waits for pending frees, by the GPU's clock */

/* The rent of idle memory, in nanoseconds for each GiB and second: growing and trimming a GiB costs as much as 4 s of rent. */
#define RENT UINT64_C(440000)
#define ASKED_RENT 8                 /* the rent is multiplied by this if a neighbour has asked for memory */
#define ASKED_TIME (60 * GPU_SECOND) /* within this time */

/* Returns whether a neighbour has recently asked for memory of the pool's device. */
static bool is_asked(const weir_pool *pool, uint64_t now)
{
    const struct weir__adapted *adapted = &pool->adapted;
    uint64_t asks = atomic_load_explicit(&pool->device->recovery.asks_received, memory_order_relaxed);
    return asks != adapted->asks || (asks && now - adapted->asked < ASKED_TIME);
}

/* Returns the present costs of the pool's memory: growing, trimming and rent. */
static struct weir__demand_costs costs_of(const weir_pool *pool, uint64_t now)
{
    const struct weir__backing_ops *ops = pool->backing->ops;
    struct weir__demand_costs costs = {.grow = ops->grow, .trim = ops->trim};
    costs.rent = RENT * WEIR__DEMAND_EPOCH / GPU_SECOND * (is_asked(pool, now) ? ASKED_RENT : 1);
    return costs;
}

/* Returns `bytes`, the size to keep, within the bounds that the pool's policy sets. */
static uint64_t bounded(const weir_pool *pool, uint64_t bytes)
{
    uint64_t max_size = atomic_load(&pool->settings.max_size);
    bytes = weir__larger(bytes, weir__larger(atomic_load(&pool->settings.keep), atomic_load(&pool->settings.initial)));
    return max_size ? weir__smaller(bytes, max_size) : bytes;
}

/* The bytes that the pool keeps now. The threshold of a parked pool, a private one that nothing uses, is 0, whatever the expectation is. */
static uint64_t threshold_of(const weir_pool *pool)
{
    return weir__smaller(atomic_load(&pool->settings.kept), atomic_load(&pool->backing->threshold));
}

static bool is_above(uint64_t reserved, uint64_t kept)
{
    return weir__less(reserved, kept) >= WEIR__GROWTH_STEP;
}

/* Epochs ------------------------------------------------------------------------------------------------------------------------------- */

/* Counts bytes, and the nanoseconds that they cost or saved. */
static void add_audit(struct weir__audit *audit, uint64_t bytes, uint64_t time)
{
    atomic_fetch_add_explicit(&audit->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&audit->time, time, memory_order_relaxed);
}

/* Counts the effects in the epoch that ends: idle memory that was used again, and memory that had been given back and had to be taken from
   the device again. */
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

/* Shifts the counts of given bytes, which are kept by epoch, after `epochs` epochs have passed. */
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
    /* The keeper slept through all epochs but the last, since nothing was freed, so the use in them was constant. */
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
    adapted->began = now - WEIR__DEMAND_EPOCH; /* the time before counts as one epoch */
    adapted->low = use;
    adapted->peak = adapted->high = high;
    adapted->reserved = 0; /* all memory of the pool counts as growth from now on */
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

/* Reads the pool's figures, and sets how much the pool keeps. */
static void observe(weir_pool *pool, uint64_t now)
{
    struct weir__adapted *adapted = &pool->adapted;
    uint64_t high = weir__pool_take_high(pool), before = atomic_load(&pool->figures.taken);
    uint64_t used = weir__pool_figure(pool, GPU_POOL_USED), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    uint64_t taken = atomic_load(&pool->figures.taken);
    /* Other code may allocate from a CUDA pool too. Only its present use is known, not its peak. */
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
    /* Fragmentation needs room in addition to the wanted bytes, but no more than the bytes that come and go. */
    uint64_t swing = wanted - weir__smaller(weir__demand_least(&adapted->demand), use);
    uint64_t kept = bounded(pool, wanted + weir__smaller(adapted->waste, swing)), least = bounded(pool, use);
    uint64_t former = atomic_load(&pool->settings.kept);
    if (former != WEIR__NOT_AUTO) /* a value that the program or a reload sets meanwhile stays */
        atomic_compare_exchange_strong(&pool->settings.kept, &former, kept);
    /* If `kept` may fall later although nothing is freed, the keeper has to look again. */
    adapted->is_awake = kept > least && is_above(reserved, least);
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

/* Gives back one piece of what is above the threshold. Memory goes back in the units in which it was taken, so the piece doubles until a
   unit fits into it. Returns the bytes that went back. */
static uint64_t trim_piece(weir_pool *pool, uint64_t reserved, uint64_t threshold)
{
    uint64_t released = 0, piece = PIECE;
    for (uint64_t to = reserved; !released && to > threshold; piece *= 2) {
        to = weir__larger(threshold, weir__less(reserved, piece));
        weir__pool_trim(pool, to, &released);
    }
    return released;
}

/* Gives back one piece. Returns when the next one is due, or WEIR__SERVICE_NEVER. */
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
        if (!weir__pool_is_auto(pool)) {
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
        if (!weir__pool_is_auto(pool))
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
