/* SPDX-License-Identifier: MIT */
/* block.h - the bytes of a trace: numbers, strings and blocks as doc/trace.md has them. Pure; a buffer is its owner's. */
#ifndef WEIR_LIB_TRACE_BLOCK_H
#define WEIR_LIB_TRACE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TRACE_FORMAT 1
#define WEIR__TRACE_FILE_HEADER 8   /* bytes before the first block */
#define WEIR__TRACE_BLOCK_HEADER 20 /* bytes before the content of a block */
#define WEIR__TRACE_CONTENT_MAX (UINT32_C(4) << 20)
#define WEIR__TRACE_STRING_MAX 4096

enum weir__trace_block { WEIR__TRACE_BLOCK_HEAD = 1, WEIR__TRACE_BLOCK_EVENTS = 2, WEIR__TRACE_BLOCK_END = 3 };

/* Content on its way. What does not fit is left out, and `is_full` says so. */
struct weir__trace_bytes {
    uint8_t *bytes;
    size_t len, room;
    bool is_full;
};

void weir__trace_put(struct weir__trace_bytes *out, const void *bytes, size_t len);
void weir__trace_put_long(struct weir__trace_bytes *out, uint64_t number);
/* Most numbers of an event are below 128. */
static inline void weir__trace_put_number(struct weir__trace_bytes *out, uint64_t number)
{
    if (number < 0x80 && out->len < out->room && !out->is_full)
        out->bytes[out->len++] = (uint8_t)number;
    else
        weir__trace_put_long(out, number);
}
static inline void weir__trace_put_signed(struct weir__trace_bytes *out, uint64_t difference)
{
    weir__trace_put_number(out, difference << 1 ^ (0 - (difference >> 63)));
}
/* Of longer ones than `most` bytes the end is left out. */
void weir__trace_put_string(struct weir__trace_bytes *out, const char *text, size_t most);

/* The first bytes of a file. */
void weir__trace_file_header(uint8_t header[static WEIR__TRACE_FILE_HEADER]);

/* The most bytes that a block of so much content takes. */
size_t weir__trace_block_bound(size_t len);
/* Writes a block to `out`, which has weir__trace_block_bound(len) bytes. Returns how many it took. */
size_t weir__trace_block_write(enum weir__trace_block kind, const uint8_t *content, size_t len, uint8_t *out);

uint32_t weir__trace_crc(uint32_t before, const uint8_t *bytes, size_t len);

#endif
