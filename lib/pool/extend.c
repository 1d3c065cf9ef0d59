/* SPDX-License-Identifier: MIT */
#include "lib/pool/extend.h"

#include "lib/base/event.h"
#include "lib/base/number.h"
#include "lib/pool/mapped.h"
#include "lib/pool/pending.h"
#include "lib/pool/recorded.h"
#include "lib/pool/weir_internal.h"

#define PIECES_MOST (WEIR__EXTEND_IDLE / WEIR__GROWTH_STEP + 1)

/* Takes pieces of what is idle, until one makes the pool grow. Returns how many. What others trim meanwhile is not to be grown again. */
static size_t take(const weir_pool *pool, uint64_t bytes, gpu_stream stream, void *pieces[PIECES_MOST])
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t before = weir__pool_figure(pool, GPU_POOL_RESERVED);
    size_t count = 0;
    while (count < PIECES_MOST && gpu->malloc_async(&pieces[count], bytes, pool->native.handle, stream) == GPU_SUCCESS) {
        count++;
        if (weir__pool_figure(pool, GPU_POOL_RESERVED) != before)
            break;
    }
    return count;
}

/* Lets the driver see that the stream is done, without which no trim could give back what was freed on it. */
static void settle(const weir_pool *pool, gpu_stream stream, uint64_t bytes)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_event event;
    bool is_there = weir__event_behind(gpu, pool->device->index, stream, &event);
    enum weir__event_state state = is_there ? weir__event_look(gpu, event) : WEIR__EVENT_BROKEN;
    /* CUDA may have made the stream wait for memory that others freed. */
    if (state == WEIR__EVENT_PENDING)
        weir__pending_add(&pool->device->pending, gpu, weir__pending_name(), event, bytes);
    else if (is_there)
        gpu->event_destroy(event);
    if (state == WEIR__EVENT_BROKEN)
        gpu->stream_synchronize(stream);
}

static void give(const weir_pool *pool, uint64_t bytes, gpu_stream stream, void *const pieces[PIECES_MOST], size_t count)
{
    const struct gpu *gpu = pool->w->gpu;
    for (size_t i = 0; i < count; i++)
        if (gpu->free_async(pieces[i], stream) != GPU_SUCCESS)
            gpu->free_async(pieces[i], stream); /* nobody else knows of this block: it would pin the pool for good */
    if (count)
        settle(pool, stream, count * bytes);
}

static uint64_t extend_cuda(weir_pool *pool, uint64_t bytes, gpu_stream stream)
{
    const struct gpu *gpu = pool->w->gpu;
    void *pieces[PIECES_MOST];
    struct weir__growing growing;
    uint64_t waited = 0, begun = gpu->now(), before = weir__pool_figure(pool, GPU_POOL_RESERVED);
    if (weir__growth_begin(&growing, pool, bytes, false, &waited) != WEIR__GROWTH_GO)
        return 0;
    give(pool, bytes, stream, pieces, take(pool, bytes, stream, pieces));
    /* Should others have grown it to its cap meanwhile, what nobody uses goes back. */
    weir__growth_is_within(&growing, NULL);
    weir__growth_end(&growing);
    uint64_t after = weir__pool_figure(pool, GPU_POOL_RESERVED);
    if (after <= before)
        return 0;
    /* What is more other threads have grown it by meanwhile. */
    uint64_t grown = weir__smaller(after - before, bytes);
    weir__record_extension(pool, grown, gpu->now() - begun);
    return grown;
}

uint64_t weir__pool_extend(weir_pool *pool, uint64_t bytes, gpu_stream stream)
{
    struct weir__asking *asking = &pool->device->asking;
    uint64_t waited = 0;
    weir__asking_begin(asking, pool->w->gpu, &waited);
    uint64_t grown = pool->native.mapped ? weir__mapped_extend(pool->native.mapped, bytes) : extend_cuda(pool, bytes, stream);
    weir__asking_end(asking);
    return grown;
}
