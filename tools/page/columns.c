/* SPDX-License-Identifier: MIT */
#include "tools/page/columns.h"

#include "tools/common/complain.h"

#include <stdlib.h>
#include <string.h>

const char *const page_column_names[COLUMN_COUNT] = {
#define X(name, text) [COLUMN_##name] = text,
    PAGE_COLUMNS(X)
#undef X
};

/* Numbers ------------------------------------------------------------------------------------------------------------------------------ */

static void put(struct page_columns *columns, enum page_column_name name, uint64_t value)
{
    struct page_column *column = &columns->columns[name];
    uint64_t left = value;
    do {
        column->bytes = must_grow(column->bytes, column->len, &column->room, 1);
        column->bytes[column->len++] = (uint8_t)((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
        left >>= 7;
    } while (left);
    column->count++;
}

/* Of a column that never falls. */
static void put_step(struct page_columns *columns, enum page_column_name name, uint64_t value)
{
    uint64_t last = columns->columns[name].last;
    columns->columns[name].last = value;
    put(columns, name, value - last);
}

/* Small numbers of either sign as small numbers. */
static uint64_t zigzag(uint64_t number)
{
    return number << 1 ^ (number >> 63 ? UINT64_MAX : 0);
}

static void put_signed_step(struct page_columns *columns, enum page_column_name name, uint64_t value)
{
    uint64_t step = value - columns->columns[name].last;
    columns->columns[name].last = value;
    put(columns, name, zigzag(step));
}

/* Things ------------------------------------------------------------------------------------------------------------------------------- */

static uint32_t place_of(struct trace_map *map, uint64_t a, uint64_t b, bool *is_new)
{
    uint32_t count = (uint32_t)map->count, *place = trace_map_add(map, a, b, is_new);
    if (*is_new)
        *place = count;
    return *place;
}

static uint32_t stream_of(struct page_columns *columns, uint64_t stream)
{
    bool is_new;
    uint32_t place = place_of(&columns->by_stream, stream, 0, &is_new);
    if (is_new) {
        columns->streams = must_grow(columns->streams, columns->stream_count, &columns->stream_room, sizeof columns->streams[0]);
        columns->streams[columns->stream_count++] = stream;
    }
    return place;
}

static uint32_t thread_of(struct page_columns *columns, const struct trace_event *event)
{
    while (columns->thread_count <= event->thread_number) {
        columns->threads = must_grow(columns->threads, columns->thread_count, &columns->thread_room, sizeof columns->threads[0]);
        columns->threads[columns->thread_count++] = 0;
    }
    columns->threads[event->thread_number] = event->thread;
    return event->thread_number;
}

/* Its place among the names, from 1; 0 without one. */
static size_t name_of(struct page_columns *columns, const struct trace_text *name)
{
    size_t place = name ? (size_t)name->number + 1 : 0;
    while (columns->name_count <= place) {
        columns->names = must_grow(columns->names, columns->name_count, &columns->name_room, sizeof columns->names[0]);
        columns->names[columns->name_count++] = NULL;
    }
    columns->names[place] = name;
    return place;
}

static uint64_t number_of_pool(const struct trace_pool *pool)
{
    return pool ? pool->number + UINT64_C(1) : 0;
}

/* What the block has in common with others. Four maps make one number of seven. */
static void put_class(struct page_columns *columns, const struct model_block *block)
{
    bool is_new;
    uint64_t tag = block->tag ? block->tag->number + UINT64_C(1) : 0, stack = block->stack ? block->stack->number + UINT64_C(1) : 0;
    uint64_t pool = number_of_pool(block->pool), stream = stream_of(columns, block->stream);
    uint64_t state = block->state != MODEL_LIVE ? PAGE_CACHED : block->kind == TRACE_LIVE ? PAGE_FOUND : PAGE_ALLOCATED;
    uint64_t size = place_of(&columns->by_size, block->size, block->given, &is_new);
    uint64_t maker = place_of(&columns->by_maker, tag, stack, &is_new);
    uint64_t home = place_of(&columns->by_home, pool, stream, &is_new);
    uint32_t class = place_of(&columns->by_class, size << 32 | maker, home << 2 | state, &is_new);
    /* A page that is full of new sizes has a column of zeros here, which deflate to nothing. */
    put(columns, COLUMN_CLASS, is_new ? 0 : class + UINT64_C(1));
    if (!is_new)
        return;
    uint64_t more = block->given - (block->size + PAGE_ROUNDING - 1) / PAGE_ROUNDING * PAGE_ROUNDING;
    put(columns, COLUMN_CLASS_SIZE, block->size);
    put(columns, COLUMN_CLASS_GIVEN, zigzag(more));
    put(columns, COLUMN_CLASS_TAG, tag);
    put(columns, COLUMN_CLASS_STACK, stack);
    put(columns, COLUMN_CLASS_POOL, pool);
    put(columns, COLUMN_CLASS_STREAM, stream);
    put(columns, COLUMN_CLASS_STATE, state);
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static void note_birth(struct page_columns *columns, const struct model_block *block, bool has_place)
{
    size_t place = (size_t)(block - columns->model.blocks);
    while (columns->birth_room <= place) {
        size_t room = columns->birth_room ? 2 * columns->birth_room : 1024;
        columns->birth_of = must(realloc(columns->birth_of, room * sizeof columns->birth_of[0]));
        columns->birth_room = room;
    }
    columns->birth_of[place] = (uint32_t)columns->births++;
    put_class(columns, block);
    if (has_place)
        return;
    columns->addresses = must_grow(columns->addresses, columns->address_count, &columns->address_room, sizeof columns->addresses[0]);
    columns->addresses[columns->address_count++] = block->address;
}

/* Whether the model lets the event begin a block. */
static bool begins(enum trace_kind kind, bool was_there, bool is_late)
{
    return kind == TRACE_MALLOC || kind == TRACE_SERVE || (kind == TRACE_KEEP && !is_late) ||
           ((kind == TRACE_LIVE || kind == TRACE_CACHED) && !was_there);
}

static void apply_block(struct page_columns *columns, const struct trace_event *event)
{
    struct model *model = &columns->model;
    const struct model_block *block = model_find(model, event->address, event->pool);
    bool was_there = block != NULL;
    uint64_t late = model->late_ends, before = block ? columns->birth_of[block - model->blocks] : 0;
    model_apply(model, event);
    block = model_find(model, event->address, event->pool);
    bool is_born = block && begins(event->kind, was_there, model->late_ends > late), is_ended = was_there && (!block || is_born);
    if (!is_born && !is_ended)
        return;
    put_step(columns, COLUMN_EVENT, model->applied);
    put_signed_step(columns, COLUMN_TIME, event->time);
    put(columns, COLUMN_THREAD, thread_of(columns, event));
    put(columns, COLUMN_REF, is_ended ? 2 * (columns->births - before) + is_born : 0);
    if (is_born)
        note_birth(columns, block, is_ended);
}

static void apply_other(struct page_columns *columns, const struct trace_event *event)
{
    model_apply(&columns->model, event);
    if (event->kind == TRACE_STREAM_OPEN || event->kind == TRACE_STREAM_CLOSE)
        return;
    bool has_name = event->kind == TRACE_MARK;
    put_step(columns, COLUMN_OTHER_EVENT, columns->model.applied);
    put_signed_step(columns, COLUMN_OTHER_TIME, event->time);
    put(columns, COLUMN_OTHER_THREAD, thread_of(columns, event));
    put(columns, COLUMN_OTHER_KIND, event->kind);
    put(columns, COLUMN_OTHER_POOL, number_of_pool(event->pool));
    put(columns, COLUMN_OTHER_STREAM, trace_kind_fields(event->kind) & TRACE_HAS_STREAM ? stream_of(columns, event->stream) + 1 : 0);
    put(columns, COLUMN_OTHER_A, has_name ? name_of(columns, event->name) : event->a);
    put(columns, COLUMN_OTHER_B, event->b);
    put(columns, COLUMN_OTHER_SIZE, event->size);
    put(columns, COLUMN_OTHER_STACK, event->stack ? event->stack->number + UINT64_C(1) : 0);
}

static bool look(void *context, const struct trace_event *event)
{
    if (event->kind <= TRACE_CACHED)
        apply_block(context, event);
    else if (event->kind == TRACE_GRAPH_MALLOC || event->kind == TRACE_GRAPH_FREE)
        model_apply(&((struct page_columns *)context)->model, event);
    else
        apply_other(context, event);
    return true;
}

/* Less the lowest, and without the zero bits at their ends that all of them have: so they fit the page's numbers of 53 bits. */
static void put_addresses(struct page_columns *columns)
{
    uint64_t any = 0;
    columns->lowest = columns->address_count ? UINT64_MAX : 0;
    for (size_t i = 0; i < columns->address_count; i++)
        columns->lowest = columns->addresses[i] < columns->lowest ? columns->addresses[i] : columns->lowest;
    for (size_t i = 0; i < columns->address_count; i++)
        any |= columns->addresses[i] - columns->lowest;
    while (any && !(any >> columns->shift & 1))
        columns->shift++;
    for (size_t i = 0; i < columns->address_count; i++)
        put_signed_step(columns, COLUMN_ADDRESS, (columns->addresses[i] - columns->lowest) >> columns->shift);
}

bool page_columns_make(struct page_columns *columns, struct trace *trace)
{
    *columns = (struct page_columns){0};
    bool is_good = trace_play(trace, look, columns);
    put_addresses(columns);
    return is_good;
}

void page_columns_free(struct page_columns *columns)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        free(columns->columns[i].bytes);
    free(columns->threads);
    free(columns->streams);
    free(columns->names);
    free(columns->birth_of);
    free(columns->addresses);
    trace_map_free(&columns->by_stream);
    trace_map_free(&columns->by_size);
    trace_map_free(&columns->by_maker);
    trace_map_free(&columns->by_home);
    trace_map_free(&columns->by_class);
    model_free(&columns->model);
}
