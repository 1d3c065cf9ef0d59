/* SPDX-License-Identifier: MIT */
/*
 * trace_fuzz.c - any bytes as a trace: it is read as often as wanted with the same events, and their sums are those of the blocks. So it is as
 * columns of libweir-trace, whose blocks begin before they end.
 *
 * An input that begins with '!' is the content of blocks of events, split where it has a '!' again, with headers whose CRC is right, as no
 * fuzzer finds one. Any other is a whole file. `make trace-fuzz` builds it with libFuzzer. Built without, it runs
 * the files that it is given through the same entry, as a test; `trace_corpus --write DIR` writes the seeds.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/run_files.h"
#include "tests/unit/trace_data.h"
#include "trace/memory.h"
#include "trace/model.h"
#include "trace/symbols.h"
#include "trace/weir_trace.h"

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "trace_fuzz: %s\n", what);
    abort();
}

#ifdef WEIR_LIBFUZZER
/* Of trace/symbols.c, which wants libdw: functions are in no table here. */
struct symbols *symbols_new(void)
{
    return NULL;
}

const struct symbol *symbols_find(struct symbols *symbols, const struct trace_module *module, uint64_t address)
{
    static const struct symbol unknown = {.function = "", .file = ""};
    require(!symbols && address - module->first < module->bytes, "a function is looked up in no table, or in a module that it is not in");
    return &unknown;
}

void symbols_free(struct symbols *symbols)
{
    require(!symbols, "a table that nobody made");
}
#endif

/* One play: its events go into a model, and into a sum that depends on all of them and their order. */
struct hearing {
    struct model model;
    uint64_t count, sum;
};

static size_t length_of(const char *text)
{
    return text ? strlen(text) : 0;
}

static bool hear(void *context, const struct trace_event *event)
{
    struct hearing *hearing = context;
    uint64_t stack = 0;
    for (uint32_t i = 0; event->stack && i < event->stack->count; i++) {
        const struct trace_frame *frame = &event->stack->frames[i];
        stack += frame->module ? length_of(frame->module->path) : frame->line ? length_of(frame->line->function) : 1;
    }
    require(trace_kind_name(event->kind), "an event that is none");
    require(event->given >= event->size, "less given than asked");
    require(!event->pool || length_of(event->pool->name) <= TRACE_STRING_MAX, "a name that is too long");
    hearing->count++;
    hearing->sum = hearing->sum * 31 + (event->kind ^ event->time ^ event->order ^ event->address ^ event->a ^ event->b) + stack +
                   length_of(event->tag ? event->tag->text : NULL) + length_of(event->name ? event->name->text : NULL);
    model_apply(&hearing->model, event);
    return true;
}

static void check_sums(const struct model *model)
{
    uint64_t blocks = 0, by_pool = 0, by_tag = 0, by_stack = 0, by_stream = 0;
    for (size_t i = 0; i < model->block_count; i++)
        blocks += model->blocks[i].state == MODEL_LIVE;
    for (size_t i = 0; i < model->pool_count; i++)
        by_pool += model->pools[i].live.blocks;
    for (size_t i = 0; i < model->tag_count; i++)
        by_tag += model->tags[i].blocks;
    for (size_t i = 0; i < model->stack_count; i++)
        by_stack += model->stacks[i].blocks;
    for (size_t i = 0; i < model->stream_count; i++)
        by_stream += model->streams[i].live.blocks;
    require(model->total.blocks == blocks && by_pool == blocks && by_tag == blocks && by_stack == blocks && by_stream == blocks,
            "sums that are not those of the blocks");
}

static void check_blocks(const int32_t *first, const int32_t *last, uint64_t count, uint64_t events, uint64_t live)
{
    for (uint64_t i = 0; i < count; i++) {
        require(first[i] >= 0 && (uint64_t)first[i] < events && (last[i] < 0 || (last[i] > first[i] && (uint64_t)last[i] < events)),
                "a block that ends before it begins");
        live -= last[i] < 0;
    }
    require(live == 0, "other live blocks in columns than in the model");
}

/* The same file by way of libweir-trace. */
static void check_columns(const uint8_t *data, size_t size, const struct model *model)
{
    char path[64];
    int fd = trace_data_fd(data, size);
    weir_trace *trace;
    weir_trace_error error = {""};
    uint64_t blocks, segments;
    weir_trace_row row;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    require(weir_trace_open(path, &error, &trace), error.text);
    size_t events = (size_t)weir_trace_count(trace, WEIR_TRACE_EVENTS), most = (size_t)weir_trace_count(trace, WEIR_TRACE_BLOCKS);
    int32_t *first = must(calloc(2 * most + 1, sizeof *first)), *last = must(calloc(2 * most + 1, sizeof *last));
    const weir_trace_blocks columns = {.first = first, .last = last};
    const weir_trace_segments memory = {.first = first + most, .last = last + most};
    require(weir_trace_play(trace, NULL, &columns, &memory, &error, &blocks, &segments), error.text);
    require(blocks <= most && segments <= most, "more blocks than there is room for");
    check_blocks(first, last, blocks, events, model->total.blocks);
    for (int table = 0; table < 11; table++)
        for (uint64_t i = 0; i < weir_trace_count(trace, (weir_trace_table)table) && table > WEIR_TRACE_BLOCKS; i++)
            require(weir_trace_get(trace, (weir_trace_table)table, i, &row) && row.texts[0] && row.texts[1], "a row that is not there");
    weir_trace_close(trace);
    free(first);
    free(last);
    close(fd);
}

static void read_trace(const uint8_t *data, size_t size)
{
    struct trace trace;
    if (trace_data_open(&trace, data, size)) {
        struct hearing first = {0}, second = {0};
        require(trace_play(&trace, hear, &first) && trace_play(&trace, hear, &second), trace.error);
        require(first.count == trace.events && second.count == first.count && second.sum == first.sum, "two plays that differ");
        require(trace.losses.bytes <= size, "more lost than there was");
        check_sums(&first.model);
        check_columns(data, size, &first.model);
        model_free(&first.model);
        model_free(&second.model);
    } else {
        require(trace.error[0], "a refusal without a reason");
    }
    trace_close(&trace);
}

static void write_contents(struct trace_writer *writer, const uint8_t *data, size_t size)
{
    write_file(writer, 1);
    while (size > 0) {
        const uint8_t *next = memchr(data + 1, '!', size - 1);
        size_t len = next ? (size_t)(next - data) : size;
        write_block(writer, 2);
        write_bytes(writer, data + 1, len - 1);
        write_block_end(writer, WRITE_PLAIN);
        data += len;
        size -= len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_writer writer = {0};
    if (size == 0 || data[0] != '!') {
        read_trace(data, size);
        return 0;
    }
    write_contents(&writer, data, size);
    read_trace(writer.bytes, writer.len);
    writer_free(&writer);
    return 0;
}

#ifndef WEIR_LIBFUZZER
static bool write_seed(const char *folder, const char *name, const void *bytes, size_t len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *stream = fopen(path, "wb");
    if (!stream)
        return false;
    bool good = fwrite(bytes, 1, len, stream) == len;
    return fclose(stream) == 0 && good;
}

/* The contents of the blocks of a trace, unpacked, each behind a '!'. */
static void write_unpacked(struct trace_writer *to, const struct trace_writer *from)
{
    struct trace_reader reader;
    uint8_t *content = must(malloc(TRACE_CONTENT_MAX));
    if (trace_reader_open_fd(&reader, trace_data_fd(from->bytes, from->len))) {
        for (size_t i = 0; i < reader.block_count; i++) {
            write_byte(to, '!');
            if (trace_reader_unpack(&reader, &reader.blocks[i], content))
                write_bytes(to, content, reader.blocks[i].decoded);
        }
    }
    trace_reader_close(&reader);
    free(content);
}

/* A block of content with one event of each kind. */
static void write_kinds(struct trace_writer *writer)
{
    write_byte(writer, '!');
    for (int i = 0; i < 3; i++)
        write_number(writer, 1);
    write_pool(writer, 1, 0, 1, "arena");
    write_text(writer, 2, 1, "tag");
    for (unsigned kind = 0; kind < TRACE_KIND_COUNT; kind++)
        if (trace_kind_fields(kind))
            write_event(writer, &(struct trace_row){.kind = kind,
                                                    .time = kind,
                                                    .order = kind,
                                                    .stream = 7,
                                                    .pool = 1,
                                                    .address = 512 * (uint64_t)kind,
                                                    .size = 100,
                                                    .given = 512,
                                                    .tag = 1,
                                                    .stack = 1,
                                                    .a = 1,
                                                    .b = 2});
}

static bool write_seeds(const char *folder)
{
    struct trace_writer whole = {0}, contents = {0}, kinds = {0};
    write_whole(&whole);
    write_unpacked(&contents, &whole);
    write_kinds(&kinds);
    bool good = write_seed(folder, "whole", whole.bytes, whole.len) && write_seed(folder, "contents", contents.bytes, contents.len) &&
                write_seed(folder, "kinds", kinds.bytes, kinds.len);
    for (size_t cut = 1; cut < 8 && good; cut++) {
        char name[32];
        snprintf(name, sizeof name, "cut-%zu", cut);
        good = write_seed(folder, name, whole.bytes, whole.len * cut / 8);
    }
    for (size_t at = 1; at < 5 && good; at++) {
        char name[32];
        snprintf(name, sizeof name, "damaged-%zu", at);
        whole.bytes[whole.len * at / 5] ^= 0x10;
        good = write_seed(folder, name, whole.bytes, whole.len);
    }
    writer_free(&whole);
    writer_free(&contents);
    writer_free(&kinds);
    return good;
}

int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_seeds(argv[2]) ? EXIT_SUCCESS : EXIT_FAILURE;
    return run_files(argc, argv, data, sizeof data);
}
#endif
