/* SPDX-License-Identifier: MIT */
#include "lib/pool/growth.h"

#include "lib/base/event.h"
#include "lib/pool/weir_internal.h"

void weir__growth_init(struct weir__growth *growth)
{
    pthread_mutex_init(&growth->lock, NULL);
    weir__spin_init(&growth->room_lock);
}

void weir__growth_destroy(struct weir__growth *growth, const struct gpu *gpu)
{
    if (growth->undone)
        gpu->event_destroy(growth->undone);
    pthread_mutex_destroy(&growth->lock);
}

void weir__growth_forget_room(struct weir__growth *growth)
{
    weir__spin_lock(&growth->room_lock);
    growth->max_size = 0;
    weir__spin_unlock(&growth->room_lock);
}

uint64_t weir__growth_native_cap(const weir_pool *pool)
{
    if (pool->kind.small_below || !pool->w->gpu->supports(pool->device->index, GPU_FEATURE_POOL_MAX_SIZE, NULL, 0))
        return 0;
    /* That of its entry's first pool: the cap may have been lowered since, and can be raised to that again. */
    return weir__pool_is_private(pool) ? weir__device_find_pool(pool->device, pool->name)->native.max : pool->settings.max_size;
}

/* The room ----------------------------------------------------------------------------------------------------------------------------- */

/* What others allocate from the pool, without Weir, is in nobody's account. */
static bool has_strangers(const weir_pool *pool)
{
    return weir__pool_is_default(pool) || pool->current.former || atomic_load_explicit(&pool->sharing.is_handed_out, memory_order_relaxed);
}

/* Called with room_lock. */
static void count_begin(struct weir__growth *growth, uint64_t most)
{
    growth->growing += most;
    growth->begun += most;
}

/* Whether there is room for certain. was_looked_at: what is on its way back is not there yet. Called with room_lock. */
static inline bool take_room(const struct weir__growing *growing, bool was_looked_at)
{
    struct weir__growth *growth = &growing->pool->growth;
    if (growing->is_ragged)
        atomic_store_explicit(&growth->is_ragged, true, memory_order_relaxed);
    bool is_known = (was_looked_at || !growth->is_due) && !has_strangers(growing->pool) && growth->max_size == growing->max_size;
    if (!is_known || growth->room < growing->most)
        return false;
    growth->room -= growing->most;
    count_begin(growth, growing->most);
    return true;
}

/* Called with room_lock. What was claimed is taken before the claim ends, so what is not seen here is seen there. */
static enum weir__growth_answer claim(const struct weir__growing *growing)
{
    struct weir__growth *growth = &growing->pool->growth;
    uint64_t taken = atomic_load_explicit(&growing->pool->figures.taken, memory_order_relaxed);
    if (growing->size > growing->max_size || taken > growing->max_size - growing->size)
        return WEIR__GROWTH_FULL;
    if (taken + growth->claimed > growing->max_size - growing->size)
        return WEIR__GROWTH_CROWDED;
    growth->claimed += growing->size;
    return WEIR__GROWTH_GO;
}

/* Asks CUDA what the pool has, which it returns, and finds the room that is left. own: what the caller has begun, and CUDA has answered. */
static uint64_t find_room(const struct weir__growing *growing, uint64_t own)
{
    struct weir__growth *growth = &growing->pool->growth;
    uint64_t max_size = growing->max_size;
    weir__spin_lock(&growth->room_lock);
    uint64_t others = growth->growing - own, begun = growth->begun;
    weir__spin_unlock(&growth->room_lock);
    uint64_t reserved = weir__pool_figure(growing->pool, GPU_POOL_RESERVED);
    weir__spin_lock(&growth->room_lock);
    /* Whoever has begun since may have been too late for CUDA's figure. */
    uint64_t most = reserved + others + (growth->begun - begun);
    growth->max_size = max_size;
    growth->room = most < max_size ? max_size - most : 0;
    weir__spin_unlock(&growth->room_lock);
    return reserved;
}

/* Above the cap ------------------------------------------------------------------------------------------------------------------------ */

/* Called with growth->lock. */
static void set_undone(struct weir__growth *growth, gpu_event event, const void *block, uint64_t size, uint64_t withheld)
{
    growth->undone = event;
    growth->block = (uintptr_t)block;
    growth->withheld = withheld;
    weir__spin_lock(&growth->room_lock);
    growth->size = size;
    growth->is_due = event;
    weir__spin_unlock(&growth->room_lock);
}

uint64_t weir__growth_undone(struct weir__growth *growth)
{
    weir__spin_lock(&growth->room_lock);
    uint64_t bytes = growth->is_due ? growth->size : 0;
    weir__spin_unlock(&growth->room_lock);
    return bytes;
}

/* Whether nothing is on its way back any more. Called with growth->lock. */
static bool is_back(const struct weir__growing *growing)
{
    const struct gpu *gpu = growing->pool->w->gpu;
    struct weir__growth *growth = &growing->pool->growth;
    if (!growth->undone)
        return true;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    bool is_over = weir__event_look(gpu, growth->undone) != WEIR__EVENT_PENDING;
    if (is_over) {
        gpu->event_destroy(growth->undone);
        set_undone(growth, NULL, NULL, 0, 0);
    }
    weir__relaxed_end(gpu, mode);
    return is_over;
}

/* CUDA may have used it for another block at once: once it is there, or where it may make streams wait for each other. */
static bool is_used_again(const struct weir__growth *growth, const void *block, uint64_t size)
{
    return block && (uintptr_t)block < growth->block + growth->size && growth->block < (uintptr_t)block + size;
}

/* Whether the pool with the new block (NULL: there is none) is not above its cap but for what is on its way back, once idle memory is given
   back. own: as for find_room(). Called with growth->lock. */
static bool is_within(const struct weir__growing *growing, const void *block, uint64_t own)
{
    weir_pool *pool = growing->pool;
    uint64_t released, limit = growing->max_size;
    if (!is_used_again(&pool->growth, block, growing->size) && !is_back(growing))
        limit += pool->growth.withheld;
    if (find_room(growing, own) <= limit)
        return true;
    /* CUDA gives whole steps back and never less than it was told to keep. */
    uint64_t keep = growing->max_size / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP;
    return weir__pool_trim(pool, keep, &released) == GPU_SUCCESS && find_room(growing, own) <= limit;
}

/* Where the request may take the pool above its cap, and so is one at a time. */
static __attribute__((noinline)) enum weir__growth_answer begin_risky(struct weir__growing *growing, bool alone, uint64_t *waited)
{
    struct weir__growth *growth = &growing->pool->growth;
    const struct gpu *gpu = growing->pool->w->gpu;
    if (pthread_mutex_trylock(&growth->lock) != 0) {
        uint64_t since = gpu->now();
        pthread_mutex_lock(&growth->lock);
        *waited += gpu->now() - since;
    }
    growing->is_risky = true;
    weir__spin_lock(&growth->room_lock);
    count_begin(growth, growing->most);
    weir__spin_unlock(&growth->room_lock);
    bool was_due = growth->undone;
    if (is_back(growing) || alone) {
        if (was_due)
            is_within(growing, NULL, 0);
        return WEIR__GROWTH_GO;
    }
    pthread_mutex_unlock(&growth->lock);
    growing->is_risky = false;
    find_room(growing, growing->most);
    weir__spin_lock(&growth->room_lock);
    growth->growing -= growing->most;
    bool has_room = take_room(growing, true);
    growth->claimed -= has_room ? 0 : growing->size;
    weir__spin_unlock(&growth->room_lock);
    return has_room ? WEIR__GROWTH_GO : WEIR__GROWTH_LATER;
}

/* What a pool may grow by for a request: whole steps. */
static void watch(struct weir__growing *growing)
{
    uint64_t whole = growing->size / WEIR__GROWTH_STEP, rest = growing->size % WEIR__GROWTH_STEP;
    growing->most = (whole + (rest != 0)) * WEIR__GROWTH_STEP;
    growing->own = whole > 1 ? (whole - 1) * WEIR__GROWTH_STEP : 0;
    growing->is_ragged = rest;
}

enum weir__growth_answer weir__growth_begin(struct weir__growing *growing, weir_pool *pool, uint64_t bytes, bool alone, uint64_t *waited)
{
    growing->pool = pool;
    growing->max_size = atomic_load_explicit(&pool->settings.max_size, memory_order_relaxed);
    growing->most = 0;
    growing->is_risky = growing->is_unwatched = false;
    if (!growing->max_size)
        return WEIR__GROWTH_GO;
    growing->size = bytes;
    if (!pool->backing->ops->keeps_caps && growing->max_size != pool->native.max)
        watch(growing);
    weir__spin_lock(&pool->growth.room_lock);
    enum weir__growth_answer answer = claim(growing);
    bool has_room = answer == WEIR__GROWTH_GO && (!growing->most || take_room(growing, false));
    weir__spin_unlock(&pool->growth.room_lock);
    return answer != WEIR__GROWTH_GO || has_room ? answer : begin_risky(growing, alone, waited);
}

void weir__growth_end(struct weir__growing *growing)
{
    struct weir__growth *growth = &growing->pool->growth;
    /* Who found room under a cap that came meanwhile did not know of this request. */
    if (!growing->most && atomic_load_explicit(&growing->pool->settings.max_size, memory_order_relaxed) != growing->max_size)
        weir__growth_forget_room(growth);
    if (!growing->max_size)
        return;
    weir__spin_lock(&growth->room_lock);
    growth->claimed -= growing->size;
    growth->growing -= growing->most;
    weir__spin_unlock(&growth->room_lock);
    if (growing->is_risky)
        pthread_mutex_unlock(&growth->lock);
}

bool weir__growth_is_valid(struct weir__growth *growth)
{
    weir__spin_lock(&growth->room_lock);
    bool is_idle = growth->claimed == 0 && growth->growing == 0;
    weir__spin_unlock(&growth->room_lock);
    return is_idle;
}

bool weir__growth_is_within(struct weir__growing *growing, const void *block)
{
    return !growing->is_risky || is_within(growing, block, growing->most);
}

/* An event behind the stream. Tried twice, as without it others would be refused until the stream gets there. */
static bool make_event(const weir_pool *pool, gpu_stream stream, gpu_event *event)
{
    const struct gpu *gpu = pool->w->gpu;
    int device = weir__event_device(gpu, pool->device->index, stream);
    bool is_made = false;
    for (int tries = 0; tries < 2 && !is_made; tries++)
        is_made = weir__event_behind(gpu, device, stream, event);
    return is_made;
}

uint64_t weir__growth_undo(struct weir__growing *growing, const void *block, gpu_stream stream)
{
    weir_pool *pool = growing->pool;
    struct weir__growth *growth = &pool->growth;
    const struct gpu *gpu = pool->w->gpu;
    gpu_event event;
    bool is_back = false;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    if (make_event(pool, stream, &event)) {
        is_back = weir__event_wait(gpu, event, 0);
        /* On a stream of recovery's own it can still be behind others' work, where CUDA made that stream wait for memory in use. */
        growing->is_unwatched = !is_back && growth->undone;
        if (is_back || growth->undone)
            gpu->event_destroy(event);
        else
            set_undone(growth, event, block, growing->size, growth->is_ragged ? growing->own : growing->most);
    }
    is_within(growing, NULL, growing->most);
    weir__relaxed_end(gpu, mode);
    return is_back ? 0 : growing->most;
}
