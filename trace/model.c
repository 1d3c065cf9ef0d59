/* SPDX-License-Identifier: MIT */
#include "trace/model.h"
#include "trace/memory.h"

#include <stdlib.h>
#include <string.h>

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the array, made long enough to have the index `place`. New items are zeroed. */
static void *reach(void *items, size_t *count, size_t *room, size_t place, size_t size)
{
    if (place < *count)
        return items;
    if (place >= *room) {
        *room = place < 16 ? 32 : 2 * place;
        items = must(realloc(items, *room * size));
    }
    memset((char *)items + *count * size, 0, (place + 1 - *count) * size);
    *count = place + 1;
    return items;
}

/* Sums ----------------------------------------------------------------------------------------------------------------------------------
 */

static struct model_pool *pool_of(struct model *model, const struct trace_pool *pool)
{
    size_t place = pool ? (size_t)pool->number + 1 : 0;
    model->pools = reach(model->pools, &model->pool_count, &model->pool_room, place, sizeof model->pools[0]);
    model->pools[place].pool = pool;
    return &model->pools[place];
}

static struct model_sum *tag_of(struct model *model, const struct trace_text *tag)
{
    size_t place = tag ? (size_t)tag->number + 1 : 0, count = model->tag_count, room = model->tag_room;
    model->tags = reach(model->tags, &count, &room, place, sizeof model->tags[0]);
    model->tag_names = reach(model->tag_names, &model->tag_count, &model->tag_room, place, sizeof model->tag_names[0]);
    model->tag_names[place] = tag;
    return &model->tags[place];
}

static struct model_sum *stack_of(struct model *model, const struct trace_stack *stack)
{
    size_t place = stack ? (size_t)stack->number + 1 : 0, count = model->stack_count, room = model->stack_room;
    model->stacks = reach(model->stacks, &count, &room, place, sizeof model->stacks[0]);
    model->stack_frames = reach(model->stack_frames, &model->stack_count, &model->stack_room, place, sizeof model->stack_frames[0]);
    model->stack_frames[place] = stack;
    return &model->stacks[place];
}

static struct model_stream *stream_of(struct model *model, uint64_t stream)
{
    bool is_new;
    uint32_t *place = trace_map_add(&model->by_stream, stream, 0, &is_new);
    if (is_new) {
        *place = (uint32_t)model->stream_count;
        *MUST_ADD(model->streams, model->stream_count, model->stream_room) = (struct model_stream){.stream = stream};
    }
    return &model->streams[*place];
}

static void sum_add(struct model_sum *sum, const struct model_block *block, bool is_allocated)
{
    sum->blocks++;
    sum->size = plus(sum->size, block->size);
    sum->given = plus(sum->given, block->given);
    sum->peak_size = most(sum->peak_size, sum->size);
    sum->peak_given = most(sum->peak_given, sum->given);
    sum->allocations += is_allocated;
    sum->allocated = plus(sum->allocated, is_allocated ? block->size : 0);
}

static void sum_take(struct model_sum *sum, const struct model_block *block)
{
    sum->blocks--;
    sum->size = minus(sum->size, block->size);
    sum->given = minus(sum->given, block->given);
}

static void span_add(struct model *model, struct model_span *span, uint64_t bytes, uint64_t ns)
{
    span->count++;
    span->bytes = plus(span->bytes, bytes);
    span->ns = plus(span->ns, ns);
    if (ns >= span->longest_ns) {
        span->longest_ns = ns;
        span->longest_at = model->now;
    }
}

void model_span_join(struct model_span *sum, const struct model_span *span)
{
    sum->count += span->count;
    sum->bytes = plus(sum->bytes, span->bytes);
    sum->ns = plus(sum->ns, span->ns);
    if (span->longest_ns >= sum->longest_ns) {
        sum->longest_ns = span->longest_ns;
        sum->longest_at = span->longest_at;
    }
}

uint64_t model_held(const struct model_pool *pool)
{
    /* The recorded figure of reserved bytes may be older than the newest blocks, so take the larger of the two. */
    uint64_t given = plus(pool->live.given, pool->cached);
    return pool->has_reserved && (pool->is_asleep || pool->reserved > given) ? pool->reserved : given;
}

/* Updates the sum and the peaks of held bytes after a change of the pool. before: the pool's held bytes before the change. */
static void hold(struct model *model, struct model_pool *pool, uint64_t before)
{
    uint64_t held = model_held(pool);
    pool->held_peak = most(pool->held_peak, held);
    model->held = plus(minus(model->held, before), held);
    model->peak_held = most(model->peak_held, model->held);
}

/* Blocks --------------------------------------------------------------------------------------------------------------------------------
 */

static uint64_t key_of(const struct trace_pool *pool)
{
    return pool ? (uint64_t)pool->number + 1 : 0;
}

static struct model_block *find(const struct model *model, uint64_t address, const struct trace_pool *pool)
{
    const uint32_t *place = trace_map_find(&model->by_address, address, key_of(pool));
    return place ? &model->blocks[*place] : NULL;
}

const struct model_block *model_find(const struct model *model, uint64_t address, const struct trace_pool *pool)
{
    return find(model, address, pool);
}

/* Removes a block from the sums. */
static void leave(struct model *model, const struct model_block *block)
{
    struct model_pool *pool = pool_of(model, block->pool);
    uint64_t before = model_held(pool);
    if (block->state == MODEL_LIVE) {
        sum_take(&pool->live, block);
        sum_take(tag_of(model, block->tag), block);
        sum_take(stack_of(model, block->stack), block);
        sum_take(&stream_of(model, block->stream)->live, block);
        sum_take(&model->total, block);
    } else {
        pool->cached_blocks--;
        pool->cached = minus(pool->cached, block->given);
    }
    hold(model, pool, before);
}

/* Adds a block to the sums of its state: of live blocks by pool, tag, stack and stream; of cached blocks by pool. */
static void enter(struct model *model, const struct model_block *block)
{
    struct model_pool *pool = pool_of(model, block->pool);
    uint64_t before = model_held(pool);
    if (block->state == MODEL_LIVE) {
        bool is_allocated = block->kind == TRACE_MALLOC || block->kind == TRACE_SERVE;
        uint64_t peak = model->total.peak_size;
        sum_add(&pool->live, block, is_allocated);
        sum_add(tag_of(model, block->tag), block, is_allocated);
        sum_add(stack_of(model, block->stack), block, is_allocated);
        sum_add(&stream_of(model, block->stream)->live, block, is_allocated);
        sum_add(&model->total, block, is_allocated);
        if (model->total.peak_size > peak)
            model->peak = (struct model_moment){.time = model->now, .event = model->applied + 1};
    } else {
        pool->cached_blocks++;
        pool->cached = plus(pool->cached, block->given);
    }
    hold(model, pool, before);
}

/* Adds a block for the event's address and pool, in a free place if there is one. */
static struct model_block *make_block(struct model *model, const struct trace_event *event)
{
    bool is_new;
    uint32_t *place = trace_map_add(&model->by_address, event->address, key_of(event->pool), &is_new);
    if (model->free_block) {
        *place = model->free_block - 1;
        model->free_block = model->blocks[*place].next_free;
    } else {
        model->blocks = must_grow(model->blocks, model->block_count, &model->block_room, sizeof model->blocks[0]);
        *place = (uint32_t)model->block_count++;
    }
    return &model->blocks[*place];
}

/* Gives the event's block the given state and the fields of the event. Adds the block if it is not known yet. */
static void begin(struct model *model, const struct trace_event *event, enum model_state state)
{
    struct model_block *block = find(model, event->address, event->pool);
    /* It is normal that the block is known if it goes into a cache, or comes from one. In all other cases its free was lost: count that. */
    if (block) {
        bool is_expected = event->kind == TRACE_KEEP || (event->kind == TRACE_SERVE && block->state == MODEL_CACHED);
        model->reused += !is_expected;
        leave(model, block);
    } else {
        block = make_block(model, event);
    }
    *block = (struct model_block){
        .state = state,
        .address = event->address,
        .size = state == MODEL_LIVE ? event->size : 0,
        .given = event->given,
        .stream = event->stream,
        .time = event->time,
        .order = event->order,
        .thread = event->thread,
        .kind = event->kind,
        .pool = event->pool,
        .tag = event->tag,
        .stack = event->stack,
        .stream_name = event->stream_name,
    };
    enter(model, block);
}

/* Returns whether an event that ends a block is older than the event that began this block. Then it belongs to an earlier block at the same
   address. Only order numbers of the same sort (orders.h) can be compared. */
static bool is_late(const struct model_block *block, const struct trace_event *event)
{
    bool is_same_sort = trace_event_is_of_stream(block->kind) == trace_event_is_of_stream(event->kind) &&
                        (!trace_event_is_of_stream(event->kind) || block->stream == event->stream);
    return is_same_sort && event->order < block->order;
}

/* Finds the block that the event ends. Returns whether the event may end the block; if not, because the block is unknown (*block is NULL)
   or the event is late, counts that. */
static bool may_end(struct model *model, const struct trace_event *event, struct model_block **block)
{
    *block = find(model, event->address, event->pool);
    if (*block && !is_late(*block, event))
        return true;
    if (*block)
        model->late_ends++;
    else
        model->unknown_ends++;
    return false;
}

/* Removes a block from the sums and from the map, and makes its place free. */
static void drop(struct model *model, struct model_block *block)
{
    leave(model, block);
    trace_map_remove(&model->by_address, block->address, key_of(block->pool));
    *block = (struct model_block){.state = MODEL_GONE, .next_free = model->free_block};
    model->free_block = (uint32_t)(block - model->blocks) + 1;
}

static void end(struct model *model, const struct trace_event *event)
{
    struct model_block *block;
    if (may_end(model, event, &block))
        drop(model, block);
}

void model_forget_live(struct model *model)
{
    for (size_t i = 0; i < model->block_count; i++)
        if (model->blocks[i].state == MODEL_LIVE)
            drop(model, &model->blocks[i]);
}

/* Moves a block from the program to a cache. A block that was not known is cached from now on, too. */
static void keep(struct model *model, const struct trace_event *event)
{
    struct model_block *block;
    if (may_end(model, event, &block) || !block)
        begin(model, event, MODEL_CACHED);
}

static void apply_block(struct model *model, const struct trace_event *event)
{
    switch (event->kind) {
    case TRACE_MALLOC:
    case TRACE_SERVE:
        begin(model, event, MODEL_LIVE);
        break;
    case TRACE_FREE:
    case TRACE_RETURN:
        end(model, event);
        break;
    case TRACE_KEEP:
        keep(model, event);
        break;
    default: /* LIVE and CACHED add a block that is not known yet; they change no known one */
        if (!find(model, event->address, event->pool))
            begin(model, event, event->kind == TRACE_LIVE ? MODEL_LIVE : MODEL_CACHED);
    }
}

/* All else ------------------------------------------------------------------------------------------------------------------------------
 */

static void set_reserved(struct model *model, struct model_pool *pool, uint64_t bytes)
{
    uint64_t before = model_held(pool);
    pool->has_reserved = true;
    pool->reserved = bytes;
    pool->reserved_peak = most(pool->reserved_peak, bytes);
    hold(model, pool, before);
}

/* Live blocks of a pool that sleeps hold no memory of the device. */
static void apply_sleep(struct model *model, struct model_pool *pool, bool is_asleep)
{
    uint64_t before = model_held(pool);
    pool->is_asleep = is_asleep;
    hold(model, pool, before);
}

static void apply_figures(struct model *model, const struct trace_event *event)
{
    set_reserved(model, pool_of(model, event->pool), event->b);
}

/* Applies an event by which a pool got memory from its device, or gave some back. Reserved bytes change here only where no other event says
   so: the growth of a CUDA pool has an event FIGURES as well, and the trim of an arena events UNMAP. */
static void apply_memory(struct model *model, const struct trace_event *event)
{
    struct model_pool *pool = pool_of(model, event->pool);
    bool is_arena = event->pool && event->pool->flags & TRACE_POOL_ARENA;
    if (event->kind == TRACE_MAP) {
        span_add(model, &pool->growth, event->a, event->b);
        if (is_arena)
            set_reserved(model, pool, plus(pool->reserved, event->a));
        return;
    }
    span_add(model, event->kind == TRACE_UNMAP ? &pool->unmaps : &pool->trims, event->a, event->b);
    if (pool->has_reserved && (event->kind == TRACE_UNMAP || !is_arena))
        set_reserved(model, pool, minus(pool->reserved, event->a));
}

/* Counts a call that held its thread up. The call's stack enters the list of stacks even if no block has that stack. */
static void apply_held(struct model *model, const struct trace_event *event)
{
    bool is_new;
    uint64_t call = event->a < UINT32_MAX ? event->a : UINT32_MAX, stack = event->stack ? event->stack->number + UINT64_C(1) : 0;
    uint32_t *place = trace_map_add(&model->by_stall, call << 32 | key_of(event->pool), stack, &is_new);
    if (is_new) {
        *place = (uint32_t)model->stall_count;
        model->stalls = must_grow(model->stalls, model->stall_count, &model->stall_room, sizeof model->stalls[0]);
        model->stalls[model->stall_count++] = (struct model_stall){.call = call, .pool = event->pool, .stack = event->stack};
        stack_of(model, event->stack);
    }
    span_add(model, &model->stalls[*place].span, event->size, event->b);
}

static void apply_moment(struct model *model, const struct trace_event *event)
{
    struct model_moment moment = {.time = model->now, .event = model->applied, .name = event->name};
    if (event->kind == TRACE_MARK) {
        *MUST_ADD(model->marks, model->mark_count, model->mark_room) = moment;
        return;
    }
    struct model_pool *pool = pool_of(model, event->pool);
    *(event->b ? &pool->ooms_at_cap : &pool->ooms_at_device) += 1;
    *MUST_ADD(model->ooms, model->oom_count, model->oom_room) = moment;
}

static void apply_other(struct model *model, const struct trace_event *event)
{
    struct model_pool *pool = event->kind == TRACE_MARK || event->kind == TRACE_ASKED ? NULL : pool_of(model, event->pool);
    switch (event->kind) {
    case TRACE_GRAPH_MALLOC:
        pool->graph_mallocs++;
        break;
    case TRACE_GRAPH_FREE:
        pool->graph_frees++;
        break;
    case TRACE_MAP:
    case TRACE_UNMAP:
    case TRACE_TRIM:
        apply_memory(model, event);
        break;
    case TRACE_FIGURES:
        apply_figures(model, event);
        break;
    case TRACE_SETTINGS:
        pool->threshold = event->a;
        pool->cap = event->b;
        pool->has_changed = pool->has_changed || (pool->has_settings && pool->live.allocations);
        pool->has_settings = true;
        break;
    case TRACE_SLEEP:
    case TRACE_WAKE:
        apply_sleep(model, pool, event->kind == TRACE_SLEEP);
        break;
    case TRACE_STREAM_OPEN:
        stream_of(model, event->stream)->name = event->name;
        break;
    case TRACE_SYNCHRONISE:
        span_add(model, &pool->synchronises, 0, event->a);
        break;
    case TRACE_WAIT:
        span_add(model, &pool->waits, event->b, event->a);
        break;
    case TRACE_RUNG:
        span_add(model, &pool->rungs[event->a < MODEL_RUNGS ? event->a : MODEL_RUNGS - 1], 0, event->b);
        break;
    case TRACE_ASKED:
        span_add(model, &model->asked, event->a, event->b);
        break;
    case TRACE_HELD:
        apply_held(model, event);
        break;
    case TRACE_MARK:
    case TRACE_OUT_OF_MEMORY:
        apply_moment(model, event);
        break;
    default:
        break;
    }
}

void model_apply(struct model *model, const struct trace_event *event)
{
    model->now = most(model->now, event->time);
    if (event->kind <= TRACE_CACHED)
        apply_block(model, event);
    else
        apply_other(model, event);
    model->applied++;
}

bool model_look(void *model, const struct trace_event *event)
{
    model_apply(model, event);
    return true;
}

void model_free(struct model *model)
{
    trace_map_free(&model->by_address);
    trace_map_free(&model->by_stream);
    trace_map_free(&model->by_stall);
    free(model->blocks);
    free(model->pools);
    free(model->tags);
    free(model->tag_names);
    free(model->stacks);
    free(model->stack_frames);
    free(model->streams);
    free(model->stalls);
    free(model->marks);
    free(model->ooms);
    *model = (struct model){0};
}
