/* SPDX-License-Identifier: MIT */
/*
 * columns.c - plays a trace into columns: one table of its events, one of the program's blocks, and one of segments, the device memory in
 * which the blocks lay.
 *
 * The model that the command uses (trace/model.h) decides when a block begins and ends, so that sums over these columns equal the command's
 * figures. A free that the model rejects, because the block was never allocated or because the free is older than the allocation, ends no
 * block here either.
 */
#include "config.h"

#include <stdlib.h>

#include "trace/memory.h"
#include "trace/model.h"
#include "trace/library.h"

/* The rows, in the tables of blocks and segments, of one block of the model; -1 for none. */
struct rows {
    int32_t block, segment;
};

struct columns {
    struct model model;
    struct rows *rows; /* by the block's index in model.blocks */
    size_t row_count, row_room;
    const weir_trace_events *events;
    const weir_trace_blocks *blocks;
    const weir_trace_segments *segments;
    uint64_t event, block, segment; /* the number of rows so far */
    uint64_t event_max, block_max;  /* the rows for which the columns have room */
    bool has_changed;               /* the file has more events or blocks than when it was opened */
};

static int32_t number_of(const void *object, uint32_t number)
{
    return object ? (int32_t)number : -1;
}

#define PUT(table, column, at, value)                                                                                                      \
    do {                                                                                                                                   \
        if ((table)->column)                                                                                                               \
            (table)->column[at] = (value);                                                                                                 \
    } while (0)

static void put_event(const struct columns *columns, const struct trace_event *event)
{
    const weir_trace_events *to = columns->events;
    const uint64_t at = columns->event;
    const size_t pool = event->pool ? (size_t)event->pool->number + 1 : 0;
    const bool has_pool = event->kind != TRACE_MARK && event->kind != TRACE_ASKED;
    const struct model_pool *figures = has_pool && pool < columns->model.pool_count ? &columns->model.pools[pool] : NULL;
    PUT(to, kind, at, (uint8_t)event->kind);
    PUT(to, time, at, event->time);
    PUT(to, thread, at, event->thread);
    PUT(to, stream, at, event->stream);
    PUT(to, address, at, event->address);
    PUT(to, size, at, event->size);
    PUT(to, given, at, event->given);
    PUT(to, a, at, event->a);
    PUT(to, b, at, event->b);
    PUT(to, pool, at, number_of(event->pool, event->pool ? event->pool->number : 0));
    PUT(to, tag, at, number_of(event->tag, event->tag ? event->tag->number : 0));
    PUT(to, stack, at, number_of(event->stack, event->stack ? event->stack->number : 0));
    PUT(to, name, at, number_of(event->name, event->name ? event->name->number : 0));
    PUT(to, live, at, figures ? figures->live.size : 0);
    PUT(to, held, at, figures ? model_held(figures) : 0);
}

/* Blocks and segments ------------------------------------------------------------------------------------------------------------------ */

static int32_t begin_block(struct columns *columns, const struct model_block *block)
{
    const weir_trace_blocks *to = columns->blocks;
    const uint64_t at = columns->block++;
    if (!to)
        return (int32_t)at;
    PUT(to, address, at, block->address);
    PUT(to, size, at, block->size);
    PUT(to, given, at, block->given);
    PUT(to, stream, at, block->stream);
    PUT(to, born, at, block->time);
    PUT(to, died, at, columns->model.now);
    PUT(to, first, at, (int32_t)columns->event);
    PUT(to, last, at, -1);
    PUT(to, pool, at, number_of(block->pool, block->pool ? block->pool->number : 0));
    PUT(to, tag, at, number_of(block->tag, block->tag ? block->tag->number : 0));
    PUT(to, stack, at, number_of(block->stack, block->stack ? block->stack->number : 0));
    return (int32_t)at;
}

static void end_block(const struct columns *columns, int32_t at)
{
    if (!columns->blocks)
        return;
    PUT(columns->blocks, died, at, columns->model.now);
    PUT(columns->blocks, last, at, (int32_t)columns->event);
}

static int32_t begin_segment(struct columns *columns, const struct model_block *block)
{
    const weir_trace_segments *to = columns->segments;
    const uint64_t at = columns->segment++;
    if (!to)
        return (int32_t)at;
    PUT(to, address, at, block->address);
    PUT(to, given, at, block->given);
    PUT(to, first, at, (int32_t)columns->event);
    PUT(to, last, at, -1);
    PUT(to, pool, at, number_of(block->pool, block->pool ? block->pool->number : 0));
    return (int32_t)at;
}

/* Returns the rows of a block of the model. For a new block they are -1. */
static struct rows *rows_of(struct columns *columns, const struct model_block *block)
{
    const size_t place = (size_t)(block - columns->model.blocks);
    while (columns->row_count <= place) {
        *MUST_ADD(columns->rows, columns->row_count, columns->row_room) = (struct rows){-1, -1};
    }
    return &columns->rows[place];
}

/*
 * Applies an event about a block, and begins and ends the rows that the event changes. A row of blocks lasts from the allocation to the
 * free. A row of segments lasts from the memory's allocation at the device until the memory goes back to the device: it goes on while the
 * block is in a cache, unless events are lost and the block turns up with another size.
 */
static void apply_block(struct columns *columns, const struct trace_event *event)
{
    struct model *model = &columns->model;
    const struct model_block *found = model_find(model, event->address, event->pool);
    const struct model_block before = found ? *found : (struct model_block){.state = MODEL_GONE};
    const struct rows had = found ? *rows_of(columns, found) : (struct rows){-1, -1};
    model_apply(model, event);
    found = model_find(model, event->address, event->pool);
    const bool is_host = event->pool && event->pool->flags & TRACE_POOL_HOST;
    const enum model_state after = found ? found->state : MODEL_GONE;
    const bool is_anew = event->kind == TRACE_MALLOC || event->kind == TRACE_SERVE || before.state != after;
    const bool is_same_memory =
        before.state != MODEL_GONE && after != MODEL_GONE && before.given == found->given && event->kind != TRACE_MALLOC;
    struct rows has = had;
    if (is_anew && before.state == MODEL_LIVE)
        end_block(columns, had.block);
    if (is_anew && after == MODEL_LIVE)
        has.block = begin_block(columns, found);
    if (!is_same_memory && had.segment >= 0 && columns->segments)
        PUT(columns->segments, last, had.segment, (int32_t)columns->event);
    if (!is_same_memory)
        has.segment = found && !is_host ? begin_segment(columns, found) : -1;
    if (found)
        *rows_of(columns, found) = has;
}

static bool look(void *context, const struct trace_event *event)
{
    struct columns *columns = context;
    columns->has_changed =
        columns->event >= columns->event_max || columns->block >= columns->block_max || columns->segment >= columns->block_max;
    if (columns->has_changed)
        return false;
    if (event->kind <= TRACE_CACHED)
        apply_block(columns, event);
    else
        model_apply(&columns->model, event);
    if (columns->events)
        put_event(columns, event);
    columns->event++;
    return true;
}

void columns_free(struct weir_trace *trace)
{
    if (!trace->columns)
        return;
    model_free(&trace->columns->model);
    free(trace->columns->rows);
    free(trace->columns);
    trace->columns = NULL;
}

struct playing {
    weir_trace *trace;
    weir_trace_error *error;
};

static bool play(void *context)
{
    const struct playing *playing = context;
    weir_trace *trace = playing->trace;
    if (!trace_play(&trace->trace, look, trace->columns))
        return library_fail(playing->error, "%s", trace->trace.error);
    return !trace->columns->has_changed || library_fail(playing->error, "it changed while it was read");
}

/* Lets the blocks that were never freed end at the time of the last event. */
static void end_all(const struct columns *columns)
{
    if (!columns->blocks || !columns->blocks->died || !columns->blocks->last)
        return;
    for (uint64_t i = 0; i < columns->block; i++)
        if (columns->blocks->last[i] < 0)
            columns->blocks->died[i] = columns->model.now;
}

bool weir_trace_play(weir_trace *trace, const weir_trace_events *events, const weir_trace_blocks *blocks,
                     const weir_trace_segments *segments, weir_trace_error *error, uint64_t *block_count, uint64_t *segment_count)
{
    struct playing playing = {trace, error};
    if (trace->is_broken)
        return library_fail(error, "there is no host memory for it");
    if (trace->trace.events > INT32_MAX)
        return library_fail(error, "it has more than 2,147,483,647 events");
    columns_free(trace);
    trace->columns = calloc(1, sizeof *trace->columns);
    if (!trace->columns)
        return library_fail(error, "there is no host memory for it");
    trace->columns->events = events;
    trace->columns->blocks = blocks;
    trace->columns->segments = segments;
    trace->columns->event_max = weir_trace_count(trace, WEIR_TRACE_EVENTS);
    trace->columns->block_max = weir_trace_count(trace, WEIR_TRACE_BLOCKS) + 1;
    trace->is_broken = true; /* stays set if host memory runs out: library_run() then leaves the play in the middle */
    if (!library_run(play, &playing, error))
        return false;
    trace->is_broken = false;
    end_all(trace->columns);
    if (block_count)
        *block_count = trace->columns->block;
    if (segment_count)
        *segment_count = trace->columns->segment;
    columns_free(trace);
    return true;
}
