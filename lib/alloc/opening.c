/* SPDX-License-Identifier: MIT */
/*
 * opening.c - opens, closes and synchronises streams: chooses the pool that serves a stream, and before a stream closes, waits for the
 * threads that use it.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"
#include "lib/alloc/request.h"
#include "lib/base/call.h"
#include "lib/pool/recorded.h"
#include "policy/report.h"

/* Synchronising ------------------------------------------------------------------------------------------------------------------------ */

/* Returns the bytes that the pool may keep when a stream synchronises. */
static uint64_t threshold_of(const weir_pool *pool)
{
    uint64_t threshold = atomic_load(&pool->backing->threshold), max_size = atomic_load(&pool->settings.max_size);
    return max_size && max_size < threshold ? max_size : threshold;
}

/* Prepares the stream for a synchronise, so that the memory that it has freed can go back to the device afterwards: large cached blocks are
   freed if the pool has more than its threshold, and arenas put an event behind the stream's frees. */
static void before_synchronize(weir_stream *s)
{
    if (weir__recent_count(&s->cache.recent) && atomic_load(&s->pool->figures.taken) > threshold_of(s->pool))
        weir__flush_part(s, 0, 0);
    if (!s->w->has_arenas)
        return;
    enum gpu_capture_mode mode = weir__relaxed_begin(s->w->gpu);
    weir__line_cover(s->line, false);
    weir__relaxed_end(s->w->gpu, mode);
}

static void after_synchronize(struct weir__device *device)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(device->w->gpu);
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        pool->backing->ops->synchronised(pool->backing);
    weir__relaxed_end(device->w->gpu, mode);
}

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

/* Sets *pool to the pool for a stream of this name: that of the policy's entry, a private one that is new or was parked (pool.h), or the
   default pool. The caller owns a reference to a private pool. Called with w->config held. */
static weir_status choose_pool(struct weir__device *device, const char *name, weir_error *error, weir_pool **pool)
{
    const struct policy *policy = device->w->policy;
    const struct policy_stream *entry = name ? policy_find_stream(policy, name) : NULL;
    const struct policy_pool *wanted = &policy->pools[entry ? entry->pool : policy->default_pool];
    weir_pool *found = weir__device_find_pool(device, wanted->name);
    if (!found)
        return weir__fail(error, WEIR_NOT_FOUND,
                          "stream '%s': the policy has no pool '%s' on device %d: add the device to pools.%s.devices%s",
                          name ? name : "(unnamed)", wanted->name, device->index, wanted->name,
                          WEIR__LOCAL(device->w));
    if (entry && entry->own_pool) {
        weir_pool *parked = weir__pool_reuse(device, policy, wanted);
        if (!parked)
            return weir__pool_new(device, policy, wanted, true, error, pool);
        found = parked;
    }
    *pool = found;
    return WEIR_OK;
}

/* Logs that the policy has entries for streams and none of that name: a misspelt name gets the default pool instead of the one that was
   meant. */
static void say_unknown(weir *w, const char *name, const weir_pool *pool)
{
    struct policy_guess guess = policy_guess_begin(name);
    pthread_mutex_lock(&w->config);
    const struct policy *policy = w->policy;
    bool is_unknown = policy->stream_count && !policy_find_stream(policy, name);
    for (size_t i = 0; i < policy->stream_count && is_unknown; i++)
        policy_guess_try(&guess, policy->streams[i].name);
    struct policy_question meant = policy_guess_text(&guess);
    pthread_mutex_unlock(&w->config);
    if (is_unknown)
        weir__log_about(w, weir__log_words(name), guess.best ? WEIR_LOG_WARNING : WEIR_LOG_INFO,
                        "a stream was opened as '%s', which is none of the policy's streams, and gets the default pool '%s'%s",
                        policy_quote(name).text, pool->name, meant.text);
}

static weir_status check_arguments(weir *w, int device, const void *out, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !out)
        return weir__fail(error, WEIR_INVALID, "opening a stream: w and s must not be NULL");
    if (device < 0 || (size_t)device >= w->device_count)
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0", device, w->device_count);
    return WEIR_OK;
}

/* Returns whether the CUDA stream is open already. A fixed handle (legacy, per-thread) means another stream on each device, so only this
   device is searched for it; any other handle can be open on one device only. */
static bool is_listed(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    weir *w = device->w;
    bool listed = false;
    for (size_t d = 0; d < w->device_count && !listed; d++) {
        struct weir__device *other = &w->devices[d];
        if (weir__handle_is_fixed(handle) && other != device)
            continue;
        pthread_rwlock_rdlock(&other->lock);
        listed = weir__stream_listed(other, handle, id);
        pthread_rwlock_unlock(&other->lock);
    }
    return listed;
}

/* Refuses a stream of another device: Weir would record the stream's events on the wrong device and wait for nothing. If CUDA cannot tell
   the device, as for a stream of a green context, the caller is believed. */
static weir_status check_device(const struct weir__device *device, gpu_stream handle, weir_error *error)
{
    const struct gpu *gpu = device->w->gpu;
    int found = device->index;
    if (!weir__handle_is_fixed(handle))
        gpu->stream_device(handle, &found);
    if (found == device->index)
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID, "this CUDA stream is of device %d, not of device %d: open it for its own device", found,
                      device->index);
}

/* Abandons a weir_stream whose CUDA stream the program has destroyed: closes the cache, makes orphans of the cached blocks, and never uses
   the handle again. The caller has the stream pinned, or keeps it open by a call on it, and holds no lock of a device or a pool. */
static void abandon(weir_stream *stream)
{
    if (atomic_exchange(&stream->is_gone, true))
        return;
    weir__cache_close(stream, false);
    weir__flush_abandoned(stream);
    weir__line_gone(stream->line);
}

/* Abandons the weir_stream, on any device, that had this handle before: CUDA has given the handle to a new stream. */
static void abandon_former(weir *w, gpu_stream handle)
{
    for (size_t d = 0; d < w->device_count; d++) {
        struct weir__device *device = &w->devices[d];
        pthread_rwlock_rdlock(&device->lock);
        weir_stream *former = weir__stream_of_handle(device, handle);
        if (former)
            atomic_fetch_add(&former->pins, 1);
        pthread_rwlock_unlock(&device->lock);
        if (!former)
            continue;
        abandon(former);
        weir__stream_unpin(former);
    }
}

bool weir__stream_is_alive(weir_stream *stream)
{
    if (atomic_load(&stream->is_gone))
        return false;
    if (stream->w->gpu->context_is_alive(&stream->context))
        return true;
    abandon(stream);
    return false;
}

/* Gives a closed weir_stream its handle, context and name, and its line, which counts the stream's frees (fence.h). Returns false if host
   memory runs out. */
static bool begin(weir_stream *stream, gpu_stream handle, uint64_t id, weir_pool *pool)
{
    static _Atomic uint64_t names;
    struct weir__device *device = stream->device;
    stream->handle = handle;
    stream->context = weir__stream_context(device, handle);
    stream->name = device->has_stream_ids ? id : ~atomic_fetch_add(&names, 1);
    atomic_store(&stream->is_gone, false);
    stream->line = weir__line_open(device->fences, &(struct weir__caller){.handle = handle, .id = stream->name});
    stream->debt = stream->line ? weir__debt_of(&pool->backing->debts, stream->line) : NULL;
    stream->room = stream->debt ? weir__parked_new(1) : NULL;
    if (stream->line && !stream->room) {
        weir__line_close(stream->line);
        weir__line_put(stream->line);
    }
    return stream->room;
}

/* Opens a stream. Called with w->config: streams are listed under that lock only, so a handle that is not listed stays so during the
   call. */
static weir_status open_stream(struct weir__device *device, gpu_stream handle, bool is_own, const char *name, weir_error *error,
                               weir_stream **s)
{
    weir *w = device->w;
    uint64_t id;
    int code = weir__stream_id(device, handle, &id);
    if (code == GPU_CAPTURE_UNSUPPORTED)
        return weir__fail(error, WEIR_CAPTURING, "the stream is being captured: open it before its capture, or after");
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, w->gpu, code, "the stream has no id: is it alive");
    weir_status status = check_device(device, handle, error);
    if (status != WEIR_OK)
        return status;
    weir_stream *stream = weir__stream_take(device);
    if (!stream)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a stream");
    weir_pool *pool = NULL;
    if (is_listed(device, handle, id))
        status = weir__fail(error, WEIR_BUSY, "this CUDA stream is open already: close its weir_stream first");
    else
        status = choose_pool(device, name, error, &pool);
    if (status == WEIR_OK && !weir__handle_is_fixed(handle))
        abandon_former(w, handle);
    if (status == WEIR_OK && pool && !begin(stream, handle, id, pool)) {
        weir__pool_release(pool);
        status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a stream");
    }
    if (status != WEIR_OK) {
        weir__stream_bury(stream);
        return status;
    }
    stream->is_own = is_own;
    weir__cache_open(stream, id, pool);
    weir__stream_list(stream);
    *s = stream;
    return WEIR_OK;
}

static void note_opened(weir_stream *s, const char *name)
{
    weir__record_stream_open(&s->w->recorder, &s->recorded, s->pool->record, s->handle, name ? name : "");
    weir__pool_say_backing(s->pool);
    if (name && weir__log_is_heard(&s->w->log))
        say_unknown(s->w, name, s->pool);
}

weir_status(weir_stream_open)(weir *w, int device, weir_cuda_stream stream, const char *name, weir_error *error, weir_stream **s)
{
    WEIR__CALL;
    weir_status status = check_arguments(w, device, s, error);
    if (status != WEIR_OK)
        return status;
    if (stream == GPU_STREAM_PER_THREAD)
        return weir__fail(error, WEIR_INVALID, "the per-thread default stream is another stream in each thread: open a stream of your own, "
                                               "or call weir_malloc() on it without opening");
    weir_stream *opened = NULL;
    pthread_mutex_lock(&w->config);
    status = open_stream(&w->devices[device], stream, false, name, error, &opened);
    pthread_mutex_unlock(&w->config);
    if (!opened)
        return status;
    note_opened(opened, name);
    *s = opened;
    return WEIR_OK;
}

void weir__stream_destroy(struct weir__device *device, gpu_stream handle)
{
    const struct gpu *gpu = device->w->gpu;
    int code = gpu->stream_destroy(handle);
    if (code != GPU_SUCCESS)
        weir__log(device->w, WEIR_LOG_ERROR, "a stream of device %d cannot be destroyed: %s", device->index, gpu->code_name(code));
}

/* Opens a CUDA stream of Weir's own, a spare one if there is one. Called with w->config. */
static weir_status create_stream(struct weir__device *device, const char *name, weir_error *error, weir_stream **s)
{
    const struct gpu *gpu = device->w->gpu;
    gpu_stream handle;
    bool is_spare = weir__spare_take(device, &handle);
    int code = is_spare ? GPU_SUCCESS : gpu->stream_create(device->index, &handle);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "no stream on device %d", device->index);
    weir_status status = open_stream(device, handle, true, name, error, s);
    if (status != WEIR_OK) {
        const struct gpu_context context = weir__stream_context(device, handle);
        if (!is_spare || !weir__spare_put(device, handle, &context))
            weir__stream_destroy(device, handle);
    }
    return status;
}

weir_status weir_stream_create(weir *w, int device, const char *name, weir_error *error, weir_stream **s)
{
    WEIR__CALL;
    weir_status status = check_arguments(w, device, s, error);
    if (status != WEIR_OK)
        return status;
    weir_stream *opened = NULL;
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    pthread_mutex_lock(&w->config);
    status = create_stream(&w->devices[device], name, error, &opened);
    pthread_mutex_unlock(&w->config);
    weir__relaxed_end(w->gpu, mode);
    if (!opened)
        return status;
    note_opened(opened, name);
    *s = opened;
    return WEIR_OK;
}

static weir_status synchronize(const weir_stream *s, weir_error *error)
{
    const struct gpu *gpu = s->w->gpu;
    int former = weir__current_begin(gpu, s->device->index, s->handle);
    enum gpu_capture_status capture;
    int code = gpu->stream_capture_status(s->handle, &capture);
    bool captures = code == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE;
    if (code == GPU_SUCCESS && !captures)
        code = gpu->stream_synchronize(s->handle);
    weir__current_end(gpu, former);
    if (captures)
        return weir__fail(error, WEIR_CAPTURING, "the stream is being captured: end the capture before you wait for the stream");
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "waiting for a stream of device %d", s->device->index);
    return WEIR_OK;
}

static bool is_used(weir_stream *s)
{
    weir__spin_lock(&s->cache.lock);
    bool has_calls = s->cache.calls;
    weir__spin_unlock(&s->cache.lock);
    return has_calls || atomic_load(&s->pins);
}

/* Waits until no thread uses the stream's handle. Recovery and flushes take microseconds, a request in recovery may take up to its
   deadline. */
static void wait_for_users(weir_stream *s)
{
    unsigned rounds = 0;
    while (is_used(s))
        if (++rounds < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* Keeps the closed stream's CUDA stream as a spare one (stream.h), so that its handle stays valid. Destroys the CUDA stream if that
   fails. */
static void keep_spare(weir_stream *s)
{
    bool is_kept = s->context.handle && synchronize(s, NULL) == WEIR_OK;
    pthread_mutex_lock(&s->w->config);
    is_kept = is_kept && weir__spare_put(s->device, s->handle, &s->context);
    pthread_mutex_unlock(&s->w->config);
    if (!is_kept)
        weir__stream_destroy(s->device, s->handle);
}

/* Closes a stream whose cache weir__cache_close() has closed. */
static void close_stream(weir_stream *s)
{
    const struct gpu *gpu = s->w->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    wait_for_users(s);
    bool is_gone = !weir__stream_is_alive(s);
    if (!is_gone)
        weir__flush_stream(s, UINT64_MAX);
    weir__flush_abandoned(s); /* it captures, or is gone */
    weir__stream_unlist(s);
    wait_for_users(s);
    /* The stream's last frees get an event here, so that other streams can wait for them. */
    weir__line_close(s->line);
    weir__line_put(s->line);
    free(s->room);
    /* Before another stream can have the handle. */
    weir__record_stream_close(&s->w->recorder, &s->recorded);
    if (s->is_own && !is_gone)
        keep_spare(s);
    weir__relaxed_end(gpu, mode);
    weir__pool_release(s->pool);
    weir__stream_bury(s);
}

void weir__stream_close(weir_stream *s)
{
    weir__cache_close(s, false);
    close_stream(s);
}

/* Returns whether this thread is in an out-of-memory callback for a request on that stream, also if the request named the raw handle
   only. */
static bool serves_request(const weir_stream *s)
{
    const struct weir__request *request = weir__in_callback;
    return request && request->stream == s->handle && (request->pool->device == s->device || !weir__handle_is_fixed(s->handle));
}

weir_status weir_stream_close(weir_stream *s)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!s)
        return WEIR_OK;
    WEIR__CALL;
    /* In a callback do not wait: the call in progress may be the one that runs this callback, or may wait for this callback to return. */
    if (serves_request(s) || !weir__cache_close(s, weir__call_is_nested()))
        return weir__fail(weir__last_error_reset(), WEIR_BUSY, "weir_stream_close: a call on this stream is in progress, which is not waited "
                                                               "for in a callback: close the stream once the callback has returned");
    close_stream(s);
    return WEIR_OK;
}

weir_status weir__stream_closed(weir_error *error, const char *function)
{
    return weir__fail(error, WEIR_INVALID,
                      "%s: this stream is closed, or it or its context was destroyed before: no call on a weir_stream may follow its "
                      "weir_stream_close(), cudaStreamDestroy() or cuCtxDestroy()",
                      function);
}

weir_status weir_stream_synchronize(weir_stream *s, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!s)
        return weir__fail(error, WEIR_INVALID, "weir_stream_synchronize: s must not be NULL");
    if (!weir__stream_enter(s))
        return weir__stream_closed(error, "weir_stream_synchronize");
    if (!weir__stream_is_alive(s)) {
        weir__stream_leave(s);
        return weir__stream_closed(error, "weir_stream_synchronize");
    }
    uint64_t begun = s->w->gpu->now();
    before_synchronize(s);
    weir_status status = synchronize(s, error);
    if (status == WEIR_OK)
        weir__record_figures(&s->w->recorder, WEIR__KIND_SYNCHRONISE, s->pool->record, s->handle, s->w->gpu->now() - begun, 0);
    if (status == WEIR_OK && s->w->has_arenas)
        after_synchronize(s->device);
    weir__stream_leave(s);
    return status;
}
