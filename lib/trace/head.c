/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/trace/costs.h"
#include "lib/trace/file.h"
#include "policy/environment.h"

#define ROOM (WEIR__TRACE_HEAD_MAX - 16)

static void put_pair(struct weir__trace_bytes *pairs, unsigned *count, const char *key, const char *value)
{
    weir__trace_put_string(pairs, key, WEIR__TRACE_STRING_MAX);
    weir__trace_put_string(pairs, value, ROOM / 2);
    (*count)++;
}

__attribute__((format(printf, 4, 5))) static void put_pairf(struct weir__trace_bytes *pairs, unsigned *count, const char *key,
                                                            const char *format, ...)
{
    char value[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    put_pair(pairs, count, key, value);
}

static void put_devices(const weir *w, struct weir__trace_bytes *pairs, unsigned *count)
{
    char key[64];
    for (size_t d = 0; d < w->device_count; d++) {
        const struct gpu_device_info *info = &w->devices[d].info;
        snprintf(key, sizeof key, "gpu.%zu.name", d);
        put_pair(pairs, count, key, info->name);
        snprintf(key, sizeof key, "gpu.%zu.uuid", d);
        put_pair(pairs, count, key, info->uuid);
        snprintf(key, sizeof key, "gpu.%zu.memory", d);
        put_pairf(pairs, count, key, "%" PRIu64, info->memory);
        snprintf(key, sizeof key, "gpu.%zu.quota", d);
        if (w->devices[d].quota.counts >= 0)
            put_pairf(pairs, count, key, "%" PRIu64, w->devices[d].quota.bytes);
    }
}

/* What calls cost on the devices, where somebody has measured it, so that the trace can be replayed elsewhere. The rest is worth more. */
static void put_costs(const weir *w, struct weir__trace_bytes *pairs, unsigned *count)
{
    int driver, runtime;
    if (w->gpu->versions(&driver, &runtime) != GPU_SUCCESS)
        return;
    for (size_t d = 0; d < w->device_count; d++) {
        const struct gpu_device_info *info = &w->devices[d].info;
        char key[64], *text = weir__costs_text(info->name, driver, info->uuid);
        snprintf(key, sizeof key, "gpu.%zu.costs", d);
        if (text && strlen(text) + sizeof key + 16 < pairs->room - pairs->len)
            put_pair(pairs, count, key, text);
        free(text);
    }
}

bool weir__trace_head_make(weir *w, const char *reason, struct weir__trace_bytes *head)
{
    const struct weir__recorder *recorder = &w->recorder;
    struct weir__trace_bytes pairs = {.bytes = malloc(ROOM), .room = ROOM};
    unsigned count = 0;
    *head = (struct weir__trace_bytes){.bytes = malloc(WEIR__TRACE_HEAD_MAX), .room = WEIR__TRACE_HEAD_MAX};
    if (!pairs.bytes || !head->bytes) {
        free(pairs.bytes);
        return false;
    }
    put_pair(&pairs, &count, "weir", PACKAGE_VERSION);
    put_pairf(&pairs, &count, "pid", "%ld", (long)getpid());
    put_pair(&pairs, &count, "program", program_invocation_short_name);
    const char *rank = policy_environment("RANK");
    if (rank)
        put_pairf(&pairs, &count, "rank", "%s", rank);
    put_pairf(&pairs, &count, "started.monotonic", "%" PRIu64, recorder->started_monotonic);
    put_pairf(&pairs, &count, "started.real", "%" PRIu64, recorder->started_real);
    put_pair(&pairs, &count, "reason", reason);
    put_pair(&pairs, &count, "level", weir__records(recorder, WEIR__LEVEL_ALL) ? "all" : "pool");
    put_pair(&pairs, &count, "stacks", atomic_load(&recorder->has_stacks) ? "true" : "false");
    if (w->local_device != WEIR__NO_DEVICE)
        put_pairf(&pairs, &count, "local_device", "%d", w->local_device);
    put_devices(w, &pairs, &count);
    char *policy = weir__trace_files_policy(w);
    if (policy)
        put_pair(&pairs, &count, "policy", policy);
    free(policy);
    put_costs(w, &pairs, &count);
    weir__trace_put_number(head, count);
    weir__trace_put(head, pairs.bytes, pairs.len);
    free(pairs.bytes);
    return !head->is_full;
}
