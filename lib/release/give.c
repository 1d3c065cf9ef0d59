/* SPDX-License-Identifier: MIT */
#include "lib/release/give.h"

#include <stdlib.h>
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/alloc/sleep.h"
#include "lib/gpu/clock.h"

#define POLL_FIRST UINT64_C(20000)   /* nanoseconds between two looks at pending frees, doubled each time, */
#define POLL_LONGEST GPU_MILLISECOND /* up to this */

#define BATCH 32 /* streams that are pinned (protected from closing) at a time */
/* The most bytes that one step gives back. CUDA needs 1 to 2 ms for a GiB (measured), during which the service thread's other jobs wait. */
#define SHARE_OF_STEP (UINT64_C(4) << 30)

/* The stages of the work on one device; devices are handled one after the other. */
enum stage {
    STAGE_IDLE,    /* give back memory that is idle already */
    STAGE_PENDING, /* give back memory that becomes idle when caches are flushed and frees complete */
};

struct weir__give {
    weir *w;
    struct weir__give_request request;
    char *pool; /* a copy of request.pool */
    size_t device;
    enum stage stage;
    bool has_more; /* the last step gave something, so another one may too */
    uint64_t pause;
    uint64_t gave;
    struct weir__wait wait; /* for the pending frees on the device */
};

static bool is_enough(const struct weir__give *give)
{
    return give->gave >= give->request.wanted;
}

static bool is_late(const struct weir__give *give)
{
    return weir__service_now() >= give->request.deadline;
}

static uint64_t keep_of(const struct weir__give *give, const weir_pool *pool)
{
    return give->request.keep == WEIR__GIVE_POLICY_KEEP ? atomic_load(&pool->settings.keep) : give->request.keep;
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether an opened stream that allocates from the pool captures: its graph may be about to use the pool's memory. */
static bool is_captured(weir_pool *pool)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    bool captures = false;
    while ((count = weir__streams_pin_next(pool->device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            captures = captures || (streams[i]->pool == pool && weir__stream_captures(streams[i]));
            weir__stream_unpin(streams[i]);
        }
    return captures;
}

static bool is_asked(const struct weir__give *give, const weir_pool *pool)
{
    /* Host memory does not help a neighbour. */
    return (!give->pool || strcmp(give->pool, pool->name) == 0) && !(give->request.is_neighbour && pool->native.is_host);
}

/* Returns the idle bytes that the pool could give back now and still keep `keep` bytes. */
static uint64_t idle_above(const weir_pool *pool, uint64_t keep)
{
    uint64_t idle = weir__pool_idle(pool), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    uint64_t above = reserved > keep ? reserved - keep : 0;
    return idle < above ? idle : above;
}

static uint64_t trim_to(struct weir__give *give, weir_pool *pool, uint64_t keep)
{
    uint64_t released = 0;
    if (weir__pool_trim(pool, keep, &released) != GPU_SUCCESS)
        return 0;
    give->gave += released;
    if (give->request.is_neighbour)
        atomic_fetch_add_explicit(&pool->device->recovery.bytes_given, released, memory_order_relaxed);
    return released;
}

/* Trims the pool by about `bytes`. Memory goes back in the units in which it was taken, so the amount doubles until a unit fits into it.
   Returns the bytes that went back. */
static uint64_t trim_by(struct weir__give *give, weir_pool *pool, uint64_t keep, uint64_t bytes)
{
    uint64_t reserved = weir__pool_figure(pool, GPU_POOL_RESERVED), released = 0, to;
    do {
        to = bytes < reserved && reserved - bytes > keep ? reserved - bytes : keep;
        released = trim_to(give, pool, to);
        bytes = bytes < UINT64_MAX / 2 ? 2 * bytes : UINT64_MAX;
    } while (!released && to > keep);
    return released;
}

/* Gives back idle memory of the device's pools, at most one step's share. Returns whether anything went back. */
static bool trim_device(struct weir__give *give, struct weir__device *device)
{
    uint64_t before = give->gave;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        uint64_t keep = keep_of(give, pool), done = give->gave - before;
        if (is_enough(give) || done >= SHARE_OF_STEP || !is_asked(give, pool) || !idle_above(pool, keep) || is_captured(pool))
            continue;
        uint64_t missing = give->request.wanted - give->gave, share = SHARE_OF_STEP - done;
        trim_by(give, pool, keep, missing < share ? missing : share);
    }
    return give->gave > before;
}

/* Returns the free bytes of the pool that cannot go back because of live blocks in the same pages, as far as the pool knows. */
static uint64_t pinned_in(weir_pool *pool)
{
    uint64_t pinned = 0;
    return pool->backing->ops->pinned(pool->backing, &pinned) ? pinned : 0;
}

uint64_t weir__give_offer(weir *w, int device, uint64_t *yielded)
{
    uint64_t offer = 0;
    struct weir__device *of = &w->devices[device];
    for (weir_pool *pool = weir__device_next_pool(of, NULL); pool; pool = weir__device_next_pool(of, pool)) {
        struct weir__held held = weir__pool_held(pool);
        uint64_t keep = atomic_load(&pool->settings.keep), used = weir__pool_figure(pool, GPU_POOL_USED);
        uint64_t reserved = weir__pool_figure(pool, GPU_POOL_RESERVED), before = offer;
        /* The program may also have allocated from the CUDA pool without Weir. */
        uint64_t live = used > held.cached && used - held.cached > held.live ? used - held.cached : held.live;
        live += pinned_in(pool);
        if (keep < live)
            keep = live;
        if (!pool->native.is_host && !weir__pool_is_stuck(pool) && reserved > keep && !is_captured(pool))
            offer += (reserved - keep) / pool->backing->ops->step * pool->backing->ops->step;
        if (yielded)
            *yielded += weir__less(weir__yielded_bytes(pool), offer - before);
    }
    return offer;
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

/* Empties the caches of streams whose pools the request concerns. Does not touch orphans. */
static void flush(const struct weir__give *give, struct weir__device *device)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    while ((count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            if (is_asked(give, streams[i]->pool) && keep_of(give, streams[i]->pool) != UINT64_MAX)
                weir__flush_stream(streams[i], UINT64_MAX);
            weir__stream_unpin(streams[i]);
        }
}

/* Puts the next yielded pool of the device to sleep. Returns whether anything went back. */
static bool take_yielded(struct weir__give *give, struct weir__device *device)
{
    uint64_t before = give->gave;
    uint64_t now = weir__service_now(), left = give->request.deadline > now ? give->request.deadline - now : 0;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        if (give->gave > before || !is_asked(give, pool) || !weir__yielded_bytes(pool))
            continue;
        weir_error error = WEIR_ERROR_INIT;
        if (weir__yielded_take(pool, device->w->gpu->now() + left, &error, &give->gave) != WEIR_OK)
            weir__log_about(give->w, pool, WEIR_LOG_WARNING, "nobody gets the memory of the yielded pool: %s", error.text);
    }
    if (give->request.is_neighbour)
        atomic_fetch_add_explicit(&device->recovery.bytes_given, give->gave - before, memory_order_relaxed);
    return give->gave > before;
}

/* Looks at the pending frees. Returns how many waits are left; *any becomes true if a wait has ended. */
static unsigned look_at_waits(struct weir__give *give, bool *any)
{
    uint64_t bytes;
    *any = weir__wait_look(&give->wait, &bytes) || *any;
    return give->wait.left;
}

static void leave_device(struct weir__give *give)
{
    give->has_more = false;
    give->stage = STAGE_IDLE;
    give->pause = POLL_FIRST;
    give->device++;
}

/* Does one step on the device. Returns whether the work on the device is finished. */
static bool work_on(struct weir__give *give, struct weir__device *device)
{
    unsigned left = 0;
    bool seen = true;
    if (give->stage == STAGE_PENDING) {
        seen = give->has_more;
        left = look_at_waits(give, &seen);
    }
    give->has_more = seen && trim_device(give, device);
    if (is_enough(give) || is_late(give))
        return true;
    /* Once there is nothing more, as a hook refuses, say, the hooks are not called again and again while frees are waited for. */
    if (!give->has_more && give->request.takes_yielded)
        give->request.takes_yielded = give->has_more = take_yielded(give, device);
    if (give->has_more)
        return false;
    if (give->stage == STAGE_PENDING)
        return left == 0;
    flush(give, device);
    const struct weir__scope scope = {.fences = device->fences, .group = device};
    weir__wait_begin(&give->wait, &scope, true);
    give->stage = STAGE_PENDING;
    give->has_more = true;
    return false;
}

uint64_t weir__give_step(struct weir__give *give)
{
    size_t end = give->request.device < 0 ? give->w->device_count : (size_t)give->request.device + 1;
    if (give->device >= end || is_enough(give))
        return WEIR__GIVE_DONE;
    enum gpu_capture_mode mode = weir__relaxed_begin(give->w->gpu);
    bool is_done = work_on(give, &give->w->devices[give->device]);
    if (is_done)
        leave_device(give);
    weir__relaxed_end(give->w->gpu, mode);
    if (is_done && (give->device >= end || is_enough(give)))
        return WEIR__GIVE_DONE;
    uint64_t now = weir__service_now();
    if (is_done || give->has_more)
        return now;
    uint64_t due = now + give->pause;
    give->pause = 2 * give->pause < POLL_LONGEST ? 2 * give->pause : POLL_LONGEST;
    return due < give->request.deadline ? due : give->request.deadline;
}

/* Returns the bytes that the pools have reserved, which bound the request: a program that goes on allocating has idle memory again and
   again, and must not be trimmed for as long as it runs. */
static uint64_t reserved_of(const struct weir__give *give)
{
    uint64_t reserved = 0;
    size_t end = give->request.device < 0 ? give->w->device_count : give->device + 1;
    for (size_t d = give->device; d < end; d++) {
        struct weir__device *device = &give->w->devices[d];
        for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
            if (is_asked(give, pool))
                reserved += weir__pool_figure(pool, GPU_POOL_RESERVED);
    }
    return reserved;
}

struct weir__give *weir__give_begin(weir *w, const struct weir__give_request *request)
{
    struct weir__give *give = calloc(1, sizeof *give);
    if (!give)
        return NULL;
    give->w = w;
    give->request = *request;
    give->device = request->device < 0 ? 0 : (size_t)request->device;
    give->pause = POLL_FIRST;
    if (request->pool && !(give->pool = strdup(request->pool))) {
        free(give);
        return NULL;
    }
    uint64_t reserved = reserved_of(give);
    if (give->request.wanted > reserved)
        give->request.wanted = reserved;
    if (request->is_neighbour)
        atomic_fetch_add_explicit(&w->devices[give->device].recovery.asks_received, 1, memory_order_relaxed);
    return give;
}

uint64_t weir__give_bytes(const struct weir__give *give)
{
    return give->gave;
}

void weir__give_end(struct weir__give *give)
{
    if (give->request.is_neighbour)
        weir__record_figures(&give->w->recorder, WEIR__KIND_ASKED, 0, NULL, give->request.wanted, give->gave);
    free(give->pool);
    free(give);
}
