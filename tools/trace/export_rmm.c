/* SPDX-License-Identifier: MIT */
/*
 * export_rmm.c - a trace as a log of RMM's logging resource: what the program allocated and freed, whichever pool it came from.
 *
 * A log is of one process and one namespace of addresses. What the program had before the recording is allocated at its beginning, and
 * each free has its allocation, so that whoever replays the log never frees what is not there. Times are those of the day in UTC.
 */
#include "config.h"

#include "tools/trace/export.h"
#include "tools/trace/places.h"
#include "tools/trace/turn.h"

#include <inttypes.h>

enum { DAY_SECONDS = 86400 };

struct log {
    struct export *export;
    struct model model;
    struct places places; /* what the program has */
};

static void write_row(struct log *log, const struct trace_event *event, const char *action, uint64_t address, uint64_t size)
{
    uint64_t started = log->export->traces[0]->header.started_real, now = log->model.now;
    uint64_t micros = started / 1000 + (started % 1000 + now % 1000) / 1000 + now / 1000;
    unsigned second = (unsigned)(micros / 1000000 % DAY_SECONDS);
    fprintf(log->export->out, "%" PRIu64 ",%02u:%02u:%02u.%06u,%s,0x%" PRIx64 ",%" PRIu64 ",0x%" PRIx64 "\n", event->thread, second / 3600,
            second / 60 % 60, second % 60, (unsigned)(micros % 1000000), action, address, size, event->stream);
}

static void end_block(struct log *log, const struct trace_event *event, const struct model_block *block)
{
    write_row(log, event, "free", block->address, block->size);
    places_remove(&log->places, block->address);
}

static void begin_block(struct log *log, const struct trace_event *event, const struct model_block *block)
{
    const struct model_block *old;
    if (!places_can_have(block)) {
        log->export->left_out++;
        return;
    }
    /* The frees of what stands there were lost. */
    while ((old = places_find(&log->places, block->address, block->given)))
        end_block(log, event, &(struct model_block){.address = old->address, .size = old->size});
    write_row(log, event, "allocate", block->address, block->size);
    places_add(&log->places, block);
}

static bool look(void *context, const struct trace_event *event)
{
    struct log *log = context;
    struct turn turn;
    if (turn_apply(&log->model, event, &turn)) {
        if (turn.is_ended && places_same(&log->places, &turn.before))
            end_block(log, event, &turn.before);
        if (turn.is_begun)
            begin_block(log, event, &turn.after);
    } else if (event->kind == TRACE_OUT_OF_MEMORY) {
        write_row(log, event, "allocate failure", 0, event->a);
    }
    return !ferror(log->export->out);
}

bool export_rmm(struct export *export)
{
    struct log log = {.export = export};
    struct trace *trace = export->traces[0];
    if (export->count > 1) {
        snprintf(export->error, sizeof export->error, "a log of RMM is of one process: export each trace into a file of its own");
        return false;
    }
    fputs("Thread,Time,Action,Pointer,Size,Stream\n", export->out);
    bool is_whole = trace_play(trace, look, &log);
    if (!is_whole)
        snprintf(export->error, sizeof export->error, "%s", trace->error);
    model_free(&log.model);
    places_free(&log.places);
    return is_whole;
}
