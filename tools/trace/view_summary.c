/* SPDX-License-Identifier: MIT */
/* view_summary.c - `weir trace summary`: what a trace is of, and what each pool came to. */
#include "tools/trace/view.h"
#include "tools/common/command.h"
#include "tools/common/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static uint64_t span_of(const struct trace *trace)
{
    return trace->last - trace->first;
}

/* Words ---------------------------------------------------------------------------------------------------------------------------------
 */

static void print_head(const struct view_file *file)
{
    const struct trace *trace = &file->trace;
    const struct trace_header *header = &trace->header;
    printf("%s%s", header->program ? SHOWN(header->program) : "A process", header->pid ? ", " : "");
    if (header->pid)
        printf("pid %" PRIu64, header->pid);
    if (header->rank)
        printf(", rank %s", SHOWN(header->rank));
    printf(": %s events of %zu thread%s in %s", COUNT_TEXT(trace->events), trace->thread_count, weir__plural(trace->thread_count),
           TIME_TEXT(span_of(trace)));
    if (header->started_real) {
        time_t seconds = (time_t)(header->started_real / 1000000000);
        struct tm when;
        char text[40];
        /* Of an imported log that says the time of a day alone. */
        bool has_day = !header->imported || seconds >= 86400;
        if ((has_day ? localtime_r(&seconds, &when) : gmtime_r(&seconds, &when)) &&
            strftime(text, sizeof text, has_day ? "%F %T %z" : "%T", &when))
            printf(" from %s", text);
    }
    printf(".\n");
    if (header->imported)
        printf("Made of: %s. ", SHOWN(header->imported));
    else if (header->reason)
        printf("Written for: %s. ", SHOWN(header->reason));
    if (header->level)
        printf("Level: %s%s. ", SHOWN(header->level), header->has_stacks ? ", with stacks" : "");
    if (header->weir)
        printf("Weir %s.", SHOWN(header->weir));
    if (header->reason || header->level || header->weir)
        putchar('\n');
    if (trace->losses.events)
        printf("Lost before they were written: %s event%s.\n", COUNT_TEXT(trace->losses.events), weir__plural(trace->losses.events));
}

static void print_kinds(const struct trace *trace)
{
    const char *before = "Events: ";
    for (unsigned kind = 0; kind < TRACE_KIND_COUNT; kind++) {
        if (!trace->kinds[kind])
            continue;
        printf("%s%s %s", before, COUNT_TEXT(trace->kinds[kind]), trace_kind_name(kind));
        before = ", ";
    }
    printf("%s\n", trace->events ? "." : "No events.");
}

static void print_pools(const struct model *model)
{
    struct table table = TABLE_INIT("lrrrrrrrrrrr");
    table_row(&table, "POOL", "ALLOCS", "ASKED", "LIVE", "BLOCKS", "GIVEN", "CACHED", "HELD", "PEAK LIVE", "PEAK HELD", "GROWN", "TRIMMED");
    for (size_t i = 0; i < model->pool_count; i++) {
        const struct model_pool *pool = &model->pools[i];
        if (!pool->pool)
            continue;
        table_row(&table, POOL_TEXT(pool->pool), COUNT_TEXT(pool->live.allocations), SIZE_TEXT(pool->live.allocated),
                  SIZE_TEXT(pool->live.size), COUNT_TEXT(pool->live.blocks), SIZE_TEXT(pool->live.given), SIZE_TEXT(pool->cached),
                  SIZE_TEXT(model_held(pool)), SIZE_TEXT(pool->live.peak_size), SIZE_TEXT(pool->held_peak), SIZE_TEXT(pool->growth.bytes),
                  SIZE_TEXT(pool->trims.bytes));
    }
    putchar('\n');
    table_print(&table, stdout);
}

static bool has_unaware(const struct model *model)
{
    for (size_t i = 0; i < model->pool_count; i++)
        if (model->pools[i].pool && model->pools[i].pool->flags & TRACE_POOL_UNAWARE)
            return true;
    return false;
}

static void print_rest(const struct view *view, const struct view_file *file, const struct model *model)
{
    uint64_t at_cap = 0, at_device = 0, rungs = 0;
    for (size_t i = 0; i < model->pool_count; i++) {
        at_cap += model->pools[i].ooms_at_cap;
        at_device += model->pools[i].ooms_at_device;
        for (size_t rung = 0; rung < MODEL_RUNGS; rung++)
            rungs += model->pools[i].rungs[rung].count;
    }
    putchar('\n');
    if (model->total.peak_size)
        printf("Most at a time: %s at %s; 'weir trace peak' says whose. At the end: %s in %s block%s.\n", SIZE_TEXT(model->total.peak_size),
               MOMENT_TEXT(file, model->peak.time), SIZE_TEXT(model->total.size), COUNT_TEXT(model->total.blocks),
               weir__plural(model->total.blocks));
    if (at_cap + at_device)
        printf("Out of memory: %s at a pool's cap, %s at the device; the first at %s.\n", COUNT_TEXT(at_cap), COUNT_TEXT(at_device),
               MOMENT_TEXT(file, model->ooms[0].time));
    if (rungs)
        printf("Steps of recovery: %s; 'weir trace waits' has their times.\n", COUNT_TEXT(rungs));
    if (model->stall_count)
        printf("Calls that held the program up: %s; 'weir trace waits' has their times.\n", COUNT_TEXT(file->trace.kinds[TRACE_HELD]));
    if (has_unaware(model) && view_has_segments(&file->trace))
        puts(VIEW_SEGMENTS);
    if (model->unknown_ends + model->reused + model->late_ends)
        printf("Not in the trace: the beginning of %s block%s that were freed, the end of %s; %s free%s came late.\n",
               COUNT_TEXT(model->unknown_ends), weir__plural(model->unknown_ends), COUNT_TEXT(model->reused), COUNT_TEXT(model->late_ends),
               weir__plural(model->late_ends));
    struct view_moments times = {0};
    for (size_t i = 0; i < model->mark_count && i < view->limit; i++) {
        fputs(i ? "     " : "Marks", stdout);
        view_print_moment(&times, file, model->marks[i].time, 9);
        printf("  %s\n", model->marks[i].name ? SHOWN(model->marks[i].name->text) : "-");
    }
    if (model->mark_count > view->limit)
        printf("      and %s more\n", COUNT_TEXT(model->mark_count - view->limit));
}

/* JSON ----------------------------------------------------------------------------------------------------------------------------------
 */

static void json_span(struct json *json, const char *key, const struct model_span *span)
{
    json_in_line(json);
    json_object(json, key);
    json_uint(json, "count", span->count);
    json_uint(json, "bytes", span->bytes);
    json_uint(json, "ns", span->ns);
    json_end(json);
}

static void json_pool(struct json *json, const struct model_pool *pool)
{
    uint64_t rungs = 0;
    for (size_t i = 0; i < MODEL_RUNGS; i++)
        rungs += pool->rungs[i].count;
    json_object(json, NULL);
    view_json_pool(json, pool->pool);
    json_uint(json, "allocations", pool->live.allocations);
    json_uint(json, "allocated", pool->live.allocated);
    json_uint(json, "live", pool->live.size);
    json_uint(json, "live_blocks", pool->live.blocks);
    json_uint(json, "given", pool->live.given);
    json_uint(json, "cached", pool->cached);
    json_uint(json, "held", model_held(pool));
    json_uint(json, "live_peak", pool->live.peak_size);
    json_uint(json, "given_peak", pool->live.peak_given);
    json_uint(json, "held_peak", pool->held_peak);
    json_span(json, "growth", &pool->growth);
    json_span(json, "unmaps", &pool->unmaps);
    json_span(json, "trims", &pool->trims);
    json_uint(json, "rungs", rungs);
    json_uint(json, "out_of_memory_at_cap", pool->ooms_at_cap);
    json_uint(json, "out_of_memory_at_device", pool->ooms_at_device);
    json_uint(json, "graph_mallocs", pool->graph_mallocs);
    json_uint(json, "graph_frees", pool->graph_frees);
    if (pool->has_settings) {
        json_uint(json, "release_threshold", pool->threshold);
        json_uint(json, "max_size", pool->cap);
    }
    json_end(json);
}

static void json_summary(struct json *json, const struct trace *trace, const struct model *model)
{
    json_string(json, "reason", trace->header.reason);
    json_string(json, "level", trace->header.level);
    json_string(json, "weir", trace->header.weir);
    json_string(json, "imported", trace->header.imported);
    json_string(json, "lacks", trace->header.lacks);
    json_uint(json, "first", trace->first);
    json_uint(json, "last", trace->last);
    json_uint(json, "threads", trace->thread_count);
    json_uint(json, "events", trace->events);
    json_object(json, "kinds");
    for (unsigned kind = 0; kind < TRACE_KIND_COUNT; kind++)
        if (trace->kinds[kind])
            json_uint(json, trace_kind_name(kind), trace->kinds[kind]);
    json_end(json);
    json_bool(json, "is_unaware", has_unaware(model));
    json_bool(json, "has_segments", has_unaware(model) && view_has_segments(trace));
    json_uint(json, "live", model->total.size);
    json_uint(json, "live_blocks", model->total.blocks);
    json_uint(json, "live_peak", model->total.peak_size);
    json_uint(json, "live_peak_at", model->peak.time);
    json_uint(json, "held_peak", model->peak_held);
    json_array(json, "pools");
    for (size_t i = 0; i < model->pool_count; i++)
        if (model->pools[i].pool)
            json_pool(json, &model->pools[i]);
    json_end(json);
    view_json_moments(json, "marks", 0, model->marks, model->mark_count);
    view_json_moments(json, "out_of_memory", 0, model->ooms, model->oom_count);
    json_object(json, "contradictions");
    json_uint(json, "ends_of_unknown_blocks", model->unknown_ends);
    json_uint(json, "blocks_without_end", model->reused);
    json_uint(json, "late_ends", model->late_ends);
    json_end(json);
}

int view_summary(const struct view *view, struct view_file *file)
{
    struct model model;
    view_play(file, &model, VIEW_ALL);
    if (view->json) {
        json_summary(view->json, &file->trace, &model);
    } else {
        print_head(file);
        print_kinds(&file->trace);
        print_pools(&model);
        print_rest(view, file, &model);
    }
    model_free(&model);
    return EXIT_GOOD;
}
