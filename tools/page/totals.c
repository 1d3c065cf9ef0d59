/* SPDX-License-Identifier: MIT */
/* totals.c - what a page takes from the command as it is: names, as terminals get them, and the sums that the page compares its own to. */
#include "tools/page/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

/* Texts come from strangers: what a terminal may get can do no harm in a page either. */
static void json_shown(struct json *json, const char *key, const char *text)
{
    if (text)
        json_string(json, key, SHOWN(text));
    else
        json_null(json, key);
}

/* Whether memory may stay in it that no block has: not if it is an unaware program's, and none of CUDA's pools. */
static bool keeps_memory(const struct trace_pool *pool)
{
    return !pool || !(pool->flags & TRACE_POOL_UNAWARE) || strcmp(pool->name, "default") == 0 || strncmp(pool->name, "async ", 6) == 0;
}

static void json_pools(struct json *json, const struct view_file *file, const struct model *model)
{
    json_array(json, "pools");
    for (size_t i = 0; i < model->pool_count; i++) {
        const struct trace_pool *pool = model->pools[i].pool;
        json_in_line(json);
        json_object(json, NULL);
        json_string(json, "text", POOL_TEXT(pool));
        json_shown(json, "name", pool ? pool->name : NULL);
        json_uint(json, "device", pool ? pool->device : 0);
        json_bool(json, "is_arena", pool && pool->flags & TRACE_POOL_ARENA);
        json_bool(json, "is_host", pool && pool->flags & TRACE_POOL_HOST);
        json_bool(json, "keeps_memory", keeps_memory(pool));
        json_uint(json, "memory", pool && !(pool->flags & TRACE_POOL_HOST) ? trace_memory(&file->trace, pool->device) : 0);
        json_end(json);
    }
    json_end(json);
}

/* Streams of columns, with the names that the model knows of them. */
static void json_streams(struct json *json, const struct page_columns *columns)
{
    const struct model *model = &columns->model;
    json_array(json, "streams");
    for (size_t i = 0; i < columns->stream_count; i++) {
        const uint32_t *place = trace_map_find(&model->by_stream, columns->streams[i], 0);
        const struct trace_text *name = place ? model->streams[*place].name : NULL;
        json_in_line(json);
        json_object(json, NULL);
        json_string(json, "text", STREAM_TEXT(columns->streams[i], NULL));
        json_shown(json, "name", name ? name->text : NULL);
        json_end(json);
    }
    json_end(json);
}

/* Frames that several stacks have are written once. */
static void json_stacks(struct json *json, struct view_file *file, const struct model *model)
{
    struct trace_map places = {0};
    const struct trace_frame **frames = NULL;
    size_t count = 0, room = 0;
    json_array(json, "stacks");
    for (size_t i = 0; i < model->stack_count; i++) {
        const struct trace_stack *stack = model->stack_frames[i];
        json_in_line(json);
        json_array(json, NULL);
        for (uint32_t j = 0; stack && j < stack->count; j++) {
            const struct trace_frame *frame = &stack->frames[j];
            bool is_new;
            uint32_t *place = trace_map_add(&places, frame->line ? frame->line->number : frame->address,
                                            frame->line ? 1 : frame->module ? frame->module->number + UINT64_C(2) : 0, &is_new);
            if (is_new) {
                *place = (uint32_t)count;
                *MUST_ADD(frames, count, room) = frame;
            }
            json_uint(json, NULL, *place);
        }
        json_end(json);
    }
    json_end(json);
    json_array(json, "frames");
    for (size_t i = 0; i < count; i++)
        json_string(json, NULL, view_frame((char[SHOWN_LEN]){0}, file, frames[i]));
    json_end(json);
    free(frames);
    trace_map_free(&places);
}

void page_json_names(struct json *json, struct view_file *file, const struct page_columns *columns)
{
    const struct model *model = &columns->model;
    json_pools(json, file, model);
    json_streams(json, columns);
    json_stacks(json, file, model);
    json_array(json, "tags");
    for (size_t i = 0; i < model->tag_count; i++)
        json_string(json, NULL, model->tag_names[i] ? SHOWN(model->tag_names[i]->text) : "-");
    json_end(json);
    json_array(json, "marks");
    for (size_t i = 0; i < columns->name_count; i++)
        json_shown(json, NULL, columns->names[i] ? columns->names[i]->text : NULL);
    json_end(json);
    json_uints(json, "threads", columns->threads, columns->thread_count);
    json_in_line(json);
    json_object(json, "addresses");
    json_string(json, "lowest", STREAM_TEXT(columns->lowest, NULL));
    json_uint(json, "shift", columns->shift);
    json_end(json);
}

/* Sums --------------------------------------------------------------------------------------------------------------------------------- */

static const struct json_member sums[] = {
    JSON_MEMBER(struct model_sum, blocks),     JSON_MEMBER(struct model_sum, size),       JSON_MEMBER(struct model_sum, given),
    JSON_MEMBER(struct model_sum, peak_size),  JSON_MEMBER(struct model_sum, peak_given), JSON_MEMBER(struct model_sum, allocations),
    JSON_MEMBER(struct model_sum, allocated),
};

static void json_sum(struct json *json, const char *key, const struct model_sum *sum)
{
    json_in_line(json);
    json_object(json, key);
    json_members(json, sum, sums, sizeof sums / sizeof sums[0]);
    json_end(json);
}

/* Spans of a pool that the steps of the page add up to. */
static void json_spans(struct json *json, const struct model *model, const struct model_pool *pool)
{
    struct model_span calls = {0};
    for (size_t i = 0; i < model->stall_count; i++)
        if (model->stalls[i].pool == pool->pool)
            model_span_join(&calls, &model->stalls[i].span);
    const struct {
        const char *name;
        const struct model_span *span;
    } spans[] = {{"map", &pool->growth}, {"unmap", &pool->unmaps}, {"trim", &pool->trims}, {"wait", &pool->waits},
                 {"synchronise", &pool->synchronises}, {"call", &calls}};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        json_object(json, spans[i].name);
        json_uint(json, "count", spans[i].span->count);
        json_uint(json, "ns", spans[i].span->ns);
        json_end(json);
    }
}

void page_json_totals(struct json *json, const struct model *model)
{
    json_object(json, "totals");
    json_sum(json, "all", &model->total);
    json_uint(json, "held", model->held);
    json_uint(json, "peak_held", model->peak_held);
    json_uint(json, "peak_event", model->peak.event);
    json_uint(json, "peak_time", model->peak.time);
    json_uint(json, "marks", model->mark_count);
    json_uint(json, "refusals", model->oom_count);
    json_uint(json, "unknown_ends", model->unknown_ends);
    json_uint(json, "late_ends", model->late_ends);
    json_uint(json, "reused", model->reused);
    json_array(json, "tags");
    for (size_t i = 0; i < model->tag_count; i++)
        json_sum(json, NULL, &model->tags[i]);
    json_end(json);
    json_array(json, "stacks");
    for (size_t i = 0; i < model->stack_count; i++)
        json_sum(json, NULL, &model->stacks[i]);
    json_end(json);
    json_array(json, "pools");
    for (size_t i = 0; i < model->pool_count; i++) {
        const struct model_pool *pool = &model->pools[i];
        json_in_line(json);
        json_object(json, NULL);
        json_members(json, &pool->live, sums, sizeof sums / sizeof sums[0]);
        json_uint(json, "cached", pool->cached);
        json_uint(json, "held", model_held(pool));
        json_uint(json, "held_peak", pool->held_peak);
        json_spans(json, model, pool);
        json_end(json);
    }
    json_end(json);
    json_array(json, "streams");
    for (size_t i = 0; i < model->stream_count; i++) {
        json_in_line(json);
        json_object(json, NULL);
        json_string(json, "stream", STREAM_TEXT(model->streams[i].stream, NULL));
        json_members(json, &model->streams[i].live, sums, sizeof sums / sizeof sums[0]);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}
