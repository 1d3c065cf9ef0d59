/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/history.h"

#include <stddef.h>

#include "lib/alloc/stream.h"
#include "lib/base/class.h"
#include "plugin/torch/arena.h"
#include "plugin/torch/late.h"
#include "plugin/torch/reserve.h"

weir_torch_news_fn _Atomic torch_listener;

/* Of a block that no user has, the stream whose cache served it last, or keeps it. Streams that were closed are still readable. */
static gpu_stream stream_of(const struct weir__block *block)
{
    return ((const weir_stream *)(const void *)((const char *)block->guard - offsetof(weir_stream, cache.lock)))->handle;
}

/* Called with the lock of a table's shard. A graph's own block is no memory of torch's, but may take the place of a block that was. */
static void tell_block(enum weir__happening happening, const struct weir__block *block, bool is_live)
{
    static const enum weir_torch_what whats[] = {
        [WEIR__BLOCK_WAS] = WEIR_TORCH_SEGMENT_WAS,
        [WEIR__BLOCK_CAME] = WEIR_TORCH_SEGMENT_CAME,
        [WEIR__BLOCK_WENT] = WEIR_TORCH_SEGMENT_WENT,
        [WEIR__BLOCK_BACK] = WEIR_TORCH_SEGMENT_BACK,
    };
    weir_torch_news news = { .what = whats[happening], .device = block->pool->device->index, .ptr = block->ptr,
                             .size = weir__class_given(block->class, block->size) };
    if (block->graph && happening != WEIR__BLOCK_WENT)
        return;
    if (block->extent)
        news.size = (news.size + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    torch_tell(news);
    if (!is_live && block->guard)
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_SEGMENT_USED, .ptr = block->ptr, .stream = stream_of(block) });
}

static void chunk_there(const struct torch_chunk *chunk, void *data)
{
    weir_torch_news news = { .device = chunk->device, .ptr = chunk->base, .size = chunk->size, .stream = chunk->stream, .pool = chunk->id };
    (void)data;
    if (chunk->is_foreign) {
        news.what = WEIR_TORCH_SEGMENT_WAS;
        torch_tell(news);
    }
    news.what = WEIR_TORCH_SEGMENT_POOL;
    torch_tell(news);
    news.what = WEIR_TORCH_SEGMENT_USED;
    torch_tell(news);
}

static void late_there(const struct torch_note *note, void *data)
{
    (void)data;
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITED, .ptr = note->ptr, .size = note->size,
                                  .stream = note->stream ? note->stream->handle : NULL });
}

static void watch_device(const struct torch_device *device, weir__watch *watch)
{
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_DEVICE, .device = device->index });
    weir__blocks_watch(&device->w->blocks, watch);
}

/* Whoever begins finds the device, or what has begun is seen here. */
void torch_history_attach(struct torch_device *device)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&torch_listener))
        watch_device(device, tell_block);
}

/* Tables first, then what lies in their blocks. Where nobody listens any more, all locks are passed all the same: behind them no thread is in
   a call of the former listener. */
weir_status weir_torch_watch(weir_torch_news_fn listener, weir_error *error)
{
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    atomic_store(&torch_listener, listener);
    atomic_thread_fence(memory_order_seq_cst);
    struct torch_device *device = torch_is_over() ? NULL : torch_device_next(-1);
    for (; device; device = torch_device_next(device->index)) {
        watch_device(device, listener ? tell_block : NULL);
        torch_reserve_each_chunk(device, chunk_there, NULL);
        torch_late_each(device, late_there, NULL);
    }
    return WEIR_OK;
}
