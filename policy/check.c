/* SPDX-License-Identifier: MIT */
#include "policy/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/origin.h"
#include "policy/value.h"

#define ALIGN_LEAST 512 /* that of all blocks of CUDA's */

static const struct policy_origin *pool_origin(const struct policy_pool *pool, const char *key)
{
    return policy_origin_of(POLICY_SCOPE_POOL, pool->origins, key);
}

static void fail(struct policy_report *report, const struct policy_pool *pool, const char *key, const char *message)
{
    const struct policy_origin *origin = pool_origin(pool, key);
    policy_report_add(report, origin->mark, origin->path, "%s", message);
}

static bool is_set(const struct policy_pool *pool, const char *key)
{
    return pool_origin(pool, key)->mark.file != NULL;
}

/* Nobody else sets a threshold while the program runs. */
static void check_auto(const struct policy *policy, const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->release_threshold.kind == POLICY_SIZE_AUTO && !policy->keeper && pool->ipc == POLICY_IPC_NONE)
        fail(report, pool, "release_threshold",
             "is auto, which only the keeper can set while the program runs, and keeper is false; add keeper: true, or write all, none or "
             "bytes");
}

/* Weir orders streams only where the policy allows that, and CUDA lends memory by such an order only where it follows events. */
static void check_pending(const struct policy_pool *pool, struct policy_report *report)
{
    bool is_cudas = pool->backing == POLICY_BACKING_NEW || pool->backing == POLICY_BACKING_DEFAULT;
    if (pool->reuse_pending_max.kind == POLICY_SIZE_ALL || pool_origin(pool, "reuse.pending_max")->refused)
        return;
    if (!pool->reuse_internal_dependencies)
        fail(report, pool, "reuse.pending_max",
             "does nothing where reuse.internal_dependencies is false, as no stream is made to wait for another's free; write all, or "
             "internal_dependencies: true");
    else if (is_cudas && !pool->reuse_event_dependencies)
        fail(report, pool, "reuse.pending_max",
             "does nothing where reuse.event_dependencies is false, as CUDA lends a waiting stream nothing then; write all, or "
             "event_dependencies: true");
}

/* Memory of blocks that were exported never goes back while their pool lives, so no such pool can keep to a threshold. */
static void check_ipc(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->ipc == POLICY_IPC_NONE)
        return;
    if (is_set(pool, "release_threshold"))
        fail(report, pool, "release_threshold",
             "does not go with ipc: memory of blocks that were exported never goes back while the pool lives; remove this key or ipc");
    if (pool->initial_size.value > 0)
        fail(report, pool, "initial_size",
             "does not go with ipc: an exportable pool has no release_threshold to keep it over a synchronise; remove this key or ipc");
    if (is_set(pool, "small_below"))
        fail(report, pool, "small_below", "does not go with ipc: an exportable pool has no small twin; remove this key or ipc");
    if (pool->cache && !pool_origin(pool, "cache")->refused)
        fail(report, pool, "cache",
             "does not go with ipc: blocks of an exportable pool are never cached; write off, or remove this key or ipc");
    if (pool->location.kind != POLICY_LOCATION_DEVICE)
        fail(report, pool, "location", "does not go with ipc: only device memory can be exported; write device, or remove ipc");
}

/* The addresses of blocks in importing processes are CUDA's choice. */
static void check_align(const struct policy_pool *pool, struct policy_report *report)
{
    const struct policy_origin *origin = pool_origin(pool, "align");
    if (origin->refused)
        return;
    uint64_t below = UINT64_C(1) << (63 - __builtin_clzll(pool->align));
    if (pool->align != below)
        policy_report_add(report, origin->mark, origin->path, "is %" PRIu64 " bytes, which is no power of two; write %" PRIu64 " or %" PRIu64,
                          pool->align, below, below * 2);
    if (pool->ipc != POLICY_IPC_NONE && pool->align > ALIGN_LEAST)
        fail(report, pool, "align",
             "does not go with ipc, as CUDA chooses the addresses of blocks in importing processes; remove this key or ipc");
}

/* Keys that mean nothing without another. */
static void check_needs(const struct policy_pool *pool, struct policy_report *report)
{
    size_t count;
    const struct policy_key *keys = policy_keys(POLICY_SCOPE_POOL, &count);
    for (size_t i = 0; i < count; i++) {
        const struct policy_origin *origin = pool_origin(pool, keys[i].name);
        if (!origin->mark.file || policy_key_is_served(pool, &keys[i]) || pool_origin(pool, keys[i].needs)->refused)
            continue;
        bool is_ipc = strcmp(keys[i].needs, "ipc") == 0;
        policy_report_add(report, origin->mark, origin->path, "does nothing without %s; add %s, or remove this key",
                          is_ipc ? "ipc: posix_fd" : keys[i].needs, is_ipc ? "that" : "the socket");
    }
}

/* A socket is for one pool, and a policy entry is a pool on each of its devices and for each private stream. */
static void check_share(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->share_socket && pool->ipc != POLICY_IPC_NONE && !pool->devices.local &&
        (pool->devices.all || pool->devices.count != 1) && !pool_origin(pool, "devices")->refused)
        fail(report, pool, "share.socket",
             "is one socket for a pool on each of several devices; let devices name exactly one, as in devices: [0] or local");
}

/* What CUDA shares and hands out by itself is its own pools' memory. */
static void check_arena(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->backing != POLICY_BACKING_ARENA)
        return;
    if (pool->ipc != POLICY_IPC_NONE)
        fail(report, pool, "ipc",
             "does not go with backing: arena, as only pools of CUDA's can be exported; write backing: new, or remove ipc");
    if (pool->current)
        fail(report, pool, "current",
             "does not go with backing: arena, as cudaMallocAsync knows only pools of CUDA's; write backing: new, or current: false");
    if (pool->location.kind != POLICY_LOCATION_DEVICE)
        fail(report, pool, "location",
             "does not go with backing: arena, which is device memory; write backing: new, or location: device");
}

/* The driver's own pool is what it is. */
static void check_backing(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->backing != POLICY_BACKING_DEFAULT)
        return;
    if (pool->ipc != POLICY_IPC_NONE)
        fail(report, pool, "ipc",
             "does not go with backing: default, as the driver's pool cannot be exported; write backing: new, or remove ipc");
    if (pool->max_size.kind != POLICY_SIZE_NONE)
        fail(report, pool, "max_size",
             "does not go with backing: default, as the driver's pool can have no cap; write backing: new, or remove max_size");
    if (pool->location.kind != POLICY_LOCATION_DEVICE)
        fail(report, pool, "location",
             "does not go with backing: default, as the driver's pool is device memory; write backing: new, or location: device");
}

static void check_location(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->location.kind == POLICY_LOCATION_DEVICE)
        return;
    static const char percent[] = "is a share of device memory, but this pool lives in host memory; write bytes";
    if (pool->release_threshold.kind == POLICY_SIZE_PERCENT)
        fail(report, pool, "release_threshold", percent);
    if (pool->initial_size.kind == POLICY_SIZE_PERCENT)
        fail(report, pool, "initial_size", percent);
    if (pool->max_size.kind == POLICY_SIZE_PERCENT || pool->max_size.kind == POLICY_SIZE_QUOTA)
        fail(report, pool, "max_size", percent);
    if (pool->keep.kind == POLICY_SIZE_PERCENT)
        fail(report, pool, "keep", percent);
    if (pool->reuse_pending_max.kind == POLICY_SIZE_PERCENT)
        fail(report, pool, "reuse.pending_max", percent);
    if (pool->leave_free.value > 0)
        fail(report, pool, "leave_free",
             "keeps memory of the device free, but this pool lives in host memory; remove this key, or write location: device");
    if (pool->current)
        fail(report, pool, "current",
             "does not go with host memory: a device's current pool must live on it; write current: false, or location: device");
}

/* Whether a is larger than b on every device; sizes in different units are compared when a device is known. */
static bool is_larger(const struct policy_size *a, const struct policy_size *b)
{
    if (b->kind == POLICY_SIZE_NONE)
        return a->value > 0;
    return a->kind == b->kind && a->value > b->value;
}

/* A share of the device's memory is checked when the device is known. */
static void check_cap(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->max_size.kind != POLICY_SIZE_BYTES || pool->max_size.value >= policy_pool_least(pool))
        return;
    fail(report, pool, "max_size",
         pool->small_below ? "leaves no room for a pool and its small twin, which grow by 32MiB each; write 64MiB or more, or small_below: 0"
                           : "leaves no room for a pool, which grows by 32MiB at a time; write 32MiB or more");
}

static void check_sizes(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->ipc == POLICY_IPC_NONE && is_larger(&pool->initial_size, &pool->release_threshold))
        fail(report, pool, "initial_size",
             "is more than release_threshold keeps, so the first synchronise would give it back; lower it, or raise release_threshold");
    if (pool->max_size.kind != POLICY_SIZE_NONE && is_larger(&pool->initial_size, &pool->max_size))
        fail(report, pool, "initial_size", "is more than max_size allows; lower it, or raise max_size");
}

/* Reports a bound that is above the one around it, at the inner one; at the outer one if only that was written. */
static void fail_above(const struct policy_pool *pool, const char *inner, const char *outer, const char *consequence,
                       struct policy_report *report)
{
    const struct policy_origin *inside = pool_origin(pool, inner), *outside = pool_origin(pool, outer);
    if (inside->refused || outside->refused)
        return;
    bool lower = inside->mark.file != NULL;
    const struct policy_origin *at = lower ? inside : outside, *other = lower ? outside : inside;
    const char *name = lower ? outer : inner;
    char initial[64] = "";
    if (!other->mark.file)
        snprintf(initial, sizeof(initial), " (%s if not written)", policy_key_find(POLICY_SCOPE_POOL, name)->initial);
    policy_report_add(report, at->mark, at->path, "is %s than %s%s, so %s; %s it, or %s %s", lower ? "more" : "less", name, initial,
                      consequence, lower ? "lower" : "raise", lower ? "raise" : "lower", name);
}

static void check_cache(const struct policy_pool *pool, struct policy_report *report)
{
    if (!pool->cache)
        return;
    if (pool->cache_largest > pool->cache_per_stream)
        fail_above(pool, "cache.largest", "cache.per_stream", "no block of that size could ever be kept", report);
    if (pool->cache_per_stream > pool->cache_per_device)
        fail_above(pool, "cache.per_stream", "cache.per_device", "no stream could ever keep as much", report);
}

static void check_peers(const struct policy_pool *pool, struct policy_report *report)
{
    if (pool->devices.all || pool->devices.count != 1)
        return;
    for (size_t i = 0; i < pool->peer_access.count; i++) {
        if (policy_device_equal(&pool->peer_access.items[i], &pool->devices.items[0])) {
            fail(report, pool, "peer_access", "names the pool's own and only device, which always has access; remove it from the list");
            return;
        }
    }
}

/* Whether both surely name one device. An index and a UUID may, as may the local device, which only a device can tell. */
static bool overlap(const struct policy_devices *a, const struct policy_devices *b)
{
    if (a->all || b->all || (a->local && b->local))
        return true;
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if (policy_device_equal(&a->items[i], &b->items[j]))
                return true;
        }
    }
    return false;
}

static bool are_current(const struct policy_pool *a, const struct policy_pool *b)
{
    return a->current && b->current && overlap(&a->devices, &b->devices);
}

static bool are_default(const struct policy_pool *a, const struct policy_pool *b)
{
    return a->backing == POLICY_BACKING_DEFAULT && b->backing == POLICY_BACKING_DEFAULT && overlap(&a->devices, &b->devices);
}

static bool have_same_socket(const struct policy_pool *a, const struct policy_pool *b)
{
    return a->share_socket && b->share_socket && strcmp(a->share_socket, b->share_socket) == 0;
}

/* Reports each pool that wants what an earlier one has, and only one can have. before, after: the message around that one's name. */
static void check_exclusive(const struct policy *policy, struct policy_report *report,
                            bool (*clash)(const struct policy_pool *, const struct policy_pool *), const char *key, const char *before,
                            const char *after)
{
    for (size_t i = 1; i < policy->pool_count; i++) {
        const struct policy_origin *origin = pool_origin(&policy->pools[i], key);
        size_t j = 0;
        while (j < i && !clash(&policy->pools[i], &policy->pools[j]))
            j++;
        if (j < i)
            policy_report_add(report, origin->mark, origin->path, "%s%s%s", before, policy_quote(policy->pools[j].name).text, after);
    }
}

static void check_streams(const struct policy *policy, struct policy_report *report)
{
    for (size_t i = 0; i < policy->stream_count; i++) {
        const struct policy_stream *stream = &policy->streams[i];
        const struct policy_origin *origin = policy_origin_of(POLICY_SCOPE_STREAM, stream->origins, "private");
        if (stream->own_pool && policy->pools[stream->pool].backing == POLICY_BACKING_DEFAULT)
            policy_report_add(
                report, origin->mark, origin->path,
                "does not go with pool '%s': its backing is the driver's pool, which cannot belong to one stream; name a pool "
                "with backing: new, or write private: false",
                policy_quote(policy->pools[stream->pool].name).text);
        if (stream->own_pool && policy->pools[stream->pool].share_socket)
            policy_report_add(
                report, origin->mark, origin->path,
                "does not go with pool '%s': its share.socket is for one pool, and each private stream has one of its own; name a pool "
                "that is not shared, or write private: false",
                policy_quote(policy->pools[stream->pool].name).text);
    }
}

void policy_check(const struct policy *policy, struct policy_report *report)
{
    if (policy->pool_count == 0)
        return;
    for (size_t i = 0; i < policy->pool_count; i++) {
        const struct policy_pool *pool = &policy->pools[i];
        check_ipc(pool, report);
        check_auto(policy, pool, report);
        check_pending(pool, report);
        check_needs(pool, report);
        check_share(pool, report);
        check_arena(pool, report);
        check_backing(pool, report);
        check_location(pool, report);
        check_align(pool, report);
        check_cap(pool, report);
        check_sizes(pool, report);
        check_cache(pool, report);
        check_peers(pool, report);
    }
    check_exclusive(policy, report, are_current, "current", "pool '",
                    "' is the current pool of one of these devices already, and a device has only one; write current: false here or there");
    check_exclusive(policy, report, are_default, "backing", "pool '",
                    "' is the default pool of one of these devices already, and a device has only one; write backing: new here or there");
    check_exclusive(policy, report, have_same_socket, "share.socket", "is the socket of pool '",
                    "' already; write another name here or there");
    check_streams(policy, report);
}
