/* SPDX-License-Identifier: MIT */
/* view_waits.c - `weir trace waits`: what took time, how often, how long, and when it was the longest. */
#include "tools/trace/view.h"
#include "tools/common/command.h"
#include "tools/common/table.h"

#include <stdio.h>
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

static void print_wait(struct table *table, const struct view_file *file, const struct model_pool *pool, const struct wait *wait)
{
    const struct model_span *span = wait->span;
    char name[TRACE_RUNG_LEN];
    if (wait->rung >= 0)
        trace_rung_text(name, (uint64_t)wait->rung);
    else
        snprintf(name, sizeof name, "%s", wait->name);
    table_row(table, POOL_TEXT(pool->pool), name, COUNT_TEXT(span->count), TIME_TEXT(span->ns), TIME_TEXT(span->longest_ns),
              MOMENT_TEXT(file, span->longest_at), span->bytes ? SIZE_TEXT(span->bytes) : "");
}

static void json_wait(struct json *json, const struct model_pool *pool, const struct wait *wait)
{
    json_object(json, NULL);
    json_string(json, "kind", wait->name);
    if (wait->rung >= 0)
        json_uint(json, "rung", (uint64_t)wait->rung);
    view_json_pool(json, pool->pool);
    json_uint(json, "count", wait->span->count);
    json_uint(json, "ns", wait->span->ns);
    json_uint(json, "longest_ns", wait->span->longest_ns);
    json_uint(json, "longest_at", wait->span->longest_at);
    json_uint(json, "bytes", wait->span->bytes);
    json_end(json);
}

static void show_waits(const struct view *view, const struct view_file *file, const struct model *model)
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
            if (view->json)
                json_wait(view->json, &model->pools[i], &waits[j]);
            else
                print_wait(&table, file, &model->pools[i], &waits[j]);
        }
    }
    if (view->json)
        json_end(view->json);
    else
        table_print(&table, stdout);
    if (!view->json && !shown)
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
