/* SPDX-License-Identifier: MIT */
#include "trace/merge.h"
#include "trace/memory.h"
#include "trace/orders.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPENINGS_MAX = 1 << 20 }; /* openings of streams that are counted for the `streams` of names; further ones are ignored */

static bool fail(struct trace *trace, const char *why)
{
    snprintf(trace->error, sizeof trace->error, "%s", why);
    return false;
}

/* Opening -------------------------------------------------------------------------------------------------------------------------------
 */

/* The opening of a stream under a name. The id of the name can be resolved only after the first pass over the file. */
struct opening {
    uint64_t name, place, handle;
};

/* The state of trace_open(), which reads through the file once and counts what is in it. */
struct census {
    struct trace *trace;
    struct trace_map threads; /* maps (thread's id, 0) to the index in trace->threads */
    size_t room;
    uint64_t lost;    /* the sum of the lost events that the blocks report */
    uint8_t *content; /* the content of the present block */
    struct opening *openings;
    size_t opening_count, opening_room;
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
    trace->next_blocks[block] = TRACE_NO_BLOCK;
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

static void note_opening(struct census *census, const struct trace_record *record, uint64_t place)
{
    if (record->kind != TRACE_STREAM_OPEN || !record->a || census->opening_count == OPENINGS_MAX)
        return;
    *MUST_ADD(census->openings, census->opening_count, census->opening_room) = (struct opening){record->a, place, record->stream};
}

static void tell_openings(struct census *census)
{
    for (size_t i = 0; i < census->opening_count; i++)
        trace_definitions_open(&census->trace->definitions, census->openings[i].name, census->openings[i].place,
                               census->openings[i].handle);
}

/* Reads one block: counts its events, and adds its definitions. A block that cannot be read is counted as lost. Returns false, and sets the
   error, if the file has more definitions than are accepted. */
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
    struct trace_decoder begin = decoder;
    uint64_t before = trace->events;
    if (__builtin_add_overflow(census->lost, decoder.lost, &census->lost))
        census->lost = UINT64_MAX;
    for (;;) {
        switch (trace_decoder_next(&decoder, &record, &definition)) {
        case TRACE_FOUND_EVENT:
            /* Link the block to its thread at its first event. A block that has only definitions belongs to no thread. */
            if (trace->events == before)
                link_block(census, number, &begin);
            count_event(trace, &record);
            note_opening(census, &record, trace_place(number, &decoder));
            break;
        case TRACE_FOUND_DEFINITION:
            if (!trace_definitions_add(&trace->definitions, &definition, trace_place(number, &decoder)))
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
        .imported = trace_value(trace, "imported"),
        .lacks = trace_value(trace, "imported.lacks"),
        .pid = number_in(trace, "pid"),
        .started_real = number_in(trace, "started.real"),
        .driver = number_in(trace, "driver"),
        .has_stacks = stacks && strcmp(stacks, "true") == 0,
    };
}

static void end_census(struct trace *trace)
{
    if (!trace->census)
        return;
    trace_map_free(&trace->census->threads);
    free(trace->census->openings);
    free(trace->census->content);
    free(trace->census);
    trace->census = NULL;
}

static bool open_weir(struct trace *trace, int fd)
{
    if (!trace_reader_open_fd(&trace->reader, fd))
        return fail(trace, trace->reader.error);
    struct census *census = trace->census = must(calloc(1, sizeof *census));
    census->trace = trace;
    census->content = must(malloc(TRACE_CONTENT_MAX));
    trace->orders = must(calloc(1, sizeof *trace->orders));
    trace_orders_init(trace->orders);
    trace->next_blocks = must(calloc(trace->reader.block_count + 1, sizeof trace->next_blocks[0]));
    bool good = true;
    for (size_t block = 0; good && block < trace->reader.block_count; block++)
        good = look_through(census, block);
    trace_orders_seal(trace->orders);
    trace_definitions_seal(&trace->definitions);
    tell_openings(census);
    read_header(trace);
    trace_reader_conclude(&trace->reader);
    trace->losses = trace->reader.losses;
    if (census->lost > trace->losses.events)
        trace->losses.events = census->lost;
    end_census(trace);
    return good;
}

bool trace_open_fd(struct trace *trace, int fd, const char *path)
{
    *trace = (struct trace){.path = path, .reader.fd = -1};
    return open_weir(trace, fd);
}

bool trace_open(struct trace *trace, const char *path)
{
    /* O_NONBLOCK, so that opening a pipe or a device does not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return trace_open_fd(trace, fd, path);
    *trace = (struct trace){.path = path, .reader.fd = -1};
    snprintf(trace->error, sizeof trace->error, "it cannot be opened: %s", strerror(errno));
    return false;
}

void trace_close(struct trace *trace)
{
    trace_play_end(trace);
    end_census(trace);
    trace_reader_close(&trace->reader);
    trace_definitions_free(&trace->definitions);
    if (trace->orders)
        trace_orders_free(trace->orders);
    free(trace->orders);
    free(trace->threads);
    free(trace->next_blocks);
    *trace = (struct trace){.reader.fd = -1};
}

const char *trace_value(const struct trace *trace, const char *key)
{
    return trace_reader_value(&trace->reader, key);
}

uint64_t trace_memory(const struct trace *trace, uint64_t device)
{
    char key[48];
    snprintf(key, sizeof key, "gpu.%" PRIu64 ".memory", device);
    const char *text = trace_value(trace, key);
    return text ? strtoull(text, NULL, 10) : 0;
}

const struct trace_module *trace_module_of(const struct trace *trace, uint64_t address)
{
    return trace_definitions_module(&trace->definitions, address, UINT64_MAX);
}

bool trace_has_module(const struct trace *trace, const char *name)
{
    for (size_t i = 0; i < trace->definitions.sorts[TRACE_DEFINES_MODULE].object_count; i++) {
        const char *path = trace->definitions.modules[i]->path, *slash = strrchr(path, '/');
        if (strcmp(slash ? slash + 1 : path, name) == 0)
            return true;
    }
    return false;
}
