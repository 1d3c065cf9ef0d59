/* SPDX-License-Identifier: MIT */
#include "lib/recover.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/event.h"
#include "lib/flush.h"
#include "lib/format.h"
#include "lib/orphans.h"
#include "lib/report.h"
#include "lib/waits.h"

#define LAST_ROUNDS 8 /* before a request is refused, as long as others empty caches */
#define MOMENT (UINT64_C(1000) * 1000) /* nanoseconds */
#define LARGE_SHARE 64 /* from such a part of the device on, a request is worth the 4 us that it takes to see whether it is vain */

/* A callback's own requests must not climb the ladder that waits for it. */
static __thread bool is_in_callback;

static const char *const rung_names[WEIR_RUNG_COUNT] = {
    [WEIR_RUNG_FLUSH] = "flush",
    [WEIR_RUNG_WAIT] = "wait",
    [WEIR_RUNG_TRIM] = "trim",
    [WEIR_RUNG_CALLBACKS] = "callbacks",
    [WEIR_RUNG_NEIGHBOURS] = "neighbours",
};

/* One climb. Lives on the stack of the requesting thread. */
struct climb {
    struct weir__request *request;
    struct weir__device *device;
    const struct gpu *gpu;
    uint64_t deadline; /* by gpu->now() */
    bool is_used_up;   /* CUDA was asked until after the deadline: it is not asked again */
    struct weir__rung_report rungs[WEIR_RUNG_COUNT];
    char note[sizeof(((struct weir__plea *)NULL)->note)]; /* of the neighbours rung, for the report */
    const char *why; /* the ladder was not climbed to its end, and why */
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

/* Vain requests ------------------------------------------------------------------------------------------------------------------------ */

/* Bytes that the device could have for one pool if every other one of this weir gave all that it has idle. UINT64_MAX: that is not known. */
static uint64_t obtainable(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    if (device->info.os_managed)
        return UINT64_MAX;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    /* In this order, so that what goes back to the device meanwhile is not missed. */
    uint64_t idle = weir__device_idle(device), bytes = 0, total;
    int code = gpu->device_memory(device->index, &bytes, &total);
    weir__relaxed_end(gpu, mode);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return UINT64_MAX;
    }
    return bytes + idle;
}

bool weir__request_is_vain(const struct weir__request *request, uint64_t size)
{
    weir_pool *pool = request->pool;
    uint64_t max_size = atomic_load_explicit(&pool->max_size, memory_order_relaxed);
    if (size < pool->device->info.memory / LARGE_SHARE || pool->is_host || is_in_callback)
        return false;
    /* At a cap, what the device has does not count; and only CUDA knows whether it is at one of its own. */
    if (pool->native_max || (max_size && atomic_load_explicit(&pool->taken, memory_order_relaxed) + size > max_size))
        return false;
    return weir__pool_idle(pool) < size && obtainable(pool->device) < size;
}

/* Whether all that is not in use by this weir would be enough: pools that are not Weir's may have it idle, of which only CUDA knows. */
static bool may_be_elsewhere(const struct climb *climb)
{
    uint64_t used = 0, memory = climb->device->info.memory;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool))
        if (!pool->is_host)
            used += weir__pool_figure(pool, GPU_POOL_USED);
    return used < memory && memory - used >= climb->request->asked;
}

/* Retrying ----------------------------------------------------------------------------------------------------------------------------- */

/* Another error than out-of-memory ends the climb: no rung helps against it. */
static bool is_over(const struct climb *climb)
{
    return climb->request->code != GPU_OUT_OF_MEMORY;
}

static bool is_late(const struct climb *climb)
{
    return climb->gpu->now() > climb->deadline;
}

/* The climb's deadline for a wait on a condition, and a moment from now at least, so that those that are tried can end. */
static struct timespec deadline_of(const struct climb *climb)
{
    struct timespec until;
    uint64_t now = climb->gpu->now(), left = climb->deadline > now ? climb->deadline - now : 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    left = (left > MOMENT ? left : MOMENT) + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(left / 1000000000);
    until.tv_nsec = (long)(left % 1000000000);
    return until;
}

/* true: no other request of the device is tried until alone_end(). false: the others take longer than there is time. */
static bool alone_begin(struct climb *climb)
{
    struct timespec until = deadline_of(climb);
    if (weir__asking_alone_begin(&climb->device->asking, &until))
        return true;
    climb->why = "the deadline passed while other requests were tried";
    return false;
}

static void alone_end(struct climb *climb)
{
    weir__asking_alone_end(&climb->device->asking);
}

/* After alone_begin(). Of the calls of CUDA one at most ends after the deadline. */
static bool try_alone(struct climb *climb, void **ptr)
{
    bool is_served = !is_over(climb) && !climb->is_used_up && weir__attempt(climb->request, ptr);
    climb->is_used_up = climb->is_used_up || (climb->request->was_asked && is_late(climb));
    return is_served;
}

static bool retry(struct climb *climb, void **ptr)
{
    if (is_over(climb) || climb->is_used_up || !alone_begin(climb))
        return false;
    bool is_served = try_alone(climb, ptr);
    alone_end(climb);
    return is_served;
}

/* The same, where CUDA was not asked since that seemed vain: only it can say that there is no memory. */
static bool insist(struct climb *climb, void **ptr)
{
    climb->request->insist = climb->request->untried;
    bool is_served = climb->request->insist && retry(climb, ptr);
    climb->request->insist = false;
    return is_served;
}

static bool has_step(const struct climb *climb, weir_rung rung)
{
    return atomic_load(&climb->request->pool->steps) >> rung & 1;
}

/* At a cap only this pool's own blocks count, and CUDA need not see their frees unless it enforces the cap itself. */
static uint64_t flush(struct climb *climb)
{
    weir_pool *pool = climb->request->pool;
    bool at_cap = climb->request->at_cap;
    uint64_t flushed = weir__flush(climb->device, at_cap ? pool : NULL, !at_cap || pool->native_max, climb->deadline);
    climb->rungs[WEIR_RUNG_FLUSH].gave += flushed;
    return flushed;
}

/* A moment is enough where nothing runs; the wait rung waits longer. */
static uint64_t free_orphans(struct climb *climb)
{
    uint64_t soon = climb->gpu->now() + MOMENT;
    uint64_t freed = weir__orphans_free(climb->device, soon < climb->deadline ? soon : climb->deadline);
    climb->rungs[WEIR_RUNG_FLUSH].gave += freed;
    return freed;
}

/* Other threads, whose caches are empty now too, may be faster to take what came free, and keep it in their caches again. While the request
   is tried alone they cannot. */
static bool flush_alone(struct climb *climb, void **ptr)
{
    uint64_t flushed = 1;
    bool is_served = false;
    if (is_late(climb) || !alone_begin(climb))
        return false;
    while (flushed && !is_served && !is_over(climb) && !is_late(climb)) {
        flushed = flush(climb);
        is_served = flushed && try_alone(climb, ptr);
    }
    alone_end(climb);
    return is_served;
}

/* The rungs ---------------------------------------------------------------------------------------------------------------------------- */

/* All that can be waited for: these, and the large frees on other streams. */
static size_t collect(struct climb *climb, struct weir__wait waits[static WEIR__WAITS_MAX])
{
    size_t count = weir__waits_collect(climb->device, &climb->request->stream, climb->deadline, waits);
    uint64_t seen = 0;
    struct weir__pending_entry *entry;
    while ((entry = weir__pending_claim(&climb->device->pending, &seen)))
        waits[count++] = (struct weir__wait){ .event = entry->event, .entry = entry, .bytes = entry->bytes };
    return count;
}

static int compare_waits(const void *a, const void *b)
{
    uint64_t first = ((const struct weir__wait *)a)->bytes, second = ((const struct weir__wait *)b)->bytes;
    return first > second ? -1 : first < second;
}

static bool rung_flush(struct climb *climb, void **ptr)
{
    uint64_t freed = flush(climb) + free_orphans(climb);
    return freed && (retry(climb, ptr) || flush_alone(climb, ptr));
}

/* What is idle in the pools that count. Nothing that comes free by a wait is more, since what is used again has gone before. */
static uint64_t idle_of(const struct climb *climb)
{
    const weir_pool *pool = climb->request->pool;
    return climb->request->at_cap || pool->is_host ? weir__pool_idle(pool) : weir__device_idle(climb->device);
}

static void count_waited(struct climb *climb, uint64_t bytes, uint64_t most)
{
    uint64_t *gave = &climb->rungs[WEIR_RUNG_WAIT].gave;
    *gave = *gave + bytes < most ? *gave + bytes : *gave < most ? most : *gave;
}

static bool rung_wait(struct climb *climb, void **ptr)
{
    struct weir__wait waits[WEIR__WAITS_MAX];
    uint64_t idle = idle_of(climb);
    size_t left = collect(climb, waits);
    uint64_t untried = 0, pause = 0; /* bytes that came free since the last attempt */
    bool any = false, rescued = false;
    qsort(waits, left, sizeof *waits, compare_waits);
    do {
        struct weir__seen seen = { .any = false };
        uint64_t orphans = weir__orphans_free(climb->device, climb->gpu->now());
        left = weir__waits_look(climb->device, waits, left, climb->deadline, &seen);
        climb->rungs[WEIR_RUNG_WAIT].gave += orphans;
        /* What was done at the first look was not waited for. */
        if (pause)
            count_waited(climb, seen.bytes, idle);
        untried += seen.bytes + orphans;
        any = any || seen.any || orphans;
        /* A failed attempt at a large size is dear, so there is none before enough came free, or before waits that promise nothing. */
        if (untried >= climb->request->asked || (untried && !(left && waits[0].bytes))) {
            rescued = retry(climb, ptr);
            untried = 0;
            any = false;
        }
    } while (!rescued && !is_over(climb) && (left || weir__orphans_are_due(climb->device)) &&
             weir__event_pause(climb->gpu, &pause, climb->deadline));
    weir__waits_end(climb->device, waits, left);
    return rescued || (any && retry(climb, ptr));
}

/* Gives back what is idle. Returns the bytes. */
static uint64_t trim(struct climb *climb)
{
    uint64_t released, all = 0;
    for (weir_pool *pool = weir__device_next_pool(climb->device, NULL); pool; pool = weir__device_next_pool(climb->device, pool)) {
        /* At a cap only this pool's own idle memory counts. A trim can take long, so none begins after the deadline. */
        bool helps = (!climb->request->at_cap || pool == climb->request->pool) && climb->gpu->now() <= climb->deadline;
        if (helps && weir__pool_trim(pool, 0, &released) == GPU_SUCCESS)
            all += released;
    }
    climb->rungs[WEIR_RUNG_TRIM].gave += all;
    return all;
}

/* Needless where all of it is too little. */
static bool rung_trim(struct climb *climb, void **ptr)
{
    if (!climb->request->at_cap && !climb->request->pool->is_host && obtainable(climb->device) < climb->request->asked)
        return false;
    return trim(climb) > 0 && retry(climb, ptr);
}

static bool rung_callbacks(struct climb *climb, void **ptr)
{
    struct weir__callbacks *callbacks = &climb->request->pool->w->callbacks;
    bool may_wait = has_step(climb, WEIR_RUNG_WAIT);
    uint64_t freed = 0;
    unsigned id = 0;
    while (!is_over(climb) && climb->gpu->now() <= climb->deadline) {
        is_in_callback = true;
        id = weir__callbacks_run(callbacks, id, climb->device->index, climb->request->asked, &freed);
        is_in_callback = false;
        if (id == 0)
            return false;
        climb->rungs[WEIR_RUNG_CALLBACKS].gave += freed;
        if (freed == 0)
            continue;
        /* What it freed may be waiting behind a kernel, like any free, or have become orphans. */
        free_orphans(climb);
        if (retry(climb, ptr) || (may_wait && rung_wait(climb, ptr)))
            return true;
    }
    return false;
}

/* The neighbours' side of a climb: what share/ gets to see of it. */
struct neighbours {
    struct weir__plea plea;
    struct climb *climb;
    void **ptr;
    bool rescued;
};

static struct neighbours *neighbours_of(struct weir__plea *plea)
{
    return (struct neighbours *)((char *)plea - offsetof(struct neighbours, plea));
}

/* With what they give, this weir's own idle memory may be enough, and the trim rung left it alone. CUDA would take it for the retry, but
   only after an attempt that fails. */
static void prepare_plea(struct weir__plea *plea)
{
    struct climb *climb = neighbours_of(plea)->climb;
    if (has_step(climb, WEIR_RUNG_TRIM) && weir__device_idle(climb->device))
        trim(climb);
}

static bool retry_plea(struct weir__plea *plea)
{
    struct neighbours *neighbours = neighbours_of(plea);
    neighbours->rescued = retry(neighbours->climb, neighbours->ptr);
    return neighbours->rescued || is_over(neighbours->climb);
}

static bool rung_neighbours(struct climb *climb, void **ptr)
{
    weir__rescue_fn rescue = climb->device->w->neighbours;
    uint64_t now = climb->gpu->now();
    struct neighbours neighbours = { .climb = climb, .ptr = ptr };
    neighbours.plea = (struct weir__plea){ .device = climb->device, .size = climb->request->asked };
    neighbours.plea.prepare = prepare_plea;
    neighbours.plea.retry = retry_plea;
    neighbours.plea.time_left = climb->deadline > now ? climb->deadline - now : 0;
    if (!rescue || climb->request->pool->is_host)
        return false;
    rescue(&neighbours.plea);
    climb->rungs[WEIR_RUNG_NEIGHBOURS].gave = neighbours.plea.gave;
    memcpy(climb->note, neighbours.plea.note, sizeof climb->note);
    return neighbours.rescued;
}

/* By weir_rung. */
static bool (*const rungs[WEIR_RUNG_COUNT])(struct climb *climb, void **ptr) = {
    [WEIR_RUNG_FLUSH] = rung_flush,
    [WEIR_RUNG_WAIT] = rung_wait,
    [WEIR_RUNG_TRIM] = rung_trim,
    [WEIR_RUNG_CALLBACKS] = rung_callbacks,
    [WEIR_RUNG_NEIGHBOURS] = rung_neighbours,
};

/* The climb ---------------------------------------------------------------------------------------------------------------------------- */

/* The rungs from `first` to `last`. */
static bool climb_rungs(struct climb *climb, unsigned first, unsigned last, weir_rung *rescuer, void **ptr)
{
    for (unsigned rung = first; rung <= last; rung++) {
        /* What the application and other processes have does not count there. */
        bool is_beside = climb->request->at_cap && (rung == WEIR_RUNG_CALLBACKS || rung == WEIR_RUNG_NEIGHBOURS);
        if (!has_step(climb, (weir_rung)rung) || is_beside)
            continue;
        uint64_t begin = climb->gpu->now();
        if (begin > climb->deadline) {
            climb->why = "the deadline passed before the next rung";
            return false;
        }
        climb->rungs[rung].ran = true;
        bool rescued = rungs[rung](climb, ptr);
        climb->rungs[rung].took += climb->gpu->now() - begin;
        if (rescued)
            *rescuer = (weir_rung)rung;
        if (rescued || is_over(climb))
            return rescued;
    }
    return false;
}

/* What costs the application nothing and waits for nobody, another request that recovers included. */
static bool climb_at_once(struct climb *climb, weir_rung *rescuer, void **ptr)
{
    if (climb_rungs(climb, WEIR_RUNG_FLUSH, WEIR_RUNG_FLUSH, rescuer, ptr))
        return true;
    *rescuer = WEIR_RUNG_TRIM; /* which CUDA does by itself */
    return climb->request->untried && may_be_elsewhere(climb) && insist(climb, ptr);
}

/* Whether large frees are pending. */
static bool are_frees_pending(struct climb *climb)
{
    struct weir__wait waits[WEIR__WAITS_MAX];
    uint64_t bytes = 0;
    size_t count = collect(climb, waits);
    for (size_t i = 0; i < count; i++)
        bytes += waits[i].bytes;
    weir__waits_end(climb->device, waits, count);
    return bytes > 0;
}

/* Where there seems to be enough: what others freed since the wait rung began, and have not used since, may be pending. */
static bool wait_again(struct climb *climb, void **ptr)
{
    while (!is_over(climb) && !is_late(climb) && (climb->request->was_asked || obtainable(climb->device) >= climb->request->asked) &&
           are_frees_pending(climb))
        if (rung_wait(climb, ptr))
            return true;
    return false;
}

/* Until no other thread has cached blocks in its hands. Whether any had some since `before`. */
static bool wait_for_flushes(const struct climb *climb, uint64_t before)
{
    uint64_t pause = 0;
    while (atomic_load(&climb->device->flushing) && weir__event_pause(climb->gpu, &pause, climb->deadline))
        continue;
    return atomic_load(&climb->device->flushes) != before;
}

/* Before a request is refused. What was freed into caches meanwhile is nobody's, nor is what other threads were taking out of them. */
static bool try_last(struct climb *climb, void **ptr)
{
    uint64_t flushes;
    unsigned rounds = 0;
    do {
        flushes = atomic_load(&climb->device->flushes);
        bool is_served = rounds++ && !is_over(climb) && retry(climb, ptr);
        is_served = is_served || (!is_over(climb) && has_step(climb, WEIR_RUNG_FLUSH) && flush_alone(climb, ptr));
        if (is_served || (has_step(climb, WEIR_RUNG_WAIT) && wait_again(climb, ptr)))
            return true;
    } while (!is_over(climb) && rounds < LAST_ROUNDS && has_step(climb, WEIR_RUNG_FLUSH) && wait_for_flushes(climb, flushes) &&
             !is_late(climb));
    if (is_over(climb) || !climb->request->untried)
        return false;
    return insist(climb, ptr) || (has_step(climb, WEIR_RUNG_WAIT) && wait_again(climb, ptr));
}

static bool is_hopeless(struct climb *climb)
{
    const struct weir__request *request = climb->request;
    uint64_t max_size = atomic_load(&request->pool->max_size);
    if (max_size && request->asked > max_size) {
        climb->request->at_cap = true;
        climb->why = "the request alone is above max_size: nothing was tried";
    } else if (!request->pool->is_host && request->asked > climb->device->info.memory) {
        climb->why = "the request alone is larger than the device: nothing was tried";
    } else if (is_in_callback) {
        climb->why = "asked for within an out-of-memory callback: nothing was tried";
    }
    return climb->why;
}

/* Until the recovery in progress ends, or the deadline. Called with recovery->lock held. true: it ended. */
static bool wait_for_turn(const struct climb *climb, struct weir__recovery *recovery)
{
    const struct timespec until = deadline_of(climb);
    uint64_t count = recovery->count;
    while (recovery->running && recovery->count == count)
        if (pthread_cond_timedwait(&recovery->ended, &recovery->lock, &until) != 0)
            break;
    return recovery->count != count;
}

/* Whether the last recovery has just shown that this request cannot be served either. */
static bool was_just_refused(const struct weir__recovery *recovery, const struct weir__request *request)
{
    unsigned steps = atomic_load(&request->pool->steps);
    return !recovery->rescued && request->asked >= recovery->failed_size && (steps & ~recovery->failed_steps) == 0 &&
           (!recovery->failed_pool || recovery->failed_pool == request->pool);
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
 * Waits while another thread recovers, then tries again with what that one found. true: *rescued says how it ended; else the turn is ours.
 * A recovery that ended in vain speaks for this request only if it began after the first attempt failed: memory freed since an earlier one
 * began, perhaps by this very thread, was not waited for by that one.
 */
static bool joined(struct climb *climb, struct weir__recovery *recovery, bool *rescued, void **ptr)
{
    pthread_mutex_lock(&recovery->lock);
    const uint64_t begun = recovery->count + recovery->running;
    while (!climb->why && recovery->running) {
        bool ended = wait_for_turn(climb, recovery);
        bool was_rescued = ended && recovery->rescued;
        weir_rung rung = recovery->rung;
        pthread_mutex_unlock(&recovery->lock);
        *rescued = retry(climb, ptr);
        if (*rescued && was_rescued)
            count_rescue(recovery, rung);
        if (*rescued || is_over(climb))
            return true;
        pthread_mutex_lock(&recovery->lock);
        if (!ended)
            climb->why = "the deadline passed while another request recovered";
        else if (recovery->count > begun && was_just_refused(recovery, climb->request))
            climb->why = "another request has just climbed the whole ladder in vain: nothing was tried again";
    }
    if (!climb->why)
        recovery->running = true;
    pthread_mutex_unlock(&recovery->lock);
    return climb->why;
}

static void end_recovery(struct weir__recovery *recovery, const struct climb *climb, bool rescued, weir_rung rung)
{
    const struct weir__request *request = climb->request;
    bool is_sure = climb->gpu->now() <= climb->deadline;
    count_recovery(recovery, rescued, rung);
    pthread_mutex_lock(&recovery->lock);
    recovery->running = false;
    recovery->count++;
    recovery->rescued = rescued;
    recovery->rung = rung;
    recovery->failed_size = is_sure ? request->asked : UINT64_MAX;
    recovery->failed_steps = atomic_load(&request->pool->steps);
    recovery->failed_pool = request->at_cap ? request->pool : NULL;
    pthread_cond_broadcast(&recovery->ended);
    pthread_mutex_unlock(&recovery->lock);
}

/* The whole ladder. */
static bool climb_ladder(struct climb *climb, void **ptr)
{
    struct weir__recovery *recovery = &climb->device->recovery;
    weir_rung rung = WEIR_RUNG_FLUSH;
    bool rescued = false;
    if (climb_at_once(climb, &rung, ptr)) {
        count_recovery(recovery, true, rung);
        return true;
    }
    if (is_over(climb))
        return false;
    if (joined(climb, recovery, &rescued, ptr))
        return rescued || try_last(climb, ptr);
    rescued = climb_rungs(climb, WEIR_RUNG_FLUSH + 1, WEIR_RUNG_COUNT - 1, &rung, ptr);
    if (!rescued && try_last(climb, ptr)) {
        rescued = true;
        rung = WEIR_RUNG_TRIM; /* which CUDA did by itself */
    }
    end_recovery(recovery, climb, rescued, rung);
    return rescued;
}

/* Nanoseconds that there are from now on. What the first attempt waited for others counts, what CUDA took for it does not. */
static uint64_t deadline_left(const struct weir__request *request)
{
    uint64_t all = atomic_load(&request->pool->deadline);
    return all > request->waited ? all - request->waited : 0;
}

weir_status weir__recover(struct weir__request *request, void **ptr)
{
    weir_pool *pool = request->pool;
    const struct gpu *gpu = pool->w->gpu;
    struct climb climb = { .request = request, .device = pool->device, .gpu = gpu };
    climb.deadline = gpu->now() + deadline_left(request);
    request->deadline = climb.deadline;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    bool is_served = request->is_crowded && retry(&climb, ptr);
    if (!is_served && !is_over(&climb) && !is_hopeless(&climb))
        is_served = climb_ladder(&climb, ptr);
    weir__relaxed_end(gpu, mode);
    if (is_served)
        return WEIR_OK;
    if (request->code == GPU_OUT_OF_MEMORY)
        return weir__report(&(struct weir__report){ request, climb.rungs, climb.note, climb.why });
    return weir__fail_gpu(weir__last_error_reset(), gpu, request->code, "%s from pool '%s' on device %d, during recovery", WEIR__BYTES(request->asked),
                          pool->name, pool->device->index);
}
