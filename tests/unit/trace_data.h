/* SPDX-License-Identifier: MIT */
/*
 * trace_data.h - writes small traces for tests, by doc/trace.md alone; and opens what was written.
 *
 * A writer belongs to the test, which frees it. It writes whatever it is told to, right or wrong.
 */
#ifndef WEIR_TESTS_TRACE_DATA_H
#define WEIR_TESTS_TRACE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/merge.h"

struct trace_writer {
    uint8_t *bytes;
    size_t len, room;
    size_t block; /* where the one that is being written begins */
    uint64_t time, stream, address, orders[2];
};

/* An event by ids; members that its kind has not are not written. */
struct trace_row {
    unsigned kind;
    uint64_t time, order, after, stream, pool, address, size, given, tag, stack, a, b;
};

enum { WRITE_PLAIN, WRITE_PACKED };

void write_bytes(struct trace_writer *writer, const void *bytes, size_t len);
void write_byte(struct trace_writer *writer, unsigned byte);
void write_number(struct trace_writer *writer, uint64_t value);
void write_signed(struct trace_writer *writer, uint64_t value);
void write_string(struct trace_writer *writer, const char *text);

/* WEIR and the format. */
void write_file(struct trace_writer *writer, unsigned format);
void write_block(struct trace_writer *writer, unsigned kind);
/* Packs the block, if asked to, and completes its header. */
void write_block_end(struct trace_writer *writer, int packed);
/* Completes the header with that coding and size, whatever the content is. */
void write_block_end_as(struct trace_writer *writer, unsigned coding, uint32_t decoded);

/* A whole block with the pairs: key, value, …, NULL. */
void write_header(struct trace_writer *writer, const char *const *pairs);
void write_end(struct trace_writer *writer, uint64_t lost);
/* Begins a block of events of a thread. */
void write_thread(struct trace_writer *writer, uint64_t thread, uint64_t base, uint64_t lost);

void write_event(struct trace_writer *writer, const struct trace_row *row);
void write_pool(struct trace_writer *writer, uint64_t id, uint64_t device, uint64_t flags, const char *name);
void write_text(struct trace_writer *writer, unsigned code, uint64_t id, const char *text);
void write_module(struct trace_writer *writer, uint64_t id, uint64_t first, uint64_t bytes, const char *path);
void write_line(struct trace_writer *writer, uint64_t id, uint64_t line, const char *function, const char *file);
/* Frames: above 2^32 return addresses, below ids of lines; 0 ends them. */
void write_stack(struct trace_writer *writer, uint64_t id, const uint64_t *frames);

/* A trace with two threads, all kinds of definitions, packed blocks if there is zstd, and all that a reader has to know. */
void write_whole(struct trace_writer *writer);

void writer_free(struct trace_writer *writer);

/* A file in memory with these bytes; its descriptor. */
int trace_data_fd(const void *bytes, size_t len);
/* trace_open_fd() of it. */
bool trace_data_open(struct trace *trace, const void *bytes, size_t len);

#endif
