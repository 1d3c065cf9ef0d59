/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/history.h"

#include <stddef.h>

#include "lib/alloc/stream.h"
#include "lib/base/class.h"
#include "lib/base/sized.h"
#include "plugin/torch/arena.h"
#include "plugin/torch/late.h"
#include "plugin/torch/ledger.h"
#include "plugin/torch/reserve.h"

atomic_bool torch_history_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct torch_ledger ledger;

/* Takes the lock. false: nothing is recorded, and it is not taken. */
static bool enter(void)
{
    if (!torch_history_is_on())
        return false;
    pthread_mutex_lock(&lock);
    if (torch_history_is_on())
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* What Weir has of a device. These are called with the lock of a table's shard --------------------------------------------------------- */

/* The segment that this thread's free has just taken away, should CUDA refuse it, or the block become an orphan, which is not free yet. */
static __thread struct {
    const void *base;
    gpu_stream stream;
    weir_torch_pool_id id;
} last_gone;

static int device_of(const struct weir__block *block)
{
    return block->pool->device->index;
}

/* Bytes of the device that it is. */
static uint64_t bytes_of(const struct weir__block *block)
{
    uint64_t given = weir__class_given(block->class, block->size);
    return block->extent ? (given + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP : given;
}

/* Of a block that no user has, the stream whose cache served it last, or keeps it. Streams that were closed are still readable. */
static gpu_stream stream_of(const struct weir__block *block)
{
    return ((const weir_stream *)(const void *)((const char *)block->guard - offsetof(weir_stream, cache.lock)))->handle;
}

static void segment_there(const struct weir__block *block, bool is_live, void *data)
{
    (void)data;
    if (block->graph || !enter())
        return;
    torch_ledger_segment(&ledger, device_of(block), block->ptr, bytes_of(block), true);
    if (!is_live && block->guard)
        torch_ledger_show(&ledger, block->ptr, stream_of(block));
    leave();
}

static void segment_came(const struct weir__block *block, void *data)
{
    (void)data;
    if (block->graph || !enter())
        return;
    torch_ledger_segment(&ledger, device_of(block), block->ptr, bytes_of(block), false);
    leave();
}

static void segment_went(const struct weir__block *block, void *data)
{
    (void)data;
    last_gone.base = NULL;
    if (!enter())
        return;
    if (torch_ledger_gone(&ledger, block->ptr, &last_gone.stream, &last_gone.id))
        last_gone.base = block->ptr;
    leave();
}

static void segment_back(const struct weir__block *block, void *data)
{
    (void)data;
    if (block->graph || !enter())
        return;
    if (last_gone.base == block->ptr)
        torch_ledger_back(&ledger, device_of(block), block->ptr, bytes_of(block), last_gone.stream, last_gone.id);
    else
        torch_ledger_segment(&ledger, device_of(block), block->ptr, bytes_of(block), false);
    leave();
}

/* What the rest of the plug-in tells --------------------------------------------------------------------------------------------------- */

void torch_history_wait(const void *ptr, bool waits)
{
    if (!enter())
        return;
    torch_ledger_wait(&ledger, ptr, waits);
    leave();
}

void torch_history_done(const void *ptr)
{
    if (!enter())
        return;
    torch_ledger_complete(&ledger, ptr);
    leave();
}

void torch_history_chunk(const void *base, weir_torch_pool_id id)
{
    if (!enter())
        return;
    torch_ledger_chunk(&ledger, base, id);
    leave();
}

void torch_history_foreign(int device, const void *base, uint64_t size)
{
    if (!enter())
        return;
    torch_ledger_segment(&ledger, device, base, size, false);
    leave();
}

void torch_history_foreign_gone(const void *base)
{
    gpu_stream stream;
    weir_torch_pool_id id;
    if (!enter())
        return;
    torch_ledger_gone(&ledger, base, &stream, &id);
    leave();
}

static void know_chunk(const struct torch_chunk *chunk, void *data)
{
    (void)data;
    if (!enter())
        return;
    if (chunk->is_foreign)
        torch_ledger_segment(&ledger, chunk->device, chunk->base, chunk->size, true);
    torch_ledger_chunk(&ledger, chunk->base, chunk->id);
    torch_ledger_show(&ledger, chunk->base, chunk->stream);
    leave();
}

static void know_late(const struct torch_note *note, void *data)
{
    (void)data;
    if (!enter())
        return;
    torch_ledger_waiting(&ledger, note->ptr, note->size, note->stream ? note->stream->handle : NULL);
    leave();
}

/* Begin and end ------------------------------------------------------------------------------------------------------------------------ */

static const struct weir__watch watch = { segment_there, segment_came, segment_went, segment_back, NULL };

/* Whoever begins finds the device, or what has begun is seen here. */
void torch_history_attach(struct torch_device *device)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (torch_history_is_on())
        weir__blocks_watch(&device->w->blocks, &watch);
}

/* Tables first, then what lies in their blocks. */
static void look(struct torch_device *device)
{
    weir__blocks_watch(&device->w->blocks, &watch);
    torch_reserve_each_chunk(device, know_chunk, NULL);
    torch_late_each(device, know_late, NULL);
}

weir_status weir_torch_history_begin(const weir_torch_history *given, weir_error *error)
{
    weir_torch_history history = { .size = sizeof history };
    weir_status status = weir__check_fork(error);
    if (status == WEIR_OK)
        status = weir__sized_read(given, "weir_torch_history", &history, sizeof history, error);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&lock);
    bool was_on = torch_history_is_on();
    ledger.limit = history.entries;
    ledger.skipped = history.skipped;
    ledger.keeps_contexts = history.keeps_contexts;
    for (int device = 0; device < TORCH_DEVICES_MAX; device++)
        torch_events_shrink(&ledger.events[device], history.entries);
    if (history.clears)
        torch_ledger_clear(&ledger);
    atomic_store(&torch_history_on, true);
    pthread_mutex_unlock(&lock);
    atomic_thread_fence(memory_order_seq_cst);
    if (!was_on && !torch_is_over())
        for (struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index))
            look(device);
    return WEIR_OK;
}

void weir_torch_history_end(void)
{
    if (weir__is_forked())
        return;
    pthread_mutex_lock(&lock);
    atomic_store(&torch_history_on, false);
    torch_ledger_empty(&ledger);
    torch_ledger_clear(&ledger);
    pthread_mutex_unlock(&lock);
    if (!torch_is_over())
        for (struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index))
            weir__blocks_watch(&device->w->blocks, NULL);
}

/* What the shim tells ------------------------------------------------------------------------------------------------------------------ */

/* A context that was given away, and that nobody keeps. */
static void spare(weir_torch_context *context)
{
    if (!context)
        return;
    pthread_mutex_lock(&lock);
    torch_context_spare(context);
    pthread_mutex_unlock(&lock);
}

void weir_torch_history_known(const void *ptr, uint64_t size, int device, weir_cuda_stream stream)
{
    (void)device;
    if (!enter())
        return;
    torch_ledger_alloc(&ledger, ptr, size, stream, NULL, true);
    leave();
}

void weir_torch_history_alloc(const void *ptr, uint64_t size, int device, weir_cuda_stream stream, weir_torch_context *context)
{
    (void)device;
    if (!enter()) {
        spare(context);
        return;
    }
    torch_ledger_alloc(&ledger, ptr, size, stream, context, false);
    torch_context_spare(context);
    leave();
}

void weir_torch_history_free_requested(const void *ptr, weir_torch_context *context)
{
    if (!enter()) {
        spare(context);
        return;
    }
    torch_ledger_request(&ledger, ptr, context);
    torch_context_spare(context);
    leave();
}

void weir_torch_history_free_returned(const void *ptr)
{
    torch_history_done(ptr);
}

void weir_torch_history_annotate(const void *ptr, weir_torch_context *context)
{
    if (!enter()) {
        spare(context);
        return;
    }
    torch_ledger_annotate(&ledger, ptr, context);
    torch_context_spare(context);
    leave();
}

void weir_torch_history_oom(uint64_t size, int device, weir_cuda_stream stream, uint64_t memory_free, weir_torch_context *context)
{
    if (!enter()) {
        spare(context);
        return;
    }
    torch_ledger_tell(&ledger, WEIR_TORCH_OOM, device, memory_free, size, stream, context);
    torch_context_spare(context);
    leave();
}

/* What the shim asks ------------------------------------------------------------------------------------------------------------------- */

weir_torch_context *weir_torch_history_sweep(void)
{
    return torch_context_are_swept() ? torch_context_sweep() : NULL;
}

weir_torch_context *weir_torch_history_context(const void *ptr)
{
    if (!enter())
        return NULL;
    weir_torch_context *context = torch_ledger_context(&ledger, ptr);
    torch_context_keep(context);
    leave();
    return context;
}

void weir_torch_history_release(weir_torch_context *context)
{
    pthread_mutex_lock(&lock);
    torch_context_drop(context);
    pthread_mutex_unlock(&lock);
}

weir_status weir_torch_history_take(int with_events, weir_error *error, weir_torch_snapshot **snapshot)
{
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&lock);
    weir_torch_snapshot *copy = torch_ledger_copy(&ledger, with_events);
    for (struct torch_device *device = torch_device_next(-1); copy && with_events && torch_history_is_on() && device;
         device = torch_device_next(device->index))
        torch_ledger_tell(&ledger, WEIR_TORCH_SNAPSHOT, device->index, 0, ledger.active[device->index], NULL, NULL);
    pthread_mutex_unlock(&lock);
    if (!copy)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a snapshot of the memory");
    *snapshot = copy;
    return WEIR_OK;
}

void weir_torch_history_free(weir_torch_snapshot *snapshot)
{
    pthread_mutex_lock(&lock);
    torch_ledger_free(snapshot);
    pthread_mutex_unlock(&lock);
}
