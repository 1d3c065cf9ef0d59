/* SPDX-License-Identifier: MIT */
#include "lib/backing/cuda_cap.h"

#include "lib/backing/cuda.h"
#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "lib/record/recorder.h"
#include "policy/policy.h"

#define STEP POLICY_GROWTH_STEP

/* One request of a pool with a cap. The struct is on the stack of the thread that makes the request. */
struct growing {
    struct weir__cuda *cuda;
    struct weir__ask *ask;
    uint64_t max_size; /* the cap at the time when the request began */
    uint64_t size;     /* bytes asked for */
    uint64_t most;     /* the worst growth of the pool by the request, in whole growth steps */
    uint64_t before;   /* with `leave_free`: the bytes that were reserved when CUDA was asked; 0: before that */
};

void weir__cap_init(struct weir__cap *cap, struct weir__fences *fences, const void *group)
{
    pthread_mutex_init(&cap->lock, NULL);
    weir__spin_init(&cap->room_lock);
    weir__debts_init(&cap->undone, fences);
    cap->undone.group = group;
}

void weir__cap_destroy(struct weir__cap *cap)
{
    WEIR__MUST(cap->growing == 0);
    weir__debts_end(&cap->undone);
    pthread_mutex_destroy(&cap->lock);
}

/* The room ----------------------------------------------------------------------------------------------------------------------------- */

void weir__cap_forget_room(struct weir__cap *cap)
{
    weir__spin_lock(&cap->room_lock);
    cap->room = 0;
    weir__spin_unlock(&cap->room_lock);
}

void weir__cap_set(struct weir__cap *cap, uint64_t max_size)
{
    weir__spin_lock(&cap->room_lock);
    if (atomic_exchange(&cap->max_size, max_size) != max_size)
        cap->room = 0;
    weir__spin_unlock(&cap->room_lock);
}

static void count_end(struct weir__cap *cap, uint64_t most)
{
    weir__spin_lock(&cap->room_lock);
    cap->growing -= most;
    weir__spin_unlock(&cap->room_lock);
}

static bool leaves_free(const struct growing *growing)
{
    return atomic_load_explicit(&growing->cuda->backing.leave_free, memory_order_relaxed);
}

/* Counts the request as begun if there is room for it, or in any case if `anyway` is set. Returns whether there is room. */
static bool take_room(const struct growing *growing, bool anyway)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    cap->is_ragged = cap->is_ragged || growing->most != growing->size;
    /* The room on a device is anybody's. */
    bool has_room = cap->room >= growing->most && !atomic_load_explicit(&cap->has_strangers, memory_order_relaxed) && !leaves_free(growing);
    cap->room -= has_room ? growing->most : 0;
    cap->growing += has_room || anyway ? growing->most : 0;
    cap->begun += has_room || anyway ? growing->most : 0;
    weir__spin_unlock(&cap->room_lock);
    return has_room;
}

static uint64_t figure_of(struct weir__cuda *cuda, enum gpu_pool_attribute figure)
{
    uint64_t value = 0;
    cuda->backing.ops->read(&cuda->backing, figure, &value);
    return value;
}

/* Reads the reserved bytes of the pool from CUDA, computes the room that other requests leave, and returns the reserved bytes. The caller's
   request has begun, and CUDA is not serving it now. */
static uint64_t find_room(const struct growing *growing)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    uint64_t others = cap->growing - growing->most, begun = cap->begun;
    weir__spin_unlock(&cap->room_lock);
    uint64_t reserved = figure_of(growing->cuda, GPU_POOL_RESERVED);
    weir__spin_lock(&cap->room_lock);
    /* CUDA's figure may leave out requests that began after `begun` was read, so count these too. */
    uint64_t most = reserved + others + (cap->begun - begun), max_size = atomic_load_explicit(&cap->max_size, memory_order_relaxed);
    cap->room = most < max_size ? max_size - most : 0;
    weir__spin_unlock(&cap->room_lock);
    return reserved;
}

/* Above the cap. With the lock ------------------------------------------------------------------------------------------------------- */

/* Returns the pending bytes of `undone`: those of the first block, and one byte for each further block. */
static uint64_t look_at_undone(struct weir__cap *cap)
{
    const struct weir__scope scope = {.fences = cap->undone.fences, .debts = &cap->undone};
    if (!cap->is_due)
        return 0;
    enum gpu_capture_mode mode = weir__relaxed_begin(scope.fences->gpu);
    weir__scope_look(&scope);
    weir__relaxed_end(scope.fences->gpu, mode);
    uint64_t bytes = weir__scope_pending(&scope);
    cap->is_due = bytes;
    return bytes;
}

/* Returns whether the new block overlaps the one that was freed above the cap. CUDA may reuse that memory at once if its free is complete,
   or if CUDA may make streams wait for each other. */
static bool is_used_again(const struct weir__cap *cap, const void *block, uint64_t size)
{
    return block && (uintptr_t)block < cap->block + cap->size && cap->block < (uintptr_t)block + size;
}

/* Records the trim, and before it the figures, since no later figure shows by how much the pool was above its cap. */
static void record_trim(struct weir__cuda *cuda, uint64_t used, uint64_t before, uint64_t after, uint64_t took)
{
    if (!cuda->recorder)
        return;
    weir__record_figures(cuda->recorder, WEIR__KIND_FIGURES, cuda->record, NULL, used, before);
    if (after < before)
        weir__record_figures(cuda->recorder, WEIR__KIND_TRIM, cuda->record, NULL, before - after, took);
}

static void trim(const struct growing *growing)
{
    struct weir__backing *backing = &growing->cuda->backing;
    const struct gpu *gpu = backing->gpu;
    uint64_t begun = gpu->now();
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(backing->lock);
    uint64_t used = figure_of(growing->cuda, GPU_POOL_USED), before = figure_of(growing->cuda, GPU_POOL_RESERVED);
    /* CUDA gives back whole growth steps, and keeps at least the bytes that it was told to keep. */
    uint64_t lack = weir__backing_lack(backing, 0), keep = weir__smaller(growing->max_size, weir__less(before, lack));
    backing->ops->give_back(backing, keep / STEP * STEP, true);
    uint64_t after = figure_of(growing->cuda, GPU_POOL_RESERVED);
    pthread_mutex_unlock(backing->lock);
    weir__relaxed_end(gpu, mode);
    record_trim(growing->cuda, used, before, after, gpu->now() - begun);
}

/* Returns what a pool with so many reserved bytes exceeds, as a WEIR__LACK code: its cap of `limit` bytes, or by its growth what the device
   has beside `leave_free`. Returns 0 if neither. */
static int lack_of(const struct growing *growing, uint64_t reserved, uint64_t limit)
{
    if (reserved > limit)
        return WEIR__LACK_CAP;
    return reserved > growing->before && weir__backing_lack(&growing->cuda->backing, 0) ? WEIR__LACK_FREE : 0;
}

/* Returns that of the pool with the new block (NULL: none), apart from the pending bytes of `undone`. Trims the pool if it exceeds a bound,
   and looks again. */
static int find_lack(const struct growing *growing, const void *block)
{
    struct weir__cap *cap = &growing->cuda->cap;
    uint64_t undone = look_at_undone(cap), limit = growing->max_size;
    if (!is_used_again(cap, block, growing->size) && limit < UINT64_MAX - undone)
        limit += undone / STEP * STEP;
    if (!lack_of(growing, find_room(growing), limit))
        return 0;
    trim(growing);
    return lack_of(growing, find_room(growing), limit);
}

/* Counts `bytes` as freed on the stream, which may belong to another device, with a mark behind the free. Tries twice to record that mark.
   Returns the GPU code. */
static int mark_bytes(struct weir__debts *debts, uint64_t bytes, gpu_stream stream)
{
    struct weir__fences *own = debts->fences, *fences = own;
    int device = weir__event_device(own->gpu, own->device, stream), code = GPU_UNKNOWN;
    if (device != own->device)
        fences = weir__fences_join(own->gpu, device);
    struct weir__line *line = fences ? weir__line_of(fences, &(struct weir__caller){.handle = stream}) : NULL;
    struct weir__debt *debt = line ? weir__debt_of(debts, line) : NULL;
    uint64_t step;
    for (int tries = 0; debt && tries < 2 && code != GPU_SUCCESS; tries++)
        code = weir__line_free(debt, bytes, 0, &step);
    if (line)
        weir__line_put(line);
    if (fences && fences != own)
        weir__fences_leave(fences);
    return code;
}

/* Records a mark behind the free of a block of an exportable pool (cuda.h). If that fails, the pool is never known to be complete, and is
   kept for good. */
static void mark_free(struct weir__debts *debts, uint64_t bytes, gpu_stream stream)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(debts->fences->gpu);
    if (mark_bytes(debts, bytes, stream) != GPU_SUCCESS)
        atomic_store(&debts->is_unknown, true);
    weir__relaxed_end(debts->fences->gpu, mode);
}

/* Counts the freed block in `undone`, since the stream has not reached the free yet. */
static void count_undone(const struct growing *growing, const void *block, gpu_stream stream)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    /* A block that starts within a growth step may share its first and its last step with other blocks. */
    uint64_t own = cap->is_ragged ? growing->most - STEP : growing->most;
    weir__spin_unlock(&cap->room_lock);
    /* A block without a mark is not counted, and other requests are refused until the stream reaches its free. */
    if (mark_bytes(&cap->undone, own && !cap->is_due ? own : 1, stream) == GPU_SUCCESS && !cap->is_due) {
        cap->block = (uintptr_t)block;
        cap->size = growing->size;
        cap->before = growing->before;
        cap->is_due = true;
    }
}

/* Called after the block, which took the pool above its cap, was freed on the stream. Counts the block in `undone` if the stream has not
   reached the free yet, and trims the pool to its cap. */
static void undo(const struct growing *growing, const void *block, gpu_stream stream)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    gpu_event event;
    bool is_back = false;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    if (weir__event_behind(gpu, weir__event_device(gpu, growing->cuda->backing.device, stream), stream, &event)) {
        is_back = weir__event_wait(gpu, event, 0);
        weir__event_destroy(gpu, event);
    }
    if (!is_back)
        count_undone(growing, block, stream);
    weir__relaxed_end(gpu, mode);
    find_lack(growing, NULL);
}

/* Asking ------------------------------------------------------------------------------------------------------------------------------- */

static int give(const struct growing *growing, void *block, gpu_stream stream)
{
    struct weir__backing *backing = &growing->cuda->backing;
    struct weir__user user = {.handle = stream, .device = backing->device};
    int code = backing->ops->give(backing, block, NULL, &user);
    if (code == GPU_SUCCESS && growing->cuda->is_exportable)
        mark_free(&backing->debts, growing->size, stream);
    return code;
}

/* Refuses the request at the cap or at `leave_free`, for the reason `lack`. */
static int refuse(const struct growing *growing, int lack)
{
    growing->ask->lack = lack;
    return GPU_OUT_OF_MEMORY;
}

/* Makes the request on that stream, and frees the block again if the pool is above its cap then. Returns the GPU code. The caller holds the
   cap's lock. */
static int ask_on(const struct growing *growing, gpu_stream stream, void **block)
{
    int code = weir__cuda_ask(growing->cuda, growing->ask, growing->size, stream, block);
    if (code != GPU_SUCCESS && code != GPU_OUT_OF_MEMORY)
        return code;
    /* A refused request may also have left memory with the pool. If the block cannot be freed, serve it above the cap: otherwise the block
       would be lost. */
    int lack = find_lack(growing, code == GPU_SUCCESS ? *block : NULL);
    if (lack && code == GPU_SUCCESS && give(growing, *block, stream) == GPU_SUCCESS) {
        undo(growing, *block, stream);
        weir__cuda_note_taken(growing->ask, growing->size); /* the pool has kept the part of that memory that fits below the cap */
        code = refuse(growing, lack);
    }
    return code;
}

/* Makes the requester's stream wait for the stream `from`, on which the block was allocated. If that fails, frees the block and returns the
   GPU code. */
static int hand_over(const struct growing *growing, void *block, gpu_stream from)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    gpu_event event;
    int code = gpu->event_create(growing->cuda->backing.device, &event);
    if (code == GPU_SUCCESS) {
        code = gpu->event_record(event, from);
        if (code == GPU_SUCCESS)
            code = gpu->stream_wait_event(growing->ask->user.handle, event);
        weir__event_destroy(gpu, event);
    }
    if (code != GPU_SUCCESS && give(growing, block, from) != GPU_SUCCESS)
        give(growing, block, from);
    return code;
}

/* Makes the request on a stream of its own. If no stream can be made, uses the requester's stream, unless the pool may be above its cap
   already. The caller holds the cap's lock. */
static int ask_alone(const struct growing *growing, void **block)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    gpu_stream stream;
    if (gpu->stream_create(growing->cuda->backing.device, &stream) != GPU_SUCCESS)
        return growing->cuda->cap.is_due ? refuse(growing, WEIR__LACK_CAP) : ask_on(growing, growing->ask->user.handle, block);
    int code = ask_on(growing, stream, block);
    if (code == GPU_SUCCESS)
        code = hand_over(growing, *block, stream);
    gpu->stream_destroy(stream);
    return code;
}

static void lock_cap(const struct growing *growing)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    pthread_mutex_t *lock = &growing->cuda->cap.lock;
    if (pthread_mutex_trylock(lock) == 0)
        return;
    uint64_t since = gpu->now();
    pthread_mutex_lock(lock);
    growing->ask->waited += gpu->now() - since;
}

/* Looks at `undone`. Trims the pool to its cap if nothing is pending there any more, or if the request is alone. Returns whether nothing is
   pending. The caller holds the cap's lock. */
static bool settle(const struct growing *growing)
{
    struct weir__cap *cap = &growing->cuda->cap;
    if (!cap->is_due)
        return true;
    bool is_back = !look_at_undone(cap);
    if (is_back || growing->ask->is_alone)
        find_lack(growing, NULL);
    return is_back;
}

/* Returns whether CUDA is not to be asked, as the pool would have to grow by more than the device has beside `leave_free`. Idle memory in
   pieces or behind unfinished work may make the pool grow even so, which shows only afterwards. Notes what is reserved now, without the
   growth that is being undone: that is not the request's to use. */
static bool is_free_lacking(struct growing *growing)
{
    const struct weir__cuda *cuda = growing->cuda;
    gpu_pool handle = growing->ask->small ? cuda->small : cuda->handle;
    uint64_t used = 0, reserved = 0;
    if (!leaves_free(growing))
        return false;
    growing->before = find_room(growing);
    if (cuda->cap.is_due)
        growing->before = weir__smaller(growing->before, cuda->cap.before);
    cuda->backing.gpu->pool_get(handle, GPU_POOL_USED, &used);
    cuda->backing.gpu->pool_get(handle, GPU_POOL_RESERVED, &reserved);
    uint64_t growth = weir__less(growing->size, weir__less(reserved, used));
    return growth && weir__backing_lack(&cuda->backing, growth);
}

/* Serves a request without room (cuda_cap.h). If memory is still pending in `undone`, and the request is not alone, looks for room once
   more, and refuses the request with WEIR__LACK_TURN if there is none. */
static __attribute__((noinline)) int serve_risky(struct growing *growing, void **block)
{
    struct weir__cap *cap = &growing->cuda->cap;
    lock_cap(growing);
    take_room(growing, true);
    bool is_alone = growing->ask->is_alone, may_grow = settle(growing) || is_alone;
    int code = GPU_OUT_OF_MEMORY;
    if (may_grow && is_free_lacking(growing))
        refuse(growing, WEIR__LACK_FREE);
    else if (may_grow)
        code = is_alone ? ask_alone(growing, block) : ask_on(growing, growing->ask->user.handle, block);
    pthread_mutex_unlock(&cap->lock);
    if (!may_grow)
        find_room(growing);
    count_end(cap, growing->most);
    if (may_grow)
        return code;
    if (!take_room(growing, false))
        return refuse(growing, WEIR__LACK_TURN);
    code = weir__cuda_ask(growing->cuda, growing->ask, growing->size, growing->ask->user.handle, block);
    count_end(cap, growing->most);
    return code;
}

int weir__cap_serve(struct weir__cuda *cuda, uint64_t max_size, struct weir__ask *ask, uint64_t bytes, void **block)
{
    struct growing growing = {.cuda = cuda, .ask = ask, .max_size = max_size, .size = bytes};
    growing.most = (bytes / STEP + (bytes % STEP != 0)) * STEP;
    if (!take_room(&growing, false))
        return serve_risky(&growing, block);
    int code = weir__cuda_ask(cuda, ask, bytes, ask->user.handle, block);
    count_end(&cuda->cap, growing.most);
    return code;
}
