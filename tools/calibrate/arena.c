/* SPDX-License-Identifier: MIT */
/* arena.c - a block of an arena taken and given back by one thread, where the arena has the pages already: Weir's own code. */
#include "tools/calibrate/measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "include/weir.h"
#include "tools/calibrate/fit.h"
#include "tools/common/complain.h"

#define KIB (UINT64_C(1) << 10)
#define PAIRS 1000
#define ROUNDS 15
#define LIVE 32 /* blocks between which others come and go */

/* No cache serves these sizes, and none of the arena's stands in for one: they change from request to request. */
static const char policy_format[] = "weir: 1\ndefaults: { pool: a }\npools:\n"
                                    "  a: { devices: [%d], backing: arena, release_threshold: all,"
                                    " cache: { largest: 4KiB, capture_check: false } }\n";
static const size_t sizes[] = { 48 * KIB, 200 * KIB, 20 * KIB, 700 * KIB, 96 * KIB, 333 * KIB, 8 * KIB };
#define SIZES (sizeof sizes / sizeof sizes[0])

struct arena {
    weir *w;
    weir_stream *stream;
    void *live[LIVE];
    size_t next;
};

/* Gives back the block that was taken first, and takes another one. */
static weir_status do_pair(struct arena *arena)
{
    void **place = &arena->live[arena->next % LIVE];
    weir_status status = *place ? weir_stream_free(arena->stream, *place) : WEIR_OK;
    if (status == WEIR_OK) {
        *place = NULL;
        status = weir_stream_malloc(arena->stream, place, sizes[arena->next % SIZES]);
    }
    arena->next++;
    return status;
}

static weir_status do_pairs(struct arena *arena)
{
    weir_status status = WEIR_OK;
    for (unsigned i = 0; i < PAIRS && status == WEIR_OK; i++)
        status = do_pair(arena);
    return status;
}

static weir_status run_rounds(const struct gpu *gpu, struct arena *arena, uint64_t times[ROUNDS])
{
    /* It brings the pages. */
    weir_status status = do_pairs(arena);
    for (unsigned i = 0; i < ROUNDS && status == WEIR_OK; i++) {
        uint64_t begun = gpu->now();
        status = do_pairs(arena);
        times[i] = (gpu->now() - begun) / PAIRS;
    }
    for (size_t i = 0; i < LIVE; i++)
        if (weir_stream_free(arena->stream, arena->live[i]) != WEIR_OK && status == WEIR_OK)
            status = WEIR_CUDA_ERROR;
    return status;
}

bool measure_arena(const struct gpu *gpu, int device, struct costs *costs)
{
    char policy[sizeof policy_format + 16];
    uint64_t times[ROUNDS];
    struct arena arena = { .w = NULL };
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    if (!gpu->supports(device, GPU_FEATURE_MAPPING, NULL, 0))
        return true;
    snprintf(policy, sizeof policy, policy_format, device);
    options.policy_text = policy;
    options.gpu = gpu->name;
    /* It would change this policy too. */
    unsetenv("WEIR_CONF");
    weir_status status = weir_open(&options, &error, &arena.w);
    if (status == WEIR_OK)
        status = weir_stream_create(arena.w, device, NULL, &error, &arena.stream);
    if (status == WEIR_OK) {
        status = run_rounds(gpu, &arena, times);
        if (status != WEIR_OK)
            weir_last_error(&error);
    }
    weir_stream_close(arena.stream);
    weir_close(arena.w);
    if (status == WEIR_OK)
        costs->values[COST_pair_arena].call = median(times, ROUNDS);
    else
        complain("%s: %s: %s", cost_rows[COST_pair_arena].key, weir_status_text(status), error.text);
    costs->is_measured[COST_pair_arena] = status == WEIR_OK;
    return status == WEIR_OK;
}
