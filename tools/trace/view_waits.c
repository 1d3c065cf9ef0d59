/* SPDX-License-Identifier: MIT */
/* view_waits.c - `weir trace waits`: what took time, how often, how long, and when it was the longest. */
#include "tools/trace/view.h"
#include "tools/common/command.h"
#include "tools/common/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_KINDS = 5 + MODEL_RUNGS };

struct wait {
    const char *name; /* of JSON too */
    int rung;         /* -1: not one */
    const struct model_span *span;
};

/* All that a pool can wait for, in the order of the table. */
static size_t waits_of(const struct model_pool *pool, struct wait waits[WAIT_KINDS])
{
    size_t count = 0;
    waits[count++] = (struct wait){"wait", -1, &pool->waits};
    for (int rung = 0; rung < MODEL_RUNGS; rung++)
        waits[count++] = (struct wait){"rung", rung, &pool->rungs[rung]};
    waits[count++] = (struct wait){"synchronise", -1, &pool->synchronises};
    waits[count++] = (struct wait){"growth", -1, &pool->growth};
    waits[count++] = (struct wait){"unmap", -1, &pool->unmaps};
    waits[count++] = (struct wait){"trim", -1, &pool->trims};
    return count;
}

static void print_wait(struct table *table, const struct view_file *file, const struct trace_pool *pool, const struct wait *wait)
{
    const struct model_span *span = wait->span;
    char name[TRACE_RUNG_LEN];
    if (wait->rung >= 0)
        trace_rung_text(name, (uint64_t)wait->rung);
    else
        snprintf(name, sizeof name, "%s", wait->name);
    table_row(table, POOL_TEXT(pool), name, COUNT_TEXT(span->count), TIME_TEXT(span->ns), TIME_TEXT(span->longest_ns),
              MOMENT_TEXT(file, span->longest_at), span->bytes ? SIZE_TEXT(span->bytes) : "");
}

/* Leaves the object open. */
static void json_wait(struct json *json, const struct trace_pool *pool, const struct wait *wait)
{
    json_object(json, NULL);
    json_string(json, "kind", wait->name);
    if (wait->rung >= 0)
        json_uint(json, "rung", (uint64_t)wait->rung);
    view_json_pool(json, pool);
    json_uint(json, "count", wait->span->count);
    json_uint(json, "ns", wait->span->ns);
    json_uint(json, "longest_ns", wait->span->longest_ns);
    json_uint(json, "longest_at", wait->span->longest_at);
    json_uint(json, "bytes", wait->span->bytes);
}

/* Calls of unaware programs -------------------------------------------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By call and pool; those that took the most time first. */
static int by_call(const void *left, const void *right)
{
    const struct model_stall *a = left, *b = right;
    if (a->call != b->call)
        return compare(a->call, b->call);
    if (a->pool != b->pool)
        return compare(a->pool ? a->pool->number + UINT64_C(1) : 0, b->pool ? b->pool->number + UINT64_C(1) : 0);
    return a->span.ns != b->span.ns ? compare(b->span.ns, a->span.ns) : compare(a->span.longest_at, b->span.longest_at);
}

static void json_stall(const struct view *view, struct view_file *file, const struct model_stall *stalls, size_t count,
                       const struct model_span *sum, const char *call)
{
    json_wait(view->json, stalls[0].pool, &(struct wait){"held", -1, sum});
    json_string(view->json, "call", call);
    json_array(view->json, "places");
    for (size_t i = 0; i < count && i < view->limit; i++) {
        json_object(view->json, NULL);
        json_string(view->json, "place", stalls[i].stack ? view_place((char[SHOWN_LEN]){0}, file, stalls[i].stack) : NULL);
        json_uint(view->json, "count", stalls[i].span.count);
        json_uint(view->json, "ns", stalls[i].span.ns);
        view_json_stack(view->json, file, stalls[i].stack);
        json_end(view->json);
    }
    json_end(view->json);
    json_end(view->json);
}

/* "cudaFree held the host up 212 times, 4.1 s, most at step (model.cu:88); pool cudaMalloc." */
static void print_sentence(struct view_file *file, const struct model_stall *most, const struct model_span *sum, const char *call)
{
    char place[SHOWN_LEN];
    printf("  %s held the host up %s time%s, %s%s%s; pool %s.\n", call, COUNT_TEXT(sum->count), weir__plural(sum->count), TIME_TEXT(sum->ns),
           most->stack ? ", most at " : "", most->stack ? view_place(place, file, most->stack) : "", POOL_TEXT(most->pool));
}

/* As JSON, as rows of a table or, without one, as sentences. */
static void show_stalls(const struct view *view, struct view_file *file, const struct model *model, struct table *table)
{
    const struct model_stall *stalls = model->stalls;
    char call[TRACE_CALL_LEN];
    for (size_t from = 0, to; from < model->stall_count; from = to) {
        struct model_span sum = {0};
        for (to = from; to < model->stall_count && stalls[to].call == stalls[from].call && stalls[to].pool == stalls[from].pool; to++)
            model_span_join(&sum, &stalls[to].span);
        trace_call_text(call, stalls[from].call);
        if (view->json)
            json_stall(view, file, &stalls[from], to - from, &sum, call);
        else if (table)
            print_wait(table, file, stalls[from].pool, &(struct wait){call, -1, &sum});
        else
            print_sentence(file, &stalls[from], &sum, call);
    }
}

static void show_waits(const struct view *view, struct view_file *file, const struct model *model)
{
    struct table table = TABLE_INIT("llrrrrr");
    struct wait waits[WAIT_KINDS];
    size_t shown = 0;
    if (view->json)
        json_array(view->json, "waits");
    else
        table_row(&table, "POOL", "WHAT", "COUNT", "TOTAL", "LONGEST", "AT", "BYTES");
    for (size_t i = 0; i < model->pool_count; i++) {
        size_t count = waits_of(&model->pools[i], waits);
        for (size_t j = 0; j < count; j++) {
            if (!waits[j].span->count)
                continue;
            shown++;
            if (!view->json) {
                print_wait(&table, file, model->pools[i].pool, &waits[j]);
                continue;
            }
            json_wait(view->json, model->pools[i].pool, &waits[j]);
            json_end(view->json);
        }
    }
    if (model->stall_count)
        qsort(model->stalls, model->stall_count, sizeof model->stalls[0], by_call);
    show_stalls(view, file, model, &table);
    if (view->json)
        json_end(view->json);
    else
        table_print(&table, stdout);
    if (!view->json && model->stall_count) {
        putchar('\n');
        show_stalls(view, file, model, NULL);
    }
    if (!view->json && !shown && !model->stall_count)
        puts("  Nothing waited, grew or was trimmed.");
    if (view->json) {
        json_object(view->json, "asked");
        json_uint(view->json, "count", model->asked.count);
        json_uint(view->json, "bytes", model->asked.bytes);
        json_uint(view->json, "given", model->asked.ns);
        json_end(view->json);
    } else if (model->asked.count) {
        printf("\nNeighbours asked %s time%s for %s, and got %s.\n", COUNT_TEXT(model->asked.count), weir__plural(model->asked.count),
               SIZE_TEXT(model->asked.bytes), SIZE_TEXT(model->asked.ns));
    }
}

int view_waits(const struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        struct view_file *file = &view->files[i];
        struct model model;
        view_file_begin(view, file);
        view_say_losses(view, file);
        view_play(file, &model, VIEW_ALL);
        show_waits(view, file, &model);
        model_free(&model);
        view_file_end(view);
    }
    return EXIT_GOOD;
}
