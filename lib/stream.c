/* SPDX-License-Identifier: MIT */
#include "lib/stream.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/fast.h"
#include "lib/flush.h"
#include "lib/malloc.h"
#include "lib/valid.h"

#define CLOSED_MIN 256 /* closed streams of a device whose memory is not used again yet */
#define RECENT_COUNT 8 /* a power of two */

/* The streams that this thread last asked for, by the list's generation, which says whether the answer still holds, and by their id. */
static __thread struct recent {
    uint64_t generation;
    uint64_t id;
    weir_stream *stream; /* NULL: it was not open */
} recents[RECENT_COUNT];

/* A fixed handle means another stream on each device; any other is one stream of the process. */
static bool is_fixed(gpu_stream handle)
{
    return (uintptr_t)handle <= (uintptr_t)GPU_STREAM_PER_THREAD;
}

static weir_stream *find(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    weir_stream *stream = device->streams;
    while (stream && (device->has_stream_ids ? stream->id != id : stream->handle != handle))
        stream = stream->next;
    return stream;
}

/* The id of a stream, asked with its device current, since a fixed handle means another stream on each device. GPU_CAPTURE_UNSUPPORTED: the
   stream captures, so that its id must not be asked for. */
static int get_id(struct weir__device *device, gpu_stream handle, uint64_t *id)
{
    const struct gpu *gpu = device->w->gpu;
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    *id = 0;
    if (!device->has_stream_ids)
        return GPU_SUCCESS;
    int former = weir__current_begin(gpu, device->index, handle);
    int code = gpu->stream_capture_status(handle, &capture);
    if (code == GPU_SUCCESS && capture == GPU_CAPTURE_STATUS_NONE)
        code = gpu->stream_id(handle, id);
    weir__current_end(gpu, former);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return capture == GPU_CAPTURE_STATUS_NONE ? code : GPU_CAPTURE_UNSUPPORTED;
}

/* The opened stream of that handle. Only where its id cannot be asked for: a handle proves little. */
static weir_stream *find_handle(struct weir__device *device, gpu_stream handle)
{
    weir_stream *stream = device->streams;
    while (stream && (stream->handle != handle || atomic_load(&stream->is_gone)))
        stream = stream->next;
    return stream;
}

static uint64_t filter_bit(gpu_stream handle)
{
    if (!handle)
        handle = GPU_STREAM_LEGACY; /* two names of one stream */
    return UINT64_C(1) << ((uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 58);
}

/* Called with device->lock held for writing, whenever the list has changed. */
static void rebuild_filters(struct weir__device *device)
{
    static _Atomic uint64_t generations;
    uint64_t routed = 0, listed = 0;
    for (const weir_stream *stream = device->streams; stream; stream = stream->next) {
        listed |= filter_bit(stream->handle);
        if (stream->pool != device->default_pool)
            routed |= filter_bit(stream->handle);
    }
    atomic_store_explicit(&device->routed, routed, memory_order_release);
    atomic_store_explicit(&device->listed, listed, memory_order_release);
    atomic_store_explicit(&device->generation, atomic_fetch_add(&generations, 1) + 1, memory_order_release);
}

void weir__streams_init(struct weir__device *device)
{
    device->closed_end = &device->closed;
    rebuild_filters(device);
}

void weir__streams_destroy(struct weir__device *device)
{
    while (device->closed) {
        weir_stream *stream = device->closed;
        device->closed = stream->next;
        free(stream);
    }
}

weir_stream *weir__stream_find(struct weir__device *device, gpu_stream handle, uint64_t *id)
{
    /* Without ids a handle proves nothing: it may be a new stream under an old number. */
    if (!(atomic_load_explicit(&device->listed, memory_order_acquire) & filter_bit(handle)) || !device->has_stream_ids ||
        get_id(device, handle, id) != GPU_SUCCESS)
        return NULL;
    struct recent *recent = &recents[*id % RECENT_COUNT];
    if (recent->generation != atomic_load_explicit(&device->generation, memory_order_acquire) || recent->id != *id) {
        pthread_rwlock_rdlock(&device->lock);
        *recent = (struct recent){ atomic_load(&device->generation), *id, find(device, handle, *id) };
        pthread_rwlock_unlock(&device->lock);
    }
    return recent->stream;
}

weir_pool *weir__stream_route(struct weir__device *device, gpu_stream handle)
{
    weir_pool *pool = device->default_pool;
    uint64_t id;
    /* Without ids a handle proves nothing: it may be a new stream under an old number. */
    if (!(atomic_load_explicit(&device->routed, memory_order_acquire) & filter_bit(handle)) || !device->has_stream_ids)
        return pool;
    int code = get_id(device, handle, &id);
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = code == GPU_SUCCESS ? find(device, handle, id) : find_handle(device, handle);
    if (stream) {
        pool = stream->pool;
        weir__pool_hold(pool);
    }
    pthread_rwlock_unlock(&device->lock);
    return pool;
}

bool weir__handle_captures(const struct weir__device *device, gpu_stream handle)
{
    const struct gpu *gpu = device->w->gpu;
    enum gpu_capture_status capture;
    int former = weir__current_begin(gpu, device->index, handle);
    int code = gpu->stream_capture_status(handle, &capture);
    weir__current_end(gpu, former);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code != GPU_SUCCESS || capture != GPU_CAPTURE_STATUS_NONE;
}

bool weir__stream_captures(const weir_stream *stream)
{
    return weir__handle_captures(stream->device, stream->handle);
}

size_t weir__streams_pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&device->lock);
    for (weir_stream *stream = device->streams; stream && count < max; stream = stream->next) {
        if (stream->number >= *below || atomic_load(&stream->is_gone))
            continue;
        atomic_fetch_add(&stream->pins, 1);
        *below = stream->number;
        streams[count++] = stream;
    }
    pthread_rwlock_unlock(&device->lock);
    return count;
}

struct weir__cached weir__streams_cached(struct weir__device *device, const weir_pool *pool)
{
    pthread_rwlock_rdlock(&device->lock);
    /* With the lock, since what a stream's cache has counted becomes the pool's own when the stream leaves the list. */
    int64_t spare = atomic_load(&pool->spare);
    struct weir__cached sum = {
        .hits = atomic_load(&pool->closed_hits),
        .keeps = atomic_load(&pool->closed_keeps),
        .live = (int64_t)atomic_load(&pool->taken) - spare,
    };
    for (weir_stream *stream = device->streams; stream; stream = stream->next) {
        struct weir__cache *cache = &stream->cache;
        if (stream->pool != pool)
            continue;
        weir__bias_visit(&cache->lock);
        WEIR__MUST(weir__cache_is_valid(stream));
        sum.bytes += cache->bytes;
        sum.hits += cache->hits;
        sum.keeps += cache->keeps;
        sum.live += cache->live;
        weir__bias_unlock(&cache->lock);
    }
    pthread_rwlock_unlock(&device->lock);
    return sum;
}

size_t weir__streams_pin(struct weir__device *device, weir_stream **streams, size_t max)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&device->lock);
    for (weir_stream *stream = device->streams; stream; stream = stream->next) {
        size_t at = count;
        if (atomic_load(&stream->is_gone))
            continue;
        if (count == max) {
            /* No room: the one that freed least gives way. */
            for (size_t i = at = 0; i < max; i++)
                at = weir__stream_unsettled(streams[i]) < weir__stream_unsettled(streams[at]) ? i : at;
            if (weir__stream_unsettled(stream) <= weir__stream_unsettled(streams[at]))
                continue;
            weir__stream_unpin(streams[at]);
            count--;
        }
        atomic_fetch_add(&stream->pins, 1);
        streams[at] = stream;
        count++;
    }
    pthread_rwlock_unlock(&device->lock);
    return count;
}

weir_stream *weir__stream_pin(struct weir__device *device, gpu_stream handle)
{
    uint64_t id;
    if (!device->has_stream_ids || get_id(device, handle, &id) != GPU_SUCCESS)
        return NULL;
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = find(device, handle, id);
    if (stream)
        atomic_fetch_add(&stream->pins, 1);
    pthread_rwlock_unlock(&device->lock);
    return stream;
}

void weir__stream_unpin(weir_stream *stream)
{
    atomic_fetch_sub(&stream->pins, 1);
}

bool weir__stream_enter(weir_stream *stream)
{
    struct weir__cache *cache = &stream->cache;
    weir__bias_lock(&cache->lock);
    bool is_open = weir__cache_state(cache) != WEIR__CACHE_SHUT;
    cache->calls += is_open;
    weir__bias_unlock(&cache->lock);
    return is_open;
}

void weir__stream_leave(weir_stream *stream)
{
    weir__bias_lock(&stream->cache.lock);
    stream->cache.calls--;
    weir__bias_unlock(&stream->cache.lock);
}

void weir__stream_settle(struct weir__device *device, const weir_stream *settled, uint64_t freed)
{
    pthread_rwlock_rdlock(&device->lock);
    weir_stream *stream = device->streams;
    while (stream && stream != settled)
        stream = stream->next;
    if (stream) {
        uint64_t before = atomic_load(&stream->settled);
        while (before < freed && !atomic_compare_exchange_weak(&stream->settled, &before, freed))
            continue;
    }
    pthread_rwlock_unlock(&device->lock);
}

/* Opening and closing ---------------------------------------------------------------------------------------------------------------- */

/* The pool for streams of this policy name: the entry's, a new private one, or the default pool. Called with w->config held. */
static weir_status choose_pool(struct weir__device *device, const char *name, weir_error *error, weir_pool **pool)
{
    const struct policy *policy = device->w->policy;
    const struct policy_stream *entry = name ? policy_find_stream(policy, name) : NULL;
    const struct policy_pool *wanted = &policy->pools[entry ? entry->pool : policy->default_pool];
    weir_pool *found = weir__device_find_pool(device, wanted->name);
    if (!found)
        return weir__fail(error, WEIR_NOT_FOUND, "stream '%s': the policy has no pool '%s' on device %d: add the device to pools.%s.devices",
                          name ? name : "(unnamed)", wanted->name, device->index, wanted->name);
    if (entry && entry->own_pool) {
        weir_pool *parked = weir__pool_reuse(device, policy, wanted);
        if (!parked)
            return weir__pool_new(device, policy, wanted, true, error, pool);
        found = parked;
    }
    *pool = found;
    return WEIR_OK;
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

/* A fixed handle is another stream on each device; any other can be open for one device only. */
static bool is_listed(struct weir__device *device, gpu_stream handle, uint64_t id)
{
    weir *w = device->w;
    bool listed = false;
    for (size_t d = 0; d < w->device_count && !listed; d++) {
        struct weir__device *other = &w->devices[d];
        if (is_fixed(handle) && other != device)
            continue;
        pthread_rwlock_rdlock(&other->lock);
        listed = find(other, handle, id);
        pthread_rwlock_unlock(&other->lock);
    }
    return listed;
}

/* Weir would record its events on the wrong device, and wait for nothing. Where CUDA cannot tell, as of green contexts, the caller is
   believed. */
static weir_status check_device(const struct weir__device *device, gpu_stream handle, weir_error *error)
{
    const struct gpu *gpu = device->w->gpu;
    int found = device->index;
    int code = is_fixed(handle) ? GPU_SUCCESS : gpu->stream_device(handle, &found);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    if (found == device->index)
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID, "this CUDA stream is of device %d, not of device %d: open it for its own", found, device->index);
}

/* A stream that was destroyed without having been closed: its handle has become another one, of any device. Nothing touches it any more. */
static void abandon_former(weir *w, gpu_stream handle)
{
    for (size_t d = 0; d < w->device_count; d++) {
        struct weir__device *device = &w->devices[d];
        pthread_rwlock_rdlock(&device->lock);
        for (weir_stream *former = device->streams; former; former = former->next)
            if (former->handle == handle && !atomic_exchange(&former->is_gone, true)) {
                weir__cache_close(former);
                weir__flush_abandoned(former, WEIR__REACH_DEVICE);
            }
        pthread_rwlock_unlock(&device->lock);
    }
}

static void list_stream(weir_stream *stream)
{
    struct weir__device *device = stream->device;
    pthread_rwlock_wrlock(&device->lock);
    stream->number = device->streams ? device->streams->number + 1 : 0;
    stream->next = device->streams;
    device->streams = stream;
    rebuild_filters(device);
    pthread_rwlock_unlock(&device->lock);
}

/* A stream that was closed long enough ago, or a new one; closed. */
static weir_stream *dig_up_stream(struct weir__device *device)
{
    weir_stream *stream = NULL;
    pthread_rwlock_wrlock(&device->lock);
    if (device->closed_count > CLOSED_MIN) {
        stream = device->closed;
        device->closed = stream->next;
        device->closed_count--;
        if (!device->closed)
            device->closed_end = &device->closed;
    }
    pthread_rwlock_unlock(&device->lock);
    if (!stream && (stream = aligned_alloc(_Alignof(weir_stream), sizeof *stream))) {
        memset(stream, 0, sizeof *stream);
        stream->w = device->w;
        stream->device = device;
        weir__cache_init(&stream->cache);
    }
    return stream;
}

static void bury_stream(weir_stream *stream)
{
    struct weir__device *device = stream->device;
    stream->next = NULL;
    pthread_rwlock_wrlock(&device->lock);
    *device->closed_end = stream;
    device->closed_end = &stream->next;
    device->closed_count++;
    pthread_rwlock_unlock(&device->lock);
}

static weir_status open_stream(struct weir__device *device, gpu_stream handle, bool is_own, const char *name, weir_error *error,
                               weir_stream **s)
{
    weir *w = device->w;
    uint64_t id;
    int code = get_id(device, handle, &id);
    if (code == GPU_CAPTURE_UNSUPPORTED)
        return weir__fail(error, WEIR_CAPTURING, "the stream is being captured: open it before its capture, or after");
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, w->gpu, code, "the stream has no id: is it alive");
    weir_status status = check_device(device, handle, error);
    if (status != WEIR_OK)
        return status;
    weir_stream *stream = dig_up_stream(device);
    if (!stream)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a stream");
    weir_pool *pool = NULL;
    pthread_mutex_lock(&w->config);
    /* Streams are listed under config only, so what is free now stays free. */
    if (is_listed(device, handle, id))
        status = weir__fail(error, WEIR_BUSY, "this CUDA stream is open already: close its weir_stream first");
    else
        status = choose_pool(device, name, error, &pool);
    if (status == WEIR_OK && !is_fixed(handle))
        abandon_former(w, handle);
    if (status == WEIR_OK) {
        stream->handle = handle;
        stream->is_own = is_own;
        atomic_store(&stream->is_gone, false);
        /* Not from 0: somebody may still tell of the stream that was here before. */
        atomic_store(&stream->settled, atomic_load(&stream->freed));
        atomic_store(&stream->looked_keeps, 0);
        atomic_store(&stream->looked_at, WEIR__GRANT_SPENT);
        atomic_store(&stream->was_robbed, false);
        weir__cache_open(stream, id, pool);
        list_stream(stream);
    }
    pthread_mutex_unlock(&w->config);
    if (status == WEIR_OK)
        *s = stream;
    else
        bury_stream(stream);
    return status;
}

weir_status(weir_stream_open)(weir *w, int device, weir_cuda_stream stream, const char *name, weir_error *error, weir_stream **s)
{
    weir_status status = check_arguments(w, device, s, error);
    if (status != WEIR_OK)
        return status;
    if (stream == GPU_STREAM_PER_THREAD)
        return weir__fail(error, WEIR_INVALID, "the per-thread default stream is another stream in each thread: open a stream of your own, "
                                               "or call weir_malloc() on it without opening");
    return open_stream(&w->devices[device], stream, false, name, error, s);
}

weir_status weir_stream_create(weir *w, int device, const char *name, weir_error *error, weir_stream **s)
{
    weir_status status = check_arguments(w, device, s, error);
    if (status != WEIR_OK)
        return status;
    gpu_stream handle;
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    int code = w->gpu->stream_create(device, &handle);
    if (code != GPU_SUCCESS) {
        w->gpu->forget_error(code);
        status = weir__fail_gpu(error, w->gpu, code, "no stream on device %d", device);
    } else {
        status = open_stream(&w->devices[device], handle, true, name, error, s);
        if (status != WEIR_OK)
            w->gpu->stream_destroy(handle);
    }
    weir__relaxed_end(w->gpu, mode);
    return status;
}

/* Recovery does not find the stream any more: as after a large free on a stream that is not open, an event stays behind to wait for. */
static void leave_word(const weir_stream *s)
{
    const struct gpu *gpu = s->w->gpu;
    uint64_t freed = weir__stream_unsettled(s);
    if (!freed || !weir__pending_is_due(&s->device->pending, s->handle, freed))
        return;
    int former = weir__current_begin(gpu, s->device->index, s->handle);
    weir__pending_note(&s->device->pending, gpu, s->device->index, s->handle);
    weir__current_end(gpu, former);
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
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return weir__fail_gpu(error, gpu, code, "waiting for a stream of device %d", s->device->index);
    }
    return WEIR_OK;
}

static bool is_used(weir_stream *s)
{
    weir__bias_visit(&s->cache.lock);
    bool has_calls = s->cache.calls;
    weir__bias_unlock(&s->cache.lock);
    return has_calls || atomic_load(&s->pins);
}

/* Until nobody uses the stream's handle any more: recovery and flushes take microseconds, a request that recovers as long as its deadline. */
static void wait_for_users(weir_stream *s)
{
    unsigned rounds = 0;
    while (is_used(s))
        if (++rounds < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* What the cache has counted becomes the pool's own. Called with device->lock held for writing: who adds up sees the one or the other. */
static void settle_counts(weir_stream *s)
{
    weir__pool_count_live(s->pool, s->cache.live);
    atomic_fetch_add(&s->pool->closed_hits, s->cache.hits);
    atomic_fetch_add(&s->pool->closed_keeps, s->cache.keeps);
}

static void unlist_stream(weir_stream *s)
{
    struct weir__device *device = s->device;
    pthread_rwlock_wrlock(&device->lock);
    weir_stream **link = &device->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    rebuild_filters(device);
    settle_counts(s);
    pthread_rwlock_unlock(&device->lock);
}

void weir_stream_close(weir_stream *s)
{
    if (!s || weir__is_forked())
        return;
    const struct gpu *gpu = s->w->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir__cache_close(s);
    wait_for_users(s);
    bool is_gone = atomic_load(&s->is_gone);
    if (!is_gone)
        weir__flush_stream(s, UINT64_MAX);
    weir__flush_abandoned(s, is_gone ? WEIR__REACH_DEVICE : WEIR__REACH_CAPTURE);
    if (!is_gone)
        leave_word(s);
    unlist_stream(s);
    wait_for_users(s);
    if (s->is_own && !is_gone) {
        synchronize(s, NULL);
        int code = gpu->stream_destroy(s->handle);
        if (code != GPU_SUCCESS) {
            gpu->forget_error(code);
            weir__log(s->w, WEIR_LOG_ERROR, "a stream of device %d cannot be destroyed: %s", s->device->index, gpu->code_name(code));
        }
    }
    weir__relaxed_end(gpu, mode);
    weir__pool_release(s->pool);
    bury_stream(s);
}

weir_status weir__stream_closed(weir_error *error, const char *function)
{
    return weir__fail(error, WEIR_INVALID, "%s: this stream is closed, or was destroyed before it was: no call on a weir_stream may follow its "
                       "weir_stream_close() or cudaStreamDestroy()", function);
}

/* Using -------------------------------------------------------------------------------------------------------------------------------- */

/* What a request needs that is not served in the ordinary way. */
static __attribute__((noinline)) weir_status malloc_slowly(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!s || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_malloc: s and ptr must not be NULL");
    if (weir__pool_caches(s->pool, class) && weir__cache_serve(s, NULL, NULL, class, size, ptr) == WEIR__CACHE_DONE)
        return WEIR_OK;
    if (!weir__stream_enter(s))
        return weir__stream_closed(weir__last_error_reset(), "weir_stream_malloc");
    weir_status status = weir__serve(s->pool, ptr, size, s->handle, s);
    weir__stream_leave(s);
    return status;
}

/* What a free needs that does not enter the cache in the ordinary way. */
static __attribute__((noinline)) weir_status free_slowly(weir_stream *s, void *ptr)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!ptr)
        return WEIR_OK;
    if (!s)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_free: s must not be NULL");
    return weir__give_back(s->w, ptr, s->handle, s);
}

/* The kinds of the ordinary case that are not inline, each without the instructions of the others. */
#define KIND(kind, check, way)                                                                                                          \
    static __attribute__((noinline)) weir_status malloc_##kind(weir_stream *s, void **ptr, size_t size, unsigned class)                 \
    {                                                                                                                                   \
        return weir__fast_serve(s, class, size, ptr, check, way) ? WEIR_OK : malloc_slowly(s, ptr, size, class);                        \
    }                                                                                                                                   \
    static __attribute__((noinline)) weir_status free_##kind(weir_stream *s, void *ptr)                                                 \
    {                                                                                                                                   \
        return weir__fast_keep(s, ptr, check, way) ? WEIR_OK : free_slowly(s, ptr);                                                     \
    }

KIND(home_checked, true, WEIR__BIAS_HOME)
KIND(plain, false, WEIR__BIAS_PLAIN)
KIND(plain_checked, true, WEIR__BIAS_PLAIN)
KIND(any, false, WEIR__BIAS_ANY)
KIND(any_checked, true, WEIR__BIAS_ANY)

static __attribute__((noinline)) weir_status malloc_otherwise(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked() || !s || !ptr || !weir__pool_caches(s->pool, class))
        return malloc_slowly(s, ptr, size, class);
    bool check = !weir__fast_classes(s->pool, false);
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return check ? malloc_home_checked(s, ptr, size, class) : malloc_slowly(s, ptr, size, class);
    case WEIR__BIAS_PLAIN:
        return check ? malloc_plain_checked(s, ptr, size, class) : malloc_plain(s, ptr, size, class);
    default:
        return check ? malloc_any_checked(s, ptr, size, class) : malloc_any(s, ptr, size, class);
    }
}

weir_status weir_stream_malloc(weir_stream *s, void **ptr, size_t size)
{
    unsigned class = weir__class_of(size);
    if (!weir__is_forked() && s && ptr && weir__fast_serve(s, class, size, ptr, false, WEIR__BIAS_HOME))
        return WEIR_OK;
    return malloc_otherwise(s, ptr, size, class);
}

static __attribute__((noinline)) weir_status free_otherwise(weir_stream *s, void *ptr)
{
    if (weir__is_forked() || !s || !ptr)
        return free_slowly(s, ptr);
    bool check = !weir__fast_classes(s->pool, false);
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return check ? free_home_checked(s, ptr) : free_slowly(s, ptr);
    case WEIR__BIAS_PLAIN:
        return check ? free_plain_checked(s, ptr) : free_plain(s, ptr);
    default:
        return check ? free_any_checked(s, ptr) : free_any(s, ptr);
    }
}

weir_status weir_stream_free(weir_stream *s, void *ptr)
{
    /* NULL is in no table. */
    if (!weir__is_forked() && s && weir__fast_keep(s, ptr, false, WEIR__BIAS_HOME))
        return WEIR_OK;
    return free_otherwise(s, ptr);
}

weir_status weir_stream_synchronize(weir_stream *s, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!s)
        return weir__fail(error, WEIR_INVALID, "weir_stream_synchronize: s must not be NULL");
    if (!weir__stream_enter(s))
        return weir__stream_closed(error, "weir_stream_synchronize");
    weir_status status = synchronize(s, error);
    weir__stream_leave(s);
    return status;
}

weir_cuda_stream weir_stream_handle(const weir_stream *s)
{
    return s ? s->handle : NULL;
}

int weir_stream_device(const weir_stream *s)
{
    return s ? s->device->index : -1;
}

weir_pool *weir_stream_pool(const weir_stream *s)
{
    return s ? s->pool : NULL;
}
