/* SPDX-License-Identifier: MIT */
/*
 * write.c - makes a trace from data that the caller has read from another program's file. Definitions are written first, then the events,
 * thread by thread; each event gets an order number, by which a reader restores their order.
 *
 * The format is that of the recorder's own traces (lib/trace/record.h).
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/trace/record.h"
#include "trace/library.h"

#define VALUE_MAX (UINT32_C(512) << 10) /* bytes of a value of the header */
#define HEADER_MAX (WEIR__TRACE_CONTENT_MAX - 16)

struct weir_trace_writer {
    int fd;
    int failure;                           /* errno of the first failure, or 0 */
    uint64_t counts[WEIR_TRACE_KINDS + 1]; /* the number of rows written to each table */
    struct weir__trace_bytes values;       /* the values of the header, until it is written with the first definition or event */
    bool has_header;                       /* the header was written */
    struct weir__trace_coder coder;
    uint8_t *block; /* a buffer for the largest possible block */
};

static void fail(weir_trace_writer *writer, int why)
{
    writer->failure = writer->failure ? writer->failure : why;
}

static void write_bytes(weir_trace_writer *writer, const uint8_t *bytes, size_t len)
{
    while (len && !writer->failure) {
        ssize_t written = write(writer->fd, bytes, len);
        if (written == 0 || (written < 0 && errno != EINTR))
            fail(writer, written ? errno : EIO);
        if (written > 0) {
            bytes += written;
            len -= (size_t)written;
        }
    }
}

static void write_block(weir_trace_writer *writer, enum weir__trace_block kind, const struct weir__trace_bytes *content)
{
    if (content->is_full)
        fail(writer, EOVERFLOW);
    else if (!writer->failure)
        write_bytes(writer, writer->block, weir__trace_block_write(kind, content->bytes, content->len, writer->block));
}

bool weir_trace_write_begin(int fd, weir_trace_error *error, weir_trace_writer **writer)
{
    weir_trace_writer *made = calloc(1, sizeof *made);
    if (!made)
        return library_fail(error, "there is no host memory for it");
    made->fd = fd;
    made->values = (struct weir__trace_bytes){.bytes = malloc(HEADER_MAX), .room = HEADER_MAX};
    made->coder.content = (struct weir__trace_bytes){.bytes = malloc(WEIR__TRACE_SOURCE_ROOM), .room = WEIR__TRACE_SOURCE_ROOM};
    made->block = malloc(weir__trace_block_bound(WEIR__TRACE_CONTENT_MAX));
    if (!made->values.bytes || !made->coder.content.bytes || !made->block) {
        made->failure = ENOMEM;
        return weir_trace_write_end(made, 0, error);
    }
    *writer = made;
    return true;
}

/* Writes the first bytes of the file and the header block. */
static void write_header(weir_trace_writer *writer)
{
    uint8_t first[WEIR__TRACE_FILE_HEADER];
    struct weir__trace_bytes content = {.bytes = malloc(WEIR__TRACE_CONTENT_MAX), .room = WEIR__TRACE_CONTENT_MAX};
    writer->has_header = true;
    if (!content.bytes) {
        fail(writer, ENOMEM);
        return;
    }
    content.is_full = writer->values.is_full;
    weir__trace_put_number(&content, writer->counts[WEIR_TRACE_VALUES]);
    weir__trace_put(&content, writer->values.bytes, writer->values.len);
    weir__trace_file_header(first);
    write_bytes(writer, first, sizeof first);
    write_block(writer, WEIR__TRACE_BLOCK_HEAD, &content);
    free(content.bytes);
    weir__trace_coder_begin(&writer->coder, 0, 0, 0);
}

/* Definitions -------------------------------------------------------------------------------------------------------------------------- */

/* If the coder's block is full, writes it, and begins another block of the same thread. */
static void make_room(weir_trace_writer *writer, uint64_t thread)
{
    if (writer->coder.content.len < WEIR__TRACE_SOURCE_FULL)
        return;
    write_block(writer, WEIR__TRACE_BLOCK_EVENTS, &writer->coder.content);
    weir__trace_coder_begin(&writer->coder, thread, writer->coder.time, 0);
}

static struct weir__trace_bytes *define(weir_trace_writer *writer, enum weir__trace_definition what, weir_trace_table table)
{
    if (!writer->has_header)
        write_header(writer);
    make_room(writer, 0);
    weir__trace_put_code(&writer->coder.content, what);
    weir__trace_put_number(&writer->coder.content, ++writer->counts[table]);
    return &writer->coder.content;
}

void weir_trace_write_row(weir_trace_writer *writer, weir_trace_table table, const weir_trace_row *values)
{
    struct weir__trace_bytes *out;
    switch (table) {
    case WEIR_TRACE_VALUES:
        weir__trace_put_string(&writer->values, values->texts[0], WEIR__TRACE_STRING_MAX);
        weir__trace_put_string(&writer->values, values->texts[1], VALUE_MAX);
        writer->counts[table]++;
        if (writer->has_header)
            fail(writer, EINVAL);
        return;
    case WEIR_TRACE_POOLS:
        out = define(writer, WEIR__TRACE_POOL, table);
        weir__trace_put_number(out, values->numbers[1]);
        weir__trace_put_number(out, values->numbers[2]);
        weir__trace_put_string(out, values->texts[0], WEIR__TRACE_STRING_MAX);
        return;
    case WEIR_TRACE_TAGS:
    case WEIR_TRACE_NAMES:
        out = define(writer, table == WEIR_TRACE_TAGS ? WEIR__TRACE_TAG : WEIR__TRACE_NAME, table);
        weir__trace_put_string(out, values->texts[0], WEIR__TRACE_STRING_MAX);
        return;
    case WEIR_TRACE_LINES:
        out = define(writer, WEIR__TRACE_FRAME, table);
        weir__trace_put_number(out, values->numbers[0]);
        weir__trace_put_string(out, values->texts[0], WEIR__TRACE_STRING_MAX);
        weir__trace_put_string(out, values->texts[1], WEIR__TRACE_STRING_MAX);
        return;
    default:
        fail(writer, EINVAL);
    }
}

void weir_trace_write_stack(weir_trace_writer *writer, const uint32_t *lines, size_t count)
{
    struct weir__trace_bytes *out = define(writer, WEIR__TRACE_STACK, WEIR_TRACE_STACKS);
    count = count < TRACE_FRAMES_MAX ? count : TRACE_FRAMES_MAX;
    weir__trace_put_number(out, count);
    for (size_t i = 0; i < count; i++)
        weir__trace_put_number(out, ((uint64_t)lines[i] + 1) << 1 | 1);
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

/* Returns the id for the row number in a column: rows count from 0 and -1 means none, ids count from 1 and 0 means none. */
static uint64_t id_of(const int32_t *column, uint64_t at)
{
    return column && column[at] >= 0 ? (uint64_t)column[at] + 1 : 0;
}

static void put_event(weir_trace_writer *writer, const weir_trace_events *events, uint64_t at)
{
    const bool is_named = events->kind[at] == WEIR__KIND_MARK || events->kind[at] == WEIR__KIND_STREAM_OPEN;
    const struct weir__trace_record record = {
        .kind = events->kind[at],
        .time = events->time[at],
        .order = at + 1,
        .stream = events->stream[at],
        .pool = id_of(events->pool, at),
        .address = events->address[at],
        .size = events->size[at],
        .given = events->given[at] > events->size[at] ? events->given[at] : events->size[at],
        .tag = id_of(events->tag, at),
        .stack = id_of(events->stack, at),
        .a = is_named    ? id_of(events->name, at)
             : events->a ? events->a[at]
                         : 0,
        .b = events->b ? events->b[at] : 0,
    };
    /* SERVE and KEEP are refused: their order numbers would count within a stream, and no other program's file has such numbers. */
    if (record.kind == WEIR__KIND_SERVE || record.kind == WEIR__KIND_KEEP || !weir__trace_coder_put(&writer->coder, &record))
        fail(writer, EINVAL);
}

/* An event and its thread, to be sorted by thread and then by the event. */
struct place {
    uint64_t thread, event;
};

static int by_thread(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

void weir_trace_write_events(weir_trace_writer *writer, const weir_trace_events *events, uint64_t count)
{
    struct place *places = count < SIZE_MAX / sizeof *places ? malloc((size_t)(count + 1) * sizeof *places) : NULL;
    if (!places || !events->kind || !events->time || !events->thread || !events->stream || !events->address || !events->size ||
        !events->given) {
        fail(writer, places ? EINVAL : ENOMEM);
        free(places);
        return;
    }
    if (!writer->has_header)
        write_header(writer);
    for (uint64_t i = 0; i < count; i++)
        places[i] = (struct place){events->thread[i], i};
    qsort(places, (size_t)count, sizeof *places, by_thread);
    for (uint64_t i = 0; i < count && !writer->failure; i++) {
        if (i == 0 || places[i].thread != places[i - 1].thread) {
            write_block(writer, WEIR__TRACE_BLOCK_EVENTS, &writer->coder.content);
            weir__trace_coder_begin(&writer->coder, places[i].thread, events->time[places[i].event], 0);
        }
        make_room(writer, places[i].thread);
        put_event(writer, events, places[i].event);
    }
    free(places);
}

bool weir_trace_write_end(weir_trace_writer *writer, uint64_t lost, weir_trace_error *error)
{
    uint8_t bytes[16];
    struct weir__trace_bytes end = {.bytes = bytes, .room = sizeof bytes};
    if (!writer->failure && !writer->has_header)
        write_header(writer);
    if (!writer->failure) {
        write_block(writer, WEIR__TRACE_BLOCK_EVENTS, &writer->coder.content);
        weir__trace_put_number(&end, lost);
        write_block(writer, WEIR__TRACE_BLOCK_END, &end);
    }
    const int failure = writer->failure;
    free(writer->values.bytes);
    free(writer->coder.content.bytes);
    free(writer->block);
    free(writer);
    if (failure == EINVAL)
        return library_fail(error, "the trace is made of rows that cannot be written");
    if (failure == EOVERFLOW)
        return library_fail(error, "its header is too long");
    return !failure || library_fail(error, "it cannot be written: %s", strerror(failure));
}
