/* SPDX-License-Identifier: MIT */
#include "lib/pool/pool.h"

#include <stdlib.h>
#include <string.h>

#include "lib/backing/arena.h"
#include "lib/base/format.h"
#include "lib/pool/former.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"
#include "lib/pool/settings.h"
#include "lib/pool/weir_internal.h"

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
    if (status == WEIR_OK && entry->backing == POLICY_BACKING_ARENA)
        status = require(pool, policy_pool_place(policy, entry, "backing"), GPU_FEATURE_MAPPING, error);
    return status;
}

/* Returns true if the entry says `backing: arena`, or says `auto` and uses no feature that only a CUDA pool has. */
static bool wants_arena(const struct policy_pool *entry)
{
    return entry->backing == POLICY_BACKING_ARENA ||
           (entry->backing == POLICY_BACKING_AUTO && entry->ipc == POLICY_IPC_NONE && entry->location.kind == POLICY_LOCATION_DEVICE &&
            !entry->current);
}

static weir_status refuse_arena(const weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, int code,
                                weir_error *error)
{
    char most[WEIR__BYTES_LEN], least[WEIR__BYTES_LEN];
    uint64_t memory = pool->device->info.memory;
    if (code == WEIR__PAGE_NO_ADDRESSES)
        return weir__fail_at(error, WEIR_NO_HOST_MEMORY, policy_pool_place(policy, entry, "backing"),
                             "there are no addresses for the arena of pool '%s' on device %d: %s were asked for, and less down to %s: "
                             "allow the process more (ulimit -v), open fewer arenas, or write backing: auto",
                             pool->name, pool->device->index, weir__bytes(most, memory * WEIR__ARENA_RANGE_SHARE),
                             weir__bytes(least, memory));
    if (code == WEIR__PAGE_NO_HOST_MEMORY)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the arena of pool '%s'", pool->name);
    return weir__fail_gpu(error, pool->w->gpu, code, "%s: the arena of pool '%s' on device %d cannot be created",
                          policy_pool_place(policy, entry, "").path, pool->name, pool->device->index);
}

/* Makes an arena the pool's backing if the entry wants one. If no arena can be made, a pool with `backing: auto` stays a CUDA pool, and the
   reason is kept in why_no_arena; with `backing: arena` the function fails. */
static weir_status create_arena(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    bool is_auto = entry->backing == POLICY_BACKING_AUTO;
    if (!wants_arena(entry))
        return WEIR_OK;
    int code = is_auto && !pool->w->gpu->supports(pool->device->index, GPU_FEATURE_MAPPING, NULL, 0)
                   ? GPU_NOT_SUPPORTED
                   : weir__arena_create(pool->device->info.memory, pool->device, &pool->native.backing, &pool->backing);
    if (!weir__pool_is_private(pool))
        pool->w->has_arenas = true;
    if (code == GPU_SUCCESS) {
        pool->kind.small_below = 0; /* an arena keeps small requests apart by itself */
    } else if (!is_auto || (code > 0 && code != GPU_NOT_SUPPORTED)) {
        return refuse_arena(pool, policy, entry, code, error);
    } else {
        atomic_init(&pool->why_no_arena, code == GPU_NOT_SUPPORTED         ? "the device has no virtual memory management"
                                         : code == WEIR__PAGE_NO_ADDRESSES ? "the process has no addresses for an arena (ulimit -v)"
                                                                           : "there is no host memory for an arena");
    }
    return WEIR_OK;
}

void weir__pool_say_backing(weir_pool *pool)
{
    const char *why = atomic_exchange(&pool->why_no_arena, NULL);
    if (why)
        weir__log_about(pool->w, pool, WEIR_LOG_WARNING, "pool '%s' on device %d has backing: auto, and is a pool of CUDA's: %s",
                        pool->name, pool->device->index, why);
}

/* Returns the cap that the driver is to enforce for a new pool; 0: none. A pool with a twin has none, since its cap holds for both pools
   together, which only Weir can enforce. */
static uint64_t native_cap(const weir_pool *pool)
{
    if (pool->kind.small_below || !pool->w->gpu->supports(pool->device->index, GPU_FEATURE_POOL_MAX_SIZE, NULL, 0))
        return 0;
    /* A private pool gets the same cap as the pool of its entry: a reload may have lowered max_size since, and may raise it to that again.
       */
    return weir__pool_is_private(pool) ? weir__device_find_pool(pool->device, pool->name)->native.max : pool->settings.max_size;
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
        .posix_fd = pool->native.is_exportable,
    };
    int code = GPU_SUCCESS;
    if (weir__pool_is_default(pool)) {
        code = gpu->pool_get_default(spec.device, &pool->native.handle);
        if (code == GPU_SUCCESS)
            code = weir__former_save(pool);
        pool->native.cap.has_strangers = true;
        if (code != GPU_SUCCESS)
            pool->native.handle = NULL; /* nothing was changed, so weir__pool_free() must restore nothing */
    } else {
        spec.max_size = pool->native.max = pool->backing->ops->is_arena ? 0 : native_cap(pool);
        code = gpu->pool_create(&spec, &pool->native.handle);
    }
    if (code == GPU_SUCCESS && pool->kind.small_below)
        code = gpu->pool_create(&spec, &pool->native.small);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, gpu, code, "%s: pool '%s' on device %d cannot be created",
                          policy_pool_place(policy, entry, "").path, pool->name, spec.device);
}

/* Grows the pool to initial_size. */
static weir_status grow(weir_pool *pool, const struct policy *policy, const struct policy_pool *entry, weir_error *error)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t bytes = policy_size_bytes(entry->initial_size, pool->device->quota.bytes);
    if (bytes == 0)
        return WEIR_OK;
    int code = pool->backing->ops->extend(pool->backing, bytes);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    struct policy_place place = policy_pool_place(policy, entry, "initial_size");
    char text[WEIR__BYTES_LEN];
    bool is_first = error && error->status == WEIR_OK;
    weir__fail_at(error, weir__status_of(code), place, "pool '%s' cannot be grown to %s on device %d%s: %s: %s", pool->name,
                  weir__bytes(text, bytes), pool->device->index, atomic_load(&pool->backing->leave_free) ? " beside its leave_free" : "",
                  gpu->code_name(code), gpu->code_text(code));
    if (is_first)
        error->cuda_code = code;
    return weir__status_of(code);
}

static weir_pool *pool_allocate(struct weir__device *device, const struct policy_pool *entry, bool is_private)
{
    weir_pool *pool = aligned_alloc(_Alignof(weir_pool), sizeof *pool);
    if (!pool)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->w = device->w;
    pool->device = device;
    pool->name = strdup(entry->name);
    pool->settings.peers = calloc(device->w->device_count, sizeof *pool->settings.peers);
    pool->backing = &pool->native.backing;
    if (!pool->name || !pool->settings.peers) {
        free(pool->name);
        free(pool->settings.peers);
        free(pool);
        return NULL;
    }
    weir__cuda_init(&pool->native, device->fences, device, &pool->lock);
    pool->native.backing.align = entry->align;
    pool->kind.is_rounded = entry->align > WEIR__ALIGN_LEAST;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutexattr_t refuses_its_owner;
    pthread_mutexattr_init(&refuses_its_owner);
    pthread_mutexattr_settype(&refuses_its_owner, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&pool->nap.lock, &refuses_its_owner);
    pthread_mutexattr_destroy(&refuses_its_owner);
    pool->kind.of = is_private ? WEIR__POOL_OF_STREAM : entry->backing == POLICY_BACKING_DEFAULT ? WEIR__POOL_OF_DRIVER : WEIR__POOL_OF_ENTRY;
    atomic_init(&pool->cache.live_step, !device->w->policy->exact_peaks); /* the settings have the bytes */
    pool->native.is_host = entry->location.kind != POLICY_LOCATION_DEVICE;
    pool->native.is_exportable = entry->ipc == POLICY_IPC_POSIX_FD;
    pool->kind.small_below = pool->native.is_exportable ? 0 : entry->small_below;
    pool->kind.max_block = pool->native.is_exportable ? entry->ipc_max_block : UINT64_MAX;
    pool->settings.max_size = weir__quota_cap(&device->quota, entry);
    atomic_init(&pool->use.references, 1);
    atomic_init(&pool->settings.kept, WEIR__NOT_AUTO);
    return pool;
}

static void name_for_recorder(weir_pool *pool)
{
    unsigned flags = (pool->backing->ops->is_arena ? WEIR__POOL_IS_ARENA : 0) | (pool->native.is_host ? WEIR__POOL_IS_HOST : 0) |
                     (weir__pool_is_private(pool) ? WEIR__POOL_IS_PRIVATE : 0);
    pool->record = weir__recorder_add_pool(&pool->w->recorder, pool->name, pool->device->index, flags);
    pool->backing->ops->record(pool->backing, &pool->w->recorder, pool->record);
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
        status = create_arena(made, policy, entry, error);
    if (status == WEIR_OK)
        status = weir__settings_check(made, policy, entry, error);
    if (status == WEIR_OK)
        name_for_recorder(made);
    if (status == WEIR_OK)
        status = create_handles(made, policy, entry, error);
    if (status == WEIR_OK)
        status = weir__settings_apply(made, policy, entry, error);
    if (status == WEIR_OK)
        status = grow(made, policy, entry, error);
    if (status == WEIR_OK)
        weir__record_begin(made);
    weir__relaxed_end(device->w->gpu, mode);
    if (status != WEIR_OK) {
        weir__pool_free(made, WEIR__POOL_UNMADE);
        return status;
    }
    weir__device_add_pool(device, made);
    *pool = made;
    return WEIR_OK;
}

/* Destroying ------------------------------------------------------------------------------------------------------------------------- */

/* Logs that the driver failed to take back `bytes` bytes; 0: the addresses of an arena that is closed. */
static void say_left(weir_pool *pool, uint64_t bytes)
{
    weir__log_about(pool->w, pool, WEIR_LOG_ERROR,
                    "pool '%s' on device %d: the driver failed to take back %s, which count as idle until it does: Weir tries again at each "
                    "trim, weir_open() and weir_close()",
                    pool->name, pool->device->index, bytes ? WEIR__BYTES(bytes) : "its addresses");
}

static int destroy_handles(weir_pool *pool)
{
    /* Blocks that are still live, and blocks that other code took from the device's current pool, are freed without being counted: only
       CUDA's figures tell when they are gone. */
    bool asks_figures = !pool->native.is_exportable || pool->current.former || atomic_load(&pool->figures.taken);
    return weir__cuda_destroy(&pool->native, weir__debts_are_settled(&pool->native.backing.debts), asks_figures);
}

/* Tries to destroy the handles of a retired pool, and frees the pool if they are destroyed. Returns whether they are. The weir of the pool
   may be closed, so pool->w is not used. */
static bool end_retired(struct weir__debts *debts)
{
    weir_pool *pool = WEIR__ITEM(debts, weir_pool, native.backing.debts);
    destroy_handles(pool);
    if (!weir__cuda_is_gone(&pool->native))
        return false;
    weir__debts_end(debts);
    free(pool);
    return true;
}

/* Frees the pool if its handles are destroyed. If not, retires it: end_retired() frees it later. A pool whose debts can never be settled is
   freed at once, since its handles can never be destroyed. */
static void free_or_retire(weir_pool *pool)
{
    if (!weir__cuda_is_gone(&pool->native) && !atomic_load(&pool->native.backing.debts.is_unknown)) {
        weir__debts_retire(&pool->native.backing.debts, end_retired);
        return;
    }
    weir__debts_end(&pool->native.backing.debts);
    free(pool);
}

void weir__pool_free(weir_pool *pool, enum weir__pool_end end)
{
    const struct gpu *gpu = pool->w->gpu;
    weir__device_remove_pool(pool->device, pool);
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir__current_pool_restore(pool);
    /* If blocks are still live, peers keep their access, since they may still read these blocks. */
    if (end != WEIR__POOL_LIVE)
        weir__settings_withdraw(pool, end == WEIR__POOL_UNMADE);
    if (weir__pool_is_default(pool) && pool->native.handle)
        weir__former_restore(pool);
    if (weir__pool_is_default(pool))
        pool->native.handle = NULL; /* the driver owns the handle of its default pool */
    if (pool->nap.unclaimed) /* an inherited claim goes on */
        pool->w->claims(pool->device, 0, 0, NULL, &pool->nap.unclaimed);
    struct weir__closing closing = {.pending = 0};
    pool->backing->ops->close(pool->backing, &closing);
    if (!pool->native.is_exportable)
        weir__debts_end(&pool->native.backing.debts); /* CUDA's figures tell when all is freed; some frees may never get a mark */
    int code = destroy_handles(pool);
    if (closing.is_left)
        say_left(pool, closing.left);
    if (closing.pending && end == WEIR__POOL_EMPTY)
        weir__log_about(pool->w, pool, WEIR_LOG_WARNING,
                        "pool '%s' on device %d is closed, and what was freed in it was never seen complete: its memory stays mapped; end "
                        "captures before weir_close()",
                        pool->name, pool->device->index);
    if (code != GPU_SUCCESS && end != WEIR__POOL_UNMADE)
        weir__log_about(pool->w, pool, WEIR_LOG_ERROR, "pool '%s' on device %d cannot be destroyed: %s", pool->name, pool->device->index,
                        gpu->code_name(code));
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->nap.lock);
    for (struct weir__sleep_hook *hook = pool->nap.hooks, *next; hook; hook = next) {
        next = hook->next;
        free(hook);
    }
    pthread_rwlock_destroy(&pool->native.exchange);
    weir__cap_destroy(&pool->native.cap);
    free(pool->settings.peers);
    free(pool->name);
    free_or_retire(pool);
    weir__relaxed_end(gpu, mode);
}

/* Parks a private pool that has no users any more: sets its threshold to 0, so that its idle memory goes back at the program's next
   synchronise. Does nothing if the pool is parked already: then the last user only looked at the pool, and the keeper, which may have been
   that user, need not look again. */
static void park(weir_pool *pool)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(pool->w->gpu);
    pthread_mutex_lock(&pool->lock);
    bool is_left = atomic_load(&pool->use.references) == 0 && !pool->use.is_parked;
    if (is_left) {
        pool->use.is_parked = true;
        if (!pool->native.is_exportable)
            weir__settings_write_threshold(pool, 0);
    }
    pthread_mutex_unlock(&pool->lock);
    if (is_left)
        pool->backing->ops->synchronised(pool->backing);
    weir__relaxed_end(pool->w->gpu, mode);
    if (is_left)
        weir__pool_left(pool);
}

void weir__pool_release_private(weir_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->use.references, 1, memory_order_acq_rel) == 1)
        park(pool);
}

weir_pool *weir__pool_reuse(struct weir__device *device, const struct policy *policy, const struct policy_pool *entry)
{
    weir_pool *parked = NULL;
    pthread_rwlock_rdlock(&device->lock);
    for (weir_pool *pool = device->pools; pool && !parked; pool = pool->next) {
        size_t none = 0;
        /* A pool that sleeps would serve nothing. */
        if (weir__pool_is_private(pool) && strcmp(pool->name, entry->name) == 0 && !weir__pool_is_shut(pool) &&
            atomic_compare_exchange_strong(&pool->use.references, &none, 1))
            parked = pool;
    }
    pthread_rwlock_unlock(&device->lock);
    if (!parked)
        return NULL;
    pthread_mutex_lock(&parked->lock);
    parked->use.is_parked = false;
    pthread_mutex_unlock(&parked->lock);
    enum gpu_capture_mode mode = weir__relaxed_begin(device->w->gpu);
    weir_status status = weir__settings_apply(parked, policy, entry, NULL);
    weir__relaxed_end(device->w->gpu, mode);
    if (status == WEIR_OK)
        return parked;
    weir__pool_release(parked);
    return NULL;
}

/* Trimming and looking ---------------------------------------------------------------------------------------------------------------- */

int weir__pool_read(const weir_pool *pool, enum gpu_pool_attribute attribute, uint64_t *value)
{
    return pool->backing->ops->read(pool->backing, attribute, value);
}

uint64_t weir__pool_figure(const weir_pool *pool, enum gpu_pool_attribute attribute)
{
    uint64_t value = 0;
    weir__pool_read(pool, attribute, &value);
    return value;
}

uint64_t weir__pool_idle(const weir_pool *pool)
{
    uint64_t used = weir__pool_figure(pool, GPU_POOL_USED), reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
    return reserved > used ? reserved - used : 0;
}

bool weir__pool_is_stuck(const weir_pool *pool)
{
    return atomic_load(&pool->native.was_lent);
}

int weir__pool_trim(weir_pool *pool, uint64_t keep, uint64_t *released)
{
    const struct gpu *gpu = pool->w->gpu;
    uint64_t begun = gpu->now();
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(&pool->lock);
    uint64_t before = weir__pool_figure(pool, GPU_POOL_RESERVED);
    int code = pool->backing->ops->give_back(pool->backing, keep, true);
    uint64_t after = weir__pool_figure(pool, GPU_POOL_RESERVED);
    pthread_mutex_unlock(&pool->lock);
    weir__relaxed_end(gpu, mode);
    uint64_t left = pool->backing->ops->left(pool->backing);
    if (left)
        say_left(pool, left);
    if (after < before)
        weir__record_trim(pool, before - after, after, gpu->now() - begun);
    if (code == GPU_SUCCESS)
        *released = before > after ? before - after : 0;
    return code;
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
        return weir__fail(error, WEIR_NOT_FOUND, "the policy has no %s%s%s on device %d: see `weir show` for its pools%s",
                          name ? "pool '" : "default pool", name ? name : "", name ? "'" : "", device, WEIR__LOCAL(w));
    *pool = found;
    return WEIR_OK;
}

weir_cuda_pool weir_pool_handle(const weir_pool *pool)
{
    if (!pool)
        return NULL;
    atomic_store((atomic_bool *)(uintptr_t)&pool->native.cap.has_strangers, true);
    weir__cuda_begin(&pool->native);
    gpu_pool handle = pool->native.handle;
    weir__cuda_end(&pool->native);
    return handle;
}

weir_cuda_pool weir_pool_small_handle(const weir_pool *pool)
{
    if (!pool)
        return NULL;
    atomic_store((atomic_bool *)(uintptr_t)&pool->native.cap.has_strangers, true);
    return pool->native.small;
}

const char *weir_pool_name(const weir_pool *pool)
{
    return pool ? pool->name : NULL;
}

int weir_pool_device(const weir_pool *pool)
{
    return pool ? pool->device->index : -1;
}
