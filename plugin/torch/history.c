/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/history.h"

#include <stddef.h>

#include "lib/alloc/stream.h"
#include "lib/base/class.h"
#include "plugin/torch/arena.h"
#include "plugin/torch/reserve.h"

weir_torch_news_fn _Atomic torch_listener;

/* The stream whose cache keeps the block, or served it last; the block has such a cache. A closed stream can still be read. */
static gpu_stream stream_of(const struct weir__block *block)
{
    return ((const weir_stream *)(const void *)((const char *)block->guard - offsetof(weir_stream, cache.lock)))->handle;
}

/* Tells of one block. The caller holds the lock of the block's shard. A block of a graph node is not torch's memory and is not reported,
   except when it goes: it may have taken the place of a block that was reported. */
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
    if (block->from)
        news.size = (news.size + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    torch_tell(news);
    if (!is_live && !block->guard)
        torch_tell((weir_torch_news){ .what = WEIR_TORCH_FREE_WAITED, .device = news.device, .ptr = block->ptr, .size = block->size });
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

static void watch_device(const struct torch_device *device, weir__watch *watch)
{
    torch_tell((weir_torch_news){ .what = WEIR_TORCH_DEVICE, .device = device->index });
    weir__blocks_watch(&device->w->blocks, watch);
}

/* Either weir_torch_watch() finds the new device in its loop, or this function sees the new listener; the fences (atomic_thread_fence())
   make sure that at least one of the two happens. */
void torch_history_attach(struct torch_device *device)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&torch_listener))
        watch_device(device, tell_block);
}

/* Tells of the blocks first, then of the chunks and late frees that lie in these blocks. With NULL the same functions run to take each lock
   once: after that no thread can be in a call of the former listener. */
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
    }
    return WEIR_OK;
}
