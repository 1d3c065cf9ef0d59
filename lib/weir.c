/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "include/weir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/about.h"
#include "lib/alloc/flush.h"
#include "lib/alloc/free.h"
#include "lib/alloc/held.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"
#include "lib/attached.h"
#include "lib/backing/arena.h"
#include "lib/base/call.h"
#include "lib/base/format.h"
#include "lib/base/sized.h"
#include "lib/base/valid.h"
#include "lib/leaks.h"
#include "lib/open.h"
#include "lib/pool/former.h"
#include "lib/pool/left.h"
#include "lib/pool/recorded.h"
#include "lib/pool/settings.h"
#include "lib/recover/callbacks.h"
#include "lib/recover/recover.h"
#include "lib/release/keeper.h"
#include "lib/source.h"
#include "lib/trace/file.h"
#include "policy/environment.h"

/* Policy ------------------------------------------------------------------------------------------------------------------------------- */

/* Sets the recorder to the higher of two levels, that of the policy and that of weir__record_at_least(). The caller holds w->config, or no
   other thread has the weir yet. */
static void record_as(weir *w, const struct policy *policy)
{
    static const enum weir__level levels[] = {
        [POLICY_LEVEL_OFF] = WEIR__LEVEL_OFF,
        [POLICY_LEVEL_POOL] = WEIR__LEVEL_POOL,
        [POLICY_LEVEL_ALL] = WEIR__LEVEL_ALL,
    };
    enum weir__level level = levels[policy->record_level] > w->record_least ? levels[policy->record_level] : w->record_least;
    if (!weir__records(&w->recorder, WEIR__LEVEL_POOL))
        for (size_t d = 0; d < w->device_count; d++)
            for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
                weir__record_begin(pool);
    weir__recorder_set(&w->recorder, level, policy->record_stacks || w->record_wants_stacks);
    weir__settings_note_all(w);
}

static weir_status fail_to_describe(weir_error *error)
{
    return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a description of the policy");
}

/* Open --------------------------------------------------------------------------------------------------------------------------------- */

static weir_status find_gpu(const char *name, weir_error *error, const struct gpu **gpu)
{
    const char *why = "";
    const char *place = name ? "weir_options.gpu" : "$WEIR_GPU";
    if (!name)
        name = policy_environment("WEIR_GPU");
    *gpu = gpu_find(name, &why);
    if (*gpu)
        return WEIR_OK;
    if (!name || !*name || strcmp(name, "cuda") == 0)
        return weir__fail(error, WEIR_NO_GPU, "%s", why);
    return weir__fail(error, WEIR_INVALID, "%s is '%s': %s", place, name, why);
}

static weir_status find_devices(weir *w, weir_error *error)
{
    int count = 0;
    int code = w->gpu->device_count(&count);
    if (code == GPU_SUCCESS && count == 0)
        code = GPU_NO_DEVICE;
    if (code != GPU_SUCCESS)
        return weir__fail(error, WEIR_NO_GPU, "no usable GPU (%s: %s): %s", w->gpu->code_name(code), w->gpu->code_text(code),
                          w->gpu->remedy());
    w->devices = calloc((size_t)count, sizeof *w->devices);
    if (!w->devices)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for %d device%s", count, weir__plural((uint64_t)count));
    for (; w->device_count < (size_t)count; w->device_count++) {
        struct weir__device *device = &w->devices[w->device_count];
        weir_status status = weir__device_init(device, w, (int)w->device_count, error);
        if (status != WEIR_OK)
            return status;
        weir__streams_init(device);
        weir__orphans_init(device);
        weir__recovery_init(&device->recovery);
    }
    if (w->only_device >= count)
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %d, counted from 0", w->only_device, count);
    return weir__devices_find(w, w->policy, error);
}

static weir_status open_pools(weir *w, weir_error *error)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < w->policy->pool_count && status == WEIR_OK; i++) {
        const struct policy_pool *entry = &w->policy->pools[i];
        for (size_t d = 0; d < w->device_count && status == WEIR_OK; d++) {
            weir_pool *pool;
            if (!weir__device_is_in(&w->devices[d], &entry->devices) || (w->only_device >= 0 && w->only_device != (int)d))
                continue;
            status = weir__pool_new(&w->devices[d], w->policy, entry, false, error, &pool);
            if (status == WEIR_OK && !w->devices[d].pools->next)
                weir__device_say_quota(&w->devices[d]);
            if (status == WEIR_OK)
                weir__pool_say_backing(pool);
            if (status == WEIR_OK && i == w->policy->default_pool)
                w->devices[d].default_pool = pool;
        }
    }
    return status;
}

/* Makes the pools with `current: true` the current pools of their devices. This is the last step of opening, since from here on Weir's
   pools serve all code that calls cudaMallocAsync(), even code that knows nothing about Weir. */
static weir_status make_currents(weir *w, weir_error *error)
{
    weir_status status = WEIR_OK;
    for (size_t d = 0; d < w->device_count; d++) {
        bool is_taken = false;
        for (weir_pool *pool = w->devices[d].pools; pool && status == WEIR_OK; pool = pool->next) {
            const struct policy_pool *entry = policy_find_pool(w->policy, pool->name);
            if (!entry->current)
                continue;
            /* The check of the policy's text cannot find this error if the text names one device by its index and by its UUID. */
            status = is_taken ? weir__fail_at(error, WEIR_BAD_POLICY, policy_pool_place(w->policy, entry, "current"),
                                              "another pool is the current one of device %zu already: set one of them to false", d)
                              : weir__current_pool_set(pool, error);
            is_taken = true;
        }
    }
    return status;
}

weir_status weir__options_read(const weir_options *given, weir_options *options, weir_error *error)
{
    *options = (weir_options)WEIR_OPTIONS_INIT;
    weir_status status = given ? weir__sized_read(given, "weir_options", options, sizeof *options, error) : WEIR_OK;
    if (status == WEIR_OK && options->policy_file && options->policy_text)
        status = weir__fail(error, WEIR_INVALID, "policy_file and policy_text are both set: set one of them");
    return status;
}

weir_status weir__policy_check(const weir_options *options, weir_error *error)
{
    struct policy *policy = NULL;
    const struct gpu *gpu;
    weir_status status = weir__source_environment(error);
    if (status == WEIR_OK)
        status = find_gpu(options->gpu, error, &gpu);
    if (status == WEIR_OK)
        status = weir__source_read(options->policy_file, options->policy_text, error, &policy);
    policy_free(policy);
    return status;
}

/* Returns a weir without a policy, GPU or devices; NULL if host memory runs out for the weir itself. If one of its members cannot be made,
   sets *status to the failure, and still returns the weir, for weir__close(). */
static weir *make_empty(const weir_options *options, int device, weir_error *error, weir_status *status)
{
    weir *w = aligned_alloc(_Alignof(weir), sizeof *w);
    if (!w) {
        *status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a weir");
        return NULL;
    }
    memset(w, 0, sizeof *w);
    w->only_device = device;
    w->local_device = WEIR__NO_DEVICE;
    w->out_of_memory = weir__recover;
    w->dump = weir__trace_files_dump;
    pthread_mutex_init(&w->leaf, NULL);
    weir__log_init(&w->log, options->log, options->log_data);
    *status = weir__log_open(&w->log, error);
    pthread_mutex_init(&w->config, NULL);
    pthread_mutex_init(&w->attached_lock, NULL);
    bool has_table = weir__blocks_init(&w->blocks);
    weir__callbacks_init(&w->callbacks);
    weir__recorder_init(&w->recorder);
    if (!has_table && *status == WEIR_OK)
        *status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the table of blocks");
    return w;
}

/* Goes on opening a weir whose policy is read and whose GPU is found: finds the devices, starts the recorder, and clears up what earlier
   weirs have left. */
static weir_status begin(weir *w, weir_error *error)
{
    weir__fork_watch();
    w->relaxed = w->policy->capture == POLICY_CAPTURE_RELAXED;
    weir_status status = find_devices(w, error);
    /* Start the recorder after find_devices(): if several processes share a simulated machine, its clock is known only then. */
    weir__recorder_start(&w->recorder, w->gpu, w->policy->record_ring);
    record_as(w, w->policy);
    if (status == WEIR_OK)
        weir__quiet_join(w);
    weir__debts_sweep(w->gpu);
    weir__arena_sweep();
    return status;
}

static weir_status open_all(weir *w, const weir_options *options, weir_error *error)
{
    weir_status status = weir__source_open(w, options, error);
    if (status == WEIR_OK)
        status = find_gpu(options->gpu, error, &w->gpu);
    if (status == WEIR_OK)
        status = begin(w, error);
    if (status == WEIR_OK && !weir__trace_files_begin(w, w->policy))
        status = weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for traces");
    if (status == WEIR_OK && !weir__about_open(w))
        status = fail_to_describe(error);
    if (status == WEIR_OK)
        status = open_pools(w, error);
    if (status == WEIR_OK)
        status = make_currents(w, error);
    return status == WEIR_OK ? weir__keeper_set(w, w->policy->keeper, error) : status;
}

weir_status weir__open(const weir_options *given, int device, weir_error *error, weir **w)
{
    weir_options options;
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!w)
        return weir__fail(error, WEIR_INVALID, "weir_open: w must not be NULL");
    status = weir__options_read(given, &options, error);
    if (status == WEIR_OK)
        status = weir__source_environment(error);
    if (status != WEIR_OK)
        return status;

    weir *opened = make_empty(&options, device, error, &status);
    if (status == WEIR_OK)
        status = open_all(opened, &options, error);
    if (status != WEIR_OK && opened) {
        weir__trace_files_drop(opened);
        weir__close(opened);
    }
    if (status == WEIR_OK)
        *w = opened;
    return status;
}

/* Waits for pending frees, if Weir knows of any, since a pool with pending frees cannot be destroyed. */
static void wait_for_frees(weir *w)
{
    for (size_t d = 0; d < w->device_count; d++) {
        bool is_pending = false;
        for (weir_pool *pool = w->devices[d].pools; pool; pool = pool->next)
            is_pending = weir__pool_has_pending_frees(pool) || is_pending;
        if (is_pending)
            weir__wait_for_frees(&w->devices[d], UINT64_MAX, true);
    }
}

/* Logs blocks that are still live or cached, and closes the pool. */
static void close_pool(weir_pool *pool)
{
    WEIR__MUST(weir__held_is_valid(pool));
    uint64_t blocks = weir__pool_live_blocks(pool);
    if (blocks) {
        char text[WEIR__BYTES_LEN];
        weir__log_about(pool->w, pool, WEIR_LOG_WARNING,
                        "pool '%s' on device %d is closed with %llu live block%s (%s): free what is live with %s", pool->name,
                        pool->device->index, (unsigned long long)blocks, weir__plural(blocks),
                        weir__bytes(text, weir__pool_held(pool).live),
                        weir__pool_rounds(pool) ? "weir_free(NULL, ptr, stream)" : pool->backing->ops->call_to_free);
    }
    weir__blocks_outlive(pool);
    uint64_t cached = weir__pool_held(pool).cached;
    if (cached) {
        char text[WEIR__BYTES_LEN];
        weir__log_about(pool->w, pool, WEIR_LOG_WARNING,
                        "pool '%s' on device %d is closed while a stream captures: %s of cached blocks are lost; end "
                        "captures before weir_close()",
                        pool->name, pool->device->index, weir__bytes(text, cached));
    }
    weir__pool_free(pool, blocks ? WEIR__POOL_LIVE : WEIR__POOL_EMPTY);
}

static void close_pools(weir *w)
{
    weir__quiet_close(w);
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    weir__debts_sweep(w->gpu);
    weir__arena_sweep();
    for (size_t d = 0; d < w->device_count; d++)
        weir__fences_captures_over(w->devices[d].fences, &w->devices[d]);
    /* Twice: there is no later flush for what a call that failed once left behind. */
    for (size_t i = 0; i < 2 * w->device_count; i++) {
        weir__flush(&w->devices[i / 2], NULL, true, WEIR__NO_DEADLINE);
        weir__orphans_free(&w->devices[i / 2], WEIR__NO_DEADLINE);
    }
    wait_for_frees(w);
    for (size_t d = 0; d < w->device_count; d++)
        while (w->devices[d].streams)
            weir__stream_close(w->devices[d].streams);
    for (size_t d = 0; d < w->device_count; d++)
        weir__spares_destroy(&w->devices[d]);
    for (size_t d = 0; d < w->device_count; d++)
        weir__orphans_cover(&w->devices[d], true);
    for (size_t d = 0; d < w->device_count; d++)
        while (w->devices[d].pools)
            close_pool(w->devices[d].pools);
    weir__quiet_leave(w);
    for (size_t d = 0; d < w->device_count; d++) {
        weir__streams_destroy(&w->devices[d]);
        weir__orphans_destroy(&w->devices[d]);
        weir__recovery_destroy(&w->devices[d].recovery);
        weir__device_destroy(&w->devices[d]);
    }
    weir__relaxed_end(w->gpu, mode);
}

void weir__close(weir *w)
{
    weir__attached_close(w);
    weir__keeper_set(w, false, NULL);
    weir__trace_files_settle(w);
    weir__log_rest(w);
    if (w->device_count) {
        weir__leaks_log(w);
        close_pools(w);
    }
    free(w->devices);
    weir__trace_files_end(w);
    weir__about_close(w);
    weir__log_rest(w);
    weir__log_close(&w->log);
    weir__callbacks_destroy(&w->callbacks);
    WEIR__MUST(weir__blocks_are_valid(&w->blocks));
    weir__blocks_destroy(&w->blocks);
    weir__recorder_destroy(&w->recorder);
    policy_free(w->policy);
    weir__source_forget(w);
    pthread_mutex_destroy(&w->attached_lock);
    pthread_mutex_destroy(&w->config);
    pthread_mutex_destroy(&w->leaf);
    free(w);
}

/* Reload ------------------------------------------------------------------------------------------------------------------------------- */

/* Calls step() for each pool with the pool's entry in that policy, until a call fails. */
static weir_status each_pool(weir *w, const struct policy *policy, weir_error *error,
                             weir_status (*step)(weir_pool *, const struct policy *, const struct policy_pool *, weir_error *))
{
    weir_status status = WEIR_OK;
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            if (status == WEIR_OK)
                status = step(pool, policy, policy_find_pool(policy, pool->name), error);
    return status;
}

/* Checks whether `after` can replace the policy in force, and does all steps that can fail before anything changes. Sets *shown to the
   description of `after`. The caller holds w->config. */
static weir_status prepare(weir *w, const struct policy *after, struct weir__in_force **shown, weir_error *error)
{
    weir_status status = weir__source_compare(w->policy, after, error);
    if (status == WEIR_OK && !(*shown = weir__in_force_new(w, after)))
        status = fail_to_describe(error);
    if (status == WEIR_OK)
        status = each_pool(w, after, error, weir__settings_check);
    /* Switching the keeper on can fail, so do it now. Switching it off cannot fail, and comes last. */
    if (status == WEIR_OK && after->keeper)
        status = weir__keeper_set(w, true, error);
    return status;
}

/* Replaces the policy in force: by `after`, which the weir takes over, or, if `assignments` is not NULL, by the policy in force with these
   assignments. is_outside: the call comes from the service thread, on behalf of another process, and must not wait for the GPU. */
static weir_status apply(weir *w, struct policy *after, const char *assignments, bool is_outside, weir_error *error)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    pthread_mutex_lock(&w->config);
    weir_status status = assignments ? weir__source_override(w->policy, assignments, error, &after) : WEIR_OK;
    struct weir__in_force *shown = NULL;
    if (status == WEIR_OK)
        status = prepare(w, after, &shown, error);
    bool applied = status == WEIR_OK;
    if (applied) {
        status = each_pool(w, after, error, weir__settings_apply);
        if (status != WEIR_OK)
            each_pool(w, w->policy, NULL, weir__settings_undo);
    }
    struct policy *unused = after;
    if (status == WEIR_OK) {
        unused = w->policy;
        w->policy = after;
        record_as(w, after);
        weir__trace_files_set(w, after);
        weir__in_force_set(w, shown);
        shown = NULL;
    }
    weir__keeper_set(w, w->policy->keeper, NULL);
    pthread_mutex_unlock(&w->config);
    /* Flush the caches: their blocks were kept by the rules of the former policy, or, if applying failed half-way, by those of the new
       one. */
    for (size_t d = 0; d < w->device_count && applied; d++) {
        weir__flush(&w->devices[d], NULL, !is_outside, WEIR__NO_DEADLINE);
        if (!is_outside)
            weir__orphans_free(&w->devices[d], WEIR__NO_DEADLINE);
    }
    weir__keeper_look(w);
    weir__relaxed_end(w->gpu, mode);
    policy_free(unused);
    weir__in_force_drop(shown);
    weir__attached_tell(w, is_outside);
    return status;
}

/* Reads a policy and applies it. policy_file: NULL stands for the source of weir_open(). */
static weir_status reload(weir *w, const char *policy_file, bool is_outside, weir_error *error)
{
    struct policy *after;
    weir_status status = policy_file ? weir__source_read(policy_file, NULL, error, &after) : weir__source_again(w, error, &after);
    return status == WEIR_OK ? apply(w, after, NULL, is_outside, error) : status;
}

weir_status weir_reload(weir *w, const char *policy_file, weir_error *error)
{
    WEIR__CALL;
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!w)
        return weir__fail(error, WEIR_INVALID, "weir_reload: w must not be NULL");
    status = weir__source_environment(error);
    return status == WEIR_OK ? reload(w, policy_file, false, error) : status;
}

weir_status weir__policy_set(weir *w, const char *assignments, weir_error *error)
{
    return apply(w, NULL, assignments, true, error);
}

void weir__record_at_least(weir *w, enum weir__level level, bool stacks)
{
    pthread_mutex_lock(&w->config);
    w->record_least = level;
    w->record_wants_stacks = stacks;
    record_as(w, w->policy);
    pthread_mutex_unlock(&w->config);
}

weir_status weir__policy_again(weir *w, weir_error *error)
{
    return reload(w, NULL, true, error);
}
