/* SPDX-License-Identifier: MIT */
/*
 * export_perfetto.c - traces on the time axis of Perfetto: a process of each, with counters of its pools, what its threads waited for, its
 * marks, and where the trace has stacks, its requests with them.
 *
 * All times are nanoseconds since 1970, so that several files stand on one axis. Events of blocks have times of a coarse clock: of those at
 * one time the counters show the highest and the last value.
 */
#include "config.h"

#include "tools/common/complain.h"
#include "tools/trace/export.h"
#include "tools/trace/model.h"
#include "tools/trace/packet_stacks.h"

#include <inttypes.h>
#include <stdlib.h>

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
    struct packets packets;
    struct packet_stacks stacks;
    struct trace *trace;
    size_t place; /* of the trace */
    uint64_t high_bits; /* of process and thread ids, so that processes of several machines with the same ids stay apart */
    struct model model;
    struct pool_counters *pools; /* by number + 1; 0: no pool */
    size_t pool_count, pool_room;
    struct span *spans;
    size_t span_count, span_room;
    bool *described; /* by number of the thread: it has a track */
    size_t thread_count, thread_room;
};

static uint64_t uuid(const struct perfetto *perfetto, enum track track, uint64_t number)
{
    return perfetto->packets.number << 35 | (uint64_t)track << 33 | number;
}

/* Packets -------------------------------------------------------------------------------------------------------------------------------
 */

/* The clock of a trace is that of the boot; here it is the same as the real one. */
static void write_clocks(struct perfetto *perfetto)
{
    static const unsigned clocks[] = {CLOCK_IS_BOOT, CLOCK_IS_REAL};
    packets_begin_packet(&perfetto->packets, 0);
    proto_begin(&perfetto->packets.proto, PACKET_CLOCK_SNAPSHOT);
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        proto_begin(&perfetto->packets.proto, SNAPSHOT_CLOCK);
        proto_number(&perfetto->packets.proto, CLOCK_ID, clocks[i]);
        proto_number(&perfetto->packets.proto, CLOCK_TIMESTAMP, perfetto->packets.started);
        proto_end(&perfetto->packets.proto);
    }
    proto_end(&perfetto->packets.proto);
    packets_end_packet(&perfetto->packets);
}

static void begin_track(struct perfetto *perfetto, enum track track, uint64_t number)
{
    packets_begin_packet(&perfetto->packets, 0);
    proto_begin(&perfetto->packets.proto, PACKET_TRACK_DESCRIPTOR);
    proto_number(&perfetto->packets.proto, TRACK_UUID, uuid(perfetto, track, number));
    if (track != TRACK_OF_PROCESS)
        proto_number(&perfetto->packets.proto, TRACK_PARENT, uuid(perfetto, TRACK_OF_PROCESS, 0));
}

static void end_track(struct perfetto *perfetto)
{
    proto_end(&perfetto->packets.proto);
    packets_end_packet(&perfetto->packets);
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
    proto_text(&perfetto->packets.proto, TRACK_NAME, name);
    proto_begin(&perfetto->packets.proto, TRACK_PROCESS);
    proto_number(&perfetto->packets.proto, PROCESS_PID, id_of(perfetto, header->pid));
    proto_text(&perfetto->packets.proto, PROCESS_NAME, name);
    proto_end(&perfetto->packets.proto);
    end_track(perfetto);
    free(name);
}

/* The track of the event's thread, which is described before the first event on it. */
static uint64_t thread_track(struct perfetto *perfetto, const struct trace_event *event)
{
    const uint64_t track = uuid(perfetto, TRACK_OF_THREAD, event->thread_number);
    while (perfetto->thread_count <= event->thread_number) {
        perfetto->described = must_grow(perfetto->described, perfetto->thread_count, &perfetto->thread_room, sizeof(bool));
        perfetto->described[perfetto->thread_count++] = false;
    }
    if (perfetto->described[event->thread_number])
        return track;
    perfetto->described[event->thread_number] = true;
    begin_track(perfetto, TRACK_OF_THREAD, event->thread_number);
    proto_begin(&perfetto->packets.proto, TRACK_THREAD);
    proto_number(&perfetto->packets.proto, THREAD_PID, id_of(perfetto, perfetto->trace->header.pid));
    proto_number(&perfetto->packets.proto, THREAD_TID, id_of(perfetto, event->thread));
    proto_end(&perfetto->packets.proto);
    end_track(perfetto);
    return track;
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
    proto_text(&perfetto->packets.proto, TRACK_NAME, name);
    proto_begin(&perfetto->packets.proto, TRACK_COUNTER);
    proto_number(&perfetto->packets.proto, COUNTER_UNIT, UNIT_BYTES);
    proto_end(&perfetto->packets.proto);
    end_track(perfetto);
    free(name);
}

static void write_value(struct perfetto *perfetto, struct counter *counter, enum track track, uint64_t number, uint64_t value)
{
    packets_begin_event(&perfetto->packets, counter->time, TYPE_COUNTER, uuid(perfetto, track, number));
    proto_number(&perfetto->packets.proto, EVENT_COUNTER, value < INT64_MAX ? value : INT64_MAX);
    packets_end_event(&perfetto->packets);
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

static void annotate_stream(struct perfetto *perfetto, const struct trace_event *event)
{
    packets_annotate(&perfetto->packets, "stream", event->stream);
    if (event->stream_name)
        packets_annotate_text(&perfetto->packets, "stream_name", event->stream_name->text);
}

static void write_begin(struct perfetto *perfetto, const struct span *span)
{
    const struct trace_event *event = &span->event;
    char rung[TRACE_RUNG_LEN];
    const uint64_t track = thread_track(perfetto, event);
    trace_rung_text(rung, event->a);
    packets_begin_event(&perfetto->packets, span->begin, TYPE_BEGIN, track);
    proto_text(&perfetto->packets.proto, EVENT_CATEGORY, "weir");
    proto_text(&perfetto->packets.proto, EVENT_NAME, event->kind == TRACE_RUNG ? rung : trace_kind_name(event->kind));
    if (event->pool)
        packets_annotate_text(&perfetto->packets, "pool", event->pool->name);
    if (event->kind == TRACE_SYNCHRONISE)
        annotate_stream(perfetto, event);
    else if (event->kind != TRACE_RUNG)
        packets_annotate(&perfetto->packets, "bytes", event->kind == TRACE_WAIT ? event->b : event->a);
    packets_end_event(&perfetto->packets);
}

static void write_end(struct perfetto *perfetto, const struct span *span)
{
    packets_begin_event(&perfetto->packets, span->end, TYPE_END, thread_track(perfetto, &span->event));
    packets_end_event(&perfetto->packets);
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
    packets_begin_event(&perfetto->packets, event->time, TYPE_INSTANT, uuid(perfetto, TRACK_OF_PROCESS, 0));
    proto_text(&perfetto->packets.proto, EVENT_CATEGORY, "weir");
    proto_text(&perfetto->packets.proto, EVENT_NAME, name);
    if (event->pool)
        packets_annotate_text(&perfetto->packets, "pool", event->pool->name);
}

static void write_moment(struct perfetto *perfetto, const struct trace_event *event)
{
    switch (event->kind) {
    case TRACE_MARK:
        begin_moment(perfetto, event, event->name ? event->name->text : "mark");
        break;
    case TRACE_OUT_OF_MEMORY:
        begin_moment(perfetto, event, trace_kind_name(event->kind));
        packets_annotate(&perfetto->packets, "bytes", event->a);
        annotate_stream(perfetto, event);
        packets_annotate_text(&perfetto->packets, "at", event->b ? "the pool's cap" : "the device");
        break;
    case TRACE_ASKED:
        begin_moment(perfetto, event, "asked by another process");
        packets_annotate(&perfetto->packets, "bytes", event->a);
        packets_annotate(&perfetto->packets, "given", event->b);
        break;
    case TRACE_SETTINGS:
        begin_moment(perfetto, event, trace_kind_name(event->kind));
        packets_annotate(&perfetto->packets, "release threshold", event->a);
        packets_annotate(&perfetto->packets, "cap", event->b);
        break;
    default:
        return;
    }
    packets_end_event(&perfetto->packets);
}

/* Who asked for the block: on a trace with stacks, as the rest is in the counters. */
static void write_request(struct perfetto *perfetto, const struct trace_event *event)
{
    const bool is_request = event->kind == TRACE_MALLOC || event->kind == TRACE_SERVE || event->kind == TRACE_GRAPH_MALLOC;
    if (!is_request || !event->stack || !event->stack->count)
        return;
    const uint64_t track = thread_track(perfetto, event);
    struct symbols *symbols = perfetto->export->symbols_of(perfetto->export->context, perfetto->place);
    packets_begin_packet(&perfetto->packets, event->time);
    const uint64_t stack = packet_stacks_write(&perfetto->stacks, &perfetto->packets.proto, symbols, event->stack);
    packets_open_event(&perfetto->packets, TYPE_INSTANT, track);
    proto_text(&perfetto->packets.proto, EVENT_CATEGORY, "weir");
    proto_text(&perfetto->packets.proto, EVENT_NAME, trace_kind_name(event->kind));
    proto_number(&perfetto->packets.proto, EVENT_CALLSTACK, stack);
    proto_double(&perfetto->packets.proto, EVENT_CALLSTACK_WEIGHT, (double)event->size);
    packets_annotate(&perfetto->packets, "bytes", event->size);
    if (event->pool)
        packets_annotate_text(&perfetto->packets, "pool", event->pool->name);
    if (event->tag)
        packets_annotate_text(&perfetto->packets, "tag", event->tag->text);
    packets_end_event(&perfetto->packets);
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
    write_request(perfetto, event);
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
    perfetto->place = place;
    perfetto->packets.number = place + 1;
    perfetto->packets.started = started ? started < INT64_MAX ? started : INT64_MAX : first_start(perfetto->export);
    perfetto->high_bits = has_pid_before(perfetto->export, place) ? (uint64_t)(place % 511 + 1) << PID_BITS : 0;
    if (place == 0 && perfetto->packets.started)
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
    packet_stacks_free(&perfetto->stacks);
    free(perfetto->described);
    *perfetto = (struct perfetto){.export = perfetto->export, .packets = perfetto->packets};
    return is_whole;
}

bool export_perfetto(struct export *export)
{
    struct perfetto perfetto = {.export = export, .packets = {.out = export->out}};
    bool is_whole = true;
    for (size_t i = 0; i < export->count && is_whole; i++)
        is_whole = write_trace(&perfetto, i);
    proto_free(&perfetto.packets.proto);
    return is_whole;
}
