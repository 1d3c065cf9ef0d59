/* SPDX-License-Identifier: MIT */
#include "tools/replay/script.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "trace/map.h"
#include "trace/model.h"

#define GROWTH_MOST (UINT64_C(1) << 44) /* bytes of one growth: more is none, in a trace that is a stranger's */
#define GROWTH_TIME_MOST UINT64_C(60000000000) /* ns, likewise */

#define DEVICES_MAX 16
#define DEVICE_LEAST (UINT64_C(32) << 20) /* bytes; none has less */

/* A time that the thread waited for memory. */
struct span {
    uint64_t begin, length;
    bool is_unmap; /* it may be part of a synchronise, whose time no recording tells apart */
};

struct thread {
    struct span *spans;
    size_t span_count, span_room;
    uint64_t stalled;  /* ns, over all spans so far, */
    uint64_t unmapped; /* and of unmaps among them that are part of no other span */
    uint64_t before;   /* the first less the second when its last request or free was over */
    uint64_t last;     /* the thread's own time of its last operation */
    bool has_requests; /* else it is one of Weir's, and what it trims is no deed of the program */
    bool is_waiting;   /* its request waited or recovers, and is neither served nor refused yet: what is trimmed now Weir trims */
};

struct maker {
    struct script *script;
    struct model model;
    struct trace_map pools, streams, blocks; /* by number; by handle and device; by address and pool */
    struct trace_map labels;                 /* by number and whether it is a stream's */
    struct thread *threads;
    uint32_t *free_places; /* of blocks */
    size_t free_count, free_room;
    bool *is_open; /* of each stream, just now */
    size_t open_room;
    uint64_t until; /* events */
    uint64_t held;   /* bytes that pools have of devices */
    uint16_t *block_streams; /* of each place of a block: the stream that had it */
    size_t block_stream_room;
    const char *why; /* it cannot be made */
};

/* Time --------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t bounded(uint64_t time)
{
    return time < SCRIPT_TIME_MAX ? time : SCRIPT_TIME_MAX;
}

/* A stall of so many ns ends at `end`. Those that lie within it were counted already, and no time counts twice. */
static void add_stall(struct thread *thread, uint64_t end, uint64_t length, bool is_unmap)
{
    end = bounded(end);
    if (length > end)
        length = end;
    uint64_t begin = end - length;
    while (thread->span_count && thread->spans[thread->span_count - 1].begin >= begin) {
        const struct span *within = &thread->spans[--thread->span_count];
        thread->stalled -= within->length;
        thread->unmapped -= within->is_unmap ? within->length : 0;
    }
    if (thread->span_count) {
        const struct span *last = &thread->spans[thread->span_count - 1];
        begin = begin > last->begin + last->length ? begin : last->begin + last->length;
        length = end > begin ? end - begin : 0;
    }
    *MUST_ADD(thread->spans, thread->span_count, thread->span_room) = (struct span){begin, length, is_unmap};
    thread->stalled += length;
    thread->unmapped += is_unmap ? length : 0;
}

static uint64_t own_time(struct thread *thread, uint64_t time)
{
    uint64_t own = bounded(time) > thread->stalled ? bounded(time) - thread->stalled : 0;
    thread->last = own > thread->last ? own : thread->last;
    return thread->last;
}

/* Operations --------------------------------------------------------------------------------------------------------------------------- */

static struct script_op *add(struct maker *maker, const struct trace_event *event, enum script_what what)
{
    struct script *script = maker->script;
    struct script_op *op = MUST_ADD(script->ops, script->count, script->room);
    *op = (struct script_op){.what = (uint8_t)what, .thread = (uint16_t)event->thread_number};
    op->time = own_time(&maker->threads[event->thread_number], event->time);
    op->at = bounded(event->time) > op->time ? bounded(event->time) : op->time;
    return op;
}

/* -1: there are too many. */
static int find_pool(struct maker *maker, const struct trace_pool *pool)
{
    struct script *script = maker->script;
    bool is_new;
    uint32_t *place = trace_map_add(&maker->pools, pool->number, 0, &is_new);
    if (!is_new)
        return (int)*place;
    if (script->pool_count == SCRIPT_POOLS_MAX) {
        maker->why = "it has more than 65,536 pools";
        return -1;
    }
    script->pools = must_grow(script->pools, script->pool_count, &script->pool_room, sizeof(void *));
    script->pools[script->pool_count] = pool;
    *place = (uint32_t)script->pool_count;
    return (int)script->pool_count++;
}

static int find_stream(struct maker *maker, const struct trace_event *event)
{
    struct script *script = maker->script;
    bool is_new;
    uint32_t *place = trace_map_add(&maker->streams, event->stream, event->pool ? event->pool->device : 0, &is_new);
    if (!is_new)
        return (int)*place;
    if (script->stream_count == SCRIPT_STREAMS_MAX) {
        maker->why = "it has more than 65,536 streams";
        return -1;
    }
    *place = (uint32_t)script->stream_count;
    script->streams = must_grow(script->streams, script->stream_count, &script->stream_room, sizeof *script->streams);
    maker->is_open = must_grow(maker->is_open, script->stream_count, &maker->open_room, sizeof *maker->is_open);
    script->streams[script->stream_count] = (struct script_stream){.handle = event->stream};
    maker->is_open[script->stream_count] = false;
    return (int)script->stream_count++;
}

static uint16_t find_label(struct maker *maker, const struct trace_text *text, bool is_stream)
{
    struct script *script = maker->script;
    uint32_t *place = text ? trace_map_find(&maker->labels, text->number, is_stream) : NULL;
    if (place)
        return (uint16_t)*place;
    if (!text || script->label_count == SCRIPT_LABELS_MAX)
        return 0;
    *MUST_ADD(script->labels, script->label_count, script->label_room) = (struct script_label){text->text, is_stream};
    bool is_new;
    *trace_map_add(&maker->labels, text->number, is_stream, &is_new) = (uint32_t)script->label_count;
    return (uint16_t)script->label_count;
}

static uint32_t take_place(struct maker *maker)
{
    struct script *script = maker->script;
    if (maker->free_count)
        return maker->free_places[--maker->free_count];
    maker->block_streams = must_grow(maker->block_streams, script->block_count, &maker->block_stream_room, sizeof maker->block_streams[0]);
    return (uint32_t)script->block_count++;
}

static void give_place(struct maker *maker, uint32_t place)
{
    *MUST_ADD(maker->free_places, maker->free_count, maker->free_room) = place;
}

static void open_stream(struct maker *maker, const struct trace_event *event, int stream, int pool, const struct trace_text *name)
{
    struct script_op *op = add(maker, event, SCRIPT_OPEN);
    op->stream = (uint16_t)stream;
    op->pool = (uint16_t)pool;
    op->label = find_label(maker, name, true);
    maker->script->streams[stream].is_opened = true;
    maker->is_open[stream] = true;
}

/* Whether a stream that the trace saw nobody open was open all the same: the recording began too late, or cannot tell; or whoever brings an
   unaware program to Weir opens it. */
static bool was_open_before(const struct maker *maker, const struct trace_event *event)
{
    const struct trace *trace = maker->script->trace;
    return event->pool->flags & TRACE_POOL_UNAWARE || !trace->header.reason || strcmp(trace->header.reason, "file") != 0;
}

static void free_block(struct maker *maker, const struct trace_event *event, int stream, int pool)
{
    const uint32_t *place = trace_map_find(&maker->blocks, event->address, event->pool->number);
    if (!place) {
        maker->script->unknown_frees++;
        return;
    }
    struct script_op *op = add(maker, event, SCRIPT_FREE);
    op->block = *place;
    /* A free of cudaMalloc's is of no stream: that of the block will do, as the free waits for all. */
    op->stream = unaware_is_malloc(event->pool) ? maker->block_streams[*place] : (uint16_t)stream;
    op->pool = (uint16_t)pool;
    give_place(maker, *place);
    trace_map_remove(&maker->blocks, event->address, event->pool->number);
}

static void get_block(struct maker *maker, const struct trace_event *event, int stream, int pool)
{
    bool is_new;
    if (trace_map_find(&maker->blocks, event->address, event->pool->number)) {
        if (event->kind == TRACE_LIVE || event->kind == TRACE_CACHED)
            return;
        free_block(maker, event, stream, pool); /* its end was lost */
    }
    uint32_t place = take_place(maker);
    struct script_op *op = add(maker, event, SCRIPT_MALLOC);
    op->block = place;
    op->size = event->size ? event->size : event->given;
    op->label = find_label(maker, event->tag, false);
    op->stream = (uint16_t)stream;
    op->pool = (uint16_t)pool;
    *trace_map_add(&maker->blocks, event->address, event->pool->number, &is_new) = place;
    maker->block_streams[place] = (uint16_t)stream;
    maker->script->requests++;
    maker->threads[event->thread_number].has_requests = true;
}

static void look_at_block(struct maker *maker, const struct trace_event *event)
{
    int pool = find_pool(maker, event->pool);
    int stream = pool < 0 ? -1 : find_stream(maker, event);
    if (stream < 0)
        return;
    bool is_cached = event->kind == TRACE_SERVE || event->kind == TRACE_KEEP || event->kind == TRACE_CACHED;
    if (!maker->is_open[stream] && (is_cached || (!maker->script->streams[stream].is_opened && was_open_before(maker, event))))
        open_stream(maker, event, stream, pool, NULL);
    struct thread *thread = &maker->threads[event->thread_number];
    if (event->kind != TRACE_RETURN) {
        thread->before = thread->stalled - thread->unmapped;
        thread->is_waiting = false;
    }
    switch (event->kind) {
    case TRACE_CACHED:
        get_block(maker, event, stream, pool);
        free_block(maker, event, stream, pool);
        break;
    case TRACE_FREE:
    case TRACE_KEEP:
        free_block(maker, event, stream, pool);
        break;
    case TRACE_RETURN: /* a cache's deed, where the trace tells of caches; else nobody had the block but the cache */
        if (!maker->script->has_caches)
            free_block(maker, event, stream, pool);
        break;
    default:
        get_block(maker, event, stream, pool);
    }
}

/* What took so long is part of a request, and so are the trims that were not over when it began: they are Weir's. */
static void take_back_trims(struct maker *maker, const struct trace_event *event, uint64_t length)
{
    struct script *script = maker->script;
    uint64_t begin = event->time > length ? event->time - length : 0;
    for (size_t i = script->count; i-- > 0 && i + 64 > script->count;) {
        struct script_op *op = &script->ops[i];
        if (op->thread == event->thread_number && op->what == SCRIPT_TRIM && op->size + !length > begin)
            op->what = SCRIPT_NOTHING;
    }
}

static void look_at_refusal(struct maker *maker, const struct trace_event *event)
{
    int pool = find_pool(maker, event->pool), stream = pool < 0 ? -1 : find_stream(maker, event);
    if (stream < 0)
        return;
    struct script_op *op = add(maker, event, SCRIPT_REFUSED);
    op->size = event->a;
    op->stream = (uint16_t)stream;
    op->pool = (uint16_t)pool;
    maker->script->recorded.refused++;
    struct thread *thread = &maker->threads[event->thread_number];
    thread->is_waiting = false;
    if (maker->model.applied >= maker->until) {
        maker->script->ends_refused = true;
        thread->stalled = thread->before + thread->unmapped;
    }
}

static void look_at_stream(struct maker *maker, const struct trace_event *event)
{
    int pool = event->pool ? find_pool(maker, event->pool) : 0, stream = pool < 0 ? -1 : find_stream(maker, event);
    if (stream < 0)
        return;
    if (event->kind == TRACE_STREAM_OPEN) {
        if (!maker->is_open[stream])
            open_stream(maker, event, stream, pool, event->name);
        return;
    }
    bool is_close = event->kind == TRACE_STREAM_CLOSE;
    if (is_close && !maker->is_open[stream])
        return;
    add(maker, event, is_close ? SCRIPT_CLOSE : SCRIPT_SYNCHRONISE)->stream = (uint16_t)stream;
    maker->is_open[stream] = maker->is_open[stream] && !is_close;
    maker->script->has_synchronises = maker->script->has_synchronises || !is_close;
}

/* Of pools on devices: growing one on the host takes a hundred times as long. */
static void look_at_growth(struct script_recorded *recorded, const struct trace_event *event)
{
    bool is_arena = event->pool->flags & TRACE_POOL_ARENA;
    struct script_growth *growth = is_arena ? &recorded->arenas : &recorded->pools;
    if (!event->a || event->a > GROWTH_MOST || event->b > GROWTH_TIME_MOST || event->pool->flags & TRACE_POOL_HOST)
        return;
    if (!is_arena && !recorded->first.count)
        growth = &recorded->first;
    growth->count++;
    growth->bytes += event->a;
    growth->time += event->b;
}

static void look_at_pool(struct maker *maker, const struct trace_event *event)
{
    struct thread *thread = &maker->threads[event->thread_number];
    if (event->kind == TRACE_MAP)
        look_at_growth(&maker->script->recorded, event);
    switch (event->kind) {
    case TRACE_MAP:
    case TRACE_UNMAP:
        if (event->kind == TRACE_MAP)
            take_back_trims(maker, event, event->b);
        add_stall(thread, event->time, event->b, event->kind == TRACE_UNMAP);
        break;
    case TRACE_WAIT:
    case TRACE_RUNG: {
        uint64_t length = event->kind == TRACE_WAIT ? event->a : event->b;
        take_back_trims(maker, event, length);
        add_stall(thread, event->time, length, false);
        thread->is_waiting = true;
        break;
    }
    case TRACE_TRIM: {
        int pool = find_pool(maker, event->pool);
        add_stall(thread, event->time, event->b, false);
        if (pool < 0 || thread->is_waiting)
            break;
        struct script_op *op = add(maker, event, SCRIPT_TRIM);
        op->pool = (uint16_t)pool;
        op->size = event->time;
        break;
    }
    default:
        maker->script->settings += event->kind == TRACE_SETTINGS;
    }
}

/* What a pool that sleeps would hold counts, as in the replay it is awake. */
static uint64_t held_by(const struct model *model, const struct trace_pool *pool)
{
    bool counts = pool && !(pool->flags & TRACE_POOL_HOST) && unaware_is_replayed(pool) && !unaware_is_malloc(pool) &&
                  pool->number + 1 < model->pool_count;
    const struct model_pool *of = counts ? &model->pools[pool->number + 1] : NULL;
    return !of ? 0 : of->is_asleep ? of->live.given + of->cached : model_held(of);
}

/* Applies the event, and goes on with what pools hold of devices: no replay counts those of the host. */
static void apply(struct maker *maker, const struct trace_event *event)
{
    struct script_recorded *recorded = &maker->script->recorded;
    struct script_unaware *unaware = &maker->script->unaware;
    maker->held -= held_by(&maker->model, event->pool);
    unaware_count(unaware, &maker->model, event, false);
    model_apply(&maker->model, event);
    maker->held += held_by(&maker->model, event->pool);
    unaware_count(unaware, &maker->model, event, true);
    uint64_t memory = maker->script->memory, all = maker->held + unaware_taken(unaware), held = all < memory ? all : memory;
    recorded->peak_reserved = held > recorded->peak_reserved ? held : recorded->peak_reserved;
}

static bool look(void *data, const struct trace_event *event)
{
    struct maker *maker = data;
    unsigned fields = trace_kind_fields(event->kind);
    if (maker->model.applied >= maker->until)
        return false;
    apply(maker, event);
    /* An unaware program waits for streams and devices, whatever pools they have. */
    if (event->kind == TRACE_SYNCHRONISE && !event->pool && maker->script->pool_count)
        look_at_stream(maker, event);
    if (!(fields & TRACE_HAS_POOL) || !event->pool || !unaware_look(&maker->script->unaware, event))
        return true;
    if (event->kind == TRACE_GRAPH_MALLOC || event->kind == TRACE_GRAPH_FREE)
        maker->script->graphs++;
    else if (fields & TRACE_HAS_ADDRESS)
        look_at_block(maker, event);
    else if (event->kind == TRACE_OUT_OF_MEMORY)
        look_at_refusal(maker, event);
    else if (fields & TRACE_HAS_STREAM)
        look_at_stream(maker, event);
    else
        look_at_pool(maker, event);
    return !maker->why;
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

static void describe_recording(struct maker *maker)
{
    struct script_recorded *recorded = &maker->script->recorded;
    const struct model *model = &maker->model;
    recorded->peak_live = model->total.peak_size;
    recorded->has_reserved = model->pool_count > 1;
    recorded->most = model->pool_count > 1 ? 0 : UINT64_MAX;
    for (size_t i = 1; i < model->pool_count; i++) {
        const struct model_pool *pool = &model->pools[i];
        recorded->has_reserved = recorded->has_reserved && (pool->has_reserved || !pool->live.allocations || !pool->pool ||
                                                            !unaware_is_replayed(pool->pool) || unaware_is_malloc(pool->pool));
        bool has_cap = pool->has_settings && pool->cap && pool->cap < UINT64_MAX - recorded->most;
        recorded->most = has_cap ? recorded->most + pool->cap : UINT64_MAX;
    }
}

/* What threads of Weir's own did is no deed of the program. */
static void drop_trims_of_others(struct maker *maker)
{
    struct script *script = maker->script;
    for (size_t i = 0; i < script->count; i++)
        if (script->ops[i].what == SCRIPT_TRIM && !maker->threads[script->ops[i].thread].has_requests)
            script->ops[i].what = SCRIPT_NOTHING;
    for (size_t i = 0; i < script->thread_count; i++)
        script->asking_count += maker->threads[i].has_requests;
    for (size_t i = 0; i < script->thread_count; i++)
        script->recorded.stall += maker->threads[i].has_requests ? maker->threads[i].stalled - maker->threads[i].unmapped : 0;
}

/* UINT64_MAX: that of the first is not known, or is none. */
static uint64_t memory_of_devices(const struct trace *trace)
{
    uint64_t sum = 0, bytes = DEVICE_LEAST;
    for (unsigned device = 0; device < DEVICES_MAX && bytes >= DEVICE_LEAST; device++) {
        bytes = trace_memory(trace, device);
        sum = bytes < UINT64_MAX - sum ? sum + bytes : UINT64_MAX;
    }
    return sum >= DEVICE_LEAST ? sum : UINT64_MAX;
}

bool script_make(struct script *script, struct trace *trace)
{
    return script_make_until(script, trace, UINT64_MAX);
}

bool script_make_until(struct script *script, struct trace *trace, uint64_t events)
{
    struct maker maker = {.script = script, .until = events};
    *script = (struct script){.trace = trace, .thread_count = trace->thread_count, .memory = memory_of_devices(trace)};
    script->begin = bounded(trace->first);
    script->end = bounded(trace->last);
    script->has_caches = (trace->header.level && strcmp(trace->header.level, "all") == 0);
    if (trace->thread_count > SCRIPT_THREADS_MAX) {
        complain("%s: it has more than 65,536 threads", trace->path);
        return false;
    }
    maker.threads = must(calloc(trace->thread_count + 1, sizeof *maker.threads));
    for (size_t i = 0; i < trace->thread_count; i++)
        maker.threads[i].last = script->begin; /* also if it waited for its first event */
    bool is_read = trace_play(trace, look, &maker);
    if (!is_read || maker.why)
        complain("%s: %s", trace->path, maker.why ? maker.why : trace->error);
    if (maker.model.applied < trace->events && script->count)
        script->end = script->ops[script->count - 1].time;
    unaware_settle(script);
    describe_recording(&maker);
    drop_trims_of_others(&maker);
    model_free(&maker.model);
    trace_map_free(&maker.pools);
    trace_map_free(&maker.streams);
    trace_map_free(&maker.blocks);
    trace_map_free(&maker.labels);
    for (size_t i = 0; i < trace->thread_count; i++)
        free(maker.threads[i].spans);
    free(maker.threads);
    free(maker.free_places);
    free(maker.block_streams);
    free(maker.is_open);
    return is_read && !maker.why;
}

void script_free(struct script *script)
{
    free(script->ops);
    free(script->streams);
    free(script->pools);
    free(script->labels);
    *script = (struct script){.trace = NULL};
}

unsigned script_devices(const struct script *script)
{
    uint64_t last = 0;
    for (size_t i = 0; i < script->pool_count; i++)
        last = script->pools[i]->device > last ? script->pools[i]->device : last;
    return last < DEVICES_MAX ? (unsigned)last + 1 : DEVICES_MAX;
}
