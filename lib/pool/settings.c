/* SPDX-License-Identifier: MIT */
#include "lib/pool/settings.h"

#include <limits.h>

#include "lib/base/call.h"
#include "lib/base/class.h"
#include "lib/base/format.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"

#define LIVE_STEP (UINT64_C(1) << 20) /* the least cache.live_step in bytes; the largest cached class if that is more */

/* Threshold ---------------------------------------------------------------------------------------------------------------------------- */

int weir__settings_write_threshold(weir_pool *pool, uint64_t threshold)
{
    return pool->backing->ops->set(pool->backing, GPU_POOL_RELEASE_THRESHOLD, threshold);
}

/* Raises device->cache_classes if the pool's caches may now keep blocks of a larger class. */
static void tell_device(weir_pool *pool)
{
    unsigned former = atomic_load(&pool->device->cache_classes);
    unsigned kept = weir__pool_keeps(pool, UINT_MAX) ? UINT_MAX : atomic_load(&pool->cache.classes);
    while (kept > former && !atomic_compare_exchange_weak(&pool->device->cache_classes, &former, kept))
        continue;
}

static void record_settings(const weir_pool *pool)
{
    weir__record_pool(WEIR__KIND_SETTINGS, pool, atomic_load(&pool->backing->threshold), atomic_load(&pool->settings.max_size));
}

weir_status weir_pool_set_release_threshold(weir_pool *pool, uint64_t bytes, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool)
        return weir__fail(error, WEIR_INVALID, "weir_pool_set_release_threshold: pool must not be NULL");
    if (pool->native.is_exportable)
        return weir__fail(error, WEIR_NOT_SUPPORTED, "pool '%s' is exportable: memory of blocks that were exported never goes back while "
                                                     "the pool lives, so no threshold can be kept", pool->name);
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    int code = weir__settings_write_threshold(pool, bytes);
    if (code == GPU_SUCCESS)
        atomic_store(&pool->settings.kept, WEIR__NOT_AUTO);
    tell_device(pool);
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(pool->w->gpu, mode);
    record_settings(pool);
    weir__pool_left(pool);
    return code == GPU_SUCCESS ? WEIR_OK : weir__fail_gpu(error, pool->w->gpu, code, "release threshold of pool '%s'", pool->name);
}

/* Peers -------------------------------------------------------------------------------------------------------------------------------- */

/* Grants or withdraws a peer's access, unless the peer has it or lacks it already. Returns CUDA's code. The caller holds pool->lock, or no
   other thread knows the pool. */
static int set_peer(weir_pool *pool, int peer, bool grant)
{
    if (pool->settings.peers[peer] == grant)
        return GPU_SUCCESS;
    int code = pool->backing->ops->set_peer(pool->backing, peer, grant);
    if (code == GPU_SUCCESS)
        pool->settings.peers[peer] = grant;
    return code;
}

void weir__settings_withdraw(weir_pool *pool, bool is_silent)
{
    for (size_t d = 0; d < pool->w->device_count; d++)
        if (pool->settings.peers[d] && set_peer(pool, (int)d, false) != GPU_SUCCESS && !is_silent)
            weir__log_about(pool->w, pool, WEIR_LOG_WARNING, "access of device %zu to pool '%s' could not be withdrawn", d, pool->name);
}

static int can_reach(const weir_pool *pool, int peer, bool *can)
{
    *can = true; /* every device reaches the host's memory */
    return pool->native.is_host ? GPU_SUCCESS : pool->w->gpu->can_access_peer(pool->device->index, peer, can);
}

/* Grants or withdraws this peer's access as the entry says; `all` means all devices that can reach the pool's memory. */
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
    weir_status status = weir__devices_check(pool->w, &entry->peer_access, place, error);
    if (status != WEIR_OK)
        return status;
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
                                 "device %d cannot reach the memory of device %d: leave it out, or write none (`weir doctor` shows who "
                                 "can reach whom)",
                                 peer->index, pool->device->index);
    }
    return WEIR_OK;
}

/* All of them -------------------------------------------------------------------------------------------------------------------------- */

/* Checks initial_size against the threshold, the cap and the device's memory. The parser of the policy cannot do that, since sizes may be
   shares of the device's memory. */
static weir_status check_initial(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, uint64_t max_size,
                                 weir_error *error)
{
    uint64_t memory = pool->device->info.memory;
    uint64_t initial = policy_size_bytes(entry->initial_size, pool->device->quota.bytes);
    uint64_t threshold = policy_size_bytes(entry->release_threshold, pool->device->quota.bytes);
    struct policy_place place = policy_pool_place(policy, entry, "initial_size");
    char a[WEIR__BYTES_LEN], b[WEIR__BYTES_LEN];
    if (initial > 0 && initial > threshold)
        return weir__fail_at(error, WEIR_BAD_POLICY, place,
                             "%s on device %d is above release_threshold (%s), so the first synchronise would give it back: raise the "
                             "threshold or lower initial_size",
                             weir__bytes(a, initial), pool->device->index, weir__bytes_kept(b, threshold));
    if (initial > 0 && max_size && initial > max_size)
        return weir__fail_at(error, WEIR_BAD_POLICY, place, "%s on device %d is above max_size (%s): raise the cap or lower initial_size",
                             weir__bytes(a, initial), pool->device->index, weir__bytes(b, max_size));
    if (initial > memory && !pool->native.is_host)
        return weir__fail_at(error, WEIR_BAD_POLICY, place, "%s is more than device %d has (%s): lower initial_size",
                             weir__bytes(a, initial), pool->device->index, weir__bytes(b, memory));
    return WEIR_OK;
}

/* Checks that the device has what is to stay free, and tells how much of it is free. */
static weir_status check_leave(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    uint64_t leave = policy_size_bytes(entry->leave_free, pool->device->quota.bytes), memory = pool->device->info.memory;
    struct policy_place place = policy_pool_place(policy, entry, "leave_free");
    char a[WEIR__BYTES_LEN], b[WEIR__BYTES_LEN];
    if (leave && pool->device->info.os_managed)
        return weir__fail_at(error, WEIR_BAD_POLICY, place,
                             "the system lends device %d its memory, so CUDA does not tell how much is free: remove this key, or set max_size",
                             pool->device->index);
    if (leave >= memory && leave)
        return weir__fail_at(error, WEIR_BAD_POLICY, place, "%s on device %d is all that it has (%s): write less", weir__bytes(a, leave),
                             pool->device->index, weir__bytes(b, memory));
    return WEIR_OK;
}

weir_status weir__settings_check(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    pool->settings.threshold_before = atomic_load(&pool->backing->threshold);
    pool->settings.kept_before = atomic_load(&pool->settings.kept);
    uint64_t max_size = weir__quota_cap(&pool->device->quota, entry);
    char a[WEIR__BYTES_LEN], b[WEIR__BYTES_LEN], c[WEIR__BYTES_LEN];
    const struct weir__quota *quota = &pool->device->quota;
    weir_status status = check_initial(pool, policy, entry, max_size, error);
    if (status == WEIR_OK)
        status = check_leave(pool, policy, entry, error);
    bool is_share = entry->max_size.kind != POLICY_SIZE_BYTES && quota->counts >= 0;
    if (status != WEIR_OK)
        return status;
    if (pool->native.max && (max_size == 0 || max_size > pool->native.max))
        return weir__fail_at(error, WEIR_BAD_POLICY, policy_pool_place(policy, entry, "max_size"),
                             "%s is above the %s that the driver enforces since this pool was opened: lower it, or close and open again",
                             max_size ? weir__bytes(a, max_size) : "none", weir__bytes(b, pool->native.max));
    if (max_size && max_size < policy_pool_least(entry))
        return weir__fail_at(error, WEIR_BAD_POLICY, policy_pool_place(policy, entry, "max_size"),
                             "%s of device %d leaves no room for a pool%s by %s%s: write %s or more%s%s%s", weir__bytes(a, max_size),
                             pool->device->index, pool->kind.small_below ? " and its small twin, which grow" : ", which grows",
                             weir__bytes(b, WEIR__GROWTH_STEP), pool->kind.small_below ? " each" : " at a time",
                             weir__bytes(c, policy_pool_least(entry)), pool->kind.small_below ? ", or small_below: 0" : "",
                             is_share ? ", or raise " : "", is_share ? quota->limits[quota->counts].variable : "");
    return check_peers(pool, policy, entry, error);
}

/* Puts the lower one of the two caps into force. The caller holds pool->lock. */
static void apply_cap(weir_pool *pool)
{
    uint64_t cap = pool->settings.policy_max;
    uint64_t max_size = pool->settings.limit && (!cap || pool->settings.limit < cap) ? pool->settings.limit : cap;
    atomic_store(&pool->settings.max_size, max_size);
    pool->backing->ops->set_cap(pool->backing, max_size);
}

void weir__pool_set_limit(weir_pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pool->lock);
    pool->settings.limit = bytes;
    apply_cap(pool);
    pthread_mutex_unlock(&pool->lock);
    record_settings(pool);
}

void weir__pool_with_entry(weir_pool *pool, void (*use)(const struct policy_pool *entry, void *data), void *data)
{
    pthread_mutex_lock(&pool->w->config);
    use(policy_find_pool(pool->w->policy, pool->name), data);
    pthread_mutex_unlock(&pool->w->config);
}

static void note_caches(weir_pool *pool)
{
    bool is_plain = !weir__records_cached(&pool->w->recorder) && !weir__pool_rounds(pool);
    atomic_store(&pool->cache.plain_classes, is_plain ? atomic_load(&pool->cache.classes) : 0);
}

void weir__settings_note_all(weir *w)
{
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            note_caches(pool);
}

static void apply_cache(weir_pool *pool, const struct policy_pool *entry)
{
    /* The largest class whose size is at most cache.largest. */
    unsigned classes = entry->cache && !pool->native.is_exportable && !weir__pool_is_shut(pool) ? weir__class_of(entry->cache_largest + 1) - 1 : 0;
    atomic_store(&pool->cache.per_stream, entry->cache_per_stream);
    atomic_store(&pool->cache.per_device, entry->cache_per_device);
    atomic_store(&pool->cache.idle, entry->cache_idle);
    atomic_store(&pool->cache.capture_check, entry->cache_capture_check);
    uint64_t largest = weir__class_bytes[classes];
    /* live_step stays 0 with exact_peaks: then no cached call takes the fast path (calls.c), and each call is counted by the pool. */
    if (!weir__pool_is_exact(pool))
        atomic_store(&pool->cache.live_step, largest > LIVE_STEP ? largest : LIVE_STEP);
    atomic_store(&pool->cache.classes, classes);
    note_caches(pool);
    tell_device(pool);
}

static void recache(const struct policy_pool *entry, void *data)
{
    weir_pool *pool = data;
    pthread_mutex_lock(&pool->lock);
    apply_cache(pool, entry);
    pthread_mutex_unlock(&pool->lock);
}

void weir__settings_recache(weir_pool *pool)
{
    weir__pool_with_entry(pool, recache, pool);
}

/* Returns `reuse.pending_max` in bytes. UINT64_MAX means that Weir makes no stream wait: the policy forbids such waits, or a CUDA pool may
   not follow event dependencies, and so would not lend the memory that the stream has waited for. */
static uint64_t pending_max_of(const weir_pool *pool, const struct policy_pool *entry)
{
    bool follows = entry->reuse_event_dependencies || pool->backing->ops->names_streams;
    if (!entry->reuse_internal_dependencies || !follows)
        return UINT64_MAX;
    return entry->reuse_pending_max.kind == POLICY_SIZE_AUTO ? WEIR__PENDING_AUTO
                                                            : policy_size_bytes(entry->reuse_pending_max, pool->device->quota.bytes);
}

static unsigned steps_mask(const struct policy_steps *steps)
{
    static const weir_rung rungs[] = {
        [POLICY_STEP_FLUSH] = WEIR_RUNG_FLUSH,
        [POLICY_STEP_WAIT] = WEIR_RUNG_WAIT,
        [POLICY_STEP_TRIM] = WEIR_RUNG_TRIM,
        [POLICY_STEP_CALLBACKS] = WEIR_RUNG_CALLBACKS,
        [POLICY_STEP_NEIGHBOURS] = WEIR_RUNG_NEIGHBOURS,
    };
    unsigned mask = 0;
    for (size_t i = 0; i < steps->count; i++)
        mask |= 1U << rungs[steps->items[i]];
    return mask;
}

/* Sets the pool's reuse attributes and, unless the pool is exportable, its threshold. Returns CUDA's code. The caller holds pool->lock. */
static int apply_attributes(weir_pool *pool, const struct policy_pool *entry)
{
    const struct {
        enum gpu_pool_attribute attribute;
        bool value;
    } reuse[] = {
        { GPU_POOL_REUSE_EVENT_DEPENDENCIES, entry->reuse_event_dependencies },
        { GPU_POOL_REUSE_OPPORTUNISTIC, entry->reuse_opportunistic },
        { GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, entry->reuse_internal_dependencies },
    };
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < sizeof reuse / sizeof reuse[0] && code == GPU_SUCCESS; i++)
        code = pool->backing->ops->set(pool->backing, reuse[i].attribute, reuse[i].value);
    if (code == GPU_SUCCESS && !pool->native.is_exportable)
        code = weir__settings_write_threshold(
            pool, pool->use.is_parked ? 0 : policy_size_bytes(entry->release_threshold, pool->device->quota.bytes));
    return code;
}

/* Sets `kept` for `release_threshold: auto`: the driver keeps all memory, and the keeper (keeper.h) gives back what is above `kept`. The
   caller holds pool->lock. */
static void apply_auto(weir_pool *pool, const struct policy_pool *entry)
{
    atomic_store(&pool->settings.initial, policy_size_bytes(entry->initial_size, pool->device->quota.bytes));
    if (entry->release_threshold.kind != POLICY_SIZE_AUTO)
        atomic_store(&pool->settings.kept, WEIR__NOT_AUTO);
    else if (!weir__pool_is_auto(pool))
        atomic_store(&pool->settings.kept, UINT64_MAX);
}

/* Returns the flags of a sleep whose call gives none. */
static unsigned sleep_flags(const struct policy_pool *entry)
{
    return (entry->sleep_contents == POLICY_CONTENTS_DISCARD ? WEIR_SLEEP_DISCARD : 0) | (entry->sleep_retain ? WEIR_SLEEP_RETAIN : 0) |
           (entry->sleep_on_wake == POLICY_ON_WAKE_ZERO ? WEIR_SLEEP_ZERO : 0);
}

weir_status weir__settings_apply(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
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
        pool->settings.policy_max = weir__quota_cap(&pool->device->quota, entry);
        apply_cap(pool);
        atomic_store(&pool->backing->leave_free, policy_size_bytes(entry->leave_free, pool->device->quota.bytes));
        atomic_store(&pool->settings.keep, policy_size_bytes(entry->keep, pool->device->quota.bytes));
        apply_auto(pool, entry);
        atomic_store(&pool->settings.deadline, entry->on_oom_deadline);
        atomic_store(&pool->backing->pending_max, pending_max_of(pool, entry));
        atomic_store(&pool->settings.scrub, entry->share_scrub);
        atomic_store(&pool->settings.sleep, sleep_flags(entry));
        atomic_store(&pool->settings.steps, steps_mask(&entry->on_oom_steps));
        apply_cache(pool, entry);
    }
    pthread_mutex_unlock(&pool->lock);
    record_settings(pool);
    return status;
}

weir_status weir__settings_undo(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    weir__settings_apply(pool, policy, entry, error);
    pthread_mutex_lock(&pool->lock);
    if (!pool->native.is_exportable)
        weir__settings_write_threshold(pool, pool->settings.threshold_before);
    atomic_store(&pool->settings.kept, pool->settings.kept_before);
    tell_device(pool);
    pthread_mutex_unlock(&pool->lock);
    return WEIR_OK;
}
