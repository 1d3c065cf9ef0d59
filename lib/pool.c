/* SPDX-License-Identifier: MIT */
#include "lib/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/device.h"
#include "lib/format.h"
#include "lib/weir_internal.h"

/* What Weir may change on a default pool, and puts back. */
static const enum gpu_pool_attribute saved_attributes[WEIR__SAVED_COUNT] = {
    GPU_POOL_RELEASE_THRESHOLD,
    GPU_POOL_REUSE_EVENT_DEPENDENCIES,
    GPU_POOL_REUSE_OPPORTUNISTIC,
    GPU_POOL_REUSE_INTERNAL_DEPENDENCIES,
};

/*
 * Pools that Weir made current, in the whole process. When one is destroyed while a later one is current, that later one must not restore a
 * handle that is gone: it inherits the former pool of the one that left. `currents_lock` is a leaf.
 */
static pthread_mutex_t currents_lock = PTHREAD_MUTEX_INITIALIZER;
static weir_pool *currents;

/* Creating --------------------------------------------------------------------------------------------------------------------------- */

static weir_status require(const weir_pool *pool, struct policy_place place, enum gpu_feature feature, weir_error *error)
{
    char why[256];
    if (pool->w->gpu->supports(pool->device->index, feature, why, sizeof why))
        return WEIR_OK;
    return weir__fail_at(error, WEIR_NOT_SUPPORTED, place, "device %d (%s) has no %s: %s", pool->device->index, pool->device->info.name,
                         gpu_feature_name(feature), why);
}

static weir_status check_features(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    weir_status status = require(pool, policy_pool_place(policy, entry, "devices"), GPU_FEATURE_POOLS, error);
    if (status == WEIR_OK && entry->location.kind == POLICY_LOCATION_HOST)
        status = require(pool, policy_pool_place(policy, entry, "location"), GPU_FEATURE_POOL_HOST, error);
    if (status == WEIR_OK && entry->location.kind == POLICY_LOCATION_HOST_NUMA)
        status = require(pool, policy_pool_place(policy, entry, "location"), GPU_FEATURE_POOL_HOST_NUMA, error);
    if (status == WEIR_OK && entry->ipc == POLICY_IPC_POSIX_FD)
        status = require(pool, policy_pool_place(policy, entry, "ipc"), GPU_FEATURE_POOL_POSIX_FD, error);
    return status;
}

static weir_status check_sizes(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    uint64_t memory = pool->device->info.memory;
    uint64_t initial = policy_size_bytes(entry->initial_size, memory);
    uint64_t threshold = policy_size_bytes(entry->release_threshold, memory);
    struct policy_place place = policy_pool_place(policy, entry, "initial_size");
    char a[WEIR__BYTES_LEN], b[WEIR__BYTES_LEN];
    if (initial > 0 && initial > threshold)
        return weir__fail_at(error, WEIR_BAD_POLICY, place,
                             "%s on device %d is above release_threshold (%s), so the first synchronise would give it back: raise the "
                             "threshold or lower initial_size",
                             weir__bytes(a, initial), pool->device->index, weir__bytes(b, threshold));
    if (initial > 0 && pool->max_size && initial > pool->max_size)
        return weir__fail_at(error, WEIR_BAD_POLICY, place, "%s on device %d is above max_size (%s): raise the cap or lower initial_size",
                             weir__bytes(a, initial), pool->device->index, weir__bytes(b, pool->max_size));
    if (initial > memory && !pool->is_host)
        return weir__fail_at(error, WEIR_BAD_POLICY, place, "%s is more than device %d has (%s): lower initial_size", weir__bytes(a, initial),
                             pool->device->index, weir__bytes(b, memory));
    return WEIR_OK;
}

static weir_status create_handles(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    static const enum gpu_location locations[] = {
        [POLICY_LOCATION_DEVICE] = GPU_LOCATION_DEVICE,
        [POLICY_LOCATION_HOST] = GPU_LOCATION_HOST,
        [POLICY_LOCATION_HOST_NUMA] = GPU_LOCATION_HOST_NUMA,
    };
    const struct gpu *gpu = pool->w->gpu;
    struct gpu_pool_spec spec = {
        .device = pool->device->index,
        .location = locations[entry->location.kind],
        .numa_node = entry->location.node,
        .posix_fd = pool->is_exportable,
    };
    int code = GPU_SUCCESS;
    if (pool->is_default) {
        code = gpu->pool_get_default(spec.device, &pool->handle);
        for (size_t i = 0; i < WEIR__SAVED_COUNT && code == GPU_SUCCESS; i++) {
            code = gpu->pool_get(pool->handle, saved_attributes[i], &pool->saved[i]);
            pool->written[i] = pool->saved[i];
        }
        if (code != GPU_SUCCESS)
            pool->handle = NULL; /* nothing was changed, so nothing is to be put back */
    } else {
        if (pool->max_size && gpu->supports(spec.device, GPU_FEATURE_POOL_MAX_SIZE, NULL, 0))
            spec.max_size = pool->native_max = pool->max_size;
        code = gpu->pool_create(&spec, &pool->handle);
    }
    if (code == GPU_SUCCESS && pool->small_below) {
        spec.max_size = 0; /* the twin grows within what the pool leaves of the cap: Weir watches that */
        code = gpu->pool_create(&spec, &pool->small);
    }
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    return weir__fail_gpu(error, gpu, code, "%s: pool '%s' on device %d cannot be created",
                          policy_pool_place(policy, entry, "").path, pool->name, spec.device);
}

/* Grows the pool by taking initial_size bytes and giving them back, on a stream of its own. */
static weir_status grow(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    uint64_t bytes = policy_size_bytes(entry->initial_size, pool->device->info.memory);
    if (bytes == 0)
        return WEIR_OK;
    const struct gpu *gpu = pool->w->gpu;
    gpu_stream stream;
    void *ptr;
    int code = gpu->stream_create(pool->device->index, &stream);
    if (code == GPU_SUCCESS) {
        code = gpu->malloc_async(&ptr, bytes, pool->handle, stream);
        if (code == GPU_SUCCESS) {
            code = gpu->free_async(ptr, stream);
            if (code != GPU_SUCCESS)
                gpu->free_async(ptr, stream); /* nobody else knows of this block: it would pin the pool for good */
        }
        if (code == GPU_SUCCESS)
            code = gpu->stream_synchronize(stream);
        gpu->stream_destroy(stream);
    }
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    struct policy_place place = policy_pool_place(policy, entry, "initial_size");
    char text[WEIR__BYTES_LEN];
    bool is_first = error && error->status == WEIR_OK;
    weir__fail_at(error, weir__status_of(code), place, "pool '%s' cannot be grown to %s on device %d: %s: %s", pool->name,
                  weir__bytes(text, bytes), pool->device->index, gpu->code_name(code), gpu->code_text(code));
    if (is_first)
        error->cuda_code = code;
    return weir__status_of(code);
}

static weir_pool *pool_allocate(struct weir__device *device, const struct policy_pool *entry, bool is_private)
{
    weir_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->w = device->w;
    pool->device = device;
    pool->name = strdup(entry->name);
    pool->peers = calloc(device->w->device_count, sizeof *pool->peers);
    if (!pool->name || !pool->peers) {
        free(pool->name);
        free(pool->peers);
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pool->is_private = is_private;
    pool->is_default = entry->backing == POLICY_BACKING_DEFAULT;
    pool->is_host = entry->location.kind != POLICY_LOCATION_DEVICE;
    pool->is_exportable = entry->ipc == POLICY_IPC_POSIX_FD;
    pool->small_below = pool->is_exportable ? 0 : entry->small_below;
    pool->max_size = policy_size_bytes(entry->max_size, device->info.memory);
    atomic_init(&pool->references, 1);
    return pool;
}

weir_status weir__pool_new(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry, bool is_private,
                           weir_error *error, weir_pool **pool)
{
    weir_pool *made = pool_allocate(device, entry, is_private);
    if (!made)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for pool '%s'", entry->name);
    enum gpu_capture_mode mode = weir__relaxed_begin(device->w->gpu);
    weir_status status = check_features(made, policy, entry, error);
    if (status == WEIR_OK)
        status = check_sizes(made, policy, entry, error);
    if (status == WEIR_OK)
        status = weir__pool_check(made, policy, entry, error);
    if (status == WEIR_OK)
        status = create_handles(made, policy, entry, error);
    if (status == WEIR_OK)
        status = weir__pool_apply(made, policy, entry, error);
    if (status == WEIR_OK)
        status = grow(made, policy, entry, error);
    weir__relaxed_end(device->w->gpu, mode);
    if (status != WEIR_OK) {
        made->is_silent = true;
        weir__pool_free(made);
        return status;
    }
    weir__device_add_pool(device, made);
    *pool = made;
    return WEIR_OK;
}

/* Settings --------------------------------------------------------------------------------------------------------------------------- */

static bool shares_threshold(uint64_t threshold)
{
    return threshold != 0 && threshold != UINT64_MAX;
}

/* Writes one attribute of the pool or its twin, and remembers what of a default pool is ours to put back. */
static int set_attribute(weir_pool *pool, gpu_pool handle, enum gpu_pool_attribute attribute, uint64_t value)
{
    int code = pool->w->gpu->pool_set(handle, attribute, value);
    for (size_t i = 0; i < WEIR__SAVED_COUNT && code == GPU_SUCCESS && handle == pool->handle; i++)
        if (saved_attributes[i] == attribute)
            pool->written[i] = value;
    return code;
}

/* Both handles' thresholds, or neither. The part that falls goes first, so that the sum is never above both the old and the new one. */
static int write_both(weir_pool *pool, uint64_t rest, uint64_t share)
{
    const struct gpu *gpu = pool->w->gpu;
    if (!pool->small)
        return set_attribute(pool, pool->handle, GPU_POOL_RELEASE_THRESHOLD, rest);
    bool small_first = share < atomic_load(&pool->small_share);
    gpu_pool first = small_first ? pool->small : pool->handle, second = small_first ? pool->handle : pool->small;
    uint64_t before = 0;
    int code = gpu->pool_get(first, GPU_POOL_RELEASE_THRESHOLD, &before);
    if (code == GPU_SUCCESS)
        code = set_attribute(pool, first, GPU_POOL_RELEASE_THRESHOLD, small_first ? share : rest);
    if (code != GPU_SUCCESS)
        return code;
    code = set_attribute(pool, second, GPU_POOL_RELEASE_THRESHOLD, small_first ? rest : share);
    if (code != GPU_SUCCESS)
        set_attribute(pool, first, GPU_POOL_RELEASE_THRESHOLD, before);
    return code;
}

/*
 * Writes the threshold to CUDA: what the twin holds now is its share, and the pool has the rest, so that the two together keep at most
 * `threshold` over a synchronise. Called with pool->lock held.
 */
static int write_threshold(weir_pool *pool, uint64_t threshold)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t share = threshold, rest = threshold;
    if (pool->small && shares_threshold(threshold)) {
        uint64_t reserved = 0;
        if (gpu->pool_get(pool->small, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS)
            reserved = threshold / 8; /* a driver without figures: a fixed share */
        share = reserved < threshold ? reserved : threshold;
        rest = threshold - share;
    }
    int code = write_both(pool, rest, share);
    if (code == GPU_SUCCESS) {
        atomic_store(&pool->small_share, pool->small && share < threshold ? share : UINT64_MAX);
        atomic_store(&pool->release_threshold, threshold);
    } else {
        gpu->forget_error(code);
    }
    return code;
}

void weir__pool_rebalance(weir_pool *pool)
{
    uint64_t reserved = 0;
    if (pool->w->gpu->pool_get(pool->small, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS || reserved <= atomic_load(&pool->small_share))
        return;
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    write_threshold(pool, atomic_load(&pool->release_threshold));
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(pool->w->gpu, mode);
}

weir_status weir_pool_set_release_threshold(weir_pool *pool, uint64_t bytes, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool)
        return weir__fail(error, WEIR_INVALID, "weir_pool_set_release_threshold: pool must not be NULL");
    if (pool->is_exportable)
        return weir__fail(error, WEIR_NOT_SUPPORTED,
                          "pool '%s' is exportable: memory of blocks that were exported never goes back while the pool lives, so no "
                          "threshold can be kept",
                          pool->name);
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    int code = write_threshold(pool, bytes);
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(pool->w->gpu, mode);
    return code == GPU_SUCCESS ? WEIR_OK : weir__fail_gpu(error, pool->w->gpu, code, "release threshold of pool '%s'", pool->name);
}

/* Grants or withdraws one peer's access to one handle and reads it back. */
static int set_access(const struct gpu *gpu, gpu_pool handle, int peer, enum gpu_access access)
{
    enum gpu_access seen;
    int code = gpu->pool_set_access(handle, peer, access);
    if (code == GPU_SUCCESS) {
        code = gpu->pool_get_access(handle, peer, &seen);
        if (code == GPU_SUCCESS && seen != access)
            code = GPU_NOT_SUPPORTED;
        if (code != GPU_SUCCESS)
            gpu->pool_set_access(handle, peer, access == GPU_ACCESS_NONE ? GPU_ACCESS_READ_WRITE : GPU_ACCESS_NONE);
    }
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code;
}

/* Pool and twin alike. Called with pool->lock held, or by whoever alone knows the pool. */
static int set_peer(weir_pool *pool, int peer, bool grant)
{
    if (pool->peers[peer] == grant)
        return GPU_SUCCESS;
    enum gpu_access access = grant ? GPU_ACCESS_READ_WRITE : GPU_ACCESS_NONE;
    int code = set_access(pool->w->gpu, pool->handle, peer, access);
    if (code == GPU_SUCCESS && pool->small) {
        code = set_access(pool->w->gpu, pool->small, peer, access);
        if (code != GPU_SUCCESS)
            set_access(pool->w->gpu, pool->handle, peer, grant ? GPU_ACCESS_NONE : GPU_ACCESS_READ_WRITE);
    }
    if (code == GPU_SUCCESS)
        pool->peers[peer] = grant;
    return code;
}

static int can_reach(const weir_pool *pool, int peer, bool *can)
{
    *can = true; /* the host's memory */
    return pool->is_host ? GPU_SUCCESS : pool->w->gpu->can_access_peer(pool->device->index, peer, can);
}

/* Grants or withdraws what the entry says of this peer; `all` means those that can reach the pool. */
static int apply_peer(weir_pool *pool, const struct policy_pool *entry, const struct weir__device *peer)
{
    bool wanted = weir__device_is_in(peer, &entry->peer_access);
    int code = wanted && entry->peer_access.all ? can_reach(pool, peer->index, &wanted) : GPU_SUCCESS;
    return code == GPU_SUCCESS ? set_peer(pool, peer->index, wanted) : code;
}

static weir_status check_peers(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    struct policy_place place = policy_pool_place(policy, entry, "peer_access");
    for (size_t i = 0; i < entry->peer_access.count; i++) {
        const struct policy_device *item = &entry->peer_access.items[i];
        const struct policy_devices one = { .count = 1, .items = &entry->peer_access.items[i] };
        size_t found = 0;
        for (size_t d = 0; d < pool->w->device_count; d++)
            found += weir__device_is_in(&pool->w->devices[d], &one);
        if (!found && item->uuid)
            return weir__fail_at(error, WEIR_BAD_POLICY, place, "there is no device %s: `weir devices` lists them", item->uuid);
        if (!found)
            return weir__fail_at(error, WEIR_BAD_POLICY, place, "there is no device %d: this machine has %zu, counted from 0", item->index,
                                 pool->w->device_count);
    }
    for (size_t d = 0; d < pool->w->device_count; d++) {
        const struct weir__device *peer = &pool->w->devices[d];
        bool can;
        if (peer == pool->device || !weir__device_is_in(peer, &entry->peer_access))
            continue;
        int code = can_reach(pool, peer->index, &can);
        if (code != GPU_SUCCESS)
            return weir__fail_gpu(error, gpu, code, "%s: device %d", place.path, peer->index);
        if (!can && !entry->peer_access.all)
            return weir__fail_at(error, WEIR_BAD_POLICY, place,
                                 "device %d cannot reach the memory of device %d: leave it out, or write none (`weir devices` shows who "
                                 "can reach whom)",
                                 peer->index, pool->device->index);
    }
    return WEIR_OK;
}

weir_status weir__pool_check(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    pool->threshold_before = atomic_load(&pool->release_threshold);
    uint64_t max_size = policy_size_bytes(entry->max_size, pool->device->info.memory);
    char a[WEIR__BYTES_LEN], b[WEIR__BYTES_LEN], c[WEIR__BYTES_LEN];
    if (pool->native_max && (max_size == 0 || max_size > pool->native_max))
        return weir__fail_at(error, WEIR_BAD_POLICY, policy_pool_place(policy, entry, "max_size"),
                             "%s is above the %s that the driver enforces since this pool was opened: lower it, or close and open again",
                             max_size ? weir__bytes(a, max_size) : "none", weir__bytes(b, pool->native_max));
    if (pool->small_below && max_size && max_size < 2 * WEIR__GROWTH_STEP)
        return weir__fail_at(error, WEIR_BAD_POLICY, policy_pool_place(policy, entry, "max_size"),
                             "%s leaves no room for a pool and its small twin, which grow by %s each: write %s or more, or small_below: 0",
                             weir__bytes(a, max_size), weir__bytes(b, WEIR__GROWTH_STEP), weir__bytes(c, 2 * WEIR__GROWTH_STEP));
    return check_peers(pool, policy, entry, error);
}

static unsigned steps_mask(const struct policy_steps *steps)
{
    static const weir_rung rungs[] = {
        [POLICY_STEP_FLUSH] = WEIR_RUNG_FLUSH,
        [POLICY_STEP_WAIT] = WEIR_RUNG_WAIT,
        [POLICY_STEP_TRIM] = WEIR_RUNG_TRIM,
        [POLICY_STEP_CALLBACKS] = WEIR_RUNG_CALLBACKS,
    };
    unsigned mask = 0;
    for (size_t i = 0; i < steps->count; i++)
        mask |= 1U << rungs[steps->items[i]];
    return mask;
}

/* The reuse attributes of both handles and, but for exportable pools, the threshold. Called with pool->lock held. */
static int apply_attributes(weir_pool *pool, const struct policy_pool *entry)
{
    const struct gpu *gpu = pool->w->gpu;
    const struct {
        enum gpu_pool_attribute attribute;
        bool value;
    } reuse[] = {
        { GPU_POOL_REUSE_EVENT_DEPENDENCIES, entry->reuse_event_dependencies },
        { GPU_POOL_REUSE_OPPORTUNISTIC, entry->reuse_opportunistic },
        { GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, entry->reuse_internal_dependencies },
    };
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < sizeof reuse / sizeof reuse[0] && code == GPU_SUCCESS; i++) {
        code = set_attribute(pool, pool->handle, reuse[i].attribute, reuse[i].value);
        if (code == GPU_SUCCESS && pool->small)
            code = set_attribute(pool, pool->small, reuse[i].attribute, reuse[i].value);
    }
    if (code == GPU_SUCCESS && !pool->is_exportable)
        code = write_threshold(pool, policy_size_bytes(entry->release_threshold, pool->device->info.memory));
    else if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code;
}

weir_status weir__pool_apply(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&pool->lock);
    int code = apply_attributes(pool, entry);
    if (code != GPU_SUCCESS)
        status = weir__fail_gpu(error, gpu, code, "settings of pool '%s' on device %d", pool->name, pool->device->index);
    for (size_t d = 0; d < pool->w->device_count && status == WEIR_OK; d++) {
        const struct weir__device *peer = &pool->w->devices[d];
        if (peer == pool->device)
            continue;
        code = apply_peer(pool, entry, peer);
        if (code != GPU_SUCCESS)
            status = weir__fail_gpu(error, gpu, code, "%s: access of device %d to pool '%s' of device %d",
                                    policy_pool_place(policy, entry, "peer_access").path, peer->index, pool->name, pool->device->index);
    }
    if (status == WEIR_OK) {
        atomic_store(&pool->max_size, policy_size_bytes(entry->max_size, pool->device->info.memory));
        atomic_store(&pool->deadline, entry->on_oom_deadline);
        atomic_store(&pool->steps, steps_mask(&entry->on_oom_steps));
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

weir_status weir__pool_undo(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    weir__pool_apply(pool, policy, entry, error);
    pthread_mutex_lock(&pool->lock);
    if (!pool->is_exportable)
        write_threshold(pool, pool->threshold_before);
    pthread_mutex_unlock(&pool->lock);
    return WEIR_OK;
}

/* Current pool ----------------------------------------------------------------------------------------------------------------------- */

weir_status weir__pool_make_current(weir_pool *pool, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    pthread_mutex_lock(&currents_lock);
    int code = gpu->pool_get_current(pool->device->index, &pool->former);
    if (code == GPU_SUCCESS)
        code = gpu->pool_set_current(pool->device->index, pool->handle);
    if (code == GPU_SUCCESS) {
        pool->is_current = true;
        pool->next_current = currents;
        currents = pool;
    }
    pthread_mutex_unlock(&currents_lock);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    gpu->forget_error(code);
    return weir__fail_gpu(error, gpu, code, "pool '%s' cannot be made the current pool of device %d", pool->name, pool->device->index);
}

static void unmake_current(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool current;
    pthread_mutex_lock(&currents_lock);
    if (pool->is_current) {
        if (gpu->pool_get_current(pool->device->index, &current) == GPU_SUCCESS && current == pool->handle)
            gpu->pool_set_current(pool->device->index, pool->former);
        weir_pool **link = &currents;
        while (*link != pool) {
            if ((*link)->former == pool->handle)
                (*link)->former = pool->former;
            link = &(*link)->next_current;
        }
        *link = pool->next_current;
        pool->is_current = false;
    }
    pthread_mutex_unlock(&currents_lock);
}

/* Destroying ------------------------------------------------------------------------------------------------------------------------- */

static void destroy_handles(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    gpu_pool handles[] = { pool->small, pool->is_default ? NULL : pool->handle };
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        int code = handles[i] ? gpu->pool_destroy(handles[i]) : GPU_SUCCESS;
        if (code != GPU_SUCCESS)
            gpu->forget_error(code);
        if (code != GPU_SUCCESS && !pool->is_silent)
            weir__log(pool->w, WEIR_LOG_ERROR, "pool '%s' on device %d cannot be destroyed: %s", pool->name, pool->device->index,
                      gpu->code_name(code));
    }
}

/* Of a default pool: what the program has changed since is its own. */
static void restore_attributes(const weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    for (size_t i = 0; i < WEIR__SAVED_COUNT; i++) {
        uint64_t now;
        int code = gpu->pool_get(pool->handle, saved_attributes[i], &now);
        if (code == GPU_SUCCESS && now == pool->written[i])
            code = gpu->pool_set(pool->handle, saved_attributes[i], pool->saved[i]);
        if (code == GPU_SUCCESS)
            continue;
        gpu->forget_error(code);
        weir__log(pool->w, WEIR_LOG_WARNING, "a setting of the default pool of device %d could not be put back: %s", pool->device->index,
                  gpu->code_name(code));
    }
}

void weir__pool_free(weir_pool *pool)
{
    const struct gpu *gpu = pool->w->gpu;
    weir__device_remove_pool(pool->device, pool);
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    unmake_current(pool);
    struct weir__counts counts = weir__blocks_count(&pool->w->blocks, pool);
    uint64_t blocks = counts.mallocs - counts.frees;
    if (blocks) {
        char text[WEIR__BYTES_LEN];
        weir__log(pool->w, WEIR_LOG_WARNING, "pool '%s' on device %d is closed with %llu live blocks (%s): free them with cudaFreeAsync",
                  pool->name, pool->device->index, (unsigned long long)blocks, weir__bytes(text, atomic_load(&pool->live)));
    }
    /* A peer may still read blocks that live on. */
    for (size_t d = 0; d < pool->w->device_count && !blocks; d++)
        if (pool->peers[d] && set_peer(pool, (int)d, false) != GPU_SUCCESS && !pool->is_silent)
            weir__log(pool->w, WEIR_LOG_WARNING, "access of device %zu to pool '%s' could not be withdrawn", d, pool->name);
    if (pool->is_default && pool->handle)
        restore_attributes(pool);
    destroy_handles(pool);
    weir__relaxed_end(gpu, mode);
    pthread_mutex_destroy(&pool->lock);
    free(pool->peers);
    free(pool->name);
    free(pool);
}

static bool is_counted(const weir_pool *pool)
{
    return pool->is_private && !atomic_load_explicit(&pool->is_retired, memory_order_acquire);
}

void weir__pool_hold(weir_pool *pool)
{
    if (is_counted(pool))
        atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
}

bool weir__pool_try_hold(weir_pool *pool)
{
    if (!is_counted(pool))
        return true;
    size_t references = atomic_load(&pool->references);
    while (references && !atomic_compare_exchange_weak(&pool->references, &references, references + 1))
        continue;
    return references != 0;
}

static bool has_peers(const weir_pool *pool)
{
    for (size_t d = 0; d < pool->w->device_count; d++)
        if (pool->peers[d])
            return true;
    return false;
}

void weir__pool_release(weir_pool *pool)
{
    if (!is_counted(pool) || atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1)
        return;
    /* Withdrawing a peer's access while its kernel still reads would kill the process, and the last free may be waiting behind such a
       kernel: a pool with peers stays until weir_close(). */
    if (has_peers(pool))
        atomic_store_explicit(&pool->is_retired, true, memory_order_release);
    else
        weir__pool_free(pool);
}

/* Trimming and looking ---------------------------------------------------------------------------------------------------------------- */

int weir__pool_read(const weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t *value)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t main = 0, small = 0;
    int code = gpu->pool_get(pool->handle, attribute, &main);
    if (code == GPU_SUCCESS && pool->small)
        code = gpu->pool_get(pool->small, attribute, &small);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    if (code == GPU_SUCCESS || code == GPU_NOT_SUPPORTED)
        *value = main + small;
    return code == GPU_NOT_SUPPORTED ? GPU_SUCCESS : code;
}

uint64_t weir__pool_figure(const weir_pool *pool, enum gpu_pool_attribute attribute)
{
    uint64_t value = 0;
    weir__pool_read(pool, attribute, &value);
    return value;
}

int weir__pool_trim(weir_pool *pool, uint64_t keep, uint64_t *released)
{
    const struct gpu *gpu = pool->w->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(&pool->lock);
    uint64_t before = weir__pool_figure(pool, GPU_POOL_RESERVED);
    uint64_t small = 0;
    int code = GPU_SUCCESS;
    if (pool->small) {
        /* The pool gives first; the twin, which serves the most requests, only what is still above `keep`. */
        gpu->pool_get(pool->small, GPU_POOL_RESERVED, &small);
        code = gpu->pool_trim(pool->handle, keep > small ? keep - small : 0);
        uint64_t main = 0;
        gpu->pool_get(pool->handle, GPU_POOL_RESERVED, &main);
        if (code == GPU_SUCCESS)
            code = gpu->pool_trim(pool->small, keep > main ? keep - main : 0);
        if (code == GPU_SUCCESS)
            code = write_threshold(pool, atomic_load(&pool->release_threshold));
    } else {
        code = gpu->pool_trim(pool->handle, keep);
    }
    uint64_t after = weir__pool_figure(pool, GPU_POOL_RESERVED);
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(gpu, mode);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    else
        *released = before > after ? before - after : 0;
    return code;
}

weir_status weir_pool_trim(weir_pool *pool, uint64_t keep, weir_error *error, uint64_t *released)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool)
        return weir__fail(error, WEIR_INVALID, "weir_pool_trim: pool must not be NULL");
    uint64_t gone = 0;
    int code = weir__pool_trim(pool, keep, &gone);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, pool->w->gpu, code, "trim of pool '%s' on device %d", pool->name, pool->device->index);
    if (released)
        *released = gone;
    return WEIR_OK;
}

weir_status weir_pool_get(weir *w, const char *name, int device, weir_error *error, weir_pool **pool)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !pool)
        return weir__fail(error, WEIR_INVALID, "weir_pool_get: w and pool must not be NULL");
    if (device < 0 || (size_t)device >= w->device_count)
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0", device, w->device_count);
    weir_pool *found = name ? weir__device_find_pool(&w->devices[device], name) : w->devices[device].default_pool;
    if (!found)
        return weir__fail(error, WEIR_NOT_FOUND, "the policy has no %s%s%s on device %d: see `weir show` for its pools",
                          name ? "pool '" : "default pool", name ? name : "", name ? "'" : "", device);
    *pool = found;
    return WEIR_OK;
}

weir_cuda_pool weir_pool_handle(const weir_pool *pool)
{
    return pool ? pool->handle : NULL;
}

weir_cuda_pool weir_pool_small_handle(const weir_pool *pool)
{
    return pool ? pool->small : NULL;
}

const char *weir_pool_name(const weir_pool *pool)
{
    return pool ? pool->name : NULL;
}

int weir_pool_device(const weir_pool *pool)
{
    return pool ? pool->device->index : -1;
}
