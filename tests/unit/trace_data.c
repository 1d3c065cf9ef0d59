/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/unit/trace_data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

void write_bytes(struct trace_writer *writer, const void *bytes, size_t len)
{
    if (writer->len + len > writer->room) {
        writer->room = 2 * (writer->len + len) + 64;
        writer->bytes = realloc(writer->bytes, writer->room);
        if (!writer->bytes)
            abort();
    }
    if (len)
        memcpy(writer->bytes + writer->len, bytes, len);
    writer->len += len;
}

void write_byte(struct trace_writer *writer, unsigned byte)
{
    uint8_t one = (uint8_t)byte;
    write_bytes(writer, &one, 1);
}

static void write_fixed(struct trace_writer *writer, uint64_t value, unsigned len)
{
    for (; len > 0; len--, value >>= 8)
        write_byte(writer, value & 0xFF);
}

void write_number(struct trace_writer *writer, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        write_byte(writer, (value & 0x7F) | 0x80);
    write_byte(writer, (unsigned)value);
}

void write_signed(struct trace_writer *writer, uint64_t value)
{
    write_number(writer, value << 1 ^ (value >> 63 ? UINT64_MAX : 0));
}

void write_string(struct trace_writer *writer, const char *text)
{
    write_number(writer, strlen(text));
    write_bytes(writer, text, strlen(text));
}

void write_file(struct trace_writer *writer, unsigned format)
{
    write_bytes(writer, "WEIR", 4);
    write_fixed(writer, format, 2);
    write_fixed(writer, 0, 2);
}

void write_block(struct trace_writer *writer, unsigned kind)
{
    writer->block = writer->len;
    write_bytes(writer, "WBLK", 4);
    write_byte(writer, kind);
    write_fixed(writer, 0, 15);
    writer->time = writer->stream = writer->address = writer->orders[0] = writer->orders[1] = 0;
}

/* CRC32C, bit by bit, as the page has it. */
static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
    }
    return crc;
}

static void put(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

void write_block_end_as(struct trace_writer *writer, unsigned coding, uint32_t decoded)
{
    uint8_t *head = writer->bytes + writer->block;
    uint32_t stored = (uint32_t)(writer->len - writer->block - 20);
    head[5] = (uint8_t)coding;
    put(head + 8, stored);
    put(head + 12, decoded);
    put(head + 16, ~crc_of(crc_of(~0U, head, 16), head + 20, stored));
}

void write_block_end(struct trace_writer *writer, int packed)
{
    uint32_t decoded = (uint32_t)(writer->len - writer->block - 20);
    unsigned coding = 0;
#ifdef HAVE_ZSTD
    if (packed == WRITE_PACKED) {
        size_t room = ZSTD_compressBound(decoded);
        uint8_t *frame = malloc(room);
        if (!frame)
            abort();
        size_t len = ZSTD_compress(frame, room, writer->bytes + writer->block + 20, decoded, 1);
        writer->len = writer->block + 20;
        write_bytes(writer, frame, len);
        free(frame);
        coding = 1;
    }
#else
    (void)packed;
#endif
    write_block_end_as(writer, coding, decoded);
}

void write_header(struct trace_writer *writer, const char *const *pairs)
{
    size_t count = 0;
    while (pairs[count])
        count++;
    write_block(writer, 1);
    write_number(writer, count / 2);
    for (size_t i = 0; i < count; i++)
        write_string(writer, pairs[i]);
    write_block_end(writer, WRITE_PLAIN);
}

void write_end(struct trace_writer *writer, uint64_t lost)
{
    write_block(writer, 3);
    write_number(writer, lost);
    write_block_end(writer, WRITE_PLAIN);
}

void write_thread(struct trace_writer *writer, uint64_t thread, uint64_t base, uint64_t lost)
{
    write_block(writer, 2);
    write_number(writer, thread);
    write_number(writer, base);
    write_number(writer, lost);
    writer->time = base;
}

void write_event(struct trace_writer *writer, const struct trace_row *row)
{
    unsigned fields = trace_kind_fields(row->kind);
    uint64_t *order = &writer->orders[row->kind == 18 || row->kind == 19];
    write_byte(writer, row->kind);
    write_number(writer, row->time - writer->time);
    write_signed(writer, row->order - *order);
    writer->time = row->time;
    *order = row->order + 1;
    if (row->kind == 18 || row->kind == 19)
        write_signed(writer, row->after - (writer->orders[0] ? writer->orders[0] - 1 : 0));
    if (fields & TRACE_HAS_STREAM) {
        write_signed(writer, row->stream - writer->stream);
        writer->stream = row->stream;
    }
    if (fields & TRACE_HAS_POOL)
        write_number(writer, row->pool);
    if (fields & TRACE_HAS_ADDRESS) {
        write_signed(writer, row->address - writer->address);
        writer->address = row->address;
        write_number(writer, row->size);
        write_number(writer, (row->given ? row->given : row->size) - row->size);
        write_number(writer, row->tag);
        write_number(writer, row->stack);
    }
    if (fields & TRACE_HAS_A)
        write_number(writer, row->a);
    if (fields & TRACE_HAS_B)
        write_number(writer, row->b);
}

void write_pool(struct trace_writer *writer, uint64_t id, uint64_t device, uint64_t flags, const char *name)
{
    write_byte(writer, 1);
    write_number(writer, id);
    write_number(writer, device);
    write_number(writer, flags);
    write_string(writer, name);
}

void write_text(struct trace_writer *writer, unsigned code, uint64_t id, const char *text)
{
    write_byte(writer, code);
    write_number(writer, id);
    write_string(writer, text);
}

void write_module(struct trace_writer *writer, uint64_t id, uint64_t first, uint64_t bytes, const char *path)
{
    write_byte(writer, 5);
    write_number(writer, id);
    write_number(writer, first);
    write_number(writer, bytes);
    write_number(writer, 0);
    write_string(writer, "abcdef");
    write_string(writer, path);
}

void write_line(struct trace_writer *writer, uint64_t id, uint64_t line, const char *function, const char *file)
{
    write_byte(writer, 6);
    write_number(writer, id);
    write_number(writer, line);
    write_string(writer, function);
    write_string(writer, file);
}

void write_stack(struct trace_writer *writer, uint64_t id, const uint64_t *frames)
{
    size_t count = 0;
    uint64_t before = 0;
    while (frames[count])
        count++;
    write_byte(writer, 4);
    write_number(writer, id);
    write_number(writer, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t step = frames[i] - before;
        if (frames[i] >> 32 == 0) {
            write_number(writer, frames[i] << 1 | 1);
            continue;
        }
        write_number(writer, (step << 1 ^ (step >> 63 ? UINT64_MAX : 0)) << 1);
        before = frames[i];
    }
}

static const char *const whole_header[] = {"weir",
                                           "0.1.0",
                                           "pid",
                                           "4711",
                                           "program",
                                           "train",
                                           "rank",
                                           "3",
                                           "started.monotonic",
                                           "5",
                                           "started.real",
                                           "1700000000000000000",
                                           "reason",
                                           "file",
                                           "level",
                                           "all",
                                           "stacks",
                                           "true",
                                           "gpu.0.name",
                                           "Simulated",
                                           "gpu.0.memory",
                                           "85899345920",
                                           "gpu.0.costs",
                                           "weir_costs: 1\ngpu: Simulated\ngrow: 800us/GiB\nmalloc_async: 300ns\n",
                                           "driver",
                                           "0",
                                           "policy",
                                           "defaults.pool: main\nlevel: all\n",
                                           "of.a.newer.weir",
                                           "x",
                                           NULL};

void write_whole(struct trace_writer *writer)
{
    static const uint64_t frames[] = {0x7f0000001234, 7, 0x7f0000000010, 0};
    write_file(writer, 1);
    write_header(writer, whole_header);
    write_thread(writer, 100, 1000, 0);
    write_pool(writer, 1, 0, 0, "main");
    write_pool(writer, 2, 1, 5, "arena");
    write_text(writer, 2, 1, "weights");
    write_text(writer, 3, 1, "step 1");
    write_text(writer, 3, 2, "copies");
    write_module(writer, 1, 0x7f0000000000, 0x10000, "/usr/lib/libexample.so.1");
    write_line(writer, 7, 42, "forward", "/home/me/model.py");
    write_stack(writer, 1, frames);
    write_event(writer, &(struct trace_row){.kind = 37, .time = 1000, .order = 1, .stream = 0xa0, .pool = 1, .a = 2});
    write_event(writer, &(struct trace_row){.kind = 16,
                                            .time = 2000,
                                            .order = 2,
                                            .stream = 0xa0,
                                            .pool = 1,
                                            .address = 0x1000,
                                            .size = 1000,
                                            .given = 1024,
                                            .tag = 1,
                                            .stack = 1});
    write_event(writer, &(struct trace_row){.kind = 35, .time = 2100, .order = 3, .pool = 1, .a = 1024, .b = 4096});
    write_event(
        writer,
        &(struct trace_row){
            .kind = 19, .time = 3000, .order = 0, .stream = 0xa0, .pool = 1, .address = 0x1000, .size = 1000, .given = 1024, .tag = 1});
    write_block_end(writer, WRITE_PACKED);
    write_thread(writer, 200, 2500, 3);
    write_event(writer, &(struct trace_row){.kind = 32, .time = 2500, .order = 4, .pool = 2, .a = 2 << 20, .b = 5000});
    write_event(writer,
                &(struct trace_row){
                    .kind = 18, .time = 3500, .order = 1, .stream = 0xa0, .pool = 1, .address = 0x1000, .size = 900, .given = 1024});
    write_byte(writer, 200); /* of a later version: skipped */
    write_string(writer, "unknown");
    write_event(writer, &(struct trace_row){.kind = 43, .time = 4000, .order = 6, .a = 1});
    write_event(writer, &(struct trace_row){.kind = 42, .time = 4100, .order = 7, .stream = 0xa0, .pool = 1, .a = 1 << 30, .b = 1});
    write_block_end(writer, WRITE_PLAIN);
    write_block(writer, 9); /* of a later version: skipped */
    write_string(writer, "unknown");
    write_block_end(writer, WRITE_PLAIN);
    write_thread(writer, 100, 3900, 0);
    write_event(writer, &(struct trace_row){.kind = 41, .time = 3950, .order = 5, .pool = 1, .a = 0, .b = 100});
    write_event(writer,
                &(struct trace_row){
                    .kind = 17, .time = 5000, .order = 8, .stream = 0xa0, .pool = 1, .address = 0x1000, .size = 900, .given = 1024});
    write_block_end(writer, WRITE_PACKED);
    write_end(writer, 3);
}

void writer_free(struct trace_writer *writer)
{
    free(writer->bytes);
    *writer = (struct trace_writer){0};
}

int trace_data_fd(const void *bytes, size_t len)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
        abort();
    return fd;
}

bool trace_data_open(struct trace *trace, const void *bytes, size_t len)
{
    return trace_open_fd(trace, trace_data_fd(bytes, len), "data.weir");
}
