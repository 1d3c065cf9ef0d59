/* SPDX-License-Identifier: MIT */
/* view_events.c - `weir trace events`: each event, in the order in which they happened over all threads. */
#include "tools/common/command.h"
#include "tools/trace/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One play. */
struct printing {
    const struct view *view;
    struct view_file *file;
    size_t left; /* events that are still to be printed */
    struct view_moments times;
};

/* What a and b of the event are, as doc/trace.md explains them. */
static void print_figures(const struct trace_event *event)
{
    char rung[TRACE_RUNG_LEN], call[TRACE_CALL_LEN];
    switch (event->kind) {
    case TRACE_MAP:
    case TRACE_UNMAP:
    case TRACE_TRIM:
    case TRACE_SLEEP:
    case TRACE_WAKE:
        printf("  %s in %s", event->kind == TRACE_MAP && !event->a ? "unknown size" : SIZE_TEXT(event->a), TIME_TEXT(event->b));
        break;
    case TRACE_FIGURES:
        printf("  used %s, reserved %s", SIZE_TEXT(event->a), SIZE_TEXT(event->b));
        break;
    case TRACE_SETTINGS:
        printf("  release threshold %s, cap %s", event->a == UINT64_MAX ? "all" : SIZE_TEXT(event->a), event->b ? SIZE_TEXT(event->b) : "none");
        break;
    case TRACE_SYNCHRONISE:
        printf("  %s", TIME_TEXT(event->a));
        break;
    case TRACE_WAIT:
        printf("  %s for %s", TIME_TEXT(event->a), SIZE_TEXT(event->b));
        break;
    case TRACE_RUNG:
        trace_rung_text(rung, event->a);
        printf("  %s in %s", rung + strlen("rung "), TIME_TEXT(event->b));
        break;
    case TRACE_OUT_OF_MEMORY:
        printf("  %s, %s", SIZE_TEXT(event->a), event->b ? "at the cap" : "on the device");
        break;
    case TRACE_HELD:
        trace_call_text(call, event->a);
        printf("  %s took %s", call, TIME_TEXT(event->b));
        break;
    case TRACE_ASKED:
        printf("  for %s, gave %s", SIZE_TEXT(event->a), SIZE_TEXT(event->b));
        break;
    default:
        break;
    }
}

static void print_event(struct printing *printing, const struct trace_event *event)
{
    unsigned fields = trace_kind_fields(event->kind);
    view_print_moment(&printing->times, printing->file, event->time, 14);
    printf("  %" PRIu64 "  %-13s", event->thread, trace_kind_name(event->kind));
    if (fields & TRACE_HAS_POOL)
        printf("  %s", POOL_TEXT(event->pool));
    if (fields & TRACE_HAS_STREAM)
        printf("  stream %s", STREAM_TEXT(event->stream, event->kind == TRACE_STREAM_OPEN ? NULL : event->stream_name));
    if (fields & TRACE_HAS_ADDRESS)
        printf("  0x%" PRIx64 "  %s of %s", event->address, SIZE_TEXT(event->size), SIZE_TEXT(event->given));
    if (event->tag)
        printf("  %s", SHOWN(event->tag->text));
    if (event->name)
        printf("  %s", SHOWN(event->name->text));
    print_figures(event);
    putchar('\n');
}

static void json_event(struct json *json, struct view_file *file, const struct trace_event *event)
{
    unsigned fields = trace_kind_fields(event->kind);
    json_in_line(json);
    json_object(json, NULL);
    json_string(json, "kind", trace_kind_name(event->kind));
    json_uint(json, "thread", event->thread);
    json_uint(json, "time", event->time);
    json_uint(json, "order", event->order);
    if (fields & TRACE_HAS_STREAM)
        view_json_stream(json, event->stream, event->stream_name);
    if (fields & TRACE_HAS_POOL) {
        json_string(json, "pool", event->pool ? event->pool->name : NULL);
        json_uint(json, "pool_id", event->pool ? event->pool->id : 0);
    }
    if (fields & TRACE_HAS_ADDRESS) {
        view_json_handle(json, "address", event->address);
        json_uint(json, "size", event->size);
        json_uint(json, "given", event->given);
        json_string(json, "tag", event->tag ? event->tag->text : NULL);
        view_json_stack(json, file, event->stack);
    }
    if (event->kind == TRACE_MARK || event->kind == TRACE_STREAM_OPEN)
        json_string(json, "name", event->name ? event->name->text : NULL);
    else if (fields & TRACE_HAS_A)
        json_uint(json, "a", event->a);
    if (fields & TRACE_HAS_B)
        json_uint(json, "b", event->b);
    json_end(json);
}

static bool print_one(void *context, const struct trace_event *event)
{
    struct printing *printing = context;
    if (printing->view->json)
        json_event(printing->view->json, printing->file, event);
    else
        print_event(printing, event);
    return --printing->left > 0;
}

int view_events(const struct view *view, struct view_file *file)
{
    struct printing printing = {.view = view, .file = file, .left = view->has_limit ? view->limit : SIZE_MAX};
    if (view->json)
        json_array(view->json, "events");
    view_hear(file, print_one, &printing);
    if (view->json)
        json_end(view->json);
    return EXIT_GOOD;
}
