/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/event.h"
#include "lib/base/fork.h"
#include "lib/pool/weir_internal.h"
#include "plugin/torch/hold.h"
#include "share/base/order.h"

#define PER_THREAD ((weir_cuda_stream)0x2) /* cudaStreamPerThread */
#define LEGACY ((weir_cuda_stream)0x1)     /* cudaStreamLegacy */

static _Atomic(weir_torch_hold *) unended; /* holds are added one at a time, and taken all at once */
static atomic_bool is_over;

/* Returns the stream to remember for a use on `stream`. The per-thread stream of the thread that releases the thing is another stream than
   that of the thread that used it, so the legacy stream stands for it: the legacy stream comes behind the per-thread streams of all
   threads. */
static weir_cuda_stream shared_stream(weir_cuda_stream stream)
{
    return !stream || stream == PER_THREAD ? LEGACY : stream;
}

/* Returns whether both handles mean the same stream: the legacy stream has two. */
static bool is_same_stream(weir_cuda_stream stream, weir_cuda_stream other)
{
    return (stream ? stream : LEGACY) == (other ? other : LEGACY);
}

/* Makes `stream` wait for the present work of the stream `behind`. */
static weir_status wait_behind(const weir_torch_hold *hold, weir_cuda_stream stream, weir_cuda_stream behind, weir_error *error)
{
    const struct gpu *gpu = hold->w->gpu;
    gpu_event event = NULL;
    int code = gpu->event_create(hold->device, &event);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "ordering two streams");
    weir_status status = share_order(SHARE_ORDER_RECORD, gpu, hold->device, behind, event, "ordering two streams", error);
    if (status == WEIR_OK)
        status = share_order(SHARE_ORDER_WAIT, gpu, hold->device, stream, event, "ordering two streams", error);
    weir__event_destroy(gpu, event);
    return status;
}

weir_torch_hold *weir_torch_hold_new(weir_torch_held kind, void *thing, weir *w, int device, weir_cuda_stream home, unsigned timeout_ms,
                                     weir_torch_hold *parent)
{
    weir_torch_hold *hold = weir__is_forked() ? NULL : calloc(1, sizeof *hold);
    if (!hold)
        return NULL;
    hold->kind = kind;
    atomic_init(&hold->thing, thing);
    hold->w = w;
    hold->device = device;
    hold->home = home;
    hold->timeout_ms = timeout_ms;
    hold->parent = parent;
    atomic_init(&hold->holders, 1);
    pthread_mutex_init(&hold->lock, NULL);
    if (parent)
        weir_torch_hold_keep(parent);
    return hold;
}

void weir_torch_hold_keep(weir_torch_hold *hold)
{
    atomic_fetch_add(&hold->holders, 1);
}

weir_status weir_torch_hold_use(weir_torch_hold *hold, weir_cuda_stream stream, int waits, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    weir_cuda_stream used = shared_stream(stream);
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&hold->lock);
    bool is_known = false;
    for (unsigned s = 0; s < hold->stream_count && !is_known; s++)
        is_known = hold->streams[s] == used;
    if (!is_known && hold->stream_count == TORCH_HOLD_STREAMS_MAX)
        status = weir__fail(error, WEIR_BUSY, "this memory is used on %d streams already: copy it to use it on another one",
                            TORCH_HOLD_STREAMS_MAX);
    if (status == WEIR_OK && waits && !is_same_stream(stream, hold->home))
        status = wait_behind(hold, stream, hold->home, error);
    if (status == WEIR_OK && !is_known)
        hold->streams[hold->stream_count++] = used;
    pthread_mutex_unlock(&hold->lock);
    return status;
}

weir_status torch_hold_join(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error)
{
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&hold->lock);
    for (unsigned s = 0; s < hold->stream_count && status == WEIR_OK; s++)
        if (!is_same_stream(hold->streams[s], stream)) /* the per-thread stream of this thread has to wait for the legacy stream */
            status = wait_behind(hold, stream, hold->streams[s], error);
    pthread_mutex_unlock(&hold->lock);
    return status;
}

weir_status weir_torch_hold_finish(weir_torch_hold *hold, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    return share_order(SHARE_ORDER_FINISH, hold->w->gpu, hold->device, hold->home, NULL, "waiting for a stream", error);
}

/* The stream to release on: the first stream that used the thing, else the home stream. The home stream may be destroyed by now. */
static weir_cuda_stream last_stream(const weir_torch_hold *hold)
{
    return hold->stream_count ? hold->streams[0] : shared_stream(hold->home);
}

static weir_status release_lease(weir_torch_hold *hold)
{
    weir_cuda_stream stream = last_stream(hold);
    weir_status status = torch_hold_join(hold, stream, NULL);
    return status == WEIR_OK ? weir_lease_release(hold->thing, stream, NULL) : status;
}

static weir_status end_thing(weir_torch_hold *hold)
{
    switch (hold->kind) {
    case WEIR_TORCH_LEASE: return release_lease(hold);
    case WEIR_TORCH_SLOT:
    case WEIR_TORCH_BLOCK: return hold->thing ? torch_frame_give_back(hold, last_stream(hold), NULL) : WEIR_OK;
    case WEIR_TORCH_READER: weir_reader_close(hold->thing); break;
    case WEIR_TORCH_RING: weir_ring_close(hold->thing); break;
    case WEIR_TORCH_EXPORT:
        weir_export_close(hold->thing, hold->timeout_ms);
        weir_close(hold->w);
        break;
    case WEIR_TORCH_IMPORT:
        weir_import_close(hold->thing);
        weir_close(hold->w);
        break;
    case WEIR_TORCH_MEMORY: free(hold->thing); break;
    }
    return WEIR_OK;
}

/* Returns whether the end of such a thing can fail: it is ordered on streams, and a stream may capture. */
static bool can_be_refused(weir_torch_held kind)
{
    return kind == WEIR_TORCH_LEASE || kind == WEIR_TORCH_SLOT || kind == WEIR_TORCH_BLOCK;
}

static void destroy(weir_torch_hold *hold)
{
    weir_torch_hold *parent = hold->parent;
    pthread_mutex_destroy(&hold->lock);
    free(hold);
    if (parent)
        weir_torch_hold_drop(parent);
}

/* Ends a hold without holders. If it cannot end because its stream captures, the hold joins the list, and torch_holds_retry() tries
   again. */
static void end(weir_torch_hold *hold)
{
    if (end_thing(hold) == WEIR_OK) {
        destroy(hold);
        return;
    }
    hold->next = atomic_load(&unended);
    while (!atomic_compare_exchange_weak(&unended, &hold->next, hold))
        continue;
}

void torch_holds_retry(void)
{
    weir_torch_hold *list = weir__is_forked() ? NULL : atomic_exchange(&unended, NULL);
    for (weir_torch_hold *next; list; list = next) {
        next = list->next;
        end(list);
    }
}

void weir_torch_hold_drop(weir_torch_hold *hold)
{
    if (!hold || weir__is_forked() || atomic_load(&is_over) || atomic_fetch_sub(&hold->holders, 1) > 1)
        return;
    if (can_be_refused(hold->kind))
        torch_holds_retry();
    end(hold);
}

unsigned weir_torch_hold_holders(const weir_torch_hold *hold)
{
    return atomic_load(&hold->holders);
}

void weir_torch_holds_end(void)
{
    torch_holds_retry();
    atomic_store(&is_over, true);
}
