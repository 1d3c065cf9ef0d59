/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/traced.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/format.h"
#include "lib/pool/recorded.h"
#include "lib/trace/file.h"
#include "lib/trace/head.h"

/* Head --------------------------------------------------------------------------------------------------------------------------------- */

static void put_devices(const weir *w, struct weir__trace_head *head)
{
    for (unsigned d = 0; d < w->device_count; d++) {
        const struct gpu_device_info *info = &w->devices[d].info;
        char key[64];
        weir__trace_head_device(head, d, info->name, info->uuid, info->memory);
        snprintf(key, sizeof key, "gpu.%u.quota", d);
        if (w->devices[d].quota.counts >= 0)
            weir__trace_head_putf(head, key, "%" PRIu64, w->devices[d].quota.bytes);
    }
}

static void put_costs(const weir *w, struct weir__trace_head *head)
{
    int driver, runtime;
    if (w->gpu->versions(&driver, &runtime) != GPU_SUCCESS)
        return;
    for (unsigned d = 0; d < w->device_count; d++)
        weir__trace_head_costs(head, d, w->devices[d].info.name, driver, w->devices[d].info.uuid);
}

static bool make_head(void *data, const char *reason, struct weir__trace_bytes *content)
{
    weir *w = data;
    struct weir__trace_head head;
    if (!weir__trace_head_begin(&head, &w->recorder, reason))
        return false;
    if (w->local_device != WEIR__NO_DEVICE)
        weir__trace_head_putf(&head, "local_device", "%d", w->local_device);
    put_devices(w, &head);
    char *policy = weir__trace_files_policy(w);
    if (policy)
        weir__trace_head_put(&head, "policy", policy);
    free(policy);
    put_costs(w, &head);
    return weir__trace_head_end(&head, content);
}

/* Blocks and pools --------------------------------------------------------------------------------------------------------------------- */

struct visit {
    void (*use)(const struct weir__event *event, void *to);
    void *to;
};

static void visit_block(const struct weir__block *block, void *data)
{
    const struct visit *visit = data;
    const struct weir__event event = {
        .address = (uintptr_t)block->ptr,
        .size = block->size,
        .what = weir__event_what(WEIR__KIND_LIVE, block->class, block->pool->record, block->origin),
    };
    if (!block->graph)
        visit->use(&event, visit->to);
}

static void visit_live(void *data, void (*use)(const struct weir__event *event, void *to), void *to)
{
    struct visit visit = {use, to};
    weir__blocks_visit(&((weir *)data)->blocks, visit_block, &visit);
}

static void sample(void *data)
{
    weir__record_pools(data);
}

static void say_failure(void *data, enum weir__trace_span span, const struct weir__trace_result *result)
{
    const char *what = span == WEIR__TRACE_FROM_OPEN ? "record.file" : "an out-of-memory (record.dump)";
    weir__log(data, WEIR_LOG_ERROR, "the trace of %s ends early, after %s: %s", what, WEIR__BYTES(result->bytes), strerror(result->error));
}

weir_status weir__trace_start(weir *w, int fd, enum weir__trace_span span, const char *reason, weir_error *error,
                              struct weir__trace **trace)
{
    const struct weir__traced of = {&w->recorder, w, make_head, visit_live, sample, say_failure};
    struct weir__trace *made = weir__trace_begin(&of, fd, span, reason);
    if (!made)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a trace, or for the thread that writes it");
    *trace = made;
    return WEIR_OK;
}
