/* SPDX-License-Identifier: MIT */
/*
 * export_viz.c - traces as a snapshot of torch's caching allocator, which torch.cuda._memory_viz and its like read.
 *
 * Viewers start from the segments that are there at the end, and go back through the events: so each live block lies in a segment at each
 * step, and the segments at the end are what the events left. Here each block that was taken from the device is a segment of its own, from
 * malloc to free or return. That is what torch calls a segment, and it holds where blocks of an arena share pages: of these a trace has
 * sums, but no addresses. All segments are of stream 0, since viewers take pools apart by it; the stream of each event is in its
 * user_metadata.
 */
#include "config.h"

#include "tools/trace/export.h"
#include "tools/common/complain.h"
#include "tools/trace/frame.h"
#include "tools/trace/pickle.h"
#include "tools/trace/places.h"
#include "tools/trace/turn.h"

#include <inttypes.h>
#include <stdlib.h>

/* Viewers have a list of events for each device up to the last. Their numbers are doubles. */
enum { DEVICES_MAX = 64 };
#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)

/* A device of a trace: a list of events in the snapshot. */
struct row {
    struct trace *trace;
    size_t trace_number;
    uint64_t device;
    struct model_block *segments; /* that are there at the end */
    size_t segment_count;
    struct model_moment *marks;
    size_t mark_count;
    uint64_t end; /* time */
};

#define WORDS(X)                                                                                                                           \
    X(action)                                                                                                                              \
    X(addr)                                                                                                                                \
    X(address)                                                                                                                             \
    X(alloc) X(device) X(device_free) X(filename) X(frames) X(free_completed) X(free_requested) X(line) X(name) X(oom) X(pool_id)          \
        X(requested_size) X(segment_alloc) X(segment_free) X(size) X(stage) X(state) X(stream) X(time_us) X(user_metadata) X(total_size)   \
            X(allocated_size) X(active_size) X(segment_pool_id) X(segment_type) X(is_expandable) X(blocks) X(active_allocated) X(inactive) \
                X(small) X(large) X(START) X(END)

enum word {
#define X(name) WORD_##name,
    WORDS(X)
#undef X
        WORD_COUNT,
};

struct viz {
    struct export *export;
    struct pickle pickle;
    struct pickle_word words[WORD_COUNT];
    struct row *rows;
    size_t row_count;
    struct trace_map stacks; /* number and trace: what is remembered of its frames */
    struct trace_map owners; /* pool and tag, stream and thread, and both of these: memo of the text */
    uint32_t owner_count;
    struct row *row; /* whose events are written */
    struct model model;
    struct places places;
};

static void word(struct viz *viz, enum word word)
{
    pickle_word(&viz->pickle, &viz->words[word]);
}

static void member(struct viz *viz, enum word key, uint64_t value)
{
    word(viz, key);
    pickle_number(&viz->pickle, value);
}

static void member_word(struct viz *viz, enum word key, enum word value)
{
    word(viz, key);
    word(viz, value);
}

/* What everything has -------------------------------------------------------------------------------------------------------------------
 */

static uint64_t micros(const struct row *row, uint64_t time)
{
    uint64_t whole = row->trace->header.started_real / 1000 + time / 1000;
    return whole < NUMBER_MAX ? whole : NUMBER_MAX;
}

static uint64_t number(uint64_t value)
{
    return value < NUMBER_MAX ? value : NUMBER_MAX;
}

/* (0, 0) is torch's own pool, any other is private to its user. */
static void write_pool(struct viz *viz, enum word key, const struct trace_pool *pool)
{
    bool is_private = pool && pool->flags & TRACE_POOL_PRIVATE;
    word(viz, key);
    pickle_pair(&viz->pickle, 0, is_private ? (uint64_t)pool->number + 1 : 0);
}

static void write_place(struct viz *viz, const char *file, uint64_t line, const char *function)
{
    pickle_dict(&viz->pickle);
    word(viz, WORD_filename);
    pickle_text(&viz->pickle, file);
    member(viz, WORD_line, number(line));
    word(viz, WORD_name);
    pickle_text(&viz->pickle, function);
    pickle_dict_end(&viz->pickle);
}

static void write_frame(struct viz *viz, const struct trace_frame *frame)
{
    struct symbols *symbols = frame->module ? viz->export->symbols_of(viz->export->context, viz->row->trace_number) : NULL;
    const struct symbol *symbol = trace_frame_symbol(symbols, frame);
    const char *module = frame->module ? frame->module->path : "??";
    char text[FRAME_TEXT_LEN];
    if (frame->line)
        write_place(viz, frame->line->file, frame->line->line, frame->line->function);
    else if (symbol && symbol->function[0])
        write_place(viz, symbol->file[0] ? symbol->file : module, symbol->line, symbol->function);
    else
        write_place(viz, module, 0, trace_frame_text(text, symbols, frame));
}

/* Each stack once; no stack is an empty list. */
static void write_frames(struct viz *viz, const struct trace_stack *stack)
{
    bool is_new;
    uint32_t *memo = trace_map_add(&viz->stacks, stack ? (uint64_t)stack->number + 1 : 0, stack ? viz->row->trace_number : 0, &is_new);
    word(viz, WORD_frames);
    if (!is_new) {
        pickle_again(&viz->pickle, *memo);
        return;
    }
    pickle_list(&viz->pickle);
    for (uint32_t i = 0; stack && i < stack->count; i++) {
        pickle_item(&viz->pickle);
        write_frame(viz, &stack->frames[i]);
    }
    pickle_list_end(&viz->pickle);
    *memo = pickle_remember(&viz->pickle);
}

/* A number for two, the same each time; *is_new: for the first time. The highest bit keeps the sorts of pairs apart. */
static uint32_t *pair(struct viz *viz, uint64_t a, uint64_t b, bool *is_new)
{
    uint32_t *found = trace_map_add(&viz->owners, a, b, is_new);
    if (*is_new)
        *found = ++viz->owner_count;
    return found;
}

/* Whose it is: a text for each that there are, written once. */
static void write_owner(struct viz *viz, const struct trace_event *event)
{
    bool is_new;
    uint64_t tag = event->tag ? (uint64_t)event->tag->number + 1 : 0, pool = event->pool ? (uint64_t)event->pool->number + 1 : 0;
    uint64_t what = *pair(viz, UINT64_C(1) << 62 | (uint64_t)viz->row->trace_number << 33 | tag, pool, &is_new);
    uint64_t where = *pair(viz, event->stream, UINT64_C(1) << 63 | event->thread, &is_new);
    if (event->stream_name)
        where = *pair(viz, UINT64_C(1) << 60 | where, event->stream_name->number, &is_new);
    uint32_t *memo = trace_map_add(&viz->owners, UINT64_C(1) << 61 | what, UINT64_C(1) << 61 | where, &is_new);
    word(viz, WORD_user_metadata);
    if (!is_new) {
        pickle_again(&viz->pickle, *memo);
        return;
    }
    char *text;
    if (asprintf(&text, "pool %s, stream %s%s0x%" PRIx64 "%s%s, thread %" PRIu64, event->pool ? event->pool->name : "?",
                 event->stream_name ? event->stream_name->text : "", event->stream_name ? " " : "", event->stream,
                 event->tag ? ", tag " : "", event->tag ? event->tag->text : "", event->thread) < 0)
        text = must(NULL);
    pickle_text(&viz->pickle, text);
    free(text);
    *memo = pickle_remember(&viz->pickle);
}

/* Events --------------------------------------------------------------------------------------------------------------------------------
 */

static void write_event(struct viz *viz, enum word action, const struct model_block *block, const struct trace_event *event)
{
    bool is_segment = action == WORD_segment_alloc || action == WORD_segment_free;
    pickle_item(&viz->pickle);
    pickle_dict(&viz->pickle);
    member_word(viz, WORD_action, action);
    member(viz, WORD_addr, block->address);
    member(viz, WORD_size, is_segment ? block->given : block->size);
    member(viz, WORD_stream, 0);
    member(viz, WORD_time_us, micros(viz->row, viz->model.now));
    write_pool(viz, WORD_pool_id, block->pool);
    write_frames(viz, event->stack);
    write_owner(viz, event);
    pickle_dict_end(&viz->pickle);
}

static void write_oom(struct viz *viz, const struct trace_event *event)
{
    pickle_item(&viz->pickle);
    pickle_dict(&viz->pickle);
    member_word(viz, WORD_action, WORD_oom);
    member(viz, WORD_device_free, 0); /* a trace does not have it */
    member(viz, WORD_size, number(event->a));
    member(viz, WORD_stream, 0);
    member(viz, WORD_time_us, micros(viz->row, viz->model.now));
    write_pool(viz, WORD_pool_id, event->pool);
    write_frames(viz, event->stack);
    write_owner(viz, event);
    pickle_dict_end(&viz->pickle);
}

static void end_allocation(struct viz *viz, const struct model_block *block, const struct trace_event *event)
{
    write_event(viz, WORD_free_requested, block, event);
    write_event(viz, WORD_free_completed, block, event);
}

/* Blocks whose ends were lost make way for what stands there now. */
static void make_way(struct viz *viz, const struct model_block *block, const struct trace_event *event)
{
    const struct model_block *old;
    while ((old = places_find(&viz->places, block->address, block->given))) {
        struct model_block gone = *old;
        if (gone.state == MODEL_LIVE)
            end_allocation(viz, &gone, event);
        write_event(viz, WORD_segment_free, &gone, event);
        places_remove(&viz->places, gone.address);
    }
}

static bool can_be(const struct model_block *block)
{
    return places_can_have(block) && block->address + block->given < NUMBER_MAX;
}

static void write_turn(struct viz *viz, const struct turn *turn, const struct trace_event *event)
{
    /* NULL: it made way, or could not be. */
    struct model_block *segment = places_same(&viz->places, &turn->before);
    if (turn->is_ended && segment) {
        end_allocation(viz, &turn->before, event);
        segment->state = MODEL_CACHED;
        segment->size = 0;
    }
    if (turn->is_given && segment) {
        write_event(viz, WORD_segment_free, &turn->before, event);
        places_remove(&viz->places, turn->before.address);
    }
    if (turn->is_taken && can_be(&turn->after)) {
        make_way(viz, &turn->after, event);
        write_event(viz, WORD_segment_alloc, &turn->after, event);
        places_add(&viz->places, &turn->after);
    } else if (turn->is_taken) {
        viz->export->left_out++;
    }
    segment = places_same(&viz->places, &turn->after);
    if (segment)
        *segment = turn->after;
    if (turn->is_begun && segment)
        write_event(viz, WORD_alloc, &turn->after, event);
}

static bool look(void *context, const struct trace_event *event)
{
    struct viz *viz = context;
    struct turn turn;
    bool is_of_pool = event->kind != TRACE_MARK && event->kind != TRACE_ASKED;
    if (is_of_pool && (event->pool ? event->pool->device : 0) != viz->row->device)
        return true;
    if (turn_apply(&viz->model, event, &turn))
        write_turn(viz, &turn, event);
    else if (event->kind == TRACE_OUT_OF_MEMORY)
        write_oom(viz, event);
    return !ferror(viz->export->out);
}

/* All events of a row; what it has at the end is kept. */
static bool write_row(struct viz *viz, struct row *row)
{
    viz->row = row;
    pickle_list(&viz->pickle);
    bool is_whole = !row->trace || trace_play(row->trace, look, viz);
    pickle_list_end(&viz->pickle);
    if (!is_whole)
        snprintf(viz->export->error, sizeof viz->export->error, "%s", row->trace->error);
    row->segments = places_all(&viz->places, &row->segment_count);
    row->marks = viz->model.marks;
    row->mark_count = viz->model.mark_count;
    row->end = viz->model.now;
    viz->model.marks = NULL;
    model_free(&viz->model);
    places_free(&viz->places);
    return is_whole;
}

/* The end -------------------------------------------------------------------------------------------------------------------------------
 */

static void write_segment(struct viz *viz, size_t device, const struct model_block *block)
{
    bool is_live = block->state == MODEL_LIVE;
    pickle_item(&viz->pickle);
    pickle_dict(&viz->pickle);
    member(viz, WORD_device, device);
    member(viz, WORD_address, block->address);
    member(viz, WORD_total_size, block->given);
    member(viz, WORD_allocated_size, is_live ? block->given : 0);
    member(viz, WORD_active_size, is_live ? block->given : 0);
    member(viz, WORD_requested_size, block->size);
    member(viz, WORD_stream, 0);
    member_word(viz, WORD_segment_type, block->given <= 1 << 20 ? WORD_small : WORD_large);
    write_pool(viz, WORD_segment_pool_id, block->pool);
    word(viz, WORD_is_expandable);
    pickle_bool(&viz->pickle, false);
    write_frames(viz, block->stack);
    word(viz, WORD_blocks);
    pickle_list(&viz->pickle);
    pickle_item(&viz->pickle);
    pickle_dict(&viz->pickle);
    member(viz, WORD_address, block->address);
    member(viz, WORD_size, block->given);
    member(viz, WORD_requested_size, block->size);
    member_word(viz, WORD_state, is_live ? WORD_active_allocated : WORD_inactive);
    write_frames(viz, block->stack);
    pickle_dict_end(&viz->pickle);
    pickle_list_end(&viz->pickle);
    pickle_dict_end(&viz->pickle);
}

static void write_segments(struct viz *viz)
{
    pickle_text(&viz->pickle, "segments");
    pickle_list(&viz->pickle);
    for (size_t i = 0; i < viz->row_count; i++) {
        viz->row = &viz->rows[i];
        for (size_t j = 0; j < viz->row->segment_count; j++)
            write_segment(viz, i, &viz->row->segments[j]);
    }
    pickle_list_end(&viz->pickle);
}

static void write_annotation(struct viz *viz, uint64_t time, enum word stage, const char *name)
{
    pickle_item(&viz->pickle);
    pickle_dict(&viz->pickle);
    member(viz, WORD_device, (uint64_t)(viz->row - viz->rows));
    member(viz, WORD_time_us, micros(viz->row, time));
    member_word(viz, WORD_stage, stage);
    word(viz, WORD_name);
    pickle_text(&viz->pickle, name);
    pickle_dict_end(&viz->pickle);
}

/* From each mark to the next. */
static void write_annotations(struct viz *viz)
{
    pickle_text(&viz->pickle, "external_annotations");
    pickle_list(&viz->pickle);
    for (size_t i = 0; i < viz->row_count; i++) {
        const struct row *row = viz->row = &viz->rows[i];
        for (size_t j = 0; j < row->mark_count; j++) {
            const char *name = row->marks[j].name ? row->marks[j].name->text : "";
            write_annotation(viz, row->marks[j].time, WORD_START, name);
            write_annotation(viz, j + 1 < row->mark_count ? row->marks[j + 1].time : row->end, WORD_END, name);
        }
    }
    pickle_list_end(&viz->pickle);
}

static void write_setting(struct viz *viz, const char *key, size_t row, const char *value)
{
    char name[64];
    snprintf(name, sizeof name, "%s %zu", key, row);
    pickle_text(&viz->pickle, name);
    pickle_text(&viz->pickle, value);
}

/* Viewers show these as they are: whose lists of events there are, and by which policy. */
static void write_settings(struct viz *viz)
{
    pickle_text(&viz->pickle, "allocator_settings");
    pickle_dict(&viz->pickle);
    pickle_text(&viz->pickle, "allocator");
    pickle_text(&viz->pickle, "weir");
    for (size_t i = 0; i < viz->row_count; i++) {
        const struct row *row = &viz->rows[i];
        if (!row->trace)
            continue;
        const struct trace_header *header = &row->trace->header;
        char *text;
        if (asprintf(&text, "%.1024s, process %" PRIu64 ", %s%.64s%sdevice %" PRIu64, header->program ? header->program : row->trace->path,
                     header->pid, header->rank ? "rank " : "", header->rank ? header->rank : "", header->rank ? ", " : "", row->device) < 0)
            text = must(NULL);
        write_setting(viz, "device", i, text);
        free(text);
        if (header->policy)
            write_setting(viz, "policy of device", i, header->policy);
    }
    pickle_dict_end(&viz->pickle);
}

/* Rows ----------------------------------------------------------------------------------------------------------------------------------
 */

static void add_row(struct viz *viz, size_t *room, size_t trace_number, struct trace *trace, uint64_t device)
{
    viz->rows = must_grow(viz->rows, viz->row_count, room, sizeof viz->rows[0]);
    viz->rows[viz->row_count++] = (struct row){.trace = trace, .trace_number = trace_number, .device = device};
}

/* A device of one trace keeps its number; those of several follow each other. Devices without pools of their own have no events. */
static void make_rows(struct viz *viz)
{
    size_t room = 0;
    for (size_t i = 0; i < viz->export->count; i++) {
        struct trace *trace = viz->export->traces[i];
        const struct trace_sort *pools = &trace->definitions.sorts[TRACE_DEFINES_POOL];
        bool is_used[DEVICES_MAX] = {true};
        size_t count = 1;
        for (size_t j = 0; j < pools->meaning_count; j++) {
            const struct trace_meaning *meaning = &pools->meanings[j];
            const struct trace_pool *pool = trace_definitions_find(&trace->definitions, TRACE_DEFINES_POOL, meaning->id, meaning->position);
            if (pool->device >= DEVICES_MAX || pool->flags & TRACE_POOL_HOST)
                continue;
            is_used[pool->device] = true;
            count = pool->device >= count ? pool->device + 1 : count;
        }
        for (size_t device = 0; device < count; device++)
            if (is_used[device] || viz->export->count == 1)
                add_row(viz, &room, i, is_used[device] ? trace : NULL, device);
    }
}

static void free_all(struct viz *viz)
{
    for (size_t i = 0; i < viz->row_count; i++) {
        free(viz->rows[i].segments);
        free(viz->rows[i].marks);
    }
    free(viz->rows);
    trace_map_free(&viz->stacks);
    trace_map_free(&viz->owners);
}

bool export_viz(struct export *export)
{
    struct viz viz = {
        .export = export,
        .words =
            {
#define X(name) {.text = #name},
                WORDS(X)
#undef X
            },
    };
    bool is_whole = true;
    make_rows(&viz);
    pickle_begin(&viz.pickle, export->out);
    pickle_dict(&viz.pickle);
    pickle_text(&viz.pickle, "device_traces");
    pickle_list(&viz.pickle);
    for (size_t i = 0; i < viz.row_count && is_whole; i++) {
        pickle_item(&viz.pickle);
        is_whole = write_row(&viz, &viz.rows[i]);
    }
    pickle_list_end(&viz.pickle);
    write_segments(&viz);
    write_annotations(&viz);
    write_settings(&viz);
    pickle_dict_end(&viz.pickle);
    pickle_end(&viz.pickle);
    free_all(&viz);
    return is_whole;
}
