/* SPDX-License-Identifier: MIT */
/*
 * sleep.c - weir_pool_sleep(), weir_pool_wake(), weir_pool_yield() and the hooks around them.
 *
 * `pool.nap.lock` is held for the whole of a sleep or a wake, its hooks included, and for changes of the list of hooks. What a sleep changes
 * it takes back if a later step fails; a wake leaves the pool asleep until all of it is back.
 *
 * A thread that takes the memory of a yielded pool only tries for the lock, and the program's calls on the pool wait for that thread. A wake
 * announces itself first by WEIR__NAP_WAKING: until the thread has begun to unmap pages, it stops there.
 */
#include "lib/alloc/sleep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"
#include "lib/alloc/request.h"
#include "lib/backing/window.h"
#include "lib/base/call.h"
#include "lib/base/event.h"
#include "lib/base/format.h"
#include "lib/gpu/clock.h"
#include "lib/pool/recorded.h"
#include "lib/pool/settings.h"

#define HAS_NEW (1U << 31) /* in nap.flags: blocks have new memory since the pool was yielded, as somebody had it woken */
#define CONTENTS (WEIR_SLEEP_KEEP | WEIR_SLEEP_DISCARD)

static void unlock(pthread_mutex_t **lock)
{
    if (*lock)
        pthread_mutex_unlock(*lock);
}

static bool change(weir_pool *pool, enum weir__nap_state from, enum weir__nap_state to)
{
    return atomic_compare_exchange_strong(&pool->nap.state, &from, to);
}

/* Tells the thread that has the lock that the pool is to wake. Returns the state before, or WEIR__NAP_AWAKE if there is nothing to tell. */
static enum weir__nap_state recall(weir_pool *pool)
{
    if (change(pool, WEIR__NAP_YIELDED, WEIR__NAP_WAKING))
        return WEIR__NAP_YIELDED;
    return change(pool, WEIR__NAP_COPYING, WEIR__NAP_WAKING) ? WEIR__NAP_COPYING : WEIR__NAP_AWAKE;
}

/* Checks the arguments that all functions here have, and takes the lock. *lock: NULL if it is not taken. */
static weir_status begin(weir_pool *pool, const char *function, bool wakes, weir_error *error, pthread_mutex_t **lock)
{
    *lock = NULL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool)
        return weir__fail(error, WEIR_INVALID, "%s: pool must not be NULL", function);
    if (pthread_mutex_trylock(&pool->nap.lock) != 0) {
        enum weir__nap_state former = wakes ? recall(pool) : WEIR__NAP_AWAKE;
        if (pthread_mutex_lock(&pool->nap.lock) == EDEADLK) {
            if (former)
                change(pool, WEIR__NAP_WAKING, former);
            return weir__fail(error, WEIR_BUSY, "%s: called by a hook of pool '%s' on device %d, which is being put to sleep or woken: try "
                                                "again once that is done",
                              function, pool->name, pool->device->index);
        }
    }
    *lock = &pool->nap.lock;
    return WEIR_OK;
}

/* Hooks -------------------------------------------------------------------------------------------------------------------------------- */

weir_status weir_sleep_hook_add(weir_pool *pool, weir_sleep_fn fn, void *data, weir_error *error, unsigned *id)
{
    pthread_mutex_t *lock __attribute__((cleanup(unlock)));
    weir_status status = begin(pool, "weir_sleep_hook_add", false, error, &lock);
    if (status != WEIR_OK)
        return status;
    if (!fn || !id)
        return weir__fail(error, WEIR_INVALID, "weir_sleep_hook_add: fn and id must not be NULL");
    struct weir__sleep_hook **last = &pool->nap.hooks, *hook = malloc(sizeof *hook);
    if (!hook)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a hook of pool '%s'", pool->name);
    *hook = (struct weir__sleep_hook){.id = ++pool->nap.last_id, .fn = fn, .data = data};
    while (*last)
        last = &(*last)->next;
    *last = hook;
    *id = hook->id;
    return WEIR_OK;
}

weir_status weir_sleep_hook_remove(weir_pool *pool, unsigned id, weir_error *error)
{
    pthread_mutex_t *lock __attribute__((cleanup(unlock)));
    weir_status status = begin(pool, "weir_sleep_hook_remove", false, error, &lock);
    if (status != WEIR_OK)
        return status;
    struct weir__sleep_hook **link = &pool->nap.hooks;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    struct weir__sleep_hook *hook = *link;
    if (!hook)
        return weir__fail(error, WEIR_NOT_FOUND, "pool '%s' has no hook with the id %u", pool->name, id);
    *link = hook->next;
    free(hook);
    return WEIR_OK;
}

/* Calls the hooks that come before a sleep, in their order. Returns WEIR_BUSY if one refuses. *end is the hook that refuses or throws, or
   NULL. */
static weir_status call_before(weir_pool *pool, weir_error *error, const struct weir__sleep_hook **end)
{
    char why[WEIR_SLEEP_WHY_LEN] = "";
    for (const struct weir__sleep_hook *hook = *end; hook; *end = hook = hook->next)
        if (hook->fn(hook->data, pool, WEIR_SLEEP_BEFORE, why, sizeof why) != 0) {
            why[sizeof why - 1] = '\0';
            return weir__fail(error, WEIR_BUSY, "a hook of pool '%s' refuses the sleep%s%s", pool->name, why[0] ? ": " : "", why);
        }
    return WEIR_OK;
}

/* Calls the hooks before `end` (NULL: all) once the pool is awake, or still is. */
static void call_after(weir_pool *pool, bool kept, const struct weir__sleep_hook *end)
{
    char why[WEIR_SLEEP_WHY_LEN] = "";
    for (const struct weir__sleep_hook *hook = pool->nap.hooks; hook != end; hook = hook->next)
        hook->fn(hook->data, pool, kept ? WEIR_SLEEP_AFTER : WEIR_SLEEP_AFTER_NEW, why, sizeof why);
}

/* A sleep whose hooks were called up to `end`. Unless it succeeds they are told, even if a hook throws. */
struct told {
    weir_pool *pool;
    const struct weir__sleep_hook *end;
    bool is_asleep;
};

static void tell(struct told *told)
{
    if (told->is_asleep)
        return;
    change(told->pool, WEIR__NAP_COPYING, WEIR__NAP_YIELDED); /* first, as a hook may throw here too */
    call_after(told->pool, true, told->end);
}

/* Falling asleep ----------------------------------------------------------------------------------------------------------------------- */

/* Sets the state. Neither the backing nor a cache serves a request of a pool that is not awake. */
static void settle(weir_pool *pool, enum weir__nap_state state)
{
    bool was_awake = atomic_exchange(&pool->nap.state, state) == WEIR__NAP_AWAKE, is_awake = state == WEIR__NAP_AWAKE;
    if (was_awake == is_awake)
        return;
    pool->backing->ops->sleeps->shut(pool->backing, !is_awake);
    weir__settings_recache(pool);
}

static bool is_recalled(weir_pool *pool)
{
    return atomic_load(&pool->nap.state) == WEIR__NAP_WAKING;
}

/* Puts an event behind all work of the device. Returns the GPU code. *event: NULL if there is no work, or the device was synchronised. */
static int put_event(struct weir__device *device, gpu_event *event)
{
    const struct gpu *gpu = device->w->gpu;
    bool is_used = true;
    *event = NULL;
    if (gpu->device_is_used(device->index, &is_used) == GPU_SUCCESS && !is_used)
        return GPU_SUCCESS;
    if (!device->fences->has_device_events)
        return gpu->device_synchronize(device->index);
    int code = gpu->event_create(device->index, event);
    if (code == GPU_SUCCESS && (code = gpu->event_record_device(*event, device->index)) != GPU_SUCCESS) {
        weir__event_destroy(gpu, *event);
        *event = NULL;
    }
    return code;
}

/* Waits until the event is complete, the deadline has passed, or the pool is to wake. Returns whether it is complete. */
static bool wait_for(weir_pool *pool, gpu_event event, uint64_t deadline)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t pause = 0;
    enum weir__event_state state = weir__event_look(gpu, event);
    while (state == WEIR__EVENT_PENDING && !is_recalled(pool) && weir__event_pause(gpu, &pause, deadline))
        state = weir__event_look(gpu, event);
    return state == WEIR__EVENT_COMPLETE;
}

/* Waits until the present work of all devices is done: kernels of each may use the pool. */
static weir_status come_to_rest(weir_pool *pool, uint64_t deadline, weir_error *error)
{
    weir *w = pool->w;
    const struct gpu *gpu = w->gpu;
    gpu_event *events = calloc(w->device_count, sizeof *events);
    int code = GPU_SUCCESS;
    bool is_done = true, is_quiet = events && weir__quiet_begin(gpu);
    for (size_t d = 0; is_quiet && d < w->device_count && code == GPU_SUCCESS; d++)
        code = put_event(&w->devices[d], &events[d]);
    if (is_quiet)
        weir__quiet_end();
    for (size_t d = 0; is_quiet && d < w->device_count; d++) {
        if (!events[d])
            continue;
        is_done = wait_for(pool, events[d], deadline) && is_done;
        weir__event_destroy(gpu, events[d]);
    }
    free(events);
    if (!events)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to put pool '%s' to sleep", pool->name);
    if (!is_quiet)
        return weir__fail(error, WEIR_CAPTURING, "pool '%s' cannot sleep while a stream is being captured: try again after the capture",
                          pool->name);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "the work of the devices, before pool '%s' sleeps", pool->name);
    if (is_recalled(pool))
        return weir__fail(error, WEIR_BUSY, "pool '%s' on device %d is being woken", pool->name, pool->device->index);
    return is_done ? WEIR_OK
                   : weir__fail(error, WEIR_TIMEOUT, "pool '%s' on device %d stays awake: work of the GPU did not end in time", pool->name,
                                pool->device->index);
}

static unsigned how_of(unsigned flags)
{
    return (flags & WEIR_SLEEP_DISCARD ? 0 : WEIR__NAP_KEEPS) | (flags & WEIR_SLEEP_RETAIN ? WEIR__NAP_RETAINS : 0) |
           (flags & WEIR_SLEEP_ZERO ? WEIR__NAP_ZEROES : 0);
}

/* Adds what the policy says to the flags of a call. */
static unsigned with_policy(const weir_pool *pool, unsigned flags)
{
    unsigned policy = atomic_load(&pool->settings.sleep);
    return flags | (flags & CONTENTS ? policy & ~CONTENTS : policy);
}

/* Other processes would keep the pages of blocks that were shared with them. Call it once no more can be shared. */
static weir_status check_windows(weir_pool *pool, weir_error *error)
{
    int pid;
    size_t blocks = weir__window_blocks(pool->backing, &pid);
    if (!blocks)
        return WEIR_OK;
    return weir__fail(error, WEIR_BUSY, "pool '%s' on device %d stays awake: %zu of its blocks are shared, with process %d among others (0: nobody "
                                        "has asked yet): delete these tensors there and here first",
                      pool->name, pool->device->index, blocks, pid);
}

/* Gives up what the pool needs of the process's claims, or, with no bytes, takes that back. */
static weir_status claim(weir_pool *pool, uint64_t asleep, uint64_t patience, weir_error *error)
{
    return pool->w->claims ? pool->w->claims(pool->device, asleep, patience, error, &pool->nap.unclaimed) : WEIR_OK;
}

/* Puts a pool that serves no request any more to sleep. for_others: its claim goes with its memory. */
static weir_status fall_asleep(weir_pool *pool, unsigned flags, bool for_others, uint64_t deadline, weir_error *error, uint64_t *given)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t begun = gpu->now();
    weir_status status = check_windows(pool, error);
    if (status != WEIR_OK)
        return status;
    weir__flush(pool->device, pool, true, WEIR__NO_DEADLINE);
    status = come_to_rest(pool, deadline, error);
    if (status != WEIR_OK)
        return status;
    uint64_t held = 0;
    int code = pool->backing->ops->sleeps->sleep(pool->backing, how_of(flags), &pool->nap.state, given, &held);
    if (code == WEIR__SLEEP_RECALLED)
        return weir__fail(error, WEIR_BUSY, "pool '%s' on device %d is being woken", pool->name, pool->device->index);
    if (code == WEIR__PAGE_NO_HOST_MEMORY)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the contents of pool '%s', which stays awake: let it sleep with "
                                                      "WEIR_SLEEP_DISCARD if they can be made anew", pool->name);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "pool '%s' on device %d, which stays awake, could not be put to sleep", pool->name,
                              pool->device->index);
    weir__record_pool(WEIR__KIND_SLEEP, pool, *given, gpu->now() - begun);
    atomic_store(&pool->nap.held_elsewhere, held);
    atomic_fetch_add(&pool->nap.sleeps, 1);
    if (for_others) /* if that fails, the claim stays larger than it need be */
        claim(pool, pool->backing->ops->sleeps->asleep(pool->backing), 0, NULL);
    return WEIR_OK;
}

/* Checks what the program asks of the pool. */
static weir_status check(const weir_pool *pool, const char *function, unsigned flags, weir_error *error)
{
    if (flags & ~(WEIR_SLEEP_DISCARD | WEIR_SLEEP_RETAIN | WEIR_SLEEP_KEEP | WEIR_SLEEP_ZERO))
        return weir__fail(error, WEIR_INVALID, "%s: flags %#x are unknown to this version", function, flags);
    if ((flags & CONTENTS) == CONTENTS)
        return weir__fail(error, WEIR_INVALID, "%s: WEIR_SLEEP_KEEP and WEIR_SLEEP_DISCARD exclude each other: give one of them", function);
    if (!pool->backing->ops->sleeps)
        return weir__fail(error, WEIR_NOT_SUPPORTED,
                          "pool '%s' on device %d cannot sleep, as its memory is a pool of CUDA's: write backing: arena in the policy",
                          pool->name, pool->device->index);
    return WEIR_OK;
}

weir_status weir_pool_sleep(weir_pool *pool, unsigned flags, unsigned timeout_ms, weir_error *error, uint64_t *given)
{
    WEIR__CALL;
    pthread_mutex_t *lock __attribute__((cleanup(unlock)));
    weir_status status = begin(pool, "weir_pool_sleep", false, error, &lock);
    uint64_t bytes = 0;
    if (status == WEIR_OK)
        status = check(pool, "weir_pool_sleep", flags, error);
    if (status != WEIR_OK)
        return status;
    enum weir__nap_state former = atomic_load(&pool->nap.state);
    if (former < WEIR__NAP_TAKEN) {
        struct told told __attribute__((cleanup(tell))) = {.pool = pool, .end = pool->nap.hooks};
        status = call_before(pool, error, &told.end);
        if (status != WEIR_OK)
            return status;
        enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
        settle(pool, WEIR__NAP_ASLEEP);
        status = fall_asleep(pool, with_policy(pool, flags), true, pool->w->gpu->now() + timeout_ms * GPU_MILLISECOND, error, &bytes);
        told.is_asleep = status == WEIR_OK;
        if (!told.is_asleep)
            settle(pool, former == WEIR__NAP_AWAKE ? former : WEIR__NAP_YIELDED);
        weir__relaxed_end(pool->w->gpu, mode);
    }
    if (status == WEIR_OK && given)
        *given = bytes;
    return status;
}

/* Yielding ----------------------------------------------------------------------------------------------------------------------------- */

weir_status weir_pool_yield(weir_pool *pool, unsigned flags, weir_error *error)
{
    WEIR__CALL;
    pthread_mutex_t *lock __attribute__((cleanup(unlock)));
    weir_status status = begin(pool, "weir_pool_yield", false, error, &lock);
    if (status == WEIR_OK)
        status = check(pool, "weir_pool_yield", flags, error);
    if (status != WEIR_OK || atomic_load(&pool->nap.state) >= WEIR__NAP_TAKEN)
        return status;
    pool->nap.flags = with_policy(pool, flags) | (pool->nap.flags & HAS_NEW);
    settle(pool, WEIR__NAP_YIELDED);
    weir__record_pool(WEIR__KIND_YIELD, pool, 0, 0);
    return WEIR_OK;
}

bool weir__yielded_is(const weir_pool *pool)
{
    enum weir__nap_state state = atomic_load(&pool->nap.state);
    return state != WEIR__NAP_AWAKE && state != WEIR__NAP_ASLEEP;
}

uint64_t weir__yielded_bytes(const weir_pool *pool)
{
    int pid;
    bool can_go = weir__yielded_is(pool) && atomic_load(&pool->nap.state) != WEIR__NAP_TAKEN && !weir__window_blocks(pool->backing, &pid);
    return can_go ? weir__pool_figure(pool, GPU_POOL_RESERVED) : 0;
}

/* A call on the pool for others, which may run hooks. Requests that these make begin no recovery: one that is under way would be waited for,
   and on Weir's own thread neighbours would wait for it. */
struct visit {
    pthread_mutex_t *lock;
    const struct weir__request *former;
};

static void end_visit(struct visit *visit)
{
    unlock(&visit->lock);
    weir__in_callback = visit->former;
}

/* Takes the lock if no other thread has it. end_visit() must follow. */
static weir_status begin_visit(struct visit *visit, weir_pool *pool, weir_error *error)
{
    static _Thread_local struct weir__request none; /* stands for the request of this thread, which has none */
    visit->lock = pthread_mutex_trylock(&pool->nap.lock) == 0 ? &pool->nap.lock : NULL;
    visit->former = weir__in_callback;
    if (!visit->former) {
        none = (struct weir__request){.pool = pool, .stream = (gpu_stream)pool}; /* no stream has this handle */
        weir__in_callback = &none;
    }
    return visit->lock ? WEIR_OK
                       : weir__fail(error, WEIR_BUSY, "pool '%s' on device %d is being put to sleep or woken: try again once that is done",
                                    pool->name, pool->device->index);
}

weir_status weir__yielded_take(weir_pool *pool, uint64_t deadline, weir_error *error, uint64_t *given)
{
    WEIR__CALL;
    struct visit visit __attribute__((cleanup(end_visit)));
    weir_status status = begin_visit(&visit, pool, error);
    uint64_t bytes = 0;
    if (status != WEIR_OK || atomic_load(&pool->nap.state) >= WEIR__NAP_TAKEN)
        return status;
    if (!change(pool, WEIR__NAP_YIELDED, WEIR__NAP_COPYING))
        return weir__fail(error, WEIR_BUSY,
                          "pool '%s' on device %d is in use: its program has to call weir_pool_yield() for it first, or weir.torch.yielded() in Python",
                          pool->name, pool->device->index);
    struct told told __attribute__((cleanup(tell))) = {.pool = pool, .end = pool->nap.hooks};
    status = call_before(pool, error, &told.end);
    if (status == WEIR_OK) /* what a request of this process takes stays within the process's claim */
        status = fall_asleep(pool, pool->nap.flags, !visit.former, deadline, error, &bytes);
    if (status != WEIR_OK)
        return status;
    told.is_asleep = true;
    atomic_store(&pool->nap.state, WEIR__NAP_TAKEN);
    *given += bytes;
    return WEIR_OK;
}

/* Waking ------------------------------------------------------------------------------------------------------------------------------- */

/* Takes the memory from the device. climbs: by the recovery ladder if it has too little. */
static weir_status take(weir_pool *pool, bool climbs, unsigned timeout_ms, weir_error *error)
{
    struct weir__request request = {.pool = pool, .wakes = true, .patience = timeout_ms * GPU_MILLISECOND};
    void *nothing;
    if (weir__attempt(&request, &nothing))
        return WEIR_OK;
    if (request.code == GPU_OUT_OF_MEMORY && !climbs)
        return weir__fail(error, WEIR_OUT_OF_MEMORY, "pool '%s' on device %d sleeps on, as there are no %s free for it: 'weir trim --all' may help",
                          pool->name, pool->device->index, WEIR__BYTES(request.asked));
    weir_status status = request.code == GPU_OUT_OF_MEMORY
                             ? pool->w->out_of_memory(&request, &nothing)
                             : weir__fail_gpu(weir__last_error_reset(), pool->w->gpu, request.code,
                                              "pool '%s' on device %d, which sleeps on", pool->name, pool->device->index);
    if (status != WEIR_OK && error)
        weir_last_error(error);
    return status;
}

/* Gives a pool that sleeps its memory back: the claim first, so that nobody takes memory that others were promised. */
static weir_status wake(weir_pool *pool, bool climbs, unsigned timeout_ms, weir_error *error, bool *kept)
{
    const struct weir__sleep_ops *sleeps = pool->backing->ops->sleeps;
    uint64_t begun = pool->w->gpu->now(), bytes = sleeps->asleep(pool->backing), unclaimed = pool->nap.unclaimed;
    uint64_t patience = timeout_ms ? timeout_ms * GPU_MILLISECOND : atomic_load(&pool->settings.deadline);
    weir_status status = claim(pool, 0, climbs ? patience : 0, error);
    if (status == WEIR_OK)
        status = take(pool, climbs, timeout_ms, error);
    int code = status == WEIR_OK ? sleeps->wake(pool->backing, kept) : GPU_SUCCESS;
    if (status != WEIR_OK || code != GPU_SUCCESS)
        claim(pool, unclaimed, 0, NULL);
    if (status != WEIR_OK)
        return status;
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, pool->w->gpu, code, "pool '%s' on device %d, which sleeps on, could not be woken", pool->name,
                              pool->device->index);
    pool->nap.unclaimed = 0; /* what is left is of claims that have ended */
    atomic_store(&pool->nap.held_elsewhere, 0);
    atomic_fetch_add(&pool->nap.wakes, 1);
    weir__record_pool(WEIR__KIND_WAKE, pool, bytes, pool->w->gpu->now() - begun);
    return WEIR_OK;
}

weir_status weir_pool_wake(weir_pool *pool, unsigned timeout_ms, weir_error *error, int *kept)
{
    WEIR__CALL;
    pthread_mutex_t *lock __attribute__((cleanup(unlock)));
    weir_status status = begin(pool, "weir_pool_wake", true, error, &lock);
    bool is_kept = true;
    if (status != WEIR_OK)
        return status;
    if (atomic_load(&pool->nap.state) >= WEIR__NAP_TAKEN) {
        enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
        status = wake(pool, true, timeout_ms, error, &is_kept);
        if (status == WEIR_OK)
            settle(pool, WEIR__NAP_AWAKE);
        weir__relaxed_end(pool->w->gpu, mode);
        if (status != WEIR_OK)
            return status;
        call_after(pool, is_kept, NULL);
    }
    if (weir__yielded_is(pool))
        weir__record_pool(WEIR__KIND_WAKE, pool, 0, 0);
    settle(pool, WEIR__NAP_AWAKE);
    if (kept)
        *kept = is_kept && !(pool->nap.flags & HAS_NEW);
    pool->nap.flags = 0;
    return WEIR_OK;
}

weir_status weir__yielded_return(weir_pool *pool, weir_error *error)
{
    WEIR__CALL;
    struct visit visit __attribute__((cleanup(end_visit)));
    weir_status status = begin_visit(&visit, pool, error);
    bool is_kept = true;
    enum weir__nap_state state = atomic_load(&pool->nap.state);
    if (status == WEIR_OK && state == WEIR__NAP_ASLEEP)
        return weir__fail(error, WEIR_BUSY, "pool '%s' on device %d was put to sleep by its program, which alone can wake it (weir_pool_wake())",
                          pool->name, pool->device->index);
    if (status == WEIR_OK && state == WEIR__NAP_TAKEN && (status = wake(pool, false, 0, error, &is_kept)) == WEIR_OK) {
        pool->nap.flags |= is_kept ? 0 : HAS_NEW;
        call_after(pool, is_kept, NULL);
        atomic_store(&pool->nap.state, WEIR__NAP_YIELDED);
    }
    return status;
}
