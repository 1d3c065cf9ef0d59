/* SPDX-License-Identifier: MIT */
/* rungs.c - the rungs of the ladder (climb.h), and the new attempts of the request after them. */
#include <stddef.h>
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/others.h"
#include "lib/alloc/sleep.h"
#include "lib/base/event.h"
#include "lib/gpu/clock.h"
#include "lib/recover/callbacks.h"
#include "lib/recover/climb.h"

#define MOMENT GPU_MILLISECOND

bool weir__climb_pause(struct weir__climb *climb, uint64_t *pause)
{
    uint64_t since = climb->gpu->now();
    bool is_in_time = weir__event_pause(climb->gpu, pause, climb->deadline);
    if (is_in_time)
        climb->request->ask.waited += climb->gpu->now() - since;
    return is_in_time;
}

/* Retrying ----------------------------------------------------------------------------------------------------------------------------- */

bool weir__climb_is_over(const struct weir__climb *climb)
{
    return climb->request->code != GPU_OUT_OF_MEMORY;
}

bool weir__climb_is_late(const struct weir__climb *climb)
{
    return climb->gpu->now() > climb->deadline;
}

struct timespec weir__climb_deadline(const struct weir__climb *climb)
{
    uint64_t now = climb->gpu->now(), left = climb->deadline > now ? climb->deadline - now : 0;
    return gpu_clock_timespec(gpu_clock_now() + (left > MOMENT ? left : MOMENT));
}

/* Returns true once no other request of the device is being tried; none is then tried until alone_end(). Returns false if the deadline
   passes before that. */
static bool alone_begin(struct weir__climb *climb)
{
    struct timespec until = weir__climb_deadline(climb);
    if (weir__asking_alone_begin(&climb->device->asking, &until, climb->gpu, &climb->request->ask.waited))
        return true;
    climb->why = "the deadline passed while other requests were tried";
    return false;
}

static void alone_end(struct weir__climb *climb)
{
    weir__asking_alone_end(&climb->device->asking);
}

/* Tries the request, between alone_begin() and alone_end(). At most one call of CUDA ends after the deadline. */
static bool try_alone(struct weir__climb *climb, void **ptr)
{
    bool is_served = !weir__climb_is_over(climb) && !climb->is_used_up && weir__attempt(climb->request, ptr);
    climb->is_used_up = climb->is_used_up || (climb->request->was_asked && weir__climb_is_late(climb));
    return is_served;
}

bool weir__climb_retry(struct weir__climb *climb, void **ptr)
{
    if (weir__climb_is_over(climb) || climb->is_used_up || !alone_begin(climb))
        return false;
    bool is_served = try_alone(climb, ptr);
    alone_end(climb);
    return is_served;
}

bool weir__climb_has_step(const struct weir__climb *climb, weir_rung rung)
{
    return atomic_load(&climb->request->pool->settings.steps) >> rung & 1;
}

/* Empties caches. At a cap only this pool's own blocks count. CUDA has to see these frees complete only if CUDA itself enforces the cap. */
static uint64_t flush(struct weir__climb *climb)
{
    weir_pool *pool = climb->request->pool;
    bool at_cap = climb->request->at_cap;
    uint64_t flushed = weir__flush(climb->device, at_cap ? pool : NULL, true, climb->deadline);
    if (!at_cap)
        flushed += weir__others_flush(climb->device, climb->deadline);
    climb->rungs[WEIR_RUNG_FLUSH].gave += flushed;
    return flushed;
}

/* Frees orphans (lib/alloc/orphans.h). It waits a millisecond at most, which is enough if no work runs; the wait rung waits longer. */
static uint64_t free_orphans(struct weir__climb *climb)
{
    uint64_t soon = climb->gpu->now() + MOMENT;
    uint64_t freed = weir__orphans_free(climb->device, soon < climb->deadline ? soon : climb->deadline);
    climb->rungs[WEIR_RUNG_FLUSH].gave += freed;
    return freed;
}

/* The rungs ---------------------------------------------------------------------------------------------------------------------------- */

/* The events that a climb waits for: behind the opened streams, behind the requester's stream, and behind noted frees on other streams. */
struct waits {
    struct weir__wait wait;
    struct weir__line *own; /* the line (lib/fence/fence.h) of the requester's stream, or NULL */
};

/* Returns the line of the requester's stream if it is not an opened one: the program may have freed there without Weir. */
static struct weir__line *own_line(const struct weir__climb *climb)
{
    const struct weir__request *request = climb->request;
    struct weir__line *line = request->opened ? NULL : weir__stream_line(climb->device, request->stream, request->id);
    if (!line || weir__debt_of(&request->pool->backing->debts, line))
        return line;
    weir__line_put(line);
    return NULL;
}

/* Begins to wait for pending frees; waits_end() ends it. At a cap only this weir's own frees count. */
static void waits_begin(struct weir__climb *climb, struct waits *waits)
{
    struct weir__device *device = climb->device;
    struct weir__scope scope = {.fences = device->fences, .group = climb->request->at_cap ? device : NULL, .deadline = climb->deadline};
    waits->own = own_line(climb);
    if (waits->own && !weir__climb_is_late(climb))
        weir__line_cover_anyway(waits->own, true);
    weir__fences_cover_legacy(device->fences);
    weir__wait_begin(&waits->wait, &scope, true);
}

static void waits_end(const struct waits *waits)
{
    if (waits->own)
        weir__line_put(waits->own);
}

/* Bytes that were freed, and that CUDA has not known to be complete until now. */
static uint64_t see_frees(struct weir__climb *climb)
{
    struct waits waits;
    uint64_t bytes;
    waits_begin(climb, &waits);
    weir__wait_look(&waits.wait, &bytes);
    waits_end(&waits);
    return bytes;
}

/* Trims the idle memory in CUDA pools of this process's other weirs: an arena can have it only after it went back to the device. Returns
   the bytes. */
static uint64_t trim_others(const struct weir__climb *climb)
{
    const weir_pool *pool = climb->request->pool;
    bool helps = !climb->request->at_cap && !pool->native.is_host && !pool->backing->ops->lends_idle;
    return helps && weir__climb_has_step(climb, WEIR_RUNG_TRIM) ? weir__others_trim(climb->device, climb->deadline) : 0;
}

bool weir__climb_gather_alone(struct weir__climb *climb, void **ptr)
{
    bool may_flush = weir__climb_has_step(climb, WEIR_RUNG_FLUSH), may_wait = weir__climb_has_step(climb, WEIR_RUNG_WAIT), is_served;
    bool may_find = (may_flush || may_wait) && !weir__climb_is_late(climb);
    uint64_t found;
    if (!(may_find || climb->request->insist) || weir__climb_is_over(climb) || climb->is_used_up || !alone_begin(climb))
        return false;
    do {
        found = (may_flush ? flush(climb) : 0) + (may_wait ? see_frees(climb) : 0);
        /* Trim here too: if the wait lasts until the deadline, the trim rung gets no turn any more. */
        climb->rungs[WEIR_RUNG_TRIM].gave += trim_others(climb);
        is_served = try_alone(climb, ptr);
    } while (found && !is_served && !weir__climb_is_over(climb) && !weir__climb_is_late(climb));
    alone_end(climb);
    return is_served;
}

bool weir__climb_insist(struct weir__climb *climb, void **ptr)
{
    climb->request->insist = climb->request->untried;
    bool is_served = climb->request->insist && weir__climb_gather_alone(climb, ptr);
    climb->request->insist = false;
    return is_served;
}

static bool rung_flush(struct weir__climb *climb, void **ptr)
{
    uint64_t freed = flush(climb) + free_orphans(climb);
    return freed && (weir__climb_retry(climb, ptr) || weir__climb_gather_alone(climb, ptr));
}

/* Returns the idle bytes of the pools that count, the most that a wait can gain: freed memory that is in use again is not idle. */
static uint64_t idle_of(const struct weir__climb *climb)
{
    const weir_pool *pool = climb->request->pool;
    return climb->request->at_cap || pool->native.is_host ? weir__pool_idle(pool) : weir__device_idle(climb->device);
}

static void count_waited(struct weir__climb *climb, uint64_t bytes, uint64_t most)
{
    uint64_t *gave = &climb->rungs[WEIR_RUNG_WAIT].gave;
    *gave = *gave + bytes < most ? *gave + bytes : *gave < most ? most : *gave;
}

static bool rung_wait(struct weir__climb *climb, void **ptr)
{
    struct waits waits;
    uint64_t idle = idle_of(climb), began = climb->gpu->now(), next = began + MOMENT;
    uint64_t untried = 0, pause = 0; /* bytes that came free since the last attempt */
    bool any = false, rescued = false, are_orphans;
    waits_begin(climb, &waits);
    do {
        uint64_t seen;
        uint64_t orphans = weir__orphans_look(climb->device, &are_orphans);
        any = weir__wait_look(&waits.wait, &seen) || any || orphans;
        climb->rungs[WEIR_RUNG_WAIT].gave += orphans;
        /* Frees that were complete at the first look were not waited for. */
        if (pause)
            count_waited(climb, seen, idle);
        untried += seen + orphans;
        /* A failed attempt at a large size is dear, so there is none before enough came free, or before waits that promise nothing. Of what
           came free elsewhere, and of what was freed after these waits began, nothing is known here, so all is looked at anew, each time
           after as long again. */
        bool is_time = climb->gpu->now() >= next;
        if (untried >= climb->request->asked || (untried && !weir__scope_marked(&waits.wait.scope)) || is_time) {
            rescued = is_time ? weir__climb_gather_alone(climb, ptr) : weir__climb_retry(climb, ptr);
            next = is_time ? next + (next - began) : next;
            untried = 0;
            any = false;
        }
    } while (!rescued && !weir__climb_is_over(climb) &&
             (waits.wait.left || are_orphans) && weir__climb_pause(climb, &pause));
    waits_end(&waits);
    return rescued || (any && weir__climb_retry(climb, ptr));
}

/* Gives idle memory of the pools back to the device. Returns the bytes. */
static uint64_t trim(struct weir__climb *climb)
{
    uint64_t released, all = 0;
    climb->left = 0;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool)) {
        /* At a cap only this pool's own idle memory counts. A trim can take long, so none begins after the deadline. */
        bool helps = (!climb->request->at_cap || pool == climb->request->pool) && !weir__climb_is_late(climb);
        if (!helps || weir__pool_trim(pool, 0, &released) != GPU_SUCCESS)
            continue;
        all += released;
        if (weir__pool_lends_idle(pool) && !weir__pool_is_stuck(pool))
            climb->left += weir__pool_idle(pool);
    }
    climb->rungs[WEIR_RUNG_TRIM].gave += all;
    return all;
}

/* Trims the memory of destroyed graphs, which the driver keeps. The driver refuses a pool's request despite that memory, but gives the
   memory up with the refusal; then this trim finds nothing, and the next request is served (measured). Returns the bytes that the trim gave
   back. *is_room: whether the device now has enough free memory for the request, for whatever reason. */
static uint64_t trim_graphs(const struct weir__climb *climb, bool *is_room)
{
    uint64_t before, after, total;
    int device = climb->device->index;
    *is_room = false;
    if (climb->gpu->device_memory(device, &before, &total) != GPU_SUCCESS || climb->gpu->graph_trim(device) != GPU_SUCCESS ||
        climb->gpu->device_memory(device, &after, &total) != GPU_SUCCESS)
        return 0;
    *is_room = after >= weir__pool_needs(climb->request->pool, climb->request->asked);
    return after > before ? after - before : 0;
}

/* The trim rung. The pools keep their idle memory if all of it together is too little for the request. */
static bool rung_trim(struct weir__climb *climb, void **ptr)
{
    uint64_t others = trim_others(climb);
    bool is_room = false, is_for_device = !climb->request->at_cap && !climb->request->pool->native.is_host;
    if (is_for_device)
        others += trim_graphs(climb, &is_room);
    climb->rungs[WEIR_RUNG_TRIM].gave += others;
    if (is_for_device && weir__device_obtainable(climb->device) < weir__pool_needs(climb->request->pool, climb->request->asked))
        return false;
    return (trim(climb) + others > 0 || is_room) && weir__climb_retry(climb, ptr);
}

/* Returns the bytes for which the callbacks are asked. */
static uint64_t lacking(const struct weir__climb *climb)
{
    const weir_pool *pool = climb->request->pool;
    uint64_t max_size = atomic_load(&pool->settings.max_size), needed = atomic_load(&pool->figures.taken) + climb->request->asked;
    return climb->request->at_cap && needed > max_size ? needed - max_size : climb->request->asked;
}

/* The figures that show whether a callback has helped: the number of frees in the pools that count, other weirs' pools included, and the
   bytes that the device has for a request. */
struct help {
    uint64_t frees, obtainable;
};

static struct help help_of(const struct weir__climb *climb)
{
    const struct weir__request *request = climb->request;
    struct help help = { .obtainable = weir__device_obtainable(climb->device) };
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool))
        if (request->at_cap || request->pool->native.is_host ? pool == request->pool : !pool->native.is_host)
            help.frees += weir__pool_frees(pool);
    if (!request->at_cap && !request->pool->native.is_host)
        help.frees += weir__others_frees(climb->device);
    return help;
}

static bool has_helped(const struct weir__climb *climb, const struct help *before)
{
    struct help now = help_of(climb);
    return now.frees > before->frees || (now.obtainable > before->obtainable && !climb->request->at_cap);
}

/* The device that was current before a callback. */
struct former {
    const struct gpu *gpu;
    int device;
    bool is_known;
};

/* A callback may leave another device current, also by an exception; a fixed stream handle would then mean another stream. */
static void restore_device(struct former *former)
{
    int now;
    if (former->is_known && former->gpu->get_current_device(&now) == GPU_SUCCESS && now != former->device)
        former->gpu->set_current_device(former->device);
}

/* Calls the next callback. Returns its id, or 0 if there is none. */
static unsigned run_next(struct weir__climb *climb, unsigned after, uint64_t *freed)
{
    struct former former __attribute__((cleanup(restore_device))) = { .gpu = climb->gpu };
    former.is_known = climb->gpu->get_current_device(&former.device) == GPU_SUCCESS;
    return weir__callbacks_run(climb->request, after, climb->number, lacking(climb), freed);
}

static bool rung_callbacks(struct weir__climb *climb, void **ptr)
{
    bool may_wait = weir__climb_has_step(climb, WEIR_RUNG_WAIT), may_flush = weir__climb_has_step(climb, WEIR_RUNG_FLUSH);
    uint64_t freed = 0;
    unsigned id = 0;
    while (!weir__climb_is_over(climb) && !weir__climb_is_late(climb)) {
        struct help before = help_of(climb);
        id = run_next(climb, id, &freed);
        if (id == 0)
            return false;
        climb->rungs[WEIR_RUNG_CALLBACKS].gave += freed;
        if (freed && has_helped(climb, &before))
            climb->has_more = true;
        else
            weir__callbacks_give_up(climb->request->pool->w, id, climb->number);
        if (freed == 0)
            continue;
        /* The memory that the callback freed may be in caches, behind a kernel, or in orphans. */
        if (may_flush)
            flush(climb);
        free_orphans(climb);
        if (weir__climb_retry(climb, ptr) || (may_wait && rung_wait(climb, ptr)))
            return true;
    }
    return false;
}

static void leave_hooks(const struct weir__request **former)
{
    weir__in_callback = *former;
}

/* Puts the yielded pool to sleep. Requests of its hooks begin no recovery, as that would wait for this one. Returns the bytes. */
static uint64_t spend(const struct weir__climb *climb, weir_pool *pool)
{
    const struct weir__request *former __attribute__((cleanup(leave_hooks), unused)) = weir__in_callback;
    uint64_t gave = 0;
    weir__in_callback = climb->request;
    weir__yielded_take(pool, climb->deadline, NULL, &gave);
    return gave;
}

uint64_t weir__climb_yielded(const struct weir__climb *climb)
{
    uint64_t bytes = 0;
    if (climb->request->at_cap || climb->request->pool->native.is_host || !weir__climb_has_step(climb, WEIR_RUNG_TRIM))
        return 0;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool))
        bytes += weir__less(weir__yielded_bytes(pool), weir__pool_idle(pool));
    return bytes;
}

bool weir__climb_spend(struct weir__climb *climb, void **ptr)
{
    bool is_served = false;
    if (!weir__climb_yielded(climb))
        return false;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool)) {
        if (is_served || weir__climb_is_over(climb) || weir__climb_is_late(climb) || !weir__yielded_bytes(pool))
            continue;
        uint64_t gave = spend(climb, pool);
        climb->rungs[WEIR_RUNG_TRIM].gave += gave;
        is_served = gave && weir__climb_retry(climb, ptr);
    }
    return is_served;
}

/* The part of a climb that share/ sees. */
struct neighbours {
    struct weir__plea plea;
    struct weir__climb *climb;
    void **ptr;
    bool rescued;
};

static struct neighbours *neighbours_of(struct weir__plea *plea)
{
    return (struct neighbours *)((char *)plea - offsetof(struct neighbours, plea));
}

/* Trims this weir's idle memory before a retry: with the neighbours' memory it may now be enough, although the trim rung left it alone.
   CUDA would use it for the retry too, but only after an attempt that fails. */
static void prepare_plea(struct weir__plea *plea)
{
    struct weir__climb *climb = neighbours_of(plea)->climb;
    if (weir__climb_has_step(climb, WEIR_RUNG_TRIM) && weir__device_idle(climb->device))
        trim(climb);
}

static bool retry_plea(struct weir__plea *plea)
{
    struct neighbours *neighbours = neighbours_of(plea);
    neighbours->rescued = weir__climb_retry(neighbours->climb, neighbours->ptr);
    return neighbours->rescued || weir__climb_is_over(neighbours->climb);
}

static bool spend_for_plea(struct weir__plea *plea)
{
    struct neighbours *neighbours = neighbours_of(plea);
    neighbours->rescued = weir__climb_spend(neighbours->climb, neighbours->ptr);
    plea->yielded = weir__climb_yielded(neighbours->climb);
    return neighbours->rescued || weir__climb_is_over(neighbours->climb);
}

static bool rung_neighbours(struct weir__climb *climb, void **ptr)
{
    void (*rescue)(struct weir__plea *plea) = climb->device->w->neighbours;
    uint64_t now = climb->gpu->now();
    struct neighbours neighbours = { .climb = climb, .ptr = ptr };
    neighbours.plea = (struct weir__plea){ .device = climb->device };
    neighbours.plea.size = weir__pool_needs(climb->request->pool, climb->request->asked);
    neighbours.plea.grain = climb->request->pool->backing->ops->grain;
    neighbours.plea.yielded = weir__climb_yielded(climb);
    neighbours.plea.prepare = prepare_plea;
    neighbours.plea.spend = spend_for_plea;
    neighbours.plea.retry = retry_plea;
    neighbours.plea.vain = &climb->device->recovery.vain;
    neighbours.plea.time_left = climb->deadline > now ? climb->deadline - now : 0;
    if (!rescue || climb->request->pool->native.is_host)
        return false;
    weir__request_give_back(climb->request);
    rescue(&neighbours.plea);
    climb->rungs[WEIR_RUNG_NEIGHBOURS].gave += neighbours.plea.gave;
    memcpy(climb->note, neighbours.plea.note, sizeof climb->note);
    return neighbours.rescued;
}

bool (*const weir__rungs[WEIR_RUNG_COUNT])(struct weir__climb *climb, void **ptr) = {
    [WEIR_RUNG_FLUSH] = rung_flush,
    [WEIR_RUNG_WAIT] = rung_wait,
    [WEIR_RUNG_TRIM] = rung_trim,
    [WEIR_RUNG_CALLBACKS] = rung_callbacks,
    [WEIR_RUNG_NEIGHBOURS] = rung_neighbours,
};

/* Waiting again ------------------------------------------------------------------------------------------------------------------------ */

/* Returns whether large frees are pending, or have just become complete. The look drops an event that will never be complete. */
static bool are_frees_pending(struct weir__climb *climb)
{
    struct waits waits;
    uint64_t seen;
    waits_begin(climb, &waits);
    weir__wait_look(&waits.wait, &seen);
    bool are_pending = seen || (waits.wait.left && weir__scope_marked(&waits.wait.scope));
    waits_end(&waits);
    return are_pending;
}

bool weir__climb_wait_again(struct weir__climb *climb, void **ptr)
{
    while (!weir__climb_is_over(climb) && !weir__climb_is_late(climb) &&
           (climb->request->was_asked || weir__device_obtainable(climb->device) >= climb->request->asked) && are_frees_pending(climb))
        if (rung_wait(climb, ptr) || weir__climb_gather_alone(climb, ptr))
            return true;
    return false;
}
