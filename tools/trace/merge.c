/* SPDX-License-Identifier: MIT */
#include "tools/trace/merge.h"
#include "tools/common/complain.h"
#include "tools/trace/orders.h"
#include "tools/trace/rmm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPEN_BYTES_MAX = 1 << 30, /* unpacked blocks at a time, one for each thread */
    OFFSET_BITS = 23,         /* of a place: the block's number, then the offset in its content */
};

#define NO_BLOCK SIZE_MAX

struct trace_thread {
    uint64_t id, begin; /* begin: the base time of the first block */
    uint32_t number;
    size_t first_block, last_block;
};

static bool fail(struct trace *trace, const char *why)
{
    snprintf(trace->error, sizeof trace->error, "%s", why);
    return false;
}

/* Opening -------------------------------------------------------------------------------------------------------------------------------
 */

/* What the first pass collects. */
struct census {
    struct trace *trace;
    struct trace_map threads; /* id: place in trace->threads */
    size_t room;
    uint64_t lost;
    uint8_t *content; /* of the block */
};

static void link_block(struct census *census, size_t block, const struct trace_decoder *decoder)
{
    struct trace *trace = census->trace;
    bool is_new;
    uint32_t *place = trace_map_add(&census->threads, decoder->thread, 0, &is_new);
    if (is_new) {
        *place = (uint32_t)trace->thread_count;
        trace->threads = must_grow(trace->threads, trace->thread_count, &census->room, sizeof trace->threads[0]);
        trace->threads[trace->thread_count++] =
            (struct trace_thread){.id = decoder->thread, .begin = decoder->base, .number = *place, .first_block = block};
    } else {
        trace->next_blocks[trace->threads[*place].last_block] = block;
    }
    trace->threads[*place].last_block = block;
    trace->next_blocks[block] = NO_BLOCK;
}

static void count_event(struct trace *trace, const struct trace_record *record)
{
    trace_orders_add(trace->orders, trace_orders_sort(trace->orders, record->kind, record->stream), record->order);
    if (trace->events == 0 || record->time < trace->first)
        trace->first = record->time;
    if (record->time > trace->last)
        trace->last = record->time;
    trace->events++;
    trace->kinds[record->kind]++;
}

static uint64_t place_of(size_t block, const struct trace_decoder *decoder)
{
    return (uint64_t)block << OFFSET_BITS | (uint64_t)(decoder->bytes.at - decoder->begin);
}

/* false, with the error: it has more definitions than are kept. */
static bool look_through(struct census *census, size_t number)
{
    struct trace *trace = census->trace;
    const struct trace_block *block = &trace->reader.blocks[number];
    struct trace_decoder decoder;
    struct trace_record record;
    struct trace_definition definition;
    if (!trace_reader_unpack(&trace->reader, block, census->content)) {
        trace_reader_lose(&trace->reader, block, NULL);
        return true;
    }
    if (!trace_decoder_begin(&decoder, census->content, block->decoded)) {
        trace_reader_lose(&trace->reader, block, decoder.wrong);
        return true;
    }
    link_block(census, number, &decoder);
    if (__builtin_add_overflow(census->lost, decoder.lost, &census->lost))
        census->lost = UINT64_MAX;
    for (;;) {
        switch (trace_decoder_next(&decoder, &record, &definition)) {
        case TRACE_FOUND_EVENT:
            count_event(trace, &record);
            break;
        case TRACE_FOUND_DEFINITION:
            if (!trace_definitions_add(&trace->definitions, &definition, place_of(number, &decoder)))
                return fail(trace, "it has more than 16 million definitions, or 512 MiB of them, which no Weir writes");
            break;
        case TRACE_FOUND_WRONG:
            trace_reader_lose(&trace->reader, block, decoder.wrong);
            return true;
        case TRACE_FOUND_END:
            return true;
        }
    }
}

static uint64_t number_in(const struct trace *trace, const char *key)
{
    const char *text = trace_value(trace, key);
    char *end;
    if (!text || text[0] < '0' || text[0] > '9')
        return 0;
    uint64_t value = strtoull(text, &end, 10);
    return *end ? 0 : value;
}

static void read_header(struct trace *trace)
{
    const char *stacks = trace_value(trace, "stacks");
    trace->header = (struct trace_header){
        .weir = trace_value(trace, "weir"),
        .program = trace_value(trace, "program"),
        .rank = trace_value(trace, "rank"),
        .reason = trace_value(trace, "reason"),
        .level = trace_value(trace, "level"),
        .policy = trace_value(trace, "policy"),
        .pid = number_in(trace, "pid"),
        .started_real = number_in(trace, "started.real"),
        .driver = number_in(trace, "driver"),
        .has_stacks = stacks && strcmp(stacks, "true") == 0,
    };
}

static bool open_weir(struct trace *trace, int fd)
{
    if (!trace_reader_open_fd(&trace->reader, fd))
        return fail(trace, trace->reader.error);
    struct census census = {.trace = trace, .content = must(malloc(TRACE_CONTENT_MAX))};
    trace->orders = must(malloc(sizeof *trace->orders));
    trace_orders_init(trace->orders);
    trace->next_blocks = must(calloc(trace->reader.block_count + 1, sizeof trace->next_blocks[0]));
    bool good = true;
    for (size_t block = 0; good && block < trace->reader.block_count; block++)
        good = look_through(&census, block);
    trace_orders_seal(trace->orders);
    trace_definitions_seal(&trace->definitions);
    read_header(trace);
    trace_reader_conclude(&trace->reader);
    trace->losses = trace->reader.losses;
    if (census.lost > trace->losses.events)
        trace->losses.events = census.lost;
    trace_map_free(&census.threads);
    free(census.content);
    return good;
}

bool trace_open_fd(struct trace *trace, int fd, const char *path)
{
    *trace = (struct trace){.path = path, .reader.fd = -1};
    if (trace_rmm_is(fd))
        return trace_rmm_open(trace, fd);
    return open_weir(trace, fd);
}

bool trace_open(struct trace *trace, const char *path)
{
    /* A pipe or a device shall not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return trace_open_fd(trace, fd, path);
    *trace = (struct trace){.path = path, .reader.fd = -1};
    snprintf(trace->error, sizeof trace->error, "it cannot be opened: %s", strerror(errno));
    return false;
}

void trace_close(struct trace *trace)
{
    trace_reader_close(&trace->reader);
    trace_definitions_free(&trace->definitions);
    if (trace->orders)
        trace_orders_free(trace->orders);
    trace_rmm_close(trace);
    free(trace->orders);
    free(trace->threads);
    free(trace->next_blocks);
    *trace = (struct trace){.reader.fd = -1};
}

const char *trace_value(const struct trace *trace, const char *key)
{
    return trace_reader_value(&trace->reader, key);
}

struct trace_module *const *trace_modules(const struct trace *trace, size_t *count)
{
    *count = trace->definitions.sorts[TRACE_DEFINES_MODULE].object_count;
    return trace->definitions.modules;
}

/* Playing -------------------------------------------------------------------------------------------------------------------------------
 */

/* A thread that is being read, at its next event. */
struct cursor {
    const struct trace_thread *thread;
    size_t block;
    uint8_t *content; /* of the block */
    size_t room;
    struct trace_decoder decoder;
    struct trace_record record;
    uint32_t sort;        /* of the record */
    struct cursor *later; /* that waits in the same sort, for a later number */
    size_t place;         /* in play->waiting, while it waits */
};

struct sort {
    struct trace_turn turn;
    struct cursor *waiting; /* by number */
};

struct play {
    struct trace *trace;
    struct sort *sorts;
    struct cursor **heap; /* by time: those that do not wait for their turn */
    size_t heap_count;
    const struct trace_thread **threads; /* by their beginnings */
    size_t begun;                        /* of them */
    struct cursor **waiting;             /* all that wait */
    size_t waiting_count, open_bytes;
    bool is_good;
};

static bool is_before(const struct cursor *one, const struct cursor *other)
{
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

/* Puts the cursor in the place of the first one. */
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
        cursor->room = block->decoded;
        cursor->content = must(malloc(cursor->room));
    }
    if (!trace_reader_unpack(&trace->reader, block, cursor->content))
        return fail(trace, trace->reader.error);
    /* It began well when the trace was opened. */
    return trace_decoder_begin(&cursor->decoder, cursor->content, block->decoded) || fail(trace, "it changed while it was read");
}

/* To the next event of the thread. false: there is none, or the play failed. */
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
        if (cursor->block == NO_BLOCK)
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
    cursor->thread = thread;
    cursor->block = thread->first_block;
    play->is_good = open_block(play, cursor);
    if (play->is_good && step(play, cursor))
        heap_up(play, cursor);
    else
        cursor_free(play, cursor);
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

/* Lets go who waits in the sort, if it is their turn, or the first of them anyway. */
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

/* The numbers contradict each other: of those whose number is the least in its sort, the earliest goes. */
static void break_knot(struct play *play)
{
    const struct cursor *first = NULL;
    for (size_t i = 0; i < play->waiting_count; i++) {
        const struct cursor *cursor = play->waiting[i];
        if (play->sorts[cursor->sort].waiting == cursor && (!first || is_before(cursor, first)))
            first = cursor;
    }
    let_go(play, &play->sorts[first->sort], true);
}

static void resolve(struct play *play, const struct cursor *cursor, struct trace_event *event)
{
    struct trace_definitions *definitions = &play->trace->definitions;
    const struct trace_record *record = &cursor->record;
    unsigned fields = trace_kind_fields(record->kind);
    uint64_t place = place_of(cursor->block, &cursor->decoder);
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
}

/* One event, of the cursor that is the first in the heap. */
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

static void run(struct play *play, trace_event_fn *look, void *context)
{
    size_t threads = play->trace->thread_count;
    while (play->is_good) {
        if (play->begun < threads && (!play->heap_count || play->threads[play->begun]->begin <= play->heap[0]->record.time)) {
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

static void play_free(struct play *play)
{
    for (size_t i = 0; i < play->heap_count; i++)
        cursor_free(play, play->heap[i]);
    for (size_t i = 0; i < play->waiting_count; i++)
        cursor_free(play, play->waiting[i]);
    free(play->heap);
    free(play->waiting);
    free(play->sorts);
    free(play->threads);
}

bool trace_play(struct trace *trace, trace_event_fn *look, void *context)
{
    if (trace->is_rmm)
        return trace_rmm_play(trace, look, context);
    struct play play = {.trace = trace, .is_good = true};
    play.sorts = must(calloc(trace->orders->sort_count, sizeof play.sorts[0]));
    play.heap = must(calloc(trace->thread_count + 1, sizeof play.heap[0]));
    play.waiting = must(calloc(trace->thread_count + 1, sizeof play.waiting[0]));
    play.threads = must(calloc(trace->thread_count + 1, sizeof(void *)));
    for (uint32_t i = 0; i < trace->orders->sort_count; i++)
        play.sorts[i].turn = trace_turn_begin(trace->orders, i);
    for (size_t i = 0; i < trace->thread_count; i++)
        play.threads[i] = &trace->threads[i];
    qsort(play.threads, trace->thread_count, sizeof(void *), by_beginning);
    run(&play, look, context);
    play_free(&play);
    return play.is_good;
}
