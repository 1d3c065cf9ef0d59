/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/number.h"
#include "lib/gpu/clock.h"
#include "lib/trace/encode.h"

#define BATCH 512                        /* events that are copied at a time */
#define SAMPLE (50 * GPU_MILLISECOND)    /* the time between two calls of `sample`, while there are events */
#define PAUSE_LEAST GPU_MILLISECOND      /* the pause between two looks at the rings, if there were a few new events, */
#define PAUSE_MOST (32 * GPU_MILLISECOND) /* and the longest pause if there were none */
#define FLUSH (1000 * GPU_MILLISECOND)   /* blocks are written so often, even if they are not full: a killed process loses no more */

/* A ring that the writer reads, and the block that is being made of its events. */
struct tap {
    struct tap *next;
    const struct weir__ring *ring;
    uint64_t position, lost; /* the number of the next event to read; how many lost events no block has counted yet */
    bool is_begun;           /* `source` has a block with events */
    struct weir__trace_source source;
};

/* While the writer's thread runs, only that thread uses the members above `lock`. */
struct weir__trace {
    struct weir__traced of;
    int fd;
    dev_t device; /* of the file, as is the inode number: they tell whether `fd` is still this file */
    ino_t number;
    enum weir__trace_span span;
    uint64_t dropped_before; /* events that the recorder had dropped before the trace began; they are no loss of this trace */
    pthread_t thread;
    struct weir__trace_encoder encoder;
    struct weir__trace_bytes head;
    struct tap *taps;                /* the newest ring first */
    const struct weir__ring *newest; /* the newest ring that has a tap */
    uint8_t *block;                  /* a buffer for the largest possible block */
    uint64_t earliest;               /* the time of the earliest event; UINT64_MAX if there was none */
    struct weir__recorded_stream *streams; /* the streams that were open when the trace began */
    size_t stream_count;
    uint64_t begun, begun_order; /* the time, and the weir's last order number, when the trace began */
    struct weir__trace_result result;
    bool was_said; /* its error */
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t told;
    bool must_end, is_over;
    bool is_settled;  /* its pools are about to go */
    bool is_sampling; /* its thread asks them for their figures, with no lock held */
};

/* The file ----------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether `fd` still is the trace's file. A program may close descriptors that it did not open, and open a file of its own that
   gets the same number. */
static bool is_there(const struct weir__trace *trace)
{
    struct stat found;
    return trace->fd >= 0 && fstat(trace->fd, &found) == 0 && found.st_dev == trace->device && found.st_ino == trace->number;
}

static int close_file(struct weir__trace *trace)
{
    int failed = is_there(trace) && close(trace->fd) != 0 ? errno : 0;
    trace->fd = -1;
    return failed;
}

static void write_bytes(struct weir__trace *trace, const uint8_t *bytes, size_t len)
{
    if (!trace->result.error && !is_there(trace))
        trace->result.error = EBADF;
    if (!trace->result.error && trace->result.bytes + len > WEIR__TRACE_BYTES_MAX)
        trace->result.error = EFBIG;
    while (len && !trace->result.error) {
        ssize_t written = write(trace->fd, bytes, len);
        if (written == 0 || (written < 0 && errno != EINTR))
            trace->result.error = written ? errno : EIO;
        if (written <= 0)
            continue;
        bytes += written;
        len -= (size_t)written;
        trace->result.bytes += (uint64_t)written;
    }
}

static void write_block(struct weir__trace *trace, enum weir__trace_block kind, const struct weir__trace_bytes *content)
{
    write_bytes(trace, trace->block, weir__trace_block_write(kind, content->bytes, content->len, trace->block));
}

/* Blocks of events --------------------------------------------------------------------------------------------------------------------- */

static void write_definitions(void *data, const struct weir__trace_bytes *content)
{
    write_block(data, WEIR__TRACE_BLOCK_EVENTS, content);
}

static void flush_tap(struct weir__trace *trace, struct tap *tap)
{
    if (!tap->is_begun)
        return;
    weir__trace_source_end(&tap->source, &trace->encoder);
    weir__trace_definitions_flush(&trace->encoder);
    write_block(trace, WEIR__TRACE_BLOCK_EVENTS, &tap->source.coder.content);
    if (!trace->result.error)
        trace->result.events += tap->source.events;
    else
        trace->result.lost += tap->source.events;
    tap->is_begun = false;
}

static void add_event(struct weir__trace *trace, struct tap *tap, const struct weir__event *event)
{
    bool is_other = tap->is_begun && (weir__event_thread(event) != tap->source.thread || tap->lost);
    bool is_full = tap->is_begun && trace_source_is_full(&tap->source) && !trace_source_is_within(&tap->source);
    trace->earliest = weir__smaller(trace->earliest, event->time);
    if (is_other || is_full)
        flush_tap(trace, tap);
    if (!tap->is_begun) {
        weir__trace_source_begin(&tap->source, &trace->encoder, event, tap->lost);
        trace->result.lost += tap->lost;
        tap->lost = 0;
        tap->is_begun = true;
    }
    weir__trace_source_add(&tap->source, &trace->encoder, event);
}

/* The number of events that the rings got since the last look: none, at most an eighth of a ring, or more. */
enum flow { FLOW_NONE, FLOW_LITTLE, FLOW_MUCH };

static enum flow drain(struct weir__trace *trace, struct tap *tap)
{
    struct weir__event events[BATCH];
    uint64_t before = tap->position, end = atomic_load_explicit(&tap->ring->head, memory_order_acquire);
    while (tap->position < end) {
        size_t count = weir__ring_read(tap->ring, &tap->position, events, BATCH, &tap->lost);
        for (size_t i = 0; i < count; i++)
            add_event(trace, tap, &events[i]);
    }
    uint64_t got = tap->position - before;
    return got * 8 > tap->ring->capacity ? FLOW_MUCH : got ? FLOW_LITTLE : FLOW_NONE;
}

static void destroy_taps(struct tap *taps)
{
    while (taps) {
        struct tap *tap = taps;
        taps = tap->next;
        weir__trace_source_destroy(&tap->source);
        free(tap);
    }
}

/* Makes taps for new rings, which are at the beginning of the recorder's list. Returns false, with nothing changed, if host memory runs
   out. */
static bool find_rings(struct weir__trace *trace)
{
    struct weir__recorder *recorder = trace->of.recorder;
    const struct weir__ring *newest = weir__recorder_next(recorder, NULL);
    struct tap *found = NULL;
    for (const struct weir__ring *ring = newest; ring != trace->newest; ring = weir__recorder_next(recorder, ring)) {
        struct tap *tap = calloc(1, sizeof *tap);
        if (!tap || !weir__trace_source_init(&tap->source)) {
            free(tap);
            destroy_taps(found);
            return false;
        }
        tap->ring = ring;
        tap->next = found;
        found = tap;
    }
    for (struct tap *tap; (tap = found);) {
        found = tap->next;
        tap->next = trace->taps;
        trace->taps = tap;
    }
    trace->newest = newest;
    return true;
}

static enum flow drain_all(struct weir__trace *trace)
{
    enum flow most = FLOW_NONE;
    find_rings(trace); /* if host memory runs out, new rings are not read, and find_rings() tries again at the next look */
    for (struct tap *tap = trace->taps; tap; tap = tap->next) {
        enum flow flow = drain(trace, tap);
        most = flow > most ? flow : most;
    }
    return most;
}

/* Writes the blocks of all taps. A block that ends within a name is left for the next time, except at the end of the trace (is_end). */
static void flush_all(struct weir__trace *trace, bool is_end)
{
    for (struct tap *tap = trace->taps; tap; tap = tap->next) {
        if (is_end || !trace_source_is_within(&tap->source))
            flush_tap(trace, tap);
        trace->result.lost += is_end ? tap->lost : 0; /* events lost after the tap's last block */
    }
}

/* What is live ------------------------------------------------------------------------------------------------------------------------- */

/* The blocks that are live at one moment, as events with the time and order of that moment. */
struct live {
    struct weir__event *events;
    size_t count, room;
    struct weir__event moment;
};

static void copy_event(const struct weir__event *event, void *data)
{
    struct live *live = data;
    if (live->count < live->room) {
        live->events[live->count] = *event;
        live->events[live->count].time = live->moment.time;
        live->events[live->count].order = live->moment.order;
    }
    live->count++;
}

/* Returns the blocks that are live now. If host memory runs out, the list is empty. */
static struct live take_live(struct weir__trace *trace)
{
    struct weir__recorder *recorder = trace->of.recorder;
    struct live live = {.moment = {.order = atomic_load(&recorder->order), .time = recorder->gpu->now()}};
    trace->of.live(trace->of.data, copy_event, &live);
    live.room = live.count + live.count / 8 + 64;
    live.events = malloc(live.room * sizeof *live.events);
    live.count = 0;
    if (live.events)
        trace->of.live(trace->of.data, copy_event, &live);
    return live;
}

/* Adds an event for each stream that was open when the trace began. A dump contains the past, so there the event has the time at which the
   stream was opened, or that of the earliest event if the rings do not reach back so far. */
static void add_streams(struct weir__trace *trace, struct tap *tap)
{
    bool is_past = trace->span == WEIR__TRACE_UNTIL_NOW;
    for (const struct weir__recorded_stream *stream = trace->streams; stream < trace->streams + trace->stream_count; stream++) {
        const struct weir__event event = {
            .time = is_past ? weir__smaller(weir__larger(stream->time, trace->earliest), trace->begun) : trace->begun,
            .stream = (uintptr_t)stream->handle,
            .order = is_past ? weir__larger(stream->order, 1) : trace->begun_order,
            .what = weir__event_what(WEIR__KIND_STREAM_OPEN, 0, stream->pool, 0),
        };
        struct weir__event events[WEIR__NAME_EVENTS];
        for (size_t j = 0, parts = weir__event_name(events, &event, stream->name); j < parts; j++)
            add_event(trace, tap, &events[j]);
    }
}

static void write_live(struct weir__trace *trace, struct live *live)
{
    struct tap tap = {.next = NULL};
    bool is_ready = weir__trace_source_init(&tap.source);
    if (is_ready)
        add_streams(trace, &tap);
    for (size_t i = 0; is_ready && i < live->count && i < live->room; i++)
        add_event(trace, &tap, &live->events[i]);
    if (is_ready) {
        flush_tap(trace, &tap);
        weir__trace_source_destroy(&tap.source);
    }
    free(live->events);
}

/* The thread --------------------------------------------------------------------------------------------------------------------------- */

static struct timespec after(uint64_t nanoseconds)
{
    return gpu_clock_timespec(gpu_clock_now() + nanoseconds);
}

/* Waits for the given time, or until the trace must end. Returns whether it must. */
static bool wait_a_while(struct weir__trace *trace, uint64_t nanoseconds)
{
    const struct timespec until = after(nanoseconds);
    pthread_mutex_lock(&trace->lock);
    if (!trace->must_end && nanoseconds)
        pthread_cond_timedwait(&trace->told, &trace->lock, &until);
    bool must_end = trace->must_end;
    pthread_mutex_unlock(&trace->lock);
    return must_end;
}

/* Returns the pause before the next look at the rings: none if there was much, and a longer one each time that there was nothing. */
static uint64_t next_pause(uint64_t pause, enum flow flow)
{
    if (flow == FLOW_MUCH)
        return 0;
    return flow == FLOW_NONE && pause ? (2 * pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST) : PAUSE_LEAST;
}

/* Records the figures of all pools as events of this thread: CUDA does not report when a pool grows, so the pools must be asked. */
static void sample(struct weir__trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    bool is_sampling = trace->is_sampling = !trace->is_settled && trace->of.sample;
    pthread_mutex_unlock(&trace->lock);
    if (is_sampling)
        trace->of.sample(trace->of.data);
    pthread_mutex_lock(&trace->lock);
    trace->is_sampling = false;
    pthread_cond_broadcast(&trace->told);
    pthread_mutex_unlock(&trace->lock);
    /* Its own events are no reason for the next look. */
    drain_all(trace);
}

void weir__trace_settle(struct weir__trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    trace->is_settled = true;
    while (trace->is_sampling)
        pthread_cond_wait(&trace->told, &trace->lock);
    pthread_mutex_unlock(&trace->lock);
}

static void follow(struct weir__trace *trace)
{
    uint64_t flushed = gpu_clock_now(), sampled = 0, pause = PAUSE_LEAST;
    while (!trace->result.error && !wait_a_while(trace, pause)) {
        enum flow flow = drain_all(trace);
        pause = next_pause(pause, flow);
        if (flow != FLOW_NONE && gpu_clock_now() - sampled > SAMPLE) {
            sample(trace);
            sampled = gpu_clock_now();
        }
        if (gpu_clock_now() - flushed > FLUSH) {
            flush_all(trace, false);
            flushed = gpu_clock_now();
        }
    }
}

/* Reports an error once, as soon as it is known, since the program may run for long after it. Not with WEIR__TRACE_FROM_NOW: the code that
   began such a trace gets the error from weir__trace_end(). */
static void say_error(struct weir__trace *trace)
{
    if (trace->result.error && !trace->was_said && trace->span != WEIR__TRACE_FROM_NOW)
        trace->of.failed(trace->of.data, trace->span, &trace->result);
    trace->was_said = trace->result.error;
}

static void write_trace(struct weir__trace *trace)
{
    uint8_t header[WEIR__TRACE_FILE_HEADER], number[16];
    struct weir__trace_bytes end = {.bytes = number, .room = sizeof number};
    /* List the live blocks before reading the rings. If a block's malloc is already overwritten in the rings, the block is either live now,
       and so in the list, or its free is still in the rings. */
    struct live live = {.count = 0};
    if (trace->span != WEIR__TRACE_FROM_OPEN)
        live = take_live(trace);
    weir__trace_file_header(header);
    write_bytes(trace, header, sizeof header);
    write_block(trace, WEIR__TRACE_BLOCK_HEAD, &trace->head);
    if (trace->span == WEIR__TRACE_FROM_NOW)
        write_live(trace, &live);
    if (trace->span != WEIR__TRACE_UNTIL_NOW)
        follow(trace);
    say_error(trace);
    drain_all(trace);
    flush_all(trace, true);
    if (trace->span == WEIR__TRACE_UNTIL_NOW)
        write_live(trace, &live);
    trace->result.lost += atomic_load(&trace->of.recorder->dropped) - trace->dropped_before;
    weir__trace_put_number(&end, trace->result.lost);
    write_block(trace, WEIR__TRACE_BLOCK_END, &end);
    /* This thread closes the file, and not weir__trace_end(), since close() may wait for a disk. */
    int failed = close_file(trace);
    trace->result.error = trace->result.error ? trace->result.error : failed;
    say_error(trace);
    pthread_mutex_lock(&trace->lock);
    trace->is_over = true;
    pthread_mutex_unlock(&trace->lock);
}

static void *run(void *trace)
{
    WEIR__CALL;
    write_trace(trace);
    return NULL;
}

static void destroy(struct weir__trace *trace)
{
    destroy_taps(trace->taps);
    close_file(trace);
    free(trace->head.bytes);
    free(trace->block);
    free(trace->streams);
    weir__trace_encoder_destroy(&trace->encoder);
    pthread_cond_destroy(&trace->told);
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

/* Starts the thread, with all signals blocked: signals are the program's. Returns 0, or an errno. */
static int start_thread(struct weir__trace *trace)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int failed = pthread_create(&trace->thread, NULL, run, trace);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return failed;
}

/* Copies the list of open streams. The caller of weir__trace_begin() does that, not the trace's thread: a stream may be closed before the
   thread runs. Returns false if host memory runs out. */
static bool take_streams(struct weir__trace *trace)
{
    struct weir__recorder *recorder = trace->of.recorder;
    trace->begun_order = atomic_load(&recorder->order);
    trace->begun = recorder->gpu->now();
    if (trace->span == WEIR__TRACE_FROM_OPEN)
        return true;
    size_t room = weir__recorder_streams(recorder, NULL, 0) + 16;
    trace->streams = malloc(room * sizeof *trace->streams);
    if (trace->streams)
        trace->stream_count = weir__smaller(weir__recorder_streams(recorder, trace->streams, room), room);
    return trace->streams;
}

struct weir__trace *weir__trace_begin(const struct weir__traced *of, int fd, enum weir__trace_span span, const char *reason)
{
    struct stat found;
    struct weir__trace *made = calloc(1, sizeof *made);
    if (!made) {
        close(fd);
        return NULL;
    }
    made->of = *of;
    made->fd = fd;
    if (fstat(fd, &found) == 0) {
        made->device = found.st_dev;
        made->number = found.st_ino;
    }
    made->span = span;
    made->earliest = UINT64_MAX;
    made->dropped_before = span == WEIR__TRACE_FROM_NOW ? atomic_load(&of->recorder->dropped) : 0;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->told, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&made->lock, NULL);
    made->block = malloc(weir__trace_block_bound(WEIR__TRACE_HEAD_MAX));
    bool is_ready = weir__trace_encoder_init(&made->encoder, of->recorder, write_definitions, made) && made->block &&
                    of->head(of->data, reason, &made->head) && find_rings(made) && take_streams(made);
    for (struct tap *tap = made->taps; tap && span == WEIR__TRACE_FROM_NOW; tap = tap->next)
        tap->position = atomic_load(&tap->ring->head);
    if (!is_ready || start_thread(made) != 0) {
        destroy(made);
        return NULL;
    }
    return made;
}

bool weir__trace_is_over(struct weir__trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    bool is_over = trace->is_over;
    pthread_mutex_unlock(&trace->lock);
    return is_over;
}

void weir__trace_ask_end(struct weir__trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    trace->must_end = true;
    pthread_cond_broadcast(&trace->told);
    pthread_mutex_unlock(&trace->lock);
}

struct weir__trace_result weir__trace_end(struct weir__trace *trace)
{
    weir__trace_ask_end(trace);
    pthread_join(trace->thread, NULL);
    struct weir__trace_result result = trace->result;
    destroy(trace);
    return result;
}
