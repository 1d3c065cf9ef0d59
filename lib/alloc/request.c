/* SPDX-License-Identifier: MIT */
#include "lib/alloc/request.h"

#include "lib/alloc/flush.h"
#include "lib/alloc/free.h"
#include "lib/alloc/stream.h"
#include "lib/backing/arena.h"
#include "lib/base/format.h"
#include "lib/pool/figures.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"
#include "lib/pool/settings.h"

#define PIECE (UINT64_C(1) << 30) /* bytes of one trim, during which other threads' calls of CUDA wait for 1 ms (measured) */
#define LARGE_SHARE 64 /* requests for 1/64 of the device or more are first compared with the device's free memory, which takes 4 us */

__thread const struct weir__request *weir__in_callback;

void weir__request_note_wait(struct weir__request *request)
{
    if (request->ask.waited)
        weir__record_pool(WEIR__KIND_WAIT, request->pool, request->ask.waited, request->asked);
    request->ask.waited = 0;
}

uint64_t weir__device_obtainable(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    if (device->info.os_managed)
        return UINT64_MAX;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    /* Read the idle bytes first: bytes that go back to the device between the two reads are counted twice, but never missed. */
    uint64_t idle = weir__device_idle(device), bytes = 0, total;
    int code = gpu->device_memory(device->index, &bytes, &total);
    weir__relaxed_end(gpu, mode);
    return code == GPU_SUCCESS ? bytes + idle : UINT64_MAX;
}

/* Returns true if the pool has at least `size` bytes idle. The first such look also notes how much the pool had reserved before. */
static bool has_idle(struct weir__request *request, uint64_t size)
{
    struct weir__backing *backing = request->pool->backing;
    uint64_t reserved, idle = backing->ops->idle(backing, &reserved);
    if (!request->deadline && !request->ask.before)
        request->ask.before = reserved;
    return idle >= size;
}

/* Returns true if the free memory of the device and the idle memory of this weir's pools together are less than `size`. Large blocks in the
   caches of streams are given back before the function says so. */
static __attribute__((noinline)) bool is_lacking(struct weir__request *request, uint64_t size)
{
    struct weir__device *device = request->pool->device;
    bool lacks = !has_idle(request, size) && weir__device_obtainable(device) < size;
    if (lacks && weir__caches_give(WEIR__OF_DEVICE, device, NULL, UINT64_MAX))
        lacks = !has_idle(request, size) && weir__device_obtainable(device) < size;
    return lacks;
}

/*
 * Returns true if CUDA would be asked for `size` bytes in vain: the request is large (LARGE_SHARE), and the free memory of the device and
 * the idle memory of this weir's pools are less. Measured, CUDA takes up to 0.36 s to refuse such a request, and a pool with a release
 * threshold keeps the memory that CUDA took from the device for it. CUDA may still find memory, such as idle memory of pools that are not
 * Weir's: recovery therefore asks CUDA in any case (`insist`) once its cheap steps have failed, and at its end.
 */
static inline bool is_vain(struct weir__request *request, uint64_t size)
{
    const weir_pool *pool = request->pool;
    if (size < pool->device->info.memory / LARGE_SHARE || pool->native.is_host || weir__in_callback)
        return false;
    /* At the pool's cap the memory of the device does not matter, and only CUDA knows whether a cap of its own is reached. */
    uint64_t max_size = atomic_load_explicit(&pool->settings.max_size, memory_order_relaxed);
    if (pool->native.max || (max_size && atomic_load_explicit(&pool->figures.taken, memory_order_relaxed) + size > max_size))
        return false;
    return is_lacking(request, size);
}

/* Asking CUDA -------------------------------------------------------------------------------------------------------------------------- */

/* Gives back the large blocks in the caches of the pool's streams, before the pool grows or when it is at its cap: those of the request's
   own stream, or if it has none, those of all others. The request can use the blocks of others once their frees are complete, so these
   frees get marks. Returns true if something was given back. */
static __attribute__((noinline)) bool give_up_large(const struct weir__request *request)
{
    struct weir__device *device = request->pool->device;
    if (request->opened && weir__flush_part(request->opened, 0, 0))
        return true;
    if (!weir__caches_give(WEIR__OF_POOL, device, request->pool, UINT64_MAX))
        return false;
    enum gpu_capture_mode mode = weir__relaxed_begin(request->pool->w->gpu);
    if (request->pool->backing->ops->names_streams)
        weir__scope_cover(&(struct weir__scope){.fences = device->fences, .debts = &request->pool->backing->debts}, false);
    weir__relaxed_end(request->pool->w->gpu, mode);
    return true;
}

/* Gives back the small blocks in the cache of the request's own stream, before the pool grows. An arena keeps blocks of `large` bytes and
   more apart from smaller ones. Only blocks on the request's side are given back, as the pages of the other side cannot be moved before
   these frees are complete. This costs no call of CUDA and keeps the arena smaller, but the next request for each such block is slow.
   Returns true if something was given back. */
static __attribute__((noinline)) bool give_up_own(const struct weir__request *request, size_t size)
{
    uint64_t apart = request->pool->backing->ops->large;
    unsigned large = weir__class_of(apart);
    bool is_large = size >= apart;
    return request->opened && weir__flush_part(request->opened, is_large ? large : 1, is_large ? WEIR__CLASS_COUNT : large);
}

/* Gives back cached blocks of a pool that is at its cap: large blocks, or if there are none, all blocks in the cache of the request's own
   stream. Where each of the latter costs a call of CUDA, they are left to the flush rung of recovery. Returns true if something was given
   back. */
static bool give_up_kept(const struct weir__request *request)
{
    return give_up_large(request) || (request->pool->backing->ops->asks_caches && request->opened &&
                                      weir__flush_part(request->opened, 1, WEIR__CLASS_COUNT));
}

/* Returns true if the blocks in the caches of the pool may add up to the bytes of the request. */
static bool are_caches_full(const struct weir__request *request)
{
    int64_t spare = atomic_load_explicit(&request->pool->figures.spare, memory_order_relaxed);
    return spare > 0 && (uint64_t)spare >= request->asked;
}

void weir__request_make_way(struct weir__request *request, const weir_stream *opened)
{
    struct weir__device *device = request->pool->device;
    bool has_own = weir__recent_count(&opened->cache.recent), others_have = are_caches_full(request);
    if (request->pool->backing->ops->asks_caches || request->small || !(has_own || others_have) ||
        has_idle(request, request->asked + WEIR__GROWTH_STEP))
        return;
    weir_stream *pinned = request->opened || !has_own ? NULL : weir__stream_pin(device, request->stream);
    if (request->opened || pinned)
        weir__flush_part(pinned ? pinned : request->opened, 0, 0);
    if (pinned)
        weir__stream_unpin(pinned);
    if (others_have && !has_idle(request, request->asked))
        weir__caches_give(WEIR__OF_POOL, device, request->pool, request->asked);
}

/* Asks the backing for `size` bytes. Returns the code of CUDA or of the arena; WEIR__SERVE_FURTHER: a later value of `how` may succeed. */
static int serve(struct weir__request *request, enum weir__serve how, size_t size, void **block)
{
    struct weir__backing *backing = request->pool->backing;
    request->ask.how = how;
    return backing->ops->serve(backing, &request->ask, size, block);
}

/* Called when no memory that is known to be free for the stream fits. Tries one source after the other, the cheapest first: large blocks in
   caches, frees that have become complete, the stream's own cache, a wait of the stream, and at last growth of the arena. */
static __attribute__((noinline)) int ask_further(struct weir__request *request, size_t size, void **block)
{
    int code = WEIR__SERVE_FURTHER;
    for (int tries = 0; tries < 2 && code == WEIR__SERVE_FURTHER && give_up_large(request); tries++)
        code = serve(request, WEIR__SERVE_KNOWN, size, block);
    if (code == WEIR__SERVE_FURTHER)
        code = serve(request, WEIR__SERVE_LOOK, size, block);
    if (code == WEIR__SERVE_FURTHER && give_up_own(request, size))
        code = serve(request, WEIR__SERVE_KNOWN, size, block);
    if (code == WEIR__SERVE_FURTHER && weir__request_may_wait(request) && weir__request_rather_waits(request, size))
        code = serve(request, WEIR__SERVE_KNOWN, size, block);
    return code == WEIR__SERVE_FURTHER ? serve(request, WEIR__SERVE_GROW, size, block) : code;
}

/* Gives idle memory of other pools back to the device. CUDA itself moves idle memory between its own pools, but Weir has to take idle
   memory from arenas (also those of other weirs), and has to trim CUDA's pools if the request is for an arena. Large blocks in caches are
   given back first. Returns true if memory went back to the device or became idle. */
static __attribute__((noinline)) bool take_from_others(const struct weir__request *request, uint64_t bytes)
{
    struct weir__device *device = request->pool->device;
    bool any = weir__caches_give(WEIR__OF_PROCESS, device, NULL, UINT64_MAX);
    uint64_t all = weir__arena_sweep();
    if (all < bytes)
        all += weir__arena_take_idle(device->w->gpu, device->index, bytes - all, request->pool->backing);
    if (request->pool->backing->ops->lends_idle)
        return all || any;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        bool helps = weir__pool_lends_idle(pool) && all < bytes;
        uint64_t reserved = helps ? weir__pool_figure(pool, GPU_POOL_RESERVED) : 0, wanted = bytes - all, released = 0;
        /* CUDA gives back whole growth steps only, so the bytes to keep are rounded down to steps. */
        uint64_t keep = reserved > wanted ? (reserved - wanted) / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP : 0;
        if (reserved && weir__pool_trim(pool, keep, &released) == GPU_SUCCESS)
            all += released;
    }
    return all || any;
}

/* Records the time of a slow call of CUDA that gave the request no block. */
static void note_vain(struct weir__request *request)
{
    weir_pool *pool = request->pool;
    if (request->took)
        weir__record_pool(WEIR__KIND_WAIT, pool, weir__record_nanoseconds(&pool->w->recorder, request->took), request->asked);
    request->took = 0;
}

/* Called after a call of CUDA that took long, perhaps because CUDA made the pool grow. If the call gave a block, ask() records the growth.
   If not, that memory goes back, and only the lost time is recorded. */
static void note_slow(struct weir__request *request, int code, uint64_t ticks)
{
    request->reserved = weir__record_slow(request->pool);
    request->took = ticks;
    if (code != GPU_SUCCESS)
        note_vain(request);
}

/* Asks the backing and measures the time. Not inlined, so that calls that measure nothing save no registers for it. */
static __attribute__((noinline)) int ask_timed(struct weir__request *request, size_t size, void **block)
{
    const struct gpu *gpu = request->pool->w->gpu;
    uint64_t begun = gpu->ticks();
    int code = serve(request, WEIR__SERVE_KNOWN, size, block);
    uint64_t took = gpu->ticks() - begun;
    if (took > WEIR__SLOW_TICKS)
        note_slow(request, code, took);
    return code;
}

/* Asks an arena, which must know the stream's line to tell what memory is free for the stream. */
static __attribute__((noinline)) int ask_on_line(struct weir__request *request, size_t size, void **block)
{
    const weir_stream *opened = request->opened;
    struct weir__user *user = &request->ask.user;
    user->line = opened ? opened->line : weir__stream_line(request->pool->device, request->stream, request->id);
    user->debt = opened && opened->pool == request->pool ? opened->debt : NULL;
    int code = serve(request, WEIR__SERVE_KNOWN, size, block);
    if (code == WEIR__SERVE_FURTHER)
        code = ask_further(request, size, block);
    if (!opened && user->line)
        weir__line_put(user->line);
    return code;
}

/* Asks the backing once, in the way that suits it. Returns its code, and sets at_cap if the cap was in the way. */
static inline int ask_once(struct weir__request *request, size_t size, bool small, void **block)
{
    weir_pool *pool = request->pool;
    struct weir__ask *ask = &request->ask;
    ask->user.handle = request->stream;
    ask->small = small;
    ask->is_alone = request->deadline;
    int code;
    if (!pool->backing->ops->names_streams && !small && weir__request_may_wait(request))
        weir__request_rather_waits(request, size);
    if (pool->backing->ops->names_streams)
        code = ask_on_line(request, size, block);
    else if (weir__records(&pool->w->recorder, WEIR__LEVEL_POOL))
        code = ask_timed(request, size, block);
    else
        code = serve(request, WEIR__SERVE_KNOWN, size, block);
    request->at_cap = code == GPU_OUT_OF_MEMORY && (ask->lack == WEIR__LACK_CAP || ask->lack == WEIR__LACK_TURN);
    return code;
}

/* Returns true if CUDA may be asked again. CUDA may take long to refuse a request, so after the deadline neither a second size nor a second
   pool is tried. */
static inline bool is_in_time(const struct weir__request *request)
{
    return !(request->deadline && request->was_asked && request->pool->w->gpu->now() > request->deadline);
}

/* Asks for a block without regard to Weir's cap. If the device has no memory left, takes idle memory from other pools and asks once more.
   Counts the block if there is one. Returns the code. */
static int ask(struct weir__request *request, size_t size, bool small, void **ptr)
{
    weir_pool *pool = request->pool;
    void *block;
    int code = ask_once(request, size, small, &block);
    bool is_device = !request->ask.lack || request->ask.lack == WEIR__LACK_FREE;
    if (code == GPU_OUT_OF_MEMORY && is_device && !pool->native.is_host && is_in_time(request) &&
        take_from_others(request, weir__pool_needs(pool, size)))
        code = ask_once(request, size, small, &block);
    if (code != GPU_SUCCESS)
        return code;
    if (request->took)
        weir__record_growth(pool, size, request->reserved, request->took);
    request->took = 0;
    weir__pool_count_malloc(pool, size, request->asked);
    if (small)
        weir__cuda_small_served(&pool->native, size);
    *ptr = block;
    return GPU_SUCCESS;
}

/* The same within the pool's cap: claims the bytes while it asks, so that no two requests exceed the cap together (figures.h). Returns
   WEIR__CLAIM_GO if the cap did not matter; request->code says whether there is a block. */
static enum weir__claim ask_within(struct weir__request *request, uint64_t max_size, size_t size, bool small, void **ptr)
{
    enum weir__claim answer = max_size ? weir__claim_begin(request->pool, size, max_size) : WEIR__CLAIM_GO;
    request->code = GPU_OUT_OF_MEMORY;
    request->at_cap = answer != WEIR__CLAIM_GO;
    if (answer != WEIR__CLAIM_GO)
        return answer;
    request->was_asked = true;
    request->code = ask(request, size, small, ptr);
    if (max_size)
        weir__claim_end(request->pool, size);
    if (!request->at_cap)
        return WEIR__CLAIM_GO;
    return request->ask.lack == WEIR__LACK_CAP ? WEIR__CLAIM_FULL : WEIR__CLAIM_CROWDED;
}

/* Asks the pool, or its twin if `small`, for `size` bytes; at the cap, gives back cached blocks and asks again, up to three times. Returns
   true if *ptr is set. */
static bool try_size(struct weir__request *request, size_t size, bool small, void **ptr)
{
    uint64_t max_size;
    enum weir__claim answer;
    int tries = 0;
    do {
        max_size = atomic_load_explicit(&request->pool->settings.max_size, memory_order_relaxed);
        answer = ask_within(request, max_size, size, small, ptr);
    } while (answer == WEIR__CLAIM_FULL && size <= max_size && ++tries <= 3 && is_in_time(request) && give_up_kept(request));
    request->got = size;
    if (answer == WEIR__CLAIM_CROWDED)
        request->is_crowded = true;
    return request->code == GPU_SUCCESS;
}

static inline bool may_go_on(const struct weir__request *request)
{
    return request->code == GPU_OUT_OF_MEMORY && is_in_time(request);
}

/* Tries the size of the class first, since a cache can keep such a block, and then the size that was asked for, which may still fit. */
static bool try_sizes(struct weir__request *request, bool small, void **ptr)
{
    if (request->rounded > request->asked) {
        if (!is_vain(request, request->rounded) && try_size(request, request->rounded, small, ptr))
            return true;
        if (!may_go_on(request))
            return false;
    }
    request->untried = !request->insist && is_vain(request, request->asked);
    if (!request->untried)
        return try_size(request, request->asked, small, ptr);
    request->at_cap = false;
    request->ask.lack = 0;
    return false;
}

/* Trims the pool, in pieces of PIECE bytes, down to `keep` bytes or to the bytes in use, whichever is more. */
static void give_back_above(weir_pool *pool, uint64_t keep)
{
    uint64_t used = weir__pool_figure(pool, GPU_POOL_USED), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED), released = 1;
    uint64_t least = keep > used ? keep : used;
    while (reserved > least && released) {
        reserved = reserved - least > PIECE ? reserved - PIECE : least;
        if (weir__pool_trim(pool, reserved, &released) != GPU_SUCCESS)
            break;
    }
    weir__pool_left(pool);
}

void weir__request_give_back(struct weir__request *request)
{
    struct weir__backing *backing = request->pool->backing;
    uint64_t keep;
    if (backing->ops->was_refused(backing, &request->ask, &keep))
        give_back_above(request->pool, keep);
}

/* Begins the use of an exportable pool's handle, which another thread may be replacing (cuda.h); counts the time that this takes as waited.
   weir__cuda_end() must follow. */
static __attribute__((noinline)) void enter_shared(struct weir__request *request)
{
    weir_pool *pool = request->pool;
    if (pthread_rwlock_tryrdlock(&pool->native.exchange) == 0)
        return;
    const struct gpu *gpu = pool->w->gpu;
    uint64_t since = gpu->now();
    weir__cuda_begin(&pool->native);
    request->ask.waited += gpu->now() - since;
}

/* Takes from the device what the sleeping pool needs to wake, if need be after other pools have given up idle memory. */
static __attribute__((noinline)) bool attempt_wake(struct weir__request *request)
{
    struct weir__backing *backing = request->pool->backing;
    uint64_t lack;
    request->was_asked = true;
    for (int tries = 0; tries < 2; tries++) {
        request->code = backing->ops->sleeps->take(backing, &request->ask, &lack);
        request->asked = lack;
        if (request->code != GPU_OUT_OF_MEMORY || !is_in_time(request) || !take_from_others(request, weir__pool_needs(request->pool, lack)))
            break;
    }
    return request->code == GPU_SUCCESS;
}

weir_status weir__request_fail(const struct weir__request *request, const char *when)
{
    const weir_pool *pool = request->pool;
    weir_error *error = weir__last_error_reset();
    if (request->code == WEIR__SERVE_ASLEEP)
        return weir__fail(error, WEIR_BUSY, "%s from pool '%s' on device %d: the pool is asleep or yielded: wake it with weir_pool_wake()",
                          WEIR__BYTES(request->asked), pool->name, pool->device->index);
    return weir__fail_gpu(error, pool->w->gpu, request->code, "%s from pool '%s' on device %d%s", WEIR__BYTES(request->asked), pool->name,
                          pool->device->index, when);
}

bool weir__attempt(struct weir__request *request, void **ptr)
{
    weir_pool *pool = request->pool;
    request->code = GPU_OUT_OF_MEMORY;
    request->at_cap = request->is_crowded = request->was_asked = request->untried = false;
    if (request->wakes)
        return attempt_wake(request);
    if (pool->native.is_exportable)
        enter_shared(request);
    bool is_served = request->small && try_sizes(request, true, ptr);
    /* If the twin cannot grow, the pool itself may still have idle memory for such a small block. */
    if (!is_served && may_go_on(request))
        is_served = try_sizes(request, false, ptr);
    weir__cuda_end(&pool->native);
    return is_served;
}
