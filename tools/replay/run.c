/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/replay/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/held.h"
#include "lib/base/service.h"
#include "lib/gpu/sim.h"
#include "lib/pool/device.h"
#include "lib/pool/pool.h"
#include "lib/pool/weir_internal.h"
#include "lib/record/recorder.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"

/* What would reach out of the replay, or slow it down. */
#define ASSIGNMENTS "control=false,record.level=off,record.file=none,record.dump=none"

#define PAUSE_LEAST 100000 /* ns that are worth a sleep on a GPU, where a replay may fall behind and catch up */

struct stream {
    weir_stream *opened; /* NULL: it is not open now */
    gpu_stream raw;      /* of one that is not, once it was used */
    uint16_t pool;       /* of the script, that it had */
    bool is_routed;      /* its pool is the one that the policy has for it */
};

struct stage {
    const struct script *script;
    struct outcome *outcome;
    weir *w;
    const struct gpu *gpu;
    weir_pool **pools;
    weir_pool **own; /* that requests of a tag have on the device of each pool; NULL: none */
    const struct replay_part *part; /* which tag that is, and of which pool; NULL: none */
    struct stream *streams;
    void **blocks;
    uint64_t *sizes;   /* of blocks */
    uint64_t *delays;  /* of threads: how far behind their recorded times they are */
    uint64_t epoch;    /* gpu->now() at time 0 of the trace */
    bool is_real;      /* a GPU, whose time passes by itself */
    uint64_t begun;    /* gpu->now() where figures began to count */
    uint64_t counted;  /* gpu->now() up to which `area` has counted */
    uint64_t changes;  /* sim_changes() when `reserved` was looked at */
    uint64_t reserved, live;
    size_t slice;      /* that is being filled */
};

static bool fail(struct outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct outcome *outcome, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(outcome->why, sizeof outcome->why, format, args);
    va_end(args);
    return false;
}

/* Time and memory ---------------------------------------------------------------------------------------------------------------------- */

/* *peak: the most since the last time, as a call that is refused grows its pool and gives that back. With several pools each at its own. */
static uint64_t reserved_now(const struct stage *stage, uint64_t *peak)
{
    uint64_t bytes = 0;
    *peak = 0;
    for (size_t d = 0; d < stage->w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&stage->w->devices[d], NULL); pool;
             pool = weir__device_next_pool(&stage->w->devices[d], pool)) {
            if (pool->native.is_host)
                continue;
            bytes += weir__pool_figure(pool, GPU_POOL_RESERVED);
            *peak += weir__pool_figure(pool, GPU_POOL_RESERVED_HIGH);
            weir__pool_reset_peaks(pool);
        }
    if (*peak > stage->script->memory)
        *peak = bytes > stage->script->memory ? bytes : stage->script->memory;
    return bytes;
}

static void count_area(struct stage *stage, uint64_t now)
{
    stage->outcome->area += (double)stage->reserved * (double)(now - stage->counted);
    stage->counted = now;
}

/* Most calls change nothing of it, which the simulator knows sooner than all pools do. */
static void count_reserved(struct stage *stage)
{
    struct outcome *outcome = stage->outcome;
    uint64_t peak, before = stage->reserved, changes = stage->is_real ? stage->changes + 1 : sim_changes();
    if (changes == stage->changes)
        return;
    stage->changes = changes;
    stage->reserved = reserved_now(stage, &peak);
    if (stage->reserved > before) {
        outcome->growths++;
        outcome->grown += stage->reserved - before;
    } else if (stage->reserved < before) {
        outcome->trims++;
        outcome->trimmed += before - stage->reserved;
    }
    if (outcome->peak_reserved < peak)
        outcome->peak_reserved = peak;
}

static void note_slice(struct stage *stage)
{
    uint64_t *reserved = &stage->outcome->reserved[stage->slice], *live = &stage->outcome->live[stage->slice];
    *reserved = stage->reserved > *reserved ? stage->reserved : *reserved;
    *live = stage->live > *live ? stage->live : *live;
}

/* To the slice of that time of the trace, as the program had it, with what it waited: a page lays the slices over the recording. Each slice begins with what there was. Times of several threads go forth and back. */
static void go_to(struct stage *stage, uint64_t time)
{
    const struct script *script = stage->script;
    uint64_t span = script->end - script->begin, since = time > script->begin ? time - script->begin : 0;
    double part = span ? (double)since / (double)span : 0;
    size_t slice = part < 1 ? (size_t)(part * OUTCOME_SLICES) : OUTCOME_SLICES - 1;
    while (stage->slice < slice) {
        stage->slice++;
        note_slice(stage);
    }
}

/* The keeper has its turns meanwhile, and what it gives back counts from then on. `behind` is what lies between the thread's own time and this
   one, `waited` what lies between that and the time of the trace. Returns what time it is. */
static uint64_t pass_until(struct stage *stage, uint64_t time, uint64_t behind, uint64_t waited)
{
    uint64_t due;
    if (stage->is_real) {
        uint64_t now = stage->gpu->now();
        if (now + PAUSE_LEAST < time)
            stage->gpu->pause(time - now);
        return stage->gpu->now();
    }
    while ((due = weir__service_next()) <= time) {
        weir__service_pass(due);
        go_to(stage, (due > behind ? due - behind : 0) + waited);
        count_area(stage, stage->gpu->now());
        count_reserved(stage);
        note_slice(stage);
    }
    uint64_t now = stage->gpu->now();
    if (now >= time)
        return now;
    stage->gpu->pause(time - now);
    return time;
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

static int device_of(const struct stage *stage, const struct script_op *op)
{
    return (int)stage->script->pools[op->pool]->device;
}

static bool is_private(const struct stage *stage, size_t pool)
{
    return stage->script->pools[pool]->flags & TRACE_POOL_PRIVATE;
}

static bool open_stream(struct stage *stage, const struct script_op *op)
{
    struct stream *stream = &stage->streams[op->stream];
    const char *name = op->label ? stage->script->labels[op->label - 1].text : NULL;
    weir_error error = WEIR_ERROR_INIT;
    /* Only an opened stream has a cache. */
    if (!stage->script->has_caches || stream->opened)
        return true;
    if (weir_stream_create(stage->w, device_of(stage, op), name, &error, &stream->opened) != WEIR_OK)
        return fail(stage->outcome, "a stream could not be opened: %s", error.text);
    weir_pool *pool = stage->pools[op->pool];
    stream->pool = op->pool;
    /* Where the name is known, the program gets what the policy says of it. */
    stream->is_routed = name || is_private(stage, op->pool) || weir_stream_pool(stream->opened) == pool;
    return true;
}

static void close_stream(struct stage *stage, const struct script_op *op)
{
    struct stream *stream = &stage->streams[op->stream];
    weir_stream_close(stream->opened);
    stream->opened = NULL;
}

/* NULL after fail(). */
static gpu_stream handle_of(struct stage *stage, const struct script_op *op)
{
    struct stream *stream = &stage->streams[op->stream];
    if (stream->opened)
        return weir_stream_handle(stream->opened);
    if (!stream->raw && stage->gpu->stream_create(device_of(stage, op), &stream->raw) != GPU_SUCCESS)
        fail(stage->outcome, "a stream could not be made");
    return stream->raw;
}

/* Calls -------------------------------------------------------------------------------------------------------------------------------- */

/* A private pool belongs to its stream, and keeps all that is its. */
static bool is_part(const struct stage *stage, const weir_pool *pool)
{
    return !weir__pool_is_private(pool) && strcmp(pool->name, stage->part->of) == 0;
}

static weir_status request(struct stage *stage, const struct script_op *op, void **ptr)
{
    const struct stream *stream = &stage->streams[op->stream];
    const bool is_by_stream = stream->opened && stream->is_routed && stream->pool == op->pool;
    weir_pool *pool = is_by_stream ? weir_stream_pool(stream->opened) : stage->pools[op->pool];
    if (stage->part && op->label == stage->part->tag && is_part(stage, pool) && stage->own[op->pool])
        return weir_pool_malloc(stage->own[op->pool], ptr, op->size, handle_of(stage, op));
    if (is_by_stream)
        return weir_stream_malloc(stream->opened, ptr, op->size);
    return weir_pool_malloc(pool, ptr, op->size, handle_of(stage, op));
}

static weir_status give_back(struct stage *stage, const struct script_op *op, void *ptr)
{
    const struct stream *stream = &stage->streams[op->stream];
    return stream->opened ? weir_stream_free(stream->opened, ptr) : weir_free(stage->w, ptr, handle_of(stage, op));
}

static bool do_malloc(struct stage *stage, const struct script_op *op)
{
    struct outcome *outcome = stage->outcome;
    void **place = &stage->blocks[op->block];
    weir_status status = request(stage, op, place);
    weir_error error;
    outcome->requests++;
    if (status == WEIR_OK) {
        stage->sizes[op->block] = op->size;
        stage->live += op->size;
        outcome->peak_live = outcome->peak_live < stage->live ? stage->live : outcome->peak_live;
        return true;
    }
    *place = NULL;
    if (status == WEIR_OUT_OF_MEMORY) {
        outcome->refused++;
        return true;
    }
    weir_last_error(&error);
    return fail(outcome, "a request of %llu bytes failed: %s", (unsigned long long)op->size, error.text);
}

static bool do_free(struct stage *stage, const struct script_op *op)
{
    void *ptr = stage->blocks[op->block];
    weir_error error;
    stage->blocks[op->block] = NULL;
    if (!ptr) {
        stage->outcome->lost++;
        return true;
    }
    stage->live -= stage->sizes[op->block];
    if (give_back(stage, op, ptr) == WEIR_OK)
        return true;
    weir_last_error(&error);
    return fail(stage->outcome, "a free failed: %s", error.text);
}

/* What was refused when it was recorded: what the program would have done with it is not known, so it goes back at once. */
static bool do_refused(struct stage *stage, const struct script_op *op)
{
    void *ptr;
    struct outcome *outcome = stage->outcome;
    outcome->is_last_served = request(stage, op, &ptr) == WEIR_OK;
    if (!outcome->is_last_served)
        return true;
    outcome->newly_served++;
    count_reserved(stage);
    give_back(stage, op, ptr);
    return true;
}

static bool do_synchronise(struct stage *stage, const struct script_op *op)
{
    const struct stream *stream = &stage->streams[op->stream];
    if (stream->opened)
        weir_stream_synchronize(stream->opened, NULL);
    else if (handle_of(stage, op))
        stage->gpu->stream_synchronize(stream->raw);
    return true;
}

static bool do_one(struct stage *stage, const struct script_op *op)
{
    switch (op->what) {
    case SCRIPT_MALLOC:
        return do_malloc(stage, op);
    case SCRIPT_FREE:
        return do_free(stage, op);
    case SCRIPT_OPEN:
        return open_stream(stage, op);
    case SCRIPT_CLOSE:
        close_stream(stage, op);
        return true;
    case SCRIPT_SYNCHRONISE:
        return do_synchronise(stage, op);
    case SCRIPT_TRIM:
        weir_pool_trim(stage->pools[op->pool], 0, NULL, NULL);
        return true;
    case SCRIPT_REFUSED:
        return do_refused(stage, op);
    default:
        return true;
    }
}

static bool step(struct stage *stage, const struct script_op *op)
{
    uint64_t behind = stage->epoch + stage->delays[op->thread];
    uint64_t begin = pass_until(stage, op->time + behind, behind, op->at - op->time);
    go_to(stage, op->at);
    bool is_done = do_one(stage, op);
    uint64_t end = stage->gpu->now(), took = end - begin;
    bool is_call = op->what == SCRIPT_MALLOC || op->what == SCRIPT_FREE || op->what == SCRIPT_REFUSED;
    bool is_trim = op->what == SCRIPT_SYNCHRONISE || op->what == SCRIPT_TRIM;
    stage->delays[op->thread] += took;
    if (is_call || is_trim)
        outcome_add_time(stage->outcome, took);
    bool is_asked_about = stage->script->ends_refused && op == &stage->script->ops[stage->script->count - 1];
    if (took > WEIR__SLOW_TICKS && (is_call || op->what == SCRIPT_TRIM) && !is_asked_about)
        stage->outcome->slow_stall += took;
    if (took || begin != stage->counted) {
        count_area(stage, end);
        count_reserved(stage);
    }
    note_slice(stage);
    return is_done;
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

static bool find_pools(struct stage *stage)
{
    const struct script *script = stage->script;
    weir_error error = WEIR_ERROR_INIT;
    bool *is_other = must(calloc(script->pool_count + 1, sizeof *is_other));
    stage->pools = must(calloc(script->pool_count + 1, sizeof(weir_pool *)));
    stage->own = must(calloc(script->pool_count + 1, sizeof(weir_pool *)));
    for (size_t i = 0; i < script->pool_count; i++) {
        const struct trace_pool *pool = script->pools[i];
        int device = pool->device < INT32_MAX ? (int)pool->device : INT32_MAX;
        if (stage->part && weir_pool_get(stage->w, stage->part->own, device, NULL, &stage->own[i]) != WEIR_OK)
            stage->own[i] = NULL;
        const char *name = script_pool_name(pool);
        if (name && weir_pool_get(stage->w, name, device, NULL, &stage->pools[i]) == WEIR_OK)
            continue;
        is_other[i] = name != NULL;
        if (weir_pool_get(stage->w, NULL, device, &error, &stage->pools[i]) != WEIR_OK) {
            free(is_other);
            return fail(stage->outcome, "the trace uses device %d, where this policy has no pool: %s", device, error.text);
        }
    }
    for (size_t i = 0; i < script->count; i++)
        stage->outcome->other_pools += script->ops[i].what == SCRIPT_MALLOC && is_other[script->ops[i].pool];
    free(is_other);
    return true;
}

/* An arena calls nothing for most requests, so the simulated clock stands still where its own code takes longer than a cache's. */
static void take_stats(struct stage *stage, uint64_t pair_arena)
{
    struct outcome *outcome = stage->outcome;
    weir_stats *stats;
    if (weir_stats_take(stage->w, NULL, &stats) != WEIR_OK)
        return;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        outcome->hits += pool->cache_hits;
        outcome->stall += pool->is_arena ? (pool->mallocs - pool->cache_hits) * pair_arena : 0;
    }
    for (size_t i = 0; i < weir_stats_device_count(stats); i++) {
        outcome->recoveries += weir_stats_device(stats, i)->recoveries;
        for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
            outcome->rescues[rung] += weir_stats_device(stats, i)->rescues[rung];
    }
    weir_stats_free(stats);
}

/* The recorded process's place among others, and its limits: those of this command are not for it. The simulator's devices have one size, so
   they have one quota, too. */
static void set_place(const struct stage *stage, const struct script *script)
{
    const char *local = trace_value(script->trace, "local_device");
    uint64_t least = UINT64_MAX;
    if (local)
        set_variable("LOCAL_RANK", must(strdup(local)));
    if (stage->is_real)
        return;
    unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    unsetenv("CUDA_DEVICE_MEMORY_LIMIT");
    unsetenv("WEIR_QUOTA");
    for (unsigned device = 0; device < script_devices(script); device++) {
        char *limit = format_text("CUDA_DEVICE_MEMORY_LIMIT_%u", device), *key = format_text("gpu.%u.quota", device);
        const char *quota = trace_value(script->trace, key);
        uint64_t bytes = quota ? strtoull(quota, NULL, 10) : 0;
        least = bytes && bytes < least ? bytes : least;
        unsetenv(limit);
        free(limit);
        free(key);
    }
    if (least != UINT64_MAX)
        set_variable("WEIR_QUOTA", format_text("%" PRIu64, least));
}

static bool open_weir(struct stage *stage, const struct replay *replay)
{
    struct outcome *outcome = stage->outcome;
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    const char *why;
    stage->is_real = !replay->machine;
    /* Whether a stream is asked depends on where handles happen to lie; what a replay comes to shall not. */
    char *machine = format_text("stream_capture_status=0us,%s", stage->is_real ? "" : replay->machine);
    bool is_there = stage->is_real || sim_configure(machine, outcome->why, sizeof outcome->why) == 0;
    free(machine);
    if (!is_there)
        return false;
    if (!stage->is_real)
        weir__service_by_hand(gpu_find("sim", &why));
    set_place(stage, replay->script);
    const char *more = replay->assignments && *replay->assignments ? replay->assignments : NULL;
    set_variable("WEIR_CONF", format_text("%s%s%s", ASSIGNMENTS, more ? "," : "", more ? more : ""));
    options.policy_text = replay->policy;
    options.gpu = stage->is_real ? NULL : "sim";
    if (weir_open(&options, &error, &stage->w) != WEIR_OK)
        return fail(outcome, "%s%s%s", error.file, *error.file ? ": " : "", error.text);
    stage->gpu = stage->w->gpu;
    stage->part = replay->part;
    return find_pools(stage);
}

/* What was before counts no more. Hits and recoveries are of the whole replay all the same. */
static void begin_counting(struct stage *stage)
{
    struct outcome *outcome = stage->outcome;
    *outcome = (struct outcome){.other_pools = outcome->other_pools, .peak_reserved = stage->reserved, .peak_live = stage->live};
    stage->counted = stage->begun = stage->gpu->now();
}

static bool play(struct stage *stage, const struct replay *replay)
{
    const struct script *script = stage->script;
    struct outcome *outcome = stage->outcome;
    stage->streams = must(calloc(script->stream_count + 1, sizeof *stage->streams));
    stage->blocks = must(calloc(script->block_count + 1, sizeof *stage->blocks));
    stage->sizes = must(calloc(script->block_count + 1, sizeof *stage->sizes));
    stage->delays = must(calloc(script->thread_count + 1, sizeof *stage->delays));
    stage->begun = stage->counted = stage->gpu->now();
    stage->epoch = stage->begun - script->begin;
    stage->changes = stage->is_real ? 0 : sim_changes();
    uint64_t peak;
    stage->reserved = outcome->peak_reserved = reserved_now(stage, &peak);
    note_slice(stage);
    size_t until = replay->until ? replay->until : script->count;
    for (size_t i = 0; i < until; i++) {
        if (i == replay->from && i > 0)
            begin_counting(stage);
        if (!step(stage, &script->ops[i]) || outcome->why[0])
            return false;
    }
    if (until == script->count)
        pass_until(stage, stage->epoch + script->end, stage->epoch, 0);
    go_to(stage, script->end);
    count_area(stage, stage->gpu->now());
    outcome->elapsed = stage->gpu->now() - stage->begun;
    outcome->end_reserved = stage->reserved;
    take_stats(stage, replay->machine ? replay->pair_arena : 0);
    return true;
}

void replay_run(const struct replay *replay, struct outcome *outcome)
{
    struct stage stage = {.script = replay->script, .outcome = outcome};
    *outcome = (struct outcome){.is_done = false};
    outcome->is_done = open_weir(&stage, replay) && play(&stage, replay);
    free(stage.pools);
    free(stage.own);
    free(stage.streams);
    free(stage.blocks);
    free(stage.sizes);
    free(stage.delays);
    weir_close(stage.w);
}
