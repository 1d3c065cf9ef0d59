/* SPDX-License-Identifier: MIT */
#include "lib/release/ahead.h"

#include <stddef.h>

#include "lib/base/number.h"
#include "lib/gpu/clock.h"
#include "lib/pool/extend.h"
#include "lib/pool/left.h"
#include "lib/release/adapt.h"

#define PIECE (UINT64_C(32) << 20)         /* bytes that it grows by at a time, as CUDA does: 50 us (measured on an H200) */
#define PAUSE (GPU_MILLISECOND / 2)        /* at least so long between two pieces, */
#define PAUSE_SHARE 9                      /* and so many times as long as the first one took */
#define CLOSED_PAUSE (5 * GPU_MILLISECOND) /* while a request that found no memory is tried alone */
#define LEAST (UINT64_C(1) << 20)          /* bytes by which the use has risen before anything is grown, at least, */
#define LEAST_SHARE 64                     /* and such a part of what is expected */
#define SHORT_SHARE 32                     /* a device that would have a smaller part of its memory left is short of it */
#define CREDIT_FIRST (UINT64_C(256) << 20) /* bytes that may be grown at first, and nobody use, */
#define CREDIT_MOST (UINT64_C(2) << 30)    /* and ever */
#define CREDIT_SHARE 16                    /* of what requests grow by themselves, such a part is added */
#define UNUSED_SHARE 4                     /* of the time for which idle memory is kept: so long nobody need use it */
#define FAILURES_MOST 6                    /* that lengthen the time to the next attempt */

/* What is expected --------------------------------------------------------------------------------------------------------------------- */

struct prospect {
    uint64_t use, others;      /* bytes in use, and those of them that others allocated */
    uint64_t floor;            /* from which the use has risen */
    uint64_t expected;         /* to which it will; 0: nobody knows, or nothing may be grown */
    uint64_t reserved, usable; /* usable: without the room that fragments take */
};

static bool can_grow(const weir_pool *pool)
{
    return !pool->kind.is_host && !pool->kind.is_exportable && !pool->device->info.os_managed && !weir__pool_is_stuck(pool) &&
           pool->adapted.is_begun;
}

static uint64_t expected_of(const weir_pool *pool, uint64_t now)
{
    uint64_t max_size = atomic_load(&pool->settings.max_size), expected = weir__demand_expected(&pool->adapted.demand);
    /* One that is parked keeps nothing. */
    expected = weir__smaller(expected, atomic_load(&pool->settings.release_threshold));
    if (weir__adapt_is_asked(pool, now))
        expected = weir__smaller(expected, atomic_load(&pool->settings.keep));
    return max_size ? weir__smaller(expected, max_size) : expected;
}

static struct prospect look_ahead(const weir_pool *pool, uint64_t now)
{
    const struct weir__adapted *adapted = &pool->adapted;
    uint64_t taken = atomic_load(&pool->figures.taken), used = weir__pool_figure(pool, GPU_POOL_USED);
    struct prospect prospect = {.use = weir__larger(taken, used), .others = weir__less(used, taken)};
    prospect.floor = weir__smaller(prospect.use, weir__smaller(adapted->low, weir__demand_low(&adapted->demand)));
    prospect.expected = can_grow(pool) ? expected_of(pool, now) : 0;
    prospect.reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    prospect.usable = weir__less(prospect.reserved, weir__smaller(adapted->waste, weir__less(prospect.expected, prospect.floor)));
    return prospect;
}

/* Bytes by which the use has to rise before anything is grown: what comes and goes at the floor is no rise. */
static uint64_t least_rise(const struct prospect *prospect)
{
    return weir__smaller(weir__larger(weir__less(prospect->expected, prospect->floor) / LEAST_SHARE, LEAST), PIECE);
}

/* The bytes that the pool is to have ready: as many beyond the use as that has risen by, and a piece. */
static uint64_t wanted_of(const struct prospect *prospect)
{
    uint64_t rise = prospect->use - prospect->floor;
    if (rise < least_rise(prospect))
        return 0;
    return weir__smaller(prospect->expected, prospect->use + weir__smaller(rise + PIECE, WEIR__EXTEND_IDLE));
}

/* The use at which a step more than the pool has would be wanted; UINT64_MAX: at none. */
static uint64_t next_use(const struct prospect *prospect)
{
    uint64_t need = prospect->usable + WEIR__GROWTH_STEP;
    if (need > prospect->expected)
        return UINT64_MAX;
    uint64_t by_rise = weir__less(need + prospect->floor + 1, PIECE) / 2, by_idle = weir__less(need, WEIR__EXTEND_IDLE);
    return weir__larger(prospect->floor + least_rise(prospect), weir__larger(by_rise, by_idle));
}

/* next: the use at which the keeper is to be told. */
static void watch(weir_pool *pool, const struct prospect *prospect, uint64_t next)
{
    uint64_t most = weir__less(prospect->expected, prospect->others + WEIR__GROWTH_STEP);
    atomic_store(&pool->figures.watched_most, most);
    atomic_store(&pool->figures.watched, next == UINT64_MAX ? next : weir__less(next, prospect->others));
    weir__pool_served(pool); /* it may have risen meanwhile */
}

void weir__ahead_watch(weir_pool *pool)
{
    uint64_t now = weir__service_now();
    const struct weir__ahead *grown = &pool->adapted.grown;
    if (grown->is_due || now < grown->pause || grown->credit < WEIR__GROWTH_STEP)
        return;
    const struct prospect prospect = look_ahead(pool, now);
    watch(pool, &prospect, next_use(&prospect));
}

/* What came of it ---------------------------------------------------------------------------------------------------------------------- */

void weir__ahead_forget(weir_pool *pool)
{
    atomic_store(&pool->figures.watched, UINT64_MAX);
    pool->adapted.grown = (struct weir__ahead){.credit = CREDIT_FIRST};
}

static void add_credit(struct weir__ahead *grown, uint64_t bytes)
{
    grown->credit = weir__smaller(grown->credit + bytes, CREDIT_MOST);
}

void weir__ahead_note(weir_pool *pool, uint64_t reserved, uint64_t high)
{
    struct weir__adapted *adapted = &pool->adapted;
    struct weir__ahead *grown = &adapted->grown;
    if (!grown->level)
        return;
    /* Some of it may have gone to who was in need. */
    grown->unused = weir__less(grown->unused, weir__less(grown->level, reserved));
    grown->level = weir__smaller(grown->level, reserved);
    grown->peak = weir__larger(grown->peak, high);
    uint64_t left = weir__less(reserved, grown->peak + weir__smaller(adapted->waste, weir__less(grown->peak, adapted->low)));
    uint64_t used = weir__less(grown->unused, left);
    if (used) {
        weir__audit_add(&adapted->ahead_used, used, weir__demand_cost(used, weir__adapt_costs(pool, weir__service_now()).grow));
        add_credit(grown, used + used / 4); /* so four fifths of what is grown have to be used, in the long run */
        grown->used_now += used;
        grown->unused -= used;
        grown->since = weir__service_now();
    }
    if (!grown->unused)
        grown->level = 0;
}

void weir__ahead_pass(weir_pool *pool, uint64_t now, uint64_t missed)
{
    struct weir__adapted *adapted = &pool->adapted;
    struct weir__ahead *grown = &adapted->grown;
    grown->used_now = 0;
    add_credit(grown, missed / CREDIT_SHARE);
    /* It may have been used since `now` was read. */
    if (!grown->level || weir__less(now, grown->since) <= WEIR__DEMAND_EPOCH * (UINT64_C(1) << adapted->demand.choice) / UNUSED_SHARE)
        return;
    weir__demand_expect_less(&adapted->demand, grown->peak);
    grown->level = grown->unused = 0;
}

/* Growing ------------------------------------------------------------------------------------------------------------------------------ */

/* What is taken of the pool meanwhile the device has too, so that no request finds less than before. */
static bool is_short(const weir_pool *pool, const struct prospect *prospect, uint64_t bytes)
{
    uint64_t left = 0, total, held = bytes + (prospect->reserved - weir__smaller(prospect->use, prospect->reserved));
    return pool->w->gpu->device_memory(pool->device->index, &left, &total) != GPU_SUCCESS ||
           left < held + pool->device->info.memory / SHORT_SHARE;
}

static bool has_stream(struct weir__device *device)
{
    return device->extending || device->w->gpu->stream_create(device->index, &device->extending) == GPU_SUCCESS;
}

static void note_failure(struct weir__ahead *grown, uint64_t now)
{
    grown->pause = now + (GPU_SECOND << grown->failures);
    grown->failures += grown->failures < FAILURES_MOST;
}

static void note_growth(weir_pool *pool, uint64_t bytes, uint64_t took)
{
    struct weir__adapted *adapted = &pool->adapted;
    struct weir__ahead *grown = &adapted->grown;
    weir__audit_add(&adapted->ahead, bytes, took);
    grown->peak = grown->level ? grown->peak : atomic_load(&pool->figures.taken);
    grown->level = weir__pool_figure(pool, GPU_POOL_RESERVED);
    grown->unused += bytes;
    grown->credit = weir__less(grown->credit, bytes);
    grown->since = weir__service_now();
    grown->failures = 0;
    adapted->reserved += bytes;
    if (atomic_load(&pool->settings.kept) < grown->level)
        atomic_store(&pool->settings.kept, grown->level);
    weir__pool_left(pool); /* the keeper looks what becomes of it */
}

/* One piece. Returns when the next one is due. */
static uint64_t grow(weir_pool *pool, const struct prospect *prospect, uint64_t bytes)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t begun = gpu->now();
    if (is_short(pool, prospect, bytes) || !has_stream(pool->device)) {
        pool->adapted.grown.pause = weir__service_now() + GPU_SECOND;
        return WEIR__SERVICE_NEVER;
    }
    uint64_t grown = weir__pool_extend(pool, bytes, pool->device->extending), took = gpu->now() - begun;
    if (!grown) {
        note_failure(&pool->adapted.grown, weir__service_now());
        return WEIR__SERVICE_NEVER;
    }
    note_growth(pool, grown, took);
    return weir__service_now() + weir__larger(PAUSE, PAUSE_SHARE * took);
}

/* Returns when to look again. */
static uint64_t look(weir_pool *pool)
{
    uint64_t now = weir__service_now(), max_size = atomic_load(&pool->settings.max_size);
    const struct prospect prospect = look_ahead(pool, now);
    weir__ahead_note(pool, prospect.reserved, prospect.use);
    uint64_t bytes = weir__smaller(weir__smaller(PIECE, weir__less(wanted_of(&prospect), prospect.usable)), pool->adapted.grown.credit);
    if (max_size)
        bytes = weir__smaller(bytes, weir__less(max_size, prospect.reserved));
    bytes = bytes / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP;
    if (!bytes) {
        /* More may be wanted already, and the credit come back as some is used. */
        watch(pool, &prospect, weir__larger(next_use(&prospect), prospect.use + WEIR__GROWTH_STEP));
        return WEIR__SERVICE_NEVER;
    }
    if (now < pool->adapted.grown.pause)
        return WEIR__SERVICE_NEVER;
    if (atomic_load(&pool->device->asking.is_closed))
        return now + CLOSED_PAUSE;
    return grow(pool, &prospect, bytes);
}

static uint64_t look_at_device(struct weir__device *device)
{
    uint64_t due = WEIR__SERVICE_NEVER;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        struct weir__ahead *grown = &pool->adapted.grown;
        bool is_risen = atomic_exchange(&pool->keeper.is_risen, false);
        if (!atomic_load(&pool->settings.is_auto) || !(is_risen || grown->is_due))
            continue;
        uint64_t again = look(pool);
        grown->is_due = again != WEIR__SERVICE_NEVER;
        due = weir__service_earlier(due, again);
    }
    return due;
}

static uint64_t run(struct weir__job *job)
{
    weir *w = (weir *)((char *)job - offsetof(weir, keeper.ahead));
    uint64_t due = WEIR__SERVICE_NEVER;
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++)
        due = weir__service_earlier(due, look_at_device(&w->devices[d]));
    weir__relaxed_end(w->gpu, mode);
    return due;
}

/* A piece that was due comes no more, so whoever looks next is to begin anew. */
static void forget_all(weir *w)
{
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            weir__ahead_forget(pool);
}

static void drop_streams(weir *w)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++)
        if (w->devices[d].extending) {
            w->gpu->stream_destroy(w->devices[d].extending);
            w->devices[d].extending = NULL;
        }
    weir__relaxed_end(w->gpu, mode);
}

weir_status weir__ahead_set(weir *w, bool on, weir_error *error)
{
    w->keeper.ahead.run = run;
    if (on)
        return weir__service_add(&w->keeper.ahead, error);
    weir__service_remove(&w->keeper.ahead);
    forget_all(w);
    drop_streams(w);
    return WEIR_OK;
}
