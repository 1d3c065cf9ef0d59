/* SPDX-License-Identifier: MIT */
#include "lib/backing/cuda_cap.h"

#include "lib/backing/cuda.h"
#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "lib/record/recorder.h"
#include "policy/policy.h"

#define STEP POLICY_GROWTH_STEP

/* One request that CUDA is asked for. On the stack of the thread that asks. */
struct growing {
    struct weir__cuda *cuda;
    struct weir__ask *ask;
    uint64_t max_size; /* the cap when it began */
    uint64_t size;     /* bytes asked for */
    uint64_t most;     /* bytes that the pool may grow by: whole steps */
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

/* Begins a request if there is room for it for certain, or anyway. Returns whether there is. */
static bool take_room(const struct growing *growing, bool anyway)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    cap->is_ragged = cap->is_ragged || growing->most != growing->size;
    bool has_room = cap->room >= growing->most && !atomic_load_explicit(&cap->has_strangers, memory_order_relaxed);
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

/* Asks CUDA what the pool has, which it returns, and finds the room that is left beside other requests. The caller has begun, and CUDA is not
   being asked for its request. */
static uint64_t find_room(const struct growing *growing)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    uint64_t others = cap->growing - growing->most, begun = cap->begun;
    weir__spin_unlock(&cap->room_lock);
    uint64_t reserved = figure_of(growing->cuda, GPU_POOL_RESERVED);
    weir__spin_lock(&cap->room_lock);
    /* Requests that have begun since may have been too late for CUDA's figure. */
    uint64_t most = reserved + others + (cap->begun - begun), max_size = atomic_load_explicit(&cap->max_size, memory_order_relaxed);
    cap->room = most < max_size ? max_size - most : 0;
    weir__spin_unlock(&cap->room_lock);
    return reserved;
}

/* Above the cap. With the lock ------------------------------------------------------------------------------------------------------- */

/* Bytes of blocks that are still on their way back; of the blocks behind the first one each counts as a byte. */
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

/* CUDA may have used it for another block at once: once it is there, or where it may make streams wait for each other. */
static bool is_used_again(const struct weir__cap *cap, const void *block, uint64_t size)
{
    return block && (uintptr_t)block < cap->block + cap->size && cap->block < (uintptr_t)block + size;
}

/* By how much the pool was above its cap shows in no later figure. */
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
    /* CUDA gives whole steps back and never less than it was told to keep. */
    backing->ops->give_back(backing, growing->max_size / STEP * STEP, true);
    uint64_t after = figure_of(growing->cuda, GPU_POOL_RESERVED);
    pthread_mutex_unlock(backing->lock);
    weir__relaxed_end(gpu, mode);
    record_trim(growing->cuda, used, before, after, gpu->now() - begun);
}

/* Whether the pool with the new block (NULL: there is none) is not above its cap but for what is on its way back, once idle memory is given
   back. */
static bool is_within(const struct growing *growing, const void *block)
{
    struct weir__cap *cap = &growing->cuda->cap;
    uint64_t undone = look_at_undone(cap), limit = growing->max_size;
    if (!is_used_again(cap, block, growing->size))
        limit += undone / STEP * STEP;
    if (find_room(growing) <= limit)
        return true;
    trim(growing);
    return find_room(growing) <= limit;
}

/* Bytes were freed on the stream, which may be of another device. They get a mark, for which two tries are made. Returns the waist's code. */
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

/* A block of an exportable pool was freed (cuda.h). Without a mark the pool stays for good. */
static void mark_free(struct weir__debts *debts, uint64_t bytes, gpu_stream stream)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(debts->fences->gpu);
    if (mark_bytes(debts, bytes, stream) != GPU_SUCCESS)
        atomic_store(&debts->is_unknown, true);
    weir__relaxed_end(debts->fences->gpu, mode);
}

/* The block is behind work on that stream. */
static void count_undone(const struct growing *growing, const void *block, gpu_stream stream)
{
    struct weir__cap *cap = &growing->cuda->cap;
    weir__spin_lock(&cap->room_lock);
    /* Of a block that starts within a step, the first and the last step may be shared. */
    uint64_t own = cap->is_ragged ? growing->most - STEP : growing->most;
    weir__spin_unlock(&cap->room_lock);
    /* Without a mark others would be refused until the stream gets there. */
    if (mark_bytes(&cap->undone, own && !cap->is_due ? own : 1, stream) == GPU_SUCCESS && !cap->is_due) {
        cap->block = (uintptr_t)block;
        cap->size = growing->size;
        cap->is_due = true;
    }
}

/* The block, which took the pool above its cap, was freed on the stream. What is complete at once is no memory that a recovery has found. */
static void undo(const struct growing *growing, const void *block, gpu_stream stream)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    gpu_event event;
    bool is_back = false;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    if (weir__event_behind(gpu, weir__event_device(gpu, growing->cuda->backing.device, stream), stream, &event)) {
        is_back = weir__event_wait(gpu, event, 0);
        gpu->event_destroy(event);
    }
    if (!is_back)
        count_undone(growing, block, stream);
    weir__relaxed_end(gpu, mode);
    is_within(growing, NULL);
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

/* Refused at the cap. */
static int refuse(const struct growing *growing, int lack)
{
    growing->ask->lack = lack;
    return GPU_OUT_OF_MEMORY;
}

/* Asks on that stream. With the lock. */
static int ask_on(const struct growing *growing, gpu_stream stream, void **block)
{
    int code = weir__cuda_ask(growing->cuda, growing->ask, growing->size, stream, block);
    if (code != GPU_SUCCESS && code != GPU_OUT_OF_MEMORY)
        return code;
    /* A refusal may have left with the pool what the device had. A block that cannot be given back is better served above the cap than lost. */
    if (!is_within(growing, code == GPU_SUCCESS ? *block : NULL) && code == GPU_SUCCESS &&
        give(growing, *block, stream) == GPU_SUCCESS) {
        undo(growing, *block, stream);
        weir__cuda_note_taken(growing->ask, growing->size); /* what of it is below the cap the pool has kept */
        code = refuse(growing, WEIR__LACK_CAP);
    }
    return code;
}

/* Lets the requester's stream come after the one that the block is from. */
static int hand_over(const struct growing *growing, void *block, gpu_stream from)
{
    const struct gpu *gpu = growing->cuda->backing.gpu;
    gpu_event event;
    int code = gpu->event_create(growing->cuda->backing.device, &event);
    if (code == GPU_SUCCESS) {
        code = gpu->event_record(event, from);
        if (code == GPU_SUCCESS)
            code = gpu->stream_wait_event(growing->ask->user.handle, event);
        gpu->event_destroy(event);
    }
    if (code != GPU_SUCCESS && give(growing, block, from) != GPU_SUCCESS)
        give(growing, block, from);
    return code;
}

/* On a stream of recovery's own. Without one, on the requester's, unless the pool may be above its cap already. With the lock. */
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

/* Sees to what is on its way back. true: nothing is any more. With the lock. */
static bool settle(const struct growing *growing)
{
    struct weir__cap *cap = &growing->cuda->cap;
    if (!cap->is_due)
        return true;
    bool is_back = !look_at_undone(cap);
    if (is_back || growing->ask->is_alone)
        is_within(growing, NULL);
    return is_back;
}

/* The request may take the pool above its cap. */
static __attribute__((noinline)) int serve_risky(const struct growing *growing, void **block)
{
    struct weir__cap *cap = &growing->cuda->cap;
    lock_cap(growing);
    take_room(growing, true);
    bool is_alone = growing->ask->is_alone, may_grow = settle(growing) || is_alone;
    int code = GPU_OUT_OF_MEMORY;
    if (may_grow)
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
