/* SPDX-License-Identifier: MIT */
/*
 * export_perfetto.c - traces on the time axis of Perfetto: a process of each, with counters of its pools, what its threads waited for, and
 * its marks.
 *
 * All times are nanoseconds since 1970, so that several files stand on one axis. Events of blocks have times of a coarse clock: of those at
 * one time the counters show the highest and the last value.
 */
#include "config.h"

#include "tools/common/complain.h"
#include "tools/trace/export.h"
#include "tools/trace/model.h"
#include "tools/trace/proto.h"

#include <inttypes.h>
#include <stdlib.h>

/* Fields of perfetto.protos.Trace and what is in it, and values of its enums. */
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_TRACK_DESCRIPTOR = 60,
    SNAPSHOT_CLOCK = 1,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    CLOCK_IS_REAL = 1,
    CLOCK_IS_BOOT = 6,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    COUNTER_UNIT = 3,
    UNIT_BYTES = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,
    ANNOTATION_UINT = 3,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,
};

/* Sorts of tracks; their numbers are unique in all the trace. */
enum track { TRACK_OF_PROCESS, TRACK_OF_THREAD, TRACK_OF_LIVE, TRACK_OF_HELD };

enum { PID_BITS = 22 };

struct counter {
    uint64_t time, last, highest; /* of values that are not written yet */
    uint64_t written;
    bool is_pending, is_described;
};

struct pool_counters {
    const struct trace_pool *pool;
    struct counter live, held;
};

/* Something that lasted. */
struct span {
    struct trace_event event;
    uint64_t begin, end;
    size_t index; /* in the order in which they ended */
};

struct perfetto {
    struct export *export;
    struct proto proto;
    struct trace *trace;
    uint64_t number; /* of the trace, from 1 */
    uint64_t started;
    uint64_t high_bits; /* of process and thread ids, so that processes of several machines with the same ids stay apart */
    struct model model;
    struct pool_counters *pools; /* by number + 1; 0: no pool */
    size_t pool_count, pool_room;
    struct span *spans;
    size_t span_count, span_room;
};

static uint64_t uuid(const struct perfetto *perfetto, enum track track, uint64_t number)
{
    return perfetto->number << 35 | (uint64_t)track << 33 | number;
}

/* Packets -------------------------------------------------------------------------------------------------------------------------------
 */

static void begin_packet(struct perfetto *perfetto, uint64_t time)
{
    proto_begin(&perfetto->proto, TRACE_PACKET);
    proto_number(&perfetto->proto, PACKET_TIMESTAMP, time > INT64_MAX - perfetto->started ? INT64_MAX : perfetto->started + time);
    proto_number(&perfetto->proto, PACKET_SEQUENCE, perfetto->number);
}

static void end_packet(struct perfetto *perfetto)
{
    proto_end(&perfetto->proto);
    proto_flush(&perfetto->proto, perfetto->export->out);
}

/* The clock of a trace is that of the boot; here it is the same as the real one. */
static void write_clocks(struct perfetto *perfetto)
{
    static const unsigned clocks[] = {CLOCK_IS_BOOT, CLOCK_IS_REAL};
    begin_packet(perfetto, 0);
    proto_begin(&perfetto->proto, PACKET_CLOCK_SNAPSHOT);
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        proto_begin(&perfetto->proto, SNAPSHOT_CLOCK);
        proto_number(&perfetto->proto, CLOCK_ID, clocks[i]);
        proto_number(&perfetto->proto, CLOCK_TIMESTAMP, perfetto->started);
        proto_end(&perfetto->proto);
    }
    proto_end(&perfetto->proto);
    end_packet(perfetto);
}

static void begin_track(struct perfetto *perfetto, enum track track, uint64_t number)
{
    begin_packet(perfetto, 0);
    proto_begin(&perfetto->proto, PACKET_TRACK_DESCRIPTOR);
    proto_number(&perfetto->proto, TRACK_UUID, uuid(perfetto, track, number));
    if (track != TRACK_OF_PROCESS)
        proto_number(&perfetto->proto, TRACK_PARENT, uuid(perfetto, TRACK_OF_PROCESS, 0));
}

static void end_track(struct perfetto *perfetto)
{
    proto_end(&perfetto->proto);
    end_packet(perfetto);
}

static uint64_t id_of(const struct perfetto *perfetto, uint64_t id)
{
    return (id & ((1U << PID_BITS) - 1)) | perfetto->high_bits;
}

static void write_process(struct perfetto *perfetto)
{
    const struct trace_header *header = &perfetto->trace->header;
    char *name;
    if (asprintf(&name, "%.1024s%s%.64s", header->program ? header->program : perfetto->trace->path, header->rank ? " rank " : "",
                 header->rank ? header->rank : "") < 0)
        name = must(NULL);
    begin_track(perfetto, TRACK_OF_PROCESS, 0);
    proto_text(&perfetto->proto, TRACK_NAME, name);
    proto_begin(&perfetto->proto, TRACK_PROCESS);
    proto_number(&perfetto->proto, PROCESS_PID, id_of(perfetto, header->pid));
    proto_text(&perfetto->proto, PROCESS_NAME, name);
    proto_end(&perfetto->proto);
    end_track(perfetto);
    free(name);
}

static void write_thread(struct perfetto *perfetto, const struct trace_event *event)
{
    begin_track(perfetto, TRACK_OF_THREAD, event->thread_number);
    proto_begin(&perfetto->proto, TRACK_THREAD);
    proto_number(&perfetto->proto, THREAD_PID, id_of(perfetto, perfetto->trace->header.pid));
    proto_number(&perfetto->proto, THREAD_TID, id_of(perfetto, event->thread));
    proto_end(&perfetto->proto);
    end_track(perfetto);
}

static void begin_event(struct perfetto *perfetto, uint64_t time, unsigned type, uint64_t track)
{
    begin_packet(perfetto, time);
    proto_begin(&perfetto->proto, PACKET_TRACK_EVENT);
    proto_number(&perfetto->proto, EVENT_TYPE, type);
    proto_number(&perfetto->proto, EVENT_TRACK, track);
}

static void end_event(struct perfetto *perfetto)
{
    proto_end(&perfetto->proto);
    end_packet(perfetto);
}

static void annotate_text(struct perfetto *perfetto, const char *name, const char *value)
{
    proto_begin(&perfetto->proto, EVENT_ANNOTATION);
    proto_text(&perfetto->proto, ANNOTATION_NAME, name);
    proto_text(&perfetto->proto, ANNOTATION_TEXT, value);
    proto_end(&perfetto->proto);
}

static void annotate(struct perfetto *perfetto, const char *name, uint64_t value)
{
    proto_begin(&perfetto->proto, EVENT_ANNOTATION);
    proto_text(&perfetto->proto, ANNOTATION_NAME, name);
    proto_number(&perfetto->proto, ANNOTATION_UINT, value);
    proto_end(&perfetto->proto);
}

/* Counters ------------------------------------------------------------------------------------------------------------------------------
 */

static void describe_counter(struct perfetto *perfetto, const struct trace_pool *pool, enum track track, uint64_t number)
{
    char *name, id[32] = "", device[32] = "";
    if (pool && pool->flags & TRACE_POOL_PRIVATE)
        snprintf(id, sizeof id, "#%" PRIu64, pool->id);
    if (pool && pool->device && !(pool->flags & TRACE_POOL_HOST))
        snprintf(device, sizeof device, "@%" PRIu64, pool->device);
    if (asprintf(&name, "%s%s%s: %s", pool ? pool->name : "-", id, device, track == TRACK_OF_LIVE ? "live" : "held") < 0)
        name = must(NULL);
    begin_track(perfetto, track, number);
    proto_text(&perfetto->proto, TRACK_NAME, name);
    proto_begin(&perfetto->proto, TRACK_COUNTER);
    proto_number(&perfetto->proto, COUNTER_UNIT, UNIT_BYTES);
    proto_end(&perfetto->proto);
    end_track(perfetto);
    free(name);
}

static void write_value(struct perfetto *perfetto, struct counter *counter, enum track track, uint64_t number, uint64_t value)
{
    begin_event(perfetto, counter->time, TYPE_COUNTER, uuid(perfetto, track, number));
    proto_number(&perfetto->proto, EVENT_COUNTER, value < INT64_MAX ? value : INT64_MAX);
    end_event(perfetto);
    counter->written = value;
}

static void flush_counter(struct perfetto *perfetto, struct counter *counter, size_t place, enum track track)
{
    if (!counter->is_pending)
        return;
    if (!counter->is_described)
        describe_counter(perfetto, perfetto->pools[place].pool, track, place);
    if (counter->highest > counter->last && counter->highest > counter->written)
        write_value(perfetto, counter, track, place, counter->highest);
    if (!counter->is_described || counter->last != counter->written)
        write_value(perfetto, counter, track, place, counter->last);
    counter->is_described = true;
    counter->is_pending = false;
}

static void set_counter(struct perfetto *perfetto, struct counter *counter, size_t place, enum track track, uint64_t value)
{
    if (counter->is_pending && counter->time != perfetto->model.now)
        flush_counter(perfetto, counter, place, track);
    if (!counter->is_pending && counter->is_described && counter->written == value)
        return;
    if (!counter->is_pending || counter->highest < value)
        counter->highest = value;
    counter->time = perfetto->model.now;
    counter->last = value;
    counter->is_pending = true;
}

static void set_counters(struct perfetto *perfetto, const struct trace_pool *pool)
{
    size_t place = pool ? (size_t)pool->number + 1 : 0;
    if (place >= perfetto->model.pool_count)
        return;
    while (perfetto->pool_count <= place) {
        perfetto->pools = must_grow(perfetto->pools, perfetto->pool_count, &perfetto->pool_room, sizeof perfetto->pools[0]);
        perfetto->pools[perfetto->pool_count++] = (struct pool_counters){0};
    }
    const struct model_pool *now = &perfetto->model.pools[place];
    struct pool_counters *counters = &perfetto->pools[place];
    counters->pool = pool;
    set_counter(perfetto, &counters->live, place, TRACK_OF_LIVE, now->live.size);
    set_counter(perfetto, &counters->held, place, TRACK_OF_HELD, model_held(now));
}

static void flush_counters(struct perfetto *perfetto)
{
    for (size_t i = 0; i < perfetto->pool_count; i++) {
        flush_counter(perfetto, &perfetto->pools[i].live, i, TRACK_OF_LIVE);
        flush_counter(perfetto, &perfetto->pools[i].held, i, TRACK_OF_HELD);
    }
}

/* Spans ---------------------------------------------------------------------------------------------------------------------------------
 */

/* How long it lasted; false for what took no time. */
static bool lasted(const struct trace_event *event, uint64_t *ns)
{
    switch (event->kind) {
    case TRACE_MAP:
    case TRACE_UNMAP:
    case TRACE_TRIM:
    case TRACE_RUNG:
        *ns = event->b;
        return true;
    case TRACE_WAIT:
    case TRACE_SYNCHRONISE:
        *ns = event->a;
        return true;
    default:
        return false;
    }
}

static void add_span(struct perfetto *perfetto, const struct trace_event *event, uint64_t ns)
{
    perfetto->spans = must_grow(perfetto->spans, perfetto->span_count, &perfetto->span_room, sizeof perfetto->spans[0]);
    perfetto->spans[perfetto->span_count] = (struct span){
        .event = *event,
        .begin = event->time > ns ? event->time - ns : 0,
        .end = event->time,
        .index = perfetto->span_count,
    };
    perfetto->span_count++;
}

/* By thread; in it, what has others in it comes before these: it began earlier, or ended later. What took no time has no others in it. */
static int by_begin(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->event.thread_number != b->event.thread_number)
        return a->event.thread_number < b->event.thread_number ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    bool is_moment = a->begin == a->end;
    if (is_moment != (b->begin == b->end))
        return is_moment ? -1 : 1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    return (a->index < b->index) == is_moment ? -1 : 1;
}

static void write_begin(struct perfetto *perfetto, const struct span *span)
{
    const struct trace_event *event = &span->event;
    char rung[TRACE_RUNG_LEN];
    trace_rung_text(rung, event->a);
    begin_event(perfetto, span->begin, TYPE_BEGIN, uuid(perfetto, TRACK_OF_THREAD, event->thread_number));
    proto_text(&perfetto->proto, EVENT_CATEGORY, "weir");
    proto_text(&perfetto->proto, EVENT_NAME, event->kind == TRACE_RUNG ? rung : trace_kind_name(event->kind));
    if (event->pool)
        annotate_text(perfetto, "pool", event->pool->name);
    if (event->kind == TRACE_SYNCHRONISE)
        annotate(perfetto, "stream", event->stream);
    else if (event->kind != TRACE_RUNG)
        annotate(perfetto, "bytes", event->kind == TRACE_WAIT ? event->b : event->a);
    end_event(perfetto);
}

static void write_end(struct perfetto *perfetto, const struct span *span)
{
    begin_event(perfetto, span->end, TYPE_END, uuid(perfetto, TRACK_OF_THREAD, span->event.thread_number));
    end_event(perfetto);
}

/* Slices of a track have to lie in each other: what is not over when the one around it is, ends with that. */
static void write_spans(struct perfetto *perfetto)
{
    struct span **open = must(calloc(perfetto->span_count + 1, sizeof *open));
    size_t depth = 0;
    if (perfetto->span_count)
        qsort(perfetto->spans, perfetto->span_count, sizeof perfetto->spans[0], by_begin);
    for (size_t i = 0; i < perfetto->span_count; i++) {
        struct span *span = &perfetto->spans[i];
        bool is_other = i == 0 || span[-1].event.thread_number != span->event.thread_number;
        while (depth && (is_other || open[depth - 1]->end <= span->begin))
            write_end(perfetto, open[--depth]);
        if (is_other)
            write_thread(perfetto, &span->event);
        if (depth && span->end > open[depth - 1]->end)
            span->end = open[depth - 1]->end;
        write_begin(perfetto, span);
        open[depth++] = span;
    }
    while (depth)
        write_end(perfetto, open[--depth]);
    free(open);
}

/* Moments -------------------------------------------------------------------------------------------------------------------------------
 */

static void begin_moment(struct perfetto *perfetto, const struct trace_event *event, const char *name)
{
    begin_event(perfetto, event->time, TYPE_INSTANT, uuid(perfetto, TRACK_OF_PROCESS, 0));
    proto_text(&perfetto->proto, EVENT_CATEGORY, "weir");
    proto_text(&perfetto->proto, EVENT_NAME, name);
    if (event->pool)
        annotate_text(perfetto, "pool", event->pool->name);
}

static void write_moment(struct perfetto *perfetto, const struct trace_event *event)
{
    switch (event->kind) {
    case TRACE_MARK:
        begin_moment(perfetto, event, event->name ? event->name->text : "mark");
        break;
    case TRACE_OUT_OF_MEMORY:
        begin_moment(perfetto, event, trace_kind_name(event->kind));
        annotate(perfetto, "bytes", event->a);
        annotate(perfetto, "stream", event->stream);
        annotate_text(perfetto, "at", event->b ? "the pool's cap" : "the device");
        break;
    case TRACE_ASKED:
        begin_moment(perfetto, event, "asked by another process");
        annotate(perfetto, "bytes", event->a);
        annotate(perfetto, "given", event->b);
        break;
    case TRACE_SETTINGS:
        begin_moment(perfetto, event, trace_kind_name(event->kind));
        annotate(perfetto, "release threshold", event->a);
        annotate(perfetto, "cap", event->b);
        break;
    default:
        return;
    }
    end_event(perfetto);
}

static bool look(void *context, const struct trace_event *event)
{
    struct perfetto *perfetto = context;
    uint64_t ns;
    model_apply(&perfetto->model, event);
    if (event->kind != TRACE_MARK && event->kind != TRACE_ASKED)
        set_counters(perfetto, event->pool);
    if (lasted(event, &ns))
        add_span(perfetto, event, ns);
    else
        write_moment(perfetto, event);
    return !ferror(perfetto->export->out);
}

/* Traces --------------------------------------------------------------------------------------------------------------------------------
 */

/* Where a log says no date, its times count from the earliest of the others. */
static uint64_t first_start(const struct export *export)
{
    uint64_t first = 0;
    for (size_t i = 0; i < export->count; i++) {
        uint64_t started = export->traces[i]->header.started_real;
        if (started && (!first || started < first))
            first = started;
    }
    return first < INT64_MAX ? first : INT64_MAX;
}

static bool has_pid_before(const struct export *export, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (export->traces[i]->header.pid == export->traces[place]->header.pid)
            return true;
    return export->traces[place]->header.pid == 0;
}

static bool write_trace(struct perfetto *perfetto, size_t place)
{
    struct trace *trace = perfetto->trace = perfetto->export->traces[place];
    uint64_t started = trace->header.started_real;
    perfetto->number = place + 1;
    perfetto->started = started ? started < INT64_MAX ? started : INT64_MAX : first_start(perfetto->export);
    perfetto->high_bits = has_pid_before(perfetto->export, place) ? (uint64_t)(place % 511 + 1) << PID_BITS : 0;
    if (place == 0 && perfetto->started)
        write_clocks(perfetto);
    write_process(perfetto);
    bool is_whole = trace_play(trace, look, perfetto);
    if (!is_whole)
        snprintf(perfetto->export->error, sizeof perfetto->export->error, "%s", trace->error);
    flush_counters(perfetto);
    write_spans(perfetto);
    model_free(&perfetto->model);
    free(perfetto->pools);
    free(perfetto->spans);
    *perfetto = (struct perfetto){.export = perfetto->export, .proto = perfetto->proto};
    return is_whole;
}

bool export_perfetto(struct export *export)
{
    struct perfetto perfetto = {.export = export};
    bool is_whole = true;
    for (size_t i = 0; i < export->count && is_whole; i++)
        is_whole = write_trace(&perfetto, i);
    proto_free(&perfetto.proto);
    return is_whole;
}
