/* SPDX-License-Identifier: MIT */
#include "lib/recover/recover.h"

#include <pthread.h>

#include "lib/base/format.h"
#include "lib/pool/recorded.h"
#include "lib/recover/climb.h"

#define LAST_ROUNDS 8 /* last attempts before a request is refused, while other threads empty caches */

static const char *const rung_names[WEIR_RUNG_COUNT] = {
    [WEIR_RUNG_FLUSH] = "flush",
    [WEIR_RUNG_WAIT] = "wait",
    [WEIR_RUNG_TRIM] = "trim",
    [WEIR_RUNG_CALLBACKS] = "callbacks",
    [WEIR_RUNG_NEIGHBOURS] = "neighbours",
};

const char *weir_rung_name(weir_rung rung)
{
    return (unsigned)rung < WEIR_RUNG_COUNT ? rung_names[rung] : "(unknown)";
}

void weir__recovery_init(struct weir__recovery *recovery)
{
    *recovery = (struct weir__recovery){ .running = false };
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&recovery->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&recovery->lock, NULL);
}

void weir__recovery_destroy(struct weir__recovery *recovery)
{
    pthread_cond_destroy(&recovery->ended);
    pthread_mutex_destroy(&recovery->lock);
}

/* The climb ---------------------------------------------------------------------------------------------------------------------------- */

/* Climbs the rungs from `first` to `last`. Returns whether one of them, *rescuer, served the request. */
static bool climb_rungs(struct weir__climb *climb, unsigned first, unsigned last, weir_rung *rescuer, void **ptr)
{
    for (unsigned rung = first; rung <= last; rung++) {
        /* At a cap, memory of other processes does not help. */
        bool is_beside = climb->request->at_cap && rung == WEIR_RUNG_NEIGHBOURS;
        if (!weir__climb_has_step(climb, (weir_rung)rung) || is_beside)
            continue;
        uint64_t begin = climb->gpu->now(), waited = climb->request->ask.waited;
        if (begin > climb->deadline) {
            climb->why = "the deadline passed before the next rung";
            return false;
        }
        climb->rungs[rung].ran = true;
        bool rescued = weir__rungs[rung](climb, ptr);
        uint64_t took = climb->gpu->now() - begin;
        climb->rungs[rung].took += took;
        climb->request->ask.waited = waited; /* the rung's time includes its waits */
        weir__record_pool(WEIR__KIND_RUNG, climb->request->pool, rung, took);
        if (rescued)
            *rescuer = (weir_rung)rung;
        if (rescued || weir__climb_is_over(climb))
            return rescued;
    }
    return false;
}

/* Climbs all rungs but the first, which came before this thread's turn; then all rungs again, round after round, while callbacks help and
   there is time. */
static bool climb_rounds(struct weir__climb *climb, weir_rung *rescuer, void **ptr)
{
    bool rescued = climb_rungs(climb, WEIR_RUNG_FLUSH + 1, WEIR_RUNG_COUNT - 1, rescuer, ptr);
    while (climb->has_more && !rescued && !climb->why && !weir__climb_is_over(climb)) {
        climb->has_more = false;
        rescued = climb_rungs(climb, WEIR_RUNG_FLUSH, WEIR_RUNG_COUNT - 1, rescuer, ptr);
    }
    return rescued;
}

/* Returns whether the request would fit if this weir had all memory that it does not use: pools that are not Weir's may have idle memory,
   of which only CUDA knows. */
static bool may_be_elsewhere(const struct weir__climb *climb)
{
    uint64_t used = 0, memory = climb->device->info.memory;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool))
        if (!pool->native.is_host)
            used += weir__less(weir__pool_figure(pool, GPU_POOL_USED), weir__pool_asleep(pool));
    return used < memory && memory - used >= climb->request->asked;
}

/* Does what costs the application nothing and waits for no thread, not even for another recovery. */
static bool climb_at_once(struct weir__climb *climb, weir_rung *rescuer, void **ptr)
{
    if (climb_rungs(climb, WEIR_RUNG_FLUSH, WEIR_RUNG_FLUSH, rescuer, ptr))
        return true;
    *rescuer = WEIR_RUNG_TRIM; /* what CUDA itself does */
    return climb->request->untried && may_be_elsewhere(climb) && weir__climb_insist(climb, ptr);
}

/* Waits until no other thread is flushing a cache. Returns whether any has flushed blocks since `before`. */
static bool wait_for_flushes(struct weir__climb *climb, uint64_t before)
{
    uint64_t pause = 0;
    while (atomic_load(&climb->device->flushing) && weir__climb_pause(climb, &pause))
        continue;
    return atomic_load(&climb->device->flushes) != before;
}

/* The last attempts before a request is refused. Blocks that other threads have freed into caches meanwhile, or were just taking out of
   caches, may serve it. */
static bool try_last(struct weir__climb *climb, void **ptr)
{
    uint64_t flushes;
    unsigned rounds = 0;
    do {
        flushes = atomic_load(&climb->device->flushes);
        if (weir__climb_gather_alone(climb, ptr) || (weir__climb_has_step(climb, WEIR_RUNG_WAIT) && weir__climb_wait_again(climb, ptr)))
            return true;
    } while (!weir__climb_is_over(climb) && ++rounds < LAST_ROUNDS && weir__climb_has_step(climb, WEIR_RUNG_FLUSH) &&
             wait_for_flushes(climb, flushes) && !weir__climb_is_late(climb));
    if (weir__climb_is_over(climb) || !climb->request->untried)
        return false;
    return weir__climb_insist(climb, ptr) || (weir__climb_has_step(climb, WEIR_RUNG_WAIT) && weir__climb_wait_again(climb, ptr));
}

static bool is_hopeless(struct weir__climb *climb)
{
    const struct weir__request *request = climb->request;
    uint64_t max_size = atomic_load(&request->pool->settings.max_size);
    if (weir__pool_is_shut(request->pool) && !request->wakes) {
        climb->request->code = WEIR__SERVE_ASLEEP;
        climb->why = "the pool is asleep";
    } else if (max_size && request->asked > max_size && !request->wakes) { /* a sleeper may have more than a cap that was lowered since */
        climb->request->at_cap = true;
        climb->why = "the request alone is above max_size: nothing was tried";
    } else if (!request->pool->native.is_host && request->asked > climb->device->info.memory) {
        climb->why = "the request alone is larger than the device: nothing was tried";
    } else if (weir__in_callback) {
        climb->why = "asked for within an out-of-memory callback: nothing was tried";
    }
    return climb->why;
}

/* Waits until the recovery in progress ends, or until the deadline. Returns whether it ended. The caller holds recovery->lock. */
static bool wait_for_turn(struct weir__climb *climb, struct weir__recovery *recovery)
{
    const struct timespec until = weir__climb_deadline(climb);
    const uint64_t since = climb->gpu->now();
    uint64_t count = recovery->count;
    while (recovery->running && recovery->count == count)
        if (pthread_cond_timedwait(&recovery->ended, &recovery->lock, &until) != 0)
            break;
    climb->request->ask.waited += climb->gpu->now() - since;
    return recovery->count != count;
}

/* Returns whether the failure of the last recovery shows that this request cannot be served either. It does not if this request has twice
   the time or more: neighbours may need that. */
static bool was_just_refused(const struct weir__recovery *recovery, const struct weir__climb *climb)
{
    const weir_pool *pool = climb->request->pool;
    unsigned steps = atomic_load(&pool->settings.steps);
    uint64_t left = weir__less(climb->deadline, climb->gpu->now());
    return !recovery->rescued && weir__pool_needs(pool, climb->request->asked) >= recovery->failed_size &&
           (steps & ~recovery->failed_steps) == 0 && left / 2 <= recovery->failed_patience &&
           (recovery->failed_pool ? recovery->failed_pool == pool : !pool->native.is_host);
}

static void count_rescue(struct weir__recovery *recovery, weir_rung rung)
{
    atomic_fetch_add_explicit(&recovery->rescues[rung], 1, memory_order_relaxed);
}

static void count_recovery(struct weir__recovery *recovery, bool rescued, weir_rung rung)
{
    atomic_fetch_add_explicit(&recovery->recoveries, 1, memory_order_relaxed);
    if (rescued)
        count_rescue(recovery, rung);
}

/*
 * Waits while another thread recovers, then tries again, since that recovery may have found memory. Returns true if this request is
 * finished, with the outcome in *rescued; returns false if the turn is this thread's.
 *
 * A recovery that failed counts for this request only if it began after this request's first attempt had failed: an earlier one did not
 * wait for memory that was freed after its begin, perhaps by this very thread.
 */
static bool joined(struct weir__climb *climb, struct weir__recovery *recovery, bool *rescued, void **ptr)
{
    pthread_mutex_lock(&recovery->lock);
    const uint64_t begun = recovery->count + recovery->running;
    while (!climb->why && recovery->running) {
        bool ended = wait_for_turn(climb, recovery);
        bool was_rescued = ended && recovery->rescued;
        weir_rung rung = recovery->rung;
        pthread_mutex_unlock(&recovery->lock);
        *rescued = weir__climb_retry(climb, ptr);
        if (*rescued && was_rescued)
            count_rescue(recovery, rung);
        if (*rescued || weir__climb_is_over(climb))
            return true;
        pthread_mutex_lock(&recovery->lock);
        if (!ended)
            climb->why = "the deadline passed while another request recovered";
        else if (recovery->count > begun && was_just_refused(recovery, climb))
            climb->why = "another request has just climbed the whole ladder in vain: nothing was tried again";
    }
    if (!climb->why)
        recovery->running = true;
    pthread_mutex_unlock(&recovery->lock);
    return climb->why;
}

/* Returns whether the device lacked the memory, and not only this pool, which was at its cap, has host memory, or has no addresses left. */
static bool is_for_device(const struct weir__request *request)
{
    bool is_lack = !request->ask.lack || request->ask.lack == WEIR__LACK_FREE;
    return is_lack && !request->at_cap && !request->pool->native.is_host;
}

static void end_recovery(struct weir__recovery *recovery, const struct weir__climb *climb, bool rescued, weir_rung rung)
{
    const struct weir__request *request = climb->request;
    bool is_sure = !weir__climb_is_late(climb) && !weir__climb_is_over(climb);
    count_recovery(recovery, rescued, rung);
    pthread_mutex_lock(&recovery->lock);
    recovery->running = false;
    recovery->count++;
    recovery->rescued = rescued;
    recovery->rung = rung;
    recovery->failed_size = is_sure ? weir__pool_needs(request->pool, request->asked) : UINT64_MAX;
    recovery->failed_patience = climb->patience;
    recovery->failed_steps = atomic_load(&request->pool->settings.steps);
    recovery->failed_pool = is_for_device(request) ? NULL : request->pool;
    pthread_cond_broadcast(&recovery->ended);
    pthread_mutex_unlock(&recovery->lock);
}

/* Runs at the end of the turn's scope, and ends the turn if a callback threw or ended its thread. *climb is NULL if the turn has ended
   already. Such an end says nothing about the chances of other requests. */
static void give_up_turn(struct weir__climb **climb)
{
    if (!*climb)
        return;
    (*climb)->deadline = 0;
    end_recovery(&(*climb)->device->recovery, *climb, false, WEIR_RUNG_FLUSH);
}

/* Returns whether the request may fit once all yielded pools sleep: none is put to sleep in vain. */
static bool is_yielded_enough(const struct weir__climb *climb)
{
    uint64_t there = weir__device_obtainable(climb->device), needed = weir__pool_needs(climb->request->pool, climb->request->asked);
    return there >= needed || needed - there <= weir__climb_yielded(climb);
}

/* Climbs the whole ladder. Returns whether the request is served. */
static bool climb_ladder(struct weir__climb *climb, void **ptr)
{
    struct weir__recovery *recovery = &climb->device->recovery;
    weir_rung rung = WEIR_RUNG_FLUSH;
    bool rescued = false;
    if (climb_at_once(climb, &rung, ptr)) {
        count_recovery(recovery, true, rung);
        return true;
    }
    if (weir__climb_is_over(climb))
        return false;
    if (joined(climb, recovery, &rescued, ptr))
        return rescued || try_last(climb, ptr);
    struct weir__climb *turn __attribute__((cleanup(give_up_turn))) = climb;
    weir__request_note_wait(climb->request);
    rescued = climb_rounds(climb, &rung, ptr);
    if (!rescued && ((is_yielded_enough(climb) && weir__climb_spend(climb, ptr)) || try_last(climb, ptr))) {
        rescued = true;
        rung = WEIR_RUNG_TRIM; /* counts as a trim, which CUDA itself has done, or of a pool that went to sleep */
    }
    end_recovery(recovery, climb, rescued, rung);
    turn = NULL;
    return rescued;
}

/* Returns the nanoseconds until the deadline. The first attempt's waits for other requests count, its time in CUDA does not. */
static uint64_t deadline_left(const struct weir__request *request)
{
    uint64_t all = request->patience ? request->patience : atomic_load(&request->pool->settings.deadline);
    return all > request->ask.waited ? all - request->ask.waited : 0;
}

/* The state of the thread that a climb changes, and resources of the climb: leave() restores and frees them, even if a callback throws. */
struct scene {
    const struct gpu *gpu;
    enum gpu_capture_mode mode;
    struct weir__request *request;
    bool is_served;
};

static void leave(struct scene *scene)
{
    if (!scene->is_served)
        weir__request_give_back(scene->request);
    weir__relaxed_end(scene->gpu, scene->mode);
}

/* Climbs as far as it may help. Returns whether *ptr is set. */
static bool climb_from(struct weir__climb *climb, void **ptr)
{
    struct weir__request *request = climb->request;
    struct scene scene __attribute__((cleanup(leave))) = { .gpu = climb->gpu, .request = request };
    scene.mode = weir__relaxed_begin(climb->gpu);
    scene.is_served = request->is_crowded && weir__climb_retry(climb, ptr);
    if (!scene.is_served && !weir__climb_is_over(climb) && !is_hopeless(climb))
        scene.is_served = climb_ladder(climb, ptr);
    weir__request_note_wait(request);
    return scene.is_served;
}

weir_status weir__recover(struct weir__request *request, void **ptr)
{
    static _Atomic uint64_t climbs;
    weir_pool *pool = request->pool;
    const struct gpu *gpu = pool->w->gpu;
    struct weir__climb climb = { .request = request, .device = pool->device, .gpu = gpu, .number = atomic_fetch_add(&climbs, 1) + 1 };
    climb.patience = deadline_left(request);
    climb.deadline = gpu->now() + climb.patience;
    request->deadline = climb.deadline;
    weir__request_note_wait(request);
    if (climb_from(&climb, ptr))
        return WEIR_OK;
    if (request->code == GPU_OUT_OF_MEMORY) {
        /* The trace has the trims, but not the growth that came before them, so record the pools now. */
        if (weir__records(&pool->w->recorder, WEIR__LEVEL_POOL))
            weir__record_pools(pool->w);
        weir__record_figures(&pool->w->recorder, WEIR__KIND_OUT_OF_MEMORY, pool->record, request->stream, request->asked,
                             request->at_cap);
        weir_status status = weir__report(&(struct weir__report){ request, climb.rungs, climb.left, climb.note, climb.why });
        pool->w->dump(pool->w);
        return status;
    }
    return weir__request_fail(request, ", during recovery");
}
