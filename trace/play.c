/* SPDX-License-Identifier: MIT */
/*
 * play.c - trace_play(): merges the events of all threads into one order. Each thread has a cursor, which reads the thread block by block.
 *
 * The order numbers decide. The events that are numbered for the weir come in the order of their numbers. SERVE and KEEP come behind the
 * event of the weir that their `after` names, those of one stream in the order of the stream's own numbers. If this leaves a choice, the
 * earlier event comes first. A cursor whose event is not the next one of its sort (orders.h) waits until the events with lower numbers were
 * played.
 */
#include "trace/memory.h"
#include "trace/merge.h"
#include "trace/orders.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPEN_BYTES_MAX = 1 << 30 }; /* bytes of all unpacked blocks, of which each thread has one at a time */

/* Nanoseconds. The coarse clock can be up to 4 ms early, so a thread is opened so long before the play reaches the thread's base time. */
#define COARSE UINT64_C(10000000)

static bool fail(struct trace *trace, const char *why)
{
    snprintf(trace->error, sizeof trace->error, "%s", why);
    return false;
}

/* The reading position in a thread: the thread's next event. A cursor is either in the heap or waits for its turn. */
struct cursor {
    const struct trace_thread *thread;
    size_t block;
    uint8_t *content; /* the content of the block */
    size_t room;
    struct trace_decoder decoder;
    struct trace_record record; /* the next event */
    uint32_t sort;              /* the sort of its order number */
    struct cursor *later;       /* in the list of its sort's waiting cursors: the one with the next higher number */
    size_t place;               /* the index in play->waiting, if the cursor waits */
};

struct sort {
    struct trace_turn turn;
    struct cursor *waiting; /* the waiting cursors of this sort, the lowest number first */
};

struct play {
    struct trace *trace;
    struct sort *sorts;
    struct cursor **heap; /* a binary heap, by is_before(), of the cursors that do not wait */
    size_t heap_count;
    const struct trace_thread **threads; /* by their base times */
    size_t begun;                        /* how many of the threads were begun */
    struct cursor **waiting;             /* all cursors that wait, in any order */
    size_t waiting_count, open_bytes;
    struct trace_map names; /* maps (handle, 0) of each open stream with a name to the number of the name */
    struct cursor *beginning; /* a cursor that is in neither list yet; listed here so that it is freed if host memory runs out */
    bool is_good;
};

/* Returns the place of the event among the numbers of the weir: its own number or, for SERVE and KEEP, the number that it came after. */
static uint64_t position(const struct cursor *cursor)
{
    return cursor->sort ? cursor->record.after : cursor->record.order;
}

static bool is_before(const struct cursor *one, const struct cursor *other)
{
    if (position(one) != position(other))
        return position(one) < position(other);
    if (!one->sort != !other->sort)
        return !one->sort;
    if (one->record.time != other->record.time)
        return one->record.time < other->record.time;
    if (one->sort == other->sort && one->record.order != other->record.order)
        return one->record.order < other->record.order;
    return one->thread->number < other->thread->number;
}

static void heap_up(struct play *play, struct cursor *cursor)
{
    size_t at = play->heap_count++;
    for (; at > 0 && is_before(cursor, play->heap[(at - 1) / 2]); at = (at - 1) / 2)
        play->heap[at] = play->heap[(at - 1) / 2];
    play->heap[at] = cursor;
}

/* Replaces the first cursor of the heap by this one, and restores the order of the heap. */
static void heap_down(struct play *play, struct cursor *cursor)
{
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < play->heap_count; at = child) {
        if (child + 1 < play->heap_count && is_before(play->heap[child + 1], play->heap[child]))
            child++;
        if (!is_before(play->heap[child], cursor))
            break;
        play->heap[at] = play->heap[child];
    }
    play->heap[at] = cursor;
}

static void heap_drop_first(struct play *play)
{
    struct cursor *last = play->heap[--play->heap_count];
    if (play->heap_count)
        heap_down(play, last);
}

static void cursor_free(struct play *play, struct cursor *cursor)
{
    play->open_bytes -= cursor->room;
    free(cursor->content);
    free(cursor);
}

static bool open_block(struct play *play, struct cursor *cursor)
{
    struct trace *trace = play->trace;
    const struct trace_block *block = &trace->reader.blocks[cursor->block];
    if (cursor->room < block->decoded) {
        play->open_bytes += block->decoded - cursor->room;
        if (play->open_bytes > OPEN_BYTES_MAX)
            return fail(trace, "so many threads have blocks at the same time that these need more than 1 GiB");
        free(cursor->content);
        cursor->content = NULL;
        cursor->room = block->decoded;
        cursor->content = must(malloc(cursor->room));
    }
    if (!trace_reader_unpack(&trace->reader, block, cursor->content))
        return fail(trace, trace->reader.error);
    /* trace_open() has decoded the beginning of this block without an error. */
    return trace_decoder_begin(&cursor->decoder, cursor->content, block->decoded) || fail(trace, "it changed while it was read");
}

/* Moves the cursor to the next event of its thread. Returns false if there is none, or if the play has failed. */
static bool step(struct play *play, struct cursor *cursor)
{
    struct trace_definition definition;
    for (;;) {
        enum trace_found found = trace_decoder_next(&cursor->decoder, &cursor->record, &definition);
        if (found == TRACE_FOUND_EVENT) {
            cursor->sort = trace_orders_sort(play->trace->orders, cursor->record.kind, cursor->record.stream);
            return true;
        }
        if (found == TRACE_FOUND_DEFINITION)
            continue;
        cursor->block = play->trace->next_blocks[cursor->block];
        if (cursor->block == TRACE_NO_BLOCK)
            return false;
        if (!open_block(play, cursor)) {
            play->is_good = false;
            return false;
        }
    }
}

static void begin_thread(struct play *play)
{
    const struct trace_thread *thread = play->threads[play->begun++];
    struct cursor *cursor = must(calloc(1, sizeof *cursor));
    play->beginning = cursor;
    cursor->thread = thread;
    cursor->block = thread->first_block;
    play->is_good = open_block(play, cursor);
    if (play->is_good && step(play, cursor))
        heap_up(play, cursor);
    else
        cursor_free(play, cursor);
    play->beginning = NULL;
}

static void wait_for_turn(struct play *play, struct cursor *cursor)
{
    struct cursor **at = &play->sorts[cursor->sort].waiting;
    while (*at && (*at)->record.order <= cursor->record.order)
        at = &(*at)->later;
    cursor->later = *at;
    *at = cursor;
    cursor->place = play->waiting_count;
    play->waiting[play->waiting_count++] = cursor;
}

/* Puts the waiting cursors of the sort whose turn it is back into the heap. anyway: the first of them even if it is not its turn. */
static void let_go(struct play *play, struct sort *sort, bool anyway)
{
    while (sort->waiting && (anyway || trace_turn_is(&sort->turn, sort->waiting->record.order))) {
        struct cursor *cursor = sort->waiting;
        sort->waiting = cursor->later;
        play->waiting[cursor->place] = play->waiting[--play->waiting_count];
        play->waiting[cursor->place]->place = cursor->place;
        if (anyway)
            trace_turn_take(&sort->turn, play->trace->orders, cursor->record.order);
        heap_up(play, cursor);
        anyway = false;
    }
}

/* All cursors wait for each other, so the numbers in the file contradict each other. Lets one cursor go on: among the first waiting cursors
   of all sorts, the one that is_before() puts first. */
static void break_knot(struct play *play)
{
    const struct cursor *first = NULL;
    for (size_t i = 0; i < play->waiting_count; i++) {
        const struct cursor *cursor = play->waiting[i];
        if (play->sorts[cursor->sort].waiting == cursor && (!first || is_before(cursor, first)))
            first = cursor;
    }
    if (first)
        let_go(play, &play->sorts[first->sort], true);
}

/* Returns the name of the event's stream, or NULL, and keeps play->names up to date when a stream is opened or closed. */
static const struct trace_text *name_of(struct play *play, const struct trace_event *event)
{
    uint32_t *known = trace_map_find(&play->names, event->stream, 0);
    const struct trace_text *name = known ? trace_definitions_text(&play->trace->definitions, *known) : NULL;
    if (event->kind == TRACE_STREAM_OPEN && event->name) {
        bool is_new;
        name = event->name;
        *trace_map_add(&play->names, event->stream, 0, &is_new) = name->number;
    } else if (known && (event->kind == TRACE_STREAM_OPEN || event->kind == TRACE_STREAM_CLOSE)) {
        name = event->kind == TRACE_STREAM_OPEN ? NULL : name;
        trace_map_remove(&play->names, event->stream, 0);
    }
    return name;
}

static void resolve(struct play *play, const struct cursor *cursor, struct trace_event *event)
{
    struct trace_definitions *definitions = &play->trace->definitions;
    const struct trace_record *record = &cursor->record;
    unsigned fields = trace_kind_fields(record->kind);
    uint64_t place = trace_place(cursor->block, &cursor->decoder);
    *event = (struct trace_event){
        .kind = record->kind,
        .thread_number = cursor->thread->number,
        .thread = cursor->thread->id,
        .time = record->time,
        .order = record->order,
        .stream = record->stream,
        .address = record->address,
        .size = record->size,
        .given = record->given,
        .a = record->a,
        .b = record->b,
    };
    if (fields & TRACE_HAS_POOL)
        event->pool = trace_definitions_find(definitions, TRACE_DEFINES_POOL, record->pool, place);
    if (fields & TRACE_HAS_ADDRESS) {
        event->tag = trace_definitions_find(definitions, TRACE_DEFINES_TAG, record->tag, place);
        event->stack = trace_definitions_find(definitions, TRACE_DEFINES_STACK, record->stack, place);
    }
    if (record->kind == TRACE_MARK || record->kind == TRACE_STREAM_OPEN)
        event->name = trace_definitions_find(definitions, TRACE_DEFINES_NAME, record->a, place);
    if (fields & TRACE_HAS_STREAM)
        event->stream_name = name_of(play, event);
}

/* Plays the event of the cursor, which is the first in the heap, and moves the cursor on. Returns false if the play ends. */
static bool take_turn(struct play *play, struct cursor *cursor, trace_event_fn *look, void *context)
{
    struct sort *sort = &play->sorts[cursor->sort];
    struct trace_event event;
    resolve(play, cursor, &event);
    if (!look(context, &event))
        return false;
    trace_turn_take(&sort->turn, play->trace->orders, cursor->record.order);
    if (step(play, cursor)) {
        heap_down(play, cursor);
    } else {
        heap_drop_first(play);
        cursor_free(play, cursor);
    }
    let_go(play, sort, false);
    return play->is_good;
}

/* Returns whether the next thread must be begun, since it may have an event that comes before the first one in the heap. */
static bool must_begin(const struct play *play)
{
    if (play->begun == play->trace->thread_count)
        return false;
    uint64_t begin = play->threads[play->begun]->begin;
    return !play->heap_count || begin < COARSE || begin - COARSE <= play->heap[0]->record.time;
}

static void run(struct play *play, trace_event_fn *look, void *context)
{
    while (play->is_good) {
        if (must_begin(play)) {
            begin_thread(play);
        } else if (play->heap_count) {
            struct cursor *cursor = play->heap[0];
            if (!trace_turn_is(&play->sorts[cursor->sort].turn, cursor->record.order)) {
                heap_drop_first(play);
                wait_for_turn(play, cursor);
            } else if (!take_turn(play, cursor, look, context)) {
                return;
            }
        } else if (play->waiting_count) {
            break_knot(play);
        } else {
            return;
        }
    }
}

static int by_beginning(const void *left, const void *right)
{
    const struct trace_thread *a = *(const struct trace_thread *const *)left, *b = *(const struct trace_thread *const *)right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void trace_play_end(struct trace *trace)
{
    struct play *play = trace->play;
    if (!play)
        return;
    if (play->beginning)
        cursor_free(play, play->beginning);
    for (size_t i = 0; i < play->heap_count; i++)
        cursor_free(play, play->heap[i]);
    for (size_t i = 0; i < play->waiting_count; i++)
        cursor_free(play, play->waiting[i]);
    free(play->heap);
    free(play->waiting);
    free(play->sorts);
    free(play->threads);
    trace_map_free(&play->names);
    free(play);
    trace->play = NULL;
}

bool trace_play(struct trace *trace, trace_event_fn *look, void *context)
{
    struct play *play = trace->play = must(calloc(1, sizeof *play));
    play->trace = trace;
    play->is_good = true;
    play->sorts = must(calloc(trace->orders->sort_count, sizeof play->sorts[0]));
    play->heap = must(calloc(trace->thread_count + 1, sizeof play->heap[0]));
    play->waiting = must(calloc(trace->thread_count + 1, sizeof play->waiting[0]));
    play->threads = must(calloc(trace->thread_count + 1, sizeof(void *)));
    for (uint32_t i = 0; i < trace->orders->sort_count; i++)
        play->sorts[i].turn = trace_turn_begin(trace->orders, i);
    for (size_t i = 0; i < trace->thread_count; i++)
        play->threads[i] = &trace->threads[i];
    qsort(play->threads, trace->thread_count, sizeof(void *), by_beginning);
    run(play, look, context);
    bool is_good = play->is_good;
    trace_play_end(trace);
    return is_good;
}
